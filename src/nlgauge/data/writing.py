"""Writing tables: JSON lines, CSV and Parquet, written atomically; every text comes back as it was."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from nlgauge.data.sources.files import located
from nlgauge.data.tables import Items, Ratings, ResponseSets, TokenScores
from nlgauge.engine.files import atomic_path
from nlgauge.errors import DataError, OptionError, OutputError

_FORMULA_STARTS = r"^[=+\-@\t\r]"


def write_table(
    table: ResponseSets | Items | Ratings | TokenScores | pl.DataFrame, path: str | Path, *, spreadsheet: bool = False
) -> None:
    """Write a table to `.jsonl`, `.csv`, `.tsv` or `.parquet`.

    List columns become `name_0, name_1, …` in CSV, with empty cells after the last value of a row. For a `spreadsheet`,
    a CSV text that it would run as a formula gets a leading apostrophe, which readers take for a part of the text.
    """
    target = Path(path)
    frame = table
    if not isinstance(frame, pl.DataFrame):
        frame = frame.to_polars() if isinstance(frame, ResponseSets) else frame.frame
    if target.suffix not in (".jsonl", ".csv", ".tsv", ".parquet"):
        raise OptionError(f"{target}: cannot write '{target.suffix}'; expected .jsonl, .csv, .tsv or .parquet")
    if target.suffix in (".csv", ".tsv"):
        with located(str(target)):
            frame = _widen(frame)
        frame = guard_formulas(frame) if spreadsheet else frame
    with atomic_path(target) as temporary, temporary.open("wb") as file:
        try:
            if target.suffix == ".jsonl":
                frame.write_ndjson(file)
            elif target.suffix == ".parquet":
                frame.write_parquet(file)
            else:
                frame.write_csv(file, separator="\t" if target.suffix == ".tsv" else ",")
        except pl.exceptions.PolarsError as error:
            raise OutputError(f"{target}: cannot be written: {str(error).partition(chr(10))[0]}") from error


def guard_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Prefix texts (and column names) that start like a formula with an apostrophe; numbers are left alone."""
    text = pl.col(pl.String)
    risky = text.str.contains(_FORMULA_STARTS) & text.cast(pl.Float64, strict=False).is_null()
    guarded = frame.with_columns(pl.when(risky).then(pl.lit("'") + text).otherwise(text).name.keep())
    return guarded.rename({name: f"'{name}" for name in frame.columns if re.match(_FORMULA_STARTS, name)})


def _widen(frame: pl.DataFrame) -> pl.DataFrame:
    for name, dtype in frame.schema.items():
        if not dtype.is_nested():
            continue
        if not isinstance(dtype, pl.List) or dtype.inner.is_nested():
            raise DataError(f"holds {dtype}, which CSV does not support; write .jsonl or .parquet", column=name)
        if name == "references" and len(ends := (frame[name].list.last() == "").arg_true()):
            raise DataError(
                f"row {ends[0]}: the last reference is empty, which CSV cannot distinguish from a missing one; "
                "write .jsonl or .parquet",
                column=name,
            )
        prefix = "resp" if name == "responses" else name
        longest = max(frame[name].list.len().drop_nulls().to_list(), default=0)
        wide = [frame[name].list.get(i, null_on_oob=True).alias(f"{prefix}_{i}") for i in range(longest)]
        if taken := {column.name for column in wide} & set(frame.columns):
            raise DataError(f"the name is taken, so '{name}' cannot be spread", column=min(taken))
        frame = frame.drop(name).with_columns(wide)
    return frame
