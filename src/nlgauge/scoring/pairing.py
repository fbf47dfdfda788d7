"""Which values of two systems belong together: by id, by context, or context by context where sets share one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.errors import DataError, argument
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import Direction, ItemValues, Level, Score
from nlgauge.stats.inference import Comparing
from nlgauge.stats.units import Units, find_units, numbered

_SHOWN = 60
OTHER_WAY = f"{argument('paired', False)} takes them as samples that have nothing to do with each other"


@dataclass(frozen=True)
class Pairs:
    """Values of two systems on the same sets, or their means on the same contexts.

    `keys` name the units (whatever order they came in), and `units` says which pairs belong to which of them.
    """

    first: Array
    second: Array
    keys: Array
    units: Units

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class Side:
    """The values of one system, with their units."""

    values: Array
    units: Units


@dataclass(frozen=True, kw_only=True)
class Answered(SetMetric):
    """1 for every set: what systems have answered, which is known before anything costly is measured."""

    name: ClassVar[str] = "answered"
    level: ClassVar[Level] = "item"  # single texts are answers, too
    paper: ClassVar[str] = ""
    aspect: ClassVar[str] = "columns"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    costly: ClassVar[bool] = True  # cut and kept as the costly metrics are that come after it

    def per_set(self, batch: Batch) -> Array:
        """Ones."""
        return np.ones(len(batch))


def check_pairs(scores: Iterable[Score], how: Comparing) -> None:
    """Refuse systems that cannot be paired with the first, as their comparison would."""
    first, *others = scores
    for other in others:
        if crossed_sides(first, other, how) is None:
            pair_values(first, other, how)


def one_side(score: Score, how: Comparing) -> Side:
    """The values of a system in an order that depends on them alone, with their units."""
    if score.items is None:
        return Side(np.empty(0), Units())
    values, units = score.items.all_values(), units_of(score.items, how)
    chosen = np.flatnonzero(~np.isnan(values))
    keys = [values[chosen]] if units.of is None else [units.of[chosen], values[chosen]]
    chosen = chosen[np.lexsort(keys)]
    return Side(values[chosen], units[chosen])


def units_of(items: ItemValues, how: Comparing) -> Units:
    """The units of a system's sets."""
    return find_units(items.contexts(), items.runs(), how.unit)


def crossed_sides(first: Score, second: Score, how: Comparing) -> tuple[Side, Side] | None:
    """Both systems on their common contexts where either has several runs; None where neither has."""
    one, two = _known_contexts(first), _known_contexts(second)
    if how.unit != "auto" or one is None or two is None or not (_has_runs(first) or _has_runs(second)):
        return None
    if not how.common and not np.array_equal(one, two):
        raise DataError(
            f"'{first.system}' and '{second.system}' have values on {len(one)} and {len(two)} contexts, "
            f"{len(np.intersect1d(one, two))} of them in common; {_common()}",
            option="paired",
        )
    return shared_sides(first, second)


def shared_sides(first: Score, second: Score) -> tuple[Side, Side] | None:
    """Both systems' values on the contexts that both have, numbered alike; None where contexts are not known."""
    one, two = _known_contexts(first), _known_contexts(second)
    if one is None or two is None or first.items is None or second.items is None:
        return None
    labels = np.intersect1d(one, two)
    return _on_contexts(first.items, labels), _on_contexts(second.items, labels)


def _has_runs(score: Score) -> bool:
    runs = None if score.items is None else score.items.runs()
    return runs is not None and len(np.unique(runs)) > 1


def _known_contexts(score: Score) -> Array | None:
    """The contexts on which a system has values, in order; None where contexts are not known."""
    contexts = None if score.items is None else score.items.contexts()
    if score.items is None or contexts is None:
        return None
    found: Array = np.unique(contexts[~np.isnan(score.items.all_values())])
    return found


def _on_contexts(items: ItemValues, labels: Array) -> Side:
    """The values on these contexts in an order that depends on them alone, with runs as units, too."""
    values, contexts, runs = items.all_values(), np.asarray(items.contexts()), items.runs()
    runs = np.zeros(len(values)) if runs is None else runs
    chosen = np.flatnonzero(~np.isnan(values) & np.isin(contexts, labels))
    chosen = chosen[np.lexsort([values[chosen], runs[chosen], contexts[chosen]])]
    of = np.searchsorted(labels, contexts[chosen])
    return Side(values[chosen], Units(of, numbered(runs[chosen]), "context-x-run"))


