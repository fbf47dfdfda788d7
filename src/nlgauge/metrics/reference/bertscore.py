"""BERTScore: greedy matching of contextual token embeddings, and the diversity metric that it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import LONG, EncoderDiversity, unit
from nlgauge.metrics.reference.contextual import (
    LAYER,
    ContextualMetric,
    Group,
    WeighedTokens,
    longest_of,
    measured_once,
    token_texts,
    vectors_of_texts,
)
from nlgauge.metrics.reference.references import TextAndReference
from nlgauge.metrics.score import Bounds
from nlgauge.models.encoders.embedder import TokenVectors, load_embedder

_SIMILARITIES_AT_ONCE = 1 << 24


class Match(NamedTuple):
    """How well two texts match: numbers for one pair, matrices for the pairs of a set."""

    precision: Any
    recall: Any
    f1: Any


def weighted_match(candidate: WeighedTokens, reference: WeighedTokens) -> Match:
    """Precision, recall and F1 of a candidate against a reference (Zhang et al. 2020, section 3; no rescaling).

    Each token is matched with the most similar token of the other text. As in the authors' package, special tokens can
    be matched but do not count. Tokens may have weights ("importance weighting").
    """
    similar = candidate.units @ reference.units.T
    precision = float(np.average(similar.max(axis=1), weights=candidate.weights))
    recall = float(np.average(similar.max(axis=0), weights=reference.weights))
    return Match(precision, recall, float(_f1(precision, recall)))


def match_pairs(texts: Sequence[TokenVectors], *, at_once: int = _SIMILARITIES_AT_ONCE) -> Match:
    """What `weighted_match` gives for all pairs of texts, whose tokens weigh the same: (i, j) is i against j.

    A text that has special tokens only scores 0, as in the authors' package.
    All tokens stand in one matrix of similarities, whose columns are reduced text by text to the best match and whose
    rows to the mean; rows are taken in blocks of `at_once` similarities, so that memory stays flat.
    """
    size = len(texts)
    precision = np.zeros((size, size))
    filled = [i for i, text in enumerate(texts) if not text.special.all()]
    if filled:
        lengths = [len(texts[i].special) for i in filled]
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        tokens = unit(np.concatenate([texts[i].vectors for i in filled]).astype(np.float64))
        counts = ~np.concatenate([texts[i].special for i in filled])
        owners = np.repeat(np.arange(len(filled)), lengths)[counts]
        sums = np.zeros((len(filled), len(filled)))
        rows, step = tokens[counts], max(1, at_once // len(tokens))
        for first in range(0, len(rows), step):
            best = np.maximum.reduceat(rows[first : first + step] @ tokens.T, starts, axis=1)
            these = owners[first : first + step]
            begins = np.flatnonzero(np.diff(these, prepend=-1))
            sums[these[begins]] += np.add.reduceat(best, begins, axis=0)
        precision[np.ix_(filled, filled)] = sums / np.bincount(owners)[:, None]
    return Match(precision, precision.T, _f1(precision, precision.T))


def _f1(precision: Any, recall: Any) -> Array:
    total = np.asarray(precision + recall, dtype=np.float64)
    f1: Array = np.divide(2.0 * precision * recall, total, out=np.zeros_like(total), where=total != 0)
    return f1


@dataclass(frozen=True, kw_only=True)
class BertScoreDiversity(EncoderDiversity):
    """Minus the mean BERTScore F1 over the pairs of a set (greedy matching of contextual token embeddings).

    `layer` is the hidden layer of `model` that the embeddings come from: -1 is the last, k what bert-score calls
    `num_layers=k`. There is no idf (which would make a score depend on the other texts) and no rescaling (which would
    not change an order of systems). An empty text has similarity 0 to every text; one beyond the window is cut there.
    """

    name: ClassVar[str] = "bertscore-div"
    bounds: ClassVar[Bounds] = (-1.0, 1.0)
    depends_on_size: ClassVar[bool] = False
    paper: ClassVar[str] = "Tevet & Berant 2021, sections 5 and 6.2; Zhang et al. 2020, section 3"

    layer: int = option(-1, LAYER)
    long: Literal["cut"] = option("cut", LONG)

    def per_set(self, batch: Batch) -> Array:
        """Minus the mean F1 of each set; a set that was measured before comes from disk."""
        sets = [tuple(sorted(texts)) for texts in batch.texts_of_sets]
        return measured_once(load_embedder(self.model), f"{self.name} {self.layer}", sets, self._measure)[:, 0]

    def _measure(self, sets: Sequence[Group]) -> list[Array]:
        vectors = vectors_of_texts(load_embedder(self.model), sets, self.layer)
        matches = (match_pairs([vectors[text.strip()] for text in group]).f1 for group in sets)
        return [0.0 - f1[np.triu_indices(len(f1), k=1)].mean() for f1 in matches]


@dataclass(frozen=True, kw_only=True)
class BertScore(ContextualMetric):
    """BERTScore: greedy matching of the contextual token embeddings of a text and a reference, mean over items.

    `part` is the F1 score, the precision (tokens of the text) or the recall (tokens of the reference). `references`
    says whether the best reference counts or the mean over all. `layer` is the hidden layer of `model`: -1 is the last,
    k what bert-score calls `num_layers=k`. `idf` is a file of texts whose rare tokens weigh more; counting over the
    references at hand, as bert-score does, would make a value depend on its companions. There is no rescaling. A text
    without tokens has no value (0 in bert-score); one beyond the window is cut there.
    """

    name: ClassVar[str] = "bertscore"
    share_bounds: ClassVar[Bounds] = (-1.0, 1.0)
    paper: ClassVar[str] = "Zhang et al. 2020, section 3; OpenMEVA, section 4.1 and Table 11"
    numbers_per_pair: ClassVar[int] = len(Match._fields)

    part: Literal["f1", "precision", "recall"] = option("f1", "F1, the precision (tokens of the text) or the recall.")

    def weighed(self, texts: Sequence[str], tokens: Sequence[TokenVectors]) -> list[WeighedTokens]:
        """All tokens."""
        if self.idf is None:
            return [WeighedTokens.of(one) for one in tokens]
        weights = self.idf_weights(token_texts(self.model, texts, longest_of(tokens)))
        return [WeighedTokens.of(one, each) for one, each in zip(tokens, weights, strict=True)]

    def compare(self, own: WeighedTokens, other: WeighedTokens) -> Match:
        """The text is the candidate."""
        return weighted_match(own, other)

    def of_pairs(self, pairs: Sequence[TextAndReference]) -> Array:
        """The part that was asked for; all are measured together."""
        return self.numbers(pairs)[:, Match._fields.index(self.part)]
