"""Agreement of metrics with people: Pearson, Spearman and Kendall with p-values (paper 2, section 3.2.4, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.drawing import PALETTE
from nlgauge.errors import DataError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import Kind, bootstrap_intervals, correlation_test
from nlgauge.stats.pairwise import calibrate_ties
from nlgauge.studies.base import Row, Study, finite, pair
from nlgauge.studies.significance import add_clusters
from nlgauge.studies.tasks import Measured, Over, Task, make_tasks, notes_about, resampled_units

KINDS: tuple[Kind, ...] = ("pearson", "spearman", "kendall")
_FEWEST_FOR_INTERVAL = 20
_MOST_FOR_PAIRS = 5000


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
        import altair as alt

        panels = []
        for row in self.rows:
            mine = self.points_of(self.points, row)
            base = self.panel(row, mine, {kind: row[kind] for kind in KINDS})
            panels.append(
                base.mark_circle(opacity=0.6, size=40, color=PALETTE[0]).encode(
                    x=alt.X("truth:Q", title=self.signature.options["truth"], scale=alt.Scale(zero=False)),
                    y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
                    tooltip=["id:N", "truth:Q", "value:Q"],
                )
            )
        return self.lay_out(panels)


def correlation_study(
    data: Any,
    metrics: Sequence[str | Metric] = (),
    *,
    truth: str,
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
    """
    using = interval or Interval()
    tasks = make_tasks(
        data, metrics, columns=columns, ratings=ratings, by=by, names=names, decimals=decimals, **reading
    )
    rows: list[Row] = []
    points = []
    notes = notes_about(tasks, over)
    if resampled_units(tasks, over) != "sets":
        notes.append("p-values (†, ‡) take items as independent, also where they share contexts; intervals do not")
    for task in tasks:
        groups = task.groups(over)
        levels = task.numbers(truth, "truth")
        if np.ptp(levels) == 0:
            raise DataError(f"all items have {levels[0]:g}: no correlation", file=task.name, column=truth)
        for one in task.measured:
            rows.append(_row(task, one, levels, groups, using))
            if rows[-1]["pearson"] is None and rows[-1]["n"]:
                notes.append(f"{one.label} is the same on all items of {task.name or 'the data'}: no correlation")
            points.append(
                pl.DataFrame(
                    {
                        "task": [task.name] * len(task), "metric": [one.label] * len(task), "id": task.ids,
                        "truth": levels, "value": one.values,
                    }
                ).filter(pl.col("value").is_finite())
            )  # fmt: skip
        if significance:
            notes += add_clusters(rows, task, levels, groups, permutations=permutations, seed=using.seed)
    options = {
        "truth": truth, **_numbers_of_references(tasks), "over": resampled_units(tasks, over),
        "ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}",
        "test": f"perm-both-{permutations}" if significance else "none", "seed": str(using.seed),
    }  # fmt: skip
    options |= {} if decimals is None else {"decimals": str(decimals)}
    return CorrelationStudy(rows, Signature("correlation", options), notes=tuple(notes), points=pl.concat(points))


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
    usable = len(values) >= 3 and np.ptp(values) > 0 and np.ptp(truth) > 0
    mine = None if groups is None else groups[one.defined]
    resampled = len(values) >= _FEWEST_FOR_INTERVAL and (mine is None or len(np.unique(mine)) > 1)
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
    pairs = calibrate_ties(values, truth) if usable and len(values) <= _MOST_FOR_PAIRS else None
    row |= {
        "accuracy": None if pairs is None else pairs.value,
        "epsilon": None if pairs is None else pairs.epsilon,
    }
    return row | {"cluster": None, "signature": one.signature}
