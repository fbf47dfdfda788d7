"""The ranking test: which of two sets was made with more diversity (paper 1, appendix C.1, Table 5)?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option
from nlgauge.data.roles import names_in, no_such_column
from nlgauge.data.tables import Ratings
from nlgauge.drawing import PALETTE, alt, inline
from nlgauge.errors import DataError
from nlgauge.stats.correlation import correlation
from nlgauge.stats.inference import Inference
from nlgauge.stats.means import mean_interval
from nlgauge.stats.units import Units, numbered
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, columns, facts_of, pair, with_interval
from nlgauge.studies.diversity.decoding import ParameterOptions, canonical_order, scaled_levels
from nlgauge.studies.panels import panel, points_frame, points_of, side_by_side
from nlgauge.studies.rows import correlation_interval
from nlgauge.studies.sentences import best_metrics
from nlgauge.studies.tasks import Task, notes_about, ratings_in, tasks_of, units_fact

PAIRS_AT_MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class RankingTest(Inference, ParameterOptions, Study):
    """Ranking test: which of two sets was made with more diversity? A tie is a miss.

    Sets that share a context (or another column, `pair_by`) are paired with each other; where there are more than
    `pairs` such pairs, so many are drawn. When no two sets share one, sets are paired at random, each at most once.
    Pairs of one context are not independent, so intervals resample contexts (`unit=set`: pairs, as if they were).
    `comparisons` are people's answers (rnkHDS): ratings whose item is "FIRST>SECOND", two ids, and whose value is above
    0 when the first set is the more diverse one; exactly those pairs are then tested. `spearman` is of differences,
    `accuracy` the share of pairs whose order the metric gets right.
    """

    name: ClassVar[str] = "ranking"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study ranking sets.jsonl --parameter temperature -m distinct -m self-bleu",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *columns("metric", n="pairs"),
        *with_interval("spearman", "rho", beside=True),
        *with_interval("accuracy", "acc", beside=True),
        Column("ties"),
    )
    aspect: ClassVar[str] = "form"

    comparisons: str | Path | Ratings | None = option(
        None, "Answers of people (rnkHDS): item FIRST>SECOND, value above 0.", metavar="FILE", signed=False
    )
    pair_by: str = option("context", "Pair sets that share this column.", metavar="COL")
    pairs: int = option(1000, "Draw at most so many pairs.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(3 <= self.pairs <= PAIRS_AT_MOST, "pairs", self.pairs, f"3 to {PAIRS_AT_MOST}")

    def compute(self, data: StudyData) -> Result:
        """Correlation and accuracy of every metric on pairs of sets made with different values of the parameter."""
        human = ratings_in(self.comparisons)
        tasks = tasks_of(self, data)
        rows: list[Row] = []
        points = []
        notes = notes_about(tasks, self.unit)
        chosen, scales, ways = set(), set(), set()
        for task in tasks:
            parameter = task.column("parameter", self.parameter)
            levels, used = scaled_levels(task, parameter, task.numbers(parameter, "parameter"), self.scale)
            if human is not None:
                pairs = _asked(task, human)
            else:
                pairs = _pair_up(task, levels, self.pair_by, self.pairs, self.seed)
            chosen.add(parameter)
            scales.add(used)
            ways.add(pairs.way)
            if pairs.way == "random":
                notes.append(f"no two sets{task.where} share a '{self.pair_by}': paired at random")
            if len(pairs.first) < 3:
                message = f"{len(pairs.first)} pairs with different parameters; expected at least 3"
                raise DataError(message, file=task.name)
            truth = pairs.differences(levels)
            shared = task.units(self.unit).of if pairs.way == "shared" else None
            groups = None if shared is None else shared[pairs.first]
            scored = {one.label: (pairs.differences(one.values), one.signature) for one in task.measured}
            if pairs.answers is not None:
                scored["rnkHDS"] = (pairs.answers, "ratings|question:which set is more diverse")
            ends = {"first": [task.ids[i] for i in pairs.first], "second": [task.ids[i] for i in pairs.second]}
            for label, (values, signature) in scored.items():
                right = np.sign(values) == np.sign(truth)
                row = {"task": task.name, "metric": label, **self._row(values, truth, groups), "signature": signature}
                if row["spearman"] is None:
                    where = task.name or "the data"
                    notes.append(f"{label} does not tell any two sets of {where} apart: no correlation")
                rows.append(row)
                points.append(points_frame(task, label, **ends, parameter=truth, value=values, right=right))
        facts = facts_of(parameter=chosen, scale=scales, paired=ways)
        facts |= {"ties": "miss", **units_fact(tasks, self.unit)}
        return Result(self, rows, tuple(notes), facts, {"points": pl.concat(points)})

    def _row(self, differences: Array, truth: Array, groups: Array | None) -> Row:
        defined = np.isfinite(differences)
        values, levels = differences[defined], truth[defined]
        drawn = None if groups is None or len(set(groups[defined].tolist())) < 2 else groups[defined]
        row: Row = {"n": len(values)}
        row |= dict.fromkeys(("spearman", "spearman_ci", "accuracy", "accuracy_ci"))
        row["ties"] = int((values == 0).sum())
        if len(values) < 3:
            return row
        right = (np.sign(values) == np.sign(levels)).astype(np.float64)
        row["accuracy"] = float(right.mean())
        units = Units() if drawn is None else Units(numbered(drawn), name="context")
        row["accuracy_ci"] = pair(mean_interval(right, self.level, units))
        if np.ptp(values) == 0 or np.ptp(levels) == 0:
            return row
        interval = correlation_interval(values, levels, "spearman", self, drawn)
        return row | {"spearman": correlation(values, levels, "spearman"), "spearman_ci": interval}

    def sentence(self, result: Result) -> str:
        """Which metrics follow differences of the parameter."""
        return best_metrics(result, f"differences of {result.facts['parameter']}")

    def chart(self, result: Result) -> Any:
        """Difference of the metric against difference of the parameter; right answers are in two of the quarters."""
        panels = []
        for row in result.rows:
            base = panel(result, row, points_of(result, row), {"rho": row["spearman"], "acc": row["accuracy"]})
            dots = base.mark_circle(opacity=0.45, size=26).encode(
                x=alt.X("parameter:Q", title="difference of the parameter"),
                y=alt.Y("value:Q", title="difference of the metric"),
                color=alt.Color("right:N", scale=alt.Scale(domain=[True, False], range=list(PALETTE[:2]))),
                tooltip=["first:N", "second:N", "parameter:Q", alt.Tooltip("value:Q", format=".4f")],
            )
            cross = alt.Chart(inline([{"zero": 0}])).mark_rule(strokeDash=[3, 3], color="gray")
            panels.append(alt.layer(cross.encode(x="zero:Q"), cross.encode(y="zero:Q"), dots))
        return side_by_side(result, panels)


@dataclass(frozen=True)
class _Pairs:
    """Row numbers of the sets of each pair, how they were paired, and people's answers."""

    first: Array
    second: Array
    way: str
    answers: Array | None = None

    def differences(self, values: Array) -> Array:
        """First minus second."""
        found: Array = values[self.first] - values[self.second]
        return found


