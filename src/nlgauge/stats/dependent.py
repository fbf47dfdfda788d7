"""Is one metric's correlation with the truth higher than another's on the same items?

Two correlations that share the truth and the items are not independent, so their intervals may overlap although one is
significantly higher. Three methods: Williams' formula, a bootstrap of the difference, and a permutation test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.stats.correlation import (
    Kind,
    centred,
    correlation,
    group_numbers,
    percentiles,
    resample_weights,
    sorted_items,
    weighted_correlation,
)
from nlgauge.stats.inference import check_level

_SWAPS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Difference:
    """How much higher the first metric correlates than the second, with a two-sided p-value or an interval."""

    value: float
    p: float | None = None
    ci: tuple[float, float] | None = None


def williams(first: Array, second: Array, truth: Array, kind: Kind = "pearson") -> Difference:
    """Williams' test (1959; Graham & Baldwin 2014 compare metrics by it): Student's t with n - 3 degrees of freedom.

    Meant for Pearson's correlation of normal data; for rank correlations it is a rough guide.
    """
    from scipy.stats import t

    size = len(truth)
    if size < 4:
        raise DataError(f"{size} items; expected at least 4 for Williams' test")
    a, b, c = correlation(first, truth, kind), correlation(second, truth, kind), correlation(first, second, kind)
    rest = 1 - a * a - b * b - c * c + 2 * a * b * c
    spread = 2 * rest * (size - 1) / (size - 3) + (a + b) ** 2 / 4 * (1 - c) ** 3
    if c >= 1 or spread <= 0:
        return Difference(a - b, p=1.0 if a == b else math.nan)
    statistic = (a - b) * math.sqrt((size - 1) * (1 + c) / spread)
    return Difference(a - b, p=float(2 * t.sf(abs(statistic), size - 3)))


def bootstrap_difference(
    first: Array,
    second: Array,
    truth: Array,
    kind: Kind = "spearman",
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 12345,
) -> Difference:
    """Percentile interval of the difference over items drawn with replacement, the same items for both metrics."""
    check_level(confidence, resamples)
    first, second, truth = _by_truth(first, second, truth)
    found = np.concatenate(
        [
            weighted_correlation(first, truth, weights, kind) - weighted_correlation(second, truth, weights, kind)
            for weights in resample_weights(len(truth), resamples, seed)
        ]
    )
    value = correlation(first, truth, kind) - correlation(second, truth, kind)
    return Difference(value, ci=percentiles(found, confidence))


def permute_both(
    first: Array,
    second: Array,
    truth: Array,
    kind: Kind = "spearman",
    *,
    groups: Array | None = None,
    permutations: int = 1000,
    seed: int = 12345,
) -> Difference:
    """Permutation test (PERM-BOTH of Deutsch et al. 2021, for one value per item): swap the metrics item by item.

    If both were equally good, it would not matter from which metric an item's value comes, once both are on one scale:
    z-scores for Pearson's correlation, ranks for the others. The p-value counts differences at least as large as the
    one found, in either direction, the one found among them. With `groups`, one label per item, whole groups are
    swapped.
    """
    numbers = None if groups is None else group_numbers(groups, len(truth))
    order = _order(first, second, truth)
    first, second, truth = (np.asarray(side, dtype=np.float64)[order] for side in (first, second, truth))
    numbers = None if numbers is None else numbers[order]
    value = correlation(first, truth, kind) - correlation(second, truth, kind)
    pair = on_one_scale(first, kind), on_one_scale(second, kind)
    if math.isnan(value):
        raise DataError("a truth that is constant; expected one that varies between items")
    size = len(truth) if numbers is None else int(numbers.max()) + 1
    reached = 1 + sum(
        int(np.count_nonzero(np.abs(swapped(*pair, truth, kind, swaps, numbers)) >= abs(value) - 1e-12))
        for swaps in draw_swaps(size, permutations, seed)
    )
    return Difference(value, p=reached / (permutations + 1))


def draw_swaps(size: int, permutations: int, seed: int) -> Iterator[Array]:
    """Which items are swapped (1) in each permutation, some permutations at a time; they depend on the seed alone."""
    rng = np.random.default_rng(seed)
    block = max(1, _SWAPS_AT_ONCE // size)
    for start in range(0, permutations, block):
        yield rng.integers(0, 2, (min(block, permutations - start), size)).astype(np.float64)


def on_one_scale(values: Array, kind: Kind) -> Array:
    """A metric's values as z-scores or ranks, so that two metrics can swap them.

    Sums run over sorted values, so that rounding does not depend on the order of items.
    """
    from scipy.stats import rankdata

    if not values.min() < values.max():
        raise DataError("a metric that is constant; expected one that varies between items")
    if kind != "pearson":
        ranks: Array = rankdata(values)
        return ranks
    order = np.argsort(values)
    ascending = centred(values[order])
    z_scores = np.empty(len(values))
    z_scores[order] = ascending / ascending.std()
    return z_scores


def swapped(first: Array, second: Array, truth: Array, kind: Kind, swaps: Array, groups: Array | None = None) -> Array:
    """The difference of correlations in each row of swaps.

    Items are sorted by the truth and then by the metrics, so that their order does not matter. `groups` are numbers of
    groups, and a column of swaps is then a group's.
    """
    order = _order(first, second, truth)
    first, second, truth = first[order], second[order], truth[order]
    if groups is not None:
        swaps = np.ascontiguousarray(swaps[:, groups[order]])
    differences = {"pearson": _swapped_pearson, "spearman": _swapped_spearman, "kendall": _swapped_kendall}[kind]
    return differences(first, second, truth, swaps)


def _by_truth(first: Array, second: Array, truth: Array) -> tuple[Array, Array, Array]:
    order = _order(first, second, truth)
    one, other, true = (np.asarray(side, dtype=np.float64)[order] for side in (first, second, truth))
    return one, other, true


def _order(first: Array, second: Array, truth: Array) -> Array:
    sides = [np.asarray(values, dtype=np.float64) for values in (first, second, truth)]
    if any(side.ndim != 1 or len(side) != len(sides[0]) for side in sides):
        shapes = ", ".join(str(side.shape) for side in sides)
        raise DataError(f"values of shapes {shapes}; expected three rows with one value per item")
    return np.lexsort((sides[1], sides[0], sides[2]))


def _swapped_pearson(first: Array, second: Array, truth: Array, swaps: Array) -> Array:
    """First minus second correlation in each row of swaps: what one metric's sums gain, the other's lose."""
    truth = centred(truth)
    sums, others = (np.stack([values, values * values, values * truth]).sum(axis=1) for values in (first, second))
    change = second - first
    gained = swaps @ np.stack([change, change * (second + first), change * truth], axis=1)

    def r(sums: Array) -> Array:
        spread = np.sqrt(np.maximum(sums[:, 1] - sums[:, 0] ** 2 / len(truth), 0) * (truth @ truth))
        found: Array = np.divide(sums[:, 2], spread, out=np.full(len(sums), np.nan), where=spread > 0)
        return found

    return r(sums + gained) - r(others - gained)


def _swapped_spearman(first: Array, second: Array, truth: Array, swaps: Array) -> Array:
    from scipy.stats import rankdata

    from nlgauge.stats.kernels.resampling_kernels import swapped_rank_correlations

    ranks = rankdata(truth)
    return swapped_rank_correlations(*sorted_items(np.concatenate([first, second])), ranks - ranks.mean(), swaps)


def _swapped_kendall(first: Array, second: Array, truth: Array, swaps: Array) -> Array:
    """The values of both metrics are concatenated; weights of 0 and 1 select those of the first metric."""
    values, truths = np.concatenate([first, second]), np.concatenate([truth, truth])
    mine = np.concatenate([1 - swaps, swaps], axis=1)
    return weighted_correlation(values, truths, mine, "kendall") - weighted_correlation(
        values, truths, 1 - mine, "kendall"
    )
