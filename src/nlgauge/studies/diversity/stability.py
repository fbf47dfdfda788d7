"""Stability of human scores: how many sets and how many ratings per set are enough (paper 1, section 6.4, Figure 5)?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option
from nlgauge.data.tables import Ratings
from nlgauge.drawing import alt, inline
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.stats.correlation import correlation, optimal_accuracy
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, columns, facts_of
from nlgauge.studies.diversity.decoding import canonical_order
from nlgauge.studies.human import has_pairs
from nlgauge.studies.tasks import MetricOptions, Seed, Task, TaskOptions, ratings_in, tasks_of

TOLERANCE = 0.05


@dataclass(frozen=True, kw_only=True)
class Stability(Seed, TaskOptions, Study):
    """Plan a budget: score of a human metric by number of sets and of ratings, and what each plan costs.

    `ratings` are single answers (every question is a metric); ratings of a set are drawn without replacement. Where
    only a `column` of means is known with its standard deviations beside it (`x_mean` and `x_std`, over
    `ratings_per_set` ratings), means of fewer ratings are simulated from the normal distribution that such draws have,
    and the signature says so. Sets are drawn with replacement, so that more sets than there are can be planned.
    `price` is what one answer costs; a set takes as many answers per rating as it has rated pairs (simHDS).

    `spearman` is the mean over repeated draws and `spearman_sd` their standard deviation, the error that an experiment
    of that size has. A plan is `stable` when the mean is within the tolerance of the score of all data, and the
    standard deviation is no larger than it.
    """

    name: ClassVar[str] = "stability"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study stability sets.csv --ratings ratings.csv --price 0.18 --chart stability.html",
        "nlgauge study stability sets.csv --column metric_abs_hds_mean --ratings-per-set 10",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *columns("metric", "sets", "ratings", spearman="rho", spearman_sd="sd", oca="OCA", oca_sd="OCA sd"),
        *columns("cost", "stable"),
    )
    aspect: ClassVar[str] = "raters"

    ratings: str | Path | Ratings | None = option(
        None, "Single ratings: item, rater, question, value.", metavar="FILE", signed=False
    )
    column: str | None = option(
        None, "Means, with standard deviations beside them (x_mean, x_std).", metavar="COL", signed=False
    )
    ratings_per_set: int = option(10, "Ratings behind each mean of the column.", metavar="N")
    truth: str | None = option(None, "Column of the label or parameter.", metavar="COL")
    sets: Sequence[int] = option((), "Numbers of sets to try.", metavar="N,N")
    per_set: Sequence[int] = option((), "Numbers of ratings per set to try.", metavar="N,N")
    repeats: int = option(100, "Random draws of each plan.", metavar="N")
    price: float = option(0.18, "Cost of one answer.", metavar="X")
    tolerance: float = option(TOLERANCE, "A plan is stable within this much.", metavar="X")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.ratings_per_set >= 2, "ratings_per_set", self.ratings_per_set, "at least 2 behind each mean")
        check_that(min(self.sets, default=3) >= 3, "sets", min(self.sets, default=3), "at least 3")
        check_that(self.repeats >= 10, "repeats", self.repeats, "at least 10")
        check_that(self.price >= 0, "price", self.price, "0 or more")
        check_that(self.tolerance > 0, "tolerance", self.tolerance, "a number above 0")

    def compute(self, data: StudyData) -> Result:
        """Scores of every plan for every human metric."""
        if (self.ratings is None) == (self.column is None):
            raise OptionError(
                f"expected a file of ratings ({argument('ratings')}), or a column of means with standard deviations "
                f"beside it ({argument('column')}): one of them"
            )
        known = ratings_in(self.ratings)
        column = (self.column,) if self.column else ()
        rows: list[Row] = []
        chosen = set()
        options = MetricOptions(columns=column, ratings=known, by=self.by, tasks=self.tasks)
        for task in tasks_of(options, data):
            truth = task.column("truth", self.truth)
            chosen.add(truth)
            levels = task.numbers(truth, "truth")
            if np.ptp(levels) == 0:
                raise DataError(f"all sets have {levels[0]:g}; expected different values", file=task.name, column=truth)
            order = canonical_order(task, levels)
            if known is None:
                rows += self._plans(task, _summarised(task, order, self.ratings_per_set), levels)
            else:
                for one in task.measured:
                    rows += self._plans(task, _single(task, order, known, one.label), levels)
        answers = "simulated from standard deviations" if known is None else "drawn"
        facts = {**facts_of(truth=chosen), "answers": answers, "draws": "with replacement"}
        return Result(self, rows, self._notes(rows), facts)

    def _plans(self, task: Task, answers: _Answers, levels: Array) -> list[Row]:
        """One row per plan: so many sets, so many ratings each."""
        truth, most = levels[answers.rows], answers.most
        size = len(truth)
        if size < 3 or np.ptp(truth) == 0:
            raise DataError(f"{size} rated sets; expected at least 3 with different labels", file=task.name)
        counts = self.per_set or sorted({1, *range(2, most + 1, 2), most})
        wrong = next((count for count in counts if not 1 <= count <= most), None)
        check_that(wrong is None, "per_set", wrong, f"at least 1 and at most {most} ratings, as there are")
        sizes = self.sets or sorted({max(3, round(size * share / 10)) for share in range(1, 11)})
        everything = correlation(answers.scores(most, np.random.default_rng(self.seed)), truth, "spearman")
        return [
            {"task": task.name, "metric": answers.label, **self._plan(task, answers, truth, number, count, everything)}
            for number in sizes
            for count in counts
        ]

    def _plan(self, task: Task, answers: _Answers, truth: Array, number: int, count: int, everything: float) -> Row:
        binary = len(np.unique(truth)) == 2
        rhos, accuracies = [], []
        for repeat in range(self.repeats):
            rng = np.random.default_rng([self.seed, number, count, repeat])
            drawn = rng.integers(0, len(truth), number)
            scores = answers.scores(count, rng)[drawn]
            if np.ptp(truth[drawn]) == 0 or np.ptp(scores) == 0:
                continue
            rhos.append(correlation(scores, truth[drawn], "spearman"))
            if binary:
                accuracies.append(optimal_accuracy(scores, truth[drawn])[0])
        if len(rhos) < 2:
            raise DataError(f"draws of {number} sets have one label or one score; choose more sets", file=task.name)
        mean, deviation = float(np.mean(rhos)), float(np.std(rhos, ddof=1))
        return {
            "sets": number,
            "ratings": count,
            "spearman": mean,
            "spearman_sd": deviation,
            "oca": float(np.mean(accuracies)) if binary else None,
            "oca_sd": float(np.std(accuracies, ddof=1)) if binary else None,
            "cost": self.price * number * count * answers.queries,
            "stable": abs(mean - everything) <= self.tolerance and deviation <= self.tolerance,
        }

    def _notes(self, rows: Sequence[Row]) -> tuple[str, ...]:
        notes = []
        for task, metric, mine in _by_metric(rows):
            where = f" on {task}" if task else ""
            if best := _cheapest_plan(mine):
                notes.append(
                    f"{metric}{where}: the cheapest stable plan is {best['sets']} sets with {best['ratings']} "
                    f"ratings each, {best['cost']:.2f}"
                )
            else:
                notes.append(f"{metric}: no plan is stable within {self.tolerance:g}; try more sets or ratings")
        return tuple(notes)

    def sentence(self, result: Result) -> str:
        """The cheapest stable plan of every metric, by the spread of repeated draws."""
        found = []
        for task, metric, rows in _by_metric(result.rows):
            about = f"{metric} on {task}" if len(result.tasks) > 1 else metric
            if best := _cheapest_plan(rows):
                found.append(
                    f"For {about}, {best['sets']} sets with {best['ratings']} ratings each are enough, at a cost of "
                    f"{best['cost']:.2f}: rho of repeated draws is {best['spearman']:.2f} with a standard deviation of "
                    f"{best['spearman_sd']:.3f}, within {self.tolerance:g} of all data."
                )
            else:
                found.append(f"No plan is stable for {about}: none has draws within {self.tolerance:g} of all data.")
        return " ".join(found)

    def chart(self, result: Result) -> Any:
        """Score against the number of sets, one line per number of ratings; bands are one standard deviation."""
        panels = []
        colours, legend = alt.Scale(scheme="viridis"), alt.Legend(symbolOpacity=1)
        colour = alt.Color("ratings:O", title="ratings per set", scale=colours, legend=legend)
        formats = {"sets": "", "ratings": "", "rho": ".3f", "cost": ".2f"}
        about = [alt.Tooltip(f"{key}:Q", format=form) for key, form in formats.items()]
        rho, sd = pl.col("spearman"), pl.col("spearman_sd")
        for task, metric, rows in _by_metric(result.rows):
            points = pl.DataFrame(rows).select("sets", "ratings", "cost", rho=rho, low=rho - sd, high=rho + sd)
            title = f"{metric} {task}".strip()
            base = alt.Chart(inline(points.to_dicts()), title=title, width=420, height=280).encode(
                x=alt.X("sets:Q", title="sets"), color=colour, tooltip=about
            )
            band = base.mark_area(opacity=0.12).encode(
                y=alt.Y("low:Q", title="Spearman's rho", scale=alt.Scale(zero=False)), y2="high:Q"
            )
            panels.append(alt.layer(band, base.mark_line(point=True).encode(y="rho:Q")))
        return alt.concat(*panels, columns=2)


def _cheapest_plan(rows: Sequence[Row]) -> Row | None:
    """The stable plan that costs least, or None."""
    stable = [row for row in rows if row["stable"]]
    return min(stable, key=lambda row: (row["cost"], row["sets"]), default=None)


def _by_metric(rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Task, metric and rows of each metric."""
    for (task, metric), mine in groupby(rows, itemgetter("task", "metric")):
        yield task, metric, list(mine)


