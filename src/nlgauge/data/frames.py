"""Data in memory: frames of Polars, of pandas and of what offers Arrow's stream interface, and lists of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import polars as pl

from nlgauge.data.assembling import Assembly, Extras, Table, as_one_set
from nlgauge.data.columns import Reading
from nlgauge.errors import DataError


def is_frame(data: Any) -> bool:
    """Whether an object has named columns: a frame of Polars or pandas, an Arrow table, or a list of dictionaries.

    A column alone has none.
    """
    if isinstance(data, pl.DataFrame | pl.LazyFrame) or _is_pandas(data) or is_records(data):
        return True
    named = any(hasattr(data, name) for name in ("column_names", "columns", "schema"))
    return named and hasattr(data, "__arrow_c_stream__")


def is_records(data: Any) -> bool:
    """Whether an object is a list of rows, each a dictionary with the names of columns."""
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(row, Mapping) for row in data)


def frame_table(data: Any, reading: Reading, extras: Extras = "all") -> Table:
    """A frame as a table: its columns mean what those of a file mean, and ids are row numbers where it has none."""
    reading.check_frame()
    assembly = Assembly(reading=reading, extras=extras)
    if _is_pandas(data):
        table = assembly.table(_pandas_columns(data), None)
    elif is_records(data):
        table = assembly.table(_record_columns(data), None)
    else:
        table = assembly.frame_table(polars_frame(data), None)
    return as_one_set(table) if reading.one_set else table


def polars_frame(data: Any) -> pl.DataFrame:
    """Any frame as one of Polars, with the columns that it has."""
    if _is_pandas(data):
        return pl.DataFrame(_pandas_columns(data), strict=False)
    if is_records(data):
        return pl.DataFrame(_record_columns(data), strict=False)
    return data.collect() if isinstance(data, pl.LazyFrame) else pl.DataFrame(data)


def _is_pandas(data: Any) -> bool:
    """Whether it is a frame of pandas, which need not be installed."""
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _record_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns, null where a row has no such name."""
    return {str(name): [row.get(name) for row in rows] for name in dict.fromkeys(chain.from_iterable(rows))}


def _pandas_columns(frame: Any) -> dict[str, list[Any]]:
    """The columns as lists; what pandas calls missing is null, and an array in a cell is a list."""
    names = [str(name) for name in frame.columns]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DataError("is duplicated among the columns; expected different names", column=min(twice))
    return {name: [_plain(value) for value in frame.iloc[:, place]] for place, name in enumerate(names)}


def _plain(value: Any) -> Any:
    if isinstance(value, str | list):
        return value
    if isinstance(value, tuple):
        return list(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return value
    return None if value is None or _is_missing(value) else value


def _is_missing(value: Any) -> bool:
    """NaN, NaT and pandas' own NA: none of them equals itself."""
    return (value == value) is not True
