"""Bootstrap intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.inference import check_level

_DRAWS_AT_ONCE = 4_000_000


def bootstrap_mean(
    values: Array, confidence: float, resamples: int, seed: int, *, groups: Array | None = None
) -> tuple[float, float]:
    """Percentile interval of the mean over items drawn with replacement.

    Values are sorted first, so that the interval depends on the seed and on the values but not on their order. With
    `groups`, one label per item, whole groups are drawn.
    """
    check_level(confidence, resamples)
    if groups is not None:
        return _bootstrap_groups(values, groups, confidence, resamples, seed)
    means = np.concatenate(list(_resampled_means(np.sort(values), resamples, seed)))
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _bootstrap_groups(
    values: Array, groups: Array, confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    sizes = np.bincount(numbers).astype(np.float64)
    order = np.argsort(values, kind="stable")
    totals = np.bincount(numbers[order], weights=values[order])
    drawn = np.random.default_rng(seed).integers(0, len(sizes), (resamples, len(sizes)))
    means = totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _resampled_means(values: Array, resamples: int, seed: int) -> Iterator[Array]:
    """Means of resamples, block by block; they depend on the seed, not on the size of a block."""
    size = len(values)
    if np.all(values == values[0]):
        yield np.full(resamples, values[0])
        return
    block = max(1, _DRAWS_AT_ONCE // size)
    rng = np.random.default_rng(seed)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        yield values[rng.integers(0, size, (rows, size), dtype=np.uint32)].mean(axis=1)
