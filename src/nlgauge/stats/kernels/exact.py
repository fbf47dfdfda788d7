"""Sums that do not depend on the order or the grouping of their terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ExactSum:
    """A sum of floats, stored without rounding as a few floats, and the number of terms."""

    count: int
    terms: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float], count: int | None = None) -> ExactSum:
        """The sum of some values."""
        terms: list[float] = []
        while rest := math.fsum([*values, *(-term for term in terms)]):
            terms.append(rest)
            if not math.isfinite(rest):
                break
        return cls(len(values) if count is None else count, tuple(terms))

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum.of(self.terms + other.terms, self.count + other.count)

    @property
    def mean(self) -> float:
        """The mean, rounded once; NaN if there are no terms."""
        return math.fsum(self.terms) / self.count if self.count else math.nan
