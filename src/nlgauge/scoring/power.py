"""How small a difference so many contexts can show, and how many would show the one that was found."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nlgauge.scoring.comparison import SIGNIFICANT, Comparison
from nlgauge.stats.power import POWER, formula_difference, smallest_difference

__all__ = ["POWER", "Power", "power_of"]


@dataclass(frozen=True)
class Power:
    """The smallest true difference that would be found significant in four of five such experiments.

    `contexts` is how many contexts would show the observed difference as often; None where there is none to show.
    """

    smallest: float
    contexts: int | None


def power_of(comparison: Comparison, seed: int = 12345) -> Power | None:
    """By simulation with the test and the correction of this comparison where it has differences of units.

    Else from Student's t. None where so few units can show nothing at all, and where nothing shows the error: systems
    that do not differ anywhere.
    """
    if not comparison.error > 0 or comparison.smallest_p >= SIGNIFICANT or comparison.units < 2:
        return None
    known, alpha = comparison.evidence, comparison.alpha
    if known is None:
        smallest = formula_difference(comparison.error, comparison.units - 1, alpha)
    else:
        smallest = smallest_difference(known.sums, known.sizes, alpha, seed=seed)
    if not math.isfinite(smallest):
        return None
    if comparison.difference == 0:
        return Power(smallest, None)
    return Power(smallest, max(2, math.ceil(comparison.units * (smallest / comparison.difference) ** 2)))
