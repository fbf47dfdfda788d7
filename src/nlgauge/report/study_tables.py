"""Studies as text, Markdown, LaTeX, CSV and JSON: one row per metric, and one column per task if there are several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from nlgauge.report.tables import (
    Sheet,
    aligned,
    latex_table,
    markdown_table,
    markdown_text,
    one_line,
    plain_html,
    render,
)
from nlgauge.studies.base import Column, Result, Row

_DIGITS = 2


@dataclass(frozen=True)
class StudySheet(Sheet):
    """A study's result: its sentence, one table per view, its signature and notes."""

    views: tuple[tuple[str, list[str], list[list[str]]], ...] = ()

    def shown(self, form: str) -> str:
        """For readers: as text, Markdown or LaTeX."""
        signature, views = self.signatures[0], self.views
        if form == "markdown":
            tables = [
                f"{plain_html(title)}\n\n" * bool(title) + markdown_table(head, rows, markdown_text) + "\n"
                for title, head, rows in views
            ]
            notes = (f"- {plain_html(note)}" for note in self.notes)
            return "\n".join([plain_html(self.text), "", *tables, f"- `{signature}`", *notes])
        if form == "latex":
            tables = [latex_table(head, rows, [title, signature]) + "\n" for title, head, rows in views[:-1]]
            return "\n".join([f"% {self.text}", *tables, latex_table(self.header, self.rows, [signature, *self.notes])])
        tables = [f"{title}\n" * bool(title) + aligned(head, rows) + "\n" for title, head, rows in views]
        return "\n".join([self.text, "", *tables, signature, *(f"note: {note}" for note in self.notes)])


def study_sheet(study: Result) -> StudySheet:
    """A study's result, ready for every format."""
    views = [(one_line(view.title), *grid(study.index, view.columns, view.rows)) for view in study.study.views(study)]
    return StudySheet(
        *views[-1][1:],
        [str(study.signature)],
        study_frame(study),
        study.to_dict(),
        tuple(map(one_line, study.notes)),
        text=one_line(study.sentence),
        views=tuple(views),
    )


def render_study(study: Result, form: str) -> str:
    """A study's rows in one of `FORMATS`."""
    return render(study_sheet(study), form)


def grid(index: str, columns: Sequence[Column], rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and cells: rows as they are, or one row per name with the columns of each task side by side."""
    tasks = list(dict.fromkeys(str(row["task"]) for row in rows if "task" in row))
    titles = {column.key: column.title or column.key for column in columns}
    beside = [column for column in columns if column.beside]
    if len(tasks) > 1 and beside:
        header = [index, *(f"{one_line(task)} {_title(column, titles)}" for task in tasks for column in beside)]
        found = {(row[index], row["task"]): row for row in rows}
        names = list(dict.fromkeys(row[index] for row in rows))
        return header, [
            [one_line(str(name)), *(_cell(column, found.get((name, task), {})) for task in tasks for column in beside)]
            for name in names
        ]
    filled = {key for row in rows for key, value in row.items() if value is not None}
    shown = [column for column in columns if column.key in filled or column.beside]
    return [_title(column, titles) for column in shown], [[_cell(column, row) for column in shown] for row in rows]


def _title(column: Column, titles: Mapping[str, str]) -> str:
    stem = column.key.removesuffix("_ci")
    if column.title or stem == column.key:
        return titles[column.key]
    return f"{titles.get(stem, stem)} interval"


def _cell(column: Column, row: Row) -> str:
    return show(row.get(column.key), column.digits) + mark(row.get(column.p_value))


def mark(p: float | None) -> str:
    """‡ below .05 and † below .1, as paper 2 marks its correlations."""
    return "" if p is None or p >= 0.1 else "†" if p >= 0.05 else "‡"


def show(value: Any, digits: int = _DIGITS) -> str:
    """A value as papers print it: .57, [.48, .65], a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, bool | int | str):
        return one_line(str(value))
    if isinstance(value, float):
        return short(value, digits)
    if isinstance(value, Sequence) and value and all(isinstance(part, float) for part in value):
        return "[" + ", ".join(short(part, digits) for part in value) + "]"
    return ", ".join(show(part, digits) for part in value) or "-"


def short(value: float, digits: int = _DIGITS) -> str:
    """A number without the zero before its point, and without a negative zero."""
    text = f"{value:.{digits}f}"
    if text.strip("-0.") == "":
        text = text.removeprefix("-")
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def study_frame(study: Result) -> pl.DataFrame:
    """The rows as a flat frame: intervals in two columns, lists as text, the signature beside them."""
    keys = list(dict.fromkeys(key for row in study.rows for key in row))
    flat: list[dict[str, Any]] = []
    for row in study.rows:
        cells: dict[str, Any] = {}
        for key in keys:
            value = row.get(key)
            if key.endswith("_ci"):
                cells[f"{key}_low"], cells[f"{key}_high"] = value or (None, None)
            else:
                cells[key] = "; ".join(map(str, value)) if isinstance(value, list | tuple) else value
        flat.append(cells)
    return pl.DataFrame(flat, infer_schema_length=None).with_columns(study=pl.lit(str(study.signature)))
