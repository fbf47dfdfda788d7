"""Does a metric keep its opinion when a text changes in a way that does not matter (paper 4, section 4.5, Table 7)?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.stats.correlation import correlation_test, weighted_pearson
from nlgauge.studies.base import Column, Result, Row, finite, with_interval
from nlgauge.studies.story.correlation_levels import FEWEST, FEWEST_FOR_INTERVAL
from nlgauge.studies.story.perturbed import PEARSON, Group, PerturbedStudy, Scored, Statistic, counted
from nlgauge.studies.story.suites import AVERAGE, Part, Suite

NEARLY_CONSTANT = 0.95
_ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True)
class InvarianceTest(PerturbedStudy):
    """Does a metric keep its score when a text changes in ways that do not matter? Synonyms, typos and so on.

    Files are folders that `nlgauge perturb build` wrote, their `invariance.jsonl`, or files of your own with the
    columns id, story, aspect, source, pair, label (1 original, 0 perturbed) and text. Intervals come from resamples of
    whole stories; p-values take texts as independent.

    `pearson` is the correlation of score and label that the paper prints, `abs_pearson` its absolute value: near 0 is
    robust. A correlation is small whenever stories differ more than the two texts of a pair, so `mean_change` has the
    mean absolute change within pairs, in standard deviations of the originals' scores, and `changed` the share of pairs
    whose scores differ at all. A metric that (nearly) always gives the same score to originals is `uninformative`: a
    constant is perfectly invariant and useless (the paper's footnote 9).
    """

    name: ClassVar[str] = "invariance"
    part: ClassVar[Part] = "invariance"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study invariance suites/roc suites/wp -m ppl -m distinct --chart invariance.html",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *map(Column, ("task", "metric", "aspect", "source", "pairs")),
        *with_interval("pearson", digits=3, p_value="pearson_p"),
        Column("abs_pearson", "|pearson|", digits=3),
        *with_interval("mean_change", "mean change"),
        Column("changed"),
        Column("uninformative"),
    )
    printed: ClassVar[tuple[Column, ...]] = (PEARSON, Column("mean_change", "change", beside=True))
    sums: ClassVar[tuple[str, ...]] = ("n", "pairs", "excluded")
    means: ClassVar[tuple[str, ...]] = ("abs_pearson", "mean_change", "changed")
    diverging: ClassVar[bool] = False

    def groups_of(self, texts: Suite, aspects: Sequence[str]) -> tuple[list[Group], list[str]]:
        """Pairs of each aspect and source."""
        groups = _pairs_of(texts, aspects)
        return groups, [
            f"{group.names['aspect']} ({group.names['source']}) of {texts.name} has {group.rows.shape[1]} pairs: no "
            f"interval, which takes {FEWEST_FOR_INTERVAL}"
            for group in groups
            if group.rows.shape[1] < FEWEST_FOR_INTERVAL
        ]

    def tested(self, texts: Suite, one: Scored, group: Group, stories: Array) -> tuple[Row, dict[str, Statistic]]:
        """How far a metric moves within pairs, and the statistics to resample."""
        row, found = _moved(texts, one, group, stories)
        resampled = row["pairs"] >= FEWEST_FOR_INTERVAL and len(np.unique(stories[group.rows[0]])) > 1
        return row, found if resampled else {}

    def notes_on(self, texts: Suite, one: Scored, rows: Sequence[Row]) -> list[str]:
        """Where a metric can hardly change."""
        flagged = [f"{row['aspect']} ({row['source']})" for row in rows if row["uninformative"]]
        told = (
            f"{one.label} is uninformative on {texts.name}: it gives (nearly) all originals of {', '.join(flagged)} "
            "the same score, so that it can hardly change"
        )
        return [told] if flagged else []

    def place(self, row: Row, shown: Column) -> str | None:
        """The aspect and its source; Table 7 has no averages, since correlations of different signs would cancel."""
        skipped = row["aspect"] == AVERAGE and shown is PEARSON
        return None if skipped else f"{row['aspect']} {row['source']}"

    def sentence(self, result: Result) -> str:
        """In how many kinds of change each metric moves, by its interval."""
        counts = counted(result, lambda row: not row["pearson_ci"][0] <= 0 <= row["pearson_ci"][1])
        return f"Harmless changes that move a metric's scores one way (interval of r without 0): {counts}."


def _pairs_of(suite: Suite, aspects: Sequence[str]) -> list[Group]:
    """Pairs, aligned; each must be one original and one perturbed text of the same story."""
    keys = ("aspect", "source", "pair")
    rows = suite.texts.select(*keys, "story", "label").with_row_index("row")
    counted = rows.group_by(keys, maintain_order=True).agg(
        texts=pl.len(), originals=pl.col("label").sum(), stories=pl.col("story").n_unique()
    )
    bad = counted.filter((pl.col("texts") != 2) | (pl.col("originals") != 1) | (pl.col("stories") != 1))
    if bad.height:
        pair_, texts, originals, stories = bad.row(0)[2:]
        raise DataError(
            f"the pair '{pair_}' has {texts} texts of {stories} stories, {originals:g} of them with label 1; expected "
            "an original (label 1) and its perturbed text (label 0)",
            file=suite.name,
            column="pair",
        )
    first, second = (rows.filter(pl.col("label") == label).select(*keys, "row") for label in (1, 0))
    aligned = first.join(second, on=keys, suffix="_perturbed", maintain_order="left")
    ordered = sorted(aligned["source"].unique(), key=lambda source: (source != "human", source))
    found = []
    for aspect in (aspect for aspect in aspects if aspect in suite.aspects):
        for source in ordered:
            mine = aligned.filter((pl.col("aspect") == aspect) & (pl.col("source") == source))
            if mine.height:
                found.append(Group({"aspect": aspect, "source": source}, mine["row", "row_perturbed"].to_numpy().T))
    return found


def _moved(suite: Suite, one: Scored, group: Group, stories: Array) -> tuple[Row, dict[str, Statistic]]:
    before, after = one.values[group.rows]
    known = ~(np.isnan(before) | np.isnan(after))
    before, after, own = before[known], after[known], stories[group.rows[0][known]]
    row: Row = {
        "task": suite.name,
        "metric": one.label,
        **group.names,
        "n": 2 * len(before),
        "pairs": len(before),
        "excluded": len(known) - len(before),
        **dict.fromkeys(("pearson", "pearson_ci", "pearson_p", "abs_pearson")),
        **dict.fromkeys(("mean_change", "mean_change_ci", "changed")),
        "uninformative": nearly_constant(before),
        "signature": one.signature,
    }
    found: dict[str, Statistic] = {}
    if len(before) < FEWEST:
        return row, found
    values, labels = np.concatenate([before, after]), np.repeat([1.0, 0.0], len(before))
    test = correlation_test(values, labels, "pearson")
    if np.isfinite(test.value):
        row |= {"pearson": test.value, "abs_pearson": abs(test.value), "pearson_p": finite(test.p)}
        found["pearson"] = Statistic(weighted_pearson, values, labels, np.tile(own, 2))
    row["changed"] = float((before != after).mean())
    moved = Statistic(weighted_change, np.abs(after - before), before, own)
    if np.isfinite(moved.value):
        row["mean_change"] = moved.value
        found["mean_change"] = moved
    return row, found


def nearly_constant(values: Array) -> bool:
    """Whether 95 of 100 values are one and the same, or all differ by no more than rounding does."""
    if not len(values):
        return False
    if np.ptp(values) <= _ROUNDING * np.abs(values).max():
        return True
    return bool(np.unique(values, return_counts=True)[1].max() >= NEARLY_CONSTANT * len(values))


def weighted_change(changes: Array, originals: Array, weights: Array) -> Array:
    """The mean change in standard deviations of the originals (n - 1), in each row of weights."""
    centred = originals - originals.mean()
    total = weights.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (weights @ centred**2 - (weights @ centred) ** 2 / total) / (total - 1)
        spread = np.sqrt(np.where(variance > 1e-12 * np.square(np.abs(centred).max()), variance, np.nan))
        found: Array = weights @ changes / total / spread
    return found
