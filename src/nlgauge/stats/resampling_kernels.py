"""Compiled loops over resamples: one pass over sorted items for each metric and each row of weights."""

from __future__ import annotations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.compiled import kernel


@kernel
def weighted_ranks(order: Array, tied: Array, weights: Array) -> Array:
    """Rank of every item in every resample, less the mean rank: items below it, and half of those level with it.

    `order` sorts the items, `tied[i]` says that the i-th of them equals the one before.
    """
    resamples, size = weights.shape
    ranks = np.empty((resamples, size))
    for b in range(resamples):
        total = 0.0
        for i in range(size):
            total += weights[b, i]
        below, start = 0.0, 0
        while start < size:
            end, level = start + 1, weights[b, order[start]]
            while end < size and tied[end]:
                level += weights[b, order[end]]
                end += 1
            for i in range(start, end):
                ranks[b, order[i]] = below + level / 2 - total / 2
            below += level
            start = end
    return ranks


@kernel
def rank_correlations(order: Array, tied: Array, ranks: Array, weights: Array) -> Array:
    """Spearman's rho of a metric, given by how it sorts the items, with ranks of the truth in every resample."""
    resamples, size = weights.shape
    found = np.empty(resamples)
    for b in range(resamples):
        total = truth = square = 0.0
        for i in range(size):
            w, y = weights[b, i], ranks[b, i]
            total += w
            truth += w * y
            square += w * y * y
        below = own = own_square = shared = 0.0
        start = 0
        while start < size:
            first = order[start]
            level, product, end = weights[b, first], weights[b, first] * ranks[b, first], start + 1
            while end < size and tied[end]:
                item = order[end]
                level += weights[b, item]
                product += weights[b, item] * ranks[b, item]
                end += 1
            rank = below + level / 2 - total / 2
            own += level * rank
            own_square += level * rank * rank
            shared += product * rank
            below += level
            start = end
        spread = (own_square - own * own / total) * (square - truth * truth / total)
        found[b] = (shared - own * truth / total) / np.sqrt(spread) if spread > 1e-9 else np.nan
    return found


@kernel
def best_accuracies(order: Array, tied: Array, high: Array, weights: Array) -> Array:
    """OCA of a metric in every resample: the best accuracy of "above a threshold is high"."""
    resamples, size = weights.shape
    found = np.empty(resamples)
    for b in range(resamples):
        total = right = 0.0
        for i in range(size):
            total += weights[b, i]
            if high[i]:
                right += weights[b, i]
        best = right
        for i in range(size):
            item = order[i]
            right += -weights[b, item] if high[item] else weights[b, item]
            if (i + 1 == size or not tied[i + 1]) and right > best:
                best = right
        found[b] = best / total
    return found
