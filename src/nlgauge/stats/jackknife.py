"""The delete-a-group jackknife: intervals for measures of a whole corpus, where a bootstrap would be biased.

Drawing texts with replacement repeats some and loses others, so every resample has fewer different n-grams than the
corpus; leaving out one group of texts at a time avoids this bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.inference import check_level


@dataclass(frozen=True)
class LeftOut:
    """Values of a measure with each group left out, and the groups' sizes."""

    values: Array
    sizes: Array

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def where_known(cls, values: Array, sizes: Array) -> LeftOut | None:
        """None for a single group, or if the measure is undefined without one of the groups."""
        return cls(values, sizes) if len(values) > 1 and np.isfinite(values).all() else None


def jackknife_error(value: float, left_out: LeftOut) -> float:
    """Standard error for groups of unequal size (Busing, Meijer & van der Leeden 1999).

    A larger group changes the value more when it is left out; weighting by size corrects for this.
    """
    share = left_out.sizes / left_out.sizes.sum()
    scale = 1 / share - 1
    pseudo = value + scale * (value - left_out.values)
    centre = len(left_out) * value - float(((1 - share) * left_out.values).sum())
    return math.sqrt(float(((pseudo - centre) ** 2 / scale).sum()) / len(left_out))


def jackknife_interval(value: float, left_out: LeftOut, confidence: float) -> tuple[float, float]:
    """Interval around a value, from Student's t with one degree of freedom fewer than there are groups."""
    from scipy.special import stdtrit

    check_level(confidence, 1000)
    half = float(stdtrit(len(left_out) - 1, (1 + confidence) / 2)) * jackknife_error(value, left_out)
    return value - half, value + half


def jackknife_test(difference: float, left_out: LeftOut) -> float:
    """Two-sided p-value of a difference whose leave-one-group-out values are known."""
    from scipy.special import stdtr

    error = jackknife_error(difference, left_out)
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return float(2 * stdtr(len(left_out) - 1, -abs(difference) / error))
