"""Sets of equally long texts, drawn from a corpus or from the designated distribution, and their scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.diversity.ngram import Distinct, ExpectationAdjustedDistinct
from nlgauge.metrics.orders import Orders

SCORES = ("distinct", "ead")
_CORPUS, _DESIGNATED = 0, 1
_SUGGESTED_LENGTHS = 10
LARGEST_VOCABULARY = 10**9


@dataclass(frozen=True)
class EqualSets:
    """How sets of equally long texts are drawn, and their scores.

    Every length has a generator of its own, so that its sets do not depend on which other lengths there are. Scores
    have one row for each of `SCORES` and one column per set. The designated distribution is over `words` words.
    """

    ead: ExpectationAdjustedDistinct
    size: int
    count: int
    seed: int

    @property
    def n(self) -> int:
        """The order of n-grams."""
        return self.ead.n[0]

    @cached_property
    def words(self) -> float:
        """How many words the designated distribution is over."""
        return (self.ead if self.n == 1 else replace(self.ead, n=Orders(1))).possible(1)

    @cached_property
    def distinct(self) -> Distinct:
        """Distinct on the same tokens."""
        return Distinct(n=self.ead.n, over="corpus", tok=self.ead.tok, case=self.ead.case)

    def from_corpus(self, ids: Array) -> Array:
        """Scores of sets of these texts: token numbers, one row per text."""
        generator = np.random.default_rng([self.seed, ids.shape[1], _CORPUS])
        draws = (generator.choice(len(ids), self.size, replace=False, shuffle=False) for _ in range(self.count))
        return self._scores(ids[rows] for rows in draws)

    def from_designated(self, length: int) -> Array:
        """Scores of sets of texts of this length from the designated distribution."""
        generator = np.random.default_rng([self.seed, length, _DESIGNATED])
        return self._scores(draw_designated(generator, (self.size, length), self.words) for _ in range(self.count))

    def _scores(self, sets: Iterable[Array]) -> Array:
        counts = np.array([(count_different(ids, self.n), len(ids) * (ids.shape[1] - self.n + 1)) for ids in sets])
        different, total = counts[:, 0], counts[:, 1]
        return np.stack([metric.of_counts(different, total, self.n) for metric in (self.distinct, self.ead)])


def count_different(ids: Array, n: int) -> int:
    """Different n-grams of equally long texts: token numbers, one row per text."""
    from nlgauge.text.set_kernels import rank_ngrams

    texts, length = ids.shape
    offsets = np.arange(texts + 1, dtype=np.int64) * length
    different = rank_ngrams(ids.astype(np.int32, copy=False).ravel(), offsets, np.array([0, texts]), n)[1]
    return int(different[n - 1, 0])


@dataclass(frozen=True)
class TextPool:
    """The texts of a corpus by length, sorted, so that their order in the file does not matter."""

    ids: Array
    offsets: Array
    counts: dict[int, int]

    @classmethod
    def of(cls, texts: pl.Series, using: EqualSets, lengths: Sequence[int]) -> TextPool:
        """Texts of these lengths; of all lengths where none are given."""
        table = using.ead.tokenizer(texts.sort())
        low, high = lengths or (using.n, max(int(table.lengths.max()), using.n))
        values, counts = np.unique(table.lengths, return_counts=True)
        kept = {int(v): int(c) for v, c in zip(values, counts, strict=True) if low <= v <= high}
        return cls(table.ids, table.offsets, kept)

    def ids_of(self, length: int) -> Array:
        """Token numbers of all texts of this length, one row per text."""
        starts = self.offsets[:-1][np.diff(self.offsets) == length]
        found: Array = self.ids[starts[:, None] + np.arange(length)]
        return found

    def lengths_with(self, size: int, task: str) -> list[int]:
        """Lengths that at least so many texts have."""
        usable = [length for length, count in self.counts.items() if count >= size]
        if len(usable) >= 2:
            return usable
        common = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        seen = ", ".join(f"{length} tokens ({count:,} texts)" for length, count in common[:5])
        advice = "expected texts of different lengths"
        if (many := min(len(common), _SUGGESTED_LENGTHS)) >= 2:
            advice = f"{argument('texts_per_set', common[1][1])} would leave 2 lengths"
        if many > 2:
            advice += f", {argument('texts_per_set', common[many - 1][1])} at least {many}"
        raise DataError(
            f"{len(usable)} lengths have at least {size:,} texts, and a slope needs 2; the most common lengths "
            f"are {seen or 'too short or not asked for'}; {advice}",
            file=task or None,
        )

    def notes(self, usable: Sequence[int], size: int, task: str) -> list[str]:
        """How many texts there were."""
        held = [self.counts[length] for length in usable]
        share = sum(held) / (len(self.offsets) - 1)
        where = f" of {task}" if task else ""
        notes = [
            f"{len(usable)} of {len(self.counts)} lengths{where}, from {usable[0]} to {usable[-1]} tokens, have enough "
            f"texts, {min(held):,} to {max(held):,} each, {share:.0%} of all texts"
        ]
        if exact := [str(length) for length in usable if self.counts[length] == size]:
            notes.append(
                f"length {', '.join(exact)}{where} has exactly {size:,} texts: all its sets are the same, and "
                "their standard deviation says nothing"
            )
        return notes


def draw_designated(generator: np.random.Generator, shape: tuple[int, ...], vocabulary: float) -> Array:
    """Word numbers drawn independently with P(X = k) = integral from 0 to v of lambda^k e^-lambda / (v k!) d lambda.

    That is, lambda is uniform on (0, v) and X is Poisson(lambda). Words up to about v have almost equal probability
    1 / v; the probability of larger numbers falls to 0 within a few times the square root of v.
    """
    if not 0 < vocabulary <= LARGEST_VOCABULARY:
        raise OptionError(
            f"a vocabulary of {vocabulary:g} words; the designated distribution takes 1 to {LARGEST_VOCABULARY:,}"
        )
    rates = generator.uniform(0.0, vocabulary, shape)
    return generator.poisson(rates).astype(np.int32)
