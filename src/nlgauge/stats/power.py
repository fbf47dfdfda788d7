"""Power by simulation, with the very test that is used on the data: what so many units find, and how many find it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.permutation import all_signs, sign_tails

POWER = 0.8
_EXPERIMENTS = 400
_EXPERIMENTS_OF_A_SIZE = 2000
_CELLS_OF_A_SIZE = 2_000_000
_SOLUTIONS = 8
_MOST_CELLS = 4_000_000
_MANY = 40
# Up to so many units all flips are tried, as in the test itself, since the approximation is off by some percent there.
_ENUMERATED = 12
# Beyond so many units, the difference that is found falls with the root of their number.
_SIMULATED = 2000
_MOST = 10**9
_ROUNDING = 1e-12


def smallest_difference(
    sums: Array,
    sizes: Array,
    alpha: float,
    *,
    power: float = POWER,
    critical: float | None = None,
    seed: int = 12345,
) -> float:
    """The mean difference that the sign-flip test finds with this power, in four of five experiments: at level `alpha`,
    or in a family whose max-T statistic is `critical`.

    An experiment draws as many units from those at hand, without their mean difference. Not a number where units do not
    vary, infinite where so few units can find nothing.
    """
    return _Pilot.of(sums, sizes).smallest(len(sums), alpha, power, _EXPERIMENTS, seed, critical)


def units_needed(
    sums: Array, sizes: Array, alpha: float, difference: float, *, power: float = POWER, seed: int = 12345
) -> int | None:
    """How many units like these the sign-flip test needs to find this mean difference with this power.

    None where units do not vary, and where a billion of them are too few.
    """
    pilot = _Pilot.of(sums, sizes)
    if not pilot.spread > 0:
        return None

    @cache
    def smallest_of_many() -> float:
        return pilot.smallest(_SIMULATED, alpha, power, _EXPERIMENTS_OF_A_SIZE, seed)

    def enough(units: int) -> bool:
        if units > _SIMULATED:
            return smallest_of_many() * math.sqrt(_SIMULATED / units) <= difference
        experiments = min(_EXPERIMENTS_OF_A_SIZE, _CELLS_OF_A_SIZE // units)
        return float(pilot.found(units, alpha, experiments, seed)(difference).mean()) >= power

    return fewest(enough, math.ceil(1 - math.log2(alpha)))


def power_range(freedom: float, alpha: float, power: float = POWER) -> tuple[float, float]:
    """Where the true power of an experiment lies in four of five, when it was planned for this power on average.

    The spread of the pilot, known with so many degrees of freedom, is an estimate; the test is taken as normal.
    """
    from scipy.special import chdtri, nctdtrit, ndtr, ndtri

    reach = float(ndtri(1 - alpha / 2))
    planned = float(nctdtrit(freedom, reach, power))
    low, high = (planned * math.sqrt(float(chdtri(freedom, share)) / freedom) for share in (0.9, 0.1))
    return float(ndtr(low - reach)), float(ndtr(high - reach))


def spread_freedom(sums: Array, sizes: Array) -> float:
    """Degrees of freedom with which the spread of these units is known."""
    return _freedom_of_variance(_Pilot.of(sums, sizes).centred)


def fewest(enough: Callable[[int], bool], least: int) -> int | None:
    """The first number from `least` that is enough, where all after it are; None where a billion are too few."""
    low, high = least - 1, least
    while not enough(high):
        if high >= _MOST:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class _Pilot:
    """The units at hand without their mean difference, and the standard deviation of their sums."""

    centred: Array
    sizes: Array
    spread: float

    @classmethod
    def of(cls, sums: Array, sizes: Array) -> _Pilot:
        centred = sums - sizes * (sums.sum() / sizes.sum())
        spread = math.sqrt(float(np.square(centred).sum()) / (len(sums) - 1)) if len(sums) > 1 else 0.0
        return cls(centred, sizes, spread)

    def found(
        self, units: int, alpha: float, experiments: int, seed: int, critical: float | None = None
    ) -> Callable[[float], Array]:
        """Which of so many experiments with so many units find a difference."""
        rng = np.random.default_rng(seed)
        experiments = max(100, min(experiments, _MOST_CELLS // units))
        drawn = rng.integers(0, len(self.centred), (experiments, units))
        freedom = _freedom_of_variance(self.centred)
        scale = np.sqrt(freedom / rng.chisquare(freedom, experiments))
        values, weights = self.centred[drawn] * scale[:, None], self.sizes[drawn].astype(np.float64)
        if critical is None and units < _MANY:
            return _exact_test(values, weights, alpha)
        return _critical_test(values, weights, alpha, critical)

    def smallest(
        self, units: int, alpha: float, power: float, experiments: int, seed: int, critical: float | None = None
    ) -> float:
        """The difference that so many units find with this power."""
        if not self.spread > 0:
            return math.nan
        if critical is None and 2.0 ** (1 - units) > alpha:
            return math.inf
        found = self.found(units, alpha, experiments, seed, critical)
        error = self.spread / math.sqrt(units) / float(self.sizes.mean())
        start = formula_difference(error, units - 1, max(alpha, 2.0 ** (1 - units)), power)
        return _solve(lambda difference: float(found(difference).mean()), start, power)


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
    tails = _all_tails if values.shape[1] <= _ENUMERATED else sign_tails

    def found(difference: float) -> Array:
        moved = values + difference * weights
        totals = np.abs(moved.sum(axis=1))
        reached: Array = tails(np.abs(moved), totals) <= alpha
        return reached

    return found


def _all_tails(units: Array, totals: Array) -> Array:
    """As `sign_tails`, from all flips."""
    signs = all_signs(units.shape[1]).T
    rows = range(0, len(units), _MOST_CELLS // signs.shape[1])
    blocks = [slice(start, start + rows.step) for start in rows]
    least = (totals * (1 - _ROUNDING))[:, None]
    return np.concatenate([np.mean(np.abs(units[rows] @ signs) >= least[rows], axis=1) for rows in blocks])


def _critical_test(values: Array, weights: Array, alpha: float, critical: float | None) -> Callable[[float], Array]:
    """The same from the critical value of the sum over the root of the sum of squares.

    Where it is not known, and for many units, the sum has a nearly normal distribution under flips, whose fourth
    cumulant is known.
    """
    from scipy.special import ndtri

    reach = float(ndtri(1 - alpha / 2))
    squares, products, weighed = values**2, values * weights, weights**2
    moments = {
        1: [values, weights],
        2: [squares, 2 * products, weighed],
        4: [squares**2, 4 * squares * products, 6 * squares * weighed, 4 * products * weighed, weighed**2],
    }
    sums = {power: [part.sum(axis=1) for part in parts] for power, parts in moments.items()}

    def total(power: int, difference: float) -> Array:
        found: Array = np.sum([term * difference**k for k, term in enumerate(sums[power])], axis=0)
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


def formula_difference(error: float, freedom: float, alpha: float, power: float = POWER) -> float:
    """The difference that a t-test with this standard error finds with this power."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, power)) * error


def planned_difference(error: float, freedom: float, alpha: float, power: float, *, pilot: float) -> float:
    """The same on average over pilots, which know the error with `pilot` degrees of freedom."""
    from scipy.special import nctdtrit, stdtrit

    return float(nctdtrit(pilot, float(stdtrit(freedom, 1 - alpha / 2)), power)) * error


def _solve(power: Callable[[float], float], start: float, wanted: float) -> float:
    """Where a rising function reaches what is wanted: bisection between two differences that enclose it."""
    low, high = 0.0, start
    for _ in range(30):
        if power(high) >= wanted:
            break
        low, high = high, high * 1.5
    else:
        return math.inf
    if low == 0:
        low = 0.6 * start if power(0.6 * start) < wanted else 0.0
    for _ in range(_SOLUTIONS):
        middle = (low + high) / 2
        if power(middle) >= wanted:
            high = middle
        else:
            low = middle
    return (low + high) / 2
