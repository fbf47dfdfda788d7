"""Tables of any columns: what a file holds, without asking which column is a text."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nlgauge.data.columns import Reading
from nlgauge.data.reading import Source, with_numbers
from nlgauge.data.sources.files import FORMATS
from nlgauge.data.tables import Origin
from nlgauge.errors import DataError, OptionError

TABLE_FORMATS = tuple(name for name in FORMATS if name != "text")


def read_table(path: str | Path, *, format: str = "") -> pl.DataFrame:
    """All columns of a CSV, TSV, JSON lines or Parquet file (also compressed); none is required.

    Header names of a CSV lose the white space around them, and its columns whose every cell is a number become numbers,
    as they do in `Source.read`; other cells stay the text that they are. Values of the other formats keep their kind.
    """
    source = _table_source(path, format)
    frame, _ = _read(source)
    return with_numbers(frame) if source.is_csv else frame


def read_cells(path: str | Path, *, format: str = "") -> tuple[pl.DataFrame, Origin]:
    """As `read_table`, but every cell of a CSV stays text (so that `007` is not 7), with the place of each row."""
    return _read(_table_source(path, format))


def _table_source(path: str | Path, format: str) -> Source:
    if format and format not in TABLE_FORMATS:
        raise OptionError(f"format '{format}'; expected one of {', '.join(TABLE_FORMATS)}")
    source = Source(path=str(path), reading=Reading(input_format=format))
    if source.format == "text":
        raise DataError(
            f"is plain text, which has no columns; expected a table ({', '.join(TABLE_FORMATS)}): where it is one, "
            "name its format",
            file=source.name,
        )
    return source


def _read(source: Source) -> tuple[pl.DataFrame, Origin]:
    parts = [found for chunk in source.chunks() if (found := source.columns_in(chunk)) is not None]
    if not parts:
        raise DataError("the file has no records", file=source.name)
    origin = Origin(source.name, np.concatenate([np.asarray(lines) for _, lines in parts]))
    if source.format == "parquet":
        return pl.concat([pl.DataFrame(columns) for columns, _ in parts]), origin
    names = dict.fromkeys(chain.from_iterable(columns for columns, _ in parts))
    if not names:
        raise DataError("the records are empty; expected at least one column", file=source.name)
    gathered = {
        name: [value for columns, lines in parts for value in columns.get(name, [None] * len(lines))] for name in names
    }
    if source.format == "jsonl":
        return pl.DataFrame([_json_column(name, values, origin) for name, values in gathered.items()]), origin
    return pl.DataFrame(gathered, schema=dict.fromkeys(gathered, pl.String)), origin


def _json_column(name: str, values: list[Any], origin: Origin) -> pl.Series:
    """A column that gives back every value that went in: Polars would turn numbers among texts into text unasked."""
    try:
        rows = [{name: value} for value in values]
        column = pl.from_dicts(rows, infer_schema_length=None, strict=False)[name]
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"its values do not go into one column ({str(error).partition(chr(10))[0]}); expected values of one kind",
            file=origin.file,
            column=name,
        ) from error
    for row, (value, kept) in enumerate(zip(values, column.to_list(), strict=True)):
        if not _is_same(value, kept):
            found = f"{type(value).__name__} {str(value)[:60]}"
            raise origin.error(row, f"{found} stands among values of another kind; expected one kind in a column", name)
    return column


def _is_same(value: Any, kept: Any) -> bool:
    if isinstance(value, dict) and isinstance(kept, dict):
        return all(_is_same(value.get(key), kept.get(key)) for key in value.keys() | kept.keys())
    if isinstance(value, list) and isinstance(kept, list):
        return len(value) == len(kept) and all(map(_is_same, value, kept))
    return isinstance(value, bool) == isinstance(kept, bool) and bool(value == kept)
