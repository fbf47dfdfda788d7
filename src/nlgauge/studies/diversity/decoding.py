"""The decoding test: does a metric follow a parameter, such as temperature (paper 1, sections 3.1 and 6.3)?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option
from nlgauge.data.roles import ROLES
from nlgauge.drawing import PALETTE, alt, inline
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.stats.correlation import correlation
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, columns, facts_of
from nlgauge.studies.panels import panel, points_of, points_of_sets, side_by_side
from nlgauge.studies.rows import correlation_interval, notes_on_rows
from nlgauge.studies.sentences import best_metrics
from nlgauge.studies.tasks import Measured, MetricOptions, MetricTests, Task, notes_about, tasks_of, units_fact

SUBSET = 200
LABEL_VALUE = "label_value"
Scale = Literal["auto", "linear", "log10"]
Draw = Literal["auto", "even", "simple"]
KINDS: tuple[Literal["spearman"], Literal["pearson"]] = ("spearman", "pearson")
_TREND_STEPS = 20


@dataclass(frozen=True, kw_only=True)
class ParameterOptions(MetricOptions):
    """The column that metrics should follow."""

    parameter: str | None = option(
        None, f"Column of the diversity parameter; default: {', '.join(ROLES['parameter'])}.", metavar="COL"
    )
    scale: Scale = option("auto", "Scale of the parameter; auto: log10 of top_k.")


@dataclass(frozen=True, kw_only=True)
class DecodingTest(MetricTests, ParameterOptions, Study):
    """Decoding test: does a metric follow a parameter of the generator, or any other column?

    `repeats` times, `subset` sets are drawn without replacement; `spearman` and `pearson` are means over the subsets
    and `spearman_sd` is the standard deviation. `spearman_all` is over all sets, with its interval. Where every value
    of the parameter has as many sets as any other, give or take one, as in a sweep, subsets are drawn evenly over the
    values (the paper's two sets per temperature). Any other parameter gets simple draws: even ones would give rare
    values more weight than they have in the data. Sets that share a context are not independent: intervals and tests
    resample contexts.
    """

    name: ClassVar[str] = "decoding"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge generate examples/system_a.jsonl -o sets.jsonl --sweep temperature=0.2:1.2:30",
        "nlgauge study decoding sets.jsonl -m distinct -m cos-sim -m sent-sim --chart decoding.html",
        "nlgauge study decoding reviews.csv --parameter sentiments -m content",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *columns("metric", "n"),
        Column("spearman", "rho", beside=True),
        Column("spearman_sd", "sd", beside=True),
        *columns(pearson="r", spearman_all="rho (all sets)"),
        *columns("spearman_ci", "cluster"),
    )
    aspect: ClassVar[str] = "form"

    subset: int | None = option(
        None, "Sets in each random subset; 0: all sets once. Default: 200 where there are 400 or more.", metavar="N"
    )
    repeats: int = option(100, "Random subsets.", metavar="N")
    draw: Draw = option(
        "auto",
        "Subsets: evenly over the parameter (paper), or simply random; auto: evenly if its values have equal numbers.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.repeats >= 2, "repeats", self.repeats, "at least 2")
        check_that(self.subset is None or self.subset == 0 or self.subset >= 3, "subset", self.subset, "at least 3")

    def compute(self, data: StudyData) -> Result:
        """Correlations of every metric with the parameter."""
        tasks = tasks_of(self, data)
        rows: list[Row] = []
        points = []
        notes = notes_about(tasks, self.unit)
        chosen, scales = set(), set()
        draws: set[str] = set()
        for task in tasks:
            parameter = task.column("parameter", self.parameter)
            chosen.add(parameter)
            levels = task.numbers(parameter, "parameter")
            if np.ptp(levels) == 0:
                message = f"all sets have {levels[0]:g}; expected sets made with different values"
                raise DataError(message, file=task.name, column=parameter)
            scaled, used = scaled_levels(task, parameter, levels, self.scale)
            scales.add(used)
            size = self.subset if self.subset is not None else SUBSET if len(task) >= 2 * SUBSET else 0
            if size > len(task):
                raise OptionError(
                    f"{argument('subset', size)}, and {task.name or 'the data'} has {len(task)} sets; choose fewer"
                )
            order, groups = canonical_order(task, scaled), task.units(self.unit).of
            draw = _draw_of(levels) if self.draw == "auto" else self.draw
            if size:
                draws.add(draw)
                notes.append(_note_on_draws(task, parameter, levels, size, draw))
            found = [self._row(task, one, scaled, groups, order, size, draw) for one in task.measured]
            notes += notes_on_rows(found, task, scaled, self)
            rows += found
            points += [_points(task, one, levels) for one in task.measured]
        facts = facts_of(parameter=chosen, scale=scales) | (facts_of(draw=draws) if draws else {})
        facts |= units_fact(tasks, self.unit)
        return Result(self, rows, tuple(notes), facts, {"points": pl.concat(points)})

    def _row(
        self, task: Task, one: Measured, levels: Array, groups: Array | None, order: Array, size: int, draw: Draw
    ) -> Row:
        defined = order[one.defined[order]]
        values, truth = one.values[defined], levels[defined]
        row: Row = {"task": task.name, "metric": one.label, "n": len(values), "signature": one.signature}
        keys = ("spearman", "spearman_sd", "pearson", "pearson_sd", "spearman_all", "spearman_ci", "cluster")
        row |= dict.fromkeys(keys)
        if len(values) < 3 or np.ptp(values) == 0 or np.ptp(truth) == 0:
            return row
        if size > len(values):
            raise OptionError(
                f"{argument('subset', size)}, and {one.label} has a value on {len(values)} sets; choose fewer"
            )
        rho, r = correlation(values, truth, "spearman"), correlation(values, truth, "pearson")
        interval = correlation_interval(values, truth, "spearman", self, None if groups is None else groups[defined])
        row |= {"spearman": rho, "pearson": r, "spearman_all": rho, "spearman_ci": interval}
        if size:
            row |= {"subset": size, "subsets": self.repeats}
            drawn = draw_subsets(truth, size, self.repeats, draw, self.seed)
            for kind in KINDS:
                found = np.array([correlation(values[rows], truth[rows], kind) for rows in drawn])
                row |= {kind: float(np.nanmean(found)), f"{kind}_sd": float(np.nanstd(found, ddof=1))}
        return row

    def sentence(self, result: Result) -> str:
        """Which metrics follow the parameter, and which of them do not differ significantly."""
        return best_metrics(result, result.facts["parameter"], "spearman_all")

    def chart(self, result: Result) -> Any:
        """Each set as a point, value against parameter, raters' deviations as bars, and the trend (Figure 3)."""
        scale = alt.Scale(type="log", nice=False) if result.facts["scale"] == "log10" else alt.Scale(zero=False)
        axis = alt.X("parameter:Q", title=result.facts["parameter"], scale=scale)
        panels = []
        for row in result.rows:
            mine = points_of(result, row)
            base = panel(result, row, mine, {"rho": row["spearman"], "r": row["pearson"]})
            dots = base.mark_circle(opacity=0.45, size=26, color=PALETTE[0]).encode(
                x=axis,
                y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
                tooltip=["id:N", "context:N", "parameter:Q", alt.Tooltip("value:Q", format=".4f")],
            )
            layers = [dots]
            if mine["low"].null_count() < len(mine):
                bars = base.mark_rule(opacity=0.2, color=PALETTE[0]).encode(x=axis, y="low:Q", y2="high:Q")
                layers.insert(0, bars)
            trend = alt.Chart(inline(_trend(mine))).mark_line(color=PALETTE[1], strokeWidth=2.5)
            layers.append(trend.encode(x=axis, y="value:Q"))
            panels.append(alt.layer(*layers))
        return side_by_side(result, panels)


def _trend(points: pl.DataFrame) -> list[dict[str, float]]:
    """Medians of sets with about the same parameter."""
    ordered = points.sort("parameter", "id")
    steps = min(_TREND_STEPS, max(1, len(ordered) // 5))
    cut = ordered.with_columns(step=(pl.int_range(pl.len()) * steps // pl.len()))
    means = cut.group_by("step").agg(pl.col("parameter").median(), pl.col("value").median()).sort("step")
    return means.select("parameter", "value").to_dicts()


def scaled_levels(task: Task, column: str, levels: Array, scale: Scale) -> tuple[Array, str]:
    """The parameter on its scale, and which scale that is; `label_name` says what the column `label_value` holds."""
    told = column == LABEL_VALUE and "label_name" in task.frame.columns
    named = set(task.frame["label_name"].to_list()) if told else {column}
    used = "log10" if scale == "log10" or (scale == "auto" and named <= {"top_k", "topk", "k"}) else "linear"
    if used == "linear":
        return levels, used
    if (levels <= 0).any():
        lowest = levels.min()
        raise DataError(f"{lowest:g} has no logarithm; expected positive values", file=task.name, column=column)
    return np.log10(levels), used


def canonical_order(task: Task, levels: Array) -> Array:
    """An order of the sets that does not depend on where they stand in the file."""
    frame = pl.DataFrame({"level": levels, "id": task.ids, "context": task.contexts}).with_row_index("row")
    order: Array = frame.sort("level", "id", "context", "row")["row"].to_numpy().astype(np.int64)
    return order


def _draw_of(levels: Array) -> Draw:
    """Even draws from a sweep, whose values have equal numbers of sets (some may have lost one); else simple ones."""
    return "even" if np.ptp(_counts(levels)) <= 1 else "simple"


def _counts(levels: Array) -> Array:
    counts: Array = np.unique(levels, return_counts=True)[1]
    return counts


def _note_on_draws(task: Task, parameter: str, levels: Array, size: int, draw: Draw) -> str:
    """How subsets were drawn, and what that means where values have unequal numbers of sets."""
    counts = _counts(levels)
    least, most = counts.min(), counts.max()
    of_each = f"{least}" if least == most else f"{least} to {most}"
    values = f"{len(counts)} values of {parameter} have {of_each} sets each"
    if draw == "simple":
        return f"subsets of {size} sets{task.where} are simple random draws: the {values}"
    drawn = f"subsets of {size} sets{task.where} are drawn evenly over {parameter}: the {values}"
    if most - least > 1:
        drawn += "; rare values weigh more in subsets than in the data, so rho of subsets is not rho of all sets"
    return drawn


def draw_subsets(levels: Array, size: int, repeats: int, draw: Draw, seed: int) -> Array:
    """Row numbers of `repeats` subsets; "even" takes as many sets of every level as of any other, give or take one."""
    rng = np.random.default_rng(seed)
    chance = rng.random((repeats, len(levels)))
    if draw == "simple":
        return np.argsort(chance, axis=1)[:, :size]
    kinds = np.unique(levels, return_inverse=True)[1]
    within = np.lexsort((chance, np.broadcast_to(kinds, chance.shape)), axis=1)
    starts = np.searchsorted(kinds[within[0]], kinds[within[0]])
    places = np.arange(len(levels)) - starts
    turns = np.empty_like(within)
    np.put_along_axis(turns, within, np.broadcast_to(places, within.shape), axis=1)
    return np.lexsort((rng.random(chance.shape), turns), axis=1)[:, :size]


def _points(task: Task, one: Measured, levels: Array) -> pl.DataFrame:
    spread = np.full(len(task), np.nan) if one.spread is None else one.spread
    ends = {"low": one.values - spread, "high": one.values + spread}
    points = points_of_sets(task, one.label, parameter=levels, value=one.values, **ends)
    return points.with_columns(pl.col("low", "high").fill_nan(None))
