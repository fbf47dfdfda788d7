"""Intervals of HUSE, HUSE-Q and HUSE-D from the same draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.score import Interval
from nlgauge.stats.bootstrap import check_level
from nlgauge.stats.correlation import percentiles
from nlgauge.stats.neighbours import Draw, Ties, leave_one_out, resample_errors, resample_halves, resample_items
from nlgauge.studies.huse_data import HuseData
from nlgauge.studies.tasks import Over

Ways = Literal["halves", "items", "errors"]


@dataclass(frozen=True)
class HuseIntervals:
    """Low and high end of each score, and what was resampled."""

    huse: tuple[float, float]
    huse_q: tuple[float, float]
    huse_d: tuple[float, float]
    way: str


def huse_intervals(
    data: HuseData,
    *,
    k: int,
    normalise: bool,
    ties: Ties,
    way: Ways | None = None,
    over: Over = "auto",
    raters: bool = False,
    interval: Interval,
) -> HuseIntervals:
    """Percentile intervals of the three scores.

    `halves` draws half of the texts again and again and looks for neighbours anew, `items` draws texts with
    replacement, `errors` the leave-one-out errors. Simulations say that `halves` holds what it should, `errors` is
    too narrow and `items` leans upwards (`docs/papers/huse_coverage.md`); it is the default where texts suffice for
    it. Texts that share a context are drawn together (`over`), otherwise each class by itself. `raters` draws each
    text's ratings anew, too: means of fewer different raters are noisier, so those draws are shifted back to the
    score found.
    """
    chosen = way or ("halves" if len(data) >= 2 * (k + 1) else "errors")
    if chosen not in get_args(Ways):
        raise OptionError(f"way '{chosen}'; expected one of {', '.join(get_args(Ways))}")
    check_level(interval.confidence, interval.resamples)
    features = data.features(normalise=normalise)
    maps = [features, features[:, 1:]]
    found = [leave_one_out(one, data.is_model, k=k, ties=ties) for one in maps]
    groups = data.groups(over)
    units = "texts" if groups is None else "contexts"
    if raters:
        draws = _with_raters(data, features, k, ties, groups, interval)
        draws += np.array([2 * one.error for one in found])[:, None] - draws.mean(axis=1, keepdims=True)
        return _ends(draws, interval.confidence, f"raters-and-halves-of-{units}")
    drawn: dict[str, Any] = {"groups": groups, "resamples": interval.resamples, "seed": interval.seed}
    if chosen == "errors":
        draws = resample_errors(found, **drawn)
    else:
        resample = resample_halves if chosen == "halves" else resample_items
        draws = resample(maps, data.is_model, k=k, ties=ties, **drawn)
    return _ends(draws, interval.confidence, f"{chosen}-of-{units}")


def _ends(draws: Array, confidence: float, way: str) -> HuseIntervals:
    both, alone = draws
    huse, huse_q, huse_d = (percentiles(values, confidence) for values in (both, alone, 1 + both - alone))
    return HuseIntervals(huse, huse_q, huse_d, way)


def _with_raters(
    data: HuseData, features: Array, k: int, ties: Ties, groups: Array | None, interval: Interval
) -> Array:
    """Draw the ratings of every text with replacement, and half of the texts: both kinds of chance at once."""
    ratings = data.ratings
    if ratings is None:
        raise DataError(
            "no single ratings to resample; expected a crowd export or a ratings file", file=data.name or None
        )
    if len(data) < 2 * (k + 1):
        raise DataError(f"{len(data)} texts; expected at least {2 * (k + 1)} to draw halves", file=data.name or None)
    given = np.isfinite(ratings)
    counts = given.sum(axis=0)
    if (counts < 2).any():
        lonely = data.ids[int(np.flatnonzero(counts < 2)[0])]
        raise DataError(
            f"'{lonely}' has one rating; expected at least 2 of every text to resample raters", file=data.name or None
        )
    packed = np.take_along_axis(ratings, np.argsort(~given, axis=0, kind="stable"), axis=0)
    order = np.lexsort((data.is_model, features[:, 1], features[:, 0]))
    draws = []
    for number in range(interval.resamples):
        rng = np.random.default_rng([interval.seed, number])
        places = np.floor(rng.random(packed.shape) * counts[order]).astype(np.int64)
        picked = np.take_along_axis(packed[:, order], places, axis=0)
        picked = np.where(np.arange(len(packed))[:, None] < counts[order], picked, np.nan)
        judged = np.empty(len(data))
        judged[order] = np.nanmean(picked, axis=0)
        if np.ptp(judged) == 0:
            continue
        both = np.stack([features[:, 0], judged], axis=1)
        draw = Draw("halves", groups, resamples=1, seed=int(rng.integers(2**31)))
        draws.append(2 * draw.errors([both, both[:, 1:]], data.is_model, k=k, ties=ties)[:, 0])
    return np.stack(draws, axis=1)
