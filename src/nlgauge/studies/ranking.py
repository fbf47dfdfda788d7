"""The ranking test: which of two sets was made with more diversity (paper 1, appendix C.1, Table 5)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.tables import Ratings
from nlgauge.drawing import PALETTE, inline
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.stats.bootstrap import bootstrap_mean
from nlgauge.stats.correlation import bootstrap_intervals, correlation
from nlgauge.studies.base import Row, Study, pair
from nlgauge.studies.content import find_column
from nlgauge.studies.decoding import PARAMETERS, Scale, canonical_order, scaled_levels
from nlgauge.studies.tasks import Over, Task, make_tasks, notes_about, resampled_units

PAIRS_AT_MOST = 10_000


@dataclass(frozen=True)
class RankingTest(Study):
    """Spearman's rho of differences, and the share of pairs whose order the metric gets right (a tie is a miss)."""

    name: ClassVar[str] = "ranking"
    columns: ClassVar[tuple[str, ...]] = (
        "metric", "n", "spearman", "spearman_ci", "accuracy", "accuracy_ci", "ties"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ("spearman", "accuracy")
    titles: ClassVar[Mapping[str, str]] = {"spearman": "rho", "accuracy": "acc", "n": "pairs"}

    points: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    def chart(self) -> Any:
        """Difference of the metric against difference of the parameter; the shaded quarters are right answers."""
        import altair as alt

        panels = []
        for row in self.rows:
            mine = self.points_of(self.points, row)
            base = self.panel(row, mine, {"rho": row["spearman"], "acc": row["accuracy"]})
            dots = base.mark_circle(opacity=0.45, size=26).encode(
                x=alt.X("parameter:Q", title="difference of the parameter"),
                y=alt.Y("value:Q", title="difference of the metric"),
                color=alt.Color("right:N", scale=alt.Scale(domain=[True, False], range=list(PALETTE[:2]))),
                tooltip=["first:N", "second:N", "parameter:Q", alt.Tooltip("value:Q", format=".4f")],
            )
            cross = alt.Chart(inline([{"zero": 0}])).mark_rule(strokeDash=[3, 3], color="gray")
            panels.append(alt.layer(cross.encode(x="zero:Q"), cross.encode(y="zero:Q"), dots))
        return self.lay_out(panels)


def ranking_test(
    data: Any,
    metrics: Sequence[str | Metric] = (),
    *,
    columns: Sequence[str] = (),
    ratings: Any = None,
    comparisons: str | Ratings | None = None,
    parameter: str | None = None,
    scale: Scale = "auto",
    pair_by: str = "context",
    pairs: int = 1000,
    over: Over = "auto",
    interval: Interval | None = None,
    by: str | None = None,
    names: Sequence[str] = (),
    decimals: int | None = None,
    **reading: Any,
) -> RankingTest:
    """Run the ranking test on pairs of sets made with different values of `parameter`.

    Sets that share a context (or another column, `pair_by`) are paired with each other; where there are more than
    `pairs` such pairs, so many are drawn. When no two sets share one, sets are paired at random, each at most once.
    Pairs of one context are not independent, so intervals resample contexts (`over="sets"`: pairs, as if they were).
    `comparisons` are people's answers (rnkHDS): ratings whose item is "FIRST>SECOND", two ids, and whose value is above
    0 when the first set is the more diverse one; exactly those pairs are then tested.
    """
    if not 3 <= pairs <= PAIRS_AT_MOST:
        raise OptionError(f"{pairs} pairs; expected 3 to {PAIRS_AT_MOST}")
    using = interval or Interval()
    tasks = make_tasks(
        data, metrics, columns=columns, ratings=ratings, by=by, names=names, decimals=decimals, **reading
    )
    human = _comparisons(comparisons)
    rows: list[Row] = []
    points = []
    notes = notes_about(tasks, over)
    chosen, scales, ways = "", set(), set()
    for task in tasks:
        chosen = parameter or find_column(task, PARAMETERS, "parameter")
        levels, used = scaled_levels(task, chosen, task.numbers(chosen, "parameter"), scale)
        scales.add(used)
        if human is not None:
            first, second, answers = _asked(task, human)
            way = "as asked"
        else:
            first, second, way = _pair_up(task, levels, pair_by, pairs, using.seed)
            answers = None
        ways.add(way)
        if way == "random":
            notes.append(f"no two sets{f' of {task.name}' * bool(task.name)} share a '{pair_by}': paired at random")
        if len(first) < 3:
            raise DataError(f"{len(first)} pairs with different parameters; expected at least 3", file=task.name)
        truth = levels[first] - levels[second]
        shared = task.groups(over) if way == "shared" else None
        groups = None if shared is None else shared[first]
        scored = {one.label: (one.values[first] - one.values[second], one.signature) for one in task.measured}
        if answers is not None:
            scored["rnkHDS"] = (answers, "ratings|question:which set is more diverse")
        for label, (differences, signature) in scored.items():
            rows.append(_row(task, label, signature, differences, truth, groups, using))
            points.append(_points(task, label, first, second, differences, truth))
            if rows[-1]["spearman"] is None:
                notes.append(f"{label} does not tell any two sets of {task.name or 'the data'} apart: no correlation")
    options = {
        "parameter": chosen, "scale": "/".join(sorted(scales)), "pairs": "/".join(sorted(ways)),
        "most": str(pairs), "pair_by": pair_by, "ties": "miss",
        "over": resampled_units(tasks, over), "ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}",
        "seed": str(using.seed),
    }  # fmt: skip
    options |= {} if decimals is None else {"decimals": str(decimals)}
    return RankingTest(rows, Signature("ranking", options), notes=tuple(notes), points=pl.concat(points))


def _comparisons(given: str | Ratings | None) -> Ratings | None:
    if given is None or isinstance(given, Ratings):
        return given
    from nlgauge.data.ratings import read_ratings

    return read_ratings(str(given))


def _asked(task: Task, human: Ratings) -> tuple[Array, Array, Array]:
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
    return np.array(first), np.array(second), np.array(answers)


def _pair_up(task: Task, levels: Array, column: str, most: int, seed: int) -> tuple[Array, Array, str]:
    """Pairs of sets with different levels, the two sides in random order."""
    order = canonical_order(task, levels)
    rng = np.random.default_rng(seed)
    if column in task.frame.columns:
        keys = task.frame[column].cast(pl.String).fill_null("").gather(order)
    elif column == "context":
        keys = pl.Series([""] * 0)
    else:
        found = ", ".join(task.frame.columns)
        raise DataError(f"no such column; found {found}", file=task.name, column=column)
    grouped = pl.DataFrame({"key": keys, "row": order[: len(keys)]})
    joined = grouped.join(grouped, on="key", suffix="_2", maintain_order="left_right")
    left, right = joined["row"].to_numpy(), joined["row_2"].to_numpy()
    rank = np.empty(len(task), dtype=np.int64)
    rank[order] = np.arange(len(task))
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
    return np.where(swap, second, first), np.where(swap, first, second), way


def _row(
    task: Task,
    label: str,
    signature: str,
    differences: Array,
    truth: Array,
    groups: Array | None,
    using: Interval,
) -> Row:
    defined = np.isfinite(differences)
    values, levels = differences[defined], truth[defined]
    drawn = None if groups is None or len(set(groups[defined].tolist())) < 2 else groups[defined]
    row: Row = {
        "task": task.name, "metric": label, "n": len(values), "spearman": None, "spearman_ci": None,
        "accuracy": None, "accuracy_ci": None, "ties": int((values == 0).sum()), "signature": signature,
    }  # fmt: skip
    if len(values) < 3:
        return row
    right = (np.sign(values) == np.sign(levels)).astype(np.float64)
    row |= {
        "accuracy": float(right.mean()),
        "accuracy_ci": list(bootstrap_mean(right, using.confidence, using.resamples, using.seed, groups=drawn)),
    }
    if np.ptp(values) == 0 or np.ptp(levels) == 0:
        return row
    found = bootstrap_intervals(
        values[None], levels, "spearman", groups=drawn, confidence=using.confidence, resamples=using.resamples,
        seed=using.seed,
    )  # fmt: skip
    return row | {"spearman": correlation(values, levels, "spearman"), "spearman_ci": pair(found[0])}


def _points(task: Task, label: str, first: Array, second: Array, values: Array, truth: Array) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "task": [task.name] * len(values),
            "metric": [label] * len(values),
            "first": [task.ids[i] for i in first],
            "second": [task.ids[i] for i in second],
            "parameter": truth,
            "value": values,
            "right": np.sign(values) == np.sign(truth),
        }
    )
    return frame.filter(pl.col("value").is_finite())
