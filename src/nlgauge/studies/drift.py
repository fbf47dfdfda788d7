"""Does a metric stay as good on other generators and on other data (paper 4, section 4.3, Tables 4 and 5)?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.drawing import PALETTE, inline
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.registry import create_metric
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import (
    Weighted,
    correlation_test,
    group_numbers,
    percentiles,
    resample_weights,
    weighted_pearson,
)
from nlgauge.studies.base import Row, Study, finite, pair
from nlgauge.studies.correlation import correlation_study
from nlgauge.studies.correlation_levels import FEWEST, FEWEST_FOR_INTERVAL
from nlgauge.studies.tasks import Measured, Over, Task, make_tasks, notes_about, resampled_units


@dataclass(frozen=True)
class _Drift(Study):
    """Pearson's correlations with intervals, one panel a metric."""

    name: ClassVar[str] = "drift"
    p_values: ClassVar[Mapping[str, str]] = {"pearson": "pearson_p"}

    def chart(self) -> Any:
        """Each correlation with its interval, a panel a metric, so that differences stand out."""
        import altair as alt

        panels = []
        for name in dict.fromkeys(row["metric"] for row in self.rows):
            mine = [row for row in self.rows if row["metric"] == name and row["pearson"] is not None]
            bounds = [row["pearson_ci"] or (row["pearson"], row["pearson"]) for row in mine]
            points = [
                {"on": _place(row, self.tasks), "pearson": row["pearson"], "low": low, "high": high}
                for row, (low, high) in zip(mine, bounds, strict=True)
            ]
            base = alt.Chart(inline(points), title=name, width=260)
            across = alt.Y("on:N", sort=None, title=None)
            rules = base.mark_rule(color=PALETTE[0]).encode(x=alt.X("low:Q", title="pearson"), x2="high:Q", y=across)
            dots = base.mark_circle(size=70, color=PALETTE[0]).encode(
                x="pearson:Q", y=across, tooltip=["on:N", "pearson:Q"]
            )
            panels.append(alt.layer(rules, dots))
        return alt.concat(*panels, columns=3).resolve_scale(x="shared")


def _place(row: Row, tasks: Sequence[str]) -> str:
    """What a correlation is over, in a chart."""
    return str(row["group"]) if len(tasks) == 1 or row["group"] == row["task"] else f"{row['task']}: {row['group']}"


@dataclass(frozen=True)
class ModelDrift(_Drift):
    """Correlations of every metric on the texts of each generator (Table 4), and of all ("overall").

    `spread`, beside the overall row, is the largest of the generators' Pearson correlations less the smallest.
    `same_p` is the p-value of their being all the same: a chi-square test of Fisher's z, which takes generators as
    independent samples.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "task", "metric", "group", "n", "pearson", "pearson_ci", "spearman", "spearman_ci", "kendall", "kendall_ci",
        "spread", "same_p",
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"group": "generator", "same_p": "p of no spread"}
    digits: ClassVar[Mapping[str, int]] = {"same_p": 3}
    p_values: ClassVar[Mapping[str, str]] = {kind: f"{kind}_p" for kind in ("pearson", "spearman", "kendall")}


@dataclass(frozen=True)
class DatasetDrift(_Drift):
    """Metrics on test sets (Table 5): Pearson's correlation with the label, and AUC where the label has two values.

    `trained_on` is the test set that a metric's name names; `drop`, on the others, is the correlation on that one less
    the correlation here, with an interval.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "metric", "trained_on", "n", "pearson", "pearson_ci", "auc", "auc_ci", "drop", "drop_ci",
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ("pearson", "pearson_ci", "auc", "drop", "drop_ci")
    titles: ClassVar[Mapping[str, str]] = {"auc": "AUC", "trained_on": "trained on"}


