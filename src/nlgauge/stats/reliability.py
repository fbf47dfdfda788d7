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
from nlgauge.stats.agreement import agreement_interval, rating_table, without_raters
from nlgauge.stats.correlation import resample_weights
from nlgauge.stats.inference import check_level

Form = Literal["ICC(1,1)", "ICC(2,1)", "ICC(3,1)", "ICC(1,k)", "ICC(2,k)", "ICC(3,k)"]
FORMS: tuple[Form, ...] = ("ICC(1,1)", "ICC(2,1)", "ICC(3,1)", "ICC(1,k)", "ICC(2,k)", "ICC(3,k)")

_ROUNDING = 1e-20
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
    parts = () if fixed_raters or np.isnan(table).any() else without_raters(table, seed)
    fewer = np.array([_kappa_or_nan(part) for part in parts])
    return Kappa(found, agreement_interval(found, drawn, fewer, items, confidence), each, items, left_out)


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


def intraclass_correlations(ratings: Array, *, confidence: float = 0.95) -> dict[Form, IntraclassCorrelation]:
    """All forms that the ratings allow, by Shrout & Fleiss (1979), with the intervals of McGraw & Wong (1996).

    - ICC(1,·): each item has any raters; its ratings have no order.
    - ICC(2,·): the same raters, drawn from a population, rate all items; absolute agreement (McGraw & Wong's A).
    - ICC(3,·): the same raters, and no others matter; consistency (C).
    - ICC(·,1) is the reliability of one rating, ICC(·,k) that of the mean of k.

    ICC(1,·) takes the items that `fleiss_kappa` takes. The others take the items that every rater has rated, and are
    missing from the result where these are fewer than two, as they are when each item has raters of its own.
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
    found = _one_way(_Squares.of(chosen), left_out, confidence)
    complete = table[:, ~np.isnan(table).any(axis=0)].T
    if len(complete) > 1 and complete.shape[1] > 1 and np.ptp(complete) > 0:
        found |= _two_way(_Squares.of(complete), table.shape[1] - len(complete), confidence)
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
        return cls(n, k, *(part / degree for part, degree in zip(exact, degrees, strict=True)))


def _one_way(squares: _Squares, left_out: int, confidence: float) -> dict[Form, IntraclassCorrelation]:
    n, k, between, within = squares.items, squares.raters, squares.between, squares.within
    return _by_f_ratio(("ICC(1,1)", "ICC(1,k)"), between, within, (n - 1, n * (k - 1)), k, n, left_out, confidence)


def _two_way(squares: _Squares, left_out: int, confidence: float) -> dict[Form, IntraclassCorrelation]:
    from scipy.stats import f as f_distribution

    n, k = squares.items, squares.raters
    between, judges, error = squares.between, squares.raters_between, squares.error
    degrees = (n - 1, (n - 1) * (k - 1))
    found = _by_f_ratio(("ICC(3,1)", "ICC(3,k)"), between, error, degrees, k, n, left_out, confidence)
    test = found["ICC(3,1)"]
    with np.errstate(divide="ignore", invalid="ignore"):
        single = (between - error) / (between + (k - 1) * error + k * (judges - error) / n)
        mean = (between - error) / (between + (judges - error) / n)
        others = (n * (1 + (k - 1) * single) - k * single) * error
        freedom = degrees[1] * (k * single * judges + others) ** 2
        freedom /= degrees[0] * (k * single * judges) ** 2 + others**2
        freedom = freedom if judges or error else np.float64(degrees[1])
        upper_tail = (1 + confidence) / 2
        above = f_distribution.ppf(upper_tail, n - 1, freedom)
        below = f_distribution.ppf(upper_tail, freedom, n - 1)
        rest = k * judges + (k * n - k - n) * error
        low = n * (between - above * error) / (above * rest + n * between)
        high = n * (below * between - error) / (rest + n * below * between)
        ends = np.array([low, high])
        of_mean = ends * k / (1 + ends * (k - 1))
    rows: list[tuple[Form, np.float64, Array]] = [("ICC(2,1)", single, ends), ("ICC(2,k)", mean, of_mean)]
    for form, value, (low, high) in rows:
        found[form] = IntraclassCorrelation(
            form, float(value), (float(low), float(high)), test.f, test.df1, test.df2, test.p, k, n, left_out
        )
    return found


def _by_f_ratio(
    forms: tuple[Form, Form],
    between: np.float64,
    error: np.float64,
    degrees: tuple[int, int],
    k: int,
    n: int,
    left_out: int,
    confidence: float,
) -> dict[Form, IntraclassCorrelation]:
    """The forms that follow from a ratio F of mean squares: (F - 1) / (F + k - 1), and 1 - 1 / F for the mean of k."""
    from scipy.stats import f as f_distribution

    upper_tail = (1 + confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = between / error
        low = ratio / f_distribution.ppf(upper_tail, *degrees)
        high = ratio * f_distribution.ppf(upper_tail, degrees[1], degrees[0])
        ratios = np.array([ratio, low, high])
        singles = np.where(np.isinf(ratios), 1.0, (ratios - 1) / (ratios + k - 1))
        means = 1 - 1 / ratios
    p = float(f_distribution.sf(ratio, *degrees))
    return {
        form: IntraclassCorrelation(
            form, float(value), (float(least), float(most)), float(ratio), *degrees, p, k, n, left_out
        )
        for form, (value, least, most) in zip(forms, (singles, means), strict=True)
    }
