"""Small charts side by side, one per row of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from nlgauge.drawing import alt, inline, shortened
from nlgauge.studies.base import Result, Row
from nlgauge.studies.tasks import Task

_BINS = 24


def panel(result: Result, row: Row, points: pl.DataFrame, found: Mapping[str, float | None]) -> Any:
    """One small chart of points, with what was found about them below its title."""
    title = f"{row[result.index]} on {row['task']}" if len(result.tasks) > 1 else str(row[result.index])
    under = ", ".join(f"{word} {value:.2f}" for word, value in found.items() if value is not None)
    heading = alt.Title(title, subtitle=under or "no correlation")
    return alt.Chart(inline(points.to_dicts()), title=heading, width=260, height=220)


def side_by_side(result: Result, panels: Sequence[Any]) -> Any:
    """Panels of all rows: one column per task when there are a few, otherwise three per line."""
    tasks = result.tasks
    if not 1 < len(tasks) <= 4:
        return alt.concat(*panels, columns=3)
    names = list(dict.fromkeys(row[result.index] for row in result.rows))
    places = {(row[result.index], row["task"]): one for row, one in zip(result.rows, panels, strict=True)}
    ordered = [places[name, task] for name in names for task in tasks if (name, task) in places]
    full = len(ordered) == len(names) * len(tasks)
    return alt.concat(*ordered, columns=len(tasks) if full else 3)


def points_frame(task: Task, metric: str, **columns: Any) -> pl.DataFrame:
    """Points of one metric on one task, those without a value left out."""
    points = pl.DataFrame(columns).filter(pl.col("value").is_finite())
    return points.select(pl.lit(task.name).alias("task"), pl.lit(metric).alias("metric"), pl.all())


def points_of_sets(task: Task, metric: str, **columns: Any) -> pl.DataFrame:
    """One point per set, with its id and its context."""
    return points_frame(task, metric, id=task.ids, context=list(map(shortened, task.contexts)), **columns)


def class_histogram(base: Any, title: str | None) -> Any:
    """Histograms of the sets of low and of high content diversity over each other."""
    classes = alt.Scale(domain=["low", "high"], range=["#dd7733", "#3366aa"])
    return base.mark_bar(opacity=0.55).encode(
        x=alt.X("value:Q", bin=alt.Bin(maxbins=_BINS), title=title),
        y=alt.Y("count():Q", stack=None, title="sets"),
        color=alt.Color("label:N", scale=classes, title="content diversity"),
        tooltip=["label:N", "count():Q", alt.Tooltip("value:Q", bin=alt.Bin(maxbins=_BINS), title="value")],
    )


def points_of(result: Result, row: Row, table: str = "points") -> pl.DataFrame:
    """The points that belong to a row."""
    points = result.tables[table]
    return points.filter((pl.col("task") == row["task"]) & (pl.col("metric") == row["metric"]))
