"""MoverScore: what it costs to move the words of a text to those of a reference."""

from __future__ import annotations

import math
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.engine.cache import file_with_hash
from nlgauge.errors import DataError, ModelError
from nlgauge.metrics.base import refuse
from nlgauge.metrics.diversity.embedding import unit
from nlgauge.metrics.reference.contextual import ContextualMetric, TokenTexts, WeighedTokens, longest_of, token_texts
from nlgauge.metrics.reference.references import TextAndReference
from nlgauge.metrics.score import Bounds
from nlgauge.models.encoders.embedder import TokenVectors
from nlgauge.stats.kernels.transport import least_cost


def ngrams(tokens: WeighedTokens, n: int) -> WeighedTokens:
    """N-grams of tokens; a text of fewer than n tokens is one n-gram (Zhao et al. 2019, section 3.1).

    An n-gram weighs as much as its tokens together, and its vector is their weighted mean, scaled to length 1.
    """
    size = len(tokens.weights)
    if n == 1 or size == 0:
        return tokens
    width = min(n, size)
    windows = np.arange(size - width + 1)[:, None] + np.arange(width)
    weights = tokens.weights[windows]
    sums = (weights[:, :, None] * tokens.units[windows]).sum(axis=1)
    return WeighedTokens(unit(sums), weights.sum(axis=1))


def mover_score(one: WeighedTokens, other: WeighedTokens, *, squared: bool = False) -> float:
    """1 minus the earth mover's distance of two texts, whose weights are scaled to sum to 1 each.

    Moving costs the Euclidean distance of the unit vectors, or its square. Neither text may be empty.
    """
    from scipy.spatial.distance import cdist

    ours, theirs = one.weights > 0, other.weights > 0
    costs = cdist(one.units[ours], other.units[theirs], "sqeuclidean" if squared else "euclidean")
    supply, demand = (weights / math.fsum(weights) for weights in (one.weights[ours], other.weights[theirs]))
    distance = least_cost(supply, demand, costs) if np.isfinite(costs).all() else math.nan
    if math.isnan(distance):
        raise ModelError("moverscore: no optimal flow was found; expected unit vectors of finite numbers")
    return 1.0 - distance


@dataclass(frozen=True, kw_only=True)
class MoverScore(ContextualMetric):
    """MoverScore: 1 minus the earth mover's distance between the n-grams of a text and of a reference, mean over items.

    Tokens are contextual embeddings of `layer` of `model`, scaled to length 1; an n-gram (`n`) is the weighted mean of
    its tokens, scaled again. `distance=euclidean` is the paper's and that of the released moverscore_v2; `squared` is
    that of the released moverscore. All tokens weigh the same, or by `idf` in a file of texts. `subwords=first` keeps
    only the first piece of a word and `punctuation=drop` leaves out punctuation, as the released code does; `stop` is a
    file of words to leave out, one per line. Special tokens never count. The released code mixes five layers of a BERT
    for NLI or takes the last of DistilBERT, and counts idf over the texts compared, so that a value depends on its
    companions. A text without tokens has no value; one beyond the window is cut there.
    """

    name: ClassVar[str] = "moverscore"
    share_bounds: ClassVar[Bounds] = (-math.inf, 1.0)
    paper: ClassVar[str] = "Zhao et al. 2019, section 3.1; OpenMEVA, Table 11"

    n: Literal[1, 2] = option(1, "Order of the n-grams that are moved.")
    distance: Literal["euclidean", "squared"] = option("euclidean", "What moving costs: the distance, or its square.")
    subwords: Literal["first", "all"] = option("first", "Keep the first piece of a word, or all pieces.")
    punctuation: Literal["drop", "keep"] = option("drop", "Leave out punctuation, or keep it.")
    stop: str | None = option(None, "File of words to leave out, one per line.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stop is not None:
            object.__setattr__(self, "stop", file_with_hash(self.stop, "stop words"))

    def weighed(self, texts: Sequence[str], tokens: Sequence[TokenVectors]) -> list[WeighedTokens]:
        """N-grams of the tokens that are kept."""
        named = token_texts(self.model, texts, longest_of(tokens))
        found = []
        for one, names, weights in zip(tokens, named, self.idf_weights(named), strict=True):
            kept = self._kept(names, one.special)
            found.append(ngrams(WeighedTokens(unit(one.vectors[kept].astype(np.float64)), weights[kept]), self.n))
        return found

    def compare(self, own: WeighedTokens, other: WeighedTokens) -> tuple[float]:
        """The score."""
        return (mover_score(own, other, squared=self.distance == "squared"),)

    def of_pairs(self, pairs: Sequence[TextAndReference]) -> Array:
        """One number per pair."""
        return self.numbers(pairs)[:, 0]

    def _kept(self, names: TokenTexts, special: Array) -> Array:
        """Numbers of the tokens that count, in order."""
        stop = frozenset() if self.stop is None else _stop_words(file_with_hash(self.stop, "stop words"))
        kept: list[int] = []
        seen = set()
        for number, (token, word) in enumerate(zip(names.tokens, names.words, strict=True)):
            place = int(names.places[number])
            if special[number] or (self.punctuation == "drop" and _is_punctuation(token)):
                continue
            if word in stop or (self.subwords == "first" and place in seen):
                continue
            seen.add(place)
            kept.append(number)
        return np.array(kept, dtype=np.int64)


def _is_punctuation(token: str) -> bool:
    return all(letter in string.punctuation or unicodedata.category(letter)[0] == "P" for letter in token)


@lru_cache(maxsize=2)
def _stop_words(file: str) -> frozenset[str]:
    path = file.rpartition("@")[0]
    try:
        words = frozenset(line.strip().lower() for line in Path(path).read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 text ({error.reason}); expected stop words, one per line", file=path) from error
    refuse("stop", not words - {""}, f"{path}: holds no stop word; expected one per line")
    return words - {""}
