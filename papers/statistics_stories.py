"""Cells of `docs/statistics.md` about studies of stories: texts of one story depend on each other."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.stats.correlation import Kind, bootstrap_intervals, correlation, difference_interval
from nlgauge.stats.inference import Inference
from nlgauge.stats.system_correlation import mean_correlation_intervals
from nlgauge.studies.base import Row
from nlgauge.studies.story.correlation_levels import KINDS
from nlgauge.studies.story.discrimination import DiscriminationTest
from nlgauge.studies.story.invariance import InvarianceTest
from nlgauge.studies.story.suites import Suite
from papers.coverage import ERRORS, Cell, Generator, Once, covered, share_covered

TITLES = {
    "discrimination": "Discrimination tests",
    "invariance": "Invariance tests",
    "stories": "Tests of perturbed texts",
    "drops": "Drift",
    "of-systems": "Correlations over systems",
}
TEXTS = {
    "discrimination": "Coverage (%) of 95 % intervals of `study discrimination`; two worse texts are made from each "
    "story, scores 1 apart. Columns: number of stories.",
    "invariance": "Coverage (%) of 95 % intervals of `study invariance`; two pairs of each story, which changes by "
    "half a deviation. Columns: number of stories.",
    "stories": "How often (%) the tests of both studies find a change where there is none. Columns: number of stories.",
    "drops": "Coverage (%) of 95 % intervals of the drop of a correlation from one test set to another, by .3. "
    "Columns: number of items in each.",
    "of-systems": "Coverage (%) of 95 % intervals of a correlation over the systems at hand, whose qualities correlate "
    "by .7; each context adds noise of 1 or 2 deviations. Columns: number of contexts.",
}
_NORMAL = NormalDist()
_WORSE = 2
_RESAMPLES = 400
INTERVALS = ("pearson", "auc", "paired_accuracy")
MOVES = ("pearson", "mean_change", "shift")


def cells(times: int) -> Iterator[Cell]:
    """All cells of these tables."""
    few = times // 5
    for stories in (20, 45):
        column = f"{stories}"
        for key in INTERVALS:
            made = covers_discrimination(key, 1.0, stories)
            yield Cell("discrimination", key, column, covered(stories), made, few)
        for key in MOVES:
            yield Cell("invariance", key, column, covered(stories), covers_moves(key, 0.5, stories), few)
        yield Cell("stories", "discrimination", column, ERRORS, finds_labels(0.0, stories), times)
        yield Cell("stories", "invariance", column, ERRORS, finds_moves(0.0, stories), times)
        for rho in (0.3, 0.8):
            yield Cell("drops", f"from {rho:g}", column, covered(stories), covers_drop(rho, stories), times)
        for systems in (5, 12):
            for noise in (1.0, 2.0):
                for kind in KINDS[:2]:
                    row = f"{kind}, {systems} systems, noise {noise:g}"
                    made = covers_systems(systems, stories, kind, noise)
                    yield Cell("of-systems", row, column, covered(stories, more=True), made, times // 2)


def discriminated(stories: int, distance: float, rng: Generator, seed: int) -> Row:
    """A story, which has a level of its own, and two worse texts made from it: scores are `distance` apart."""
    levels = rng.normal(size=stories)
    own = levels + distance + rng.normal(size=stories)
    worse = levels + rng.normal(size=(_WORSE, stories))
    names = [f"s{i}" for i in range(stories)]
    texts = pl.DataFrame(
        {
            "id": [f"t{i}" for i in range((1 + _WORSE) * stories)],
            "story": names * (1 + _WORSE),
            "label": [1] * stories + [0] * (_WORSE * stories),
            "x": np.concatenate([own, worse.ravel()]),
        }
    ).with_columns(aspect=pl.lit("a"), text=pl.lit("t"))
    known = pl.DataFrame({"id": names, "text": names, "x": own})
    suite = Suite.of(texts, "discrimination", stories=known, name="own")
    return DiscriminationTest(columns=["x"], resamples=_RESAMPLES, seed=seed).run(suite).rows[0]


def moved(stories: int, shift: float, rng: Generator, seed: int) -> Row:
    """Two pairs of each story; scores change by `shift` on average, in whatever direction."""
    count = 2 * stories
    before = np.tile(rng.normal(size=stories), 2) + rng.normal(size=count)
    after = before + shift + 0.5 * np.tile(rng.normal(size=stories), 2) + 0.5 * rng.normal(size=count)
    pairs = pl.DataFrame(
        {
            "id": [f"t{i}" for i in range(2 * count)],
            "pair": [f"p{i}" for i in range(count)] * 2,
            "story": [f"s{i}" for i in range(stories)] * 4,
            "label": [1] * count + [0] * count,
            "x": np.concatenate([before, after]),
        }
    ).with_columns(aspect=pl.lit("a"), source=pl.lit("human"), text=pl.lit("t"))
    suite = Suite.of(pairs, "invariance", name="own")
    return InvarianceTest(columns=["x"], resamples=_RESAMPLES, seed=seed).run(suite).rows[0]


def true_discrimination(distance: float) -> dict[str, float]:
    """What `discriminated` gives of endless stories; scores have a variance of 2 in either class."""
    share = 1 / (1 + _WORSE)
    between = distance**2 * share * (1 - share)
    return {
        "pearson": float(np.sqrt(between / (between + 2))),
        "auc": _NORMAL.cdf(distance / 2),
        "paired_accuracy": _NORMAL.cdf(distance / 2**0.5),
    }


def true_moves(shift: float) -> dict[str, float]:
    """What `moved` gives of endless stories: changes have a variance of .5, originals one of 2."""
    size = shift / 0.5**0.5
    folded = 0.5**0.5 * (2 * np.exp(-(size**2) / 2) / (2 * np.pi) ** 0.5 + size * (1 - 2 * _NORMAL.cdf(-size)))
    pooled = 2 + 0.25 + shift**2 / 4
    return {"pearson": -shift / 2 / pooled**0.5, "mean_change": folded / 2**0.5, "shift": shift / 2**0.5}


def covers_discrimination(key: str, distance: float, stories: int) -> Once:
    """Whether an interval of the study covers."""
    truth = true_discrimination(distance)[key]
    return lambda rng, seed: share_covered(discriminated(stories, distance, rng, seed)[f"{key}_ci"], truth)


def covers_moves(key: str, shift: float, stories: int) -> Once:
    """Whether an interval of the study covers."""
    truth = true_moves(shift)[key]
    return lambda rng, seed: share_covered(moved(stories, shift, rng, seed)[f"{key}_ci"], truth)


def finds_labels(distance: float, stories: int) -> Once:
    """Whether the p-value of a correlation with labels is below .05."""
    return lambda rng, seed: float(discriminated(stories, distance, rng, seed)["pearson_p"] < 0.05)


def finds_moves(shift: float, stories: int) -> Once:
    """Whether the corrected test within pairs finds a change."""
    return lambda rng, seed: float(moved(stories, shift, rng, seed)["p_adjusted"] < 0.05)


def covers_drop(rho: float, size: int) -> Once:
    """Whether the interval of a drop from one test set to another covers; its correlation is .3 lower there."""

    def once(rng: Generator, seed: int) -> float:
        ends, values = [], []
        for place, true in enumerate((rho, rho - 0.3)):
            x, y = _correlated(rng, true, size)
            ends.append(bootstrap_intervals(y[None], x, "pearson", resamples=_RESAMPLES, seed=seed + place)[0])
            values.append(correlation(x, y, "pearson"))
        return share_covered(difference_interval(values[0], ends[0], values[1], ends[1]), 0.3)

    return once


def covers_systems(systems: int, contexts: int, kind: Kind, noise: float) -> Once:
    """Whether the interval of a correlation over systems covers that of endless contexts, for the same systems."""

    def once(rng: Generator, seed: int) -> float:
        metric, human = _correlated(rng, 0.7, systems)
        means = np.stack([metric, human])
        levels = means[:, :, None] + rng.normal(size=(2, 1, contexts))
        levels += noise * rng.normal(size=(2, systems, contexts))
        totals = np.stack([np.ones((contexts, systems)), *levels.transpose(0, 2, 1)])
        found = mean_correlation_intervals(totals, Inference(resamples=_RESAMPLES, seed=seed))
        return share_covered(found[kind], correlation(metric, human, kind))

    return once


def _correlated(rng: Generator, rho: float, size: int) -> tuple[Array, Array]:
    x = rng.normal(size=size)
    return x, rho * x + (1 - rho**2) ** 0.5 * rng.normal(size=size)
