"""How much every text of a corpus shares with the others, for a corpus that need not fit in memory.

Time is linear in the number of n-grams. Memory holds `Scratch.memory_bytes` of occurrences before they go to disk, then
a slice of the partitions at a time, and the different n-grams of one partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.scratch import Scratch, current_scratch
from nlgauge.text.spilling import Kept, append, bytes_in_memory, piece, spill
from nlgauge.text.tokens import TokenTable

_RUNS_IN_MEMORY = 128
_SLICE = 4 << 20
_JOINED_APART = 64


@dataclass(frozen=True)
class Occurrences:
    """N-grams of one order, partition after partition: a fingerprint and the number of its text, in order of texts."""

    offsets: Array
    keys: Kept
    texts: Kept

    def partitions(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Keys, texts and offsets of partitions first..last-1."""
        low, high = int(self.offsets[first]), int(self.offsets[last])
        keys, texts = piece(self.keys, low, high, np.uint64), piece(self.texts, low, high, np.uint32)
        return keys, texts, self.offsets[first : last + 1] - low


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
class TextNgrams:
    """N-grams of some texts with the texts that they occur in: mergeable, exact, order does not matter."""

    runs: tuple[TextRun, ...]

    @classmethod
    def of(cls, tokens: TokenTable, highest: int) -> TextNgrams:
        """Take the n-grams of the orders 1 to `highest` of these texts."""
        from nlgauge.text import corpus_kernels as kernels

        numbers = np.arange(len(tokens), dtype=np.uint32)
        keys, lanes_b = np.empty(len(tokens.ids), np.uint64), np.empty(len(tokens.ids), np.uint64)
        orders = []
        for n in range(1, highest + 1):
            kernels.extend(keys, lanes_b, tokens.ids, tokens.offsets, tokens.lanes, n)
            out, texts, offsets = kernels.partition(keys, lanes_b, numbers, tokens.offsets, n)
            orders.append(Occurrences(offsets, out, texts))
        return cls((TextRun(len(tokens), tokens.lengths.astype(np.uint32), tuple(orders)),))._trimmed()

    def __add__(self, other: TextNgrams) -> TextNgrams:
        return TextNgrams(self.runs + other.runs)._trimmed()

    def __len__(self) -> int:
        return sum(run.size for run in self.runs)

    def __getstate__(self) -> dict[str, Any]:
        """What is large travels between processes as file names."""
        return self.spilled().__dict__ if self._bytes_in_memory() > 1 << 20 else self.__dict__

    def _bytes_in_memory(self) -> int:
        return sum(run.bytes_in_memory for run in self.runs)

    def _trimmed(self) -> TextNgrams:
        """Spilled when too much is in memory; with its runs joined when they are many and small."""
        scratch = current_scratch()
        if scratch and self._bytes_in_memory() > scratch.memory_bytes:
            return self.spilled()
        return self._joined(None) if sum(run.is_live for run in self.runs) > _RUNS_IN_MEMORY else self

    def spilled(self) -> TextNgrams:
        """The same with its runs in memory moved to files, as one; unchanged outside a run."""
        scratch = current_scratch()
        return self if scratch is None else self._joined(scratch)

    def _joined(self, scratch: Scratch | None) -> TextNgrams:
        """The same with one run, in memory or in files, in place of all those in memory."""
        live = [run for run in self.runs if run.is_live]
        kept = tuple(run for run in self.runs if not run.is_live)
        return TextNgrams((*kept, _join(live, scratch))) if live else self

    def matches(self, slice_size: int = _SLICE) -> Iterator[tuple[Array, Array]]:
        """For every run, the lengths of its texts and their clipped matches with all other texts, a row an order.

        About `slice_size` occurrences are looked at together; a partition with more is read run by run.
        """
        hits = [_Hits.of(self.runs) for _ in self.runs[0].orders]
        with ThreadPoolExecutor(2) as pool:
            orders = range(len(hits))
            list(pool.map(lambda order: _find_hits(self.runs, order, hits[order], slice_size), orders))
        for number, run in enumerate(self.runs):
            yield run.all_lengths(), np.stack([found.counts(number) for found in hits])

    def lengths(self) -> tuple[Array, Array]:
        """The different lengths of texts in tokens, sorted, and how many texts have each."""
        known, often = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for run in self.runs:
            more, counts = np.unique(run.all_lengths(), return_counts=True)
            known, where = np.unique(np.concatenate([known, more]), return_inverse=True)
            often = np.bincount(where, np.concatenate([often, counts])).astype(np.int64)
        return known, often