def pair_values(first: Score, second: Score, how: Comparing) -> Pairs:
    """Values on the same sets, matched by id, or by context where ids do not match; else means of shared contexts."""
    if first.per_item is None or second.per_item is None:
        raise DataError("a measure of a whole corpus has no values of sets to pair")
    one, two = first.per_item, second.per_item
    for key in ("id", "context_hash"):
        if key not in one.columns or key not in two.columns:
            continue
        if one[key].n_unique() < len(one) or two[key].n_unique() < len(two):
            continue
        joined = one.join(two, on=key, how="inner", suffix="_2", maintain_order="left")
        whole = len(joined) == len(one) == len(two)
        if (whole or (how.common and len(joined))) and (key != "id" or not _changed_contexts(joined)):
            return _pairs(joined, how, key)
    means = _by_shared_context(one, two)
    if means is not None and how.unit in ("auto", "context"):
        whole = means.height == one["context_hash"].n_unique() == two["context_hash"].n_unique()
        if whole or (how.common and means.height):
            return _pairs(means, how, "context_hash")
    raise DataError(_why_not(one, two, first.system, second.system), option="paired")


def _by_shared_context(one: pl.DataFrame, two: pl.DataFrame) -> pl.DataFrame | None:
    """Means of each context on either side, where several sets have the same context; None without contexts."""
    if "context_hash" not in one.columns or "context_hash" not in two.columns:
        return None
    means = [
        frame.filter(pl.col("value").is_not_nan())
        .sort("context_hash", "value")
        .group_by("context_hash", maintain_order=True)
        .agg(pl.col("value").mean())
        for frame in (one, two)
    ]
    return means[0].join(means[1], on="context_hash", how="inner", suffix="_2", maintain_order="left")


def _pairs(joined: pl.DataFrame, how: Comparing, key: str) -> Pairs:
    defined = joined.filter(pl.col("value").is_not_nan() & pl.col("value_2").is_not_nan())
    labels = defined["context_hash"].to_numpy() if "context_hash" in defined.columns else None
    runs = defined["run"].to_numpy() if "run" in defined.columns and key == "id" else None
    units = find_units(labels, runs if how.unit == "run" else None, how.unit)
    keys = defined[{"run": "run", "context": "context_hash"}.get(units.name, key)].to_numpy()
    return Pairs(defined["value"].to_numpy(), defined["value_2"].to_numpy(), keys, units)


def _changed_contexts(joined: pl.DataFrame) -> int:
    """How many ids have another context on the other side."""
    if "context_hash" not in joined.columns or "context_hash_2" not in joined.columns:
        return 0
    return int((joined["context_hash"] != joined["context_hash_2"]).sum())


def _common() -> str:
    return f"{argument('common', True)} compares those; {OTHER_WAY}"


def _why_not(one: pl.DataFrame, two: pl.DataFrame, first: str, second: str) -> str:
    numbered_lines = _is_numbered(one) and _is_numbered(two)
    with_contexts = "context_hash" in one.columns and "context_hash" in two.columns
    shared = len(set(one["id"]) & set(two["id"]))
    found = [] if numbered_lines and with_contexts else [f"{shared} ids in common"]
    duplicates = [
        f"duplicate id '{_printable(frame['id'].filter(frame['id'].is_duplicated())[0])}' in '{system}'"
        for frame, system in ((one, first), (two, second))
        if frame["id"].n_unique() < len(frame)
    ]
    ignored = duplicates or numbered_lines
    changed = 0 if ignored else _changed_contexts(one.join(two, on="id", how="inner", suffix="_2"))
    found += [f"{changed} of them with another context"] if changed else duplicates
    if with_contexts:
        found += _about_contexts(one, two, first, second)
        shared = len(set(one["context_hash"]) & set(two["context_hash"]))
    column = argument("context", "COL")
    hint = f" (ids look like line numbers, and no contexts are known: name their column with {column})"
    return (
        f"'{first}' and '{second}' cannot be paired: {len(one)} and {len(two)} sets, {', '.join(found)}"
        f"{hint if numbered_lines and not with_contexts else ''}; a paired test needs the same ids with the same "
        f"contexts (or, without ids, the same contexts) in both files; {_common() if shared else OTHER_WAY}"
    )


def _about_contexts(one: pl.DataFrame, two: pl.DataFrame, first: str, second: str) -> list[str]:
    """How many contexts are shared, and a set whose context is missing on the other side."""
    found = [f"{len(set(one['context_hash']) & set(two['context_hash']))} contexts in common"]
    for frame, system, others, other in ((one, first, two, second), (two, second, one, first)):
        lacking = frame.join(others, on="context_hash", how="anti", maintain_order="left")["id"]
        if len(lacking):
            return [*found, f"the context of set '{_printable(lacking[0])}' of '{system}' is not in '{other}'"]
    return found


def _is_numbered(frame: pl.DataFrame) -> bool:
    """Whether ids look like the numbers of lines, which stand for ids where a file has none."""
    numbers = frame["id"].cast(pl.Int64, strict=False)
    return not numbers.null_count() and bool((numbers.diff().drop_nulls() > 0).all())


def _printable(text: str) -> str:
    """The beginning of a text, without characters that steer a terminal."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text[:_SHOWN])
    return f"{shown}…" if len(text) > _SHOWN else shown
