"""Power by simulation: how large a difference so many units find, with the very test that is used on the data."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.permutation import sign_tails

POWER = 0.8
_EXPERIMENTS = 400
_SOLUTIONS = 8
_MOST_CELLS = 4_000_000
_MANY = 40


def smallest_difference(
    sums: Array, sizes: Array, alpha: float, *, critical: float | None = None, seed: int = 12345
) -> float:
    """The mean difference that the sign-flip test finds in four of five experiments: at level `alpha`, or in a family
    whose max-T statistic is `critical`.

    An experiment draws as many units from those at hand, without their mean difference. Not a number where units do not
    vary, infinite where so few units can find nothing.
    """
    units = len(sums)
    centred = sums - sizes * (sums.sum() / sizes.sum())
    spread = math.sqrt(float(np.square(centred).sum()) / (len(sums) - 1)) if len(sums) > 1 else 0.0
    if spread == 0:
        return math.nan
    if critical is None and 2.0 ** (1 - units) > alpha:
        return math.inf
    rng = np.random.default_rng(seed)
    experiments = max(100, min(_EXPERIMENTS, _MOST_CELLS // units))
    drawn = rng.integers(0, len(sums), (experiments, units))
    freedom = _freedom_of_variance(centred)
    scale = np.sqrt(freedom / rng.chisquare(freedom, experiments))
    values, weights = centred[drawn] * scale[:, None], sizes[drawn].astype(np.float64)
    if critical is None and units < _MANY:
        found = _exact_test(values, weights, alpha)
    else:
        found = _critical_test(values, weights, alpha, critical)
    error = spread * math.sqrt(units) / float(weights.sum(axis=1).mean())
    start = formula_difference(error, units - 1, max(alpha, 2.0 ** (1 - units)))
    return _solve(lambda difference: float(found(difference).mean()), start)


def _freedom_of_variance(centred: Array) -> float:
    """Degrees of freedom with which the variance of units is known: fewer where their distribution has long tails.

    Experiments draw their spread from what is known of it, since the spread at hand is no more than an estimate.
    """
    count = len(centred)
    squares = np.square(centred)
    kurtosis = float(np.square(squares).mean() / squares.mean() ** 2)
    of_square = max(kurtosis - (count - 3) / (count - 1), 2 / (count - 1)) / count
    return max(2.0, min(count - 1.0, 2 / of_square))


def _exact_test(values: Array, weights: Array, alpha: float) -> Callable[[float], Array]:
    """Which experiments find a difference, from the tail of the test itself."""

    def found(difference: float) -> Array:
        moved = values + difference * weights
        reached: Array = sign_tails(np.abs(moved), np.abs(moved.sum(axis=1))) <= alpha
        return reached

    return found


def _critical_test(values: Array, weights: Array, alpha: float, critical: float | None) -> Callable[[float], Array]:
    """The same from the critical value of the sum over the root of the sum of squares.

    Where it is not known, and for many units, the sum has a nearly normal distribution under flips, whose fourth
    cumulant is known.
    """
    from scipy.special import ndtri

    reach = float(ndtri(1 - alpha / 2))
    moments = {
        power: [math.comb(power, k) * (values ** (power - k) * weights**k).sum(axis=1) for k in range(power + 1)]
        for power in (1, 2, 4)
    }

    def total(power: int, difference: float) -> Array:
        found: Array = np.sum([term * difference**k for k, term in enumerate(moments[power])], axis=0)
        return found

    def found(difference: float) -> Array:
        squares = total(2, difference)
        needed: float | Array | None = critical
        if needed is None:
            cumulant = -2 * total(4, difference) / np.square(squares)
            needed = reach + cumulant * (reach**3 - 3 * reach) / 24
        reached: Array = np.abs(total(1, difference)) >= needed * np.sqrt(squares)
        return reached

    return found


def formula_difference(error: float, freedom: float, alpha: float) -> float:
    """The difference that a t-test with this standard error finds in four of five experiments."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, POWER)) * error


def _solve(power: Callable[[float], float], start: float) -> float:
    """Where a rising function reaches 80 %: bisection between two differences that enclose it."""
    low, high = 0.0, start
    for _ in range(30):
        if power(high) >= POWER:
            break
        low, high = high, high * 1.5
    else:
        return math.inf
    if low == 0:
        low = 0.6 * start if power(0.6 * start) < POWER else 0.0
    for _ in range(_SOLUTIONS):
        middle = (low + high) / 2
        if power(middle) >= POWER:
            high = middle
        else:
            low = middle
    return (low + high) / 2
