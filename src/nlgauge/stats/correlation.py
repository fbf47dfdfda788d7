"""Rank correlation and optimal classification accuracy, of one sample or of many resamples at once.

A resample is a row of weights: how often each item was drawn. Weighted ranks and counts come from cumulative sums over
sorted items, so that a thousand resamples cost a few passes over a matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.stats.bootstrap import check_level

_WEIGHTS_AT_ONCE = 2_000_000


def spearman(x: Array, y: Array) -> float:
    """Spearman's rank correlation; tied values share their mean rank; not a number when one side is constant."""
    x, y = _paired(x, y)
    return float(weighted_spearman(x, y, np.ones((1, len(x))))[0])


def weighted_spearman(x: Array, y: Array, weights: Array) -> Array:
    """Spearman's rho of each row of weights: Pearson's of the ranks that the items have in that resample."""
    return _weighted_pearson(_weighted_ranks(x, weights), _weighted_ranks(y, weights), weights)


def optimal_accuracy(values: Array, labels: Array) -> tuple[float, float]:
    """OCA (Tevet & Berant 2021, section 6.1): the best accuracy of "diverse if above a threshold", and that threshold.

    One-directional, as the paper defines it: an inverted metric scores no better than always saying one class.
    """
    values, labels = _paired(values, labels)
    accuracy, order, last = _accuracies(values, _classes(labels), np.ones((1, len(values))))
    best = int(accuracy[0].argmax())
    if best == 0:
        return float(accuracy[0, 0]), -np.inf
    below = values[order[last[best - 1]]]
    above = values[order[last[best - 1] + 1]] if last[best - 1] + 1 < len(values) else np.inf
    return float(accuracy[0, best]), float((below + above) / 2 if np.isfinite(above) else np.inf)


def weighted_accuracy(values: Array, labels: Array, weights: Array) -> Array:
    """OCA of each row of weights."""
    found: Array = _accuracies(values, _classes(labels), weights)[0].max(axis=1)
    return found


def bootstrap(
    statistic: Callable[[Array, Array, Array], Array],
    x: Array,
    y: Array,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 12345,
) -> tuple[float, float]:
    """Percentile interval of a weighted statistic over items drawn with replacement.

    Items are sorted first, so that their order does not matter. Resamples in which one side is constant do not count.
    """
    check_level(confidence, resamples)
    x, y = _paired(x, y)
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    rng = np.random.default_rng(seed)
    size, block = len(x), max(1, _WEIGHTS_AT_ONCE // len(x))
    found = []
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        draws = rng.integers(0, size, (rows, size)) + size * np.arange(rows)[:, None]
        weights = np.bincount(draws.ravel(), minlength=rows * size).reshape(rows, size)
        found.append(statistic(x, y, weights.astype(np.float64)))
    values = np.concatenate(found)
    if np.isnan(values).all():
        return float("nan"), float("nan")
    low, high = np.nanquantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _paired(x: Array, y: Array) -> tuple[Array, Array]:
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise DataError(f"values of shape {x.shape} and {y.shape}; expected two rows of at least 2, one a side an item")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise DataError("values that are no finite numbers; expected a number for every item")
    return x, y


def _classes(labels: Array) -> Array:
    kinds = np.unique(labels)
    if len(kinds) > 2:
        raise DataError(f"{len(kinds)} different labels; expected two classes, the larger one being the diverse one")
    high: Array = labels == kinds[-1]
    return high


def _weighted_ranks(values: Array, weights: Array) -> Array:
    """Mean rank of each item among those drawn, up to a constant: those below it, and half of those level with it."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    groups = np.add.reduceat(weights[:, order], starts, axis=1)
    middle = np.cumsum(groups, axis=1) - groups / 2
    ranks = np.empty_like(weights)
    ranks[:, order] = np.repeat(middle, np.diff(starts, append=len(values)), axis=1)
    return ranks


def _weighted_pearson(x: Array, y: Array, weights: Array) -> Array:
    total = weights.sum(axis=1, keepdims=True)
    x = x - (weights * x).sum(axis=1, keepdims=True) / total
    y = y - (weights * y).sum(axis=1, keepdims=True) / total
    spread = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
    shared = (weights * x * y).sum(axis=1)
    rho: Array = np.divide(shared, spread, out=np.full(len(weights), np.nan), where=spread > 0)
    return rho


def _accuracies(values: Array, high: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Accuracy of every threshold (the first is below everything), the order of items, the last item of each level."""
    order = np.argsort(values, kind="stable")
    last = np.flatnonzero(np.diff(values[order], append=np.nan) != 0)
    sorted_weights, sorted_high = weights[:, order], high[order]
    gain = np.cumsum(np.where(sorted_high, -sorted_weights, sorted_weights), axis=1)[:, last]
    all_high = (weights * high).sum(axis=1, keepdims=True)
    right = np.concatenate([all_high, all_high + gain], axis=1)
    accuracy: Array = right / weights.sum(axis=1, keepdims=True)
    return accuracy, order, last
