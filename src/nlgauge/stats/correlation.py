"""Correlation and optimal classification accuracy, of one sample or of many resamples at once.

A resample is a row of weights: how often each item was drawn. Items are sorted once; every resample is then one pass
over them, or, for Pearson's correlation, part of a matrix product.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, UnknownName
from nlgauge.stats.inference import check_level
from nlgauge.stats.means import share_interval

Kind = Literal["pearson", "spearman", "kendall"]
Directions = Literal["one", "both"]
Weighted = Callable[[Array, Array, Array], Array]

_WEIGHTS_AT_ONCE = 500_000
_NEARLY_ONE = 0.9999


@dataclass(frozen=True)
class Correlation:
    """A correlation with its two-sided p-value; both are not a number when one side is constant."""

    value: float
    p: float


def correlation(x: Array, y: Array, kind: Kind) -> float:
    """Pearson's, Spearman's or Kendall's (tau-b) correlation; not a number when one side is constant."""
    x, y = _paired(x, y)
    return float(weighted_correlation(x, y, np.ones((1, len(x))), kind)[0])


def correlation_test(x: Array, y: Array, kind: Kind) -> Correlation:
    """The correlation with the p-value of SciPy's `pearsonr`, `spearmanr` or `kendalltau` at their defaults."""
    from scipy.stats import kendalltau, pearsonr, spearmanr

    x, y = _paired(x, y)
    if len(x) < 3:
        raise DataError(f"{len(x)} items; expected at least 3 to test a correlation")
    value = correlation(x, y, kind)
    if np.isnan(value):
        return Correlation(nan, nan)
    test = {"pearson": pearsonr, "spearman": spearmanr, "kendall": kendalltau}[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Correlation(value, float(test(x, y).pvalue))


def weighted_correlation(x: Array, y: Array, weights: Array, kind: Kind) -> Array:
    """The correlation in each row of weights."""
    return _named(kind, _KINDS)(x, y, weights)


def weighted_pearson(x: Array, y: Array, weights: Array) -> Array:
    """Pearson's r of each row of weights, from matrix products."""
    row: Array = _pearson_of_rows(x[None], y[None], weights)[0]
    return row


def _pearson_of_rows(x: Array, y: Array, weights: Array) -> Array:
    """Pearson's r of every row of x with the same row of y (rows), for each row of weights (columns)."""
    x, y = centred(x), centred(y)
    total = weights.sum(axis=1)
    terms = np.concatenate([x, y, x * x, y * y, x * y])
    sum_x, sum_y, square_x, square_y, product = (weights @ terms.T).T.reshape(5, len(x), len(weights))
    spread_x, spread_y = square_x - sum_x**2 / total, square_y - sum_y**2 / total
    spread = np.sqrt(np.maximum(spread_x, 0)) * np.sqrt(np.maximum(spread_y, 0))
    real = (spread_x > 1e-12 * square_x) & (spread_y > 1e-12 * square_y)
    shared = product - sum_x * sum_y / total
    r: Array = np.divide(shared, spread, out=np.full(shared.shape, nan), where=real)
    return np.clip(r, -1.0, 1.0, out=r)


def centred(values: Array) -> Array:
    """Rows minus their means, scaled to a largest absolute value of 1: squares neither vanish nor overflow."""
    values = values - values.mean(axis=-1, keepdims=True)
    largest = np.abs(values).max(axis=-1, keepdims=True)
    scaled: Array = values / np.where(largest > 0, largest, 1)
    return scaled


def spearman(x: Array, y: Array) -> float:
    """Spearman's rank correlation; tied values share their mean rank; not a number when one side is constant."""
    return correlation(x, y, "spearman")


def weighted_spearman(x: Array, y: Array, weights: Array) -> Array:
    """Spearman's rho of each row of weights: Pearson's of the ranks that the items have in that resample."""
    from nlgauge.stats.kernels.resampling_kernels import rank_correlations

    return rank_correlations(*sorted_items(x), *sorted_items(y), weights)


def weighted_kendall(x: Array, y: Array, weights: Array) -> Array:
    """Kendall's tau-b of each row of weights, which must be whole numbers; O(n log n) per row."""
    from nlgauge.stats.kernels.resampling_kernels import tau_correlations

    return tau_correlations(*sorted_items(x), np.unique(y, return_inverse=True)[1], weights)


def optimal_accuracy(values: Array, labels: Array, *, directions: Directions = "one") -> tuple[float, float]:
    """OCA (Tevet & Berant 2021, section 6.4): the best accuracy of "diverse if above a threshold", and that threshold.

    One-directional, as the paper defines it: an inverted metric scores no better than always saying one class. With
    `directions="both"`, the better of "diverse if above" and "diverse if below", as the authors' released code does.
    """
    from nlgauge.stats.kernels.resampling_kernels import best_cut, split_classes

    values, labels = _paired(values, labels)
    both, classes = _is_both(directions), split_classes(values, labels, _larger_class(labels))
    for members in classes:
        members.sort()
    right, below, above = best_cut(*classes, both)
    middle = below / 2 + above / 2
    return right / len(values), middle if middle < above or np.isinf(above) else below


def weighted_accuracy(values: Array, labels: Array, weights: Array, *, directions: Directions = "one") -> Array:
    """OCA of each row of weights; a row may contain one class only."""
    from nlgauge.stats.kernels.resampling_kernels import best_accuracies

    high = np.asarray(labels) == _larger_class(labels)
    return best_accuracies(*sorted_items(values), high, weights, _is_both(directions))


_KINDS: dict[str, Weighted] = {
    "pearson": weighted_pearson,
    "spearman": weighted_spearman,
    "kendall": weighted_kendall,
}


def bootstrap(
    statistic: Weighted,
    x: Array,
    y: Array,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 12345,
) -> tuple[float, float]:
    """Percentile interval of a weighted statistic over items drawn with replacement.

    Items are sorted first, so that their order does not matter. Resamples in which the statistic is not a number, as
    correlations are when one side is constant, do not count.
    """
    check_level(confidence, resamples)
    x, y = _by_value(*_paired(x, y))
    found = np.concatenate([statistic(x, y, weights) for weights in resample_weights(len(x), resamples, seed)])
    return percentiles(found, confidence)


def bootstrap_intervals(
    values: Array,
    truth: Array,
    kind: Kind,
    *,
    groups: Array | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 12345,
) -> Array:
    """The `fisher_interval` of the correlation of each of many metrics (metrics x items) with the truth, low and high.

    With `groups`, one label per item, whole groups are drawn: items of one group are not independent.
    """
    check_level(confidence, resamples)
    found = resampled(values, truth, kind, groups=groups, resamples=resamples, seed=seed)
    units = np.shape(values)[1] if groups is None else len(np.unique(groups))
    plain = np.ones((1, np.shape(values)[1]))
    known = [float(_KINDS[kind](np.asarray(row, float), np.asarray(truth, float), plain)[0]) for row in values]
    return np.array([fisher_interval(r, row, units, confidence) for r, row in zip(known, found, strict=True)])


def fisher_interval(value: float, drawn: Array, units: int, confidence: float) -> tuple[float, float]:
    """The interval of a correlation from its values in resamples: Student's t on Fisher's scale.

    Percentiles cover too seldom where items are few or the truth is binary; see docs/statistics.md. Where order is
    perfect, resamples show no error: the share of pairs in order has Wilson's interval for so many units.
    """
    from scipy.special import stdtrit

    if abs(value) >= _NEARLY_ONE:
        low, high = share_interval(np.full(units, float(value > 0)), confidence)
        return 2 * low - 1, 2 * high - 1
    real = drawn[~np.isnan(drawn)]
    if len(real) < 2 or np.isnan(value):
        return nan, nan
    moved = np.arctanh(np.clip(real, -_NEARLY_ONE, _NEARLY_ONE))
    half = float(stdtrit(max(1, units - 2), (1 + confidence) / 2)) * float(moved.std(ddof=1))
    centre = float(np.arctanh(value))
    return float(np.tanh(centre - half)), float(np.tanh(centre + half))


def area_interval(value: float, drawn: Array, units: int, confidence: float) -> tuple[float, float]:
    """The interval of an area under the ROC curve, or a share of pairs won: twice that less 1 is a correlation."""
    low, high = fisher_interval(2 * value - 1, 2 * drawn - 1, units, confidence)
    return (1 + low) / 2, (1 + high) / 2


def ratio_interval(value: float, drawn: Array, units: int, confidence: float) -> tuple[float, float]:
    """The interval of a number that is never negative: Student's t on the scale of its logarithm."""
    from scipy.special import stdtrit

    real = drawn[drawn > 0]
    if len(real) < 2 or not value > 0:
        return nan, nan
    half = float(stdtrit(max(1, units - 1), (1 + confidence) / 2)) * float(np.log(real).std(ddof=1))
    return value * float(np.exp(-half)), value * float(np.exp(half))


def difference_interval(
    one: float, ends: Sequence[float], other: float, others: Sequence[float]
) -> tuple[float, float]:
    """The interval of the difference of two independent correlations, from those of both (Zou 2007)."""
    low = one - other - float(np.hypot(one - ends[0], others[1] - other))
    return low, one - other + float(np.hypot(ends[1] - one, other - others[0]))


def fisher_p(value: float, interval: Sequence[float], units: int, confidence: float) -> float:
    """Two-sided p-value of no correlation, from the error that the interval shows: that of dependent items, too."""
    from scipy.special import stdtr, stdtrit

    low, high = np.arctanh(np.clip(interval, -_NEARLY_ONE, _NEARLY_ONE))
    freedom = max(1, units - 2)
    error = (high - low) / (2 * float(stdtrit(freedom, (1 + confidence) / 2)))
    if not error > 0:
        return nan
    return float(2 * stdtr(freedom, -abs(float(np.arctanh(np.clip(value, -_NEARLY_ONE, _NEARLY_ONE)))) / error))


def resampled(
    values: Array,
    truth: Array,
    kind: Kind,
    *,
    groups: Array | None = None,
    resamples: int = 1000,
    seed: int = 12345,
) -> Array:
    """The correlation of each of many metrics (metrics x items) in resamples (metrics x resamples).

    Every metric's items are sorted by its own values, so that a row depends neither on the order of items nor on the
    other metrics. For the same reason, a column does not hold the same items for all metrics: to compare two metrics,
    use `bootstrap_difference` of `nlgauge.stats.dependent`.
    """
    weighted = _named(kind, _KINDS)
    values, truth = _metrics(values, truth)
    orders = [np.lexsort((truth, row)) for row in values]
    x = np.stack([row[order] for row, order in zip(values, orders, strict=True)])
    y = np.stack([truth[order] for order in orders])
    blocks = []
    if groups is not None:
        numbers = group_numbers(groups, len(truth))
        for counts in resample_weights(int(numbers.max()) + 1, resamples, seed):
            drawn = (np.ascontiguousarray(counts[:, numbers[order]]) for order in orders)
            blocks.append(np.stack([weighted(a, b, weights) for a, b, weights in zip(x, y, drawn, strict=True)]))
    elif kind == "pearson":
        blocks = [_pearson_of_rows(x, y, weights) for weights in resample_weights(len(truth), resamples, seed)]
    else:
        for weights in resample_weights(len(truth), resamples, seed):
            blocks.append(np.stack([weighted(a, b, weights) for a, b in zip(x, y, strict=True)]))
    return np.concatenate(blocks, axis=1)


def group_numbers(groups: Array, size: int) -> Array:
    """Labels of groups as numbers from 0, in the order of the labels, so that the order of items does not matter."""
    labels = np.asarray(groups)
    if labels.shape != (size,):
        raise DataError(f"groups of shape {labels.shape} for {size} items; expected one label per item")
    numbers: Array = np.unique(labels, return_inverse=True)[1]
    if numbers.max() < 1:
        raise DataError("all items are of one group; expected at least 2 groups to draw from")
    return numbers


def resample_weights(size: int, resamples: int, seed: int) -> Iterator[Array]:
    """How often each item is drawn in each resample, some resamples at a time; they depend on the seed alone."""
    from nlgauge.stats.kernels.resampling_kernels import count_draws

    rng = np.random.default_rng(seed)
    block = max(1, _WEIGHTS_AT_ONCE // size)
    for start in range(0, resamples, block):
        yield count_draws(rng.integers(0, size, (min(block, resamples - start), size)))


def percentiles(found: Array, confidence: float) -> tuple[float, float]:
    """The percentile interval of resampled values, those that are not a number left out."""
    real = found[~np.isnan(found)]
    if not len(real):
        return nan, nan
    low, high = np.quantile(real, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def sorted_items(values: Array) -> tuple[Array, Array]:
    """The order of items by value, and which of them equal the one before."""
    order = np.argsort(values, kind="stable")
    tied = np.zeros(len(values), dtype=np.bool_)
    ascending = values[order]
    tied[1:] = ascending[1:] == ascending[:-1]
    return order, tied


def _by_value(x: Array, y: Array) -> tuple[Array, Array]:
    order = np.lexsort((y, x))
    return x[order], y[order]


def _named(name: str, known: dict[str, Weighted]) -> Weighted:
    if name not in known:
        raise UnknownName.among("statistic", name, known)
    return known[name]


def _is_both(directions: str) -> bool:
    if directions not in ("one", "both"):
        raise UnknownName.among("choice of directions", directions, ("one", "both"))
    return directions == "both"


def _paired(x: Array, y: Array) -> tuple[Array, Array]:
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise DataError(f"values of shape {x.shape} and {y.shape}; expected two rows of at least 2 values")
    _check_finite(x, y)
    return x, y


def _metrics(values: Array, truth: Array) -> tuple[Array, Array]:
    values, truth = np.asarray(values, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if values.ndim != 2 or not len(values) or values.shape[1:] != truth.shape or len(truth) < 2:
        raise DataError(
            f"values of shape {values.shape} and a truth of shape {truth.shape}; expected one row per metric, "
            "with a value for each of at least 2 items of the truth"
        )
    _check_finite(values, truth)
    return values, truth


def _check_finite(x: Array, y: Array) -> None:
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise DataError("values that are not finite; expected a number for every item")


def _larger_class(labels: Array) -> float:
    """The label of the diverse class."""
    labels = np.asarray(labels, dtype=np.float64)
    low, high = labels.min(), labels.max()
    if low == high:
        raise DataError(f"one class only among the labels ({low:g}); expected two classes")
    if np.count_nonzero(labels == low) + np.count_nonzero(labels == high) < len(labels):
        count = len(np.unique(labels))
        raise DataError(f"{count} different labels; expected two classes, the larger one being the diverse one")
    return float(high)
