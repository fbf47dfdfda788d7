"""Intervals of correlations over the means of some systems, each of which is known with an error.

Errors of means shrink their correlation, and resamples shrink it once more, so that an interval around the value that
was found covers too seldom: down to 77 %. What is covered is the correlation of the same systems over endless units.
"""

from __future__ import annotations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.correlation import Kind, correlation, percentiles, resample_weights
from nlgauge.stats.inference import Inference

_GROUPS = 40
_NEARLY_ONE = 0.9999
# Resamples of ranks show too little spread where ranks hardly change: chosen on the grid of docs/statistics.md.
_WIDER = 1.2

Ends = tuple[float, float]


def mean_correlation_intervals(totals: Array, how: Inference) -> dict[Kind, Ends | None]:
    """The interval of each kind of correlation, from sums of units: their numbers of items, and both sides' values.

    `totals` is 3 x units x systems. None where a system is seen in so few units that it is missing without some.
    """
    numbers = np.arange(totals.shape[1]) % _GROUPS
    groups = np.zeros((3, numbers.max() + 1, totals.shape[2]))
    for group, total in zip(groups, totals, strict=True):
        np.add.at(group, numbers, total)
    drawn: dict[Kind, list[float]] = {"spearman": [], "kendall": []}
    for counts in resample_weights(totals.shape[1], how.resamples, how.seed):
        sizes, x, y = (counts @ total for total in totals)
        whole = (sizes > 0).all(axis=1)
        for one, other in zip(x[whole] / sizes[whole], y[whole] / sizes[whole], strict=True):
            for kind, values in drawn.items():
                values.append(correlation(one, other, kind))
    sizes, x, y = totals.sum(axis=1)
    known = {kind: correlation(x / sizes, y / sizes, kind) for kind in drawn}
    return {
        "pearson": _by_jackknife(groups, how.level),
        **{kind: _of_ranks(known[kind], np.array(drawn[kind]), totals.shape[1], how.level) for kind in drawn},
    }


def _by_jackknife(groups: Array, level: float) -> Ends | None:
    """The jackknife takes out the shrinkage; leaving out two groups at a time shows the error of what it gives."""
    from scipy.special import stdtrit

    count = groups.shape[1]
    whole = groups.sum(axis=1)
    one = whole[:, None] - groups
    two = one[:, :, None] - groups[:, None]
    if count < 3 or (two[0] <= 0)[~np.eye(count, dtype=np.bool_)].any():
        return None
    found, without = float(_moved(whole)), _moved(one)
    pairs = _moved(np.where(np.eye(count, dtype=np.bool_)[..., None], one[:, :, None], two))
    np.fill_diagonal(pairs, 0.0)
    centre = count * found - (count - 1) * without.mean()
    centres = (count - 1) * without - (count - 2) * pairs.sum(axis=1) / (count - 1)
    half = np.sqrt((count - 1) ** 2 / count * centres.var(ddof=1)) * float(stdtrit(count - 2, (1 + level) / 2))
    return float(np.tanh(min(centre - half, found))), float(np.tanh(max(centre + half, found)))


def _moved(totals: Array) -> Array:
    """Pearson's correlations over systems (the last axis), on Fisher's scale."""
    x, y = totals[1] / totals[0], totals[2] / totals[0]
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    spread = np.sqrt(np.square(x).sum(axis=-1) * np.square(y).sum(axis=-1))
    r = np.divide((x * y).sum(axis=-1), spread, out=np.zeros(spread.shape), where=spread > 0)
    found: Array = np.arctanh(np.clip(r, -_NEARLY_ONE, _NEARLY_ONE))
    return found


def _of_ranks(value: float, drawn: Array, units: int, level: float) -> Ends | None:
    """The wider of percentiles and of Student's t around the value less the shrinkage that resamples show."""
    from scipy.special import stdtrit

    real = drawn[~np.isnan(drawn)]
    if len(real) < 2:
        return None
    moved, found = (np.arctanh(np.clip(one, -_NEARLY_ONE, _NEARLY_ONE)) for one in (real, value))
    half = _WIDER * float(stdtrit(max(1, units - 2), (1 + level) / 2)) * float(moved.std(ddof=1))
    low, high = percentiles(real, level)
    centres = float(found), float(2 * found - moved.mean())
    return min(low, float(np.tanh(min(centres) - half))), max(high, float(np.tanh(max(centres) + half)))
