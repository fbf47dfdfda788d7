"""Compiled loops over resamples: for each metric and each row of weights, one pass over sorted items."""

from __future__ import annotations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.compiled import kernel


@kernel
def count_draws(draws: Array) -> Array:
    """How often each item occurs in each row of draws."""
    weights = np.zeros(draws.shape)
    for b in range(draws.shape[0]):
        for i in range(draws.shape[1]):
            weights[b, draws[b, i]] += 1.0
    return weights


@kernel
def rank_correlations(order: Array, tied: Array, truth_order: Array, truth_tied: Array, weights: Array) -> Array:
    """Spearman's rho in every resample, of two sides given by how they sort the items.

    `order` sorts the items, `tied[i]` says that the i-th of them equals the one before. A rank counts the items below
    and half of those tied with it, minus the mean rank.
    """
    resamples, size = weights.shape
    found = np.empty(resamples)
    ranks = np.empty(size)
    for b in range(resamples):
        total = 0.0
        for i in range(size):
            total += weights[b, i]
        below = square = 0.0
        start = 0
        while start < size:
            end, level = start + 1, weights[b, truth_order[start]]
            while end < size and truth_tied[end]:
                level += weights[b, truth_order[end]]
                end += 1
            rank = below + level / 2 - total / 2
            for i in range(start, end):
                ranks[truth_order[i]] = rank
            square += level * rank * rank
            below += level
            start = end
        below = own_square = shared = 0.0
        start = 0
        while start < size:
            item, end = order[start], start + 1
            level = weights[b, item]
            product = level * ranks[item]
            while end < size and tied[end]:
                item = order[end]
                level += weights[b, item]
                product += weights[b, item] * ranks[item]
                end += 1
            rank = below + level / 2 - total / 2
            own_square += level * rank * rank
            shared += product * rank
            below += level
            start = end
        spread = own_square * square
        found[b] = shared / np.sqrt(spread) if spread > 1e-9 else np.nan
    return found


@kernel
def swapped_rank_correlations(order: Array, tied: Array, ranks: Array, swaps: Array) -> Array:
    """First metric's Spearman's rho minus the second's, when the two swap values where a row of `swaps` is 1.

    `order` sorts the values of both metrics, the first metric's before the second's; `ranks` are the truth's,
    minus their mean, and do not change with the swaps.
    """
    rows, size = swaps.shape
    found = np.empty(rows)
    items = order % size
    owned = np.where(order < size, 1.0, 0.0)
    turn = 1.0 - 2.0 * owned
    truth = ranks[items]
    square = (ranks * ranks).sum()
    for b in range(rows):
        below = other_below = own_square = other_square = shared = other_shared = 0.0
        start = 0
        while start < 2 * size:
            end = start
            level = product = all_product = 0.0
            while end == start or (end < 2 * size and tied[end]):
                mine = owned[end] + turn[end] * swaps[b, items[end]]
                level += mine
                product += mine * truth[end]
                all_product += truth[end]
                end += 1
            other_level = end - start - level
            rank = below + level / 2 - size / 2
            other_rank = other_below + other_level / 2 - size / 2
            own_square += level * rank * rank
            other_square += other_level * other_rank * other_rank
            shared += product * rank
            other_shared += (all_product - product) * other_rank
            below += level
            other_below += other_level
            start = end
        if own_square * square > 1e-9 and other_square * square > 1e-9:
            found[b] = shared / np.sqrt(own_square * square) - other_shared / np.sqrt(other_square * square)
        else:
            found[b] = np.nan
    return found


@kernel
def tau_correlations(order: Array, tied: Array, truth_levels: Array, weights: Array) -> Array:
    """Kendall's tau-b in every resample.

    `order` sorts the items by the metric, `truth_levels` numbers the distinct values of the truth from 0 upwards.
    Items go level by level of the metric into a Fenwick tree over the levels of the truth, which says how much weight
    has gone in below and above a level. An item drawn w times makes w (w - 1) / 2 pairs that are tied on both sides.
    """
    resamples, size = weights.shape
    levels = truth_levels.max() + 1
    found = np.empty(resamples)
    tree, single = np.empty(levels + 1), np.empty(levels)
    for b in range(resamples):
        tree[:], single[:] = 0.0, 0.0
        inside = tied_pairs = net = 0.0
        start = 0
        while start < size:
            end, level = start, 0.0
            while end == start or (end < size and tied[end]):
                w = weights[b, order[end]]
                if w > 0:
                    truth = truth_levels[order[end]]
                    below, node = 0.0, truth
                    while node > 0:
                        below += tree[node]
                        node &= node - 1
                    net += w * (2 * below + single[truth] - inside)
                    level += w
                end += 1
            for i in range(start, end):
                w = weights[b, order[i]]
                if w > 0:
                    truth = truth_levels[order[i]]
                    single[truth] += w
                    node = truth + 1
                    while node <= levels:
                        tree[node] += w
                        node += node & -node
            inside += level
            tied_pairs += level * (level - 1) / 2
            start = end
        truth_tied_pairs = 0.0
        for i in range(levels):
            truth_tied_pairs += single[i] * (single[i] - 1) / 2
        pairs = inside * (inside - 1) / 2
        spread = (pairs - tied_pairs) * (pairs - truth_tied_pairs)
        found[b] = net / np.sqrt(spread) if spread > 0 else np.nan
    return found


