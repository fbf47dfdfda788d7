"""Cells of `docs/statistics.md`: what is tried, how often, and within which limits its share has to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Generator = np.random.Generator
Once = Callable[[Generator, int], float]
ERRORS = (0.0, 0.06)
_FEW = 20


@dataclass(frozen=True)
class Cell:
    """One cell of a table: what is done `times` times, and the limits of its share."""

    table: str
    row: str
    column: str
    limits: tuple[float, float]
    once: Once
    times: int


def covered(units: int, *, more: bool = False) -> tuple[float, float]:
    """How often 95 % intervals of so many units have to cover; `more` accepts that they always do."""
    low, high = (0.91, 0.99) if units < _FEW else (0.93, 0.98)
    return low, 1.0 if more else high


def share_covered(interval: object, truth: float) -> float:
    """1 where an interval has the truth in it, and 0 where it has not or there is none."""
    low, high = interval if isinstance(interval, list | tuple) else (np.nan, np.nan)
    return float(low <= truth <= high)
