"""Intervals of HUSE, HUSE-Q and HUSE-D from the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option
from nlgauge.errors import DataError
from nlgauge.stats.correlation import percentiles
from nlgauge.stats.inference import Inference
from nlgauge.stats.kernels.neighbours import Draw, LeaveOneOut, resample_errors, resample_halves, resample_items
from nlgauge.stats.means import share_interval, within
from nlgauge.stats.units import Units
from nlgauge.studies.base import pair
from nlgauge.studies.huse.data import HuseData
from nlgauge.studies.huse.options import HuseStudy
from nlgauge.studies.tasks import context_units

_SCORES, _OF_DIVERSITY = (0.0, 2.0), (-1.0, 3.0)
Ways = Literal["halves", "items", "errors"]


@dataclass(frozen=True, kw_only=True)
class HuseInference(Inference, HuseStudy):
    """How intervals are made.

    `halves` draws half of the texts repeatedly and searches neighbours within each half, `items` draws texts with
    replacement, `errors` the leave-one-out errors. Simulations say that `halves` holds what it should, `errors` is
    too narrow and `items` leans upwards (`docs/papers/huse_coverage.md`); it is the default where texts suffice for
    it. Texts that share a context are drawn together (`unit`), otherwise each class by itself. `resample_raters` draws
    the ratings of each text, too: means of fewer different raters are noisier, so those draws are shifted back to
    the score found.
    """

    heading: ClassVar[str] = "Inference"

    way: Ways | None = option(
        None, "What intervals draw: halves of the texts, texts with replacement, or errors. Default: halves."
    )
    resample_raters: bool = option(False, "Resample raters, too.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resample_raters:
            check_that(self.way in (None, "halves"), "way", self.way, "halves, where raters are resampled, too")


def huse_intervals(
    data: HuseData, features: Array, found: Sequence[LeaveOneOut], using: HuseInference
) -> tuple[list[list[float] | None], str]:
    """Percentile intervals of HUSE, HUSE-Q and HUSE-D, and what was resampled."""
    way = using.way or ("halves" if len(data) >= 2 * (using.k + 1) else "errors")
    groups = context_units(data.contexts, data.ids, using.unit).of
    units = "texts" if groups is None else "contexts"
    if using.resample_raters:
        draws = _with_raters(data, features, groups, using)
        draws += np.array([2 * one.error for one in found])[:, None] - draws.mean(axis=1, keepdims=True)
        return _ends(draws, found, groups, using.level), f"raters-and-halves-of-{units}"
    drawn: dict[str, Any] = {"groups": groups, "resamples": using.resamples, "seed": using.seed}
    if way == "errors":
        draws = resample_errors(found, **drawn)
    else:
        resample = resample_halves if way == "halves" else resample_items
        draws = resample([features, features[:, 1:]], data.is_model, k=using.k, ties=using.ties, **drawn)
    return _ends(draws, found, groups, using.level), f"{way}-of-{units}"


def _ends(draws: Array, found: Sequence[LeaveOneOut], groups: Array | None, level: float) -> list[list[float] | None]:
    """Percentiles; where draws are all the same, twice the interval of the share of errors."""
    both, alone = draws
    scores = (both, _SCORES), (alone, _SCORES), (1 + both - alone, _OF_DIVERSITY)
    shares = [share_interval(one.wrong.astype(np.float64), level, Units(groups)) for one in found]
    (low, high), (least, most) = ((2 * ends[0], 2 * ends[1]) for ends in shares)
    without_width = (low, high), (least, most), (1 + low - most, 1 + high - least)
    ends = [percentiles(values, level) for values, _ in scores]
    ends = [other if one[0] == one[1] else one for one, other in zip(ends, without_width, strict=True)]
    return [pair(within(one, bounds)) for one, (_, bounds) in zip(ends, scores, strict=True)]


def _with_raters(data: HuseData, features: Array, groups: Array | None, using: HuseInference) -> Array:
    """Draw the ratings of every text with replacement, and half of the texts: both kinds of chance at once."""
    ratings, fewest, file = data.ratings, 2 * (using.k + 1), data.name or None
    if ratings is None:
        message = "no single ratings to resample; expected a crowd export or a ratings file"
        raise DataError(message, file=file, option="resample_raters")
    if len(data) < fewest:
        raise DataError(f"{len(data)} texts; expected at least {fewest} to draw halves", file=file)
    counts = np.isfinite(ratings).sum(axis=0)
    if len(lonely := np.flatnonzero(counts < 2)):
        message = f"'{data.ids[lonely[0]]}' has one rating; expected at least 2 of every text to resample raters"
        raise DataError(message, file=file, option="resample_raters")
    packed = np.take_along_axis(ratings, np.argsort(~np.isfinite(ratings), axis=0, kind="stable"), axis=0)
    order = np.lexsort((data.is_model, features[:, 1], features[:, 0]))
    draws = []
    for number in range(using.resamples):
        rng = np.random.default_rng([using.seed, number])
        places = np.floor(rng.random(packed.shape) * counts[order]).astype(np.int64)
        picked = np.take_along_axis(packed[:, order], places, axis=0)
        picked = np.where(np.arange(len(packed))[:, None] < counts[order], picked, np.nan)
        judged = np.empty(len(data))
        judged[order] = np.nanmean(picked, axis=0)
        if np.ptp(judged) == 0:
            continue
        both = np.stack([features[:, 0], judged], axis=1)
        draw = Draw("halves", groups, resamples=1, seed=int(rng.integers(2**31)))
        draws.append(2 * draw.errors([both, both[:, 1:]], data.is_model, k=using.k, ties=using.ties)[:, 0])
    return np.stack(draws, axis=1)
