"""Scoring files and tables: read, collect chunk by chunk, merge, finish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from nlgauge.configured import spread
from nlgauge.data.assembling import as_one_set
from nlgauge.data.columns import Reading
from nlgauge.data.frames import frame_table, is_frame
from nlgauge.data.reading import Source, Table
from nlgauge.data.sources.chunks import Chunk
from nlgauge.data.sources.files import STDIN, display_name, file_size, is_seekable, kept_open
from nlgauge.data.sources.parts import parts_of
from nlgauge.data.sources.shards import short_name
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.engine.cache import Cache
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.running import LOCAL, Running
from nlgauge.engine.scratch import Scratch, scratch_folder
from nlgauge.engine.workers import available_cores, ordered_map
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.base import Metric
from nlgauge.metrics.column import columns_of
from nlgauge.metrics.registry import create_metrics
from nlgauge.metrics.score import Score
from nlgauge.models.runtime import Machine
from nlgauge.scoring.collecting import (
    Bins,
    BySystem,
    CollectChunk,
    check_same,
    collect_table,
    merge,
    signatures_of,
)
from nlgauge.scoring.pairing import Answered, check_pairs
from nlgauge.scoring.sizes import Collected, collect_at_size
from nlgauge.stats.inference import OWN, Comparing, Inference, Sizing

_WORTH_PROCESSES = 512 << 20
_CORES_FOR_THREADS = 4
_NEED_FILES = f"{argument('engine')}, {argument('run')} and {argument('on_error', 'skip')}"


def score(
    data: Any, metrics: str | Sequence[str | Metric] = ("distinct",), *, confidence: bool = False, **options: Any
) -> list[Score]:
    """Score data with metrics: for each system found, one score per metric.

    `data` is a file name, a `Source`, a `ResponseSets`, an `Items`, a frame of Polars, pandas or Arrow, lists of texts,
    or a list of file names or sources (each a system of its own). Metrics are written as on the command line
    (`"distinct:n=2"`, the bundle `"dialog"`), as signatures, or made with their classes. With `confidence`, scores have
    intervals. Several systems are measured at a common size (`size`). Further options are those of `Reading`,
    `Inference`, `Sizing`, `Machine` and `Running`.

    >>> score([["yes", "no", "maybe"]], ["distinct"])[0].value
    0.2
    """
    reading, inference, sizing, machine, running = spread(
        options, Reading, Inference, Sizing, Machine, Running, also=("confidence", "metrics")
    )
    if not confidence and inference != Inference():
        name = next(name for name in vars(inference) if name in options)
        raise OptionError(f"{argument(name)} is about intervals; expected {argument('confidence', True)} with it")
    with machine.used():
        how = inference if confidence else None
        return score_data(data, metrics, reading=reading, inference=how, sizing=sizing, running=running)


def score_data(
    data: Any,
    metrics: str | Sequence[str | Metric],
    *,
    reading: Reading | None = None,
    inference: Inference | None = None,
    sizing: Sizing = OWN,
    alone: bool = True,
    pairing: Comparing | None = None,
    running: Running | None = None,
) -> list[Score]:
    """As `score`, with options in groups; intervals are made where there is an `inference`.

    With `alone=False`, they are made only where several systems are found. With `pairing`, systems that cannot be
    paired so are refused before costly metrics work.
    """
    named = _distinct_metrics(metrics)
    before = signatures_of(named)
    how = running or Running(progress=False)
    with ExitStack() as stack:
        stack.enter_context(kept_open())
        given = inputs_of(data, reading or Reading(), named)
        scratch = stack.enter_context(scratch_folder(how.memory_bytes))
        collector = _Collector(given, inference is not None, how, scratch, stack)
        if pairing is not None and any(metric.costly for metric in named) and collector.can_read_again:
            answered = Answered()
            found = collector((answered,), "answered")
            check_pairs([replace(answered.finish(*one.stats), system=one.name) for one in found], pairing)
        made, systems = collect_at_size(collector, named, sizing)
        wanted = inference if alone or len(systems) > 1 else None
        scores = [
            replace(
                metric.finish(stats, wanted),
                label=plain.label,
                system=one.name,
                skipped=one.skipped,
                sizes=one.sizes if plain.depends_on_size else {},
            )
            for one in systems
            for plain, metric, stats in zip(named, made, one.stats, strict=True)
        ]
        check_same(named, before)
        return scores


class _Collector:
    """Goes over the input, once for each list of metrics."""

    def __init__(
        self, given: list[Source] | Table, grouped: bool, running: Running, scratch: Scratch, stack: ExitStack
    ) -> None:
        self._given, self._grouped, self._running, self._scratch = given, grouped, running, scratch
        self._stack = stack

    @property
    def can_read_again(self) -> bool:
        """Whether nothing is read from standard input."""
        return isinstance(self._given, ResponseSets | Items) or all(one.path != STDIN for one in self._given)

    def __call__(self, metrics: tuple[Metric, ...], name: str = "", bins: Sequence[Bins] = ()) -> list[Collected]:
        """What each system comes to; a further round has a `name`, and `bins` of the contexts of each source."""
        given, running, grouped = self._given, self._running, self._grouped
        if name and not self.can_read_again:
            raise OptionError(
                "systems on standard input have different sizes, and it can be read only once; expected a file, or "
                f"{argument('size', 'own')}",
                option="size",
            )
        if isinstance(given, ResponseSets | Items):
            if running.by_parts:
                raise OptionError(f"the data was given in memory; {_NEED_FILES} require files")
            table = collect_table(given, metrics, grouped, bins[0] if bins else None)
            return list(_named([table], [""], []))
        names, skipped = file_names([source.path for source in given]), list[tuple[str, ...]]()
        if running.by_parts:
            _check_by_parts(given)
            from nlgauge.scoring.by_parts import collected_by_parts

            rounds = collected_by_parts(given, metrics, grouped, running, self._scratch, name, bins)
            found, skipped = self._stack.enter_context(rounds)
        else:
            part_bytes = _part_bytes(given, metrics, running)
            found = [
                _collect_source(source, metrics, grouped, running, part_bytes, self._scratch, mine)
                for source, mine in zip(given, bins or [{}] * len(given), strict=True)
            ]
        return list(_named(found, names, skipped))


def _distinct_metrics(metrics: str | Sequence[str | Metric]) -> tuple[Metric, ...]:
    made = tuple(create_metrics(metrics))
    if not made:
        raise OptionError("no metric was named; try distinct, or see `nlgauge metrics`", option="metrics")
    seen = signatures_of(made)
    if duplicates := {signature for signature in seen if seen.count(signature) > 1}:
        raise OptionError(f"duplicate metric: {min(duplicates)}", option="metrics")
    return made


def inputs_of(data: Any, reading: Reading, metrics: Sequence[Metric]) -> list[Source] | Table:
    """Sources of files, or the table that the data is; no more columns are kept than the metrics ask for."""
    extras = columns_of(metrics)
    if is_frame(data):
        return frame_table(data, reading, extras)
    if isinstance(data, str | Path | Source):
        data = [data]
    if not isinstance(data, ResponseSets | Items):
        if not data:
            raise DataError("nothing to score: the list is empty")
        if all(isinstance(entry, str | Path | Source) for entry in data):
            return [_source(entry, reading, extras) for entry in data]
        data = ResponseSets.of(data)
    reading.check_in_memory("one_set")
    return as_one_set(data) if reading.one_set else data


def _source(entry: str | Path | Source, reading: Reading, extras: tuple[str, ...]) -> Source:
    if not isinstance(entry, Source):
        return Source(path=str(entry), reading=reading, extras=extras)
    if reading.given:
        raise OptionError(
            f"{argument(next(iter(reading.given)))} for {entry.name}, a Source, which says itself how it is read; "
            "expected Source(path=…, reading=Reading(…))"
        )
    return entry


def file_names(paths: list[str]) -> list[str]:
    """File names without their endings, or whole paths where those do not distinguish files."""
    stems = ["stdin" if path == STDIN else short_name(path) for path in paths]
    if len(set(paths)) < len(paths):
        twice = display_name(max(paths, key=paths.count))
        raise OptionError(f"duplicate file {twice}; several files are several systems")
    return [stem if stems.count(stem) == 1 else display_name(path) for stem, path in zip(stems, paths, strict=True)]


def _named(found: list[BySystem], names: list[str], skipped: list[tuple[str, ...]]) -> Iterator[Collected]:
    """Systems are called as their column says, or as their file where it says nothing or the same of several files."""
    labels = [label or name for systems, name in zip(found, names, strict=True) for label in systems]
    for place, (systems, name) in enumerate(zip(found, names, strict=True)):
        for label, stats in systems.items():
            called = label or name
            if labels.count(called) > 1:
                called = name if len(systems) == 1 else f"{name}: {called}"
            yield Collected(place, label, called, stats, skipped[place] if skipped else ())


def _part_bytes(sources: Sequence[Source], metrics: tuple[Metric, ...], running: Running) -> int:
    """The size of parts where models work and files can be cut, else 0.

    What a model makes of a text depends a little on its neighbours in the batch, so that the same texts must be
    together whether or not the run goes by parts; and progress is seen in a small file.
    """
    if not any(metric.costly for metric in metrics) or any(source.path == STDIN for source in sources):
        return 0
    from nlgauge.scoring.by_parts import chosen_part_bytes

    return chosen_part_bytes(sources, metrics, running)


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


def _check_by_parts(sources: Sequence[Source]) -> None:
    if any(source.reading.one_set for source in sources):
        raise OptionError(
            f"{argument('one_set')} reads a file as a whole; expected {argument('engine', LOCAL)}, without "
            f"{argument('run')} and {argument('on_error', 'skip')}"
        )
    if any(source.path == STDIN for source in sources):
        raise OptionError(f"standard input can be read only once; {_NEED_FILES} require files")


def _collect_source(
    source: Source,
    metrics: tuple[Metric, ...],
    grouped: bool,
    running: Running,
    part_bytes: int,
    scratch: Scratch,
    bins: Bins,
) -> BySystem:
    size = source.size if source.path != STDIN else None
    if source.reading.one_set:
        try:
            return collect_table(source.read(), metrics, grouped, bins)
        except DataError as error:
            raise error.at(file=source.name) from error
    workers = running.workers or _workers_for(size)
    cache = Cache() if running.cache and source.path != STDIN else None
    work = CollectChunk(source, metrics, grouped, cache, bins)
    merged: BySystem = {}
    total = None if source.format == "parquet" else size
    with progress_bar(f"scoring {source.name}", total, show=running.progress) as advance:
        chunks = _chunks(source, part_bytes, running.chunk_bytes)
        for collected in ordered_map(work, chunks, processes=workers, scratch=scratch):
            merge(merged, collected.systems)
            advance(collected.consumed)
    if not merged:
        raise DataError("the file has no records", file=source.name)
    return merged


def _workers_for(size: int | None) -> int:
    """Threads share the work of parsing poorly beyond a few cores; processes take seconds to start."""
    cores = available_cores()
    return cores if cores > _CORES_FOR_THREADS and (size or 0) >= _WORTH_PROCESSES else 1
