"""Do raters agree? Krippendorff's alpha with an interval, and how well each rater follows the others.

Ratings are tables of raters x items, with NaN where a rater did not rate an item.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.stats.correlation import correlation, resample_weights
from nlgauge.stats.inference import check_level
from nlgauge.stats.means import within

Level = Literal["nominal", "ordinal", "interval", "ratio"]

_CELLS_AT_ONCE = 10_000_000
_FEWEST_ITEMS = 3
_NEARLY_NONE = 1e-9
_MOST_PARTS = 30


def krippendorff_alpha(ratings: Array, level: Level = "interval") -> float:
    """Krippendorff's alpha (2011): 1 is full agreement, 0 what chance would give.

    Computed by the `krippendorff` package, which holds items x values x values at once; where that takes too
    much memory, as with many ratings on a slider, by the sums that `alpha_interval` uses.
    """
    import krippendorff

    ratings = _pairable(ratings, level)
    values = np.unique(ratings[~np.isnan(ratings)])
    if ratings.shape[1] * len(values) * max(len(values), len(ratings)) <= _CELLS_AT_ONCE:
        return float(krippendorff.alpha(reliability_data=ratings, level_of_measurement=level))
    return float(_weighted_alpha(*_counted(ratings), np.ones((1, ratings.shape[1])), level)[0])


def alpha_interval(
    ratings: Array,
    level: Level = "interval",
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 12345,
    fixed_raters: bool = False,
) -> tuple[float, float]:
    """The interval of alpha, among items that two raters or more have rated (`agreement_interval`).

    Items are drawn with replacement, and raters are left out one by one; with `fixed_raters`, no other raters matter.
    Ratings are sorted first, so that neither the order of items nor that of raters matters.
    """
    check_level(confidence, resamples)
    ratings = _pairable(ratings, level)
    fewer = [] if fixed_raters else [_alpha_or_nan(part, level) for part in without_parts(ratings, seed)]
    ratings = np.sort(ratings, axis=0)
    ratings = ratings[:, np.lexsort(ratings[::-1])]
    values, counts = _counted(ratings)
    blocks = resample_weights(ratings.shape[1], resamples, seed)
    drawn = np.concatenate([_weighted_alpha(values, counts, weights, level) for weights in blocks])
    alpha = float(_weighted_alpha(values, counts, np.ones((1, ratings.shape[1])), level)[0])
    return within(agreement_interval(alpha, drawn, np.array(fewer), ratings.shape[1], confidence), (-1.0, 1.0))


def agreement_interval(
    value: float, by_items: Array, without: Array, items: int, confidence: float
) -> tuple[float, float]:
    """The interval of `open_interval` with errors of items and of raters.

    `by_items` are values in resamples of items, `without` those with each part of the raters left out. Percentiles over
    items cover too seldom where raters are a sample; docs/statistics.md has the coverage of this.
    """
    drawn = _opened(by_items[~np.isnan(by_items)])
    if len(drawn) < 2:
        return np.nan, np.nan
    of_items = float(drawn.var(ddof=1)) * items / max(1, items - 1)
    return open_interval(value, [(of_items, max(1, items - 1)), *jackknife_error(without)], confidence)


def jackknife_error(without: Array) -> list[tuple[float, int]]:
    """The variance of an agreement on the open scale, and its degrees of freedom; none from fewer than two values.

    `without` are the values with each part left out; those that could not be computed do not count.
    """
    fewer = np.sort(_opened(without[~np.isnan(without)]))
    parts = len(fewer)
    return [((parts - 1) / parts * float(np.square(fewer - fewer.mean()).sum()), parts - 1)] if parts > 1 else []


def open_interval(value: float, errors: Sequence[tuple[float, int]], confidence: float) -> tuple[float, float]:
    """Student's t on the scale -log(1 - agreement), which has no ceiling.

    `errors` are independent variances on that scale with their degrees of freedom, joined by Satterthwaite's formula.
    """
    from scipy.special import stdtrit

    if not errors or np.isnan(value):
        return np.nan, np.nan
    variance = sum(found for found, _ in errors)
    if variance < _NEARLY_NONE**2:
        return value, value
    freedom = max(1.0, variance**2 / sum(found**2 / degrees for found, degrees in errors))
    centre = float(_opened(np.array(value)))
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * variance**0.5
    return 1 - float(np.exp(-(centre - half))), 1 - float(np.exp(-(centre + half)))


def _opened(agreement: Array) -> Array:
    found: Array = -np.log(np.maximum(1 - agreement, _NEARLY_NONE))
    return found


def without_parts(table: Array, seed: int) -> Iterator[Array]:
    """The table without each row, or without each of 15 to 30 parts of many rows, which are as equal as can be."""
    filled = np.nan_to_num(table, nan=np.inf)
    order = np.lexsort(np.concatenate([np.sort(filled, axis=1), filled], axis=1).T[::-1])
    parts = parts_of(len(table), seed)
    for part in range(int(parts.max()) + 1):
        yield table[order][parts != part]


def parts_of(count: int, seed: int) -> Array:
    """The part of each of so many units: each by itself, or of many 15 to 30 parts, as equal as can be."""
    if count <= _MOST_PARTS:
        return np.arange(count)
    parts = np.arange(count) % (count // -(-count // _MOST_PARTS))
    return np.random.default_rng(seed).permutation(parts)


def _alpha_or_nan(ratings: Array, level: Level) -> float:
    try:
        pairable = _pairable(ratings, level)
    except DataError:
        return np.nan
    return float(_weighted_alpha(*_counted(pairable), np.ones((1, pairable.shape[1])), level)[0])


def rater_correlations(ratings: Array, *, assignments: Array | None = None, leave_one_out: bool = False) -> Array:
    """Pearson's correlation of each rater with the mean rating, over items that another rater has rated, too.

    Liu et al. (2022, on EAD) drop workers who correlate below 0.65 with a mean that includes them; `leave_one_out`
    takes the mean of the others. NaN for raters who cannot be judged: fewer than 3 such items, or one side constant.

    `assignments` has the number of the assignment of every rating, where numbers can be compared within one assignment
    only: the correlation is then the mean of those of `within_assignments`, each counted by its items.
    """
    if assignments is not None:
        return within_assignments(ratings, assignments, leave_one_out=leave_one_out).of_raters()
    ratings = rating_table(ratings)
    given = ~np.isnan(ratings)
    count, total = given.sum(axis=0), np.where(given, ratings, 0).sum(axis=0)
    found = np.full(len(ratings), np.nan)
    for rater, row in enumerate(ratings):
        common = given[rater] & (count > 1)
        if common.sum() >= _FEWEST_ITEMS:
            found[rater] = correlation(row[common], _followed(row, total, count, common, leave_one_out), "pearson")
    return found


@dataclass(frozen=True)
class WithinAssignments:
    """Correlations of raters with the mean within each assignment, raters x assignments, and the items behind each."""

    correlations: Array
    items: Array

    def of_raters(self) -> Array:
        """The mean over each rater's assignments, counted by items; NaN where no assignment can be judged."""
        known = ~np.isnan(self.correlations)
        weights = np.where(known, self.items, 0.0)
        sums = np.where(known, self.correlations, 0.0) * weights
        totals = weights.sum(axis=1)
        mean: Array = np.divide(sums.sum(axis=1), totals, out=np.full(len(totals), np.nan), where=totals > 0)
        return mean


