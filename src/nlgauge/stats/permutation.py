"""Permutation tests of two systems: on the same units by swapping names, on different ones by assigning units at
random.

Where so few permutations are as extreme as the data that counting them says little, the tail is computed instead: a
p-value that cannot fall below 1/10,001 would decide, together with a correction for many tests, what is significant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.stats.means import mean_of
from nlgauge.stats.units import Units, numbered

PERMUTATIONS = 10_000
EXACT_UP_TO = 16
_FEW = 20
_CELLS_AT_ONCE = 4_000_000
_ROUNDING = 1e-12
_BEYOND = 1e-9
_NEWTON_STEPS = 60


def paired_permutation(
    first: Array, second: Array, *, groups: Array | None = None, resamples: int = PERMUTATIONS, seed: int = 12345
) -> float:
    """Two-sided p-value of the mean difference when the two systems' names are swapped at random, unit by unit.

    A unit is a pair of values or, with `groups`, all pairs with one label. All swaps are tried for up to 16 units that
    differ. Else the swaps of a random sample are counted, the observed one among them, or, where fewer than 20 are as
    extreme, the tail is a saddlepoint approximation. The p-value is never 0 and does not change when systems are
    exchanged.
    """
    sizes = _difference_sizes(first, second, groups)
    observed = sizes.total * (1 - _ROUNDING)
    count = len(sizes.units)
    if count == 0:
        return 1.0
    if count <= EXACT_UP_TO:
        return float(np.mean(np.abs(all_signs(count) @ sizes.units) >= observed))
    extreme = sum(
        int(np.count_nonzero(np.abs(signs @ sizes.units) >= observed)) for signs in random_signs(count, resamples, seed)
    )
    counted = (extreme + 1) / (resamples + 1)
    if extreme >= _FEW:
        return counted
    return min(counted, float(sign_tails(sizes.units[None], np.array([sizes.total]))[0]))


def all_signs(count: int) -> Array:
    """Every way to flip so many signs but for those that flip all: half of them, since a test is two-sided."""
    bits = (np.arange(1 << max(0, count - 1))[:, None] >> np.arange(count)) & 1
    signs: Array = 1.0 - 2.0 * bits
    return signs


def random_signs(count: int, resamples: int, seed: int) -> Iterator[Array]:
    """Random signs, some rows at a time; the same for everything that has as many units."""
    if count * resamples <= _CELLS_AT_ONCE:
        yield _kept_signs(count, resamples, seed)
        return
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS_AT_ONCE // count)
    for start in range(0, resamples, block):
        yield _signs(rng, min(block, resamples - start), count)


@lru_cache(maxsize=2)
def _kept_signs(count: int, resamples: int, seed: int) -> Array:
    return _signs(np.random.default_rng(seed), resamples, count)


def _signs(rng: np.random.Generator, rows: int, count: int) -> Array:
    signs: Array = rng.integers(0, 2, (rows, count), dtype=np.int8).astype(np.float64) * 2 - 1
    return signs


@dataclass(frozen=True)
class _Differences:
    """Absolute differences of units, in order, and the absolute value of their signed sum."""

    units: Array
    total: float


def _difference_sizes(first: Array, second: Array, groups: Array | None) -> _Differences:
    if len(first) != len(second):
        raise DataError(f"{len(first)} values against {len(second)}; a paired test needs the same items on both sides")
    if len(first) < 2:
        raise DataError(f"{len(first)} pair; a paired test needs at least 2")
    units = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    if groups is not None:
        units = np.bincount(numbered(groups), weights=units).astype(np.float64)
    units = units[np.argsort(np.abs(units), kind="stable")]
    return _Differences(np.abs(units[units != 0]), abs(math.fsum(units)))


def sign_tails(units: Array, totals: Array) -> Array:
    """Twice the probability that a sum with random signs reaches a total, row by row (Lugannani & Rice 1980).

    The smallest unit is taken off first: half the distance between possible sums, where these lie on a grid. Near the
    largest sum, where the approximation fails, Chernoff's bound is smaller; beyond it, the probability is 0. `units`
    are absolute values; zeros do not count.
    """
    from scipy.special import ndtr

    largest = units.max(axis=1)
    whole = np.where(largest > 0, largest, 1.0)
    scaled = units / whole[:, None]
    target = totals / whole - np.where(scaled > 0, scaled, np.inf).min(axis=1, initial=1.0)
    least = 2.0 ** (1.0 - np.count_nonzero(units, axis=1))
    target = np.clip(target, 0.0, scaled.sum(axis=1) * (1 - _ROUNDING))
    slope = target / np.maximum(np.square(scaled).sum(axis=1), _ROUNDING)
    for _ in range(_NEWTON_STEPS):
        bent = np.tanh(slope[:, None] * scaled)
        missing = target - (scaled * bent).sum(axis=1)
        rate = (np.square(scaled) * (1 - np.square(bent))).sum(axis=1)
        slope += np.where(rate > _ROUNDING, missing / np.maximum(rate, _ROUNDING), 0.0)
        if (missing <= 1e-10 * np.maximum(target, 1.0)).all():
            break
    tilted = slope[:, None] * scaled
    generating = (tilted + np.log1p(np.exp(-2 * tilted)) - math.log(2)).sum(axis=1)
    root = np.sqrt(np.maximum(0.0, 2 * (slope * target - generating)))
    spread = slope * np.sqrt(np.square(scaled / np.cosh(np.minimum(tilted, 300.0))).sum(axis=1))
    usual = (root > 1e-6) & (spread > 1e-6)
    safe, wide = np.where(usual, root, 1.0), np.where(usual, spread, 1.0)
    density = np.exp(-np.square(safe) / 2) / math.sqrt(2 * math.pi)
    tail = 2 * (ndtr(-safe) + density * (1 / wide - 1 / safe))
    bound = np.minimum(2 * np.exp(-np.square(root) / 2), 1.0)
    found = np.where(usual, np.clip(tail, least, np.maximum(bound, least)), np.where(root > 1e-6, least, 1.0))
    reached: Array = np.where(totals <= units.sum(axis=1) * (1 + _BEYOND), found, 0.0)
    return reached


def unpaired_permutation(
    first: Array,
    second: Array,
    *,
    groups: tuple[Array, Array] | None = None,
    resamples: int = PERMUTATIONS,
    seed: int = 12345,
) -> float:
    """Two-sided p-value of a difference of means when units are assigned to the two systems at random.

    The statistic is Welch's, so that unequal spreads do not matter (Janssen 1997). A unit is a value or, with `groups`
    (labels of both sides), all values of one side with one label. All assignments are tried where there are few; where
    fewer than 20 of a sample are as extreme as the data, the tail is Welch's.
    """
    samples = [_units(first, groups and groups[0]), _units(second, groups and groups[1])]
    samples.sort(key=lambda one: (len(one), *one.T.ravel().tolist()))
    few, many = samples
    if min(len(few), len(many)) < 2:
        raise DataError(f"{len(few)} and {len(many)} units; a test needs at least 2 on either side")
    pooled = np.concatenate(samples)
    count, whole = len(few), len(pooled)
    moments = np.column_stack([pooled, pooled[:, 0] ** 2, pooled[:, 0] * pooled[:, 1], pooled[:, 1] ** 2])
    observed = float(_welch(moments[:count].sum(0), moments.sum(0), count, whole)) * (1 - _ROUNDING)
    if observed == 0:
        return 1.0
    if math.comb(whole, count) <= resamples:
        every = np.array(list(combinations(range(whole), count)))
        assigned = np.zeros((len(every), whole))
        np.put_along_axis(assigned, every, 1.0, axis=1)
        return float(np.mean(_welch(assigned @ moments, moments.sum(0), count, whole) >= observed))
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS_AT_ONCE // whole)
    extreme = 0
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        keys = rng.random((rows, whole), dtype=np.float32)
        assigned = (keys <= np.partition(keys, count - 1, axis=1)[:, count - 1 : count]).astype(np.float64)
        extreme += int(np.count_nonzero(_welch(assigned @ moments, moments.sum(0), count, whole) >= observed))
    counted = (extreme + 1) / (resamples + 1)
    if extreme >= _FEW:
        return counted
    return min(counted, max(_welch_tail(first, second, groups), 2 / math.comb(whole, count)))


def label_permutation(
    values: Array, labels: Array, *, groups: Array | None = None, resamples: int = 1000, seed: int = 12345
) -> float:
    """Two-sided p-value of the correlation of values with two classes when labels are assigned to units at random.

    A unit is a value or, with `groups`, all values with one label of theirs. Groups that have both classes exchange
    them as a whole, which turns the sign of their contrast: an effect that differs from group to group and is 0 on
    average is no effect. Groups of one class exchange it with each other.
    """
    rng = np.random.default_rng(seed)
    numbers = np.arange(len(values)) if groups is None else numbered(groups)
    order = np.lexsort((labels, values, numbers) if groups is not None else (labels, values))
    numbers = np.arange(len(values)) if groups is None else numbers[order]
    high = (np.asarray(labels)[order] == np.max(labels)).astype(np.float64)
    centred = np.asarray(values, dtype=np.float64)[order]
    centred = centred - centred.mean()
    sizes, totals = np.bincount(numbers), np.bincount(numbers, weights=centred)
    shares = np.bincount(numbers, weights=high) / sizes
    contrasts = np.bincount(numbers, weights=(high - shares[numbers]) * centred)
    whole = (shares == 0) | (shares == 1)

    def statistic(of_groups: Array, signs: Array) -> Array:
        count = of_groups @ sizes
        scale = np.sqrt(np.maximum(count * (len(centred) - count), 1))
        found: Array = np.abs(of_groups @ totals + signs @ contrasts) / scale
        return found

    drawn = np.tile(shares, (resamples, 1))
    drawn[:, whole] = rng.permuted(drawn[:, whole], axis=1)
    signs = 2.0 * rng.integers(0, 2, drawn.shape) - 1.0
    observed = statistic(shares[None], np.ones((1, len(shares)))) * (1 - _ROUNDING)
    return float((np.count_nonzero(statistic(drawn, signs) >= observed) + 1) / (resamples + 1))


def permuted_labels(high: Array, groups: Array | None, resamples: int, seed: int) -> Array:
    """Labels in random orders: within groups where they vary there; groups with one label exchange it as a whole."""
    rng = np.random.default_rng(seed)
    if groups is None:
        return rng.permuted(np.tile(high, (resamples, 1)), axis=1)
    sums, sizes = np.bincount(groups, weights=high), np.bincount(groups)
    mixed = (sums > 0) & (sums < sizes)
    found = np.tile(high, (resamples, 1))
    if mixed.any():
        keys = rng.random((resamples, len(high)))
        plain = np.lexsort((np.arange(len(high)), groups))
        moved = np.lexsort((keys, np.broadcast_to(groups, keys.shape)))
        found[:, plain] = high[moved]
    if not mixed.all():
        labels = np.tile(sums > 0, (resamples, 1))
        labels[:, ~mixed] = rng.permuted(labels[:, ~mixed], axis=1)
        whole = ~mixed[groups]
        found[:, whole] = labels[:, groups[whole]]
    return found


def _units(values: Array, groups: Array | None) -> Array:
    """Sum and number of values of each unit, in an order that depends on these alone."""
    found = np.asarray(values, dtype=np.float64)
    if groups is None:
        units = np.column_stack([found, np.ones(len(found))])
    else:
        numbers = numbered(groups)
        units = np.column_stack([np.bincount(numbers, weights=found), np.bincount(numbers)])
    return units[np.lexsort(units.T[::-1])]


def _welch(few: Array, whole: Array, count: int, size: int) -> Array:
    """The absolute studentised difference from sums of moments (sum, number, and their second moments)."""

    def side(moments: Array, units: int) -> tuple[Array, Array]:
        sums, numbers, squares, products, weights = np.moveaxis(np.asarray(moments), -1, 0)
        mean = sums / numbers
        rest = squares - 2 * mean * products + mean**2 * weights
        return mean, np.maximum(rest, 0.0) / (units - 1) * units / numbers**2

    one, its = side(few, count)
    two, other = side(whole - few, size - count)
    spread = np.sqrt(its + other)
    gap = np.abs(two - one)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Array = np.where(spread > _ROUNDING * gap, gap / spread, np.where(gap > 0, np.inf, 0.0))
    return ratio


def _welch_tail(first: Array, second: Array, groups: tuple[Array, Array] | None) -> float:
    from scipy.special import stdtr

    own, other = (Units(), Units()) if groups is None else (Units(groups[0]), Units(groups[1]))
    gap = mean_of(second, other).minus(mean_of(first, own))
    return float(2 * stdtr(gap.freedom, -abs(gap.value) / gap.error)) if gap.error else 0.0
