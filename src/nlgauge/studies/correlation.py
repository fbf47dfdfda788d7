"""Agreement of metrics with people: Pearson, Spearman and Kendall with p-values (paper 2, section 3.2.4, Table 2).

Over all items, over the items of each group (paper 4, section 4.2, Table 3), within contexts, and over systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.drawing import PALETTE
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import bootstrap_intervals, correlation_test
from nlgauge.stats.pairwise import calibrate_ties
from nlgauge.studies.base import Row, Study, finite, pair
from nlgauge.studies.correlation_levels import (
    FEWEST,
    FEWEST_FOR_INTERVAL,
    KINDS,
    MOST_FOR_PAIRS,
    OVERALL,
    cells_of,
    point_frame,
    system_row,
    within_row,
)
from nlgauge.studies.significance import add_clusters
from nlgauge.studies.tasks import Measured, Over, Task, make_tasks, notes_about, resampled_units

_SHOWN = 5


@dataclass(frozen=True)
class CorrelationStudy(Study):
    """Three correlations of every metric with the truth, with two-sided p-values and, from 20 items on, intervals.

    `accuracy` is the share of pairs of items that the metric orders (or calls tied) as the truth does, when differences
    up to `epsilon` are ties; `epsilon` is the best one (Deutsch, Foster & Freitag 2023). Up to 5,000 items.
    """

    name: ClassVar[str] = "correlation"
    columns: ClassVar[tuple[str, ...]] = (
        "metric", "n", "pearson", "pearson_ci", "spearman", "spearman_ci", "kendall", "kendall_ci", "accuracy",
        "epsilon", "cluster",
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = KINDS
    titles: ClassVar[Mapping[str, str]] = {"accuracy": "pairs right"}
    digits: ClassVar[Mapping[str, int]] = {"epsilon": 4}
    p_values: ClassVar[Mapping[str, str]] = {kind: f"{kind}_p" for kind in KINDS}

    points: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    def chart(self) -> Any:
        """Each item as a point, the metric against the truth."""
        panels = []
        for row in self.rows:
            mine = self.points_of(self.points, row)
            panels.append(_scatter(self, row, mine, self.signature.options["truth"]))
        return self.lay_out(panels)


@dataclass(frozen=True)
class CorrelationLevels(CorrelationStudy):
    """As `CorrelationStudy`, with a row for each group and level, the column behind it in `column`.

    `level` "items" has the correlation over items, of all of them ("overall") or of a group. "within" has the mean of
    the correlations inside each of `contexts` contexts, with an interval over contexts. "systems" has the correlation
    of system means: `n` systems, the share of pairs of systems that the metric orders as people do (`accuracy`), soft
    pairwise accuracy (`soft_accuracy`), and intervals that resample contexts for the same systems (Boot-Inputs of
    Deutsch, Dror & Roth 2021): how far other contexts would change the result, not how far other systems would.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "task", "metric", "level", "group", "n", "contexts", "pearson", "pearson_ci", "spearman", "spearman_ci",
        "kendall", "kendall_ci", "accuracy", "epsilon", "soft_accuracy", "cluster",
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"accuracy": "pairs right", "soft_accuracy": "SPA"}

    def chart(self) -> Any:
        """Each item or system as a point, the metric against the truth, a panel a metric and group."""
        import altair as alt

        panels = []
        for row in self.rows:
            mine = self.points_of(self.points, row)
            if not mine.is_empty():
                where = "systems" if row["level"] == "systems" else row["group"]
                titled = row | {"metric": f"{row['metric']}, {where}"}
                panels.append(_scatter(self, titled, mine, self.signature.options["truth"]))
        return alt.concat(*panels, columns=3)

    def points_of(self, points: pl.DataFrame, row: Row) -> pl.DataFrame:
        """The points that belong to a row."""
        of_row = [pl.col(key) == row[key] for key in ("level", "group")]
        same_column = pl.lit(row["column"]).eq_missing(pl.col("column"))
        return super().points_of(points, row).filter(*of_row, same_column)