def within_assignments(ratings: Array, assignments: Array, *, leave_one_out: bool = False) -> WithinAssignments:
    """How each rater follows the mean rating within each assignment (paper 2, section 3.2.4).

    `assignments` has the shape of the ratings, numbers from 0 on, and the same number for all raters of a set of items
    or one for each of them. Offset and range of a rater's numbers say nothing there, so that every rater's ratings in
    an assignment are mapped to one range before the mean is taken. Equal ratings throughout an assignment follow
    nothing: 0. NaN with fewer than 3 items that another rater has rated, too, or where the mean is constant.
    """
    ratings = rescale(ratings, assignments=assignments)
    given = ~np.isnan(ratings)
    count, total = given.sum(axis=0), np.where(given, ratings, 0).sum(axis=0)
    shape = (len(ratings), int(assignments.max(initial=-1)) + 1)
    found, items = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    for rater, row in enumerate(ratings):
        common = given[rater] & (count > 1)
        for one in np.unique(assignments[rater][common]):
            inside = common & (assignments[rater] == one)
            items[rater, one] = inside.sum()
            if items[rater, one] >= _FEWEST_ITEMS:
                mean = _followed(row, total, count, inside, leave_one_out)
                is_flat = np.ptp(row[inside]) == 0 and np.ptp(mean) > _NEARLY_NONE
                found[rater, one] = 0.0 if is_flat else correlation(row[inside], mean, "pearson")
    return WithinAssignments(found, items)


def _followed(row: Array, total: Array, count: Array, chosen: Array, leave_one_out: bool) -> Array:
    """The mean ratings of the chosen items, or those of the other raters."""
    mean: Array = total[chosen] / count[chosen]
    return (total[chosen] - row[chosen]) / (count[chosen] - 1) if leave_one_out else mean