def model_drift(
    data: Any,
    metrics: Sequence[str | Metric] = (),
    *,
    truth: str,
    generator: str,
    columns: Sequence[str] = (),
    over: Over = "auto",
    interval: Interval | None = None,
    decimals: int | None = None,
    **reading: Any,
) -> ModelDrift:
    """Correlate metrics with `truth` on the texts of each value of the column `generator` (paper 4, Table 4)."""
    study = correlation_study(
        data, metrics, truth=truth, groups=(generator,), columns=columns, significance=False, over=over,
        interval=interval, decimals=decimals, **reading,
    )  # fmt: skip
    rows: list[Row] = []
    for task, metric in dict.fromkeys((row["task"], row["metric"]) for row in study.rows):
        mine = [row for row in study.rows if (row["task"], row["metric"]) == (task, metric)]
        groups = [row for row in mine if row["column"] == generator]
        if len(groups) < 2:
            found = ", ".join(row["group"] for row in groups) or "none"
            raise DataError(f"generators: {found}; expected at least 2 to compare", file=task, column=generator)
        overall = next(row for row in mine if row["column"] is None)
        rows += [{**row, "spread": None, "same_p": None} for row in groups]
        rows.append(overall | spread_between(groups))
    notes = [
        *study.notes,
        "overall compares texts of different generators, too: it can exceed every generator's own",
        "the p of no spread takes generators as independent, also where they answer the same contexts",
    ]
    kept = {key: value for key, value in study.signature.options.items() if key not in ("groups", "test")}
    return ModelDrift(rows, Signature("drift", {"generator": generator, **kept}), notes=tuple(notes))


def spread_between(groups: Sequence[Row]) -> Row:
    """How far the correlations of groups lie apart, and the p-value of their being one."""
    from scipy.special import chdtrc

    known = [row for row in groups if row["pearson"] is not None]
    r, n = np.array([row["pearson"] for row in known]), np.array([row["n"] for row in known])
    if len(known) < 2:
        return {"spread": None, "same_p": None}
    spread = float(np.ptp(r))
    if (np.abs(r) >= 1).any() or (n < FEWEST + 1).any():
        return {"spread": spread, "same_p": None}
    z, weights = np.arctanh(r), n - 3.0
    distance = float(weights @ (z - np.average(z, weights=weights)) ** 2)
    return {"spread": spread, "same_p": float(chdtrc(len(known) - 1, distance))}


def dataset_drift(
    tests: Mapping[str, Any],
    metrics: Mapping[str, str | Metric] | None = None,
    *,
    truth: str,
    columns: Sequence[str] = (),
    over: Over = "auto",
    interval: Interval | None = None,
    decimals: int | None = None,
    **reading: Any,
) -> DatasetDrift:
    """Test metrics on several test sets: those they were trained for, and others (paper 4, Table 5).

    `tests` has data by name, `metrics` metrics by name (columns of the data have a name already). A metric was trained
    on the test set whose name stands in its own name as a word: `union-roc` or `union (ROC)` on ROC. `truth` is the
    column of the label: 1 for real and 0 for perturbed texts, or human scores.
    """
    if len(tests) < 2:
        raise OptionError(f"{len(tests)} test sets; expected at least 2, to see a difference between them")
    using = interval or Interval()
    named = {name: create_metric(one) if isinstance(one, str) else one for name, one in (metrics or {}).items()}
    titles = {one.label: name for name, one in named.items()}
    tasks = make_tasks(
        list(tests.values()), list(named.values()), columns=columns, names=list(tests), decimals=decimals, **reading
    )
    notes = notes_about(tasks, over)
    notes += [f"{name} is {one.label}" for name, one in named.items() if name != one.label]
    rows: list[Row] = []
    draws: dict[tuple[str, str], Array | None] = {}
    for place, task in enumerate(tasks):
        labels = task.numbers(truth, "label")
        if np.ptp(labels) == 0:
            raise DataError(
                f"all items have {labels[0]:g}; expected at least two different labels", file=task.name, column=truth
            )
        for one in task.measured:
            title = titles.get(one.label, one.label)
            row, drawn = _tested(task, one, labels, over, using, seed=using.seed + place)
            rows.append(row | {"metric": title, "trained_on": home_of(title, list(tests))})
            draws[title, task.name] = drawn
            if row["pearson"] is None:
                notes.append(f"{title} has too few values on {task.name}, or the same on all items: no correlation")
    notes += _add_drops(rows, draws, list(tests), using)
    contexts = [{context for context in task.contexts if context} for task in tasks]
    if len(set().union(*contexts)) < sum(map(len, contexts)):
        notes.append("test sets share contexts: the interval of a drop takes them as independent even so")
    options = {
        "truth": truth, "tests": "/".join(tests), "over": resampled_units(tasks, over), "ci": f"{using.confidence:g}",
        "by": f"bootstrap-{using.resamples}", "seed": str(using.seed),
    }  # fmt: skip
    options |= {} if decimals is None else {"decimals": str(decimals)}
    return DatasetDrift(rows, Signature("drift", options), notes=tuple(notes))


