"""Optimal classification accuracy (paper 1): as the paper defines it, corrected for its own choice, and by chance.

The threshold is chosen on the data that it classifies, so a useless metric gets .54 to .62 where .5 would be right. The
bootstrap shows how much a chosen threshold flatters itself (Harrell's optimism); what is left is an accuracy on new
data. Its interval is Wilson's: at the best threshold, a little more or less of it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.correlation import Directions, group_numbers, optimal_accuracy, resample_weights, sorted_items
from nlgauge.stats.means import share_interval
from nlgauge.stats.permutation import permuted_labels
from nlgauge.stats.units import Units

_PERMUTATIONS = 1000
_RESAMPLES = 200


@dataclass(frozen=True)
class OptimalAccuracy:
    """OCA with its threshold; the accuracy to expect on new data with its interval; and what chance gives.

    `null` is the mean of the in-sample value under permuted labels, and `p` the share of permutations that reach it.
    """

    value: float
    threshold: float
    corrected: float
    ci: tuple[float, float]
    null: float
    p: float


def optimal_accuracy_test(
    values: Array,
    labels: Array,
    *,
    directions: Directions = "one",
    groups: Array | None = None,
    level: float = 0.95,
    seed: int = 12345,
) -> OptimalAccuracy:
    """OCA of one metric; with `groups`, one label per item, whole groups are drawn and labels permuted within them."""
    from nlgauge.stats.kernels.resampling_kernels import null_accuracies, optimisms

    labelled = np.zeros(len(values)) if groups is None else group_numbers(groups, len(values))
    order = np.lexsort((labelled, labels, values))
    x, high = np.asarray(values, dtype=np.float64)[order], np.asarray(labels, dtype=np.float64)[order]
    high = high == high.max()
    numbers = None if groups is None else labelled[order]
    accuracy, threshold = optimal_accuracy(x, high, directions=directions)
    both, items = directions == "both", sorted_items(x)
    flattery = [
        optimisms(*items, high, np.ascontiguousarray(weights if numbers is None else weights[:, numbers]), both)
        for weights in resample_weights(len(x) if numbers is None else int(numbers.max()) + 1, _RESAMPLES, seed)
    ]
    corrected = max(accuracy - float(np.concatenate(flattery).mean()), max(high.mean(), 1 - high.mean()))
    right = (x > threshold) == high
    if both and right.mean() < accuracy:
        right = ~right
    units = Units() if numbers is None else Units(numbers)
    drawn = null_accuracies(*items, permuted_labels(high, numbers, _PERMUTATIONS, seed), both)
    return OptimalAccuracy(
        value=accuracy,
        threshold=threshold,
        corrected=corrected,
        ci=share_interval(right.astype(np.float64), level, units, share=corrected),
        null=float(drawn.mean()),
        p=float((np.count_nonzero(drawn >= accuracy - 1e-12) + 1) / (len(drawn) + 1)),
    )
