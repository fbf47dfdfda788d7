"""Does a metric keep its opinion when a text changes in a way that does not matter (paper 4, section 4.5, Table 7)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.score import Interval
from nlgauge.stats.correlation import correlation_test, percentiles, weighted_pearson
from nlgauge.studies.base import Row, finite, pair
from nlgauge.studies.correlation_levels import FEWEST, FEWEST_FOR_INTERVAL
from nlgauge.studies.perturbed import (
    AVERAGE,
    AspectTable,
    PerturbedStudy,
    Scored,
    Statistic,
    Suite,
    chosen_aspects,
    metrics_for,
    notes_on_missing,
    read_suites,
    resampled_by_story,
    score_suite,
    signature_of,
)

NEARLY_CONSTANT = 0.95
_ROUNDING = 1e-6
_MEANS = ("abs_pearson", "mean_change", "changed")


@dataclass(frozen=True)
class InvarianceTable(AspectTable):
    """Table 7 of one corpus: Pearson's correlation of score and label."""

    name: ClassVar[str] = "invariance"
    columns: ClassVar[tuple[str, ...]] = ("metric", "pearson")
    side_by_side: ClassVar[tuple[str, ...]] = ("pearson",)
    titles: ClassVar[Mapping[str, str]] = {"pearson": "r"}
    digits: ClassVar[Mapping[str, int]] = {"pearson": 3}
    p_values: ClassVar[Mapping[str, str]] = {"pearson": "pearson_p"}
    shown: ClassVar[str] = "pearson"


@dataclass(frozen=True)
class ChangeTable(AspectTable):
    """The mean change of scores within the pairs of one corpus."""

    name: ClassVar[str] = "invariance"
    columns: ClassVar[tuple[str, ...]] = ("metric", "mean_change")
    side_by_side: ClassVar[tuple[str, ...]] = ("mean_change",)
    titles: ClassVar[Mapping[str, str]] = {"mean_change": "change"}
    shown: ClassVar[str] = "mean_change"
    diverging: ClassVar[bool] = False


@dataclass(frozen=True)
class Invariance(PerturbedStudy):
    """For every metric, aspect and source of originals: how much a change that should not matter moves scores.

    `pearson` is the correlation of score and label (1 original, 0 perturbed) that the paper prints, `abs_pearson` its
    absolute value: near 0 is robust. A correlation is small whenever stories differ more than the two texts of a pair,
    so `mean_change` has the mean absolute change within pairs, in standard deviations of the originals' scores, and
    `changed` the share of pairs whose scores differ at all. A metric that (nearly) always gives the same score to
    originals is `uninformative`: a constant is perfectly invariant and useless (the paper's footnote 9).
    """

    name: ClassVar[str] = "invariance"
    columns: ClassVar[tuple[str, ...]] = (
        "task", "metric", "aspect", "source", "pairs", "pearson", "pearson_ci", "abs_pearson",
        "mean_change", "mean_change_ci", "changed", "uninformative",
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"abs_pearson": "|pearson|", "mean_change": "mean change"}
    digits: ClassVar[Mapping[str, int]] = {"pearson": 3, "pearson_ci": 3, "abs_pearson": 3}
    p_values: ClassVar[Mapping[str, str]] = {"pearson": "pearson_p"}

    def tables(self) -> list[AspectTable]:
        """Table 7 and the changes, a corpus each: a column for each aspect and source."""
        return [
            table
            for task, changes in zip(self.tasks, self.panels(), strict=True)
            for table in (self._table(InvarianceTable, task, averages=False), changes)
        ]

    def panels(self) -> list[AspectTable]:
        """The mean changes of each corpus."""
        return [self._table(ChangeTable, task, averages=True) for task in self.tasks]

    def _table(self, kind: type[AspectTable], task: str, *, averages: bool) -> AspectTable:
        rows = [
            {**row, "task": f"{row['aspect']} {row['source']}"}
            for row in self.rows
            if row["task"] == task and (averages or row["aspect"] != AVERAGE)
        ]
        return kind(rows, replace(self.signature, options={"task": task, **self.signature.options}), task)


@dataclass(frozen=True)
class _Pairs:
    """Originals and perturbed texts of one aspect and source, side by side: row numbers of a suite's texts."""

    aspect: str
    source: str
    originals: Array
    perturbed: Array


