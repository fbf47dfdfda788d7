"""Does a metric stay as good on other generators and on other data (paper 4, section 4.3, Tables 4 and 5)?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option, required
from nlgauge.drawing import PALETTE, alt, inline
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.base import Metric
from nlgauge.metrics.registry import create_metric
from nlgauge.stats.correlation import (
    Weighted,
    area_interval,
    correlation_test,
    difference_interval,
    fisher_interval,
    fisher_p,
    group_numbers,
    resample_weights,
    weighted_pearson,
)
from nlgauge.stats.inference import Inference
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, View, finite, pair, with_interval
from nlgauge.studies.sentences import ALPHA, between, listed
from nlgauge.studies.story.ceilings import COLUMNS, rated_truth, split_ratings, with_truth
from nlgauge.studies.story.correlation import CORRELATIONS, CorrelationStudy
from nlgauge.studies.story.correlation_levels import FEWEST, FEWEST_FOR_INTERVAL
from nlgauge.studies.tasks import (
    Measured,
    MetricOptions,
    Task,
    metrics_option,
    notes_about,
    ratings_in,
    refuse_strangers,
    tasks_of,
    units_fact,
)

_BY_GENERATOR = (
    Column("task"),
    Column("metric"),
    Column("group", "generator"),
    Column("n"),
    *(replace(column, beside=False) for column in CORRELATIONS),
    Column("spread"),
    Column("same_p", "p of no spread", digits=3),
)
_CEILING = (Column("ceiling", beside=True), Column("ceiling_ci", beside=True))


@dataclass(frozen=True, kw_only=True)
class Drift(Inference, MetricOptions, Study):
    """Is a metric as good on other generators, and on other data than it was trained on?

    With `generator`, the correlation of every metric with the truth on the texts of each generator (paper 4, Table 4),
    and of all ("overall"). `spread`, beside the overall row, is the largest of the generators' Pearson correlations
    less the smallest. `same_p` is the p-value of their being all the same: a chi-square test of Fisher's z, which takes
    generators as independent samples.

    Without it, files are test sets (Table 5), at least two, and `tasks` are their names: Pearson's correlation with
    the truth, and AUC where the truth has two values (1 for real and 0 for perturbed texts). A metric was trained on
    the test set whose name is a word of its own name: `union-roc` or `union (ROC)` on ROC. `drop`, on the others, is
    the correlation on that one less the correlation here, with an interval.

    Where the single ratings behind the truth are known, as in `study correlation`, `ceiling` is what a metric without
    any error would have.
    """

    name: ClassVar[str] = "drift"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study drift stories.jsonl --truth human --generator model -m bleu -m rouge-l",
        "nlgauge study drift roc.jsonl wp.jsonl --tasks ROC,WP --truth label -m union-roc=union:model=FOLDER",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        Column("metric"),
        Column("trained_on", "trained on"),
        Column("n"),
        Column("pearson", beside=True, p_value="pearson_p"),
        Column("pearson_ci", beside=True),
        *with_interval("auc", "AUC", beside=True),
        Column("drop", beside=True),
        Column("drop_ci", beside=True),
    )
    aspect: ClassVar[str] = "quality"

    metrics: Sequence[str | Metric] = metrics_option(
        "A metric, perhaps under another name; a name such as union-roc says which test set it was trained on.",
        metavar="[NAME=]METRIC",
    )
    truth: str = required("Column of human scores, or of labels 1 and 0.", metavar="COL")
    generator: str | None = option(
        None, "Column of generators, to compare these; without it, files are compared.", metavar="COL"
    )
    raters: Sequence[str] = option(
        (),
        "Columns of single raters behind the truth ('rating_*'): adds a noise ceiling.",
        metavar="COL",
        flags=("--rater",),
        signed=False,
    )

    def compute(self, data: StudyData) -> Result:
        """Correlations of every metric by generator, or by test set."""
        titles: dict[str, str] = {}
        metrics: list[str | Metric] = []
        for title, one in named_metrics(self.metrics).items():
            if title != one:
                one = create_metric(one) if isinstance(one, str) else one
                titles[one.label] = title
            metrics.append(one)
        plain = replace(self, metrics=metrics)
        compare = plain._between_tests if self.generator is None else plain._between_generators
        found = compare(data, titles)
        notes = (*found.notes, *(f"{title} is {label}" for label, title in titles.items() if title != label))
        return replace(found, study=self, notes=notes)

    def _between_generators(self, data: StudyData, titles: Mapping[str, str]) -> Result:
        shared = {name: value for name, value in vars(self).items() if name != "generator"}
        generator = self.generator or ""
        found = CorrelationStudy(**shared, groups=(generator,), significance=False).compute(data)
        rows: list[Row] = []
        for task, metric in dict.fromkeys((row["task"], row["metric"]) for row in found.rows):
            mine = [row for row in found.rows if (row["task"], row["metric"]) == (task, metric)]
            groups = [row for row in mine if row["column"] == generator]
            if len(groups) < 2:
                names = ", ".join(row["group"] for row in groups) or "none"
                raise DataError(f"generators: {names}; expected at least 2 to compare", file=task, column=generator)
            overall = next(row for row in mine if row["column"] is None)
            rows += [{**row, "spread": None, "same_p": None} for row in groups]
            rows.append(overall | spread_between(groups))
        rows = [row | {"metric": titles.get(row["metric"], row["metric"])} for row in rows]
        notes = (
            *found.notes,
            "overall compares texts of different generators, too: it can exceed every generator's own",
            "the p of no spread takes generators as independent, also where they answer the same contexts",
        )
        return Result(self, rows, notes, found.facts)

    def _between_tests(self, data: StudyData, titles: Mapping[str, str]) -> Result:
        if self.by is None:
            _check_tests(len(data.entries))
        behind, others = split_ratings(ratings_in(self.ratings), self.truth)
        tasks = [with_truth(task, self.truth, behind) for task in tasks_of(replace(self, ratings=others), data)]
        _check_tests(len(tasks))
        if behind is not None:
            refuse_strangers(behind, tasks)
        tests = [task.name for task in tasks]
        notes = notes_about(tasks, self.unit)
        rows: list[Row] = []
        for place, task in enumerate(tasks):
            labels = task.numbers(self.truth, "truth")
            if np.ptp(labels) == 0:
                message = f"all items have {labels[0]:g}; expected at least two different labels"
                raise DataError(message, file=task.name, column=self.truth)
            rated = rated_truth(task, labels, self.raters, behind, self, notes)
            for one in task.measured:
                title = titles.get(one.label, one.label)
                row = _tested(task, one, labels, self, self.seed + place)
                if rated is not None:
                    cells = rated.cells(np.flatnonzero(one.defined), task.units(self.unit).of)
                    row |= {column.key: cells[column.key] for column in _CEILING}
                rows.append(row | {"metric": title, "trained_on": home_of(title, tests)})
                if row["pearson"] is None:
                    notes.append(f"{title} has too few values on {task.name}, or the same on all items: no correlation")
        notes += _add_drops(rows, tests)
        contexts = [{context for context in task.contexts if context} for task in tasks]
        if len(set().union(*contexts)) < sum(map(len, contexts)):
            notes.append("test sets share contexts: the interval of a drop takes them as independent even so")
        facts = {"tests": "/".join(tests), **units_fact(tasks, self.unit)}
        if any("ceiling" in row for row in rows):
            facts |= {"ceiling": "icc", "raters": "+".join(self.raters) or "ratings"}
        return Result(self, rows, tuple(notes), facts)

    def sentence(self, result: Result) -> str:
        """Which metrics differ between generators (by a test), or drop on other data (by an interval)."""
        return _drops(result.rows) if self.generator is None else _differences(result)

    def views(self, result: Result) -> Sequence[View]:
        """Generators below each other, test sets side by side; with ceilings where these are known."""
        shown, ceilings = (self.layout, _CEILING) if self.generator is None else (_BY_GENERATOR, COLUMNS)
        known = any("ceiling" in row for row in result.rows)
        return (View((*shown, *ceilings) if known else shown, result.rows),)

    def chart(self, result: Result) -> Any:
        """Each correlation with its interval, one panel per metric, so that differences stand out."""
        panels = []
        for name in dict.fromkeys(row["metric"] for row in result.rows):
            mine = [row for row in result.rows if row["metric"] == name and row["pearson"] is not None]
            bounds = [row["pearson_ci"] or (row["pearson"], row["pearson"]) for row in mine]
            points = [
                {"on": _place(row, result.tasks), "pearson": row["pearson"], "low": low, "high": high}
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


def _check_tests(count: int) -> None:
    if count < 2:
        raise OptionError(
            f"{count} test sets; expected at least 2, to see a difference between them, or a column of generators: "
            f"{argument('generator')}"
        )


def named_metrics(entries: Sequence[str | Metric]) -> dict[str, str | Metric]:
    """Metrics by name, from `NAME=METRIC`; one without a name names itself. Options of a metric follow a colon."""
    found: dict[str, str | Metric] = {}
    for entry in entries:
        name, value = (entry.label, entry) if isinstance(entry, Metric) else _split(entry)
        if not name or not value:
            raise OptionError(f"{argument('metrics', entry)}; expected NAME=METRIC, as in union-roc=union:model=FOLDER")
        if name in found:
            raise OptionError(f"{argument('metrics', name)} is duplicated; expected different names")
        found[name] = value
    return found


def _split(entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    return (name, value) if equals and ":" not in name else (entry, entry)


def _differences(result: Result) -> str:
    """Which metrics' correlations differ between generators."""
    parts = []
    for task in result.tasks:
        tested = [row for row in result.rows if row["task"] == task and row["same_p"] is not None]
        differ = [f"{row['metric']} (p = {row['same_p']:.2g})" for row in tested if row["same_p"] < ALPHA]
        same = [str(row["metric"]) for row in tested if row["same_p"] >= ALPHA]
        where = f" on {task}" if len(result.tasks) > 1 else ""
        if differ:
            parts.append(f"Correlations{where} differ between generators for {listed(differ)}.")
        if same:
            parts.append(f"No difference between generators{where} was found for {listed(same)}.")
        if not tested:
            parts.append(f"Correlations of generators{where} could not be compared.")
    return " ".join(parts)


