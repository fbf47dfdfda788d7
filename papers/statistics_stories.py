"""Cells of `docs/statistics.md` about studies of stories: texts of one story depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.stats.correlation import bootstrap_intervals, correlation, difference_interval
from nlgauge.studies.base import Row
from nlgauge.studies.story.correlation import CorrelationStudy
from nlgauge.studies.story.discrimination import DiscriminationTest
from nlgauge.studies.story.invariance import InvarianceTest
from nlgauge.studies.story.suites import Suite

Generator = np.random.Generator
Once = Callable[[Generator, int], float]
_NORMAL = NormalDist()
_WORSE = 2
_RESAMPLES = 400
INTERVALS = ("pearson", "auc", "paired_accuracy")
MOVES = ("pearson", "mean_change", "shift")


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
    return lambda rng, seed: _covers(discriminated(stories, distance, rng, seed)[f"{key}_ci"], truth)


def covers_moves(key: str, shift: float, stories: int) -> Once:
    """Whether an interval of the study covers."""
    truth = true_moves(shift)[key]
    return lambda rng, seed: _covers(moved(stories, shift, rng, seed)[f"{key}_ci"], truth)


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
        return _covers(difference_interval(values[0], ends[0], values[1], ends[1]), 0.3)

    return once


def covers_systems(systems: int, contexts: int) -> Once:
    """Whether the interval of a correlation over systems covers that of endless contexts, for the same systems."""

    def once(rng: Generator, seed: int) -> float:
        metric, human = _correlated(rng, 0.7, systems)
        means = np.stack([metric, human])
        levels = means[:, :, None] + rng.normal(size=(2, 1, contexts)) + 2 * rng.normal(size=(2, systems, contexts))
        frame = pl.DataFrame(
            {
                "id": [f"{i}" for i in range(systems * contexts)],
                "context": [f"c{i}" for i in range(contexts)] * systems,
                "system": np.repeat([f"s{i}" for i in range(systems)], contexts),
                "human": levels[0].ravel(),
                "x": levels[1].ravel(),
            }
        )
        study = CorrelationStudy(
            columns=["x"], truth="human", systems="system", significance=False, resamples=_RESAMPLES, seed=seed
        )
        row = next(row for row in study.run(frame).rows if row["level"] == "systems")
        return _covers(row["pearson_ci"], correlation(metric, human, "pearson"))

    return once


def _correlated(rng: Generator, rho: float, size: int) -> tuple[Array, Array]:
    x = rng.normal(size=size)
    return x, rho * x + (1 - rho**2) ** 0.5 * rng.normal(size=size)


def _covers(interval: object, truth: float) -> float:
    low, high = interval if isinstance(interval, list | tuple) else (np.nan, np.nan)
    return float(low <= truth <= high)
