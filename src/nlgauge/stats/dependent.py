"""Is one metric's correlation with the truth higher than another's on the same items?

Two correlations that share the truth and the items are not independent, so their intervals may overlap although one is
surely higher. Three answers: Williams' formula, a bootstrap of the difference, and a permutation test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.stats.correlation import Kind, correlation, resample_weights, weighted_correlation

_VALUES_AT_ONCE = 4_000_000


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
    order = np.lexsort((second, first, truth))
    first, second, truth = (np.asarray(values, dtype=np.float64)[order] for values in (first, second, truth))
    found = np.concatenate(
        [
            weighted_correlation(first, truth, weights, kind) - weighted_correlation(second, truth, weights, kind)
            for weights in resample_weights(len(truth), resamples, seed)
        ]
    )
    low, high = np.nanquantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    value = correlation(first, truth, kind) - correlation(second, truth, kind)
    return Difference(value, ci=(float(low), float(high)))


def permute_both(
    first: Array, second: Array, truth: Array, kind: Kind = "spearman", *, permutations: int = 1000, seed: int = 12345
) -> Difference:
    """Permutation test (PERM-BOTH of Deutsch et al. 2021, for one value an item): swap the metrics item by item.

    If both were equally good, it would not matter whose value an item has, once the two are on one scale: z-scores for
    Pearson's correlation, ranks for the others. The p-value counts differences at least as large as the one found, in
    either direction, the one found among them.
    """
    order = np.lexsort((second, first, truth))
    first, second, truth = (np.asarray(values, dtype=np.float64)[order] for values in (first, second, truth))
    one, other = (_on_one_scale(values, kind) for values in (first, second))
    value = correlation(one, truth, kind) - correlation(other, truth, kind)
    rng = np.random.default_rng(seed)
    block = max(1, _VALUES_AT_ONCE // len(truth))
    reached = 1
    for start in range(0, permutations, block):
        rows = min(block, permutations - start)
        swap = rng.integers(0, 2, (rows, len(truth))).astype(bool)
        found = _rows(np.where(swap, other, one), truth, kind) - _rows(np.where(swap, one, other), truth, kind)
        reached += int((np.abs(found) >= abs(value) - 1e-12).sum())
    return Difference(value, p=reached / (permutations + 1))


def _on_one_scale(values: Array, kind: Kind) -> Array:
    from scipy.stats import rankdata

    if kind != "pearson":
        ranks: Array = rankdata(values)
        return ranks
    spread = values.std()
    if not spread > 0:
        raise DataError("a metric that is constant; expected one that tells items apart")
    scaled: Array = (values - values.mean()) / spread
    return scaled


def _rows(values: Array, truth: Array, kind: Kind) -> Array:
    """The correlation of every row with the truth."""
    from scipy.stats import rankdata

    if kind == "spearman":
        values, truth = rankdata(values, axis=1), rankdata(truth)
    values = values - values.mean(axis=1, keepdims=True)
    truth = truth - truth.mean()
    spread = np.sqrt((values * values).sum(axis=1) * (truth @ truth))
    found: Array = np.divide(values @ truth, spread, out=np.full(len(values), np.nan), where=spread > 0)
    return found