def home_of(metric: str, tests: Sequence[str]) -> str | None:
    """The test set that stands in a metric's name as a word, in either case; None where none does."""
    found = [
        test for test in tests if re.search(rf"(?<![^\W_]){re.escape(test)}(?![^\W_])", metric, flags=re.IGNORECASE)
    ]
    if len(found) > 1:
        raise OptionError(f"the metric '{metric}' names the test sets {', '.join(found)}; expected one at most")
    return found[0] if found else None


def _tested(
    task: Task, one: Measured, labels: Array, over: Over, using: Interval, *, seed: int
) -> tuple[Row, Array | None]:
    """A metric on one test set, and its correlation in resamples where there are enough items for an interval."""
    values, truth, groups = one.values[one.defined], labels[one.defined], task.groups(over)
    mine = None if groups is None else groups[one.defined]
    row: Row = {
        "task": task.name, "group": task.name, "metric": one.label, "trained_on": None, "n": len(values),
        "pearson": None, "pearson_p": None, "pearson_ci": None, "auc": None, "auc_ci": None, "drop": None,
        "drop_ci": None, "signature": one.signature,
    }  # fmt: skip
    if len(values) < FEWEST or np.ptp(values) == 0 or np.ptp(truth) == 0:
        return row, None
    found = correlation_test(values, truth, "pearson")
    row |= {"pearson": finite(found.value), "pearson_p": finite(found.p)}
    binary = len(np.unique(truth)) == 2
    if binary:
        row["auc"] = float(weighted_auc(values, truth, np.ones((1, len(values))))[0])
    if len(values) < FEWEST_FOR_INTERVAL or (mine is not None and len(np.unique(mine)) < 2):
        return row, None
    drawn = _draws(weighted_pearson, values, truth, mine, using.resamples, seed)
    row["pearson_ci"] = pair(percentiles(drawn, using.confidence))
    if binary:
        areas = _draws(weighted_auc, values, truth, mine, using.resamples, seed)
        row["auc_ci"] = pair(percentiles(areas, using.confidence))
    return row, drawn


def weighted_auc(values: Array, labels: Array, weights: Array) -> Array:
    """The area under the ROC curve in each row of weights: how often the larger label has the larger value.

    A tie counts half; a resample of one class only has no area.
    """
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(values[order]) > 0))
    high = (labels == labels.max())[order]
    weights = weights[:, order].astype(np.float64)
    ups = np.add.reduceat(weights * high, starts, axis=1)
    downs = np.add.reduceat(weights * ~high, starts, axis=1)
    below = np.cumsum(downs, axis=1) - downs / 2
    pairs = ups.sum(axis=1) * downs.sum(axis=1)
    area: Array = np.divide((ups * below).sum(axis=1), pairs, out=np.full(len(weights), np.nan), where=pairs > 0)
    return area


def _draws(statistic: Weighted, values: Array, truth: Array, groups: Array | None, resamples: int, seed: int) -> Array:
    """A statistic in resamples of items or of whole groups, whatever order the items came in."""
    order = np.lexsort((truth, values))
    numbers = np.arange(len(values)) if groups is None else group_numbers(groups, len(values))[order]
    blocks = resample_weights(int(numbers.max()) + 1, resamples, seed)
    return np.concatenate([statistic(values[order], truth[order], counts[:, numbers]) for counts in blocks])


def _add_drops(
    rows: Sequence[Row], draws: Mapping[tuple[str, str], Array | None], tests: Sequence[str], using: Interval
) -> list[str]:
    """Fill in how much less a metric correlates on foreign data than on its own; returns notes."""
    notes = []
    by_place = {(row["metric"], row["task"]): row for row in rows}
    for metric in dict.fromkeys(row["metric"] for row in rows):
        missing = [test for test in tests if (metric, test) not in by_place]
        if missing:
            notes.append(f"{metric} is not a column of {', '.join(missing)}")
        home = next(row["trained_on"] for row in rows if row["metric"] == metric)
        if home is None:
            notes.append(f"{metric} has none of the names {', '.join(tests)} in its name: no drop from own data")
            continue
        own = by_place.get((metric, home))
        for test in tests:
            row = by_place.get((metric, test))
            if test == home or own is None or row is None or own["pearson"] is None or row["pearson"] is None:
                continue
            row["drop"] = own["pearson"] - row["pearson"]
            first, second = draws[metric, home], draws[metric, test]
            if first is not None and second is not None:
                row["drop_ci"] = pair(percentiles(first - second, using.confidence))
    return notes