@dataclass(frozen=True)
class _Answers:
    """What is known of each rated set's ratings.

    `scores` gives every set a score from so many of its `most` ratings of each of its `queries` questions.
    """

    label: str
    rows: Array
    most: int
    queries: int
    scores: Callable[[int, np.random.Generator], Array]


def _summarised(task: Task, order: Array, most: int) -> _Answers:
    """Means of so many ratings with their standard deviations."""
    one = task.measured[0]
    if one.spread is None:
        stem = one.label.removesuffix("_mean")
        raise DataError(
            f"no standard deviations beside it; expected a column '{stem}_std', or a file of single ratings",
            file=task.name,
            column=one.label,
        )
    rows = order[(one.defined & np.isfinite(one.spread))[order]]
    means, spreads = one.values[rows], one.spread[rows]

    def simulated(count: int, rng: np.random.Generator) -> Array:
        noise: Array = rng.normal(size=len(means)) * spreads * np.sqrt((most - count) / (most - 1) / count)
        return means + noise

    return _Answers(one.label, rows, most, 1, simulated)


def _single(task: Task, order: Array, known: Ratings, question: str) -> _Answers:
    """All ratings: one table per set with a row for each of its pairs, padded with NaN."""
    frame = known.frame.filter((pl.col("question") == question) & pl.col("item").is_in(task.ids))
    with_pairs = has_pairs(frame)
    frame = frame if with_pairs else frame.with_columns(pair=pl.lit(""))
    listed = frame.sort("item", "pair", "rater").group_by("item", "pair", maintain_order=True).agg("value")
    places = {id: place for place, id in enumerate(task.ids)}
    by_row: dict[int, list[list[float]]] = {}
    for item, _, answers in listed.iter_rows():
        by_row.setdefault(places[item], []).append(answers)
    rows = order[np.isin(order, list(by_row))]
    queries = max(map(len, by_row.values()), default=1)
    most = max((len(answers) for lists in by_row.values() for answers in lists), default=0)
    values = np.full((len(rows), queries, most), np.nan)
    for place, row in enumerate(rows):
        for query, answers in enumerate(by_row[row]):
            values[place, query, : len(answers)] = answers

    def drawn(count: int, rng: np.random.Generator) -> Array:
        chance = np.where(np.isfinite(values), rng.random(values.shape), 2.0)
        picked = np.take_along_axis(values, np.argsort(chance, axis=2)[..., :count], axis=2)
        means = np.nanmean(picked, axis=2)
        scores: Array = -np.nanmean(means, axis=1) if with_pairs else means[:, 0]
        return scores

    return _Answers(question, rows, most, queries, drawn)
