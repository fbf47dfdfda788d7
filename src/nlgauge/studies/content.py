"""The content test: does a metric tell sets of high content diversity from sets of low (paper 1, sections 3.2, 6.4)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.drawing import inline, shortened
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import bootstrap_intervals, correlation, optimal_accuracy
from nlgauge.studies.base import Row, Study, finite, pair
from nlgauge.studies.significance import add_clusters
from nlgauge.studies.tasks import Measured, Over, Task, make_tasks, notes_about, resampled_units

LABELS = ("label_value", "label", "content_diversity")
_BINS = 24
_NO_LABEL = (
    "; the content test needs sets whose content diversity is known; what is known of each metric stands in "
    "docs/claims/diversity.md and under its numbers in nlgauge report"
)


@dataclass(frozen=True)
class ContentTest(Study):
    """Spearman's rho, Pearson's r and OCA of every metric with the label; `threshold` reaches the OCA."""

    name: ClassVar[str] = "content"
    columns: ClassVar[tuple[str, ...]] = (
        "metric", "n", "spearman", "spearman_ci", "pearson", "oca", "oca_ci", "threshold", "cluster"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ("spearman", "oca")
    titles: ClassVar[Mapping[str, str]] = {"spearman": "rho", "oca": "OCA", "pearson": "r"}
    digits: ClassVar[Mapping[str, int]] = {"threshold": 3}

    points: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    def chart(self) -> Any:
        """Histograms of the two classes, a panel a metric, the threshold marked (Figures 1 and 4)."""
        import altair as alt

        classes = alt.Scale(domain=["low", "high"], range=["#dd7733", "#3366aa"])
        panels = []
        for row in self.rows:
            mine = self.points_of(self.points, row).select("value", "label")
            base = self.panel(row, mine, {"rho": row["spearman"], "OCA": row["oca"]})
            bars = base.mark_bar(opacity=0.55).encode(
                x=alt.X("value:Q", bin=alt.Bin(maxbins=_BINS), title=None),
                y=alt.Y("count():Q", stack=None, title="sets"),
                color=alt.Color("label:N", scale=classes, title="content diversity"),
                tooltip=["label:N", "count():Q", alt.Tooltip("value:Q", bin=alt.Bin(maxbins=_BINS), title="value")],
            )
            panels.append(bars if row["threshold"] is None else alt.layer(bars, _threshold_mark(row)))
        return self.lay_out(panels)


def _threshold_mark(row: Row) -> Any:
    import altair as alt

    marked = inline([{"threshold": row["threshold"], "text": f"threshold {row['threshold']:.3f}"}])
    rule = alt.Chart(marked).mark_rule(strokeDash=[4, 3], color="black")
    return rule.encode(x="threshold:Q", tooltip="text:N")


def content_test(
    data: Any,
    metrics: Sequence[str | Metric] = (),
    *,
    columns: Sequence[str] = (),
    ratings: Any = None,
    label: str | None = None,
    high: str | None = None,
    directions: Literal["one", "both"] = "one",
    significance: bool = True,
    over: Over = "auto",
    interval: Interval | None = None,
    permutations: int = 1000,
    by: str | None = None,
    names: Sequence[str] = (),
    decimals: int | None = None,
    **reading: Any,
) -> ContentTest:
    """Run the content test on response sets whose `label` says which of two classes they are.

    The larger label is the diverse class, or `high` says which. OCA is the best accuracy of "diverse if above a
    threshold"; `directions="both"` also tries "below", as the released code does, which flatters an inverted metric.
    Sets that share a context are not independent: intervals and tests resample contexts (`over="sets"`: sets, as if
    they were). With several metrics, `cluster` groups those that a paired permutation test does not tell apart at
    p < .05.
    """
    if directions not in ("one", "both"):
        raise OptionError(f"directions '{directions}'; expected one (the paper's) or both (the released code's)")
    using = interval or Interval()
    tasks = make_tasks(
        data, metrics, columns=columns, ratings=ratings, by=by, names=names, decimals=decimals, **reading
    )
    rows: list[Row] = []
    points = []
    notes = notes_about(tasks, over)
    chosen = ""
    for task in tasks:
        chosen = label or find_column(task, LABELS, "label", _NO_LABEL)
        classes = class_labels(task, chosen, high)
        groups = task.groups(over)
        for one in task.measured:
            row = _row(task, one, classes, groups, using, directions)
            if row["spearman"] is None and row["n"]:
                notes.append(f"{one.label} is the same on all sets of {task.name or 'the data'}: no correlation")
            rows.append(row)
            points.append(_points(task, one, classes))
        if significance:
            notes += add_clusters(rows, task, classes, groups, permutations=permutations, seed=using.seed)
    options = {
        "label": chosen, "oca": directions, "over": resampled_units(tasks, over), "ci": f"{using.confidence:g}",
        "by": f"bootstrap-{using.resamples}",
        "test": f"perm-both-{permutations}" if significance else "none", "seed": str(using.seed),
    }  # fmt: skip
    options |= {} if decimals is None else {"decimals": str(decimals)}
    return ContentTest(rows, Signature("content", options), notes=tuple(notes), points=pl.concat(points))


def find_column(task: Task, usual: Sequence[str], what: str, advice: str = "") -> str:
    """The first usual name that the data has."""
    found = next((name for name in usual if name in task.frame.columns), None)
    if found is None:
        raise DataError(
            f"no {what}; found columns {', '.join(task.frame.columns)}; name the column with --{what}{advice}",
            file=task.name,
        )
    return found


def class_labels(task: Task, column: str, high: str | None) -> Array:
    """Which sets are of the diverse class, as 0 and 1."""
    if high is None:
        values = task.numbers(column, "label")
    else:
        if column not in task.frame.columns:
            raise DataError(f"no such column; found {', '.join(task.frame.columns)}", file=task.name, column=column)
        texts = task.frame[column].cast(pl.String)
        if texts.null_count():
            missing = task.ids[int(texts.is_null().arg_true()[0])]
            raise DataError(f"set '{missing}' has no label; expected one for every set", file=task.name, column=column)
        if high not in texts.to_list():
            raise DataError(f"no set has the label '{high}'", file=task.name, column=column)
        kinds = texts.unique().sort().to_list()
        if len(kinds) != 2:
            raise _not_two(task, column, kinds)
        return np.where((texts == high).to_numpy(), 1.0, 0.0)
    kinds = np.unique(values).tolist()
    if len(kinds) != 2:
        raise _not_two(task, column, kinds)
    return np.where(values == kinds[1], 1.0, 0.0)


def _not_two(task: Task, column: str, kinds: Sequence[Any]) -> DataError:
    shown = ", ".join(f"{kind:g}" if isinstance(kind, float) else str(kind) for kind in kinds[:5])
    advice = "; for a parameter with many values use `nlgauge study decoding`" if len(kinds) > 2 else ""
    count = f"{len(kinds)} different labels" if len(kinds) > 1 else "one class only"
    return DataError(
        f"{count} ({shown}{', …' * (len(kinds) > 5)}); expected two classes, high and low content diversity{advice}",
        file=task.name,
        column=column,
    )


def _row(
    task: Task,
    one: Measured,
    classes: Array,
    groups: Array | None,
    using: Interval,
    directions: Literal["one", "both"],
) -> Row:
    values, truth = one.values[one.defined], classes[one.defined]
    row: Row = {
        "task": task.name, "metric": one.label, "n": len(values), "spearman": None, "spearman_ci": None,
        "pearson": None, "oca": None, "oca_ci": None, "threshold": None, "cluster": None, "signature": one.signature,
    }  # fmt: skip
    if len(values) < 2 or np.ptp(values) == 0 or np.ptp(truth) == 0:
        return row
    accuracy, threshold = optimal_accuracy(values, truth, directions=directions)
    resampling: dict[str, Any] = {
        "confidence": using.confidence, "resamples": using.resamples, "seed": using.seed,
        "groups": None if groups is None else groups[one.defined],
    }  # fmt: skip
    best: Literal["oca", "oca-both"] = "oca" if directions == "one" else "oca-both"
    return row | {
        "spearman": correlation(values, truth, "spearman"),
        "spearman_ci": pair(bootstrap_intervals(values[None], truth, "spearman", **resampling)[0]),
        "pearson": correlation(values, truth, "pearson"),
        "oca": accuracy,
        "oca_ci": pair(bootstrap_intervals(values[None], truth, best, **resampling)[0]),
        "threshold": finite(threshold),
    }


def _points(task: Task, one: Measured, classes: Array) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "task": [task.name] * len(task),
            "metric": [one.label] * len(task),
            "id": task.ids,
            "context": [shortened(context) for context in task.contexts],
            "value": one.values,
            "label": ["high" if high else "low" for high in classes],
        }
    )
    return frame.filter(pl.col("value").is_finite())
