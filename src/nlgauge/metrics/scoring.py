"""Scoring files and tables: read, collect chunk by chunk, merge, finish."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.chunks import CHUNK_BYTES, Chunk
from nlgauge.data.files import STDIN
from nlgauge.data.frames import is_frame, read_frame
from nlgauge.data.reading import Source, Table
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.engine.cache import Cache, file_digest
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.scratch import MEMORY_BYTES, Scratch, scratch_folder
from nlgauge.engine.workers import available_cores, ordered_map
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric, SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.column import ColumnMetric
from nlgauge.metrics.registry import create_metrics
from nlgauge.metrics.score import Interval, RowKeys, Score

BySystem = dict[str, tuple[Any, ...]]
_ENDINGS = re.compile(r"(\.(jsonl?|ndjson|csv|tsv|txt|parquet|arrow|eval))?(\.(gz|zst))?$", re.IGNORECASE)
_WORTH_CACHING = 256 << 10
_ROWS_WORTH_CACHING = 1000
_WORTH_PROCESSES = 512 << 20
_CORES_FOR_THREADS = 4


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run: results do not depend on any of these.

    One process already keeps all cores of a small machine busy with threads; `processes=0` uses several for large files
    on larger ones. `one_set` takes all texts of a file as
    a single set; n-grams of a corpus beyond `memory_bytes` go to disk.
    """

    processes: int = 0
    chunk_bytes: int = CHUNK_BYTES
    cache: bool = True
    progress: bool = False
    one_set: bool = False
    memory_bytes: int = MEMORY_BYTES

    def __post_init__(self) -> None:
        if self.processes < 0:
            raise OptionError(f"{self.processes} processes; expected 0 (automatic) or more")
        if self.chunk_bytes < 1:
            raise OptionError(f"chunks of {self.chunk_bytes} bytes; expected a positive size")


def score(
    data: Any,
    metrics: str | Sequence[str | Metric] = ("distinct",),
    *,
    interval: Interval | None = None,
    interval_alone: bool = True,
    run: RunOptions | None = None,
    **reading: Any,
) -> list[Score]:
    """Score data with metrics: for each system found, one score a metric.

    `data` is a file name, a `Source`, a `ResponseSets`, an `Items`, a frame of Polars, pandas or Arrow, lists of texts,
    or a list of file names or sources (each a system of its own). Metrics are written as on the command line
    (`"distinct:n=2"`, the bundle `"dialog"`), as signatures, or made with their classes. With `interval_alone=False`
    intervals are made only where several systems are found. Further options are those of `nlgauge.data.Source`.

    >>> score([["yes", "no", "maybe"]], ["distinct:variant=reference"])[0].value
    0.2
    """
    made = tuple(create_metrics(metrics))
    if not made:
        raise OptionError("no metric was named; try distinct, or see `nlgauge metrics`")
    seen = [str(metric.signature) for metric in made]
    if twice := {signature for signature in seen if seen.count(signature) > 1}:
        raise OptionError(f"the same metric stands twice: {min(twice)}")
    options = run or RunOptions()
    grouped = interval is not None
    if is_frame(data):
        data = read_frame(data, **_with_extras(reading, made))
    with scratch_folder(options.memory_bytes) as scratch:
        if isinstance(data, ResponseSets | Items):
            found, names = [_collect_table(data, made, grouped, options.one_set)], [""]
        else:
            sources = _sources(data, reading, made)
            if sources is None:
                found, names = [_collect_table(ResponseSets.of(data), made, grouped, options.one_set)], [""]
            else:
                names = file_names([source.path for source in sources])
                found = [_score_source(source, made, grouped, options, scratch) for source in sources]
        systems = list(_named(found, names))
        how = interval if interval_alone or len(systems) > 1 else None
        return [
            replace(metric.finish(stats, how), system=system)
            for system, all_stats in systems
            for metric, stats in zip(made, all_stats, strict=True)
        ]


def _sources(data: Any, reading: dict[str, Any], metrics: tuple[Metric, ...]) -> list[Source] | None:
    if isinstance(data, str | Path | Source):
        data = [data]
    if not data:
        raise DataError("nothing to score: the list is empty")
    if not all(isinstance(entry, str | Path | Source) for entry in data):
        if reading:
            raise OptionError(f"'{min(reading)}' is an option for reading files; the data was given in memory")
        return None
    options = _with_extras(reading, metrics)
    return [entry if isinstance(entry, Source) else Source(path=str(entry), **options) for entry in data]