def rescale(ratings: Array, *, low: float = 0.0, high: float = 10.0, assignments: Array | None = None) -> Array:
    """Each rater's ratings, scaled linearly so that their minimum is `low` and their maximum `high`.

    Ratings of a rater who gave all items the same rating become the middle of the scale. With `assignments`, as in
    `within_assignments`, the ratings in each assignment are scaled on their own.
    """
    if not low < high:
        raise OptionError(f"a scale from {low:g} to {high:g}; expected the low end to be below the high end")
    ratings = rating_table(ratings)
    given = ~np.isnan(ratings)
    rows = np.broadcast_to(np.arange(len(ratings))[:, None], ratings.shape)
    parts = rows if assignments is None else rows * (int(assignments.max(initial=0)) + 1) + assignments
    _, part = np.unique(parts[given], return_inverse=True)
    values, count = ratings[given], int(part.max(initial=-1)) + 1
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, part, values)
    np.maximum.at(most, part, values)
    span = (most - least)[part]
    share = np.divide(values - least[part], span, out=np.full(len(values), 0.5), where=span > 0)
    scaled = np.full(ratings.shape, np.nan)
    scaled[given] = low + (high - low) * share
    return scaled


def _counted(ratings: Array) -> tuple[Array, Any]:
    """The different ratings, and how often each was given to each item: a sparse matrix of items x ratings."""
    from scipy.sparse import csr_array

    rater, item = np.nonzero(~np.isnan(ratings))
    values, place = np.unique(ratings[rater, item], return_inverse=True)
    return values, csr_array((np.ones(len(item)), (item, place)), shape=(ratings.shape[1], len(values)))


def _weighted_alpha(values: Array, counts: Any, weights: Array, level: Level) -> Array:
    """Alpha of each row of weights, how often each item counts; not a number where there is no variation.

    Alpha is 1 - (n - 1) x observed / expected, where n ratings differ by `observed` within items and by `expected`
    overall. Ordinal differences are those of mid-ranks, squared, and so depend on what was drawn.
    """
    raters = counts.sum(axis=1)
    shares = weights / (raters - 1)
    totals = weights @ counts
    size = totals.sum(axis=1)
    if level in ("nominal", "ratio"):
        distances = _distances(values, level)
        observed = shares @ (counts * (counts @ distances)).sum(axis=1)
        expected = ((totals @ distances) * totals).sum(axis=1)
    else:
        middles = np.cumsum(totals, axis=1) - totals / 2 if level == "ordinal" else values[None] - values.mean()
        within = raters * (middles**2 @ counts.T) - (middles @ counts.T) ** 2
        observed = 2 * (shares * within).sum(axis=1)
        expected = 2 * (size * (totals * middles**2).sum(axis=1) - (totals * middles).sum(axis=1) ** 2)
    varied = np.count_nonzero(totals, axis=1) > 1
    ratio: Array = np.divide((size - 1) * observed, expected, out=np.full(len(weights), np.nan), where=varied)
    return 1 - ratio


def _distances(values: Array, level: Level) -> Array:
    one, other = values[:, None], values[None]
    if level == "nominal":
        differ: Array = (one != other).astype(np.float64)
        return differ
    total = one + other
    share: Array = np.divide(one - other, total, out=np.zeros(total.shape), where=total > 0)
    return share * share


def rating_table(ratings: Array) -> Array:
    """The ratings as a table of raters x items; raises an error if there are none or if one is infinite."""
    ratings = np.asarray(ratings, dtype=np.float64)
    if ratings.ndim != 2:
        raise DataError(
            f"ratings of shape {ratings.shape}; expected a table of raters x items, NaN where one is missing"
        )
    if np.isinf(ratings).any():
        raise DataError("a rating that is infinite; expected finite numbers, or NaN where one is missing")
    return ratings


def _pairable(ratings: Array, level: Level) -> Array:
    """The items that two raters or more have rated; the others say nothing about agreement."""
    if level not in ("nominal", "ordinal", "interval", "ratio"):
        raise UnknownName.among("level of measurement", level, ("nominal", "ordinal", "interval", "ratio"))
    ratings = rating_table(ratings)
    if level == "ratio" and (ratings < 0).any():
        raise DataError(f"a rating of {np.nanmin(ratings):g} on a ratio scale; expected 0 or more, or level 'interval'")
    paired = ratings[:, (~np.isnan(ratings)).sum(axis=0) > 1]
    if not paired.size:
        raise DataError(
            f"fewer than two raters on every item, of {ratings.shape[1]} items and {len(ratings)} raters; "
            "expected at least one item that two raters have rated"
        )
    if np.nanmin(paired) == np.nanmax(paired):
        raise DataError(
            f"no variation: every rating is {np.nanmin(paired):g}; alpha compares disagreement with that of chance and "
            "needs at least two different ratings"
        )
    return paired
