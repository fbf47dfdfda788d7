"""The delete-a-group jackknife: intervals for measures of a whole corpus, where a bootstrap would be biased.

Drawing texts with replacement repeats some and loses others, so every resample has fewer different n-grams than the
corpus; leaving out one group of texts at a time avoids this bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.means import Estimate


@dataclass(frozen=True)
class LeftOut:
    """Values of a measure with each group left out, the groups' sizes, and digests of what is in them, if known."""

    values: Array
    sizes: Array
    keys: Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    def same_units(self, other: LeftOut) -> bool:
        """Whether the same texts, by their ids or contexts, are left out on both sides."""
        if self.keys is not None and other.keys is not None:
            return np.array_equal(self.keys, other.keys)
        return np.array_equal(self.sizes, other.sizes)

    @classmethod
    def where_known(cls, values: Array, sizes: Array, keys: Array | None = None) -> LeftOut | None:
        """None for a single group, or if the measure is undefined without one of the groups."""
        return cls(values, sizes, keys) if len(values) > 1 and np.isfinite(values).all() else None


def added_keys(one: Array | None, two: Array | None) -> Array | None:
    """Digests of two parts of a corpus together; None where either is not known."""
    return None if one is None or two is None else one + two


def jackknife_error(value: float, left_out: LeftOut) -> float:
    """Standard error for groups of unequal size (Busing, Meijer & van der Leeden 1999).

    A larger group changes the value more when it is left out; weighting by size corrects for this.
    """
    share = left_out.sizes / left_out.sizes.sum()
    scale = 1 / share - 1
    pseudo = value + scale * (value - left_out.values)
    centre = len(left_out) * value - float(((1 - share) * left_out.values).sum())
    return math.sqrt(float(((pseudo - centre) ** 2 / scale).sum()) / len(left_out))


def jackknife_estimate(value: float, left_out: LeftOut) -> Estimate:
    """The value with its error: Student's t has one degree of freedom fewer than there are groups."""
    return Estimate(value, jackknife_error(value, left_out), 0.0, len(left_out) - 1)


def jackknife_interval(value: float, left_out: LeftOut, level: float) -> tuple[float, float]:
    """Interval around a value, from Student's t."""
    return jackknife_estimate(value, left_out).interval(level)
