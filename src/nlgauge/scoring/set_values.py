"""Values of metrics on sets in memory: computed by any number of workers, and kept in the folder of a run.

The work is cut in the same places whoever does it, so that values are equal bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlgauge._version import __version__
from nlgauge.arrays import Array
from nlgauge.data.tables import ResponseSets
from nlgauge.engine.cache import code_digest
from nlgauge.engine.opening import open_pool
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.run_folder import RunFolder
from nlgauge.engine.running import LOCAL, Workers
from nlgauge.engine.scratch import scratch_folder
from nlgauge.engine.workers import finished
from nlgauge.errors import DataError
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.scoring.collecting import check_same, described, signatures_of

_SETS_AT_ONCE, _SETS_AT_ONCE_FOR_MODELS = 5000, 50


@dataclass(frozen=True)
class Table:
    """Sets, and their name in messages."""

    name: str
    sets: ResponseSets


@dataclass(frozen=True)
class _Work:
    """Some metrics on some sets of a table."""

    table: int
    metrics: tuple[int, ...]
    start: int
    stop: int

    @property
    def name(self) -> str:
        """What it is called in the folder of a run."""
        return f"{self.table:04}-{self.metrics[0]:04}-{self.start:09}"


@dataclass(frozen=True)
class _Measure:
    """Does the work, in whichever process."""

    tables: tuple[Table, ...]
    metrics: tuple[SetMetric, ...]
    signatures: tuple[str, ...]

    def __call__(self, work: _Work) -> list[Array]:
        """The values of each metric."""
        table = self.tables[work.table]
        whole = (work.start, work.stop) == (0, len(table.sets))
        batch = Batch(table.sets if whole else table.sets.select(np.arange(work.start, work.stop)))
        try:
            chosen = [self.metrics[number] for number in work.metrics]
            values = [metric.combine(metric.values(batch)) for metric in chosen]
            check_same(chosen, [self.signatures[number] for number in work.metrics])
            return values
        except DataError as error:
            raise error.at(file=table.name or None) from error


def set_values(tables: Sequence[Table], metrics: Sequence[SetMetric], running: Workers) -> list[list[Array]]:
    """The values of every metric on every set: one list for each table, with one array for each metric."""
    measure = _Measure(tuple(tables), tuple(metrics), signatures_of(metrics))
    for table in tables:
        batch = Batch(table.sets)
        for metric in metrics:
            try:
                metric.check(batch)
            except DataError as error:
                raise error.at(file=table.name or None) from error
    works = [work for number, table in enumerate(tables) for work in _works(number, len(table.sets), metrics)]
    found: dict[_Work, list[Array]] = {}
    with ExitStack() as stack:
        run = None if running.run is None else RunFolder(running.run)
        if run is not None:
            stack.enter_context(run.held())
            run.begin(_settings(measure))
            found = {work: run.load(work.name) for work in works if run.is_done(work.name)}
        missing = [work for work in works if work not in found]
        advance = stack.enter_context(progress_bar("measuring", len(works), show=running.progress and bool(missing)))
        for work, values in _outcomes(measure, missing, running):
            if run is not None:
                run.save(work.name, values)
            found[work] = values
            advance(len(found))
    parts: list[list[list[Array]]] = [[[] for _ in metrics] for _ in tables]
    for work in works:
        for number, part in zip(work.metrics, found[work], strict=True):
            parts[work.table][number].append(part)
    return [[np.concatenate(some) for some in by_metric] for by_metric in parts]


def _works(table: int, sets: int, metrics: Sequence[SetMetric]) -> Iterator[_Work]:
    """Each costly metric by itself on few sets, so that progress shows; the others together, to tokenise once."""
    cheap = tuple(number for number, metric in enumerate(metrics) if not metric.costly)
    groups = [(cheap, _SETS_AT_ONCE)] if cheap else []
    groups += [((number,), _SETS_AT_ONCE_FOR_MODELS) for number, metric in enumerate(metrics) if metric.costly]
    for chosen, step in groups:
        for start in range(0, sets, step):
            yield _Work(table, chosen, start, min(start + step, sets))


def _outcomes(measure: _Measure, works: Sequence[_Work], running: Workers) -> Iterator[tuple[_Work, list[Array]]]:
    """Values as they are finished: in this process, unless several workers or another backend are asked for."""
    if not works or (running.engine == LOCAL and running.workers <= 1):
        yield from ((work, measure(work)) for work in works)
        return
    with scratch_folder() as scratch, open_pool(running.engine, running.workers, scratch) as pool:
        for place, values in finished(pool, measure, works):
            yield works[place], values


def _settings(measure: _Measure) -> dict[str, Any]:
    """All that values depend on."""
    return {
        "NLGauge": __version__,
        "code": code_digest(),
        "metrics": described(measure.metrics, measure.signatures),
        "tables": [f"{table.name}: {len(table.sets)} sets, {_digest(table.sets)}" for table in measure.tables],
    }


def _digest(sets: ResponseSets) -> str:
    digest = hashlib.blake2b(sets.sizes.tobytes(), digest_size=16)
    columns = (sets.texts,) if sets.references is None else (sets.texts, sets.references)
    for frame in (sets.frame, *(column.to_frame() for column in columns)):
        digest.update(frame.rechunk().write_ipc(None).getbuffer())
    return digest.hexdigest()
