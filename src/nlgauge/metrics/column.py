"""A column of the file as a metric: human scores, labels, or somebody else's measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import HigherIs


@dataclass(frozen=True, kw_only=True)
class ColumnMetric(SetMetric):
    """Values that the file itself gives, one a set; an empty cell is a set without a value."""

    name: ClassVar[str] = "column"
    higher_is: ClassVar[HigherIs] = "more diverse"
    paper: ClassVar[str] = "none: the values come with the data"
    of_single_texts: ClassVar[bool] = True
    example: ClassVar[str] = "column:column=human_score"

    column: str = "value"

    @property
    def title(self) -> str:
        """The column's name."""
        return self.column

    @property
    def cacheable(self) -> bool:
        """Reading them again costs as much as reading the cache."""
        return False

    def per_set(self, batch: Batch) -> Array:
        """The column as numbers."""
        return numbers_in(batch.sets.frame, self.column)


def numbers_in(frame: pl.DataFrame, column: str) -> Array:
    """A column as numbers, NaN where a cell is empty; an error that names the row where one is not a number."""
    if column not in frame.columns:
        raise DataError(f"no such column; found {', '.join(frame.columns)}", column=column)
    values = frame[column]
    if values.dtype == pl.String:
        values = values.str.strip_chars().replace("", None)
    elif values.dtype.is_nested():
        raise DataError(f"holds {values.dtype}; expected a number in every row", column=column)
    numbers = values.cast(pl.Float64, strict=False)
    bad = (numbers.is_null() & values.is_not_null()).arg_true()
    if len(bad):
        row = int(bad[0])
        name = f"set '{frame['id'][row]}'" if "id" in frame.columns else f"row {row}"
        raise DataError(f"{name} has '{values[row]}'; expected a number", column=column)
    return numbers.fill_null(float("nan")).to_numpy()
