"""Stability of human scores: how many sets and how many ratings per set are enough (paper 1, section 6.4, Figure 5)?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from nlgauge.studies.base import Column, Result, Row, Study, StudyData
from nlgauge.studies.diversity.decoding import canonical_order
from nlgauge.studies.tasks import Seed, Task, TaskOptions, measure, ratings_in

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
        Column("metric"),
        Column("sets"),
        Column("ratings"),
        Column("spearman", "rho"),
        Column("spearman_sd", "sd"),
        Column("oca", "OCA"),
        Column("oca_sd", "OCA sd"),
        Column("cost"),
        Column("stable"),
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
        columns = (self.column,) if self.column else ()
        rows: list[Row] = []
        chosen = set()
        for task in measure(data, columns=columns, ratings=known, by=self.by, tasks=self.tasks):
            truth = task.column("truth", self.truth)
            chosen.add(truth)
            levels = task.numbers(truth, "truth")
            if np.ptp(levels) == 0:
                raise DataError(f"all sets have {levels[0]:g}; expected different values", file=task.name, column=truth)
            if known is None:
                made = [_summarised(task, self.ratings_per_set)]
            else:
                made = [_single(task, known, one.label) for one in task.measured]
            for answers in made:
                rows += self._plans(task, answers, levels)
        facts = {
            "truth": "/".join(sorted(chosen)),
            "answers": "simulated from standard deviations" if known is None else "drawn",
            "draws": "with replacement",
        }
        return Result(self, rows, self._notes(rows), facts)

    def _plans(self, task: Task, answers: _Answers, levels: Array) -> list[Row]:
        """One row per plan: so many sets, so many ratings each."""
        rank = np.empty(len(task), dtype=np.int64)
        rank[canonical_order(task, levels)] = np.arange(len(task))
        ordered = answers.at(np.argsort(rank[answers.rows]))
        truth = levels[ordered.rows]
        size = len(truth)
        if size < 3 or np.ptp(truth) == 0:
            raise DataError(f"{size} rated sets; expected at least 3 with different labels", file=task.name)
        counts = self.per_set or sorted({1, *range(2, ordered.most + 1, 2), ordered.most})
        wrong = next((count for count in counts if not 1 <= count <= ordered.most), None)
        check_that(wrong is None, "per_set", wrong, f"at least 1 and at most {ordered.most} ratings, as there are")
        sizes = self.sets or sorted({max(3, round(size * share / 10)) for share in range(1, 11)})
        everything = correlation(ordered.scores(ordered.most, np.random.default_rng(self.seed)), truth, "spearman")
        return [
            {"task": task.name, "metric": ordered.label, **self._plan(task, ordered, truth, number, count, everything)}
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
        for (task, metric), mine in _by_metric(rows).items():
            where = f" on {task}" if task else ""
            if best := cheapest_plan(mine):
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
        for (task, metric), rows in _by_metric(result.rows).items():
            about = f"{metric} on {task}" if len(result.tasks) > 1 else metric
            best = cheapest_plan(rows)
            if best is None:
                found.append(f"No plan is stable for {about}: none has draws within {self.tolerance:g} of all data.")
            else:
                found.append(
                    f"For {about}, {best['sets']} sets with {best['ratings']} ratings each are enough, at a cost of "
                    f"{best['cost']:.2f}: rho of repeated draws is {best['spearman']:.2f} with a standard deviation of "
                    f"{best['spearman_sd']:.3f}, within {self.tolerance:g} of all data."
                )
        return " ".join(found)

    def chart(self, result: Result) -> Any:
        """Score against the number of sets, one line per number of ratings; bands are one standard deviation."""
        panels = []
        for (task, metric), rows in _by_metric(result.rows).items():
            points = [
                {
                    "sets": row["sets"],
                    "ratings": row["ratings"],
                    "rho": row["spearman"],
                    "low": row["spearman"] - row["spearman_sd"],
                    "high": row["spearman"] + row["spearman_sd"],
                    "cost": row["cost"],
                }
                for row in rows
            ]
            colour = alt.Color(
                "ratings:O",
                title="ratings per set",
                scale=alt.Scale(scheme="viridis"),
                legend=alt.Legend(symbolOpacity=1),
            )
            formats = {"sets": "", "ratings": "", "rho": ".3f", "cost": ".2f"}
            about = [alt.Tooltip(f"{key}:Q", format=form) for key, form in formats.items()]
            base = alt.Chart(inline(points), title=f"{metric} {task}".strip(), width=420, height=280).encode(
                x=alt.X("sets:Q", title="sets"), color=colour, tooltip=about
            )
            band = base.mark_area(opacity=0.12).encode(
                y=alt.Y("low:Q", title="Spearman's rho", scale=alt.Scale(zero=False)), y2="high:Q"
            )
            panels.append(alt.layer(band, base.mark_line(point=True).encode(y="rho:Q")))
        return alt.concat(*panels, columns=2)


def cheapest_plan(rows: Sequence[Row]) -> Row | None:
    """The stable plan that costs least, or None."""
    stable = [row for row in rows if row["stable"]]
    return min(stable, key=lambda row: (row["cost"], row["sets"]), default=None)


def _by_metric(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["task"], row["metric"]), []).append(row)
    return found


@dataclass(frozen=True)
class _Answers:
    """What is known of each set's ratings: all (one row per set, padded with NaN), or their mean and deviation."""

    label: str
    rows: Array
    most: int
    queries: int
    values: Array | None = None
    means: Array | None = None
    spreads: Array | None = None

    def scores(self, count: int, rng: np.random.Generator) -> Array:
        """A score for each set from `count` of its ratings."""
        if self.values is not None:
            chance = np.where(np.isfinite(self.values), rng.random(self.values.shape), 2.0)
            picked = np.take_along_axis(self.values, np.argsort(chance, axis=-1)[..., :count], axis=-1)
            found: Array = np.nanmean(picked, axis=-1)
            return found if found.ndim == 1 else -np.nanmean(found, axis=1)
        if self.means is None or self.spreads is None:
            raise AssertionError("answers without values have means and spreads")
        left = (self.most - count) / (self.most - 1) if self.most > 1 else 0.0
        noisy: Array = self.means + rng.normal(size=len(self.means)) * self.spreads * np.sqrt(left / count)
        return noisy

    def at(self, order: Array) -> _Answers:
        """The same answers in another order of sets."""
        values, means, spreads = (
            None if one is None else one[order] for one in (self.values, self.means, self.spreads)
        )
        return replace(self, rows=self.rows[order], values=values, means=means, spreads=spreads)


