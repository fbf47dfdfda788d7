"""A column of the file as a metric: human scores, labels, or somebody else's measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.data.roles import numbers_in
from nlgauge.errors import DataError
from nlgauge.metrics.base import Metric, SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import Direction, Level

_LARGEST = 1e100  # sums of squares of larger ones may be no numbers


@dataclass(frozen=True, kw_only=True)
class ColumnMetric(SetMetric):
    """Values that the file itself gives, one per set; an empty cell is a set without a value."""

    name: ClassVar[str] = "column"
    level: ClassVar[Level] = "item"
    aspect: ClassVar[str] = "columns"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    paper: ClassVar[str] = "none: the values come with the data"
    example: ClassVar[str] = "column:column=human_score"

    column: str = option("value", "Name of the column.")

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
        found = numbers_in(batch.sets.frame, self.column, option="column")
        if len(beyond := np.flatnonzero(np.abs(found) > _LARGEST)):
            where, value = batch.sets.ids[int(beyond[0])], found[beyond[0]]
            expected = "a finite number or none" if np.isinf(value) else f"numbers of at most {_LARGEST:g}"
            raise DataError(f"set '{where}' has {value:g}; expected {expected}", column=self.column, option="column")
        return found


def columns_of(metrics: Sequence[Metric]) -> tuple[str, ...]:
    """The columns of a file that metrics take as they are."""
    return tuple(dict.fromkeys(metric.column for metric in metrics if isinstance(metric, ColumnMetric)))
