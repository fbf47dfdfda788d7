"""Nuggets: a subset in which form tells nothing about the label (paper 1, section 6.4 and appendix C.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option
from nlgauge.data.roles import ROLES
from nlgauge.drawing import alt, inline
from nlgauge.errors import DataError, argument
from nlgauge.metrics.base import Metric
from nlgauge.stats.correlation import correlation
from nlgauge.stats.inference import Inference
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, columns, facts_of, with_interval
from nlgauge.studies.diversity.content import class_labels, class_names
from nlgauge.studies.diversity.decoding import canonical_order
from nlgauge.studies.panels import class_histogram
from nlgauge.studies.rows import correlation_interval
from nlgauge.studies.sentences import between
from nlgauge.studies.tasks import MetricOptions, Task, TaskOptions, tasks_of, units_fact


@dataclass(frozen=True, kw_only=True)
class Nuggets(Inference, TaskOptions, Study):
    """Build a subset in which form tells nothing about the label: sort by form, balance the classes in each group.

    Sets are sorted by a metric of form and cut into groups of `group_size`; from each group as many sets of one class
    are drawn as of the other. The classes of the result are balanced, and the metric's correlation with them is near
    zero: `spearman_before` is over all sets, `spearman` over the kept ones. By default that metric is `distinct` as in
    the paper (`absent=zero`); where texts are short, sets that are neutral in it are not so in `distinct:absent=omit`.
    """

    name: ClassVar[str] = "nuggets"
    examples: ClassVar[tuple[str, ...]] = ("nlgauge study nuggets mcdiv.csv --kept nuggets.jsonl --chart nuggets.html",)
    layout: ClassVar[tuple[Column, ...]] = (
        *columns("metric", "n"),
        Column("kept", beside=True),
        *columns("share", "low", "high"),
        *with_interval("spearman_before", "rho before", digits=3, beside=True),
        *with_interval("spearman", "rho", digits=3, beside=True),
    )
    tables: ClassVar[dict[str, str]] = {"kept": "Write the kept sets with their texts:"}
    aspect: ClassVar[str] = "form"
    by_workers: ClassVar[bool] = True

    metric: str | Metric = option(
        "distinct",
        "The metric of form to neutralise.",
        metavar="NAME[:OPTION=VALUE,...]",
        flags=("--metric", "-m"),
        signed=False,
    )
    column: str | None = option(None, "Take this column instead of a metric.", metavar="COL", signed=False)
    label: str | None = option(None, f"Column of the two classes; default: {', '.join(ROLES['label'])}.", metavar="COL")
    high: str | None = option(None, "The label of the diverse class; default: the larger.", metavar="VALUE")
    group_size: int = option(40, "Sets in each group of similar form.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.group_size >= 2, "group_size", self.group_size, "at least 2 sets per group")

    def compute(self, data: StudyData) -> Result:
        """The kept sets of every task, and the metric's correlation with the label before and after."""
        metrics, column = ((), (self.column,)) if self.column else ((self.metric,), ())
        options = MetricOptions(metrics=metrics, columns=column, by=self.by, tasks=self.tasks)
        tasks = tasks_of(options, data, needs_texts=True)
        rows: list[Row] = []
        kept_sets, points = [], []
        labels = set()
        for task in tasks:
            label = task.column("label", self.label)
            labels.add(label)
            classes = class_labels(task, label, self.high)
            values = _form(task)
            order = canonical_order(task, np.zeros(len(task)))
            kept = draw_balanced(values, classes, order, self.group_size, self.seed)
            if len(kept) < 2:
                raise DataError(
                    f"no group of {self.group_size} sets has both classes; try a larger {argument('group_size')}",
                    file=task.name,
                )
            rows.append(self._row(task, classes, kept))
            if task.sets is not None:
                frame = task.sets.select(kept).to_polars()
                kept_sets.append(frame if len(tasks) == 1 else frame.with_columns(task=pl.lit(task.name)))
            mine = {"value": values, "label": class_names(classes), "kept": np.isin(np.arange(len(task)), kept)}
            points.append(pl.DataFrame({"task": [task.name] * len(task), **mine}))
        facts = {**facts_of(label=labels), **units_fact(tasks, self.unit)}
        tables = {"kept": pl.concat(kept_sets, how="diagonal_relaxed"), "points": pl.concat(points)}
        return Result(self, rows, (), facts, tables)

    def _row(self, task: Task, classes: Array, kept: Array) -> Row:
        one = task.measured[0]
        row: Row = {"task": task.name, "metric": one.label, "n": len(task), "kept": len(kept)}
        row["share"] = len(kept) / len(task)
        row |= {"low": int((classes[kept] == 0).sum()), "high": int((classes[kept] == 1).sum())}
        row["spearman_before"], row["spearman_before_ci"] = self._correlation(task, classes, np.arange(len(task)))
        row["spearman"], row["spearman_ci"] = self._correlation(task, classes, kept)
        return row | {"signature": one.signature}

    def _correlation(self, task: Task, classes: Array, rows: Array) -> tuple[float | None, list[float] | None]:
        """Spearman's rho of the metric with the label on these rows, and its interval."""
        values, groups = task.measured[0].values[rows], task.units(self.unit).of
        if np.ptp(values) == 0:
            return None, None
        mine = None if groups is None or len(set(groups[rows].tolist())) < 2 else groups[rows]
        interval = correlation_interval(values, classes[rows], "spearman", self, mine)
        return correlation(values, classes[rows], "spearman"), interval

    def sentence(self, result: Result) -> str:
        """How many sets are left, and whether form is still correlated with the label there."""
        return " ".join(_in_words(row, len(result.rows) > 1) for row in result.rows)

    def chart(self, result: Result) -> Any:
        """The two classes over the metric, all sets and kept ones."""
        points = result.tables["points"]
        panels = []
        for task in result.tasks:
            for kept, words in ((False, "all sets"), (True, "nuggets")):
                mine = points.filter((pl.col("task") == task) & (pl.col("kept") | pl.lit(not kept)))
                data = inline(mine.select("value", "label").to_dicts())
                base = alt.Chart(data, title=f"{task} {words}".strip(), width=320, height=220)
                panels.append(class_histogram(base, str(result.rows[0]["metric"])))
        return alt.concat(*panels, columns=2)


