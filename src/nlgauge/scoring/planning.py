"""What scoring will cost, from a sample: time, memory, disk and work for models, before anything is started.

The sample goes through the code that a run goes through, so that nothing has to be known of a metric here. Nothing that
earlier runs remember is counted on: models work on the sample as in a first run.
"""

from __future__ import annotations

import dataclasses
import math
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nlgauge.configured import check_that
from nlgauge.data.reading import Source, Table
from nlgauge.data.sources.chunks import CHUNK_BYTES
from nlgauge.data.sources.files import kept_open
from nlgauge.data.sources.sampling import Piece, Sample, take_sample
from nlgauge.data.tables import Items
from nlgauge.engine import saving
from nlgauge.engine.cache import Cache
from nlgauge.engine.cores import available_cores
from nlgauge.engine.scratch import MEMORY_BYTES, Scratch, scratch_folder
from nlgauge.engine.workers import ordered_map
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.base import Metric
from nlgauge.scoring.by_parts import part_bytes_for
from nlgauge.scoring.collecting import BySystem, CollectChunk, collect_table, merge
from nlgauge.scoring.costs import Estimate, Plan, Room, show_bytes
from nlgauge.stats.inference import Inference

Item = tuple[Piece | Table, int]  # what to collect, and how many texts it has
_SECONDS = 10.0
_GROUPS = 4  # timed one after the other: their spread is the uncertainty
_WARM_UP_ROWS = 16
_CLEARLY = 0.2  # seconds that are no accident
_COPIES = 2  # values of sets are joined in the end
_WITHOUT_CACHE = "NLGAUGE_CACHE"
_SLICE = 1 / 32  # of the n-grams: two slices of 64 are counted at a time
_COUNTING = 4  # times the bytes of a slice: itself, and a hash table that is at most half full


@dataclass(frozen=True)
class PlanOptions:
    """How the run will be made, and how long to try.

    `by_parts` runs (those on Ray, or with a run folder) keep what they find of every part on disk; others do so beyond
    `memory_bytes`. `elsewhere` workers have cores of their own. `started` are the seconds that the program took before
    it came here.
    """

    workers: int = 1
    elsewhere: bool = False
    by_parts: bool = False
    interval: Inference | None = None
    memory_bytes: int = MEMORY_BYTES
    part_bytes: int = 0
    chunk_bytes: int = CHUNK_BYTES
    room: Room | None = None
    seed: int = 12345
    seconds: float = _SECONDS
    started: float = 0.0

    def __post_init__(self) -> None:
        check_that(self.workers >= 1, "workers", self.workers, "one or more")
        if self.seconds <= 0:
            raise OptionError(f"{argument('seconds', f'{self.seconds:g}')} for the sample; expected more than 0")


def plan(sources: Sequence[Source], metrics: Sequence[Metric], options: PlanOptions | None = None) -> Plan:
    """Estimate the cost of scoring these files with these metrics."""
    chosen = options or PlanOptions()
    threads = min(4, available_cores())
    with kept_open(), scratch_folder(sys.maxsize) as scratch, _no_memory_of_models(scratch):
        sample = take_sample(sources, pieces=_GROUPS * threads, seed=chosen.seed)
        return _Trial(tuple(metrics), chosen, sample, scratch, threads).plan()


@contextmanager
def _no_memory_of_models(scratch: Scratch) -> Iterator[None]:
    """Let models start from an empty cache in the scratch folder."""
    before = os.environ.get(_WITHOUT_CACHE)
    os.environ[_WITHOUT_CACHE] = str(scratch.folder / "cache")
    try:
        yield
    finally:
        if before is None:
            del os.environ[_WITHOUT_CACHE]
        else:
            os.environ[_WITHOUT_CACHE] = before


@dataclass(frozen=True)
class _Timed:
    """One timing: texts, seconds on the clock and of all cores."""

    texts: int
    seconds: float
    core_seconds: float


def _collect(metrics: tuple[Metric, ...], grouped: bool, item: Piece | Table) -> BySystem:
    """The work on a piece, as a run does it, or on rows that were read before."""
    if isinstance(item, Piece):
        return CollectChunk(item.source, metrics, grouped, Cache())(item.chunk).systems
    return collect_table(item, metrics, grouped)


