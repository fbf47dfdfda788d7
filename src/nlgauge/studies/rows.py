"""Rows that studies share: correlations with a truth and their intervals, and which metrics differ significantly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.clusters import compare_metrics
from nlgauge.stats.correlation import Kind, bootstrap_intervals, correlation
from nlgauge.stats.inference import Inference
from nlgauge.studies.base import Row, pair
from nlgauge.studies.tasks import Measured, MetricTests, Task

ALPHA = 0.05


def correlation_row(
    task: Task,
    one: Measured,
    truth: Array,
    inference: Inference,
    *,
    groups: Array | None = None,
    kinds: Sequence[Kind] = ("spearman",),
) -> Row:
    """Correlations of one metric with the truth on the sets where it has a value; None where there is none."""
    values, known = one.values[one.defined], truth[one.defined]
    row: Row = {"task": task.name, "metric": one.label, "n": len(values), "signature": one.signature}
    for kind in kinds:
        row |= {kind: None, f"{kind}_ci": None}
        if len(values) >= 3 and np.ptp(values) and np.ptp(known):
            mine = None if groups is None else groups[one.defined]
            interval = correlation_interval(values, known, kind, inference, mine)
            row |= {kind: correlation(values, known, kind), f"{kind}_ci": interval}
    return row


def correlation_interval(
    values: Array, truth: Array, kind: Kind, inference: Inference, groups: Array | None
) -> list[float] | None:
    """The bootstrap interval of a correlation, for a row."""
    found = bootstrap_intervals(
        values[None],
        truth,
        kind,
        confidence=inference.level,
        resamples=inference.resamples,
        seed=inference.seed,
        groups=groups,
    )
    return pair(found[0])


def notes_on_rows(rows: list[Row], task: Task, truth: Array, study: MetricTests) -> list[str]:
    """Fill in which metrics of a task do not differ, if the study tests that; notes for the reader."""
    same = [row["metric"] for row in rows if row["spearman"] is None and row["n"]]
    notes = [f"{metric} is the same on all sets of {task.name or 'the data'}: no correlation" for metric in same]
    if study.significance:
        groups = task.units(study.unit).of
        notes += add_clusters(rows, task, truth, groups, permutations=study.permutations, seed=study.seed)
    return notes


def add_clusters(
    rows: list[Row], task: Task, truth: Array, groups: Array | None, *, permutations: int, seed: int
) -> list[str]:
    """Fill in `cluster` and `tied_with` of a task's rows, from the sets on which all of its metrics have a value.

    Rows of metrics without a correlation stay as they are. Returns notes for the reader.
    """
    mine = {row["metric"]: row for row in rows if row["task"] == task.name and row["spearman"] is not None}
    measured = [one for one in task.measured if one.label in mine]
    if len(measured) < 2:
        return []
    common = np.logical_and.reduce([one.defined for one in measured])
    notes = []
    if not common.all():
        notes.append(f"metrics are compared on the {int(common.sum())} sets{task.where} where all have a value")
    if groups is not None and len(set(groups[common].tolist())) < 2:
        words = "are not compared: all sets with a value of every metric share one context"
        return [*notes, f"metrics{task.where} {words}"]
    if common.sum() < 3 or np.ptp(truth[common]) == 0 or any(np.ptp(one.values[common]) == 0 for one in measured):
        return [*notes, f"too few sets{task.where} have a value of every metric: no comparison between metrics"]
    compared = compare_metrics(
        {one.label: one.values[common] for one in measured},
        truth[common],
        groups=None if groups is None else groups[common],
        permutations=permutations,
        seed=seed,
        alpha=ALPHA,
    )
    for name, cluster in zip(compared.names, compared.clusters, strict=True):
        mine[name]["cluster"] = cluster
        mine[name]["tied_with"] = compared.ties(name)
    return notes
