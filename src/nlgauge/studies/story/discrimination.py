"""Can a metric tell coherent stories from those made worse in one aspect (paper 4, section 4.4, Table 6)?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import DataError
from nlgauge.stats.correlation import weighted_pearson
from nlgauge.stats.permutation import label_permutation
from nlgauge.studies.base import Column, Result, Row, with_interval
from nlgauge.studies.story.correlation_levels import FEWEST, FEWEST_FOR_INTERVAL
from nlgauge.studies.story.drift import weighted_auc
from nlgauge.studies.story.perturbed import PEARSON, Group, PerturbedStudy, Scored, Statistic, counted
from nlgauge.studies.story.suites import Part, Suite


@dataclass(frozen=True, kw_only=True)
class DiscriminationTest(PerturbedStudy):
    """Can a metric tell stories from those made worse in one aspect? Pearson, AUC, accuracy over pairs.

    Files are folders that `nlgauge perturb build` wrote, their `discrimination.jsonl`, or files of your own with the
    columns id, story, aspect, label (1 coherent, 0 incoherent) and text. Scores are oriented so that higher is better.
    Intervals come from resamples of whole stories; p-values from permutations of labels within stories, and between
    stories whose texts all have one label.

    `paired_accuracy` is the share of incoherent texts that score below the human story they were made from, ties half;
    unlike the other two it is not misled by differences between stories. The row of the aspect "average" has the means
    over aspects. `rule` is a technique of an aspect: its incoherent texts with all coherent ones of the aspect.
    """

    name: ClassVar[str] = "discrimination"
    part: ClassVar[Part] = "discrimination"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study discrimination suites/roc suites/wp -m ppl -m distinct --chart discrimination.html",
        "nlgauge study discrimination suites/roc -m union:model=FOLDER --aspect consistency --rules",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *map(Column, ("task", "metric", "aspect", "rule", "n", "coherent", "incoherent")),
        *with_interval("pearson", digits=3, p_value="pearson_p"),
        *with_interval("auc", "AUC"),
        *with_interval("paired_accuracy", "paired accuracy"),
    )
    printed: ClassVar[tuple[Column, ...]] = (PEARSON,)
    sums: ClassVar[tuple[str, ...]] = ("n", "coherent", "incoherent", "excluded", "pairs")
    means: ClassVar[tuple[str, ...]] = ("pearson", "auc", "paired_accuracy")
    diverging: ClassVar[bool] = True

    rules: bool = option(False, "Also a row for each technique of an aspect.")

    def groups_of(self, texts: Suite, aspects: Sequence[str]) -> tuple[list[Group], list[str]]:
        """Aspects in order, each followed by its rules; at least one must have both classes."""
        groups = []
        for aspect in (aspect for aspect in aspects if aspect in texts.aspects):
            mine = pl.col("aspect") == aspect
            groups.append(_group(texts, aspect, None, mine))
            if self.rules and "rule" in texts.texts.columns:
                worse = texts.texts.filter(mine & (pl.col("label") == 0))
                for rule in worse["rule"].drop_nulls().unique().sort().to_list():
                    chosen = mine & ((pl.col("label") == 1) | (pl.col("rule") == rule))
                    groups.append(_group(texts, aspect, rule, chosen))
        if not any(_has_both(texts, group) for group in groups):
            raise DataError(
                "no aspect has both coherent (label 1) and incoherent (label 0) texts; expected both, to compare them",
                file=texts.name,
            )
        return groups, _notes_on_groups(texts, groups)

    def tested(self, texts: Suite, one: Scored, group: Group, stories: Array) -> tuple[Row, dict[str, Statistic]]:
        """What a metric reaches on a group of texts, and the statistics to resample."""
        row, found = _tested(texts, one, group, stories, self.seed)
        return row, {
            key: statistic
            for key, statistic in found.items()
            if len(statistic.x) >= FEWEST_FOR_INTERVAL and len(np.unique(statistic.stories)) > 1
        }

    def notes_on(self, texts: Suite, one: Scored, rows: Sequence[Row]) -> list[str]:
        """Whether pairs with the original stories could not be compared."""
        del rows
        unpaired = f"{one.label} on {texts.name}: no paired accuracy without scores of the original stories"
        return [unpaired] if one.originals is None else []

    def place(self, row: Row, shown: Column) -> str | None:
        """The aspect; rules have no place in Table 6."""
        del shown
        return None if row["rule"] is not None else str(row["aspect"])

    def sentence(self, result: Result) -> str:
        """In how many aspects each metric tells coherent texts from worse ones, by its interval."""
        counts = counted(result, lambda row: row["pearson_ci"] is not None and row["pearson_ci"][0] > 0)
        return f"Aspects in which a metric tells coherent texts from worse ones (interval of r above 0): {counts}."


def _group(suite: Suite, aspect: str, rule: str | None, condition: pl.Expr) -> Group:
    rows = suite.texts.select(condition.fill_null(False).arg_true()).to_series().to_numpy()
    return Group({"aspect": aspect, "rule": rule}, rows)


def _has_both(suite: Suite, group: Group) -> bool:
    return len(np.unique(suite.labels[group.rows])) == 2


def _notes_on_groups(suite: Suite, groups: Sequence[Group]) -> list[str]:
    """Aspects that cannot be tested, or have no interval."""
    notes = []
    for group in (group for group in groups if group.names["rule"] is None):
        size, where = len(group.rows), f"{group.names['aspect']} of {suite.name} has"
        if not _has_both(suite, group):
            kind = "coherent" if suite.labels[group.rows[0]] else "incoherent"
            notes.append(f"{where} {kind} texts only ({size}): no correlation and no AUC there")
        elif size < FEWEST_FOR_INTERVAL:
            notes.append(f"{where} {size} texts: no interval, which takes {FEWEST_FOR_INTERVAL}")
    return notes


def _tested(suite: Suite, one: Scored, group: Group, stories: Array, seed: int) -> tuple[Row, dict[str, Statistic]]:
    """What a metric reaches on a group of texts, and the statistics to resample."""
    rows = group.rows[~np.isnan(one.values[group.rows])]
    values, labels = one.values[rows], suite.labels[rows]
    coherent = int(labels.sum())
    row: Row = {
        "task": suite.name,
        "metric": one.label,
        **group.names,
        "n": len(rows),
        "coherent": coherent,
        "incoherent": len(rows) - coherent,
        "excluded": len(group.rows) - len(rows),
        **dict.fromkeys(("pearson", "pearson_ci", "pearson_p", "auc", "auc_ci")),
        "pairs": 0,
        **dict.fromkeys(("paired_accuracy", "paired_accuracy_ci")),
        "signature": one.signature,
    }
    found: dict[str, Statistic] = {}
    if len(rows) >= FEWEST and 0 < coherent < len(rows):
        pearson = Statistic(weighted_pearson, values, labels, stories[rows])
        if np.isfinite(pearson.value):
            p = label_permutation(values, labels, groups=stories[rows], seed=seed)
            row |= {"pearson": pearson.value, "pearson_p": p}
            found["pearson"] = pearson
        found["auc"] = Statistic(weighted_auc, values, labels, stories[rows], "area")
        row["auc"] = found["auc"].value
    if one.originals is not None:
        worse = rows[labels == 0]
        worse = worse[~np.isnan(one.originals[worse])]
        row["pairs"] = len(worse)
        if len(worse):
            before, after = one.originals[worse], one.values[worse]
            found["paired_accuracy"] = Statistic(weighted_wins, before, after, stories[worse], "area")
            row["paired_accuracy"] = found["paired_accuracy"].value
    return row, found


def weighted_wins(originals: Array, worse: Array, weights: Array) -> Array:
    """How often the original has the higher score in each row of weights, ties half; not a number of none at all."""
    wins = (np.sign(originals - worse) + 1) / 2
    total = weights.sum(axis=1)
    share: Array = np.divide(weights @ wins, total, out=np.full(len(weights), np.nan), where=total > 0)
    return share
