"""Agreement of metrics with people: Pearson, Spearman and Kendall with p-values (paper 2, section 3.2.4, Table 2).

Over all items, over the items of each group (paper 4, section 4.2, Table 3), within contexts, and over systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import option, required
from nlgauge.data.roles import names_in
from nlgauge.drawing import PALETTE, alt
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.stats.correlation import correlation_test, fisher_p
from nlgauge.stats.inference import Inference
from nlgauge.stats.pairwise import calibrate_ties
from nlgauge.stats.ratings.ceiling import SPLITS
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, View, finite
from nlgauge.studies.panels import panel, points_of, side_by_side
from nlgauge.studies.rows import add_clusters, correlation_interval
from nlgauge.studies.sentences import best_metrics
from nlgauge.studies.story.ceilings import COLUMNS, RatedTruth, rated_truth, split_ratings, with_truth
from nlgauge.studies.story.correlation_levels import (
    FEWEST,
    FEWEST_FOR_INTERVAL,
    KINDS,
    MOST_FOR_PAIRS,
    OVERALL,
    empty_row,
    points_of_row,
    system_row,
    within_row,
)
from nlgauge.studies.tasks import (
    Measured,
    MetricOptions,
    MetricTests,
    Task,
    notes_about,
    ratings_in,
    refuse_strangers,
    tasks_of,
    units_fact,
)

_SHOWN = 5
CORRELATIONS = tuple(
    column for kind in KINDS for column in (Column(kind, beside=True, p_value=f"{kind}_p"), Column(f"{kind}_ci"))
)


@dataclass(frozen=True)
class _Part:
    """Items that are correlated together: all of a task, or a group of them."""

    task: Task
    truth: Array
    group: str
    column: str | None
    rated: RatedTruth | None = None
    chosen: Array | None = None

    def ceiling(self, one: Measured, units: Array | None) -> Row:
        """How far a metric can correlate with the truth of these items, where single ratings are known."""
        if self.rated is None:
            return {}
        rows = np.flatnonzero(one.defined) if self.chosen is None else self.chosen[one.defined]
        return self.rated.cells(rows, units)


@dataclass(frozen=True, kw_only=True)
class CorrelationStudy(MetricTests, MetricOptions, Study):
    """Agreement with people: Pearson, Spearman and Kendall, marked † below p = .1 and ‡ below p = .05.

    Intervals are given from 20 items on. Items that share a context are not independent: intervals and tests between
    metrics resample contexts. With several metrics, `cluster` groups those that a paired permutation test of
    Spearman's rho does not tell apart at p < .05. `accuracy` is the share of pairs of items that the metric orders (or
    calls tied) as the truth does, when differences up to `epsilon` are ties; `epsilon` is the best one (Deutsch, Foster
    & Freitag 2023). Up to 5,000 items.

    With groups, contexts or systems, a row has a `level` and the column behind it in `column`. "items" is the
    correlation over items, of all of them ("overall") or of a group; with `against`, as in Table 3 of paper 4. "within"
    is the mean of the correlations inside each of `contexts` contexts, with an interval over contexts; its
    `accuracy` is the mean over all contexts, as in WMT's tasks, those of equal human scores included. "systems" is the
    correlation of system means: `n` systems, the share of pairs of systems that the metric orders as people do
    (`accuracy`), soft pairwise accuracy (`soft_accuracy`), and intervals that resample contexts for the same systems
    (Boot-Inputs of Deutsch, Dror & Roth 2021): how far other contexts would change the result, not how far other
    systems would.

    Where the single ratings behind the truth are known, as columns (`raters`) or as a question of the truth's name in
    `ratings` (whose mean is the truth where the data has no such column), `ceiling` is the Pearson correlation that a
    metric without any error would have, with its interval; `spearman_ceiling` and `kendall_ceiling` are those of the
    other two. It is the root of the mean ratings' reliability (`nlgauge.stats.ratings.ceiling`). "within" has Pearson's
    alone, "systems" where every rater rated every item.
    """

    name: ClassVar[str] = "correlation"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study correlation systems.csv --truth human --column distinct --column ead --by dataset",
        "nlgauge study correlation replies.csv --truth rating --text reply --references answer -m dialog",
        "nlgauge study correlation stories.jsonl --truth human -m bleu --group error --against reasonable",
        "nlgauge study correlation stories.jsonl --truth human -m bleu --within context --systems model",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        Column("metric"),
        Column("n"),
        *CORRELATIONS,
        Column("accuracy", "pairs right"),
        Column("epsilon", digits=4),
        Column("cluster"),
    )
    aspect: ClassVar[str] = "quality"

    truth: str = required("Column of human scores.", metavar="COL")
    groups: Sequence[str] = option(
        (), "Also the items of each value of this column; repeat for more.", metavar="COL", flags=("--group",)
    )
    raters: Sequence[str] = option(
        (),
        "Columns of single raters behind the truth ('rating_*'): adds a noise ceiling.",
        metavar="COL",
        flags=("--rater",),
        signed=False,
    )
    against: str | None = option(
        None, "Each group with the items of this value: truth is 1 for these, 0 for the others.", metavar="VALUE"
    )
    within: str | None = option(
        None, "Also the mean of correlations inside each value of this column, as in context.", metavar="COL"
    )
    systems: str | None = option(None, "Also correlations of the means of this column's systems.", metavar="COL")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.against is not None and not self.groups:
            raise OptionError(f"{argument('against', self.against)} requires a column of groups: {argument('groups')}")

    @property
    def has_levels(self) -> bool:
        """Whether rows are of several groups or levels."""
        return bool(self.groups) or self.within is not None or self.systems is not None

    def compute(self, data: StudyData) -> Result:
        """Correlations of every metric with the truth."""
        behind, others = split_ratings(ratings_in(self.ratings), self.truth)
        tasks = [with_truth(one, self.truth, behind) for one in tasks_of(replace(self, ratings=others), data)]
        if behind is not None:
            refuse_strangers(behind, tasks)
        rows: list[Row] = []
        points: list[pl.DataFrame] = []
        notes = notes_about(tasks, self.unit)
        units = units_fact(tasks, self.unit)
        if units["unit"] != "set":
            notes.append("intervals and p-values (†, ‡) are about contexts, which items share")
        for task in tasks:
            levels = task.numbers(self.truth, "truth")
            if np.ptp(levels) == 0:
                raise DataError(f"all items have {levels[0]:g}: no correlation", file=task.name, column=self.truth)
            rated = rated_truth(task, levels, self.raters, behind, self, notes)
            parts = [_Part(task, levels, OVERALL if self.has_levels else task.name, None, rated)]
            for column in dict.fromkeys(self.groups):
                parts += _groups_of(task, levels, column, self.against, rated, notes)
            for part in parts:
                own = self._rows(part, task.name, notes)
                rows += own
                points += [
                    points_of_row(row, part.task.ids, part.truth, one.values)
                    for row, one in zip(own, part.task.measured, strict=True)
                ]
            if self.within is not None:
                rows += [within_row(task, one, levels, self.within, self, notes, rated) for one in task.measured]
            if self.systems is not None:
                found = [system_row(task, one, levels, self.systems, self, notes, rated) for one in task.measured]
                rows += [row for row, _ in found]
                points += [means for _, means in found]
        facts = {**_numbers_of_references(tasks), **units}
        layout: tuple[Column, ...] = ()
        if any("ceiling" in row for row in rows):
            facts["ceiling"] = f"icc+halves-{SPLITS}"
            facts["raters"] = "+".join(self.raters) or "ratings"
            place = 2 + len(CORRELATIONS)
            layout = (*self.layout[:place], *COLUMNS, *self.layout[place:])
        return Result(self, rows, tuple(notes), facts, {"points": pl.concat(points)}, layout=layout)

    def _rows(self, part: _Part, name: str, notes: list[str]) -> list[Row]:
        """One row per metric over the items of a part; `name` is the task's."""
        resampled = part.task.units(self.unit).of
        rows = []
        for one in part.task.measured:
            row = _row(part, one, resampled, self) | part.ceiling(one, resampled)
            if row["pearson"] is None and row["n"] >= FEWEST and np.ptp(part.truth) > 0:
                where = (name or "the data") if part.column is None else f"{part.column} {part.group}"
                if np.ptp(one.values[one.defined]) == 0:
                    notes.append(f"{one.label} is the same on all items of {where}: no correlation")
                else:
                    notes.append(f"all items of {where} that have {one.label} have the same truth: no correlation")
            rows.append(row)
        if self.significance:
            notes += add_clusters(
                rows, part.task, part.truth, resampled, permutations=self.permutations, seed=self.seed
            )
        return [row | {"task": name} for row in rows]

    def sentence(self, result: Result) -> str:
        """Which metrics agree with people over all items, and which of them do not differ significantly."""
        overall = [row for row in result.rows if row["level"] == "items" and row["column"] is None]
        return best_metrics(replace(result, rows=overall), self.truth)

    def views(self, result: Result) -> Sequence[View]:
        """With levels, every row by itself; else the correlations of several tasks side by side."""
        if not self.has_levels:
            return super().views(result)
        metric, n, *found = result.layout or self.layout
        place = [column for column in found if column.key == "cluster"]
        others = [replace(column, beside=False) for column in found if column.key != "cluster"]
        named = [Column("task"), metric, Column("level"), Column("group"), n, Column("contexts")]
        return (View((*named, *others, Column("soft_accuracy", "SPA"), *place), result.rows),)

    def chart(self, result: Result) -> Any:
        """Each item or system as a point, the metric against the truth: one panel per metric and group."""
        panels = []
        for row in result.rows:
            same_column = pl.lit(row["column"]).eq_missing(pl.col("column"))
            mine = points_of(result, row).filter(level=row["level"], group=row["group"]).filter(same_column)
            if self.has_levels:
                if mine.is_empty():
                    continue
                row = row | {"metric": f"{row['metric']}, {'systems' if row['level'] == 'systems' else row['group']}"}
            base = panel(result, row, mine, {kind: row[kind] for kind in KINDS})
            panels.append(
                base.mark_circle(opacity=0.6, size=40, color=PALETTE[0]).encode(
                    x=alt.X("truth:Q", title=self.truth, scale=alt.Scale(zero=False)),
                    y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
                    tooltip=["id:N", "truth:Q", "value:Q"],
                )
            )
        return alt.concat(*panels, columns=3) if self.has_levels else side_by_side(result, panels)


