"""Interpolated modified Kneser-Ney smoothing (Chen & Goodman 1999, section 3), vectorised.

Equation numbers are those of the longer report, TR-10-98 of Harvard University.

Symbols are small integers: 0 to vocabulary - 1 can be predicted; `vocabulary` itself may only begin a text. An n-gram
is identified by its rank among the different n-grams of its length; its key is made of the rank of its first n-1
symbols and its last symbol, so that keys of any length fit in 64 bits and every look-up is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from nlgauge.arrays import Array

# For lengths whose counts of counts give no usable discounts; the values of KenLM's `--discount_fallback`.
FALLBACK = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class NgramCounts:
    """The different n-grams of a corpus, n = 1..order, and how often each occurs: `keys[n-1]` (sorted), `counts[n-1]`.

    The rank of an n-gram is the index of its key; a single symbol is its own rank.
    """

    vocabulary: int
    keys: tuple[Array, ...]
    counts: tuple[Array, ...]

    @classmethod
    def of(cls, symbols: Array, offsets: Array, vocabulary: int, order: int) -> NgramCounts:
        """Count the n-grams of concatenated texts, text i in `symbols[offsets[i]:offsets[i+1]]`."""
        remaining = _remaining(offsets)
        ranks = symbols.astype(np.int64)
        starts = np.arange(len(symbols))
        keys, counts = [np.arange(vocabulary + 1)], [np.bincount(symbols, minlength=vocabulary + 1)]
        for n in range(2, order + 1):
            starts = starts[remaining[starts] >= n]
            different, inverse, count = np.unique(
                ranks[starts] * vocabulary + symbols[starts + n - 1], return_inverse=True, return_counts=True
            )
            ranks[starts] = inverse
            keys.append(different)
            counts.append(count)
        return cls(vocabulary, tuple(keys), tuple(counts))

    @classmethod
    def from_frame(cls, frame: pl.DataFrame, order: int) -> NgramCounts:
        """The counts from a frame of `to_frame`."""
        parts = [frame.filter(pl.col("order") == n) for n in range(1, order + 1)]
        keys, counts = (tuple(part[name].to_numpy() for part in parts) for name in ("key", "count"))
        return cls(len(parts[0]) - 1, keys, counts)

    def to_frame(self) -> pl.DataFrame:
        """One row per n-gram, the shortest first, in the order of their keys."""
        sizes = [len(keys) for keys in self.keys]
        return pl.DataFrame(
            {
                "order": np.repeat(np.arange(1, self.order + 1, dtype=np.uint8), sizes),
                "key": np.concatenate(self.keys),
                "count": np.concatenate(self.counts),
            }
        )

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.keys)

    @cached_property
    def contexts(self) -> tuple[Array, ...]:
        """For every n-gram the rank of its first n-1 symbols; a single symbol has the empty context, 0."""
        return (np.zeros_like(self.keys[0]), *(keys // self.vocabulary for keys in self.keys[1:]))

    @cached_property
    def tails(self) -> tuple[Array, ...]:
        """For every n-gram the rank of its last n-1 symbols; 0 for a single symbol."""
        tails = [np.zeros_like(self.keys[0])]
        for n in range(2, self.order + 1):
            last = self.keys[n - 1] % self.vocabulary
            tails.append(last if n == 2 else self.find(n - 1, tails[-1][self.contexts[n - 1]], last))
        return tuple(tails)

    def find(self, n: int, contexts: Array, symbols: Array) -> Array:
        """Ranks of n-grams, n > 1, from the ranks of their first n-1 symbols and their last; -1 if unseen."""
        known = self.keys[n - 1]
        if not len(known):
            return np.full(len(contexts), -1)
        wanted = contexts * self.vocabulary + symbols
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where((contexts >= 0) & (known[places] == wanted), places, -1)

    def adjusted(self) -> list[Array]:
        """The counts used for smoothing: in how many different contexts an n-gram occurs, not how often.

        The longest n-grams keep their counts. Shorter ones count the different symbols seen before them, except
        those that begin a text: nothing comes before them, so they keep theirs too (as in KenLM, Heafield et al. 2013).
        """
        starting = self.keys[0] == self.vocabulary
        adjusted = []
        for n in range(1, self.order):
            places = np.bincount(self.tails[n], minlength=len(self.keys[n - 1]))
            adjusted.append(np.where(starting, self.counts[n - 1], places))
            starting = starting[self.contexts[n]]
        adjusted.append(self.counts[-1].copy())
        adjusted[0][self.vocabulary] = 0
        return adjusted


def discounts(counts: Array) -> tuple[float, float, float]:
    """The discounts of n-grams that occur once, twice and more often (equation 26).

    If a small corpus lacks n-grams of some count, or a discount would not be positive, so that unseen words would get
    no probability, fixed discounts are used.
    """
    n1, n2, n3, n4 = (int(n) for n in np.bincount(np.minimum(counts, 5), minlength=6)[1:5])
    if not n1 * n2 * n3 * n4:
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if min(found) > 0 else FALLBACK


class KneserNey:
    """Smoothed probabilities of the n-grams in `counts`.

    For every n-gram that was seen the whole interpolated sum is computed once; for any other, its context backs off
    to the probability given by the next shorter context.
    """

    def __init__(self, counts: NgramCounts) -> None:
        self.counts = counts
        self._seen: list[Array] = []
        self._share: list[Array] = []
        shorter, size = np.array([1.0 / counts.vocabulary]), 1
        for contexts, tails, adjusted in zip(counts.contexts, counts.tails, counts.adjusted(), strict=True):
            taken = np.array((0.0, *discounts(adjusted)))[np.minimum(adjusted, 3)]
            total = np.bincount(contexts, adjusted, size)
            share = np.ones(size)
            np.divide(np.bincount(contexts, taken, size), total, out=share, where=total > 0)
            shorter, size = (adjusted - taken) / total[contexts] + share[contexts] * shorter[tails], len(adjusted)
            self._share.append(share)
            self._seen.append(shorter)

    def probabilities(self, symbols: Array, offsets: Array) -> Array:
        """The probability of every symbol given those before it in its text (concatenated texts, as for counting)."""
        remaining = _remaining(offsets)
        result = self._seen[0][symbols]
        starts, ranks = np.arange(len(symbols)), symbols.astype(np.int64)
        for n in range(2, self.counts.order + 1):
            usable = (ranks >= 0) & (remaining[starts] >= n)
            starts, contexts = starts[usable], ranks[usable]
            targets = starts + n - 1
            ranks = self.counts.find(n, contexts, symbols[targets])
            result[targets] *= self._share[n - 1][contexts]
            seen = ranks >= 0
            result[targets[seen]] = self._seen[n - 1][ranks[seen]]
        return result

    def distribution(self, context: Sequence[int]) -> Array:
        """The probabilities of all symbols after a context, of which the last order - 1 symbols matter."""
        vocabulary = self.counts.vocabulary
        result: Array = self._seen[0][:vocabulary].copy()
        for n in range(2, min(self.counts.order, len(context) + 1) + 1):
            rank = self._rank(context[len(context) - n + 1 :])
            if rank < 0:
                break
            known = self.counts.keys[n - 1]
            first, end = np.searchsorted(known, (rank * vocabulary, (rank + 1) * vocabulary))
            result *= self._share[n - 1][rank]
            result[known[first:end] - rank * vocabulary] = self._seen[n - 1][first:end]
        return result

    def _rank(self, symbols: Sequence[int]) -> int:
        rank = symbols[0]
        for n, symbol in enumerate(symbols[1:], start=2):
            rank = int(self.counts.find(n, np.array([rank]), np.array([symbol]))[0])
        return rank


def _remaining(offsets: Array) -> Array:
    """For every symbol, how many there are from it to the end of its text."""
    return np.repeat(offsets[1:], np.diff(offsets)) - np.arange(offsets[-1])