def _asked(task: Task, human: Ratings) -> _Pairs:
    """The pairs that people compared, and the mean of their answers."""
    places = {id: place for place, id in enumerate(task.ids)}
    first, second, answers = [], [], []
    means = human.frame.group_by("item").agg(pl.col("value").sort().mean()).sort("item")
    for item, value in means.select("item", "value").iter_rows():
        left, arrow, right = str(item).partition(">")
        if not arrow:
            raise DataError(f"a comparison of '{item}'; expected two ids with > between them, as in a@0.2>a@1.2")
        if left.strip() in places and right.strip() in places:
            first.append(places[left.strip()])
            second.append(places[right.strip()])
            answers.append(float(value))
    if not first:
        raise DataError("none of the comparisons is about sets of this data; expected FIRST>SECOND, two ids of it")
    return _Pairs(np.array(first), np.array(second), "as asked", np.array(answers))


def _pair_up(task: Task, levels: Array, column: str, most: int, seed: int) -> _Pairs:
    """Pairs of sets with different levels, the two sides in random order."""
    order = canonical_order(task, levels)
    rng = np.random.default_rng(seed)
    if column in task.frame.columns:
        keys = names_in(task.frame, column, option="pair_by", file=task.name).fill_null("").gather(order)
    elif column == "context":
        keys = pl.Series([""] * 0)
    else:
        raise no_such_column(column, task.frame.columns, file=task.name, option="pair_by")
    grouped = pl.DataFrame({"key": keys, "row": order[: len(keys)]})
    joined = grouped.join(grouped, on="key", suffix="_2", maintain_order="left_right")
    left, right = joined["row"].to_numpy(), joined["row_2"].to_numpy()
    rank = np.argsort(order)
    kept = (rank[left] < rank[right]) & (levels[left] != levels[right])
    first, second, way = left[kept], right[kept], "shared"
    if len(first) == 0:
        shuffled = order[rng.permutation(len(order))]
        first, second, way = shuffled[0 : 2 * (len(order) // 2) : 2], shuffled[1::2], "random"
        apart = levels[first] != levels[second]
        first, second = first[apart], second[apart]
    if len(first) > most:
        drawn = np.sort(rng.permutation(len(first))[:most])
        first, second = first[drawn], second[drawn]
    swap = rng.integers(0, 2, len(first)).astype(bool)
    return _Pairs(np.where(swap, second, first), np.where(swap, first, second), way)
