"""How small a difference so many contexts can show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from nlgauge.scoring.comparison import SIGNIFICANT, Comparison

POWER = 0.8


@dataclass(frozen=True)
class Power:
    """The smallest true difference that would be found significant in four of five such experiments.

    `contexts` is how many contexts would show the observed difference as often; None where there is none to show.
    """

    smallest: float
    contexts: int | None


def power_of(comparison: Comparison, confidence: float, tests: int) -> Power | None:
    """From the standard error that the interval of a difference implies, after correction for so many tests.

    None where so few contexts can show nothing at all, and for an interval without width: systems that do not differ
    anywhere say nothing about the error. Student's t stands for the normal distribution, which promises too much when
    contexts are few.
    """
    from scipy.special import stdtrit

    error = (comparison.ci[1] - comparison.ci[0]) / (2 * NormalDist().inv_cdf((1 + confidence) / 2))
    if not error > 0 or comparison.smallest_p >= SIGNIFICANT or comparison.n < 2:
        return None
    freedom = comparison.n - 1
    reach = float(stdtrit(freedom, 1 - SIGNIFICANT / (2 * max(1, tests))) + stdtrit(freedom, POWER))
    smallest = reach * error
    if comparison.difference == 0 or not math.isfinite(smallest):
        return Power(smallest, None)
    return Power(smallest, max(2, math.ceil(comparison.n * (smallest / comparison.difference) ** 2)))
