"""Cells of `docs/statistics.md` about ratings, whose raters are a sample as items are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.correlation import Kind
from nlgauge.stats.ratings.agreement import alpha_interval
from nlgauge.stats.ratings.ceiling import KINDS, noise_ceilings
from nlgauge.stats.ratings.reliability import Form, fleiss_kappa, intraclass_correlations
from papers.coverage import Cell, Generator, Once, covered, share_covered

TITLES = {
    "alpha": "Agreement: alpha",
    "kappa": "Agreement: kappa",
    "icc": "Agreement: intraclass correlations",
    "ceilings": "Noise ceilings",
}
TEXTS = {
    "alpha": "Coverage (%) of 95 % intervals of Krippendorff's alpha; items, raters and the rest have variances 1, .3 "
    "and .7. Columns: number of items.",
    "kappa": "Coverage (%) of 95 % intervals of Fleiss' kappa of the same ratings in three categories. Columns: number "
    "of items.",
    "icc": "Coverage (%) of 95 % intervals of intraclass correlations of the same ratings as answers from 1 to 5, most "
    "of them 4 and 5. Columns: number of items.",
    "ceilings": "Coverage (%) of 95 % intervals of the correlation that the best metric can reach with mean ratings. "
    "Columns: number of items.",
}
SIZES = (6, 10, 20, 45)
FORMS: tuple[Form, ...] = ("ICC(1,1)", "ICC(2,1)", "ICC(2,k)", "ICC(3,1)")
_MANY = 2000
_FEWEST_FOR_CEILINGS = 20


def cells(times: int) -> Iterator[Cell]:
    """All cells of these tables."""
    for raters in (3, 5):
        for items in SIZES:
            row, column, limits = f"{raters} raters", f"{items}", covered(items, more=True)
            yield Cell("alpha", row, column, limits, covers_alpha(items, raters), times)
            yield Cell("kappa", row, column, limits, covers_kappa(items, raters), times // 2)
            for form in FORMS:
                yield Cell("icc", f"{form}, {row}", column, limits, covers_icc(form, items, raters), times)
            for kind in KINDS if items >= _FEWEST_FOR_CEILINGS else ():
                yield Cell(
                    "ceilings", f"{kind}, {row}", column, limits, covers_ceiling(kind, items, raters), times // 2
                )


def rated(rng: Generator, items: int, raters: int) -> Array:
    """Ratings (raters x items): items, raters and the rest have variances 1, .3 and .7."""
    of_raters = 0.3**0.5 * rng.normal(size=(raters, 1))
    made: Array = rng.normal(size=items) + of_raters + 0.7**0.5 * rng.normal(size=(raters, items))
    return made


def covers_alpha(items: int, raters: int) -> Once:
    """Whether alpha's interval covers."""
    return lambda rng, seed: share_covered(alpha_interval(rated(rng, items, raters), resamples=200, seed=seed), 0.5)


def _categories(rng: Generator, items: int, raters: int) -> Array:
    found = np.digitize(rated(rng, items, raters), [-0.5, 1.0]).astype(np.float64)
    return found if found.min() < found.max() else _categories(rng, items, raters)


def _answers(rng: Generator, items: int, raters: int) -> Array:
    found: Array = np.clip(np.round(4.2 + rated(rng, items, raters)), 1, 5)
    return found if found.min() < found.max() else _answers(rng, items, raters)


@lru_cache
def _true_kappa() -> float:
    return fleiss_kappa(_categories(np.random.default_rng(0), _MANY, _MANY), resamples=100, fixed_raters=True).value


def covers_kappa(items: int, raters: int) -> Once:
    """Whether kappa's interval covers."""

    def once(rng: Generator, seed: int) -> float:
        found = fleiss_kappa(_categories(rng, items, raters), resamples=200, seed=seed)
        return share_covered(found.interval, _true_kappa())

    return once


@lru_cache
def _true_icc() -> dict[Form, float]:
    found = intraclass_correlations(_answers(np.random.default_rng(0), _MANY, _MANY))
    return {form: one.value for form, one in found.items()}


def covers_icc(form: Form, items: int, raters: int) -> Once:
    """Whether the interval of an intraclass correlation covers."""

    def once(rng: Generator, _: int) -> float:
        known = _true_icc()
        single = known["ICC(2,1)"]
        truth = raters * single / (1 + (raters - 1) * single) if form == "ICC(2,k)" else known[form]
        return share_covered(intraclass_correlations(_answers(rng, items, raters))[form].interval, truth)

    return once


def covers_ceiling(kind: Kind, items: int, raters: int) -> Once:
    """Whether the interval of a noise ceiling covers; what raters share over all items is no noise."""
    root = (1 / (1 + 0.7 / raters)) ** 0.5
    reached: dict[Kind, float] = {
        "pearson": root,
        "spearman": 6 / np.pi * np.arcsin(root / 2),
        "kendall": 2 / np.pi * np.arcsin(root),
    }

    def once(rng: Generator, seed: int) -> float:
        return share_covered(noise_ceilings(rated(rng, items, raters), seed=seed)[kind].interval, reached[kind])

    return once
