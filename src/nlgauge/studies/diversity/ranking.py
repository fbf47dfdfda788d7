"""The ranking test: which of two sets was made with more diversity (paper 1, appendix C.1, Table 5)?"""

from __future__ import annotations

import math
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
from nlgauge.stats.inference import Inference, Unit
from nlgauge.stats.means import mean_interval
from nlgauge.stats.units import Units, numbered
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, columns, facts_of, pair, with_interval
from nlgauge.studies.diversity.decoding import ParameterOptions, canonical_order, scaled_levels
from nlgauge.studies.panels import panel, points_frame, points_of, side_by_side
from nlgauge.studies.rows import correlation_interval
from nlgauge.studies.sentences import best_metrics
from nlgauge.studies.tasks import FEW_GROUPS, Task, notes_about, ratings_in, tasks_of

PAIRS_AT_MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class RankingTest(Inference, ParameterOptions, Study):
    """Ranking test: which of two sets was made with more diversity? A tie is a miss.

    Sets that share a context (or another column, `pair_by`) are paired with each other; where there are more than
    `pairs` such pairs, so many are drawn. When no two sets share one, sets are paired at random, each at most once.
    `comparisons` are people's answers (rnkHDS): ratings whose item is "FIRST>SECOND", two ids, and whose value is above
    0 when the first set is the more diverse one; exactly those pairs are then tested, and answers to a pair in either
    order are answers to one pair. A pair with the same value of the parameter on both sides has no right answer.

    `spearman` is of differences of the metric with differences of the parameter. The paper does not say which set of a
    pair is subtracted from which, and rho of one order per pair depends on it. So each pair enters in both orders: rho
    is the same whichever set is written first, and is what random orders come to with many pairs. `accuracy` is the
    share of pairs whose order the metric gets right. A pair is drawn as a whole by the intervals, together with all
    pairs that share a set or a context with it (`unit=set`: each pair by itself).
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
        notes = notes_about(tasks)
        chosen, scales, ways, resampled = set(), set(), set(), set()
        for task in tasks:
            parameter = task.column("parameter", self.parameter)
            levels, used = scaled_levels(task, parameter, task.numbers(parameter, "parameter"), self.scale)
            found = _pair_up(self, task, levels) if human is None else _asked(task, human)
            pairs = found.oriented(levels)
            if len(pairs.first) < 3:
                message = f"{len(pairs.first)} pairs with different parameters; expected at least 3"
                raise DataError(message, file=task.name)
            units = pairs.units(task, self.unit)
            chosen.add(parameter)
            scales.add(used)
            ways.add(pairs.way)
            resampled.add(units.name)
            notes += _notes_on_pairs(self, task, pairs, units, len(found.first) - len(pairs.first))
            truth = pairs.differences(levels)
            scored = {one.label: (pairs.differences(one.values), one.signature) for one in task.measured}
            if pairs.answers is not None:
                scored["rnkHDS"] = (pairs.answers, "ratings|question:which set is more diverse")
            ends = {"first": [task.ids[i] for i in pairs.first], "second": [task.ids[i] for i in pairs.second]}
            for label, (values, signature) in scored.items():
                row = {"task": task.name, "metric": label, **self._row(values, truth, units), "signature": signature}
                notes += _notes_on_row(row, task)
                rows.append(row)
                points.append(points_frame(task, label, **ends, parameter=truth, value=values, right=values > 0))
        facts = facts_of(parameter=chosen, scale=scales, paired=ways)
        facts |= {"orders": "both", "ties": "miss", **facts_of(unit=resampled)}
        return Result(self, rows, tuple(notes), facts, {"points": pl.concat(points)})

    def _row(self, differences: Array, truth: Array, units: Units) -> Row:
        """What a metric finds; both differences are those of the set with the larger parameter minus the other."""
        defined = np.isfinite(differences)
        values, levels, drawn = differences[defined], truth[defined], units[defined]
        row: Row = {"n": len(values)}
        row |= dict.fromkeys(("spearman", "spearman_ci", "accuracy", "accuracy_ci"))
        row["ties"] = int((values == 0).sum())
        if len(values) < 3:
            return row
        right = (values > 0).astype(np.float64)
        row["accuracy"] = float(right.mean())
        row["accuracy_ci"] = pair(mean_interval(right, self.level, drawn))
        if not values.any():
            return row
        both, parameter = np.concatenate([values, -values]), np.concatenate([levels, -levels])
        row["spearman"] = correlation(both, parameter, "spearman")
        of = np.arange(len(values)) if drawn.of is None else drawn.of
        if len(np.unique(of)) > 1:  # a pair is one unit, and so both of its orders
            row["spearman_ci"] = correlation_interval(both, parameter, "spearman", self, np.concatenate([of, of]))
        return row

    def sentence(self, result: Result) -> str:
        """Which metrics follow differences of the parameter."""
        return best_metrics(result, f"differences of {result.facts['parameter']}")

    def chart(self, result: Result) -> Any:
        """Difference of the metric against difference of the parameter, larger minus smaller: right is above 0."""
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
            panels.append(alt.layer(cross.encode(y="zero:Q"), dots))
        return side_by_side(result, panels)


@dataclass(frozen=True)
class _Pairs:
    """Row numbers of the sets of each pair, how they were paired, and people's answers (above 0: the first)."""

    first: Array
    second: Array
    way: str
    answers: Array | None = None

    def differences(self, values: Array) -> Array:
        """First minus second."""
        found: Array = values[self.first] - values[self.second]
        return found

    def oriented(self, levels: Array) -> _Pairs:
        """The pairs with different levels, the set with the larger one first."""
        gap = self.differences(levels)
        kept, turned = gap != 0, gap < 0
        first, second = np.where(turned, self.second, self.first), np.where(turned, self.first, self.second)
        answers = None if self.answers is None else np.where(turned, -self.answers, self.answers)[kept]
        return _Pairs(first[kept], second[kept], self.way, answers)

    def units(self, task: Task, unit: Unit) -> Units:
        """What is independent: pairs, or where these share sets or contexts, all that are linked so."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        contexts = task.units(unit).of
        if unit == "set":
            return Units(name="pair")
        nodes = np.arange(len(task)) if contexts is None else contexts
        ends = nodes[self.first], nodes[self.second]
        joined = coo_array((np.ones(len(self.first)), ends), shape=(len(nodes), len(nodes)))
        linked = numbered(connected_components(joined, directed=False)[1][ends[0]])
        if linked.max() == len(linked) - 1:
            return Units(name="pair")
        return Units(linked, name="context" if contexts is not None and (ends[0] == ends[1]).all() else "linked-pairs")


def _notes_on_pairs(study: RankingTest, task: Task, pairs: _Pairs, units: Units, equal: int) -> list[str]:
    """What a reader must know about the pairs of a task and about what is resampled."""
    notes = []
    if pairs.way == "random":
        notes.append(f"no two sets{task.where} share a '{study.pair_by}': paired at random")
    if equal:
        notes.append(f"{equal} pairs{task.where} have one value of the parameter on both sides; they are left out")
    if units.of is not None:
        count, of_context = int(units.of.max()) + 1, units.name == "context"
        shared, groups = ("contexts", "contexts") if of_context else ("sets or contexts", "groups of linked pairs")
        rough = "; so few that intervals are rough" if count < FEW_GROUPS else ""
        found = f"{count} {groups} are resampled, not {len(units.of)} pairs{rough}"
        if count == 1:
            found = "all are linked, so that there is no interval; unit=set takes pairs as independent"
        notes.append(f"pairs{task.where} share {shared}: {found}")
    return notes


def _notes_on_row(row: Row, task: Task) -> list[str]:
    """Why a metric has no correlation."""
    where = task.name or "the data"
    if row["n"] < 3:
        return [f"{row['metric']} has a value on both sets of {row['n']} pairs of {where}; expected at least 3"]
    if row["spearman"] is None:
        return [f"{row['metric']} distinguishes no two sets of {where}: no correlation"]
    return []


def _asked(task: Task, human: Ratings) -> _Pairs:
    """The pairs that people compared, and the mean of their answers."""
    places = {id: place for place, id in enumerate(task.ids)}
    answers: dict[tuple[int, int], list[float]] = {}
    for item, values in human.frame.group_by("item").agg(pl.col("value").drop_nulls()).sort("item").iter_rows():
        left, arrow, right = (part.strip() for part in str(item).partition(">"))
        if not arrow:
            raise DataError(f"a comparison of '{item}'; expected two ids with > between them, as in a@0.2>a@1.2")
        if left in places and right in places and values:
            ends = places[left], places[right]
            sign = 1.0 if task.ids[ends[0]] <= task.ids[ends[1]] else -1.0
            mine = answers.setdefault(ends if sign > 0 else (ends[1], ends[0]), [])
            mine += [sign * value for value in values]
    if not answers:
        raise DataError("none of the comparisons is about sets of this data; expected FIRST>SECOND, two ids of it")
    first, second = np.array(list(answers)).T
    return _Pairs(first, second, "as asked", np.array([math.fsum(one) / len(one) for one in answers.values()]))


def _pair_up(study: RankingTest, task: Task, levels: Array) -> _Pairs:
    """Pairs of sets with different levels."""
    column, order = study.pair_by, canonical_order(task, levels)
    rng = np.random.default_rng(study.seed)
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
    if len(first) > study.pairs:
        drawn = np.sort(rng.permutation(len(first))[: study.pairs])
        first, second = first[drawn], second[drawn]
    return _Pairs(first, second, way)
