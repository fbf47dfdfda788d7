"""Several tests as one family: Holm's correction, and the step-down max-T of Westfall & Young (1993).

Max-T compares every statistic with the largest that the same swaps give over the family, and so makes use of what tests
have in common: ten metrics that say nearly the same are nearly one test. Its smallest p-value does not grow with the
family.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.inference import Correction
from nlgauge.stats.permutation import EXACT_UP_TO, PERMUTATIONS, all_signs, random_signs, sign_tails

_ROUNDING = 1e-9
_CELLS_AT_ONCE = 8_000_000


def holm(p_values: Array) -> Array:
    """Holm's step-down correction for several tests."""
    order = np.argsort(p_values)
    count = len(p_values)
    adjusted = np.maximum.accumulate(np.asarray(p_values)[order] * (count - np.arange(count)))
    result = np.empty(count)
    result[order] = np.minimum(1.0, adjusted)
    return result


@dataclass(frozen=True)
class Family:
    """Corrected p-values of several tests, and for each the uncorrected p-value that would be significant alone in it.

    Of max-T also the statistic that is significant: a sum of units over the root of their sum of squares.
    """

    p: Array
    alpha: Array
    critical: float | None = None


def holm_family(p_values: Array, alpha: float) -> Family:
    """Holm's correction; the first step decides how small a single p-value has to be."""
    return Family(holm(p_values), np.full(len(p_values), alpha / max(1, len(p_values))))


def max_t(observed: Array, drawn: Iterable[Array], *, exact: bool = False) -> tuple[Array, Array]:
    """Step-down p-values of two-sided statistics, and the sorted maxima of rows in which nothing differs.

    A row has the statistics of one permutation, the same for the whole family. The observed permutation counts as one
    of them, or is among them when all are there (`exact`).
    """
    sizes = np.abs(observed)
    order = np.argsort(-sizes, kind="stable")
    reached, maxima = np.zeros(len(sizes)), []
    for block in drawn:
        falling = np.maximum.accumulate(np.abs(block[:, order])[:, ::-1], axis=1)[:, ::-1]
        reached += np.count_nonzero(falling >= sizes[order] * (1 - _ROUNDING), axis=0)
        maxima.append(falling[:, 0])
    largest = np.sort(np.concatenate(maxima))
    p = reached / len(largest) if exact else (reached + 1) / (len(largest) + 1)
    result = np.empty(len(sizes))
    result[order] = np.maximum.accumulate(p)
    return result, largest


def paired_max_t(
    differences: Array, alpha: float = 0.05, *, resamples: int = PERMUTATIONS, seed: int = 12345
) -> Family:
    """Max-T of mean differences (units x tests) when the signs of whole units are flipped at random.

    Statistics are scaled by the root of their sum of squares, which flips leave as it is. A unit that a test lacks has
    a difference of 0 there. All flips are tried for up to 16 units.
    """
    norms = np.sqrt(np.square(differences).sum(axis=0))
    scaled = differences / np.where(norms > 0, norms, 1.0)
    exact = len(scaled) <= EXACT_UP_TO
    signs = [all_signs(len(scaled))] if exact else random_signs(len(scaled), resamples, seed)
    rows = max(1, _CELLS_AT_ONCE // scaled.shape[1])
    drawn = (block[start : start + rows] @ scaled for block in signs for start in range(0, len(block), rows))
    p, maxima = max_t(scaled.sum(axis=0), drawn, exact=exact)
    critical = float(maxima[min(len(maxima) - 1, int(np.ceil((1 - alpha) * len(maxima))))])
    level = sign_tails(np.abs(differences).T, critical * norms)
    return Family(np.where(norms > 0, p, 1.0), np.minimum(level, alpha), critical)


def resampled_family(observed: Array, draws: Array, correction: Correction) -> Array:
    """Two-sided p-values of differences, whose errors are those of their resamples (tests x draws), as one family.

    A statistic is a difference over the standard deviation of its draws. Max-T compares it with the largest of the
    centred draws (Romano & Wolf 2005); the others with the normal distribution.
    """
    from scipy.special import ndtr

    centred = draws - draws.mean(axis=1, keepdims=True)
    spread = np.maximum(centred.std(axis=1), np.finfo(float).tiny)
    statistics = observed / spread
    if correction == "max-t":
        return max_t(statistics, [(centred / spread[:, None]).T])[0]
    p: Array = 2 * ndtr(-np.abs(statistics))
    return holm(p) if correction == "holm" else p