def _scatter(study: Study, row: Row, points: pl.DataFrame, truth: str) -> Any:
    import altair as alt

    base = study.panel(row, points, {kind: row[kind] for kind in KINDS})
    return base.mark_circle(opacity=0.6, size=40, color=PALETTE[0]).encode(
        x=alt.X("truth:Q", title=truth, scale=alt.Scale(zero=False)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
        tooltip=["id:N", "truth:Q", "value:Q"],
    )


@dataclass(frozen=True)
class _Part:
    """Items that are correlated together: all of a task, or a group of them."""

    task: Task
    truth: Array
    group: str
    column: str | None


def correlation_study(
    data: Any,
    metrics: Sequence[str | Metric] = (),
    *,
    truth: str,
    groups: Sequence[str] = (),
    against: str | None = None,
    within: str | None = None,
    systems: str | None = None,
    columns: Sequence[str] = (),
    ratings: Any = None,
    significance: bool = True,
    over: Over = "auto",
    interval: Interval | None = None,
    permutations: int = 1000,
    by: str | None = None,
    names: Sequence[str] = (),
    decimals: int | None = None,
    **reading: Any,
) -> CorrelationStudy:
    """Correlate metrics with the column `truth`, such as human scores of systems, of sets or of single texts.

    Items that share a context are not independent: intervals and tests between metrics resample contexts
    (`over="sets"`: items, as if they were). With several metrics, `cluster` groups those that a paired permutation test
    of Spearman's rho does not tell apart at p < .05.

    `groups` are columns; each of their values is correlated by itself, beside all items. `against` names a value, such
    as "reasonable" in a column of error types: each other value is then a group together with the items of that one,
    and the truth in it is 1 for that one and 0 for the others, as in Table 3 of paper 4. `within` is a column, mostly
    "context": the mean of the correlations inside each of its values. `systems` is a column, too: correlations of
    system means. The last two are over all items of a task; `by` makes tasks.
    """
    if against is not None and not groups:
        raise OptionError(f"'{against}' against which groups? Expected a column of groups with it")
    using = interval or Interval()
    tasks = make_tasks(
        data, metrics, columns=columns, ratings=ratings, by=by, names=names, decimals=decimals, **reading
    )
    leveled = bool(groups) or within is not None or systems is not None
    rows: list[Row] = []
    points = []
    notes = notes_about(tasks, over)
    if resampled_units(tasks, over) != "sets":
        notes.append("p-values (†, ‡) take items as independent, also where they share contexts; intervals do not")
    for task in tasks:
        levels = task.numbers(truth, "truth")
        if np.ptp(levels) == 0:
            raise DataError(f"all items have {levels[0]:g}: no correlation", file=task.name, column=truth)
        parts = [_Part(task, levels, OVERALL if leveled else task.name, None)]
        for column in dict.fromkeys(groups):
            parts += _groups_of(task, levels, column, against, notes)
        for part in parts:
            found = _rows_of(part, task.name, over, using, notes)
            if significance:
                resampled = part.task.groups(over)
                notes += add_clusters(
                    found, part.task, part.truth, resampled, permutations=permutations, seed=using.seed
                )
            rows += [row | {"task": task.name} for row in found]
            points += [_points(part, one, task.name) for one in part.task.measured]
        if within is not None:
            rows += [within_row(task, one, levels, within, using, notes) for one in task.measured]
        if systems is not None:
            for one in task.measured:
                row, means = system_row(task, one, levels, systems, over, using, permutations, notes)
                rows.append(row)
                points.append(means)
    options = {
        "truth": truth, **_numbers_of_references(tasks), "over": resampled_units(tasks, over),
        "ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}",
        "test": f"perm-both-{permutations}" if significance else "none", "seed": str(using.seed),
    }  # fmt: skip
    options |= {} if decimals is None else {"decimals": str(decimals)}
    levels_asked = {"groups": "/".join(groups), "against": against, "within": within, "systems": systems}
    options |= {key: value for key, value in levels_asked.items() if value}
    made = CorrelationLevels if leveled else CorrelationStudy
    return made(rows, Signature("correlation", options), notes=tuple(notes), points=pl.concat(points))


def _rows_of(part: _Part, name: str, over: Over, using: Interval, notes: list[str]) -> list[Row]:
    """A row a metric over the items of a part; `name` is the task's."""
    resampled = part.task.groups(over)
    rows = []
    for one in part.task.measured:
        row = _row(part.task, one, part.truth, resampled, using)
        if row["pearson"] is None and row["n"] >= FEWEST and np.ptp(part.truth) > 0:
            where = (name or "the data") if part.column is None else f"{part.column} {part.group}"
            if np.ptp(one.values[one.defined]) == 0:
                notes.append(f"{one.label} is the same on all items of {where}: no correlation")
            else:
                notes.append(f"all items of {where} that have {one.label} have the same truth: no correlation")
        rows.append(row | {"group": part.group, "level": "items", "column": part.column})
    return rows


def _groups_of(task: Task, levels: Array, column: str, against: str | None, notes: list[str]) -> list[_Part]:
    """The groups that a column makes, in the order of their names; notes say which items and groups do not count."""
    cells = cells_of(task, column)
    values = cells.drop_nulls().unique().sort().to_list()
    where = f" of {task.name}" if task.name else ""
    if against is not None:
        if against not in values or len(values) < 2:
            shown = ", ".join(values[:_SHOWN]) or "none"
            raise DataError(
                f"found the values {shown}; expected '{against}' and at least one other", file=task.name, column=column
            )
        values.remove(against)
        notes.append(f"groups by {column}: the truth is 1 for items of {against}, which are in every group, and else 0")
    if cells.null_count():
        notes.append(f"{cells.null_count()} of {len(task)} items{where} have no {column}: they are in no group")
    parts, unusable = [], []
    for value in values:
        rows = (cells.is_in([value, against]) if against is not None else cells == value).fill_null(False)
        chosen = rows.arg_true().to_numpy()
        truth = levels[chosen] if against is None else (cells == against).to_numpy()[chosen].astype(np.float64)
        measured = tuple(replace(one, values=one.values[chosen], spread=None) for one in task.measured)
        parts.append(_Part(Task(value, task.frame[chosen], measured), truth, value, column))
        if len(chosen) < FEWEST or np.ptp(truth) == 0:
            unusable.append(value)
    if unusable:
        shown = ", ".join(unusable[:_SHOWN]) + ", …" * (len(unusable) > _SHOWN)
        notes.append(
            f"no correlation in {len(unusable)} of {len(values)} groups by {column}{where}, which have fewer than "
            f"{FEWEST} items or the same truth on all of them: {shown}"
        )
    return parts


def _points(part: _Part, one: Measured, name: str) -> pl.DataFrame:
    return point_frame(name, one.label, "items", part.group, part.column, part.task.ids, part.truth, one.values)


def _numbers_of_references(tasks: Sequence[Task]) -> dict[str, str]:
    """How many references texts have, for the signature: more of them change the values of a metric."""
    columns = [task.sets.references for task in tasks if task.sets is not None and task.sets.references is not None]
    if not columns:
        return {}
    counts = pl.concat([column.list.len().fill_null(0) for column in columns]).unique().sort()
    return {"refs": str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"}


def _row(task: Task, one: Measured, levels: Array, groups: Array | None, using: Interval) -> Row:
    values, truth = one.values[one.defined], levels[one.defined]
    row: Row = {"task": task.name, "group": task.name, "metric": one.label, "n": len(values)}
    usable = len(values) >= FEWEST and np.ptp(values) > 0 and np.ptp(truth) > 0
    mine = None if groups is None else groups[one.defined]
    resampled = len(values) >= FEWEST_FOR_INTERVAL and (mine is None or len(np.unique(mine)) > 1)
    for kind in KINDS:
        found = correlation_test(values, truth, kind) if usable else None
        ci = None
        if found is not None and resampled:
            resampling: dict[str, Any] = {
                "confidence": using.confidence, "resamples": using.resamples, "seed": using.seed, "groups": mine,
            }  # fmt: skip
            ci = pair(bootstrap_intervals(values[None], truth, kind, **resampling)[0])
        row |= {
            kind: None if found is None else finite(found.value),
            f"{kind}_p": None if found is None else finite(found.p),
            f"{kind}_ci": ci,
        }
    pairs = calibrate_ties(values, truth) if usable and len(values) <= MOST_FOR_PAIRS else None
    row |= {
        "accuracy": None if pairs is None else pairs.value,
        "epsilon": None if pairs is None else pairs.epsilon,
    }
    return row | {"cluster": None, "signature": one.signature}
