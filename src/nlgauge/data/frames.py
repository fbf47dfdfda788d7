"""Data in memory: frames of Polars, of pandas and of what offers Arrow's stream interface, and lists of records."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import polars as pl

from nlgauge.data.assembling import Assembly, Extras, Table, as_one_set
from nlgauge.data.columns import Reading
from nlgauge.data.roles import ROLES
from nlgauge.errors import DataError


def is_frame(data: Any) -> bool:
    """Whether an object has named columns: a frame of Polars or pandas, an Arrow table, or a list of dictionaries.

    A column alone has none.
    """
    if isinstance(data, pl.DataFrame | pl.LazyFrame) or _is_pandas(data) or is_records(data):
        return True
    named = any(hasattr(data, name) for name in ("column_names", "columns", "schema"))
    return named and hasattr(data, "__arrow_c_stream__")


def with_unique_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows with an id that others have, too, get `id/value`, with the value of the first column in which they differ.

    Columns of labels, parameters and systems are tried; rows that are equal there are numbered from the second on
    (`id/value/2`). The released files of paper 1 have one `sample_id` for the high and the low set of a context. Ids
    stay as they are where no such column has two values or more for every duplicated id.
    """
    twice = frame["id"].is_duplicated()
    for name in dict.fromkeys((*ROLES["label"], *ROLES["parameter"], *ROLES["system"])) if twice.any() else ():
        if name not in frame.columns or frame[name].dtype.is_nested() or frame[name].null_count():
            continue
        if not frame.select((pl.col(name).n_unique().over("id") > 1) | ~twice).to_series().all():
            continue
        number = pl.col(name).cast(pl.Float64, strict=False)
        whole = pl.when(number == number.round()).then(number.cast(pl.Int64, strict=False).cast(pl.String))
        made = pl.concat_str("id", whole.otherwise(pl.col(name).cast(pl.String)), separator="/")
        found = frame.with_columns(id=pl.when(twice).then(made).otherwise("id"))
        place = pl.int_range(1, pl.len() + 1).over("id")
        found = found.with_columns(id=pl.when(place > 1).then(pl.format("{}/{}", "id", place)).otherwise("id"))
        if not found["id"].is_duplicated().any():
            return found
    return frame


def is_records(data: Any) -> bool:
    """Whether an object is a list of rows, each a dictionary with the names of columns."""
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(row, Mapping) for row in data)


def frame_table(data: Any, reading: Reading, extras: Extras = "all") -> Table:
    """A frame as a table: its columns mean what those of a file mean, and ids are row numbers where it has none."""
    reading.check_frame()
    assembly, columns = Assembly(reading=reading, extras=extras), _columns(data)
    table = assembly.frame_table(polars_frame(data), None) if columns is None else assembly.table(columns, None)
    return as_one_set(table) if reading.one_set else table


def polars_frame(data: Any) -> pl.DataFrame:
    """Any frame as one of Polars, with the columns that it has."""
    if (columns := _columns(data)) is not None:
        return pl.DataFrame(columns, strict=False)
    return data.collect() if isinstance(data, pl.LazyFrame) else pl.DataFrame(data)


def _is_pandas(data: Any) -> bool:
    """Whether it is a frame of pandas, which need not be installed."""
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _columns(data: Any) -> dict[str, list[Any]] | None:
    """The columns of rows or of pandas as lists; None for other frames.

    Null is where a row has no such name or pandas has nothing, and an array in a cell is a list.
    """
    if is_records(data):
        return {str(name): [row.get(name) for row in data] for name in dict.fromkeys(chain.from_iterable(data))}
    if not _is_pandas(data):
        return None
    names = [str(name) for name in data.columns]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DataError("is duplicated among the columns; expected different names", column=min(twice))
    return {name: [_plain(value) for value in data.iloc[:, place]] for place, name in enumerate(names)}


def _plain(value: Any) -> Any:
    if isinstance(value, str | list):
        return value
    if isinstance(value, tuple):
        return list(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return value
    return value if (value == value) is True else None  # NaN, NaT and pandas' own NA do not equal themselves