def _drops(rows: Sequence[Row]) -> str:
    """Which metrics lose on other data than their own."""
    tested = [row for row in rows if row["drop_ci"] is not None]
    if not tested:
        return "No drop was tested: no metric has the name of a test set in its own, or there are too few items."
    lost = [
        f"{row['metric']} on {row['task']} (by {row['drop']:.2f} {between(row['drop_ci'])})"
        for row in tested
        if row["drop_ci"][0] > 0
    ]
    others = [f"{row['metric']} on {row['task']}" for row in tested if row["drop_ci"][0] <= 0]
    parts = [f"Correlations are lower than on a metric's own data: {listed(lost)}."] if lost else []
    parts += [f"No drop was found for {listed(others)}."] if others else []
    return " ".join(parts)


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


def home_of(metric: str, tests: Sequence[str]) -> str | None:
    """The test set that stands in a metric's name as a word, in either case; None where none does."""
    found = [test for test in tests if re.search(rf"(?<![^\W_]){re.escape(test)}(?![^\W_])", metric, re.IGNORECASE)]
    if len(found) > 1:
        raise OptionError(f"the metric '{metric}' names the test sets {', '.join(found)}; expected one at most")
    return found[0] if found else None


def _tested(task: Task, one: Measured, labels: Array, using: Drift, seed: int) -> Row:
    """A metric on one test set; with intervals where there are enough items."""
    values, truth, groups = one.values[one.defined], labels[one.defined], task.units(using.unit).of
    mine = None if groups is None else groups[one.defined]
    row: Row = {"task": task.name, "group": task.name, "metric": one.label, "trained_on": None, "n": len(values)}
    row |= dict.fromkeys(("pearson", "pearson_p", "pearson_ci", "auc", "auc_ci", "drop", "drop_ci"))
    row["signature"] = one.signature
    if len(values) < FEWEST or np.ptp(values) == 0 or np.ptp(truth) == 0:
        return row
    found = correlation_test(values, truth, "pearson")
    row |= {"pearson": finite(found.value), "pearson_p": finite(found.p)}
    binary = len(np.unique(truth)) == 2
    if binary:
        row["auc"] = float(weighted_auc(values, truth, np.ones((1, len(values))))[0])
    if len(values) < FEWEST_FOR_INTERVAL or (mine is not None and len(np.unique(mine)) < 2):
        return row
    units = len(values) if mine is None else len(np.unique(mine))
    drawn = _draws(weighted_pearson, values, truth, mine, using.resamples, seed)
    row["pearson_ci"] = pair(fisher_interval(found.value, drawn, units, using.level))
    if mine is not None and row["pearson_ci"] is not None:
        row["pearson_p"] = finite(fisher_p(found.value, row["pearson_ci"], units, using.level))
    if binary:
        areas = _draws(weighted_auc, values, truth, mine, using.resamples, seed)
        row["auc_ci"] = pair(area_interval(row["auc"], areas, units, using.level))
    return row


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


def _add_drops(rows: Sequence[Row], tests: Sequence[str]) -> list[str]:
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
            if own["pearson_ci"] is not None and row["pearson_ci"] is not None:
                drop = difference_interval(own["pearson"], own["pearson_ci"], row["pearson"], row["pearson_ci"])
                row["drop_ci"] = pair(drop)
    return notes
