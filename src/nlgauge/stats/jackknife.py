"""The delete-a-group jackknife: intervals for measures of a whole corpus, where a bootstrap would be biased.

Drawing texts with replacement repeats some and loses others, so every resample has fewer different n-grams than the
corpus; leaving out one group of texts at a time has no such fault.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nlgauge.stats.bootstrap import check_level

Array = np.ndarray[Any, Any]


def jackknife_error(replicates: Array) -> float:
    """Standard error from the values with each group left out."""
    groups = len(replicates)
    return math.sqrt((groups - 1) / groups * float(((replicates - replicates.mean()) ** 2).sum()))


def jackknife_interval(value: float, replicates: Array, confidence: float) -> tuple[float, float]:
    """Interval around a value, from Student's t with one degree of freedom fewer than there are groups."""
    from scipy.special import stdtrit

    check_level(confidence, 1000)
    half = float(stdtrit(len(replicates) - 1, (1 + confidence) / 2)) * jackknife_error(replicates)
    return value - half, value + half


def jackknife_test(difference: float, replicates: Array) -> float:
    """Two-sided p-value of a difference whose leave-one-group-out values are known."""
    from scipy.special import stdtr

    error = jackknife_error(replicates)
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return float(2 * stdtr(len(replicates) - 1, -abs(difference) / error))
