"""How reliable ratings are: Fleiss' kappa and the six intraclass correlations (paper 4's toolkit has both).

Ratings are tables of raters x items, with NaN where a rater did not rate an item, as in `agreement.py`. Values are
never rounded, and an intraclass correlation always says which of the six it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError
from nlgauge.stats.correlation import resample_weights
from nlgauge.stats.inference import check_level
from nlgauge.stats.means import within
from nlgauge.stats.ratings.agreement import (
    agreement_interval,
    jackknife_error,
    open_interval,
    rating_table,
    without_parts,
)

Form = Literal["ICC(1,1)", "ICC(2,1)", "ICC(3,1)", "ICC(1,k)", "ICC(2,k)", "ICC(3,k)"]
FORMS: tuple[Form, ...] = ("ICC(1,1)", "ICC(2,1)", "ICC(3,1)", "ICC(1,k)", "ICC(2,k)", "ICC(3,k)")

_ROUNDING = 1e-20
_NO_RELIABILITY = 1e-9
_FEWEST_SORTED = 20


@dataclass(frozen=True)
class Kappa:
    """Fleiss' kappa over `items` that have `ratings` ratings each; `left_out` have another number of them."""

    value: float
    interval: tuple[float, float]
    ratings: int
    items: int
    left_out: int


@dataclass(frozen=True)
class IntraclassCorrelation:
    """One form of the intraclass correlation, and the F test of the hypothesis that it is 0.

    `raters` is the k of its name, `left_out` counts the items that could not be used.
    """

    form: Form
    value: float
    interval: tuple[float, float]
    f: float
    df1: int
    df2: int
    p: float
    raters: int
    items: int
    left_out: int


def fleiss_kappa(
    ratings: Array,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 12345,
    fixed_raters: bool = False,
) -> Kappa:
    """Fleiss' kappa (1971) of nominal ratings: 1 is full agreement, 0 what chance would give.

    It requires the same number of ratings for every item, not the same raters. Where numbers differ, the items with the
    most frequent number count (the larger of two that are as frequent) and the others are left out. The interval
    is that of `agreement_interval`: raters are a sample where every rater rated every item, else
    items alone are drawn.
    """
    check_level(confidence, resamples)
    chosen, left_out = _equally_rated(rating_table(ratings))
    values, places = np.unique(chosen, return_inverse=True)
    if len(values) == 1:
        raise DataError(
            f"no variation: every rating is {values[0]:g}; kappa compares agreement with that of chance and needs at "
            "least two different ratings"
        )
    items, each = chosen.shape
    counts = np.zeros((items, len(values)))
    np.add.at(counts, (np.arange(items)[:, None], places.reshape(items, each)), 1)
    counts = counts[np.lexsort(counts.T)]
    blocks = resample_weights(items, resamples, seed)
    drawn = np.concatenate([_kappas(counts, weights) for weights in blocks])
    found = float(_kappas(counts, np.ones((1, items)))[0])
    table = rating_table(ratings)
    parts = () if fixed_raters or np.isnan(table).any() else without_parts(table, seed)
    fewer = np.array([_kappa_or_nan(part) for part in parts])
    ends = within(agreement_interval(found, drawn, fewer, items, confidence), (-1 / (each - 1), 1.0))
    return Kappa(found, ends, each, items, left_out)


def _kappa_or_nan(ratings: Array) -> float:
    """Kappa of fewer raters; not a number where they share no item or do not vary."""
    try:
        chosen, _ = _equally_rated(ratings)
    except DataError:
        return np.nan
    values, places = np.unique(chosen, return_inverse=True)
    counts = np.zeros((len(chosen), len(values)))
    np.add.at(counts, (np.arange(len(chosen))[:, None], places.reshape(chosen.shape)), 1)
    return float(_kappas(counts, np.ones((1, len(chosen))))[0])


def intraclass_correlations(
    ratings: Array, *, confidence: float = 0.95, seed: int = 12345, fixed_raters: bool = False
) -> dict[Form, IntraclassCorrelation]:
    """All forms that the ratings allow, by Shrout & Fleiss (1979).

    - ICC(1,·): each item has any raters; its ratings have no order.
    - ICC(2,·): the same raters, drawn from a population, rate all items; absolute agreement (McGraw & Wong's A).
    - ICC(3,·): the same raters, and no others matter; consistency (C).
    - ICC(·,1) is the reliability of one rating, ICC(·,k) that of the mean of k.

    ICC(1,·) takes the items that `fleiss_kappa` takes. The others take the items that every rater has rated, and are
    missing from the result where these are fewer than two, as they are when each item has raters of its own.

    Intervals are jackknives over items on the scale of `open_interval`, and over raters for ICC(2,·) and, where every
    rater rated every item, ICC(1,·). Those of McGraw & Wong (1996) assume normal errors, and for ICC(1,·) that no two
    items have a rater in common; docs/statistics.md has the coverage of both.
    """
    if not 0 < confidence < 1:
        raise OptionError(f"a confidence level of {confidence:g}; expected a number between 0 and 1")
    table = rating_table(ratings)
    chosen, left_out = _equally_rated(table)
    if len(chosen) < 2:
        raise DataError(
            f"{len(chosen)} item with {chosen.shape[1]} ratings; expected at least 2 items with as many ratings each"
        )
    if np.ptp(chosen) == 0:
        raise DataError(
            f"no variation: every rating is {chosen[0, 0]:g}; an intraclass correlation compares items with raters and "
            "needs at least two different ratings"
        )
    crossed = not (fixed_raters or np.isnan(table).any())
    found = _forms("ICC(1,1)", "ICC(1,k)", chosen, left_out, crossed, confidence, seed)
    complete = table[:, ~np.isnan(table).any(axis=0)].T
    if len(complete) > 1 and complete.shape[1] > 1 and np.ptp(complete) > 0:
        missing = table.shape[1] - len(complete)
        found |= _forms("ICC(2,1)", "ICC(2,k)", complete, missing, not fixed_raters, confidence, seed)
        found |= _forms("ICC(3,1)", "ICC(3,k)", complete, missing, False, confidence, seed)
    return {form: found[form] for form in FORMS if form in found}