def _with_extras(reading: dict[str, Any], metrics: tuple[Metric, ...]) -> dict[str, Any]:
    """Options for reading that keep no more columns than the metrics ask for."""
    return {"extras": tuple(metric.column for metric in metrics if isinstance(metric, ColumnMetric)), **reading}


def file_names(paths: list[str]) -> list[str]:
    """File names without their endings, or whole paths where those are not enough to tell files apart."""
    stems = ["stdin" if path == STDIN else _ENDINGS.sub("", Path(path).name) or path for path in paths]
    if len(set(paths)) < len(paths):
        raise OptionError(f"{max(paths, key=paths.count)} was named twice; several files are several systems")
    return [stem if stems.count(stem) == 1 else path for stem, path in zip(stems, paths, strict=True)]


def _named(found: list[BySystem], names: list[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Systems are called as their column says, or as their file where it says nothing or the same of several files."""
    labels = [label or name for systems, name in zip(found, names, strict=True) for label in systems]
    for systems, name in zip(found, names, strict=True):
        for label, stats in systems.items():
            called = label or name
            if labels.count(called) > 1:
                called = name if len(systems) == 1 else f"{name}: {called}"
            yield called, stats


def _score_source(
    source: Source, metrics: tuple[Metric, ...], grouped: bool, options: RunOptions, scratch: Scratch
) -> BySystem:
    size = Path(source.path).stat().st_size if source.path != STDIN else None
    if options.one_set:
        try:
            return _collect_table(source.read(), metrics, grouped, one_set=True)
        except DataError as error:
            raise error.at(file=source.name) from error
    processes = options.processes or _processes_for(size)
    cache = Cache() if options.cache and source.path != STDIN else None
    work = _CollectChunk(source, metrics, grouped, cache)
    merged: dict[str, list[list[Any]]] = {}
    total = None if source.format == "parquet" else size
    with progress_bar(f"scoring {source.name}", total, show=options.progress) as advance:
        chunks = source.chunks(options.chunk_bytes)
        for systems, consumed in ordered_map(work, chunks, processes=processes, scratch=scratch):
            for system, stats in systems.items():
                if system not in merged:
                    merged[system] = list(stats)
                else:
                    merged[system] = [a + b for a, b in zip(merged[system], stats, strict=True)]
            advance(consumed)
    if not merged:
        raise DataError("the file has no records", file=source.name)
    return {system: tuple(stats) for system, stats in merged.items()}


def _processes_for(size: int | None) -> int:
    """Threads share the work of parsing poorly beyond a few cores; processes take seconds to start."""
    cores = available_cores()
    return cores if cores > _CORES_FOR_THREADS and (size or 0) >= _WORTH_PROCESSES else 1


def _collect_table(table: Table, metrics: tuple[Metric, ...], grouped: bool, one_set: bool = False) -> BySystem:
    if one_set:
        table = ResponseSets.concat(
            [
                replace(ResponseSets.one_set(part.texts), frame=pl.DataFrame({"id": ["all"], "system": [system]}))
                for system, part in _by_system(_sets_of(table)).items()
            ]
        )
    return _collect_keeping(table, metrics, grouped)[0]


def _collect_keeping(
    table: Table, metrics: tuple[Metric, ...], grouped: bool
) -> tuple[BySystem, dict[SetMetric, pl.DataFrame]]:
    """Statistics of each system, and the values of sets that are worth caching."""
    if isinstance(table, Items):
        for metric in metrics:
            _refuse_items(metric)
    systems = {}
    kept: dict[SetMetric, list[Array]] = {}
    for system, sets in _by_system(_sets_of(table)).items():
        batch = Batch(sets, grouped=grouped)
        for metric in metrics:
            metric.check(batch)
        stats = []
        for metric in metrics:
            if isinstance(metric, SetMetric) and metric.cacheable:
                kept.setdefault(metric, []).append(metric.values(batch))
                stats.append(metric.stats_of(batch.rows, kept[metric][-1]))
            else:
                stats.append(metric.collect(batch))
        systems[system] = tuple(stats)
    return systems, {metric: pl.DataFrame(np.concatenate(values)) for metric, values in kept.items()}


def _sets_of(table: Table) -> ResponseSets:
    return table.as_sets() if isinstance(table, Items) else table


def _by_system(sets: ResponseSets) -> dict[str, ResponseSets]:
    if "system" not in sets.frame.columns:
        return {"": sets}
    labels = sets.frame["system"].fill_null("")
    names = labels.unique(maintain_order=True).to_list()
    if len(names) == 1:
        return {names[0]: sets}
    return {name: sets.select((labels == name).arg_true().to_numpy()) for name in names}


def _refuse_items(metric: Metric) -> None:
    if metric.of_single_texts or getattr(metric, "over", None) == "corpus":
        return
    if isinstance(metric, SetMetric):
        if hasattr(metric, "over"):
            advice = f"use {metric.name}:over=corpus, or nlgauge score --one-set, which takes all texts as one set"
        else:
            advice = "nlgauge score --one-set takes all texts as one set, --set-size N makes a set of N lines"
        raise DataError(f"the file holds single texts, and {metric.name} measures sets of responses; {advice}")


@dataclass(frozen=True)
class _CollectChunk:
    """The work on one chunk, in whichever thread or process: look in the cache, else parse and collect."""

    source: Source
    metrics: tuple[Metric, ...]
    grouped: bool
    cache: Cache | None

    def __call__(self, chunk: Chunk) -> tuple[BySystem, int]:
        try:
            return self._systems(chunk), chunk.consumed
        except DataError as error:
            raise error.at(file=self.source.name) from error

    def _systems(self, chunk: Chunk) -> BySystem:
        large = len(chunk.payload) >= _WORTH_CACHING or chunk.rows[1] > _ROWS_WORTH_CACHING
        cache = self.cache if large or any(metric.costly for metric in self.metrics) else None
        kept = [metric for metric in self.metrics if isinstance(metric, SetMetric) and metric.cacheable]
        if cache is None or not kept:
            table = self.source.parse(chunk)
            return {} if table is None else _collect_table(table, self.metrics, self.grouped)
        about = self._digest(chunk)
        rows = cache.get(cache.key("rows", about))
        held = {} if rows is None else {m: v for m in kept if (v := cache.get(_value_key(about, m))) is not None}
        if rows is not None and len(held) == len(self.metrics):
            return self._from_cache(rows, held)
        table = self.source.parse(chunk)
        if table is None:
            return {}
        systems, values = _collect_keeping(table, self.metrics, self.grouped)
        cache.put(cache.key("rows", about), _row_table(systems, self.metrics.index(kept[0])))
        for metric, frame in values.items():
            cache.put(_value_key(about, metric), frame)
        return systems

    def _from_cache(self, rows: pl.DataFrame, held: dict[SetMetric, pl.DataFrame]) -> BySystem:
        result = {}
        labels = rows["system"]
        for system in labels.unique(maintain_order=True).to_list():
            mine = (labels == system).arg_true().to_numpy()
            hashes = rows["context_hash"].to_numpy()[mine] if "context_hash" in rows.columns else None
            keys = RowKeys(rows["id"].gather(mine), hashes)
            result[system] = tuple(metric.stats_of(keys, held[metric].to_numpy()[mine]) for metric in held)
        return result

    def _digest(self, chunk: Chunk) -> str:
        reading = repr((self.source.format, self.source.columns, self.source.set_size, chunk.first_line, chunk.rows))
        content = file_digest(self.source.path) if self.source.format == "parquet" else ""
        aligned = [part for name, data in sorted(chunk.aligned.items()) for part in (name, data)]
        return Cache.key("chunk", reading, content, chunk.header, chunk.payload, *aligned)


def _value_key(about: str, metric: Metric) -> str:
    return Cache.key("values", about, str(metric.signature))


def _row_table(systems: BySystem, position: int) -> pl.DataFrame:
    frames = []
    for system, stats in systems.items():
        keys: RowKeys = stats[position].items.rows[0]
        frame = pl.DataFrame({"id": keys.ids, "system": pl.repeat(system, len(keys.ids), eager=True)})
        if keys.contexts is not None:
            frame = frame.with_columns(pl.Series("context_hash", keys.contexts))
        frames.append(frame)
    return pl.concat(frames)
