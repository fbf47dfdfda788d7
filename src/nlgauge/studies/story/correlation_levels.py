"""Levels of a correlation beside that over items: within contexts, and over the means of systems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.roles import names_in
from nlgauge.errors import DataError
from nlgauge.stats.correlation import (
    Kind,
    correlation,
    correlation_test,
    group_numbers,
)
from nlgauge.stats.inference import Inference
from nlgauge.stats.means import mean_interval
from nlgauge.stats.pairwise import calibrate_ties, pairwise_accuracy, soft_pairwise_accuracy
from nlgauge.stats.system_correlation import mean_correlation_intervals
from nlgauge.studies.base import Row, finite, pair
from nlgauge.studies.story.ceilings import RatedTruth
from nlgauge.studies.tasks import Measured, MetricTests, Task

KINDS: tuple[Kind, ...] = ("pearson", "spearman", "kendall")
OVERALL = "overall"
FEWEST = 3
FEWEST_FOR_INTERVAL = 20
MOST_FOR_PAIRS = 5000


def empty_row(task: str, one: Measured, level: str, group: str, column: str | None, n: int) -> Row:
    """A row of a metric that has no correlation yet."""
    row: Row = {"task": task, "group": group, "metric": one.label, "n": n}
    for kind in KINDS:
        row |= {kind: None, f"{kind}_p": None, f"{kind}_ci": None}
    row |= {"accuracy": None, "epsilon": None, "cluster": None, "signature": one.signature}
    return row | {"level": level, "column": column}


def points_of_row(row: Row, ids: Sequence[str], truth: Array, values: Array) -> pl.DataFrame:
    """Points of a chart of a row, those without a value left out."""
    frame = pl.DataFrame({"id": ids, "truth": truth, "value": values}, schema_overrides={"id": pl.String})
    about = ("task", "metric", "level", "group", "column")
    named = frame.with_columns(pl.lit(row[key], dtype=pl.String).alias(key) for key in about)
    return named.filter(pl.col("value").is_finite())


def within_row(
    task: Task,
    one: Measured,
    levels: Array,
    column: str,
    using: Inference,
    notes: list[str],
    rated: RatedTruth | None = None,
) -> Row:
    """The mean of the correlations inside each context; those without one are left out and counted in a note."""
    cells = names_in(task.frame, column, option="within", file=task.name)
    kept = one.defined & cells.is_not_null().to_numpy()
    values, truth, contexts = one.values[kept], levels[kept], cells.to_numpy()[kept]
    few = same = 0
    found: dict[Kind, list[float]] = {kind: [] for kind in KINDS}
    used = np.zeros(len(values), dtype=np.bool_)
    for rows in _members(contexts):
        if len(rows) < FEWEST:
            few += 1
        elif np.ptp(values[rows]) == 0 or np.ptp(truth[rows]) == 0:
            same += 1
        else:
            used[rows] = True
            for kind in KINDS:
                found[kind].append(correlation(values[rows], truth[rows], kind))
    count = len(found["pearson"])
    where = f" of {task.name}" if task.name else ""
    if few or same:
        notes.append(
            f"{one.label} within {column}: {few + same} of {count + few + same} contexts{where} are left out, {few} "
            f"with fewer than {FEWEST} items and {same} where all values of the metric or of the truth are equal"
        )
    if missing := cells.null_count():
        notes.append(f"{one.label} within {column}: {missing} items{where} have no {column}; they are left out")
    row = empty_row(task.name, one, "within", OVERALL, column, int(used.sum())) | {"contexts": count}
    if rated is not None:
        rows = np.flatnonzero(kept)[used]
        row |= rated.cells(rows, cells.to_numpy(), contexts[used])
    for kind in KINDS if count else ():
        each = np.array(found[kind])
        row[kind] = float(np.sort(each).mean())
        if count >= FEWEST:
            row[f"{kind}_ci"] = pair(mean_interval(each, using.level, bounds=(-1.0, 1.0)))
    sizes = np.unique(contexts.astype(np.str_), return_counts=True)[1]
    if sizes.max(initial=0) > 1 and int((sizes**2).sum()) <= MOST_FOR_PAIRS**2:
        pairs = calibrate_ties(values, truth, contexts)
        row |= {"accuracy": pairs.value, "epsilon": pairs.epsilon}
    return row


def _members(labels: Array) -> list[Array]:
    """Row numbers of each label, labels in their order."""
    if not len(labels):
        return []
    numbers = np.unique(labels.astype(np.str_), return_inverse=True)[1]
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def system_row(
    task: Task,
    one: Measured,
    levels: Array,
    column: str,
    using: MetricTests,
    notes: list[str],
    rated: RatedTruth | None = None,
) -> tuple[Row, pl.DataFrame]:
    """The correlation of system means, with the means as points."""
    cells = names_in(task.frame, column, option="systems", file=task.name)
    names = cells.drop_nulls().unique().sort().to_list()
    if len(names) < FEWEST:
        few = f"{len(names)} systems ({', '.join(names) or 'none'})"
        raise DataError(f"{few}; expected at least {FEWEST} to correlate", file=task.name, column=column)
    kept = one.defined & cells.is_not_null().to_numpy()
    present, place = np.unique(cells.to_numpy()[kept].astype(np.str_), return_inverse=True)
    values, truth = one.values[kept], levels[kept]
    where = f" of {task.name}" if task.name else ""
    if cells.null_count():
        notes.append(f"{one.label} over systems: {cells.null_count()} items{where} have no {column}; they are left out")
    if len(present) < len(names):
        notes.append(f"{one.label} has no value for {len(names) - len(present)} of {len(names)} systems{where}")
    sizes = np.bincount(place)
    means, human = np.bincount(place, values) / sizes, np.bincount(place, truth) / sizes
    row = empty_row(task.name, one, "systems", OVERALL, column, len(present)) | {"soft_accuracy": None}
    if rated is not None:
        row |= rated.of_systems(np.flatnonzero(kept), place)
    points = points_of_row(row, present.tolist(), human, means)
    if len(present) < FEWEST or np.ptp(means) == 0 or np.ptp(human) == 0:
        notes.append(f"{one.label} over systems{where}: too few systems, or their means are all the same")
        return row, points
    units = task.units(using.unit).of
    intervals = _system_intervals(values, truth, place, None if units is None else units[kept], using)
    for kind in KINDS:
        found = correlation_test(means, human, kind)
        row |= {kind: finite(found.value), f"{kind}_p": finite(found.p), f"{kind}_ci": intervals[kind]}
    table = _crossed(values, truth, place, np.array(task.contexts)[kept])
    if table is None:
        notes.append(f"{one.label} over systems{where}: no SPA, since no 2 contexts have one item per system")
    else:
        row["soft_accuracy"] = soft_pairwise_accuracy(*table, permutations=using.permutations, seed=using.seed)
        if table[0].size < len(values):
            count = table[0].shape[1]
            notes.append(f"{one.label} over systems{where}: SPA is over the {count} contexts with one item per system")
    return row | {"accuracy": pairwise_accuracy(means, human).value}, points


def _system_intervals(
    values: Array, truth: Array, place: Array, units: Array | None, using: Inference
) -> dict[Kind, list[float] | None]:
    """Intervals over contexts (or items, where none are shared) for the same systems; none of fewer than 20."""
    order = np.lexsort((values, truth, place))
    values, truth, place = values[order], truth[order], place[order]
    alone = units is None or len(set(units.tolist())) < FEWEST
    numbers = np.arange(len(values)) if alone or units is None else group_numbers(units[order], len(values))
    count = int(numbers.max()) + 1
    if count < FEWEST_FOR_INTERVAL:
        return dict.fromkeys(KINDS)
    totals = np.zeros((3, count, int(place.max()) + 1))
    for total, weights in zip(totals, (np.ones(len(values)), values, truth), strict=True):
        np.add.at(total, (numbers, place), weights)
    found = mean_correlation_intervals(totals, using)
    return {kind: pair(found[kind]) for kind in KINDS}


def _crossed(values: Array, truth: Array, place: Array, contexts: Array) -> tuple[Array, Array] | None:
    """Metric and truth as systems x contexts, of the contexts that have one item of every system; None if under 2."""
    systems = int(place.max()) + 1
    full = [
        rows[np.argsort(place[rows])]
        for rows in _members(contexts)
        if len(rows) == systems == len(np.unique(place[rows])) and contexts[rows[0]]
    ]
    if len(full) < 2:
        return None
    table = np.array(full).T
    return values[table], truth[table]
