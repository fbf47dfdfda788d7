"""Does a metric keep its opinion when a text changes in a way that does not matter (paper 4, section 4.5, Table 7)?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.stats.correlation import weighted_pearson
from nlgauge.stats.families import paired_max_t
from nlgauge.stats.inference import Intervals
from nlgauge.stats.means import mean_of, share_interval
from nlgauge.stats.permutation import paired_permutation
from nlgauge.stats.units import Units
from nlgauge.studies.base import Column, Result, Row, pair, with_interval
from nlgauge.studies.sentences import ALPHA, between, listed
from nlgauge.studies.story.correlation_levels import FEWEST, FEWEST_FOR_INTERVAL
from nlgauge.studies.story.perturbed import PEARSON, Group, PerturbedStudy, Scored, Statistic, counted
from nlgauge.studies.story.suites import AVERAGE, Part, Suite

NEARLY_CONSTANT = 0.95
SHIFTED = replace(PEARSON, p_value="p_adjusted")
_ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True)
class InvarianceTest(PerturbedStudy):
    """Does a metric keep its score when a text changes in ways that do not matter? Synonyms, typos and so on.

    Files are folders that `nlgauge perturb build` wrote, their `invariance.jsonl`, or files of your own with the
    columns id, story, aspect, source, pair, label (1 original, 0 perturbed) and text. Intervals come from resamples of
    whole stories.

    `pearson` is the correlation of score and label that the paper prints, `abs_pearson` its absolute value. It is small
    whenever stories differ more than the two texts of a pair, however sure the change is. So `shift` has the mean
    change within pairs and `mean_change` that of absolute changes, in standard deviations of the originals' scores, and
    `changed` the share of pairs whose scores differ at all. `pearson_p` is from a test within pairs, which exchanges
    the two sides of all pairs of a story; `p_adjusted` corrects it for all rows (max-T). A metric that (nearly) always
    gives the same score to originals is `uninformative`: a constant is perfectly invariant and useless (the paper's
    footnote 9).
    """

    name: ClassVar[str] = "invariance"
    part: ClassVar[Part] = "invariance"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study invariance suites/roc suites/wp -m ppl -m distinct --chart invariance.html",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *map(Column, ("task", "metric", "aspect", "source", "pairs")),
        *with_interval("pearson", digits=3, p_value="p_adjusted"),
        Column("abs_pearson", "|pearson|", digits=3),
        *with_interval("shift"),
        *with_interval("mean_change", "mean change"),
        *with_interval("changed"),
        Column("uninformative"),
    )
    printed: ClassVar[tuple[Column, ...]] = (SHIFTED, Column("mean_change", "change", beside=True))
    sums: ClassVar[tuple[str, ...]] = ("n", "pairs", "excluded")
    means: ClassVar[tuple[str, ...]] = ("abs_pearson", "mean_change", "changed")
    diverging: ClassVar[bool] = False
    corrected_by: ClassVar[str] = "max-T within a suite, and for the number of suites"

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
        row, found = _moved(texts, one, group, stories, self)
        resampled = row["pairs"] >= FEWEST_FOR_INTERVAL and len(np.unique(stories[group.rows[0]])) > 1
        return row, found if resampled else {}

    def correct(
        self, rows: Sequence[list[Row]], scored: Sequence[Scored], groups: Sequence[Group], stories: Array, suites: int
    ) -> None:
        """Correct the tests of all metrics and groups, which flip the same stories, as one family."""
        found = [
            (mine[place], *_changes(one, group, stories))
            for one, mine in zip(scored, rows, strict=True)
            for place, group in enumerate(groups)
            if mine[place]["pearson_p"] is not None
        ]
        if not found:
            return
        table = np.stack([np.bincount(own, changes, stories.max() + 1) for _, changes, own in found], axis=1)
        moving = table[np.any(table != 0, axis=1)]
        p_values = paired_max_t(moving, seed=self.seed).p if len(moving) else np.ones(len(found))
        for (row, _, _), p in zip(found, p_values.tolist(), strict=True):
            row["p_adjusted"] = max(row["pearson_p"], min(1.0, p * suites))

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
        skipped = row["aspect"] == AVERAGE and shown is SHIFTED
        return None if skipped else f"{row['aspect']} {row['source']}"

    def sentence(self, result: Result) -> str:
        """In how many kinds of change each metric moves one way, by the corrected test; how often it moves at all."""
        counts = counted(result, lambda row: row["p_adjusted"] is not None and row["p_adjusted"] < ALPHA)
        most: dict[str, Row] = {}
        for row in result.rows:
            if row["changed_ci"] is not None:
                most[row["metric"]] = max(most.get(row["metric"], row), row, key=lambda one: one["changed"])
        shares = [f"{metric} {row['changed']:.2f} {between(row['changed_ci'])}" for metric, row in most.items()]
        often = f" Share of pairs whose scores differ at all, at most: {listed(shares)}." if shares else ""
        return f"Harmless changes that move a metric's scores one way (corrected test within pairs): {counts}.{often}"


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


def _changes(one: Scored, group: Group, stories: Array) -> tuple[Array, Array]:
    """Changes within the pairs of a group that have both scores, and the story of each."""
    before, after = one.values[group.rows]
    known = ~(np.isnan(before) | np.isnan(after))
    return (after - before)[known], stories[group.rows[0][known]]


def _moved(
    suite: Suite, one: Scored, group: Group, stories: Array, using: Intervals
) -> tuple[Row, dict[str, Statistic]]:
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
        **dict.fromkeys(("pearson", "pearson_ci", "pearson_p", "p_adjusted", "abs_pearson", "shift", "shift_ci")),
        **dict.fromkeys(("mean_change", "mean_change_ci", "changed", "changed_ci")),
        "uninformative": nearly_constant(before),
        "signature": one.signature,
    }
    found: dict[str, Statistic] = {}
    if len(before) < FEWEST:
        return row, found
    values, labels = np.concatenate([before, after]), np.repeat([1.0, 0.0], len(before))
    pearson = Statistic(weighted_pearson, values, labels, np.tile(own, 2))
    if np.isfinite(pearson.value):
        p = paired_permutation(before, after, groups=own, seed=using.seed)
        row |= {"pearson": pearson.value, "abs_pearson": abs(pearson.value), "pearson_p": p}
        found["pearson"] = pearson
    units, changed = Units(own, name="story"), (before != after).astype(np.float64)
    row["changed"] = float(changed.mean())
    if len(np.unique(own)) > 1:
        row["changed_ci"] = pair(share_interval(changed, using.level, units))
    moved = Statistic(weighted_change, np.abs(after - before), before, own, "ratio")
    if np.isfinite(moved.value):
        row["mean_change"] = moved.value
        found["mean_change"] = moved
        shift = mean_of(after - before, units).as_difference
        scale = float(before.std(ddof=1))
        row["shift"] = shift.value / scale
        if shift.error > 0:
            row["shift_ci"] = pair([end / scale for end in shift.interval(using.level)])
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
