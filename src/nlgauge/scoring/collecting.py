"""Statistics of tables and chunks: from the cache where possible, else parsed and collected."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.assembling import by_system
from nlgauge.data.reading import Source, Table
from nlgauge.data.sources.chunks import Chunk
from nlgauge.data.sources.files import file_identity
from nlgauge.data.sources.object_stores import is_address
from nlgauge.data.tables import Items
from nlgauge.engine.cache import Cache, file_digest
from nlgauge.errors import DataError, ModelError, argument
from nlgauge.metrics.base import Metric, SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import RowKeys
from nlgauge.signature import Signature

BySystem = dict[str, tuple[Any, ...]]
Bins = Mapping[str, Array]
_WORTH_CACHING = 256 << 10
_ROWS_WORTH_CACHING = 1000


@dataclass(frozen=True)
class Collected:
    """Statistics of a chunk by system, its number of rows, and how far into the file it ends."""

    systems: BySystem
    rows: int
    consumed: int


def signatures_of(metrics: Sequence[Metric]) -> tuple[str, ...]:
    """What metrics are at this moment, with the hashes of their models, files and programs."""
    return tuple(str(metric.signature.with_facts(metric.resources)) for metric in metrics)


def described(metrics: Sequence[Metric], signatures: Sequence[str]) -> list[str]:
    """Metrics as the manifest of a run names them: their signatures, and of a plugin a hash of its code."""
    codes = [code_of(metric) for metric in metrics]
    return [f"{one}, code {code[:12]}" if code else one for one, code in zip(signatures, codes, strict=True)]


def code_of(metric: Metric) -> str:
    """A hash of the module of a plugin's metric; that of NLGauge's own code is in every key anyway."""
    module = type(metric).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    return "" if module.startswith("nlgauge.") or file is None else file_digest(file)


def check_same(metrics: Sequence[Metric], before: Sequence[str]) -> None:
    """An error when a model or a file of a metric has changed meanwhile, or is another one where a worker runs."""
    for metric, expected in zip(metrics, before, strict=True):
        if _names_files(expected) and (found := signatures_of([metric])[0]) != expected:
            raise ModelError(
                f"a model or a file of a metric changed while it was in use: it is now {found}; expected {expected}, "
                "as when the run began; nothing of it was kept: run again"
            )


def _names_files(signature: str) -> bool:
    """Whether an option is a model or a file with its hash; the file of a plugin is sent to workers as it was."""
    known = Signature.parse(signature)
    return bool(known.facts) or any("@" in value for value in known.options.values())


def merge(merged: BySystem, more: BySystem) -> None:
    """Add statistics to those that are there."""
    for system, stats in more.items():
        held = merged.get(system)
        merged[system] = stats if held is None else tuple(a + b for a, b in zip(held, stats, strict=True))


def collect_table(table: Table, metrics: tuple[Metric, ...], grouped: bool, bins: Bins | None = None) -> BySystem:
    """Statistics of each system in a table; `bins` has the number of sets in each bin of contexts, by system."""
    return _collect_keeping(table, metrics, grouped, bins or {})[0]


def _collect_keeping(
    table: Table, metrics: tuple[Metric, ...], grouped: bool, bins: Bins
) -> tuple[BySystem, dict[SetMetric, pl.DataFrame]]:
    """Statistics of each system, and the values of sets that are worth caching."""
    if isinstance(table, Items):
        for metric in metrics:
            _refuse_items(metric)
        table = table.as_sets()
    systems = {}
    kept: dict[SetMetric, list[Array]] = {}
    for system, sets in by_system(table).items():
        batch = Batch(sets, grouped=grouped)
        for metric in metrics:
            metric.check(batch)
        stats = []
        for metric in metrics:
            if isinstance(metric, SetMetric) and metric.cacheable:
                kept.setdefault(metric, []).append(metric.values(batch))
                stats.append(metric.stats_of(batch.rows, kept[metric][-1]))
            else:
                stats.append(metric.collect(metric.part_of(batch, bins.get(system))))
        systems[system] = tuple(stats)
    return systems, {metric: pl.DataFrame(np.concatenate(values)) for metric, values in kept.items()}


def _refuse_items(metric: Metric) -> None:
    if metric.level == "set":
        whole = f"{argument('one_set', True)} takes all texts as one set"
        other = f"{argument('set_size', 'N')} makes a set of N lines"
        corpus = f"{metric.name}:over=corpus measures them all, {whole}"
        advice = corpus if "corpus" in metric.levels else f"{whole}, {other}"
        raise DataError(f"the file holds single texts, and {metric.name} measures sets of responses; {advice}")


@dataclass(frozen=True)
class CollectChunk:
    """The work on one chunk, in whichever thread or process: look in the cache, else parse and collect."""

    source: Source
    metrics: tuple[Metric, ...]
    grouped: bool
    cache: Cache | None
    bins: Bins = field(default_factory=dict)

    def __call__(self, chunk: Chunk) -> Collected:
        """Collect."""
        try:
            systems, rows = self._systems(chunk)
        except DataError as error:
            raise error.at(file=self.source.shard(chunk.shard).name) from error
        return Collected(systems, rows, chunk.consumed)

    def _systems(self, chunk: Chunk) -> tuple[BySystem, int]:
        large = len(chunk.payload) >= _WORTH_CACHING or chunk.rows[1] > _ROWS_WORTH_CACHING
        cache = self.cache if large or any(metric.costly for metric in self.metrics) else None
        kept = [metric for metric in self.metrics if isinstance(metric, SetMetric) and metric.cacheable]
        if cache is None or not kept:
            table = self.source.parse(chunk)
            return (
                ({}, 0) if table is None else (collect_table(table, self.metrics, self.grouped, self.bins), len(table))
            )
        about, before = self._digest(chunk), signatures_of(kept)
        keys = {
            metric: Cache.key("values", about, signature, code_of(metric))
            for metric, signature in zip(kept, before, strict=True)
        }
        rows = cache.get(cache.key("rows", about))
        held = {} if rows is None else {m: v for m in kept if (v := cache.get(keys[m])) is not None}
        if rows is not None and len(held) == len(self.metrics):
            return self._from_cache(rows, held), rows.height
        table = self.source.parse(chunk)
        if table is None:
            return {}, 0
        systems, values = _collect_keeping(table, self.metrics, self.grouped, self.bins)
        check_same(kept, before)
        cache.put(cache.key("rows", about), _row_table(systems, self.metrics.index(kept[0])))
        for metric, frame in values.items():
            cache.put(keys[metric], frame)
        return systems, len(table)

    def _from_cache(self, rows: pl.DataFrame, held: dict[SetMetric, pl.DataFrame]) -> BySystem:
        result = {}
        labels = rows["system"]
        for system in labels.unique(maintain_order=True).to_list():
            mine = (labels == system).arg_true().to_numpy()
            keys = RowKeys.from_polars(rows[mine])
            result[system] = tuple(metric.stats_of(keys, held[metric].to_numpy()[mine]) for metric in held)
        return result

    def _digest(self, chunk: Chunk) -> str:
        source = self.source.shard(chunk.shard)
        numbers = (chunk.shard, chunk.first_line) if chunk.shard else chunk.first_line
        reading = repr((source.format, replace(source.reading, input_format="", aligned=()), numbers, chunk.rows))
        content = ""
        if source.format == "parquet":
            content = file_identity(source.path) if is_address(source.path) else file_digest(source.path)
        aligned = [part for name, data in sorted(chunk.aligned.items()) for part in (name, data)]
        return Cache.key("chunk", reading, content, chunk.header, chunk.payload, *aligned)


def _row_table(systems: BySystem, position: int) -> pl.DataFrame:
    frames = []
    for system, stats in systems.items():
        keys: RowKeys = stats[position].items.rows[0]
        frames.append(keys.to_polars().with_columns(pl.lit(system).alias("system")))
    return pl.concat(frames)