@kernel
def best_accuracies(order: Array, tied: Array, high: Array, weights: Array, both: bool) -> Array:
    """OCA of a metric in every resample: the best accuracy of "above a threshold is high".

    With `both`, of "below a threshold is high" too: what is wrong in one direction is right in the other.
    """
    resamples, size = weights.shape
    found = np.empty(resamples)
    for b in range(resamples):
        total = right = 0.0
        for i in range(size):
            total += weights[b, i]
            if high[i]:
                right += weights[b, i]
        best = worst = right
        for i in range(size):
            item = order[i]
            right += -weights[b, item] if high[item] else weights[b, item]
            if i + 1 == size or not tied[i + 1]:
                best, worst = max(best, right), min(worst, right)
        found[b] = max(best, total - worst) / total if both else best / total
    return found


@kernel
def optimisms(order: Array, tied: Array, high: Array, weights: Array, both: bool) -> Array:
    """How much better the best threshold of a resample does on the resample than on all items."""
    resamples, size = weights.shape
    found = np.empty(resamples)
    for b in range(resamples):
        total = right = 0.0
        whole = 0
        for i in range(size):
            total += weights[b, i]
            if high[i]:
                right += weights[b, i]
                whole += 1
        best, best_whole = right, whole
        worst, worst_whole = right, whole
        for i in range(size):
            item = order[i]
            right += -weights[b, item] if high[item] else weights[b, item]
            whole += -1 if high[item] else 1
            if i + 1 == size or not tied[i + 1]:
                if right > best:
                    best, best_whole = right, whole
                if right < worst:
                    worst, worst_whole = right, whole
        if both and total - worst > best:
            best, best_whole = total - worst, size - worst_whole
        found[b] = best / total - best_whole / size
    return found


@kernel
def null_accuracies(order: Array, tied: Array, highs: Array, both: bool) -> Array:
    """OCA of a metric for each row of labels."""
    rows, size = highs.shape
    found = np.empty(rows)
    for b in range(rows):
        right = 0
        for i in range(size):
            right += highs[b, i]
        best = worst = right
        for i in range(size):
            right += -1 if highs[b, order[i]] else 1
            if i + 1 == size or not tied[i + 1]:
                best, worst = max(best, right), min(worst, right)
        found[b] = max(best, size - worst) / size if both else best / size
    return found


@kernel
def split_classes(values: Array, labels: Array, high: float) -> tuple[Array, Array]:
    """Values of the items labelled `high`, and of the others."""
    size = len(values)
    inside, outside = np.empty(size), np.empty(size)
    count = 0
    for i in range(size):
        inside[count], outside[i - count] = values[i], values[i]
        count += labels[i] == high
    return inside[:count], outside[: size - count]


@kernel
def best_cut(high: Array, low: Array, both: bool) -> tuple[int, float, float]:
    """How many items the best threshold gets right, the value next below it and the value next above it.

    `high` and `low` are the sorted values of the two classes; those of `high` should lie above, or, with `both`, below
    when that is better.
    """
    i = j = 0
    right = best = worst = len(high)
    below = worst_below = -np.inf
    while i < len(high) or j < len(low):
        value = min(high[i] if i < len(high) else np.inf, low[j] if j < len(low) else np.inf)
        while i < len(high) and high[i] == value:
            i, right = i + 1, right - 1
        while j < len(low) and low[j] == value:
            j, right = j + 1, right + 1
        if right > best:
            best, below = right, value
        if right < worst:
            worst, worst_below = right, value
    if both and len(high) + len(low) - worst > best:
        best, below = len(high) + len(low) - worst, worst_below
    above = np.inf
    for side in (high, low):
        for value in side:
            if value > below:
                above = min(above, value)
                break
    return best, below, above
