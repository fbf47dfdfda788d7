"""Can a metric tell coherent stories from those made worse in one aspect (paper 4, section 4.4, Table 6)?"""

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
from nlgauge.studies.drift import weighted_auc
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

_FOUND = ("pearson", "auc", "paired_accuracy")


@dataclass(frozen=True)
class DiscriminationTable(AspectTable):
    """Table 6 of one corpus: Pearson's correlation of score and label."""

    name: ClassVar[str] = "discrimination"
    columns: ClassVar[tuple[str, ...]] = ("metric", "pearson")
    side_by_side: ClassVar[tuple[str, ...]] = ("pearson",)
    titles: ClassVar[Mapping[str, str]] = {"pearson": "r"}
    digits: ClassVar[Mapping[str, int]] = {"pearson": 3}
    p_values: ClassVar[Mapping[str, str]] = {"pearson": "pearson_p"}
    shown: ClassVar[str] = "pearson"


@dataclass(frozen=True)
class Discrimination(PerturbedStudy):
    """For every metric and aspect: Pearson's correlation of score and label, AUC, and the accuracy over pairs.

    `paired_accuracy` is the share of incoherent texts that score below the human story they were made from, ties half;
    unlike the other two it is not misled by differences between stories. The row of the aspect "average" has the means
    over aspects. `rule` is a technique of an aspect: its incoherent texts with all coherent ones of the aspect.
    """

    name: ClassVar[str] = "discrimination"
    columns: ClassVar[tuple[str, ...]] = (
        "task", "metric", "aspect", "rule", "n", "coherent", "incoherent", "pearson", "pearson_ci", "auc",
        "auc_ci", "paired_accuracy", "paired_accuracy_ci",
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"auc": "AUC", "paired_accuracy": "paired accuracy"}
    digits: ClassVar[Mapping[str, int]] = {"pearson": 3, "pearson_ci": 3}
    p_values: ClassVar[Mapping[str, str]] = {"pearson": "pearson_p"}

    def tables(self) -> list[AspectTable]:
        """Table 6, a corpus each, with the mean over aspects as the last column."""
        return [
            DiscriminationTable(
                [{**row, "task": row["aspect"]} for row in self.rows if row["task"] == task and row["rule"] is None],
                replace(self.signature, options={"task": task, **self.signature.options}), task,
            )
            for task in self.tasks
        ]  # fmt: skip


@dataclass(frozen=True)
class _Group:
    """Texts that are tested together: an aspect, or the texts of one of its rules with the coherent ones."""

    aspect: str
    rule: str | None
    rows: Array


def discrimination_test(
    data: Any,
    metrics: Sequence[str | Metric] = (),
    *,
    columns: Sequence[str] = (),
    aspects: Sequence[str] = (),
    rules: bool = False,
    limit: int | None = None,
    interval: Interval | None = None,
    names: Sequence[str] = (),
    progress: bool = False,
) -> Discrimination:
    """Correlate scores with labels, 1 for coherent and 0 for incoherent texts, aspect by aspect (paper 4, Table 6).

    `data` is a folder that `nlgauge perturb build` wrote, its `discrimination.jsonl` (or one of your own with the
    columns id, story, aspect, label and text), a `Suite`, or a list of those. Scores are oriented so that higher is
    better. Intervals come from resamples of whole stories; p-values are those of the usual test, which takes texts as
    independent. `limit` keeps so many texts an aspect, `rules` adds a row for each technique of an aspect.
    """
    using = interval or Interval()
    made, notes = metrics_for(metrics, columns)
    whole = read_suites(data, "discrimination", names)
    suites = [suite.limited(limit, using.seed) for suite in whole]
    wanted = chosen_aspects(suites, aspects)
    rows: list[Row] = []
    for suite in suites:
        texts, stories = suite.of_aspects(wanted)
        if texts is None:
            notes.append(f"{suite.name} has none of the aspects {', '.join(wanted)}")
            continue
        groups = _groups(texts, wanted, rules)
        notes += _notes_on_groups(texts, groups)
        scored = score_suite(texts, made, columns, progress=progress)
        notes += notes_on_missing(texts, scored)
        for one in scored:
            rows += _rows_of(texts, one, groups, stories, suite.story_count, using)
            if one.originals is None:
                notes.append(f"{one.label} on {suite.name}: no paired accuracy without scores of the original stories")
    notes.append("intervals resample stories; p-values take texts as independent, also those of one story")
    notes += [f"{suite.name} was made by {suite.made_by}" for suite in suites if suite.made_by]
    signature = signature_of("discrimination", whole, limit, aspects, using)
    return Discrimination(rows, signature, notes=tuple(notes))


def _groups(suite: Suite, aspects: Sequence[str], rules: bool) -> list[_Group]:
    """Aspects in order, each followed by its rules; at least one must have both classes."""
    found = []
    for aspect in (aspect for aspect in aspects if aspect in suite.aspects):
        mine = pl.col("aspect") == aspect
        found.append(_Group(aspect, None, _where(suite, mine)))
        if rules and "rule" in suite.texts.columns:
            worse = suite.texts.filter(mine & (pl.col("label") == 0))
            for rule in worse["rule"].drop_nulls().unique().sort().to_list():
                chosen = mine & ((pl.col("label") == 1) | (pl.col("rule") == rule))
                found.append(_Group(aspect, rule, _where(suite, chosen)))
    if not any(_has_both(suite, group) for group in found):
        raise DataError(
            "no aspect has both coherent (label 1) and incoherent (label 0) texts; expected both, to tell them apart",
            file=suite.name,
        )
    return found


