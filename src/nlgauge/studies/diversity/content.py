"""The content test: does a metric tell sets of high content diversity from sets of low (paper 1, sections 3.2, 6.4)?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.data.roles import ROLES, names_in
from nlgauge.drawing import alt, inline
from nlgauge.errors import DataError
from nlgauge.stats.correlation import correlation
from nlgauge.stats.oca import optimal_accuracy_test
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, columns, facts_of, finite, pair, with_interval
from nlgauge.studies.panels import class_histogram, panel, points_of, points_of_sets, side_by_side
from nlgauge.studies.rows import correlation_interval, notes_on_rows
from nlgauge.studies.sentences import best_metrics
from nlgauge.studies.tasks import Measured, MetricOptions, MetricTests, Task, notes_about, tasks_of, units_fact

_TESTER, _MADE_BY, _FEW_MAKERS = "tester", "made_by", 3
_OCA = ("oca", "oca_corrected", "oca_corrected_ci", "oca_null", "oca_p")
_NO_LABEL = (
    "; the content test needs sets whose content diversity is known; what is known of each metric stands in "
    "docs/claims/diversity.md and under its numbers in nlgauge report"
)


@dataclass(frozen=True, kw_only=True)
class ContentTest(MetricTests, MetricOptions, Study):
    """Content test: does a metric tell high content diversity from low? Spearman, Pearson, OCA with its threshold.

    Sets have a label that says which of two classes they are. OCA is the best accuracy of "diverse if above a
    threshold"; `threshold` reaches it. It is chosen on the sets that it classifies: `oca_corrected` is the accuracy to
    expect on new sets, with an interval, `oca_null` the mean of OCA under permuted labels and `oca_p` its p-value. Sets
    that share a context are not independent: intervals and tests resample contexts. With several metrics, `cluster`
    groups those that a paired permutation test does not tell apart at p < .05.
    """

    name: ClassVar[str] = "content"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study content examples/content_sets.jsonl --label content_diversity -m distinct -m sent-sim",
        "nlgauge study content story.csv resp.csv --tasks story,resp --column 'metric_*' --format latex",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *columns("metric", "n"),
        *with_interval("spearman", "rho", beside=True),
        Column("pearson", "r"),
        Column("oca", "OCA", beside=True),
        *with_interval("oca_corrected", "OCA on new data"),
        Column("oca_null", "OCA by chance"),
        Column("oca_p", "p of OCA", digits=3),
        Column("threshold", digits=3),
        Column("cluster"),
    )
    aspect: ClassVar[str] = "content"

    label: str | None = option(None, f"Column of the two classes; default: {', '.join(ROLES['label'])}.", metavar="COL")
    high: str | None = option(None, "The label of the diverse class; default: the larger.", metavar="VALUE")
    directions: Literal["one", "both"] = option(
        "one", "OCA: above the threshold is diverse (paper), or either side (released code)."
    )

    def compute(self, data: StudyData) -> Result:
        """Correlations and OCA of every metric with the label."""
        tasks = tasks_of(self, data)
        rows: list[Row] = []
        points = []
        notes = notes_about(tasks, self.unit)
        labels = set()
        for task in tasks:
            label = task.column("label", self.label, _NO_LABEL)
            labels.add(label)
            classes = class_labels(task, label, self.high)
            groups = task.units(self.unit).of
            found = [self._row(task, one, classes, groups) for one in task.measured]
            notes += notes_on_rows(found, task, classes, self)
            rows += found
            names = class_names(classes)
            points += [points_of_sets(task, one.label, value=one.values, label=names) for one in task.measured]
        facts = {**facts_of(label=labels), **units_fact(tasks, self.unit)}
        for task in tasks:
            if _TESTER in task.frame.columns:
                notes.append(_who_wrote(task))
                facts |= facts_of(tester={*_testers(task), *filter(None, [facts.get("tester")])})
        return Result(self, rows, tuple(notes), facts, {"points": pl.concat(points)})

    def _row(self, task: Task, one: Measured, classes: Array, groups: Array | None) -> Row:
        values, truth = one.values[one.defined], classes[one.defined]
        row: Row = {"task": task.name, "metric": one.label, "n": len(values), "signature": one.signature}
        row |= dict.fromkeys(("spearman", "spearman_ci", "pearson", *_OCA, "threshold", "cluster"))
        if len(values) < 2 or np.ptp(values) == 0 or np.ptp(truth) == 0:
            return row
        mine = None if groups is None else groups[one.defined]
        best = optimal_accuracy_test(
            values, truth, directions=self.directions, groups=mine, level=self.level, seed=self.seed
        )
        return row | {
            "spearman": correlation(values, truth, "spearman"),
            "spearman_ci": correlation_interval(values, truth, "spearman", self, mine),
            "pearson": correlation(values, truth, "pearson"),
            "oca": best.value,
            "oca_corrected": best.corrected,
            "oca_corrected_ci": pair(best.ci),
            "oca_null": best.null,
            "oca_p": best.p,
            "threshold": finite(best.threshold),
        }

    def sentence(self, result: Result) -> str:
        """Which metrics follow the label, and which of them do not differ significantly."""
        return best_metrics(result, "the content label")

    def chart(self, result: Result) -> Any:
        """Histograms of the two classes, one panel per metric, the threshold marked (Figures 1 and 4)."""
        panels = []
        for row in result.rows:
            mine = points_of(result, row).select("value", "label")
            base = panel(result, row, mine, {"rho": row["spearman"], "OCA": row["oca"]})
            bars = class_histogram(base, None)
            panels.append(bars if row["threshold"] is None else alt.layer(bars, _threshold_mark(row)))
        return side_by_side(result, panels)


def _testers(task: Task) -> list[str]:
    return names_in(task.frame, _TESTER, file=task.name).fill_null("unknown").unique(maintain_order=True).to_list()


def _who_wrote(task: Task) -> str:
    """Who stands behind the numbers: the testers of the sets, and by name where they are few."""
    frame = task.frame
    makers = (
        names_in(frame, _MADE_BY, file=task.name).drop_nulls().unique().sort().to_list() if _MADE_BY in frame else []
    )
    by = f" ({', '.join(makers)})" if 0 < len(makers) <= _FEW_MAKERS else f" ({len(makers)} makers)" if makers else ""
    return f"the {len(task)} sets{task.where} were written by: {', '.join(_testers(task))}{by}"


def _threshold_mark(row: Row) -> Any:
    marked = inline([{"threshold": row["threshold"], "text": f"threshold {row['threshold']:.3f}"}])
    rule = alt.Chart(marked).mark_rule(strokeDash=[4, 3], color="black")
    return rule.encode(x="threshold:Q", tooltip="text:N")


def class_labels(task: Task, column: str, high: str | None) -> Array:
    """Which sets are of the diverse class, as 0 and 1."""
    if high is None:
        values = pl.Series(task.numbers(column, "label"))
    else:
        values = names_in(task.frame, column, option="label", file=task.name)
        if values.null_count():
            missing = task.ids[int(values.is_null().arg_true()[0])]
            raise DataError(f"set '{missing}' has no label; expected one for every set", file=task.name, column=column)
        if high not in values:
            raise DataError(f"no set has the label '{high}'", file=task.name, column=column)
    kinds = values.unique().sort().to_list()
    if len(kinds) != 2:
        shown = ", ".join(f"{kind:g}" if high is None else kind for kind in kinds[:5])
        advice = "; for a parameter with many values use `nlgauge study decoding`" if len(kinds) > 2 else ""
        count = f"{len(kinds)} different labels" if len(kinds) > 1 else "one class only"
        more = ", …" if len(kinds) > 5 else ""
        raise DataError(
            f"{count} ({shown}{more}); expected two classes, high and low content diversity{advice}",
            file=task.name,
            column=column,
        )
    return (values == (kinds[1] if high is None else high)).cast(pl.Float64).to_numpy()


def class_names(classes: Array) -> Array:
    """The two classes in words, for a chart."""
    return np.where(classes == 1, "high", "low")
