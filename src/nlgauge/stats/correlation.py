"""Correlation and optimal classification accuracy, of one sample or of many resamples at once.

A resample is a row of weights: how often each item was drawn. Items are sorted once; every resample is then one pass
over them, or, for Pearson's correlation, part of a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.stats.bootstrap import check_level

_WEIGHTS_AT_ONCE = 2_000_000


Kind = Literal["pearson", "spearman"]


def correlation(x: Array, y: Array, kind: Kind) -> float:
    """Pearson's or Spearman's correlation; not a number when one side is constant."""
    x, y = _paired(x, y)
    return float(weighted_correlation(x, y, np.ones((1, len(x))), kind)[0])


def weighted_correlation(x: Array, y: Array, weights: Array, kind: Kind) -> Array:
    """The correlation in each row of weights."""
    return weighted_spearman(x, y, weights) if kind == "spearman" else weighted_pearson(x, y, weights)


def weighted_pearson(x: Array, y: Array, weights: Array) -> Array:
    """Pearson's r of each row of weights, from matrix products."""
    x, y = x - x.mean(), y - y.mean()
    total = weights.sum(axis=1)
    sums = weights @ np.stack([x, y, x * x, y * y, x * y], axis=1)
    mean_x, mean_y = sums[:, 0] / total, sums[:, 1] / total
    spread_x, spread_y = sums[:, 2] - total * mean_x**2, sums[:, 3] - total * mean_y**2
    spread = np.sqrt(np.maximum(spread_x, 0) * np.maximum(spread_y, 0))
    real = (spread_x > 1e-12 * sums[:, 2]) & (spread_y > 1e-12 * sums[:, 3])
    shared = sums[:, 4] - total * mean_x * mean_y
    r: Array = np.divide(shared, spread, out=np.full(len(weights), np.nan), where=real)
    return np.clip(r, -1.0, 1.0)


def spearman(x: Array, y: Array) -> float:
    """Spearman's rank correlation; tied values share their mean rank; not a number when one side is constant."""
    x, y = _paired(x, y)
    return float(weighted_spearman(x, y, np.ones((1, len(x))))[0])


def weighted_spearman(x: Array, y: Array, weights: Array) -> Array:
    """Spearman's rho of each row of weights: Pearson's of the ranks that the items have in that resample."""
    from nlgauge.stats.resampling_kernels import rank_correlations, weighted_ranks

    return rank_correlations(*_sorted(x), weighted_ranks(*_sorted(y), weights), weights)


def optimal_accuracy(values: Array, labels: Array) -> tuple[float, float]:
    """OCA (Tevet & Berant 2021, section 6.4): the best accuracy of "diverse if above a threshold", and that threshold.

    One-directional, as the paper defines it: an inverted metric scores no better than always saying one class.
    """
    values, labels = _paired(values, labels)
    high = _classes(labels)
    order, tied = _sorted(values)
    levels = values[order][~tied]
    last = np.append(np.flatnonzero(~tied)[1:], len(values)) - 1
    right = high.sum() + np.concatenate([[0], np.cumsum(np.where(high[order], -1, 1))[last]])
    best = int(right.argmax())
    middle = (levels[:-1] + levels[1:]) / 2
    edges = np.concatenate([[-np.inf], np.where(middle < levels[1:], middle, levels[:-1]), [np.inf]])
    return float(right[best] / len(values)), float(edges[best])


def weighted_accuracy(values: Array, labels: Array, weights: Array) -> Array:
    """OCA of each row of weights."""
    from nlgauge.stats.resampling_kernels import best_accuracies

    return best_accuracies(*_sorted(values), _classes(labels), weights)


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
    values = np.concatenate([statistic(x, y, weights) for weights in resample_weights(len(x), resamples, seed)])
    if np.isnan(values).all():
        return float("nan"), float("nan")
    low, high = np.nanquantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def resample_weights(size: int, resamples: int, seed: int) -> Iterator[Array]:
    """How often each item is drawn in each resample, some resamples at a time; the seed alone fixes them."""
    rng = np.random.default_rng(seed)
    block = max(1, _WEIGHTS_AT_ONCE // size)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        draws = rng.integers(0, size, (rows, size)) + size * np.arange(rows)[:, None]
        yield np.bincount(draws.ravel(), minlength=rows * size).reshape(rows, size).astype(np.float64)


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


def _sorted(values: Array) -> tuple[Array, Array]:
    """The order of items by value, and which of them equal the one before."""
    order = np.argsort(values, kind="stable")
    tied = np.zeros(len(values), dtype=np.bool_)
    tied[1:] = np.diff(values[order]) == 0
    return order, tied
