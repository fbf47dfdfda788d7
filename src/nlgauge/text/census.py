"""Exact counts of the n-grams of a corpus that may exceed memory; counts merge in any order."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.sources.polars_files import polars_input
from nlgauge.engine.scratch import Scratch, current_scratch
from nlgauge.errors import DataError, OutputError, argument
from nlgauge.text.spilling import Spilling, stack
from nlgauge.text.tokens import TokenTable, fingerprints

_FEWEST_SLICES = 64
_NGRAMS_PER_SLICE = 1 << 24
_RUNS_IN_MEMORY = 128
_SMALL_FILE, _JOINED_BYTES = 2 << 20, 64 << 20
_FEWEST_ROWS = 1 << 16
_MOST_ROW_GROUPS = 1024


@dataclass(frozen=True)
class Run:
    """Fingerprints of one order in memory, partition after partition; `marks` are groups, or empty."""

    offsets: Array
    keys: Array
    marks: Array

    def partitions(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Keys, marks and offsets of partitions first..last-1."""
        low, high = int(self.offsets[first]), int(self.offsets[last])
        return self.keys[low:high], self.marks[low:high], self.offsets[first : last + 1] - low

    def stored(self, scratch: Scratch) -> StoredRun:
        """The same in a new file, in row groups that are small enough for a slice to be read alone."""
        numbers = np.repeat(np.arange(len(self.offsets) - 1, dtype=np.uint16), np.diff(self.offsets))
        columns = {"partition": numbers, "key": self.keys, **({"mark": self.marks} if len(self.marks) else {})}
        place = scratch.new_file().with_suffix(".parquet")
        rows = max(_FEWEST_ROWS, -(-len(self.keys) // _MOST_ROW_GROUPS))
        try:
            with place.open("wb") as file:
                pl.DataFrame(columns).write_parquet(file, compression="uncompressed", row_group_size=rows)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise OutputError(
                f"folder {place.parent}: cannot be written: {getattr(error, 'strerror', '') or error}; free some space "
                f"there and resume with {argument('run')}, or set NLGAUGE_SCRATCH to a folder with more "
                "space, or use a sketch"
            ) from error
        return StoredRun(place)


@dataclass(frozen=True)
class StoredRun:
    """Fingerprints of one order in a Parquet file (`partition`, `key`, `mark`), sorted by partition."""

    file: Path

    def partitions(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Keys, marks and offsets of partitions first..last-1; other row groups are not read."""
        try:
            wanted = pl.col("partition").is_between(first, last - 1)
            frame = pl.scan_parquet(polars_input(str(self.file)), glob=False).filter(wanted).collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(
                f"cannot be read ({str(error).partition(chr(10))[0]}); expected n-grams that this run has written: "
                "delete the folder around it and run again",
                file=str(self.file),
            ) from error
        offsets = np.searchsorted(frame["partition"].to_numpy(), np.arange(first, last + 1, dtype=np.uint16))
        marks = frame["mark"].to_numpy() if "mark" in frame.columns else np.zeros(0, np.uint8)
        return frame["key"].to_numpy(), marks, offsets

    def stored(self, _scratch: Scratch) -> StoredRun:
        """Itself."""
        return self


@dataclass(frozen=True)
class SliceCount:
    """Counts of one slice of the partitions, one row per order; see `Summary`."""

    different: Array
    only: Array
    weighted: Array


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
class Census(Spilling):
    """N-grams of some texts, for several orders.

    With `groups`, texts are distributed over that many groups, so that the effect of leaving one out is known; with
    `counts`, repeats are kept, so that frequencies are known. `counted` holds the counts of all slices if workers have
    already computed them.
    """

    orders: tuple[int, ...]
    totals: Array
    runs: tuple[tuple[Run | StoredRun, ...], ...]
    groups: int = 0
    counts: bool = False
    group_totals: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    counted: tuple[SliceCount, ...] = ()

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
        totals, runs, by_group = [], [], []
        for n, keys, lanes_b in fingerprints(tokens, max(orders)):
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
        runs = tuple(a + b for a, b in zip(self.runs, other.runs, strict=True))
        totals, by_group = self.totals + other.totals, self.group_totals + other.group_totals
        return Census(self.orders, totals, runs, self.groups, self.counts, by_group)._trimmed()

    def _bytes_in_memory(self) -> int:
        live = (run for runs in self.runs for run in runs if isinstance(run, Run))
        return sum(run.keys.nbytes + run.marks.nbytes for run in live)

    def _trimmed(self) -> Census:
        """Spilled when too much is in memory; with its runs joined when they are many and small."""
        trimmed = super()._trimmed()
        many = trimmed is self and max(map(len, self.runs)) > _RUNS_IN_MEMORY
        return replace(self, runs=tuple(map(self._join, self.runs))) if many else trimmed

    def spilled(self) -> Census:
        """The same census with its in-memory runs moved to one file per order; unchanged outside a run."""
        scratch = current_scratch()
        if scratch is None:
            return self
        joined = map(self._join, self.runs)
        return replace(self, runs=tuple(tuple(run.stored(scratch) for run in runs) for runs in joined))

    def compact(self) -> Census:
        """The same with small files joined, since every slice is read from every file; unchanged outside a run."""
        scratch = current_scratch()
        if scratch is None:
            return self
        with ThreadPoolExecutor(2) as pool:
            return replace(self, runs=tuple(pool.map(lambda runs: self._compacted(runs, scratch), self.runs)))

    def _compacted(self, runs: tuple[Run | StoredRun, ...], scratch: Scratch) -> tuple[Run | StoredRun, ...]:
        sizes = {run: run.file.stat().st_size for run in runs if isinstance(run, StoredRun)}
        small = [run for run, size in sizes.items() if size <= _SMALL_FILE]
        kept: list[Run | StoredRun] = [run for run in runs if isinstance(run, Run) or sizes[run] > _SMALL_FILE]
        while small:
            some, held = list[StoredRun](), 0
            while small and held < _JOINED_BYTES:
                held += sizes[small[-1]]
                some.append(small.pop())
            kept += some if len(some) == 1 else [self._one(some).stored(scratch)]
        return tuple(kept)

    def _join(self, runs: tuple[Run | StoredRun, ...]) -> tuple[Run | StoredRun, ...]:
        """Runs in files, and all those in memory as one."""
        kept = tuple(run for run in runs if isinstance(run, StoredRun))
        live = [run for run in runs if isinstance(run, Run)]
        return (*kept, self._one(live)) if live else kept

    def _one(self, runs: Sequence[Run | StoredRun]) -> Run:
        from nlgauge.text import corpus_kernels as kernels

        keys, marks, offsets = kernels.join_runs(*stack(runs, 0, kernels.PARTITIONS))
        if not self.groups and not self.counts:
            keys, offsets = kernels.drop_repeats(keys, offsets)
        return Run(offsets, keys, marks)

    @property
    def slices(self) -> int:
        """The number of slices for counting; it grows with the number of n-grams."""
        from nlgauge.text import corpus_kernels as kernels

        slices = _FEWEST_SLICES
        while slices < kernels.PARTITIONS and self.totals.max() > slices * _NGRAMS_PER_SLICE:
            slices *= 2
        return slices

    def count_slice(self, number: int) -> SliceCount:
        """Count the n-grams of one slice of the partitions: slices do not share any n-gram."""
        from nlgauge.text import corpus_kernels as kernels

        width = kernels.PARTITIONS // self.slices
        found: list[tuple[int, Array, float]] = []
        for runs in self.runs:
            keys, marks, starts, ends = stack(runs, number * width, (number + 1) * width)
            if self.groups or self.counts:
                found.append(kernels.count_everything(keys, marks, starts, ends, self.groups))
            else:
                found.append((kernels.count_different(keys, starts, ends), np.zeros(0, np.int64), 0.0))
        different, only, weighted = zip(*found, strict=True)
        return SliceCount(np.array(different), np.stack(only), np.array(weighted))

    def summarise(self) -> list[Summary]:
        """Totals and numbers of different n-grams, one summary per order."""
        slices = self.counted
        if not slices:
            with ThreadPoolExecutor(2) as pool:
                slices = tuple(pool.map(self.count_slice, range(self.slices)))
        return [
            Summary(
                int(self.totals[order]),
                int(sum(part.different[order] for part in slices)),
                float(np.sum([part.weighted[order] for part in slices])),
                self.group_totals[order],
                np.sum([part.only[order] for part in slices], axis=0),
            )
            for order in range(len(self.orders))
        ]


@dataclass(frozen=True)
class Sketch:
    """Approximate census in one pass and constant memory: HyperLogLog registers, one row per order."""

    orders: tuple[int, ...]
    precision: int
    totals: Array
    registers: Array

    @classmethod
    def of(cls, tokens: TokenTable, orders: Sequence[int], precision: int) -> Sketch:
        """Sketch the n-grams of these texts."""
        from nlgauge.text import corpus_kernels as kernels

        registers = np.zeros((len(orders), 1 << precision), np.uint8)
        totals = np.zeros(len(orders), np.int64)
        for n, keys, lanes_b in fingerprints(tokens, max(orders)):
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
        """Totals (exact) and estimated numbers of different n-grams, one summary per order."""
        from nlgauge.text.sketch import estimate

        return [
            Summary(int(total), min(float(total), estimate(row)))
            for total, row in zip(self.totals, self.registers, strict=True)
        ]