@dataclass(frozen=True)
class _Hits:
    """Matches of one order on their way back to texts: counts by run, or files of the numbers of matched texts."""

    sizes: tuple[int, ...]
    places: tuple[Kept, ...]

    @classmethod
    def of(cls, runs: tuple[TextRun, ...]) -> _Hits:
        """Nothing matched yet; in files when the runs are."""
        scratch = current_scratch()
        places: list[Kept] = []
        for run in runs:
            places.append(np.zeros(run.size, np.int64) if run.is_live or not scratch else scratch.new_file())
        return cls(tuple(run.size for run in runs), tuple(places))

    def add(self, run: int, texts: Array) -> None:
        """Each of these texts has one match more."""
        place = self.places[run]
        if isinstance(place, Path):
            append(texts, place)
        else:
            np.add.at(place, texts, 1)

    def counts(self, run: int) -> Array:
        """Matches of every text of a run."""
        place = self.places[run]
        if not isinstance(place, Path):
            return place
        texts = np.fromfile(place, np.uint32) if place.exists() else np.zeros(0, np.uint32)
        return np.bincount(texts, minlength=self.sizes[run])


def _find_hits(runs: tuple[TextRun, ...], order: int, hits: _Hits, slice_size: int) -> None:
    from nlgauge.text import match_kernels as kernels

    parts = [run.orders[order] for run in runs]
    bases = np.concatenate([[0], np.cumsum([run.size for run in runs])])[:-1]
    held = np.sum([np.diff(part.offsets) for part in parts], axis=0)
    for first, last in _slices(held, slice_size):
        if held[first] > slice_size:
            _stream(parts, bases, first, hits)
            continue
        keys, texts, starts, ends = _stack(parts, first, last)
        matched = kernels.match_partitions(keys, texts, starts, ends, bases)
        for run in range(len(parts)):
            low, high = starts[run, 0], ends[run, -1]
            hits.add(run, texts[low:high][matched[low:high]])


def _stream(parts: list[Occurrences], bases: Array, partition: int, hits: _Hits) -> None:
    """A partition too large to be held at once, such as that of a very frequent word."""
    from nlgauge.text import match_kernels as kernels

    table, used = kernels.empty_table(), 0
    for part, base in zip(parts, bases, strict=True):
        keys, texts, _ = part.partitions(partition, partition + 1)
        table, used = kernels.tally(table, used, keys, texts, base)
    kernels.settle(table)
    for run, (part, base) in enumerate(zip(parts, bases, strict=True)):
        keys, texts, _ = part.partitions(partition, partition + 1)
        matched = np.zeros(len(keys), np.bool_)
        kernels.match(table, keys, texts, base, matched)
        hits.add(run, texts[matched])


def _slices(held: Array, slice_size: int) -> Iterator[tuple[int, int]]:
    """Neighbouring partitions that together hold no more than a slice; one that holds more stands alone."""
    first, total = 0, 0
    for p, size in enumerate(held):
        if p > first and total + size > slice_size:
            yield first, p
            first, total = p, 0
        total += int(size)
    yield first, len(held)


def _stack(parts: list[Occurrences], first: int, last: int) -> tuple[Array, Array, Array, Array]:
    """Partitions of several runs side by side, with where each begins and ends."""
    pieces = [part.partitions(first, last) for part in parts]
    base = np.concatenate([[0], np.cumsum([len(keys) for keys, _, _ in pieces])])
    starts = np.stack([offsets[:-1] + start for (_, _, offsets), start in zip(pieces, base, strict=False)])
    ends = np.stack([offsets[1:] + start for (_, _, offsets), start in zip(pieces, base, strict=False)])
    return np.concatenate([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces]), starts, ends


def _join(runs: list[TextRun], scratch: Scratch | None) -> TextRun:
    """Runs in memory as one, their texts numbered one after the other; in files, written bit by bit, with a scratch."""
    lengths = np.concatenate([piece(run.lengths, 0, run.size, np.uint32) for run in runs])
    bases = np.concatenate([[0], np.cumsum([run.size for run in runs])])[:-1].astype(np.uint32)
    orders = tuple(
        _join_order([run.orders[order] for run in runs], bases, scratch) for order in range(len(runs[0].orders))
    )
    return TextRun(len(lengths), spill(lengths, scratch) if scratch else lengths, orders)


def _join_order(parts: list[Occurrences], bases: Array, scratch: Scratch | None) -> Occurrences:
    from nlgauge.text import corpus_kernels as kernels

    offsets = np.sum([part.offsets for part in parts], axis=0)
    if scratch is None:
        keys, texts = np.empty(offsets[-1], np.uint64), np.empty(offsets[-1], np.uint32)
    else:
        files = scratch.new_file(), scratch.new_file()
    width = kernels.PARTITIONS // _JOINED_APART
    for first in range(0, kernels.PARTITIONS, width):
        some_keys, some_texts, starts, ends = _stack(parts, first, first + width)
        for base, start, end in zip(bases, starts[:, 0], ends[:, -1], strict=True):
            some_texts[start:end] += base
        some_keys, some_texts, _ = kernels.join_runs(some_keys, some_texts, starts, ends)
        if scratch is None:
            low, high = offsets[first], offsets[first + width]
            keys[low:high], texts[low:high] = some_keys, some_texts
        else:
            append(some_keys, files[0])
            append(some_texts, files[1])
    return Occurrences(offsets, keys, texts) if scratch is None else Occurrences(offsets, *files)
