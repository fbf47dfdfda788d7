"""How much every text of a corpus shares with the others, for a corpus that need not fit in memory.

Time is linear in the number of n-grams. Memory holds `Scratch.memory_bytes` of occurrences before they go to disk, then
some neighbouring partitions at a time, and the different n-grams of one partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.scratch import Scratch, current_scratch
from nlgauge.text.spilling import Kept, Spilling, append, bytes_in_memory, piece, spill, stack
from nlgauge.text.tokens import TokenTable, fingerprints, offsets_of

_RUNS_IN_MEMORY = 128
_AT_ONCE = 4 << 20
_JOINED_APART = 64


@dataclass(frozen=True)
class Occurrences:
    """N-grams of one order, partition after partition: a fingerprint and the number of its text, in order of texts."""

    offsets: Kept
    keys: Kept
    texts: Kept

    def edges(self, first: int, last: int) -> Array:
        """Where partitions first..last begin."""
        return piece(self.offsets, first, last + 1, np.int64)

    def partitions(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Keys, texts and offsets of partitions first..last-1."""
        edges = self.edges(first, last)
        low, high = int(edges[0]), int(edges[-1])
        keys, texts = piece(self.keys, low, high, np.uint64), piece(self.texts, low, high, np.uint32)
        return keys, texts, edges - low


@dataclass(frozen=True)
class TextRun:
    """Some texts, numbered from 0: their lengths in tokens, and their n-grams of the orders 1, 2, ..."""

    size: int
    lengths: Kept
    orders: tuple[Occurrences, ...]

    def all_lengths(self) -> Array:
        """Tokens in each text."""
        return piece(self.lengths, 0, self.size, np.uint32).astype(np.int64)

    @property
    def is_live(self) -> bool:
        """Whether it is in memory."""
        return not isinstance(self.lengths, Path)

    @property
    def bytes_in_memory(self) -> int:
        """Bytes that are not in files."""
        arrays = (part for order in self.orders for part in (order.keys, order.texts))
        return bytes_in_memory(self.lengths, *arrays)


@dataclass(frozen=True)
class SliceMatches:
    """The text of each matched n-gram of one slice: those of the first order, run after run, then of the second, ..."""

    offsets: Array
    texts: Kept

    def texts_of(self, place: int) -> Array:
        """The texts of the matches of one order in one run."""
        return piece(self.texts, int(self.offsets[place]), int(self.offsets[place + 1]), np.uint32)

    def spilled(self) -> SliceMatches:
        """The same in a file; unchanged outside a run."""
        scratch = current_scratch()
        return self if scratch is None else SliceMatches(self.offsets, spill(self.texts, scratch))


@dataclass(frozen=True)
class TextNgrams(Spilling):
    """N-grams of some texts with the texts that they occur in: exact, and mergeable in any order.

    `matched` has the matches of all slices of the partitions once they are found.
    """

    runs: tuple[TextRun, ...]
    matched: tuple[SliceMatches, ...] = ()
    slices: ClassVar[int] = 64

    @classmethod
    def of(cls, tokens: TokenTable, highest: int) -> TextNgrams:
        """Take the n-grams of the orders 1 to `highest` of these texts."""
        from nlgauge.text import corpus_kernels as kernels

        numbers = np.arange(len(tokens), dtype=np.uint32)
        orders = []
        for n, keys, lanes_b in fingerprints(tokens, highest):
            out, texts, offsets = kernels.partition(keys, lanes_b, numbers, tokens.offsets, n)
            orders.append(Occurrences(offsets, out, texts))
        return cls((TextRun(len(tokens), tokens.lengths.astype(np.uint32), tuple(orders)),))._trimmed()

    def __add__(self, other: TextNgrams) -> TextNgrams:
        return TextNgrams(self.runs + other.runs)._trimmed()

    def _bytes_in_memory(self) -> int:
        return sum(run.bytes_in_memory for run in self.runs)

    def _trimmed(self) -> TextNgrams:
        """Spilled when too much is in memory; with its runs joined when they are many and small."""
        trimmed = super()._trimmed()
        many = trimmed is self and sum(run.is_live for run in self.runs) > _RUNS_IN_MEMORY
        return self._joined(None) if many else trimmed

    def spilled(self) -> TextNgrams:
        """The same with its runs in memory moved to files, as one; unchanged outside a run."""
        scratch = current_scratch()
        return self if scratch is None else self._joined(scratch)

    def _joined(self, scratch: Scratch | None) -> TextNgrams:
        """The same with one run, in memory or in files, in place of all those in memory."""
        live = [run for run in self.runs if run.is_live]
        kept = tuple(run for run in self.runs if not run.is_live)
        return TextNgrams((*kept, _join(live, scratch))) if live and not self.matched else self

    def match_slice(self, number: int, at_once: int = _AT_ONCE) -> SliceMatches:
        """Find the matched n-grams of one slice of the partitions: slices do not share any n-gram.

        About `at_once` occurrences are looked at together; a partition with more is read run by run.
        """
        from nlgauge.text.corpus_kernels import PARTITIONS

        width = PARTITIONS // self.slices
        bases = offsets_of([run.size for run in self.runs])[:-1]
        found: list[Array] = []
        for order in range(len(self.runs[0].orders)):
            parts = [run.orders[order] for run in self.runs]
            found += _matched_texts(parts, bases, number * width, (number + 1) * width, at_once)
        matches = SliceMatches(offsets_of([len(texts) for texts in found]), np.concatenate(found))
        scratch = current_scratch()
        large = scratch is not None and bytes_in_memory(matches.texts) * self.slices > scratch.memory_bytes // 4
        return matches.spilled() if large else matches

    def matches(self, number: int) -> tuple[Array, Array]:
        """The lengths of the texts of one run, and their clipped matches with all other texts, one row per order."""
        run = self.runs[number]
        places = range(number, number + len(run.orders) * len(self.runs), len(self.runs))
        texts = (np.concatenate([part.texts_of(place) for part in self.matched]) for place in places)
        return run.all_lengths(), np.stack([np.bincount(some, minlength=run.size) for some in texts])

    def lengths(self) -> tuple[Array, Array]:
        """The different lengths of texts in tokens, sorted, and how many texts have each."""
        known, often = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for run in self.runs:
            more, counts = np.unique(run.all_lengths(), return_counts=True)
            known, where = np.unique(np.concatenate([known, more]), return_inverse=True)
            often = np.bincount(where, np.concatenate([often, counts])).astype(np.int64)
        return known, often


