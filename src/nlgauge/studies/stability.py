"""Stability of human scores: how many sets and how many ratings a set are enough (paper 1, section 6.4, Figure 5)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.tables import Ratings
from nlgauge.drawing import inline
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import correlation, optimal_accuracy
from nlgauge.studies.base import Row, Study
from nlgauge.studies.content import LABELS, find_column
from nlgauge.studies.decoding import PARAMETERS, canonical_order
from nlgauge.studies.tasks import Task, make_tasks

PRICE = 0.18
TOLERANCE = 0.05


@dataclass(frozen=True)
class Stability(Study):
    """Score and cost of every plan: so many sets, so many ratings each.

    `spearman` is the mean over repeated draws and `spearman_sd` their standard deviation, the error that an experiment
    of that size has. A plan is `stable` when the mean is within the tolerance of the score of all data, and the
    standard deviation is no larger than it.
    """

    name: ClassVar[str] = "stability"
    columns: ClassVar[tuple[str, ...]] = (
        "metric", "sets", "ratings", "spearman", "spearman_sd", "oca", "oca_sd", "cost", "stable"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"spearman": "rho", "spearman_sd": "sd", "oca": "OCA", "oca_sd": "OCA sd"}

    cheapest: Mapping[str, Row] = field(default_factory=dict, kw_only=True)

    def chart(self) -> Any:
        """Score against the number of sets, a line for each number of ratings; bands are one standard deviation."""
        import altair as alt

        rows = [
            {
                "task": row["task"], "metric": row["metric"], "sets": row["sets"], "ratings": row["ratings"],
                "rho": row["spearman"], "low": row["spearman"] - row["spearman_sd"],
                "high": row["spearman"] + row["spearman_sd"], "cost": row["cost"],
            }
            for row in self.rows
        ]  # fmt: skip
        panels = []
        for task, metric in dict.fromkeys((row["task"], row["metric"]) for row in rows):
            mine = [row for row in rows if row["task"] == task and row["metric"] == metric]
            base = alt.Chart(inline(mine), title=f"{metric} {task}".strip(), width=420, height=280).encode(
                x=alt.X("sets:Q", title="sets"),
                color=alt.Color(
                    "ratings:O",
                    title="ratings a set",
                    scale=alt.Scale(scheme="viridis"),
                    legend=alt.Legend(symbolOpacity=1),
                ),
                tooltip=[
                    "sets:Q",
                    "ratings:Q",
                    alt.Tooltip("rho:Q", format=".3f"),
                    alt.Tooltip("cost:Q", format=".2f"),
                ],
            )
            band = base.mark_area(opacity=0.12).encode(
                y=alt.Y("low:Q", title="Spearman's rho", scale=alt.Scale(zero=False)), y2="high:Q"
            )
            panels.append(alt.layer(band, base.mark_line(point=True).encode(y="rho:Q")))
        return alt.concat(*panels, columns=2)


def stability(
    data: Any,
    *,
    ratings: Any = None,
    column: str | None = None,
    ratings_a_set: int = 10,
    truth: str | None = None,
    sets: Sequence[int] = (),
    per_set: Sequence[int] = (),
    repeats: int = 100,
    price: float = PRICE,
    tolerance: float = TOLERANCE,
    seed: int = 12345,
    by: str | None = None,
    names: Sequence[str] = (),
    **reading: Any,
) -> Stability:
    """Score a human metric with fewer sets and fewer ratings, to plan a budget.

    `ratings` are single answers (every question is a metric); ratings of a set are drawn without replacement. Where
    only a `column` of means is known with its standard deviations beside it (`x_mean` and `x_std`, over `ratings_a_set`
    ratings), means of fewer ratings are simulated from the normal distribution that such draws have, and the
    signature says so. Sets are drawn with replacement, so that more sets than there are can be planned.
    `price` is what one answer costs; a set takes as many answers a rating as it has rated pairs (simHDS).
    """
    if (ratings is None) == (column is None):
        raise OptionError(
            "name a file of ratings, or a column of means with standard deviations beside it: one of them"
        )
    if repeats < 10 or price < 0 or tolerance <= 0:
        raise OptionError(f"{repeats} repeats, price {price:g}, tolerance {tolerance:g}; expected >= 10, >= 0, > 0")
    from nlgauge.data.ratings import read_ratings

    known = ratings if ratings is None or isinstance(ratings, Ratings) else read_ratings(str(ratings))
    tasks = make_tasks(data, columns=(column,) if column else (), ratings=known, by=by, names=names, **reading)
    rows: list[Row] = []
    cheapest: dict[str, Row] = {}
    chosen = ""
    notes = []
    for task in tasks:
        chosen = truth or find_column(task, (*LABELS, *PARAMETERS), "truth")
        levels = task.numbers(chosen, "label or parameter")
        if np.ptp(levels) == 0:
            raise DataError(f"all sets have {levels[0]:g}; expected different values", file=task.name, column=chosen)
        made: list[_Answers]
        if known is None:
            made = [_summarised(task, ratings_a_set)]
        else:
            made = [_single(task, known, one.label) for one in task.measured]
        for answers in made:
            mine = _plans(task, answers, levels, sets, per_set, repeats, price, tolerance, seed)
            rows += mine
            stable = [row for row in mine if row["stable"]]
            if stable:
                best = min(stable, key=lambda row: (row["cost"], row["sets"]))
                cheapest[f"{task.name} {answers.label}".strip()] = best
                where = f" on {task.name}" if task.name else ""
                notes.append(
                    f"{answers.label}{where}: the cheapest stable plan is {best['sets']} sets with {best['ratings']} "
                    f"ratings each, {best['cost']:.2f}"
                )
            else:
                notes.append(f"{answers.label}: no plan is stable within {tolerance:g}; try more sets or ratings")
    options = {
        "truth": chosen, "ratings": "simulated from standard deviations" if known is None else "drawn",
        "sets": "with replacement", "repeats": str(repeats), "price": f"{price:g}", "tolerance": f"{tolerance:g}",
        "seed": str(seed),
    }  # fmt: skip
    return Stability(rows, Signature("stability", options), notes=tuple(notes), cheapest=cheapest)


@dataclass(frozen=True)
class _Answers:
    """What is known of each set's ratings: all of them (a row a set, NaN-padded), or their mean and deviation."""

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