def are_sorted(ratings: Array) -> bool:
    """Whether the ratings of all items ascend from the first rater to the last, and differ in most of them.

    Released ratings are at times sorted within each item; a column is not a rater then, and nothing that compares
    raters (ICC(2,·), ICC(3,·), the correlation of a rater with the mean) is meaningful. Requires 20 items and 3 raters.
    """
    table = rating_table(ratings)
    complete = table[:, ~np.isnan(table).any(axis=0)]
    if len(complete) < 3 or complete.shape[1] < _FEWEST_SORTED:
        return False
    steps = np.diff(complete, axis=0)
    return bool((steps >= 0).all() and (steps > 0).any(axis=0).mean() > 0.5)


def _equally_rated(table: Array) -> tuple[Array, int]:
    """Items x ratings, for the items with the most frequent number of ratings, and how many items have another."""
    given = ~np.isnan(table)
    sizes = given.sum(axis=0)
    numbers, frequencies = np.unique(sizes[sizes > 1], return_counts=True)
    if not len(numbers):
        raise DataError(
            f"fewer than two raters on every item, of {table.shape[1]} items and {len(table)} raters; "
            "expected at least one item that two raters have rated"
        )
    each = int(numbers[frequencies == frequencies.max()].max())
    chosen = sizes == each
    values = table.T[chosen]
    return values[~np.isnan(values)].reshape(-1, each), int((~chosen).sum())


def _kappas(counts: Array, weights: Array) -> Array:
    """Kappa of each row of weights, how often each item counts; not a number where there is no variation."""
    each = counts[0].sum()
    size = weights.sum(axis=1)
    agreed = weights @ ((counts * (counts - 1)).sum(axis=1) / (each * (each - 1))) / size
    chance = ((weights @ counts / (size[:, None] * each)) ** 2).sum(axis=1)
    varied = np.count_nonzero(weights @ counts, axis=1) > 1
    kappas: Array = np.divide(agreed - chance, 1 - chance, out=np.full(len(weights), np.nan), where=varied)
    return kappas


@dataclass(frozen=True)
class _Squares:
    """Mean squares of a table of items x raters: between items, within items, between raters, of what remains."""

    items: int
    raters: int
    between: np.float64
    within: np.float64
    raters_between: np.float64
    error: np.float64

    @classmethod
    def of(cls, values: Array) -> _Squares:
        n, k = values.shape
        centred = values - values.mean()
        rows, columns = centred.mean(axis=1, keepdims=True), centred.mean(axis=0, keepdims=True)
        negligible = _ROUNDING * (centred**2).sum()
        sums = [k * rows**2, (centred - rows) ** 2, n * columns**2, (centred - rows - columns) ** 2]
        exact = [np.float64(0) if part.sum() <= negligible else part.sum() for part in sums]
        degrees = (n - 1, n * (k - 1), k - 1, (n - 1) * (k - 1))
        return cls(n, k, *(part / max(1, degree) for part, degree in zip(exact, degrees, strict=True)))

    def noise(self, form: Form) -> np.float64:
        """The mean square that a form compares with that between items."""
        return self.within if form == "ICC(1,1)" else self.error

    def single(self, form: Form) -> float:
        """The form of one rating; not a number without variation."""
        noise = self.noise(form)
        of_raters = self.raters * (self.raters_between - noise) / self.items if form == "ICC(2,1)" else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            return float((self.between - noise) / (self.between + (self.raters - 1) * noise + of_raters))


def _forms(
    one: Form, mean: Form, values: Array, left_out: int, raters_too: bool, confidence: float, seed: int
) -> dict[Form, IntraclassCorrelation]:
    """A form of one rating and that of the mean of k, of items x raters; `raters_too`: raters have errors, too.

    Errors of items alone are those of the form for k ratings, which 1 - 1 / F is: log F has the same error everywhere.
    """
    from scipy.stats import f as f_distribution

    values = values[:, np.lexsort(np.sort(values, axis=0)[::-1])]
    squares = _Squares.of(values)
    n, k, value = squares.items, squares.raters, squares.single(one)
    size = 1 if raters_too else k
    tables = [without_parts(values, seed)] if n > 2 else []
    if raters_too and k > 2:
        tables.append(part.T for part in without_parts(values.T, seed))
    fewer = [_stepped(np.array([_Squares.of(part).single(one) for part in parts]), size) for parts in tables]
    errors = [error for found in fewer for error in jackknife_error(found)]
    ends: Array = np.array(open_interval(float(_stepped(np.array(value), size)), errors, confidence), dtype=np.float64)
    singles = np.array([value, *np.maximum(ends / (size - (size - 1) * ends), -1 / (k - 1))])
    degrees = (n - 1, n * (k - 1) if one == "ICC(1,1)" else (n - 1) * (k - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = squares.between / squares.noise(one)
    p = float(f_distribution.sf(ratio, *degrees))
    return {
        form: IntraclassCorrelation(form, at, (low, high), float(ratio), *degrees, p, k, n, left_out)
        for form, (at, low, high) in ((one, singles.tolist()), (mean, _stepped(singles, k).tolist()))
    }


def _stepped(single: Array, size: int) -> Array:
    """The reliability of the mean of so many ratings, by Spearman and Brown's formula."""
    found: Array = size * single / np.maximum(1 + (size - 1) * single, _NO_RELIABILITY)
    return found
