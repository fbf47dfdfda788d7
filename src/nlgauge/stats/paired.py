"""Comparing two systems on the same contexts."""

from __future__ import annotations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.stats.bootstrap import bootstrap_mean

_EXACT_UP_TO = 16
_SIGNS_AT_ONCE = 8_000_000


def _differences(first: Array, second: Array) -> Array:
    if len(first) != len(second):
        raise DataError(f"{len(first)} values against {len(second)}; a paired test needs the same items on both sides")
    if len(first) < 2:
        raise DataError(f"{len(first)} pair; a paired test needs at least 2")
    return np.sort(np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64))


def paired_bootstrap(
    first: Array, second: Array, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 12345
) -> tuple[float, float]:
    """Percentile interval of the mean difference, second minus first."""
    return bootstrap_mean(_differences(first, second), confidence, resamples, seed)


def paired_permutation(first: Array, second: Array, *, resamples: int = 10_000, seed: int = 12345) -> float:
    """Two-sided p-value of the mean difference when the two systems' names are swapped at random, context by context.

    All swaps are tried for up to 16 contexts; otherwise a random sample, where the p-value counts the observed
    assignment as one of them and so is never 0.
    """
    differences = _differences(first, second)
    differences = differences[differences != 0]
    size = len(differences)
    if size == 0:
        return 1.0
    observed = abs(differences.sum()) * (1 - 1e-12)
    if size <= _EXACT_UP_TO:
        bits = (np.arange(1 << size)[:, None] >> np.arange(size)) & 1
        return float(np.mean(np.abs((1.0 - 2.0 * bits) @ differences) >= observed))
    rng = np.random.default_rng(seed)
    block = max(1, _SIGNS_AT_ONCE // size)
    extreme = 0
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        signs = rng.integers(0, 2, (rows, size), dtype=np.int8) * np.int8(2) - np.int8(1)
        extreme += int(np.count_nonzero(np.abs(signs @ differences) >= observed))
    return (extreme + 1) / (resamples + 1)


def holm(p_values: Array) -> Array:
    """Holm's step-down correction for several tests."""
    order = np.argsort(p_values)
    count = len(p_values)
    adjusted = np.maximum.accumulate(np.asarray(p_values)[order] * (count - np.arange(count)))
    result = np.empty(count)
    result[order] = np.minimum(1.0, adjusted)
    return result
