"""How much metrics change with length alone: the same texts, cut to common lengths (paper 2, sections 2 and 4).

Sets of long and of short texts from a corpus differ in more than length. A text that is cut after so many words differs
in nothing else, so that advice about length rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.metrics.base import Metric, SetMetric
from nlgauge.metrics.batch import JACKKNIFE_GROUPS, Batch
from nlgauge.stats.inference import Inference
from nlgauge.stats.jackknife import LeftOut, jackknife_interval

FEWEST_TEXTS, FEWEST_LENGTHS = 20, 3
_WORD = r"\S+"

Interval = tuple[float, float] | None


@dataclass(frozen=True)
class Slope:
    """The least-squares slope of a score over lengths, and the same relative to the mean score, with intervals."""

    means: tuple[float, ...]
    value: float
    interval: Interval
    relative: float
    relative_interval: Interval


@dataclass(frozen=True)
class CutSlopes:
    """Slopes of two metrics on `texts` texts, cut to each of `lengths` words.

    `apart` and `together` are the intervals of the difference and of the sum of their relative slopes.
    """

    lengths: tuple[int, ...]
    texts: int
    slopes: tuple[Slope, Slope]
    apart: Interval
    together: Interval

    @property
    def flatter(self) -> int | None:
        """Which of the two changes less with length, up or down; None where the intervals do not tell.

        The first slope is larger in size than the second where difference and sum have the same sign, smaller where
        they have not; both intervals have to exclude 0.
        """
        if self.apart is None or self.together is None:
            return None
        signs = [1 if low > 0 else -1 if high < 0 else 0 for low, high in (self.apart, self.together)]
        return None if 0 in signs else int(signs[0] == signs[1])


def single_texts(sets: ResponseSets) -> ResponseSets:
    """Every text as a set of its own, with the context of its set."""
    rows = np.repeat(np.arange(len(sets)), sets.sizes)
    contexts = sets.frame["context"].gather(rows).to_list() if "context" in sets.frame.columns else None
    return Items.of(sets.texts.to_list(), contexts=contexts).as_sets()


def in_percent(slope: Slope) -> str:
    """A relative slope with its interval, in percent per word."""
    ends = slope.relative_interval
    shown = "" if ends is None else f" [{100 * ends[0]:.2f}, {100 * ends[1]:.2f}]"
    return f"{100 * slope.relative:.2f} %{shown}"


def cut_slopes(
    parts: Sequence[ResponseSets],
    metrics: tuple[Metric, Metric],
    *,
    level: float,
    lengths: Sequence[int] = (),
    at_most: int | None = None,
    seed: int = 12345,
) -> CutSlopes | None:
    """Cut the texts of every part (such as a system) to common lengths, and score them; scores are means over parts.

    The longest length is one that half of the texts of every part reach, the shortest half of it; shorter texts are
    left out. Intervals are jackknives over groups of contexts, as those of corpus measures. None if a part has fewer
    than 20 such texts, or if there are fewer than three lengths. Of single texts, `at_most` are drawn.
    """
    words = [part.texts.str.extract_all(_WORD) for part in parts]
    if lengths:
        low, high = lengths
    else:
        counts = [one.list.len().filter(one.list.len() > 0).to_numpy() for one in words]
        high = int(min((np.median(one) if len(one) else 0) for one in counts))
        low = max(1, high // 2)
    if high - low + 1 < FEWEST_LENGTHS:
        return None
    pools = [_Pool.of(part, one, high, at_most, seed) for part, one in zip(parts, words, strict=True)]
    if min(len(pool.words) for pool in pools) < FEWEST_TEXTS:
        return None
    chosen = tuple(range(low, high + 1))
    found = np.array([np.mean([pool.scores(metrics, length) for pool in pools], axis=0) for length in chosen])
    sizes = np.sum([pool.sizes for pool in pools], axis=0)
    return _slopes(chosen, sum(len(pool.words) for pool in pools), found, sizes, level)


@dataclass(frozen=True)
class _Pool:
    """The texts of a part that are long enough, as words, and the sets that they are in."""

    frame: pl.DataFrame
    words: pl.Series
    offsets: Array

    @classmethod
    def of(cls, part: ResponseSets, words: pl.Series, longest: int, at_most: int | None, seed: int) -> _Pool:
        """The texts of at least so many words, and what makes their sets independent."""
        long_enough = (words.list.len() >= longest).to_numpy(writable=True)
        if at_most is not None and long_enough.sum() > at_most:
            order = np.flatnonzero(long_enough)[part.texts.filter(pl.Series(long_enough)).arg_sort().to_numpy()]
            long_enough[:] = False
            long_enough[np.random.default_rng(seed).choice(order, at_most, replace=False)] = True
        owner = np.repeat(np.arange(len(part)), part.sizes)[long_enough]
        kept, counts = np.unique(owner, return_counts=True)
        frame = pl.DataFrame({"id": kept}, schema_overrides={"id": pl.String}, strict=False)
        frame = frame.with_columns(context=_unit_names(part).gather(kept))
        return cls(frame, words.filter(pl.Series(long_enough)), np.concatenate([[0], np.cumsum(counts)]))

    def batch(self, length: int) -> Batch:
        """The sets with every text cut after so many words."""
        texts = self.words.list.head(length).list.join(" ")
        return Batch(ResponseSets(self.frame, texts, self.offsets), grouped=True)

    @property
    def sizes(self) -> Array:
        """Texts in each group that is left out."""
        groups = self.batch(1).text_groups()
        return np.bincount(np.zeros(0, np.int64) if groups is None else groups, minlength=JACKKNIFE_GROUPS)

    def scores(self, metrics: Sequence[Metric], length: int) -> Array:
        """For each metric its score, and the scores with each group left out."""
        batch = self.batch(length)
        return np.array([_scored(metric, batch) for metric in metrics])


def _unit_names(part: ResponseSets) -> pl.Series:
    """For each set its context, or else its id if it was given one, or else its texts, whatever their order."""
    own = part.ids
    if not part.explicit_ids:
        rows = pl.DataFrame({"row": np.repeat(np.arange(len(part)), part.sizes), "text": part.texts})
        own = rows.sort("row", "text").group_by("row", maintain_order=True).agg(pl.col("text").str.join("\n"))["text"]
    if "context" not in part.frame.columns:
        return own
    frame = pl.DataFrame({"own": own, "context": part.frame["context"].fill_null("")})
    return frame.select(pl.when(pl.col("context") == "").then("own").otherwise("context")).to_series()


def _scored(metric: Metric, batch: Batch) -> Array:
    """The score of a metric, and the scores with each group of texts left out; NaN where that is not known."""
    groups = batch.text_groups()
    found = np.full(1 + JACKKNIFE_GROUPS, np.nan)
    if groups is None:
        return found
    if isinstance(metric, SetMetric) and metric.level != "corpus":
        values = metric.combine(metric.values(batch))
        known = ~np.isnan(values)
        mine = groups[batch.sets.offsets[:-1]][known]
        sums = np.bincount(mine, weights=values[known], minlength=JACKKNIFE_GROUPS)
        counts = np.bincount(mine, minlength=JACKKNIFE_GROUPS)
        left = counts.sum() - counts
        found[0] = values[known].mean() if known.any() else np.nan
        found[1:] = np.divide(sums.sum() - sums, left, out=np.full(len(left), np.nan), where=left > 0)
        return found
    score = metric.finish(metric.collect(batch), Inference())
    found[:] = score.value
    if score.left_out is None:
        found[1:] = np.nan
    else:
        found[1 + np.unique(groups)] = score.left_out.values
    return found


def _slopes(lengths: tuple[int, ...], texts: int, scores: Array, sizes: Array, level: float) -> CutSlopes:
    """From scores of lengths x metrics x (all, each group left out)."""
    centred = np.array(lengths) - np.mean(lengths)
    slope = np.tensordot(centred, scores, 1) / float(centred @ centred)
    means = scores.mean(axis=0)
    relative = np.divide(slope, means, out=np.full(slope.shape, np.nan), where=means != 0)
    used = sizes > 0

    def interval(values: Array) -> Interval:
        left_out = LeftOut.where_known(values[1:][used], sizes[used])
        value = float(values[0])
        return None if left_out is None else jackknife_interval(value, left_out, level)

    one, two = (
        Slope(
            tuple(map(float, scores[:, place, 0])),
            float(slope[place, 0]),
            interval(slope[place]),
            float(relative[place, 0]),
            interval(relative[place]),
        )
        for place in (0, 1)
    )
    apart, together = interval(relative[0] - relative[1]), interval(relative[0] + relative[1])
    return CutSlopes(lengths, texts, (one, two), apart, together)
