"""Does an improvement in a metric mean one in human judgment (paper 4, section 4.2, Figure 2)?

Items are sorted by human score and cut into overlapping windows; every two windows are compared by both scores.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option, required
from nlgauge.drawing import PALETTE, alt, inline
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.stats.correlation import correlation
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, finite
from nlgauge.studies.panels import panel, points_of, side_by_side
from nlgauge.studies.sentences import listed
from nlgauge.studies.tasks import Measured, MetricOptions, Task, notes_about, tasks_of

Windows = Literal["paper", "all"]
_NAMES = {
    "both": "human (s), metric (s)",
    "human_only": "human (s), metric (ns)",
    "metric_only": "human (ns), metric (s)",
    "neither": "human (ns), metric (ns)",
}
_FEWEST_WINDOWS = 3
_MOST_WINDOWS = 2000
_MOST_POINTS = 4000
_TIE_ORDERS = 100


@dataclass(frozen=True)
class WindowPairs:
    """Windows of one metric, and tables of windows x windows: the line's mean less the column's, and p-values."""

    human: Array
    metric: Array
    human_p: Array
    metric_p: Array

    @property
    def human_differences(self) -> Array:
        """How much better people find the window of the line than that of the column."""
        found: Array = self.human[:, None] - self.human
        return found

    @property
    def metric_differences(self) -> Array:
        """How much better the metric finds it."""
        found: Array = self.metric[:, None] - self.metric
        return found

    def classes(self, alpha: float) -> dict[str, Array]:
        """Which pairs are of which class, by whose difference is significant."""
        human_s, metric_s = self.human_p < alpha, self.metric_p < alpha
        return {
            "both": human_s & metric_s,
            "human_only": human_s & ~metric_s,
            "metric_only": ~human_s & metric_s,
            "neither": ~human_s & ~metric_s,
        }


@dataclass(frozen=True, kw_only=True)
class ImprovementStudy(MetricOptions, Study):
    """Does a better metric score mean better texts? Differences between windows of items sorted by human score.

    Windows have `window` items, each window `stride` items further up than the last. Of 1,000 items the paper makes
    (1000 - 200) / 10 = 80 windows and 80 x 80 = 6,400 pairs, which the default does: the last window that would fit, of
    the best 200 items, is not among them. `windows="all"` takes it too (81). As in the paper, pairs are ordered and
    each window is paired with itself as well.

    `r2` is the square of Pearson's correlation between the two differences over all ordered pairs of windows, and
    `slope` that of the regression line. `both`, `human_only`, `metric_only` and `neither` are shares of pairs by which
    of the two differences is significant; `opposed` is the share (part of `both`) where they have opposite signs.

    A difference is significant at p < `alpha` by the two-sided unpaired t-test with equal variances (Student's; the
    paper says "t-test"). Two windows may share items: the test takes them as two independent samples even so, which
    makes it too cautious where they overlap. Items of equal truth are ordered by a hash of their id and the seed, so
    that the order of the file does not matter; `r2_ties` has the lowest and highest R2 over 100 random orders of them.
    """

    name: ClassVar[str] = "improvement"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study improvement stories.jsonl --truth human -m bleu -m rouge-l --chart improvement.html",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *map(Column, ("metric", "n", "windows", "pairs")),
        Column("r2", "R2", beside=True),
        Column("r2_ties", "R2 by order of ties"),
        Column("slope", digits=4),
        Column("both", "both (s)", beside=True),
        Column("human_only", "human (s) only", beside=True),
        Column("metric_only", "metric (s) only", beside=True),
        Column("neither", "neither (s)"),
        Column("opposed"),
    )
    aspect: ClassVar[str] = "quality"

    truth: str = required("Column of human scores.", metavar="COL")
    window: int = option(200, "Items in a window.", metavar="N")
    stride: int = option(10, "Items from one window to the next.", metavar="N")
    windows: Windows = option("paper", "Of 1,000 items: 80 windows as the paper counts, or all 81 that fit.")
    alpha: float = option(0.01, "Differences are significant below this p (t-test).", metavar="P")
    seed: int = option(12345, "Seed of the order of items with equal scores.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.window >= 2, "window", self.window, "at least 2 items")
        check_that(self.stride >= 1, "stride", self.stride, "at least 1 item")
        check_that(0 < self.alpha < 1, "alpha", self.alpha, "a p between 0 and 1")

    def compute(self, data: StudyData) -> Result:
        """Differences of every two windows, by people and by every metric."""
        tasks = tasks_of(self, data)
        rows: list[Row] = []
        points = []
        notes = notes_about(tasks)
        for task in tasks:
            where = f" on {task.name}" if task.name else ""
            human = task.numbers(self.truth, "truth")
            if np.ptp(human) == 0:
                message = f"all items have {human[0]:g}; expected different scores"
                raise DataError(message, file=task.name, column=self.truth)
            notes += _notes_on_ties(task, human)
            order = sorted_by_truth(task, human, self.seed)
            for one in task.measured:
                mine = order[one.defined[order]]
                count = self._number_of_windows(task, one, len(mine))
                found = compare_windows(
                    human[mine], one.values[mine], size=self.window, stride=self.stride, count=count
                )
                ties = self._spread_over_ties(human[mine], one.values[mine], count)
                row = _row(task, one, found, self.alpha) | {"n": len(mine), "r2_ties": ties}
                if row["r2"] is None:
                    notes.append(f"{one.label} is the same in all windows of {task.name or 'the data'}: no R2")
                elif row["slope"] < 0:
                    wrong = "its R2 is that of a wrong direction"
                    notes.append(f"{one.label} falls where human scores rise{where}: {wrong}")
                rows.append(row)
                points.append(_points(task, one, found, self.alpha))
        notes.append(
            "windows overlap: the t-test takes them as independent samples, as the paper does, and is too cautious for "
            "windows that share items; pairs are not independent either, so R2 has no p-value"
        )
        return Result(self, rows, tuple(notes), {"test": "student-t"}, {"points": pl.concat(points)})

    def _number_of_windows(self, task: Task, one: Measured, items: int) -> int:
        count = number_of_windows(items, self.window, self.stride, self.windows)
        if count < _FEWEST_WINDOWS:
            raise DataError(
                f"{items} items with {one.label} make {count} windows of {self.window} items, {self.stride} apart; "
                f"expected at least {_FEWEST_WINDOWS}: choose a smaller {argument('window')} or {argument('stride')}",
                file=task.name or None,
            )
        if count > _MOST_WINDOWS:
            raise OptionError(
                f"{items} items make {count} windows, {self.stride} apart; expected at most {_MOST_WINDOWS}: choose a "
                f"larger {argument('stride')}"
            )
        return count

    def _spread_over_ties(self, human: Array, metric: Array, count: int) -> list[float] | None:
        """The lowest and highest R2 over random orders of items of equal human score; None where there are none."""
        if len(np.unique(human)) == len(human):
            return None
        rng = np.random.default_rng(self.seed)
        means = _cut(human, self.window, self.stride, count).mean(axis=1)
        found = []
        for _ in range(_TIE_ORDERS):
            order = np.lexsort((rng.random(len(human)), human))
            found.append(_r2(means, _cut(metric[order], self.window, self.stride, count).mean(axis=1)))
        real = [value for value in found if np.isfinite(value)]
        return [min(real), max(real)] if real else None

    def sentence(self, result: Result) -> str:
        """How often metrics find the differences that people find significant, by the same test."""
        return " ".join(_sentence(result, task) for task in result.tasks)

    def chart(self, result: Result) -> Any:
        """Each pair of windows as a point where the human difference is not negative, with the regression line."""
        scale = alt.Scale(domain=list(_NAMES.values()), range=list(PALETTE[: len(_NAMES)]))
        panels = []
        for row in result.rows:
            mine = points_of(result, row)
            base = panel(result, row, mine.drop("task", "metric"), {"R2": row["r2"]})
            dots = base.mark_circle(opacity=0.5, size=14).encode(
                x=alt.X("human:Q", title="human judgment difference"),
                y=alt.Y("difference:Q", title="metric score difference"),
                color=alt.Color("class:N", scale=scale, title=None),
                tooltip=["human:Q", "difference:Q", "class:N"],
            )
            layers = [dots]
            if row["slope"] is not None:
                ends = [{"human": x, "difference": row["slope"] * x} for x in (0.0, mine["human"].max())]
                line = alt.Chart(inline(ends)).mark_line(color="#cc2222", strokeWidth=2)
                layers.append(line.encode(x="human:Q", y="difference:Q"))
            panels.append(alt.layer(*layers))
        return side_by_side(result, panels)


def _sentence(result: Result, task: str) -> str:
    where = f" on {task}" if len(result.tasks) > 1 else ""
    shares = [
        f"{row['metric']} {(row['both'] - row['opposed']) / (row['both'] + row['human_only']):.0%}"
        for row in result.rows
        if row["task"] == task and row["both"] + row["human_only"]
    ]
    if not shares:
        return f"People find no significant difference between windows{where}."
    start = f"Of the differences{where} that people find significant, these shares are significant by a metric, too"
    return f"{start}: {listed(shares)}."


def number_of_windows(items: int, size: int, stride: int, windows: Windows) -> int:
    """(items - size) / stride, rounded down, as the paper counts; one more with the last window that fits."""
    return max(0, (items - size) // stride + (windows == "all" and items >= size))


def sorted_by_truth(task: Task, truth: Array, seed: int) -> Array:
    """Row numbers by truth, then by a hash of id and seed, then by all cells, wherever a row stands in the file."""
    hashes = [hashlib.blake2b(f"{seed} {id}".encode(), digest_size=8).hexdigest() for id in task.ids]
    cells = [json.dumps(row, sort_keys=True, default=str) for row in task.frame.iter_rows(named=True)]
    return np.array(sorted(range(len(task)), key=lambda row: (truth[row], hashes[row], cells[row])), dtype=np.int64)


def compare_windows(human: Array, metric: Array, *, size: int, stride: int, count: int) -> WindowPairs:
    """Means of windows of sorted items, and the p-values of every two of them."""
    cut_human, cut_metric = (_cut(values, size, stride, count) for values in (human, metric))
    return WindowPairs(
        cut_human.mean(axis=1), cut_metric.mean(axis=1), _student_p(cut_human, size), _student_p(cut_metric, size)
    )


def _cut(values: Array, size: int, stride: int, count: int) -> Array:
    cut: Array = np.lib.stride_tricks.sliding_window_view(values, size)[::stride][:count]
    return cut


def _student_p(cut: Array, size: int) -> Array:
    """Two-sided p of Student's unpaired t-test of every two windows; 1 where their means are equal."""
    from scipy.special import stdtr

    means, variances = cut.mean(axis=1), cut.var(axis=1, ddof=1)
    difference = np.abs(means[:, None] - means)
    error = np.sqrt((variances[:, None] + variances) / size)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(difference == 0, 0.0, difference / error)
    p: Array = 2 * stdtr(2 * size - 2, -t)
    return p


