"""BERTScore: greedy matching of contextual token embeddings, and the diversity metric that it gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.cache import Cache
from nlgauge.engine.store import BlobStore
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.embedding import unit
from nlgauge.metrics.score import HigherIs
from nlgauge.models.embedder import Embedder, TokenVectors, load_embedder

_TEXTS_AT_ONCE = 1024
_SIMILARITIES_AT_ONCE = 1 << 24


class Match(NamedTuple):
    """How well two texts match: numbers for one pair, matrices for the pairs of a set."""

    precision: Any
    recall: Any
    f1: Any


def greedy_match(candidate: TokenVectors, reference: TokenVectors) -> Match:
    """Precision, recall and F1 of a candidate against a reference (Zhang et al. 2020, section 3; no idf, no rescaling).

    Each token is matched with the most similar token of the other text. As in the authors' package, special tokens can
    be matched but do not count, and a text without any other token scores 0.
    """
    if candidate.special.all() or reference.special.all():
        return Match(0.0, 0.0, 0.0)
    similar = unit(candidate.vectors.astype(np.float64)) @ unit(reference.vectors.astype(np.float64)).T
    precision = float(similar.max(axis=1)[~candidate.special].mean())
    recall = float(similar.max(axis=0)[~reference.special].mean())
    return Match(precision, recall, float(_f1(precision, recall)))


def match_pairs(texts: Sequence[TokenVectors], *, at_once: int = _SIMILARITIES_AT_ONCE) -> Match:
    """What `greedy_match` gives for all pairs of texts: entry (i, j) has i as the candidate and j as the reference.

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
class BertScoreDiversity(SetMetric):
    """Minus the mean BERTScore F1 over the pairs of a set (greedy matching of contextual token embeddings).

    `layer` is the hidden layer of `model` that the embeddings come from: -1 is the last, k what bert-score calls
    `num_layers=k`. There is no idf (which would make a score depend on the other texts) and no rescaling (which would
    not change an order of systems). An empty text has similarity 0 to every text; one beyond the window is cut there.
    """

    name: ClassVar[str] = "bertscore-div"
    higher_is: ClassVar[HigherIs] = "more diverse"
    paper: ClassVar[str] = "Tevet & Berant 2021, sections 5 and 6.2; Zhang et al. 2020, section 3"
    needs: ClassVar[int] = 2
    costly: ClassVar[bool] = True

    model: str = "minilm"
    layer: int = -1
    long: Literal["cut"] = "cut"

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with the hash of its weights."""
        from nlgauge.models.fetch import model_identity

        return {**super().relevant_options(), "model": model_identity(self.model)}

    def per_set(self, batch: Batch) -> Array:
        """Minus the mean F1 of each set; a set that was measured before comes from disk."""
        texts = batch.sets.texts.to_list()
        sets = [tuple(sorted(texts[a:b])) for a, b in pairwise(batch.sets.offsets)]
        keys = [_key(group, self.layer) for group in sets]
        distinct = dict(zip(keys, sets, strict=True))
        embedder = load_embedder(self.model)
        store = BlobStore(f"bertscore-{embedder.identity.partition('@')[2]}")
        known = store.get_many(list(distinct))
        todo = {key: group for key, group in distinct.items() if key not in known}
        for part in _parts(todo):
            fresh = {key: value.tobytes() for key, value in self._measure(part, embedder).items()}
            store.put_many(fresh.items())
            known |= fresh
        return np.array([np.frombuffer(known[key], np.float64)[0] for key in keys])

    def _measure(self, sets: Mapping[bytes, tuple[str, ...]], embedder: Embedder) -> dict[bytes, Array]:
        texts = list(dict.fromkeys(text.strip() for group in sets.values() for text in group))
        vectors = dict(zip(texts, embedder.token_vectors(texts, layer=self.layer), strict=True))
        return {key: 0.0 - mean_f1([vectors[text.strip()] for text in group]) for key, group in sets.items()}


def mean_f1(texts: Sequence[TokenVectors]) -> Array:
    """The mean F1 over the unordered pairs of a set; F1 is symmetric."""
    f1 = match_pairs(texts).f1
    mean: Array = f1[np.triu_indices(len(texts), k=1)].mean()
    return mean


def _key(texts: tuple[str, ...], layer: int) -> bytes:
    return bytes.fromhex(Cache.key("bertscore-div", msgspec.json.encode([layer, texts])))


def _parts(sets: Mapping[bytes, tuple[str, ...]]) -> Iterator[dict[bytes, tuple[str, ...]]]:
    """Some sets at a time, so that token embeddings of a large chunk need not be in memory together."""
    part: dict[bytes, tuple[str, ...]] = {}
    texts = 0
    for key, group in sets.items():
        part[key] = group
        texts += len(group)
        if texts >= _TEXTS_AT_ONCE:
            yield part
            part, texts = {}, 0
    if part:
        yield part
