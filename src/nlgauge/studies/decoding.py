"""The decoding test: does a metric follow a parameter of the generator (paper 1, sections 3.1 and 6.3)?

Any column can be the parameter: temperature, top-p, top-k, or the number of sentiments among the responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.drawing import PALETTE, inline, shortened
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import bootstrap_intervals, correlation
from nlgauge.studies.base import Row, Study, pair
from nlgauge.studies.content import find_column
from nlgauge.studies.significance import add_clusters
from nlgauge.studies.tasks import Measured, Over, Task, make_tasks, notes_about, resampled_units

PARAMETERS = ("temperature", "top_p", "top_k", "label_value", "parameter")
SUBSET = 200
Scale = Literal["auto", "linear", "log10"]
Draw = Literal["even", "simple"]
_TREND_STEPS = 20


@dataclass(frozen=True)
class DecodingTest(Study):
    """Correlation of every metric with the parameter.

    With repeated subsets, `spearman` and `pearson` are means over them and `spearman_sd` is the standard deviation;
    `spearman_all` is over all sets, with its interval.
    """

    name: ClassVar[str] = "decoding"
    columns: ClassVar[tuple[str, ...]] = (
        "metric", "n", "spearman", "spearman_sd", "pearson", "spearman_all", "spearman_ci", "cluster"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ("spearman", "spearman_sd")
    titles: ClassVar[Mapping[str, str]] = {
        "spearman": "rho", "spearman_sd": "sd", "pearson": "r", "spearman_all": "rho (all sets)"
    }  # fmt: skip

    points: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    def chart(self) -> Any:
        """Each set as a point, value against parameter, raters' deviations as bars, and the trend (Figure 3)."""
        import altair as alt

        panels = []
        for row in self.rows:
            mine = self.points_of(self.points, row)
            axis = alt.X("parameter:Q", title=self.signature.options["parameter"], scale=alt.Scale(zero=False))
            if self.signature.options["scale"] == "log10":
                axis = alt.X(
                    "parameter:Q", title=self.signature.options["parameter"], scale=alt.Scale(type="log", nice=False)
                )
            base = self.panel(row, mine, {"rho": row["spearman"], "r": row["pearson"]})
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
        return self.lay_out(panels)