def _matched_texts(parts: list[Occurrences], bases: Array, first: int, last: int, at_once: int) -> list[Array]:
    """For every run, the text of each matched occurrence in partitions first..last-1 of one order."""
    from nlgauge.text import match_kernels as kernels

    found: list[list[Array]] = [[] for _ in parts]
    held = np.sum([np.diff(part.edges(first, last)) for part in parts], axis=0)
    for start, stop in _neighbours(held, at_once):
        if held[start] > at_once:
            more = _stream(parts, bases, first + start)
        else:
            keys, texts, starts, ends = stack(parts, first + start, first + stop)
            matched = kernels.match_partitions(keys, texts, starts, ends, bases)
            spans = zip(starts[:, 0], ends[:, -1], strict=True)
            more = [texts[low:high][matched[low:high]] for low, high in spans]
        for run, some in zip(found, more, strict=True):
            run.append(some)
    return [np.concatenate(some) for some in found]


def _stream(parts: list[Occurrences], bases: Array, partition: int) -> list[Array]:
    """A partition too large to be held at once, such as that of a very frequent word."""
    from nlgauge.text import match_kernels as kernels

    table, used = kernels.empty_table(), 0
    for part, base in zip(parts, bases, strict=True):
        keys, texts, _ = part.partitions(partition, partition + 1)
        table, used = kernels.tally(table, used, keys, texts, base)
    kernels.settle(table)
    found = []
    for part, base in zip(parts, bases, strict=True):
        keys, texts, _ = part.partitions(partition, partition + 1)
        matched = np.zeros(len(keys), np.bool_)
        kernels.match(table, keys, texts, base, matched)
        found.append(texts[matched])
    return found


def _neighbours(held: Array, at_once: int) -> Iterator[tuple[int, int]]:
    """Groups of neighbouring partitions with at most `at_once` occurrences; a larger partition forms its own group."""
    first, total = 0, 0
    for p, size in enumerate(held):
        if p > first and total + size > at_once:
            yield first, p
            first, total = p, 0
        total += int(size)
    yield first, len(held)


def _join(runs: list[TextRun], scratch: Scratch | None) -> TextRun:
    """Runs in memory as one, with texts numbered consecutively; written to files in pieces if there is a scratch."""
    lengths = np.concatenate([piece(run.lengths, 0, run.size, np.uint32) for run in runs])
    bases = offsets_of([run.size for run in runs])[:-1].astype(np.uint32)
    orders = tuple(
        _join_order([run.orders[order] for run in runs], bases, scratch) for order in range(len(runs[0].orders))
    )
    return TextRun(len(lengths), spill(lengths, scratch) if scratch else lengths, orders)


def _join_order(parts: list[Occurrences], bases: Array, scratch: Scratch | None) -> Occurrences:
    from nlgauge.text import corpus_kernels as kernels

    offsets = np.sum([part.edges(0, kernels.PARTITIONS) for part in parts], axis=0)
    if scratch is None:
        keys, texts = np.empty(offsets[-1], np.uint64), np.empty(offsets[-1], np.uint32)
    else:
        files = scratch.new_file(), scratch.new_file()
    width = kernels.PARTITIONS // _JOINED_APART
    for first in range(0, kernels.PARTITIONS, width):
        some_keys, some_texts, starts, ends = stack(parts, first, first + width)
        for base, start, end in zip(bases, starts[:, 0], ends[:, -1], strict=True):
            some_texts[start:end] += base
        some_keys, some_texts, _ = kernels.join_runs(some_keys, some_texts, starts, ends)
        if scratch is None:
            low, high = offsets[first], offsets[first + width]
            keys[low:high], texts[low:high] = some_keys, some_texts
        else:
            append(some_keys, files[0])
            append(some_texts, files[1])
    return Occurrences(offsets, keys, texts) if scratch is None else Occurrences(spill(offsets, scratch), *files)