def _where(suite: Suite, condition: pl.Expr) -> Array:
    rows: Array = suite.texts.select(condition.fill_null(False).arg_true()).to_series().to_numpy()
    return rows


def _has_both(suite: Suite, group: _Group) -> bool:
    return len(np.unique(suite.labels[group.rows])) == 2


def _notes_on_groups(suite: Suite, groups: Sequence[_Group]) -> list[str]:
    """Aspects that cannot be tested, or have no interval."""
    notes = []
    for group in (group for group in groups if group.rule is None):
        size = len(group.rows)
        if not _has_both(suite, group):
            kind = "coherent" if suite.labels[group.rows[0]] else "incoherent"
            notes.append(
                f"{group.aspect} of {suite.name} has {kind} texts only ({size}): no correlation and no AUC there"
            )
        elif size < FEWEST_FOR_INTERVAL:
            notes.append(
                f"{group.aspect} of {suite.name} has {size} texts: no interval, which takes {FEWEST_FOR_INTERVAL}"
            )
    return notes


def _rows_of(
    suite: Suite, one: Scored, groups: Sequence[_Group], stories: Array, count: int, using: Interval
) -> list[Row]:
    """A metric's rows on one suite: each group, and the average of aspects."""
    rows: list[Row] = []
    statistics: list[dict[str, Statistic]] = []
    for group in groups:
        row, found = _tested(suite, one, group, stories)
        rows.append(row)
        statistics.append(found)
    wanted = [
        (place, key)
        for place, found in enumerate(statistics)
        for key, statistic in found.items()
        if len(statistic.x) >= FEWEST_FOR_INTERVAL and len(np.unique(statistic.stories)) > 1
    ]
    drawn = resampled_by_story([statistics[place][key] for place, key in wanted], count, using)
    draws = dict(zip(wanted, drawn, strict=True))
    for (place, key), values in draws.items():
        rows[place][f"{key}_ci"] = pair(percentiles(values, using.confidence))
    return [*rows, _average(rows, draws, using)]


def _tested(suite: Suite, one: Scored, group: _Group, stories: Array) -> tuple[Row, dict[str, Statistic]]:
    """What a metric reaches on a group of texts, and the statistics to resample."""
    rows = group.rows[~np.isnan(one.values[group.rows])]
    values, labels = one.values[rows], suite.labels[rows]
    coherent = int(labels.sum())
    row: Row = {
        "task": suite.name, "metric": one.label, "aspect": group.aspect, "rule": group.rule, "n": len(rows),
        "coherent": coherent, "incoherent": len(rows) - coherent, "excluded": len(group.rows) - len(rows),
        "pearson": None, "pearson_ci": None, "pearson_p": None, "auc": None, "auc_ci": None, "pairs": 0,
        "paired_accuracy": None, "paired_accuracy_ci": None, "signature": one.signature,
    }  # fmt: skip
    found: dict[str, Statistic] = {}
    if len(rows) >= FEWEST and 0 < coherent < len(rows):
        test = correlation_test(values, labels, "pearson")
        if np.isfinite(test.value):
            row |= {"pearson": test.value, "pearson_p": finite(test.p)}
            found["pearson"] = Statistic(weighted_pearson, values, labels, stories[rows])
        found["auc"] = Statistic(weighted_auc, values, labels, stories[rows])
        row["auc"] = found["auc"].value
    if one.originals is not None:
        worse = rows[labels == 0]
        worse = worse[~np.isnan(one.originals[worse])]
        row["pairs"] = len(worse)
        if len(worse):
            found["paired_accuracy"] = Statistic(weighted_wins, one.originals[worse], one.values[worse], stories[worse])
            row["paired_accuracy"] = found["paired_accuracy"].value
    return row, found


def weighted_wins(originals: Array, worse: Array, weights: Array) -> Array:
    """How often the original has the higher score in each row of weights, ties half; not a number of none at all."""
    wins = (np.sign(originals - worse) + 1) / 2
    total = weights.sum(axis=1)
    share: Array = np.divide(weights @ wins, total, out=np.full(len(weights), np.nan), where=total > 0)
    return share


def _average(rows: Sequence[Row], draws: Mapping[tuple[int, str], Array], using: Interval) -> Row:
    """The mean of a metric over aspects; aspects without a value have no part in it."""
    aspects = [place for place, row in enumerate(rows) if row["rule"] is None]
    mean: Row = dict.fromkeys(rows[0]) | {key: rows[0][key] for key in ("task", "metric", "signature")}
    mean["aspect"] = AVERAGE
    mean |= {
        key: sum(rows[place][key] for place in aspects) for key in ("n", "coherent", "incoherent", "excluded", "pairs")
    }
    for key in _FOUND:
        known = [place for place in aspects if rows[place][key] is not None]
        if not known:
            continue
        mean[key] = float(np.mean([rows[place][key] for place in known]))
        if all((place, key) in draws for place in known):
            drawn = np.mean([draws[place, key] for place in known], axis=0)
            mean[f"{key}_ci"] = pair(percentiles(drawn, using.confidence))
    return mean