def _r2(human: Array, metric: Array) -> float:
    """R2 of the differences of all ordered pairs: the same as that of the windows' means themselves.

    The sum of (x_i - x_j)(y_i - y_j) over all i and j is 2W times that of (x_i - mean x)(y_i - mean y).
    """
    return correlation(metric, human, "pearson") ** 2


def _row(task: Task, one: Measured, found: WindowPairs, alpha: float) -> Row:
    classes = found.classes(alpha)
    against = found.human_differences * found.metric_differences < 0
    from_mean = found.human - found.human.mean()
    spread = float(from_mean @ from_mean)
    r2 = finite(_r2(found.human, found.metric))
    return {
        "task": task.name,
        "metric": one.label,
        "n": 0,
        "windows": len(found.human),
        "pairs": len(found.human) ** 2,
        "r2": r2,
        "r2_ties": None,
        "slope": None if r2 is None else float(from_mean @ (found.metric - found.metric.mean())) / spread,
        **{name: float(where.mean()) for name, where in classes.items()},
        "opposed": float((classes["both"] & against).mean()),
        "signature": one.signature,
    }


def _notes_on_ties(task: Task, human: Array) -> list[str]:
    """Where the order of ties matters, and where it would depend on the order of the file."""
    where = f" of {task.name}" if task.name else ""
    kinds, counts = np.unique(human, return_counts=True)
    tied = int(counts[counts > 1].sum())
    if not tied:
        return []
    notes = [
        f"{tied} of {len(human)} items{where} share their score with others ({len(kinds)} different scores): their "
        "order, and so which window they are in, is by a hash of id and seed; 'R2 by order of ties' has the range "
        f"over {_TIE_ORDERS} random orders"
    ]
    numbered = task.ids == [str(number) for number in range(1, len(task) + 1)]
    if numbered or (task.sets is not None and not task.sets.explicit_ids):
        notes.append(f"items{where} are named by their place in the file, so another order of lines is another tie")
    return notes


def _points(task: Task, one: Measured, found: WindowPairs, alpha: float) -> pl.DataFrame:
    """Pairs for the chart: each two windows once, the better one by people first, at most 4,000 evenly chosen."""
    better, worse = np.tril_indices(len(found.human))
    step = -(-len(better) // _MOST_POINTS)
    better, worse = better[::step], worse[::step]
    names = np.full(len(better), "", dtype=object)
    for name, where in found.classes(alpha).items():
        names[where[better, worse]] = _NAMES[name]
    return pl.DataFrame(
        {
            "task": [task.name] * len(better),
            "metric": [one.label] * len(better),
            "human": found.human_differences[better, worse],
            "difference": found.metric_differences[better, worse],
            "class": names.tolist(),
        }
    )
