"""Does a metric order pairs as people do? Accuracy over pairs of items with ties, and over pairs of systems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError

_ROUNDING = 1e-9


@dataclass(frozen=True)
class PairwiseAccuracy:
    """The share of pairs on which metric and truth agree, when the metric calls a tie up to `epsilon`."""

    value: float
    epsilon: float
    pairs: int


@dataclass(frozen=True)
class _Pairs:
    """Every pair of items that is compared: how far apart the metric puts them, and what agrees with the truth."""

    distance: Array
    same_order: Array
    truth_tied: Array
    group: Array

    def mean(self, right: Array) -> float:
        """The mean over groups of the share of their pairs that are right."""
        sizes = np.bincount(self.group)
        return float((np.bincount(self.group, weights=right)[sizes > 0] / sizes[sizes > 0]).mean())


def pairwise_accuracy(
    metric: Array, truth: Array, *, groups: Array | None = None, epsilon: float | None = 0.0
) -> PairwiseAccuracy:
    """acc_eq of Deutsch, Foster & Freitag (2023): the share of pairs correctly called better, worse or tied.

    The metric calls a tie when two values differ by at most `epsilon`; None chooses it as `calibrate_ties` does. With
    `groups`, one label per item, only items of one group are compared, and the value is the mean of the groups'
    accuracies, as WMT's tasks average over source segments. Groups whose truth is tied throughout count, too.
    """
    if epsilon is None:
        return calibrate_ties(metric, truth, groups)
    if not 0 <= epsilon < float("inf"):
        raise OptionError(f"an epsilon of {epsilon:g}; expected a number of at least 0, or None to choose the best")
    pairs = _pairs(metric, truth, groups)
    right = np.where(pairs.distance <= epsilon, pairs.truth_tied, pairs.same_order)
    return PairwiseAccuracy(pairs.mean(right), float(epsilon), len(right))


def calibrate_ties(metric: Array, truth: Array, groups: Array | None = None) -> PairwiseAccuracy:
    """The accuracy at the best epsilon (tie calibration in the same paper).

    Candidates are 0 and the differences that occur; of several that are best, the smallest is taken.
    As epsilon grows past a pair's difference, the pair becomes right if the truth is tied, and wrong if it was right.
    """
    pairs = _pairs(metric, truth, groups)
    order = np.argsort(pairs.distance)
    distance = pairs.distance[order]
    weights = 1 / np.bincount(pairs.group)[pairs.group]
    change = np.cumsum(weights[order] * (pairs.truth_tied[order].astype(np.int64) - pairs.same_order[order]))
    last = np.append(distance[1:] != distance[:-1], True)
    gained, epsilons = change[last], distance[last]
    if epsilons[0] > 0:
        gained, epsilons = np.append(0.0, gained), np.append(0.0, epsilons)
    best = float(epsilons[int((gained >= gained.max() - _ROUNDING).argmax())])
    right = np.where(pairs.distance <= best, pairs.truth_tied, pairs.same_order)
    return PairwiseAccuracy(pairs.mean(right), best, len(distance))


def soft_pairwise_accuracy(metric: Array, truth: Array, *, permutations: int = 1000, seed: int = 12345) -> float:
    """SPA of Thompson et al. (2024): do metric and people agree on which systems differ, equally surely?

    Values are systems x items. It is 1 minus the mean over pairs of systems of |p of people - p of the metric|, where p
    is the one-sided p-value, by a paired permutation test with the same swaps for both, that the first system is
    better. Permutations that equal what was found count half, and so does what was found itself. The p-values of
    (i, j) and (j, i) then add up to 1, and neither the order of systems nor that of items matters.
    """
    metric, truth = (np.asarray(side, dtype=np.float64) for side in (metric, truth))
    if metric.shape != truth.shape or metric.ndim != 2 or len(metric) < 2 or metric.shape[1] < 2:
        raise DataError(
            f"values of shape {metric.shape} and {truth.shape}; expected two tables of systems x items, of one shape, "
            "with at least 2 systems and 2 items"
        )
    if not (np.isfinite(metric).all() and np.isfinite(truth).all()):
        raise DataError("values that are not finite; expected a number for every system and item")
    if permutations < 100:
        raise OptionError(f"{permutations} permutations; expected at least 100")
    metric, truth = _in_own_order(metric, truth)
    flips = np.random.default_rng(seed).integers(0, 2, (permutations, metric.shape[1])) * 2.0 - 1
    upper = np.triu_indices(len(metric), 1)
    distance = np.abs(_better(truth, flips) - _better(metric, flips))
    return float(1 - distance[upper].mean())


def _in_own_order(metric: Array, truth: Array) -> tuple[Array, Array]:
    """Systems by their sorted values, then items by theirs: an order that does not depend on the input order."""
    both = np.concatenate([np.sort(truth, axis=1), np.sort(metric, axis=1)], axis=1)
    systems = np.lexsort(both.T[::-1])
    metric, truth = metric[systems], truth[systems]
    items = np.lexsort(np.concatenate([truth, metric])[::-1])
    return metric[:, items], truth[:, items]


def _better(values: Array, flips: Array) -> Array:
    """p that the system of the row is better than that of the column; swapping two systems flips a difference."""
    values = values - values.mean(axis=0)
    totals, permuted = values.sum(axis=1), flips @ values.T
    p = np.empty((len(values), len(values)))
    for own in range(len(values)):
        level = 1e-12 * np.abs(values[own] - values).sum(axis=1)
        beyond = (permuted[:, [own]] - permuted) - (totals[own] - totals)
        reached = np.count_nonzero(beyond > level, axis=0) + np.count_nonzero(beyond >= -level, axis=0)
        p[own] = (reached + 1) / 2 / (len(flips) + 1)
    return p


def _pairs(metric: Array, truth: Array, groups: Array | None) -> _Pairs:
    metric, truth = (np.asarray(side, dtype=np.float64) for side in (metric, truth))
    if metric.shape != truth.shape or metric.ndim != 1:
        raise DataError(f"values of shape {metric.shape} and {truth.shape}; expected two rows with one value per item")
    if not (np.isfinite(metric).all() and np.isfinite(truth).all()):
        raise DataError("values that are not finite; expected a number for every item")
    labels = np.zeros(len(metric), dtype=np.int64) if groups is None else np.asarray(groups)
    if labels.shape != metric.shape:
        raise DataError(f"groups of shape {labels.shape} for {len(metric)} items; expected one label per item")
    order = np.argsort(labels, kind="stable")
    metric, truth, labels = metric[order], truth[order], labels[order]
    place = np.arange(len(metric))
    later = np.searchsorted(labels, labels, side="right") - 1 - place
    first = np.repeat(place, later)
    if not len(first):
        where = "" if groups is None else " in any one group"
        raise DataError(f"no two items{where} to compare; expected at least 2")
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(later) - later, later)
    difference = metric[first] - metric[second]
    truth_difference = truth[first] - truth[second]
    group = np.cumsum(np.append(0, labels[1:] != labels[:-1]))[first]
    same_order = np.sign(difference) * np.sign(truth_difference) > 0
    return _Pairs(np.abs(difference), same_order, truth_difference == 0, group)
