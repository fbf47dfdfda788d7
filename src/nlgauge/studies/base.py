"""What a study returns: rows, a signature, a chart."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from nlgauge.drawing import inline
from nlgauge.errors import MissingExtra
from nlgauge.metrics.signature import Signature

Row = dict[str, Any]


@dataclass(frozen=True)
class Study(ABC):
    """The result of a study: one row for each metric on each task (or whatever the study counts).

    `columns` are the keys that a table shows, `side_by_side` those that it shows for each of several tasks, as papers
    print them; `titles` says what to call them, `digits` how many to show, `p_values` which key has a value's p-value.
    What could not be computed is None in a row, and `notes` say why.
    """

    name: ClassVar[str]
    index: ClassVar[str] = "metric"
    columns: ClassVar[tuple[str, ...]]
    side_by_side: ClassVar[tuple[str, ...]]
    titles: ClassVar[Mapping[str, str]] = {}
    digits: ClassVar[Mapping[str, int]] = {}
    p_values: ClassVar[Mapping[str, str]] = {}

    rows: Sequence[Row]
    signature: Signature
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @abstractmethod
    def chart(self) -> Any:
        """The study's figure, as an Altair chart."""

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks, in order."""
        return list(dict.fromkeys(str(row["task"]) for row in self.rows if "task" in row))

    def panel(self, row: Row, points: pl.DataFrame, found: Mapping[str, float | None]) -> Any:
        """One small chart of points, with what was found about them below its title."""
        import altair as alt

        title = f"{row[self.index]} on {row['task']}" if len(self.tasks) > 1 else str(row[self.index])
        under = ", ".join(f"{word} {value:.2f}" for word, value in found.items() if value is not None)
        heading = alt.Title(title, subtitle=under or "no correlation")
        return alt.Chart(inline(points.to_dicts()), title=heading, width=260, height=220)

    def lay_out(self, panels: Sequence[Any]) -> Any:
        """Panels of all rows side by side: a column a task when there are a few, otherwise three in a line."""
        import altair as alt

        tasks = self.tasks
        if not 1 < len(tasks) <= 4:
            return alt.concat(*panels, columns=3)
        names = list(dict.fromkeys(row[self.index] for row in self.rows))
        places = {(row[self.index], row["task"]): panel for row, panel in zip(self.rows, panels, strict=True)}
        ordered = [places[name, task] for name in names for task in tasks if (name, task) in places]
        full = len(ordered) == len(names) * len(tasks)
        return alt.concat(*ordered, columns=len(tasks) if full else 3)

    def points_of(self, points: pl.DataFrame, row: Row) -> pl.DataFrame:
        """The points that belong to a row."""
        return points.filter((pl.col("task") == row["task"]) & (pl.col("metric") == row["metric"]))

    def to_polars(self) -> pl.DataFrame:
        """The rows as a frame; intervals are lists of two."""
        return pl.DataFrame(list(self.rows), infer_schema_length=None)

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra.needs("to_pandas()", "pandas") from error

        return pandas.DataFrame(list(self.rows))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        document = {"study": self.name, "signature": str(self.signature), "rows": list(self.rows)}
        return {**document, "notes": list(self.notes)} if self.notes else document

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2, allow_nan=False)

    def row(self, metric: str, task: str | None = None) -> Row:
        """The row of one metric (on one task); for use in programs."""
        found = [r for r in self.rows if r[self.index] == metric and (task is None or r.get("task") == task)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} rows for {metric!r} on {task!r}; found {[r[self.index] for r in self.rows]}")
        return found[0]


def finite(value: float) -> float | None:
    """The number, or None where there is none."""
    return float(value) if math.isfinite(value) else None


def pair(interval: Sequence[float]) -> list[float] | None:
    """An interval for a row, or None where there is none."""
    low, high = float(interval[0]), float(interval[1])
    return [low, high] if math.isfinite(low) and math.isfinite(high) else None
