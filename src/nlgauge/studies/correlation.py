"""Agreement of metrics with people: Pearson, Spearman and Kendall with p-values (paper 2, section 3.2.4, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.drawing import PALETTE
from nlgauge.errors import DataError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import Kind, bootstrap_intervals, correlation_test
from nlgauge.stats.pairwise import calibrate_ties
from nlgauge.studies.base import Row, Study, finite, pair
from nlgauge.studies.tasks import Measured, Task, make_tasks, notes_about

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
        "epsilon",
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
    interval: Interval | None = None,
    by: str | None = None,
    names: Sequence[str] = (),
    decimals: int | None = None,
    **reading: Any,
) -> CorrelationStudy:
    """Correlate metrics with the column `truth`, such as human scores of systems or of sets."""
    using = interval or Interval()
    tasks = make_tasks(
        data, metrics, columns=columns, ratings=ratings, by=by, names=names, decimals=decimals, **reading
    )
    rows: list[Row] = []
    points = []
    notes = notes_about(tasks)
    for task in tasks:
        levels = task.numbers(truth, "truth")
        if np.ptp(levels) == 0:
            raise DataError(f"all items have {levels[0]:g}: no correlation", file=task.name, column=truth)
        for one in task.measured:
            rows.append(_row(task, one, levels[one.defined], using))
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
    options = {
        "truth": truth, "ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}", "seed": str(using.seed)
    }  # fmt: skip
    options |= {} if decimals is None else {"decimals": str(decimals)}
    return CorrelationStudy(rows, Signature("correlation", options), notes=tuple(notes), points=pl.concat(points))


def _row(task: Task, one: Measured, truth: Any, using: Interval) -> Row:
    values = one.values[one.defined]
    row: Row = {"task": task.name, "group": task.name, "metric": one.label, "n": len(values)}
    usable = len(values) >= 3 and np.ptp(values) > 0 and np.ptp(truth) > 0
    for kind in KINDS:
        found = correlation_test(values, truth, kind) if usable else None
        ci = None
        if found is not None and len(values) >= _FEWEST_FOR_INTERVAL:
            resampling: dict[str, Any] = {
                "confidence": using.confidence, "resamples": using.resamples, "seed": using.seed
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
    return row | {"signature": one.signature}
