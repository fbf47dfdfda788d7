"""Reading ratings: one row per rating, or one row per item with one column per rater."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import polars as pl

from nlgauge.data.plain_tables import read_cells
from nlgauge.data.roles import no_such_column
from nlgauge.data.tables import Origin, Ratings
from nlgauge.errors import DataError, OptionError, argument

Scale = tuple[float, float]
_KEPT = ("pair", "time")
_NOT_NAMES = ("value", "assignment")
_WILD = frozenset("*?[")
_OTHERWISE = {
    "value": ", or give a pattern such as 'rating_*' if each rater has a column",
    "rater": ", or give a pattern of value columns if each rater has one",
}


def read_ratings(
    path: str | Path,
    *,
    item: str = "item",
    rater: str = "rater",
    question: str = "question",
    value: str = "value",
    assignment: str = "assignment",
    scale: Scale | None = None,
    format: str = "",
) -> Ratings:
    """Read ratings from a table whose columns have these names.

    Without a column `question`, the question is the name of the value column. A column `pair` (the two responses of a
    set that were compared, such as `0-2`) and a column `time` are kept. So is a column `assignment`: it names what was
    rated together, where numbers can be compared within one assignment only ("" as its name: there is none). `value`
    may be a pattern such as `rating_*`: each column that it matches holds the ratings of one rater, who is named after
    the column; an empty cell there is not a rating. `scale` gives the lowest and the highest rating that may occur.
    """
    taken = (item, rater, question, value)
    _check_options(taken if assignment in ("", "assignment") else (*taken, assignment), scale)
    frame, origin = read_cells(path, format=format)
    is_wide = value not in frame.columns and not _WILD.isdisjoint(value)
    names = {"item": item} if is_wide else {"item": item, "rater": rater, "value": value}
    if question in frame.columns or question != "question":
        names["question"] = question
    if assignment != "assignment" or (assignment in frame.columns and assignment not in taken):
        names |= {"assignment": assignment} if assignment else {}
    for role, name in names.items():
        if name not in frame.columns:
            advice = f"name the column with {argument(role)}{_OTHERWISE.get(role, '')}"
            raise no_such_column(name, frame.columns, file=origin.file, option=role, advice=advice)
    about = frame.select(
        *(_name_column(frame, part, name, origin) for part, name in names.items() if part not in _NOT_NAMES),
        *(_kept_column(frame, name, name) for name in _KEPT if name in frame.columns and name not in names.values()),
        *(_kept_column(frame, name, part) for part, name in names.items() if part == "assignment"),
    )
    lines = np.asarray(origin.lines)
    if is_wide:
        rows = about.with_row_index("row")
        raters = {
            name: _numbers(frame[name], origin, scale, may_be_empty=True)
            for name in _rater_columns(frame, rater, value, origin, taken={*names.values(), *_KEPT})
        }
        parts = [rows.with_columns(rater=pl.lit(name), value=numbers) for name, numbers in raters.items()]
        table = pl.concat(parts).filter(pl.col("value").is_not_null()).sort("row", maintain_order=True)
        if table.height == 0:
            raise DataError("every cell is empty; expected ratings", file=origin.file, column=value)
        lines = lines[table["row"].to_numpy()]
    else:
        table = about.with_columns(value=_numbers(frame[value], origin, scale))
    if "question" not in names:
        table = table.with_columns(question=pl.lit(_stem(value) if is_wide else value))
    others = (name for name in ("assignment", *_KEPT) if name in table.columns)
    order = ["item", "rater", "question", "value", *others]
    ratings = Ratings(table.select(order), Origin(origin.file, lines, names))
    _refuse_repeats(ratings)
    return ratings


def _check_options(names: Sequence[str], scale: Scale | None) -> None:
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"the column '{name}' has two roles; expected one column for each")
    if scale is not None and not (math.isfinite(scale[0]) and math.isfinite(scale[1]) and scale[0] < scale[1]):
        raise OptionError(f"a scale from {scale[0]:g} to {scale[1]:g}; expected the lowest and the highest rating")


def _name_column(frame: pl.DataFrame, part: str, name: str, origin: Origin) -> pl.Series:
    """A column of names, none of them empty; numbers are names, too."""
    column = frame[name]
    if column.dtype == pl.String and (empty := (column.str.strip_chars() == "").fill_null(value=False)).any():
        raise origin.error(int(empty.arg_true()[0]), f"the cell is empty; expected the name of the {part}", name)
    return column.alias(part)


def _kept_column(frame: pl.DataFrame, name: str, part: str) -> pl.Series:
    column = frame[name].alias(part)
    if part != "time" and not column.dtype.is_nested():
        column = column.cast(pl.String)
    return column.replace("", None) if column.dtype == pl.String else column


def _rater_columns(frame: pl.DataFrame, rater: str, value: str, origin: Origin, *, taken: set[str]) -> list[str]:
    columns = [name for name in frame.columns if fnmatchcase(name, value) and name not in taken]
    if not columns:
        raise no_such_column(value, frame.columns, file=origin.file, option="value")
    if rater in frame.columns:
        raise DataError(
            f"this column has the raters, so '{value}' cannot match one column per rater ({', '.join(columns)}); "
            f"expected one of the two: name a single value column with {argument('value')}",
            file=origin.file,
            column=rater,
        )
    return columns


def _numbers(values: pl.Series, origin: Origin, scale: Scale | None, *, may_be_empty: bool = False) -> pl.Series:
    """Ratings as numbers on the scale, null for an empty cell; raises an error for the first that is not a number."""
    if values.dtype.is_nested():
        raise DataError(f"holds {values.dtype}; expected one number per row", file=origin.file, column=values.name)
    if values.dtype == pl.String:
        values = values.str.strip_chars().replace("", None)
    numbers = values.cast(pl.Float64, strict=False)
    bad = values.is_not_null() & ~numbers.is_finite().fill_null(value=False)
    if values.dtype == pl.Boolean:
        bad = values.is_not_null()
    if not may_be_empty:
        bad |= values.is_null()
    if bad.any():
        row = int(bad.arg_true()[0])
        found = "the cell is empty" if values[row] is None else f"'{str(values[row])[:60]}'"
        raise origin.error(row, f"{found}; expected a number", values.name)
    if scale is not None and (outside := ~numbers.is_between(*scale).fill_null(value=True)).any():
        row = int(outside.arg_true()[0])
        message = f"the rating {numbers[row]:g} is outside the scale; expected {scale[0]:g} to {scale[1]:g}"
        raise origin.error(row, message, values.name)
    return numbers


def _stem(pattern: str) -> str:
    """The common prefix of the matching columns before the first wild card: `rating` for `rating_*`."""
    end = min(pattern.index(sign) for sign in _WILD if sign in pattern)
    return pattern[:end].rstrip("_-. ") or pattern


def _refuse_repeats(ratings: Ratings) -> None:
    frame, origin = ratings.frame, ratings.origin
    keys = [name for name in ("item", "rater", "question", "pair") if name in frame.columns]
    numbered = frame.with_row_index("row").select(pl.col("row").first().over(keys).alias("first"), "row")
    repeats = numbered.filter(pl.col("first") < pl.col("row"))
    if repeats.height == 0:
        return
    before, here = (frame.row(number, named=True) for number in repeats.row(0))
    first_line, line = (origin.line(number) for number in repeats.row(0))
    pair = f", pair '{here['pair']}'" if here.get("pair") is not None else ""
    raise DataError(
        f"rater '{here['rater']}' rated item '{here['item']}'{pair}, question '{here['question']}' twice: "
        f"{before['value']:g} on line {first_line} and {here['value']:g} on line {line}; expected one: delete "
        "the other",
        file=origin.file,
        line=line,
    )