def _summarised(task: Task, ratings_a_set: int) -> _Answers:
    one = task.measured[0]
    if one.spread is None:
        stem = one.label.removesuffix("_mean")
        raise DataError(
            f"no standard deviations beside it; expected a column '{stem}_std', or a file of single ratings",
            file=task.name, column=one.label,
        )  # fmt: skip
    if ratings_a_set < 2:
        raise OptionError(f"{ratings_a_set} ratings a set; expected at least 2 behind each mean")
    rows = np.flatnonzero(one.defined & np.isfinite(one.spread))
    return _Answers(one.label, rows, ratings_a_set, 1, means=one.values[rows], spreads=one.spread[rows])


def _single(task: Task, known: Ratings, question: str) -> _Answers:
    frame = known.frame.filter((pl.col("question") == question) & pl.col("item").is_in(task.ids))
    with_pairs = "pair" in frame.columns and frame["pair"].null_count() < frame.height
    frame = frame if with_pairs else frame.with_columns(pair=pl.lit(""))
    listed = frame.sort("item", "pair", "rater").group_by("item", "pair", maintain_order=True).agg("value")
    places = {id: place for place, id in enumerate(task.ids)}
    items = listed["item"].unique(maintain_order=True).to_list()
    most, queries = int(listed["value"].list.len().max() or 0), int(listed.group_by("item").len()["len"].max() or 0)  # type: ignore[arg-type]
    values = np.full((len(items), queries, most), np.nan)
    at = {item: i for i, item in enumerate(items)}
    used = [0] * len(items)
    for item, _, answers in listed.iter_rows():
        values[at[item], used[at[item]], : len(answers)] = answers
        used[at[item]] += 1
    shaped = values if with_pairs else values[:, 0]
    return _Answers(question, np.array([places[item] for item in items]), most, queries, values=shaped)


def _plans(
    task: Task,
    answers: _Answers,
    levels: Array,
    sets: Sequence[int],
    per_set: Sequence[int],
    repeats: int,
    price: float,
    tolerance: float,
    seed: int,
) -> list[Row]:
    rank = np.empty(len(task), dtype=np.int64)
    rank[canonical_order(task, levels)] = np.arange(len(task))
    order = np.argsort(rank[answers.rows])
    ordered = _reordered(answers, order)
    truth = levels[ordered.rows]
    size = len(truth)
    if size < 3 or np.ptp(truth) == 0:
        raise DataError(f"{size} rated sets; expected at least 3 with different labels", file=task.name)
    counts = list(per_set) or sorted({1, *range(2, ordered.most + 1, 2), ordered.most})
    if wrong := [count for count in counts if not 1 <= count <= ordered.most]:
        raise OptionError(f"{wrong[0]} ratings a set, and there are at most {ordered.most}; choose fewer")
    sizes = list(sets) or sorted({max(3, round(size * share / 10)) for share in range(1, 11)})
    if wrong := [count for count in sizes if count < 3]:
        raise OptionError(f"{wrong[0]} sets; expected at least 3")
    binary = len(np.unique(truth)) == 2
    everything = correlation(ordered.scores(ordered.most, np.random.default_rng(seed)), truth, "spearman")
    rows = []
    for number in sizes:
        for count in counts:
            rhos, accuracies = [], []
            for repeat in range(repeats):
                rng = np.random.default_rng([seed, number, count, repeat])
                drawn = rng.integers(0, size, number)
                scores = ordered.scores(count, rng)[drawn]
                if np.ptp(truth[drawn]) == 0 or np.ptp(scores) == 0:
                    continue
                rhos.append(correlation(scores, truth[drawn], "spearman"))
                if binary:
                    accuracies.append(optimal_accuracy(scores, truth[drawn])[0])
            if len(rhos) < 2:
                raise DataError(f"draws of {number} sets have one label or one score; choose more sets", file=task.name)
            mean, deviation = float(np.mean(rhos)), float(np.std(rhos, ddof=1))
            rows.append(
                {
                    "task": task.name, "metric": ordered.label, "sets": number, "ratings": count, "spearman": mean,
                    "spearman_sd": deviation, "oca": float(np.mean(accuracies)) if binary else None,
                    "oca_sd": float(np.std(accuracies, ddof=1)) if binary else None,
                    "cost": price * number * count * ordered.queries,
                    "stable": abs(mean - everything) <= tolerance and deviation <= tolerance,
                }
            )  # fmt: skip
    return rows


def _reordered(answers: _Answers, order: Array) -> _Answers:
    def at(values: Array | None) -> Array | None:
        return None if values is None else values[order]

    return _Answers(
        answers.label, answers.rows[order], answers.most, answers.queries, at(answers.values), at(answers.means),
        at(answers.spreads),
    )  # fmt: skip