class _Trial:
    """The sample on its way through the metrics."""

    def __init__(
        self, metrics: tuple[Metric, ...], options: PlanOptions, sample: Sample, scratch: Scratch, threads: int
    ) -> None:
        self._metrics, self._options, self._sample, self._scratch = metrics, options, sample, scratch
        self._threads = threads
        self._room = options.room or Room.here()
        self._collect = partial(_collect, metrics, options.interval is not None)
        self._merged: BySystem = {}
        self._texts = 0
        self._notes: list[str] = []

    def plan(self) -> Plan:
        """Time, measure, extrapolate."""
        tables = {piece: table for piece in self._sample.pieces if (table := piece.table()) is not None}
        if not tables:
            raise DataError("the sample has no records", file=self._sample.pieces[0].source.name)
        counts = [len(tables[piece].texts) if piece in tables else 0 for piece in self._sample.pieces]
        texts = Estimate(*self._sample.total(counts))
        begun = self._timed([_counted(_rows(next(iter(tables.values())), 0, _WARM_UP_ROWS))])
        begun_finishing = self._finish_seconds()
        timings, half_texts, half = self._timings(tables)
        rate = _rate([(timing.texts, timing.seconds) for timing in timings])
        core_rate = _rate([(timing.texts, timing.core_seconds) for timing in timings])
        finishing = self._finish_seconds()
        finishing_rate = finishing / self._texts
        fixed = self._options.started + begun_finishing + max(0.0, begun.seconds - rate.value * begun.texts)
        times = {
            workers: self._time(workers, texts, fixed, rate if workers == 1 else core_rate, finishing_rate)
            for workers in self._worker_numbers()
        }
        kept, spilled = self._sizes(texts.value, half_texts, half)
        memory, disk = self._memory_and_disk(kept, spilled)
        return Plan(
            texts=texts,
            bytes_on_disk=self._sample.bytes_on_disk,
            counted=self._sample.whole,
            sampled_texts=self._texts,
            fixed_seconds=fixed,
            seconds_per_text=rate.value + finishing_rate,
            seconds=times,
            memory_bytes=memory,
            scratch_bytes=disk,
            calls=self._calls(texts),
            words=Estimate(*self._sample.total([_words(tables.get(piece)) for piece in self._sample.pieces])),
            room=self._room,
            refusals=tuple(self._refusals(memory, disk)),
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _timed(self, items: Sequence[Item]) -> _Timed:
        """Collect, merge, and look at the clock."""
        texts = sum(count for _, count in items)
        clock, cores = time.perf_counter(), time.process_time()
        work = (item for item, _ in items)
        for systems in ordered_map(self._collect, work, processes=1, scratch=self._scratch):
            merge(self._merged, systems)
        self._texts += texts
        return _Timed(texts, time.perf_counter() - clock, time.process_time() - cores)

    def _timings(self, tables: Mapping[Piece, Table]) -> tuple[list[_Timed], int, BySystem]:
        """Timings of groups, and the texts and statistics when half of them were done.

        Whole pieces where the time allows that, as in a run; else the last rows of each.
        """
        affordable = self._options.seconds / self._rough_rate(list(tables.values()))
        self._forget()
        items: list[Item] = [(piece, len(table.texts)) for piece, table in tables.items()]
        share = affordable / sum(count for _, count in items)
        if share < 1:
            tails = (_rows(table, int(len(table) * (1 - share)), len(table)) for table in tables.values())
            items = [_counted(table) for table in tails]
        size = max(1, min(self._threads, len(items) // 2))
        groups = [items[start : start + size] for start in range(0, len(items), size)]
        timings: list[_Timed] = []
        half_texts, half = 0, BySystem()
        for position, group in enumerate(groups, 1):
            timings.append(self._timed(group))
            if position == len(groups) // 2:
                half_texts, half = self._texts, dict(self._merged)
        return timings, half_texts, half

    def _rough_rate(self, tables: Sequence[Table]) -> float:
        """Seconds a text, from ever more rows until the clock shows something."""
        rows = _WARM_UP_ROWS
        for table in [*tables[1:], tables[0]]:
            timed = self._timed([_counted(_rows(table, 0, rows))])
            if timed.seconds > _CLEARLY or rows >= len(table):
                break
            rows *= 4
        return timed.seconds / timed.texts

    def _forget(self) -> None:
        """Start as if nothing of the sample had been seen."""
        self._merged, self._texts = {}, 0
        for file in self._stores():
            with closing(sqlite3.connect(file)) as database, database:
                database.execute("DELETE FROM entries")

    def _stores(self) -> list[Path]:
        return sorted((self._scratch.folder / "cache" / "stores").glob("*.sqlite"))

    def _finish_seconds(self) -> float:
        """How long it takes to make scores of what was collected."""
        clock = time.perf_counter()
        for all_stats in self._merged.values():
            for metric, stats in zip(self._metrics, all_stats, strict=True):
                try:
                    metric.finish(stats, self._options.interval)
                except DataError as error:
                    self._notes.append(f"the last step of {metric.label} was not timed: on the sample, {error}")
        return time.perf_counter() - clock

    def _worker_numbers(self) -> list[int]:
        most = max(self._options.workers, self._room.cores)
        return sorted({self._options.workers, self._room.cores, *(2**k for k in range(most.bit_length()))})

    def _time(self, workers: int, texts: Estimate, fixed: float, rate: Estimate, finishing_rate: float) -> Estimate:
        """Several workers share the cores, and each starts as the first does; by parts, they share the last step."""
        shared = 1 if workers == 1 else workers if self._options.elsewhere else min(workers, self._room.cores)
        last = finishing_rate / (shared if self._options.by_parts else 1)
        seconds = fixed * (1 if workers == 1 else 2) + texts.value * (rate.value / shared + last)
        error = math.hypot(texts.value * rate.error, texts.error * rate.value) / shared
        return Estimate(seconds, error)

    def _sizes(self, texts: float, half_texts: int, half: BySystem) -> tuple[float, float]:
        """Bytes of statistics that stay in memory, and of those that may go to disk, over all texts.

        Repeats of n-grams are dropped within what is written at once, so that bytes grow as a power of the texts there:
        the power comes from half of the sample and the whole of it.
        """
        kept, spilled = self._measured(self._merged, "whole")
        kept_half, spilled_half = self._measured(half, "half")
        more = max(1, self._texts - half_texts)
        all_kept = max(0.0, kept - kept_half) / more * texts + kept
        if not spilled:
            return all_kept, 0.0
        growth = math.log(self._texts / half_texts) if half_texts else 0.0
        power = min(1.0, max(0.0, math.log(spilled / spilled_half) / growth)) if growth and spilled_half else 1.0
        at_once = min(texts, self._texts_at_once(texts, spilled / self._texts))
        return all_kept, spilled * (at_once / self._texts) ** power * texts / at_once

    def _texts_at_once(self, texts: float, bytes_per_text: float) -> float:
        """How many texts' n-grams are written together: those of a part, of a chunk, or of what memory may hold."""
        if not self._options.by_parts and self._options.workers == 1:
            return max(1.0, self._options.memory_bytes / bytes_per_text)
        on_disk = self._sample.bytes_on_disk
        size = self._options.chunk_bytes
        if self._options.by_parts:
            size = self._options.part_bytes or part_bytes_for(self._metrics, on_disk)
        return max(1.0, texts * size / max(1, on_disk))

    def _measured(self, systems: BySystem, name: str) -> tuple[int, int]:
        kept, spillable = 0, list[Any]()
        for value in _leaves(systems):
            if hasattr(value, "spilled"):
                spillable.append(value)
            else:
                kept += int(value.estimated_size() if isinstance(value, pl.Series) else value.nbytes)
        if not spillable:
            return kept, 0
        folder = self._scratch.folder / name
        folder.mkdir()
        saving.save(spillable, folder)
        return kept, sum(file.stat().st_size for file in folder.iterdir())

    def _memory_and_disk(self, kept: float, spilled: float) -> tuple[int, int]:
        """The most memory that all processes take together, and the most disk."""
        options = self._options
        alone = options.workers == 1 and not options.by_parts
        process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        processes = 1 if options.workers == 1 else options.workers + 1
        counting = spilled * _SLICE * _COUNTING
        memory = process * processes + _COPIES * kept + min(spilled, options.memory_bytes) + counting
        disk = spilled + kept if options.by_parts else 0 if alone and spilled <= options.memory_bytes else spilled
        return int(memory), int(disk)

    def _calls(self, texts: Estimate) -> dict[str, Estimate]:
        """What models worked out and would be remembered; repeats beyond the sample would make it less."""
        found: dict[str, int] = {}
        for file in self._stores():
            with closing(sqlite3.connect(file)) as database:
                (count,) = database.execute("SELECT count(*) FROM entries").fetchone()
            name = file.stem.rpartition("-")[0]
            found[name] = found.get(name, 0) + count
        return {
            name: Estimate(texts.value * count / self._texts, texts.error * count / self._texts)
            for name, count in found.items()
        }

    def _refusals(self, memory: int, disk: int) -> Iterator[str]:
        ways = list(dict.fromkeys(way for metric in self._metrics for way in metric.savings()))
        way = "fewer workers" if self._options.workers > 1 else "a part of the files at a time"
        for what, needed, there, last in (
            ("memory", memory, self._room.memory_bytes, way),
            ("scratch space", disk, self._room.disk_bytes, "NLGAUGE_SCRATCH=FOLDER with more room"),
        ):
            if needed > there:
                advice = ", ".join([*ways, last])
                yield f"needs about {show_bytes(needed)} of {what}; there are {show_bytes(there)}: try {advice}"


def _words(table: Table | None) -> int:
    return 0 if table is None else int(table.texts.str.count_matches(r"\S+").sum())


def _counted(table: Table) -> Item:
    return table, len(table.texts)


def _rows(table: Table, start: int, stop: int) -> Table:
    """Some rows of a table, at least one."""
    start = min(start, len(table) - 1)
    if isinstance(table, Items):
        return Items(table.frame[start:stop], table.explicit_ids)
    return table.select(np.arange(start, min(stop, len(table))))


def _rate(timings: Sequence[tuple[int, float]]) -> Estimate:
    """Seconds a text over all groups, with the spread between groups; half of it either way from a single group."""
    texts, seconds = sum(count for count, _ in timings), sum(spent for _, spent in timings)
    value = seconds / texts
    if len(timings) == 1:
        return Estimate(value, value / 4)
    spread = sum((spent - value * count) ** 2 for count, spent in timings) / (len(timings) - 1)
    return Estimate(value, math.sqrt(len(timings) * spread) / texts)


def _leaves(value: Any) -> Iterator[Any]:
    """Arrays and columns in statistics, and what goes to disk as a whole."""
    if isinstance(value, np.ndarray | pl.Series) or hasattr(value, "spilled"):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _leaves(entry)
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _leaves(entry)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name))