def _trend(points: pl.DataFrame) -> list[dict[str, float]]:
    """Medians of sets with about the same parameter."""
    ordered = points.sort("parameter", "id")
    steps = min(_TREND_STEPS, max(1, len(ordered) // 5))
    cut = ordered.with_columns(step=(pl.int_range(pl.len()) * steps // pl.len()))
    means = cut.group_by("step").agg(pl.col("parameter").median(), pl.col("value").median()).sort("step")
    return means.select("parameter", "value").to_dicts()


def decoding_test(
    data: Any,
    metrics: Sequence[str | Metric] = (),
    *,
    columns: Sequence[str] = (),
    ratings: Any = None,
    parameter: str | None = None,
    scale: Scale = "auto",
    subset: int | None = None,
    repeats: int = 100,
    draw: Draw = "even",
    significance: bool = True,
    over: Over = "auto",
    interval: Interval | None = None,
    permutations: int = 1000,
    by: str | None = None,
    names: Sequence[str] = (),
    decimals: int | None = None,
    **reading: Any,
) -> DecodingTest:
    """Run the decoding test on response sets that were made with different values of `parameter`.

    `repeats` times, `subset` sets are drawn without replacement: evenly over the values of the parameter as the paper
    does (two sets a temperature), or `draw="simple"`. None: 200 where there are at least twice as many sets,
    otherwise all sets once; 0: all sets once. Sets that share a context are not independent: intervals and tests
    resample contexts (`over="sets"`: sets, as if they were). `scale` "auto" takes log10 of a column of the name top_k.
    """
    if scale not in ("auto", "linear", "log10") or draw not in ("even", "simple"):
        raise OptionError(f"scale '{scale}', draw '{draw}'; expected auto, linear or log10, and even or simple")
    if repeats < 2 or (subset is not None and (subset < 0 or subset in (1, 2))):
        raise OptionError(f"{repeats} subsets of {subset} sets; expected at least 2 of at least 3")
    using = interval or Interval()
    tasks = make_tasks(
        data, metrics, columns=columns, ratings=ratings, by=by, names=names, decimals=decimals, **reading
    )
    rows: list[Row] = []
    points = []
    notes = notes_about(tasks, over)
    chosen, scales = "", set()
    for task in tasks:
        chosen = parameter or find_column(task, PARAMETERS, "parameter")
        levels = task.numbers(chosen, "parameter")
        if np.ptp(levels) == 0:
            raise DataError(
                f"all sets have {levels[0]:g}; expected sets made with different values", file=task.name, column=chosen
            )
        scaled, used = scaled_levels(task, chosen, levels, scale)
        scales.add(used)
        size = subset if subset is not None else SUBSET if len(task) >= 2 * SUBSET else 0
        if size > len(task):
            raise OptionError(f"subsets of {size} sets, and {task.name or 'the data'} has {len(task)}; choose fewer")
        order, groups = canonical_order(task, scaled), task.groups(over)
        for one in task.measured:
            row = _row(task, one, scaled, groups, order, size, repeats, draw, using)
            if row["spearman"] is None and row["n"]:
                notes.append(f"{one.label} is the same on all sets of {task.name or 'the data'}: no correlation")
            rows.append(row)
            points.append(_points(task, one, levels))
        if significance:
            notes += add_clusters(rows, task, scaled, groups, permutations=permutations, seed=using.seed)
    options = {
        "parameter": chosen, "scale": "/".join(sorted(scales)),
        "subsets": f"auto-{repeats}x{SUBSET}" if subset is None else f"{repeats}x{subset}" if subset else "none",
        "draw": draw,
        "over": resampled_units(tasks, over), "ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}",
        "test": f"perm-both-{permutations}" if significance else "none", "seed": str(using.seed),
    }  # fmt: skip
    options |= {} if decimals is None else {"decimals": str(decimals)}
    return DecodingTest(rows, Signature("decoding", options), notes=tuple(notes), points=pl.concat(points))


def scaled_levels(task: Task, column: str, levels: Array, scale: Scale) -> tuple[Array, str]:
    """The parameter on its scale, and which scale that is."""
    named = set(task.frame["label_name"].to_list()) if "label_name" in task.frame.columns else {column}
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


def _row(
    task: Task,
    one: Measured,
    levels: Array,
    groups: Array | None,
    order: Array,
    size: int,
    repeats: int,
    draw: Draw,
    using: Interval,
) -> Row:
    defined = order[one.defined[order]]
    values, truth = one.values[defined], levels[defined]
    row: Row = {
        "task": task.name, "metric": one.label, "n": len(values), "spearman": None, "spearman_sd": None,
        "pearson": None, "pearson_sd": None, "spearman_all": None, "spearman_ci": None, "cluster": None,
        "signature": one.signature,
    }  # fmt: skip
    if len(values) < 3 or np.ptp(values) == 0 or np.ptp(truth) == 0:
        return row
    if size > len(values):
        raise OptionError(f"subsets of {size} sets, and {one.label} has a value on {len(values)}; choose fewer")
    rho, r = correlation(values, truth, "spearman"), correlation(values, truth, "pearson")
    low_high = bootstrap_intervals(
        values[None], truth, "spearman", groups=None if groups is None else groups[defined],
        confidence=using.confidence, resamples=using.resamples, seed=using.seed,
    )[0]  # fmt: skip
    row |= {"spearman": rho, "pearson": r, "spearman_all": rho, "spearman_ci": pair(low_high)}
    if size:
        drawn = draw_subsets(truth, size, repeats, draw, using.seed)
        rhos = np.array([correlation(values[rows], truth[rows], "spearman") for rows in drawn])
        rs = np.array([correlation(values[rows], truth[rows], "pearson") for rows in drawn])
        row |= {
            "subset": size, "subsets": repeats, "spearman": float(np.nanmean(rhos)),
            "spearman_sd": float(np.nanstd(rhos, ddof=1)), "pearson": float(np.nanmean(rs)),
            "pearson_sd": float(np.nanstd(rs, ddof=1)),
        }  # fmt: skip
    return row


def _points(task: Task, one: Measured, levels: Array) -> pl.DataFrame:
    spread = np.full(len(task), np.nan) if one.spread is None else one.spread
    frame = pl.DataFrame(
        {
            "task": [task.name] * len(task),
            "metric": [one.label] * len(task),
            "id": task.ids,
            "context": [shortened(context) for context in task.contexts],
            "parameter": levels,
            "value": one.values,
            "low": one.values - spread,
            "high": one.values + spread,
        }
    )
    return frame.filter(pl.col("value").is_finite()).with_columns(pl.col("low", "high").fill_nan(None))