def _groups_of(
    task: Task, levels: Array, column: str, against: str | None, rated: RatedTruth | None, notes: list[str]
) -> list[_Part]:
    """The groups that a column makes, in the order of their names; notes say which items and groups do not count."""
    cells = names_in(task.frame, column, option="groups", file=task.name)
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
        behind = rated if against is None else None
        parts.append(_Part(Task(value, task.frame[chosen], measured), truth, value, column, behind, chosen))
        if len(chosen) < FEWEST or np.ptp(truth) == 0:
            unusable.append(value)
    if unusable:
        shown = ", ".join(unusable[:_SHOWN]) + ", …" * (len(unusable) > _SHOWN)
        notes.append(
            f"no correlation in {len(unusable)} of {len(values)} groups by {column}{where}, which have fewer than "
            f"{FEWEST} items or the same truth on all of them: {shown}"
        )
    return parts


def _numbers_of_references(tasks: Sequence[Task]) -> dict[str, str]:
    """How many references texts have, for the signature: more of them change the values of a metric."""
    columns = [task.sets.references for task in tasks if task.sets is not None and task.sets.references is not None]
    if not columns:
        return {}
    counts = pl.concat([column.list.len().fill_null(0) for column in columns]).unique().sort()
    return {"refs": str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"}


def _row(part: _Part, one: Measured, groups: Array | None, using: Inference) -> Row:
    """A metric over the items of a part."""
    values, truth = one.values[one.defined], part.truth[one.defined]
    row = empty_row(part.task.name, one, "items", part.group, part.column, len(values))
    if len(values) < FEWEST or np.ptp(values) == 0 or np.ptp(truth) == 0:
        return row
    mine = None if groups is None else groups[one.defined]
    resampled = len(values) >= FEWEST_FOR_INTERVAL and (mine is None or len(np.unique(mine)) > 1)
    for kind in KINDS:
        found = correlation_test(values, truth, kind)
        row |= {kind: finite(found.value), f"{kind}_p": finite(found.p) if mine is None else None}
        if resampled:
            interval = correlation_interval(values, truth, kind, using, mine)
            row[f"{kind}_ci"] = interval
            if mine is not None and interval is not None:
                row[f"{kind}_p"] = finite(fisher_p(found.value, interval, len(np.unique(mine)), using.level))
    if len(values) <= MOST_FOR_PAIRS:
        pairs = calibrate_ties(values, truth)
        row |= {"accuracy": pairs.value, "epsilon": pairs.epsilon}
    return row