def invariance_test(
    data: Any,
    metrics: Sequence[str | Metric] = (),
    *,
    columns: Sequence[str] = (),
    aspects: Sequence[str] = (),
    limit: int | None = None,
    interval: Interval | None = None,
    names: Sequence[str] = (),
    progress: bool = False,
) -> Invariance:
    """Compare the scores of originals and of texts perturbed without harm, pair by pair (paper 4, Table 7).

    `data` is a folder that `nlgauge perturb build` wrote, its `invariance.jsonl` (or one of your own with the columns
    id, story, aspect, source, pair, label and text), a `Suite`, or a list of those. Intervals come from resamples of
    whole stories; p-values take texts as independent. `limit` keeps so many texts an aspect and source.
    """
    using = interval or Interval()
    made, notes = metrics_for(metrics, columns)
    whole = read_suites(data, "invariance", names)
    suites = [suite.limited(limit, using.seed) for suite in whole]
    wanted = chosen_aspects(suites, aspects)
    rows: list[Row] = []
    for suite in suites:
        texts, stories = suite.of_aspects(wanted)
        if texts is None:
            notes.append(f"{suite.name} has none of the aspects {', '.join(wanted)}")
            continue
        groups = _pairs_of(texts, wanted)
        notes += [
            f"{group.aspect} ({group.source}) of {suite.name} has {len(group.originals)} pairs: no interval, which "
            f"takes {FEWEST_FOR_INTERVAL}"
            for group in groups
            if len(group.originals) < FEWEST_FOR_INTERVAL
        ]
        scored = score_suite(texts, made, columns, progress=progress)
        notes += notes_on_missing(texts, scored)
        for one in scored:
            mine = _rows_of(suite, one, groups, stories, using)
            if flagged := [f"{row['aspect']} ({row['source']})" for row in mine if row["uninformative"]]:
                notes.append(
                    f"{one.label} is uninformative on {suite.name}: it gives (nearly) all originals of "
                    f"{', '.join(flagged)} the same score, so that it can hardly change"
                )
            rows += mine
    notes.append("intervals resample stories; p-values take texts as independent, also those of one pair")
    notes += [f"{suite.name} was made by {suite.made_by}" for suite in suites if suite.made_by]
    return Invariance(rows, signature_of("invariance", whole, limit, aspects, using), notes=tuple(notes))


def _pairs_of(suite: Suite, aspects: Sequence[str]) -> list[_Pairs]:
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
    sources = aligned["source"].unique().sort(descending=False).to_list()
    ordered = sorted(sources, key=lambda source: (source != "human", source))
    found = []
    for aspect in (aspect for aspect in aspects if aspect in suite.aspects):
        for source in ordered:
            mine = aligned.filter((pl.col("aspect") == aspect) & (pl.col("source") == source))
            if mine.height:
                found.append(_Pairs(aspect, source, mine["row"].to_numpy(), mine["row_perturbed"].to_numpy()))
    return found


def _rows_of(suite: Suite, one: Scored, groups: Sequence[_Pairs], stories: Array, using: Interval) -> list[Row]:
    """A metric's rows on one suite: each aspect and source, and the average of aspects a source."""
    rows: list[Row] = []
    statistics: dict[tuple[int, str], Statistic] = {}
    for place, group in enumerate(groups):
        row, found = _moved(suite, one, group, stories)
        rows.append(row)
        if row["pairs"] >= FEWEST_FOR_INTERVAL and len(np.unique(stories[group.originals])) > 1:
            statistics |= {(place, key): statistic for key, statistic in found.items()}
    drawn = resampled_by_story(list(statistics.values()), suite.story_count, using)
    draws = dict(zip(statistics, drawn, strict=True))
    for (place, key), values in draws.items():
        rows[place][f"{key}_ci"] = pair(percentiles(values, using.confidence))
    return rows + [_average(rows, draws, source, using) for source in dict.fromkeys(row["source"] for row in rows)]


def _moved(suite: Suite, one: Scored, group: _Pairs, stories: Array) -> tuple[Row, dict[str, Statistic]]:
    """How far a metric moves within pairs, and the statistics to resample."""
    before, after = one.values[group.originals], one.values[group.perturbed]
    known = ~(np.isnan(before) | np.isnan(after))
    before, after, own = before[known], after[known], stories[group.originals[known]]
    row: Row = {
        "task": suite.name, "metric": one.label, "aspect": group.aspect, "source": group.source, "n": 2 * len(before),
        "pairs": len(before), "excluded": len(known) - len(before), "pearson": None, "pearson_ci": None,
        "pearson_p": None, "abs_pearson": None, "mean_change": None, "mean_change_ci": None, "changed": None,
        "uninformative": nearly_constant(before), "signature": one.signature,
    }  # fmt: skip
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


def _average(rows: Sequence[Row], draws: Mapping[tuple[int, str], Array], source: str, using: Interval) -> Row:
    """The mean of a metric over the aspects of a source; signed correlations would cancel and have none."""
    mine = [place for place, row in enumerate(rows) if row["source"] == source]
    mean: Row = dict.fromkeys(rows[0]) | {key: rows[0][key] for key in ("task", "metric", "signature")}
    mean |= {"aspect": AVERAGE, "source": source}
    mean |= {key: sum(rows[place][key] for place in mine) for key in ("n", "pairs", "excluded")}
    for key in _MEANS:
        if known := [rows[place][key] for place in mine if rows[place][key] is not None]:
            mean[key] = float(np.mean(known))
    moved = [place for place in mine if rows[place]["mean_change"] is not None]
    if moved and all((place, "mean_change") in draws for place in moved):
        drawn = np.mean([draws[place, "mean_change"] for place in moved], axis=0)
        mean["mean_change_ci"] = pair(percentiles(drawn, using.confidence))
    return mean
