"""Scoring files and tables: read, collect chunk by chunk, merge, finish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from nlgauge.data.chunks import CHUNK_BYTES, Chunk
from nlgauge.data.files import STDIN, file_size, is_seekable
from nlgauge.data.frames import is_frame, read_frame
from nlgauge.data.parts import parts_of
from nlgauge.data.reading import Source
from nlgauge.data.shards import short_name
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.engine.cache import Cache
from nlgauge.engine.opening import LOCAL, check_engine
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.scratch import MEMORY_BYTES, Scratch, scratch_folder
from nlgauge.engine.workers import available_cores, ordered_map
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.collecting import BySystem, CollectChunk, collect_table, merge
from nlgauge.metrics.column import ColumnMetric
from nlgauge.metrics.registry import create_metrics
from nlgauge.metrics.score import Interval, Score

_WORTH_PROCESSES = 512 << 20
_CORES_FOR_THREADS = 4


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run: results do not depend on any of these, but for rows that `on_error="skip"` leaves out.

    One process already keeps all cores of a small machine busy with threads; `processes=0` uses several for large files
    on larger ones. `one_set` takes all texts of a file as
    a single set; n-grams of a corpus beyond `memory_bytes` go to disk.

    `engine` is `local`, `ray` or the address of a Ray cluster, whose workers are `processes` too (0: one a core). With
    `folder`, finished parts of some `part_bytes` (0: at most 64 MB, less where models work) are kept there, and the
    same call goes on from them after any interruption, on either engine. Where models work, files are cut into the
    same parts without a folder, too.
    """

    processes: int = 0
    chunk_bytes: int = CHUNK_BYTES
    cache: bool = True
    progress: bool = False
    one_set: bool = False
    memory_bytes: int = MEMORY_BYTES
    engine: str = LOCAL
    folder: Path | None = None
    part_bytes: int = 0
    on_error: str = "stop"

    def __post_init__(self) -> None:
        if self.processes < 0:
            raise OptionError(f"{self.processes} processes; expected 0 (automatic) or more")
        if self.chunk_bytes < 1 or self.part_bytes < 0:
            raise OptionError(f"chunks of {min(self.chunk_bytes, self.part_bytes)} bytes; expected a positive size")
        if self.on_error not in ("stop", "skip"):
            raise OptionError(f"--on-error {self.on_error}; expected stop or skip")
        check_engine(self.engine)
        if self.one_set and self.by_parts:
            raise OptionError(
                "--one-set reads a file as a whole; it goes with --engine local, and without --run and --on-error skip"
            )

    @property
    def by_parts(self) -> bool:
        """Whether workers read parts of the input on their own, rather than being sent what this process reads."""
        return self.folder is not None or self.engine != LOCAL or self.on_error == "skip"


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
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder(options.memory_bytes))
        sources = None if isinstance(data, ResponseSets | Items) else _sources(data, reading, made)
        names = [""] if sources is None else file_names([source.path for source in sources])
        skipped: list[tuple[str, ...]] = [() for _ in names]
        if sources is None:
            if options.by_parts:
                raise OptionError("the data was given in memory; --engine, --run and --on-error skip go with files")
            table = data if isinstance(data, ResponseSets | Items) else ResponseSets.of(data)
            found = [collect_table(table, made, grouped, options.one_set)]
        elif options.by_parts:
            from nlgauge.metrics.runs import collected_by_parts

            found, skipped = stack.enter_context(collected_by_parts(sources, made, grouped, options, scratch))
        else:
            part_bytes = _part_bytes(sources, made, options)
            found = [_collect_source(source, made, grouped, options, part_bytes, scratch) for source in sources]
        systems = list(_named(found, names))
        how = interval if interval_alone or len(systems) > 1 else None
        return [
            replace(metric.finish(stats, how), system=system, skipped=skipped[place])
            for place, system, all_stats in systems
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
    stems = ["stdin" if path == STDIN else short_name(path) for path in paths]
    if len(set(paths)) < len(paths):
        raise OptionError(f"{max(paths, key=paths.count)} was named twice; several files are several systems")
    return [stem if stems.count(stem) == 1 else path for stem, path in zip(stems, paths, strict=True)]


def _named(found: list[BySystem], names: list[str]) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """Systems are called as their column says, or as their file where it says nothing or the same of several files."""
    labels = [label or name for systems, name in zip(found, names, strict=True) for label in systems]
    for place, (systems, name) in enumerate(zip(found, names, strict=True)):
        for label, stats in systems.items():
            called = label or name
            if labels.count(called) > 1:
                called = name if len(systems) == 1 else f"{name}: {called}"
            yield place, called, stats


def _part_bytes(sources: Sequence[Source], metrics: tuple[Metric, ...], options: RunOptions) -> int:
    """The size of parts where models work and files can be cut, else 0.

    What a model makes of a text depends a little on its neighbours in the batch, so that the same texts must be
    together whether or not the run goes by parts; and progress is seen in a small file.
    """
    if not any(metric.costly for metric in metrics) or any(source.path == STDIN for source in sources):
        return 0
    from nlgauge.metrics.runs import chosen_part_bytes

    return chosen_part_bytes(sources, metrics, options)


def _chunks(source: Source, part_bytes: int, chunk_bytes: int) -> Iterator[Chunk]:
    """Chunks of a source; with `part_bytes`, those of its parts."""
    if not part_bytes or not all(map(is_seekable, source.files)):
        return source.chunks(chunk_bytes)
    ends = [0, *accumulate(map(file_size, source.files))]
    return (
        replace(chunk, consumed=ends[max(0, part.shard - 1)] + chunk.consumed)
        for part in parts_of([source], part_bytes)
        for chunk in part.chunks(chunk_bytes)
    )


def _collect_source(
    source: Source,
    metrics: tuple[Metric, ...],
    grouped: bool,
    options: RunOptions,
    part_bytes: int,
    scratch: Scratch,
) -> BySystem:
    size = source.size if source.path != STDIN else None
    if options.one_set:
        try:
            return collect_table(source.read(), metrics, grouped, one_set=True)
        except DataError as error:
            raise error.at(file=source.name) from error
    processes = options.processes or _processes_for(size)
    cache = Cache() if options.cache and source.path != STDIN else None
    work = CollectChunk(source, metrics, grouped, cache)
    merged: BySystem = {}
    total = None if source.format == "parquet" else size
    with progress_bar(f"scoring {source.name}", total, show=options.progress) as advance:
        chunks = _chunks(source, part_bytes, options.chunk_bytes)
        for collected in ordered_map(work, chunks, processes=processes, scratch=scratch):
            merge(merged, collected.systems)
            advance(collected.consumed)
    if not merged:
        raise DataError("the file has no records", file=source.name)
    return merged


def _processes_for(size: int | None) -> int:
    """Threads share the work of parsing poorly beyond a few cores; processes take seconds to start."""
    cores = available_cores()
    return cores if cores > _CORES_FOR_THREADS and (size or 0) >= _WORTH_PROCESSES else 1
