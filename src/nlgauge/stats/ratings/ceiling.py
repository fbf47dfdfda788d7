"""The noise ceiling: how far a metric can correlate with people, whose mean ratings have errors of their own.

A metric that knew what people would say on average, had they all been asked, correlates with the mean of few of them
as the square root of that mean's reliability. Ratings are tables of raters x items, NaN where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.correlation import Kind, weighted_correlation
from nlgauge.stats.ratings.agreement import jackknife_error, open_interval, parts_of
from nlgauge.stats.ratings.reliability import are_sorted

SPLITS = 50
KINDS: tuple[Kind, ...] = ("pearson", "spearman", "kendall")
_RANKS: tuple[Kind, ...] = ("spearman", "kendall")
_FEWEST = 3
_FEWEST_FOR_INTERVAL = 20


@dataclass(frozen=True)
class Ceiling:
    """The largest correlation that can be expected, and its interval; not numbers where ratings do not show it."""

    value: float
    interval: tuple[float, float]


def mean_reliability(ratings: Array, contexts: Array | None = None, *, crossed: bool) -> float:
    """The reliability of the items' mean ratings: 1 less the share of their variance that is the raters' noise.

    This is ICC(3,k) where raters and items are `crossed`, since what a rater adds to all items moves no correlation,
    and else ICC(1,k), with the mean of 1 / k where items have different numbers of ratings. With `contexts`, one label
    per item, variances are those inside of contexts. Not a number where no item has two ratings.
    """
    given = ~np.isnan(ratings)
    counts = given.sum(axis=0)
    labels = np.zeros(len(counts), dtype=np.int64) if contexts is None else np.unique(contexts, return_inverse=True)[1]
    sizes = np.bincount(labels)
    means = np.where(given, ratings, 0.0).sum(axis=0) / counts
    rest = np.where(given, ratings - means, 0.0)
    freedom = len(counts) - len(sizes)
    if crossed:
        rest = rest - np.stack([np.bincount(labels, weights=row) / sizes for row in rest])[:, labels]
        degrees = freedom * (len(ratings) - 1)
    else:
        degrees = int((counts - 1).sum())
    spread = float(np.square(means - (np.bincount(labels, weights=means) / sizes)[labels]).sum())
    if not (freedom > 0 and degrees > 0 and spread > 0):
        return np.nan
    noise = float(np.square(rest).sum()) / degrees * float((1 / counts).mean())
    return 1 - noise / (spread / freedom)


def noise_ceilings(
    ratings: Array,
    *,
    contexts: Array | None = None,
    units: Array | None = None,
    confidence: float = 0.95,
    seed: int = 12345,
) -> dict[Kind, Ceiling]:
    """The ceiling of each correlation with the items' mean ratings; none where no item has two ratings.

    Of Pearson's it is the root of `mean_reliability`. Of the others, means of two random halves of the raters (of each
    item's ratings, where raters differ from item to item) are correlated `SPLITS` times; the mean correlation, seen as
    that of normal values, is stepped up to all ratings by Spearman and Brown's formula. With `contexts`, Pearson's
    alone, inside of contexts. Intervals, from 20 items on, are jackknives over items, or over `units` where given.
    """
    rated, whole = (~np.isnan(ratings)).any(axis=0), ~np.isnan(ratings).any(axis=0)
    crossed = len(ratings) > 1 and 2 * int(whole.sum()) >= int(rated.sum()) and not are_sorted(ratings)
    kept = whole if crossed else rated
    if kept.sum() < _FEWEST:
        return {}
    labels = np.arange(int(kept.sum())) if units is None else np.asarray(units)[kept]
    table, order = _in_own_order(ratings[:, kept], np.unique(labels, return_inverse=True)[1], crossed=crossed)
    labels = np.arange(len(order)) if units is None else np.unique(labels[order], return_inverse=True)[1]
    inside = np.zeros(len(order)) if contexts is None else np.unique(contexts, return_inverse=True)[1][kept][order]
    value = mean_reliability(table, inside, crossed=crossed)
    if np.isnan(value):
        return {}
    parts = parts_of(int(labels.max()) + 1, seed)[labels]
    left = np.stack([parts != part for part in range(int(parts.max()) + 1)])
    without = np.array([mean_reliability(table[:, rows], inside[rows], crossed=crossed) for rows in left])
    found = {"pearson": (value, without)}
    if contexts is None:
        found |= _by_halves(table, left, crossed=crossed, seed=seed)
    enough = labels.max() + 1 >= _FEWEST_FOR_INTERVAL
    ceilings: dict[Kind, Ceiling] = {}
    for kind in (one for one in KINDS if one in found):
        value, without = found[kind]
        ends = open_interval(value, jackknife_error(without) if enough else [], confidence)
        at, low, high = _rooted(np.array([value, *ends]), kind).tolist()
        ceilings[kind] = Ceiling(at, (low, high))
    return ceilings


def _in_own_order(table: Array, labels: Array, *, crossed: bool) -> tuple[Array, Array]:
    """The table with raters (or each item's ratings) and items in an order of their own, and that of the items."""
    if crossed:
        table = table[np.lexsort(np.sort(table, axis=1).T[::-1])]
    else:
        table = np.sort(table, axis=0)
        table = table[~np.isnan(table).all(axis=1)]
    order = np.lexsort([labels, *np.nan_to_num(table, nan=np.inf)[::-1]])
    return table[:, order], order


def _as_normal(value: Array, kind: Kind) -> Array:
    """Pearson's correlation of normal values with this rank correlation."""
    found: Array = 2 * np.sin(np.pi / 6 * value) if kind == "spearman" else np.sin(np.pi / 2 * value)
    return found


def _rooted(reliability: Array, kind: Kind) -> Array:
    """The correlation that a reliability allows."""
    root: Array = np.sqrt(np.clip(reliability, 0, 1))
    if kind == "pearson":
        return root
    found: Array = 6 / np.pi * np.arcsin(root / 2) if kind == "spearman" else 2 / np.pi * np.arcsin(root)
    return found


def _by_halves(table: Array, left: Array, *, crossed: bool, seed: int) -> dict[str, tuple[float, Array]]:
    """The reliability behind rank correlations, of all items and with each part of them left out."""
    given = ~np.isnan(table)
    counts = given.sum(axis=0)
    split = counts > 1
    if split.sum() < _FEWEST:
        return {}
    halves = counts[split] // 2
    times = float((1 / halves).mean() / (1 / counts).mean())
    weights = np.concatenate([np.ones((1, len(counts))), left])[:, split].astype(np.float64)
    values, rng = table[:, split], np.random.default_rng(seed)
    sums = {kind: np.zeros(len(weights)) for kind in _RANKS}
    places = np.arange(len(halves))
    for _ in range(SPLITS):
        keys = np.where(given[:, split], rng.random((len(values), 1 if crossed else len(halves))), np.inf)
        total = np.cumsum(np.take_along_axis(values, np.argsort(keys, axis=0), axis=0), axis=0)
        first, both = total[halves - 1, places], total[2 * halves - 1, places]
        for kind in _RANKS:
            sums[kind] += weighted_correlation(first / halves, (both - first) / halves, weights, kind)
    found: dict[str, tuple[float, Array]] = {}
    for kind in _RANKS:
        half = _as_normal(sums[kind] / SPLITS, kind)
        stepped = times * half / np.maximum(1 + (times - 1) * half, 1e-9)
        found[kind] = float(stepped[0]), stepped[1:]
    return found
