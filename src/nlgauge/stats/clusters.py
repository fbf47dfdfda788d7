"""Which of many metrics correlate best with the truth, and which of them do not differ significantly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import get_args

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.stats.correlation import Kind, correlation, group_numbers
from nlgauge.stats.dependent import draw_swaps, on_one_scale, swapped
from nlgauge.stats.families import holm, max_t
from nlgauge.stats.inference import Correction


@dataclass(frozen=True)
class MetricComparison:
    """Metrics, best first, with the p-values of all pairs and clusters of those that do not differ.

    `p` has one row and one column per name, in the order of `names`, and 1 on its diagonal. `clusters` has one number
    per name; 1 is the best cluster.
    """

    names: list[str]
    correlations: list[float]
    p: Array
    clusters: list[int]
    kind: Kind
    alpha: float
    correct: Correction

    def ties(self, name: str) -> list[str]:
        """The other metrics that do not differ significantly from this one, best first."""
        if name not in self.names:
            raise UnknownName.among("metric", name, self.names)
        own = self.names.index(name)
        return [other for i, other in enumerate(self.names) if i != own and not self.p[own, i] < self.alpha]


def compare_metrics(
    values: Mapping[str, Array],
    truth: Array,
    *,
    kind: Kind = "spearman",
    groups: Array | None = None,
    permutations: int = 1000,
    seed: int = 12345,
    alpha: float = 0.05,
    correct: Correction = "max-t",
) -> MetricComparison:
    """Compare every two metrics by PERM-BOTH (Deutsch, Dror & Roth 2021), two-sided, and cluster them.

    Metrics are ranked by their correlation as it is: flip the sign of a metric for which lower is better. A pair's
    p-value is that of `permute_both(better, worse, truth)`; all pairs share their swaps, so that it does not depend on
    the order of items. All pairs are one family: by default its p-values are corrected by max-T, whose statistics are
    differences in standard deviations of what the swaps give. With Holm's correction no p-value is below the number of
    pairs / (permutations + 1). With `groups`, one label per item, whole groups are swapped.
    """
    _check_options(kind, permutations, alpha, correct)
    metrics, truth = _checked(values, truth)
    found = {name: _correlation(row, truth, kind, name) for name, row in metrics.items()}
    scaled = {name: on_one_scale(row, kind) for name, row in metrics.items()}
    names = sorted(found, key=lambda name: (-found[name], name))
    pairs = list(combinations(range(len(names)), 2))
    drawn: list[Array] = []
    numbers = None if groups is None else group_numbers(groups, len(truth))
    for swaps in draw_swaps(len(truth) if numbers is None else int(numbers.max()) + 1, permutations, seed):
        block = [swapped(scaled[names[i]], scaled[names[j]], truth, kind, swaps, numbers) for i, j in pairs]
        drawn.append(np.stack(block, axis=1))
    differences = np.array([found[names[i]] - found[names[j]] for i, j in pairs])
    pair_p = _corrected(differences, np.concatenate(drawn), correct)
    p = np.ones((len(names), len(names)))
    for (better, worse), value in zip(pairs, pair_p, strict=True):
        p[better, worse] = p[worse, better] = value
    return MetricComparison(names, [found[name] for name in names], p, cluster(p, alpha), kind, alpha, correct)


def _corrected(differences: Array, drawn: Array, correct: Correction) -> Array:
    """p-values of the differences of pairs, from those that each permutation gives (permutations x pairs)."""
    if correct == "max-t":
        spread = np.sqrt(np.nanmean(np.square(drawn), axis=0))
        spread = np.where(spread > 0, spread, 1.0)
        return max_t(differences / spread, [np.nan_to_num(drawn / spread)])[0]
    reached = np.count_nonzero(np.abs(drawn) >= np.abs(differences) - 1e-12, axis=0)
    p: Array = (reached + 1) / (len(drawn) + 1)
    return holm(p) if correct == "holm" else p


def cluster(p: Array, alpha: float) -> list[int]:
    """Best first, a metric opens a new cluster when it differs from some member of the current one."""
    clusters: list[int] = []
    number, start = 1, 0
    for own in range(len(p)):
        if (p[own, start:own] < alpha).any():
            number, start = number + 1, own
        clusters.append(number)
    return clusters


def _correlation(row: Array, truth: Array, kind: Kind, name: str) -> float:
    """Computed on sorted items, so that rounding does not depend on their input order."""
    order = np.lexsort((truth, row))
    found = correlation(row[order], truth[order], kind)
    if np.isnan(found):
        raise DataError(f"metric '{name}' is constant and correlates with nothing; leave it out of the comparison")
    return found


def _checked(values: Mapping[str, Array], truth: Array) -> tuple[dict[str, Array], Array]:
    if len(values) < 2:
        raise DataError(f"{len(values)} metric; expected at least 2 to compare")
    metrics = {name: np.asarray(row, dtype=np.float64) for name, row in values.items()}
    truth = np.asarray(truth, dtype=np.float64)
    if truth.ndim != 1 or len(truth) < 3:
        raise DataError(f"a truth of shape {truth.shape}; expected a row of at least 3 numbers, one per item")
    for title, row in {"the truth": truth, **{f"metric '{name}'": row for name, row in metrics.items()}}.items():
        if row.shape != truth.shape:
            raise DataError(f"{title} has values of shape {row.shape}; expected {truth.shape}, one per item")
        if not np.isfinite(row).all():
            raise DataError(f"{title} has values that are not finite; expected a number for every item")
    if truth.min() == truth.max():
        raise DataError("a truth that is constant; expected one that varies between items")
    return metrics, truth


def _check_options(kind: str, permutations: int, alpha: float, correct: str) -> None:
    if kind not in ("pearson", "spearman", "kendall"):
        raise UnknownName.among("correlation", kind, ("pearson", "spearman", "kendall"))
    if correct not in get_args(Correction):
        raise UnknownName.among("correction", correct, get_args(Correction))
    if not 0 < alpha < 1:
        raise OptionError(f"an alpha of {alpha:g}; expected a number between 0 and 1, such as 0.05")
    if permutations < 100:
        raise OptionError(f"{permutations} permutations; expected at least 100")
