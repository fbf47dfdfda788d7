"""Counting the n-grams of a corpus that need not fit in memory: mergeable, exact, order does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.scratch import current_scratch
from nlgauge.errors import OutputError
from nlgauge.text.tokens import TokenTable

_SLICES = 64
_RUNS_IN_MEMORY = 128


@dataclass(frozen=True)
class Run:
    """Fingerprints of one order, partition after partition, in memory or in a file."""

    offsets: Array
    keys: Array | Path
    marks: Array | Path

    def partitions(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Keys, marks and offsets of partitions first..last-1."""
        low, high = int(self.offsets[first]), int(self.offsets[last])
        offsets = self.offsets[first : last + 1] - low
        return _part(self.keys, low, high, np.uint64), _part(self.marks, low, high, np.uint8), offsets


def _part(values: Array | Path, low: int, high: int, dtype: type[Any]) -> Array:
    if isinstance(values, Path):
        return np.fromfile(values, dtype, high - low, offset=low * np.dtype(dtype).itemsize)
    return values[low:high] if len(values) else values


@dataclass(frozen=True)
class Summary:
    """What a census found for one order.

    `total` n-grams, `different` ones, the sum of count * log2(count), and for each group of texts its number of
    n-grams (`group_total`) and of n-grams found nowhere else (`group_only`).
    """

    total: int
    different: float
    weighted: float = 0.0
    group_total: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    group_only: Array = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class Census:
    """N-grams of some texts, for several orders.

    With `groups`, texts are dealt into that many groups so that the effect of leaving one out is known; with `counts`,
    repeats are kept so that frequencies are known.
    """

    orders: tuple[int, ...]
    totals: Array
    runs: tuple[tuple[Run, ...], ...]
    groups: int = 0
    counts: bool = False
    group_totals: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    @classmethod
    def of(
        cls,
        tokens: TokenTable,
        orders: Sequence[int],
        *,
        text_groups: Array | None = None,
        groups: int = 0,
        counts: bool = False,
    ) -> Census:
        """Take the n-grams of these texts."""
        from nlgauge.text import corpus_kernels as kernels

        marks = np.zeros(0, np.uint8) if text_groups is None else text_groups.astype(np.uint8)
        keys, lanes_b = np.empty(len(tokens.ids), np.uint64), np.empty(len(tokens.ids), np.uint64)
        totals, runs, by_group = [], [], []
        for n in range(1, max(orders) + 1):
            kernels.extend(keys, lanes_b, tokens.ids, tokens.offsets, tokens.lanes, n)
            if n not in orders:
                continue
            out, out_marks, offsets = kernels.partition(keys, lanes_b, marks, tokens.offsets, n)
            totals.append(len(out))
            by_group.append(np.bincount(out_marks, minlength=groups) if groups else np.zeros(0, np.int64))
            runs.append((Run(offsets, out, out_marks),))
        return cls(tuple(orders), np.array(totals), tuple(runs), groups, counts, np.array(by_group))._trimmed()

    def __add__(self, other: Census) -> Census:
        if (self.orders, self.groups, self.counts) != (other.orders, other.groups, other.counts):
            raise ValueError("cannot add censuses of different kinds")
        merged = Census(
            self.orders,
            self.totals + other.totals,
            tuple(a + b for a, b in zip(self.runs, other.runs, strict=True)),
            self.groups,
            self.counts,
            self.group_totals + other.group_totals,
        )
        return merged._trimmed()

    def __getstate__(self) -> dict[str, Any]:
        """Large censuses travel between processes as file names."""
        return self.spilled().__dict__ if self._bytes_in_memory() > 1 << 20 else self.__dict__

    def _bytes_in_memory(self) -> int:
        arrays = (part for runs in self.runs for run in runs for part in (run.keys, run.marks))
        return sum(part.nbytes for part in arrays if isinstance(part, np.ndarray))

    def _trimmed(self) -> Census:
        """Spilled when too much is in memory; with its runs joined when they are many and small."""
        scratch = current_scratch()
        if scratch and self._bytes_in_memory() > scratch.memory_bytes:
            return self.spilled()
        if max(map(len, self.runs)) > _RUNS_IN_MEMORY:
            return replace(self, runs=tuple(map(self._join, self.runs)))
        return self

    def spilled(self) -> Census:
        """The same census with its in-memory runs moved to one file an order; unchanged outside a run."""
        return self if current_scratch() is None else replace(self, runs=tuple(map(self._spill, self.runs)))

    def _join(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        live = [run for run in runs if isinstance(run.keys, np.ndarray)]
        kept = tuple(run for run in runs if not isinstance(run.keys, np.ndarray))
        return (*kept, self._merge(live)) if live else kept

    def _spill(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        *kept, joined = self._join(runs)
        keys, marks, scratch = joined.keys, joined.marks, current_scratch()
        if scratch is None or not isinstance(keys, np.ndarray) or not isinstance(marks, np.ndarray):
            return runs
        place = scratch.new_file()
        mark_place = place.with_suffix(".marks")
        try:
            keys.tofile(place)
            if len(marks):
                marks.tofile(mark_place)
        except OSError as error:
            raise OutputError(
                f"scratch folder {place.parent}: cannot be written: {error.strerror or error}; set NLGAUGE_SCRATCH to "
                "a folder with more room, or use a sketch"
            ) from error
        return (*kept, Run(joined.offsets, place, mark_place if len(marks) else marks))

    def _merge(self, runs: list[Run]) -> Run:
        from nlgauge.text import corpus_kernels as kernels

        keys, marks, offsets = kernels.join_runs(*_stack(runs, 0, kernels.PARTITIONS))
        if not self.groups and not self.counts:
            keys, offsets = kernels.drop_repeats(keys, offsets)
        return Run(offsets, keys, marks)

    def summarise(self) -> list[Summary]:
        """Totals and numbers of different n-grams, one summary an order."""
        return [self._summary(position) for position in range(len(self.orders))]

    def _summary(self, position: int) -> Summary:
        from nlgauge.text import corpus_kernels as kernels

        runs = list(self.runs[position])
        width = kernels.PARTITIONS // _SLICES

        def count(first: int) -> tuple[int, Array, float]:
            keys, marks, starts, ends = _stack(runs, first, first + width)
            if self.groups or self.counts:
                return kernels.count_everything(keys, marks, starts, ends, self.groups)
            return kernels.count_different(keys, starts, ends), np.zeros(0, np.int64), 0.0

        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(count, range(0, kernels.PARTITIONS, width)))
        return Summary(
            int(self.totals[position]),
            sum(part[0] for part in parts),
            float(np.sum([part[2] for part in parts])),
            self.group_totals[position],
            np.sum([part[1] for part in parts], axis=0),
        )


@dataclass(frozen=True)
class Sketch:
    """Approximate census in one pass and constant memory: HyperLogLog registers, one row an order."""

    orders: tuple[int, ...]
    precision: int
    totals: Array
    registers: Array

    @classmethod
    def of(cls, tokens: TokenTable, orders: Sequence[int], precision: int) -> Sketch:
        """Sketch the n-grams of these texts."""
        from nlgauge.text import corpus_kernels as kernels

        keys, lanes_b = np.empty(len(tokens.ids), np.uint64), np.empty(len(tokens.ids), np.uint64)
        registers = np.zeros((len(orders), 1 << precision), np.uint8)
        totals = np.zeros(len(orders), np.int64)
        for n in range(1, max(orders) + 1):
            kernels.extend(keys, lanes_b, tokens.ids, tokens.offsets, tokens.lanes, n)
            if n in orders:
                row = orders.index(n)
                kernels.fill_registers(registers[row], keys, lanes_b, tokens.offsets, n, precision)
                totals[row] = np.maximum(tokens.lengths - n + 1, 0).sum()
        return cls(tuple(orders), precision, totals, registers)

    def __add__(self, other: Sketch) -> Sketch:
        if (self.orders, self.precision) != (other.orders, other.precision):
            raise ValueError("cannot add sketches of different kinds")
        registers = np.maximum(self.registers, other.registers)
        return Sketch(self.orders, self.precision, self.totals + other.totals, registers)

    def summarise(self) -> list[Summary]:
        """Totals (exact) and estimated numbers of different n-grams, one summary an order."""
        from nlgauge.text.sketch import estimate

        return [
            Summary(int(total), min(float(total), estimate(row)))
            for total, row in zip(self.totals, self.registers, strict=True)
        ]


def _stack(runs: list[Run], first: int, last: int) -> tuple[Array, Array, Array, Array]:
    parts = [run.partitions(first, last) for run in runs]
    base = np.concatenate([[0], np.cumsum([len(keys) for keys, _, _ in parts])])
    starts = np.stack([offsets[:-1] + start for (_, _, offsets), start in zip(parts, base, strict=False)])
    ends = np.stack([offsets[1:] + start for (_, _, offsets), start in zip(parts, base, strict=False)])
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), starts, ends
