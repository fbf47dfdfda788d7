"""Studies as text, Markdown, LaTeX, CSV and JSON: a row a metric, and a column a task when there are several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from nlgauge.data.writing import guard_formulas
from nlgauge.errors import OptionError
from nlgauge.report.tables import FORMATS, aligned, latex_table, markdown_table, one_line
from nlgauge.studies.base import Row, Study

_DIGITS = 2


def render_study(study: Study, form: str) -> str:
    """A study's rows in one of `FORMATS`."""
    if form == "json":
        return study.to_json()
    if form == "csv":
        return _csv(study)
    header, rows = study_grid(study)
    notes = [one_line(note) for note in study.notes]
    if form == "markdown":
        return "\n".join([markdown_table(header, rows), "", f"- `{study.signature}`", *(f"- {note}" for note in notes)])
    if form == "latex":
        return latex_table(header, rows, [str(study.signature), *notes])
    if form == "text":
        return "\n".join([aligned(header, rows), "", str(study.signature), *(f"note: {note}" for note in notes)])
    raise OptionError(f"format '{form}'; expected one of {', '.join(FORMATS)}")


def study_grid(study: Study) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the table that papers print."""
    tasks = study.tasks
    if len(tasks) > 1 and study.side_by_side:
        header = [study.index]
        header += [f"{one_line(task)} {_title(study, key)}" for task in tasks for key in study.side_by_side]
        found = {(row[study.index], row["task"]): row for row in study.rows}
        names = list(dict.fromkeys(row[study.index] for row in study.rows))
        return header, [
            [one_line(str(name))]
            + [_cell(study, found.get((name, task), {}), key) for task in tasks for key in study.side_by_side]
            for name in names
        ]
    filled = {key for row in study.rows for key, value in row.items() if value is not None}
    shown = [key for key in study.columns if key in filled or key in study.side_by_side]
    header = [_title(study, key) for key in shown]
    return header, [[_cell(study, row, key) for key in shown] for row in study.rows]


def _title(study: Study, key: str) -> str:
    if key.endswith("_ci"):
        return f"{_title(study, key.removesuffix('_ci'))} interval"
    return study.titles.get(key, key)


def _cell(study: Study, row: Row, key: str) -> str:
    return show(row.get(key), study.digits.get(key, _DIGITS)) + mark(row.get(study.p_values.get(key, "")))


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


def _csv(study: Study) -> str:
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
    frame = pl.DataFrame(flat, infer_schema_length=None).with_columns(study=pl.lit(str(study.signature)))
    return guard_formulas(frame).write_csv().rstrip("\n")
