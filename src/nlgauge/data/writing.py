"""Writing tables: JSON lines, CSV (safe to open in a spreadsheet) and Parquet, each whole or not at all."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nlgauge.data.tables import Items, Ratings, ResponseSets, TokenScores
from nlgauge.engine.files import atomic_path
from nlgauge.errors import OptionError

_FORMULA_STARTS = r"^[=+\-@\t\r]"


def write_table(table: ResponseSets | Items | Ratings | TokenScores | pl.DataFrame, path: str | Path) -> None:
    """Write a table to `.jsonl`, `.csv`, `.tsv` or `.parquet`.

    List columns become `name_0, name_1, …` in CSV. A CSV text that a spreadsheet would run as a formula gets a leading
    apostrophe.
    """
    target = Path(path)
    frame = _frame_of(table)
    if target.suffix not in (".jsonl", ".csv", ".tsv", ".parquet"):
        raise OptionError(f"{target}: cannot write '{target.suffix}'; expected .jsonl, .csv, .tsv or .parquet")
    with atomic_path(target) as temporary:
        if target.suffix == ".jsonl":
            frame.write_ndjson(temporary)
        elif target.suffix == ".parquet":
            frame.write_parquet(temporary)
        else:
            guarded = guard_formulas(_widen(frame))
            guarded.write_csv(temporary, separator="\t" if target.suffix == ".tsv" else ",")


def guard_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Prefix texts that start like a formula with an apostrophe; numbers are left alone."""
    text = pl.col(pl.String)
    risky = text.str.contains(_FORMULA_STARTS) & text.cast(pl.Float64, strict=False).is_null()
    return frame.with_columns(pl.when(risky).then(pl.lit("'") + text).otherwise(text).name.keep())


def _frame_of(table: ResponseSets | Items | Ratings | TokenScores | pl.DataFrame) -> pl.DataFrame:
    if isinstance(table, pl.DataFrame):
        return table
    return table.to_polars() if isinstance(table, ResponseSets) else table.frame


def _widen(frame: pl.DataFrame) -> pl.DataFrame:
    for name, dtype in frame.schema.items():
        if not isinstance(dtype, pl.List):
            continue
        prefix = "resp" if name == "responses" else name
        longest = int(frame[name].list.len().max() or 0)  # type: ignore[arg-type]
        wide = [frame[name].list.get(i, null_on_oob=True).alias(f"{prefix}_{i}") for i in range(longest)]
        frame = frame.drop(name).with_columns(wide)
    return frame