def _in_words(row: Row, several: bool) -> str:
    where = f"On {row['task']}, " if several else ""
    kept = f"{where}{row['kept']:,} of {row['n']:,} sets are kept"
    if row["spearman_ci"] is None:
        return f"{kept}; the correlation of {row['metric']} with the label has no interval there."
    told = row["spearman_ci"][0] > 0 or row["spearman_ci"][1] < 0
    found = "is still correlated" if told else "shows no correlation"
    before = row["spearman_before_ci"]
    all_sets = "" if before is None else f", and {between(before)} on all sets"
    return f"{kept}, on which {row['metric']} {found} with the label: rho {between(row['spearman_ci'])}{all_sets}."


def _form(task: Task) -> Array:
    """The metric of form on every set."""
    one = task.measured[0]
    if not one.defined.all():
        missing = task.ids[int(np.flatnonzero(~one.defined)[0])]
        raise DataError(f"set '{missing}' has no {one.label}; expected a value on every set", file=task.name)
    if np.ptp(one.values) == 0:
        raise DataError(f"{one.label} is the same on all sets: there is no form to balance", file=task.name)
    return one.values


def draw_balanced(values: Array, classes: Array, order: Array, group: int, seed: int) -> Array:
    """Row numbers of the kept sets, ascending; `order` breaks ties, so that the file's order does not matter."""
    rng = np.random.default_rng(seed)
    ranked = order[np.argsort(values[order], kind="stable")]
    kept = []
    for start in range(0, len(ranked), group):
        members = ranked[start : start + group]
        low, high = members[classes[members] == 0], members[classes[members] == 1]
        size = min(len(low), len(high))
        kept += [rng.permutation(low)[:size], rng.permutation(high)[:size]]
    return np.sort(np.concatenate(kept))
