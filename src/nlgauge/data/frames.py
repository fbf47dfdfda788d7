"""Frames in memory: Polars, pandas, and whatever offers Arrow's stream interface, as tables."""

from __future__ import annotations

from typing import Any

import polars as pl

from nlgauge.data.assembling import Assembly, Extras, Table
from nlgauge.data.columns import Columns
from nlgauge.errors import DataError, OptionError


def is_frame(data: Any) -> bool:
    """Whether an object has named columns: a frame of Polars or pandas, or an Arrow table; a column alone has none."""
    if isinstance(data, pl.DataFrame | pl.LazyFrame) or _is_pandas(data):
        return True
    named = any(hasattr(data, name) for name in ("column_names", "columns", "schema"))
    return named and hasattr(data, "__arrow_c_stream__")


def read_frame(data: Any, *, columns: Columns | None = None, extras: Extras = "all", **others: Any) -> Table:
    """A frame as a table: its columns mean what those of a file mean, and ids are row numbers where it has none."""
    if others:
        raise OptionError(f"'{min(others)}' is an option for reading files; the data was given in memory")
    assembly = Assembly(columns=columns or Columns(), extras=extras)
    if _is_pandas(data):
        return assembly.table(_pandas_columns(data), None)
    frame = data.collect() if isinstance(data, pl.LazyFrame) else pl.DataFrame(data)
    return assembly.frame_table(frame, None)


def _is_pandas(data: Any) -> bool:
    """Whether it is a frame of pandas, which need not be installed."""
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _pandas_columns(frame: Any) -> dict[str, list[Any]]:
    """The columns as lists; what pandas calls missing is null, and an array in a cell is a list."""
    names = [str(name) for name in frame.columns]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DataError("stands twice among the columns; expected names of their own", column=min(twice))
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