def _summarised(task: Task, ratings_per_set: int) -> _Answers:
    one = task.measured[0]
    if one.spread is None:
        stem = one.label.removesuffix("_mean")
        raise DataError(
            f"no standard deviations beside it; expected a column '{stem}_std', or a file of single ratings",
            file=task.name,
            column=one.label,
        )
    rows = np.flatnonzero(one.defined & np.isfinite(one.spread))
    return _Answers(one.label, rows, ratings_per_set, 1, means=one.values[rows], spreads=one.spread[rows])


def _single(task: Task, known: Ratings, question: str) -> _Answers:
    frame = known.frame.filter((pl.col("question") == question) & pl.col("item").is_in(task.ids))
    with_pairs = "pair" in frame.columns and frame["pair"].null_count() < frame.height
    frame = frame if with_pairs else frame.with_columns(pair=pl.lit(""))
    listed = frame.sort("item", "pair", "rater").group_by("item", "pair", maintain_order=True).agg("value")
    places = {id: place for place, id in enumerate(task.ids)}
    by_item: dict[str, list[list[float]]] = {}
    for item, _, answers in listed.iter_rows():
        by_item.setdefault(item, []).append(answers)
    queries = max(map(len, by_item.values()), default=1)
    most = max((len(answers) for lists in by_item.values() for answers in lists), default=0)
    values = np.full((len(by_item), queries, most), np.nan)
    for place, lists in enumerate(by_item.values()):
        for query, answers in enumerate(lists):
            values[place, query, : len(answers)] = answers
    shaped = values if with_pairs else values[:, 0]
    return _Answers(question, np.array([places[item] for item in by_item]), most, queries, values=shaped)
