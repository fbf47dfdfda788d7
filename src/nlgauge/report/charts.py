"""Charts of a report card, in Altair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from nlgauge.drawing import PALETTE, colours, inline
from nlgauge.metrics.score import Score
from nlgauge.report.card.meanings import Meanings
from nlgauge.report.card.texts import clipped
from nlgauge.report.tables import set_values

if TYPE_CHECKING:
    from nlgauge.studies.base import Result

POINTS_SHOWN = 2000
_NAME_SHOWN = 40
_CONTEXT_SHOWN = 120
_WIDTH = 400


def _shown_names(systems: Sequence[str]) -> dict[str, str]:
    """Names of systems as charts show them: short, and different from each other."""
    short = [clipped(system, _NAME_SHOWN) for system in systems]
    names = [name if short.count(name) == 1 else f"{place + 1}: {name}" for place, name in enumerate(short)]
    return dict(zip(systems, names, strict=True))


def _colour(systems: Sequence[str], *, legend: bool = True) -> alt.Color:
    scale = alt.Scale(domain=list(systems), range=colours(len(systems)))
    shown = alt.Legend(orient="top", title=None, symbolOpacity=1, labelLimit=240) if legend and systems[1:] else None
    return alt.Color("system:N", scale=scale, legend=shown)


def _number(field: str, **rest: Any) -> alt.Tooltip:
    return alt.Tooltip(f"{field}:Q", format=".4f", **rest)


def interval_chart(scores: Sequence[Score], names: Sequence[str], systems: Sequence[str]) -> Any:
    """Scores with intervals, one small panel per metric, since their scales differ; `names` are of metrics in order."""
    shown = _shown_names(systems)
    panels = []
    for name in dict.fromkeys(names):
        mine = [score for score, own in zip(scores, names, strict=True) if own == name]
        rows = [
            {"system": shown[score.system], "value": score.value, "low": low, "high": high}
            for score in mine
            for low, high in (score.ci or (score.value, score.value),)
        ]
        order = list(shown.values())
        base = alt.Chart(inline(rows)).encode(
            y=alt.Y("system:N", title=None, sort=order, axis=alt.Axis(labelLimit=90, ticks=False, domain=False)),
            color=_colour(order, legend=False),
        )
        title = f"{name} (higher is {mine[0].higher_is})"
        axis = alt.X("low:Q", title=title, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=5))
        tooltip = ["system:N", *map(_number, ("value", "low", "high"))]
        bar = base.mark_rule(strokeWidth=3).encode(x=axis, x2="high:Q", tooltip=tooltip)
        dot = base.mark_point(filled=True, size=80, opacity=1).encode(x="value:Q", tooltip=tooltip)
        panels.append((bar + dot).properties(width=275, height=22 * len(systems) + 4))
    return alt.concat(*panels, columns=3, spacing=26).resolve_scale(x="independent")


def wide_values(scores: Sequence[Score], names: Mapping[str, str], contexts: Mapping[str, str]) -> pl.DataFrame:
    """As `set_values`, with the context after the id; at most `POINTS_SHOWN` ids."""
    table = set_values(scores, names)
    ids = table["id"].unique().sort()
    if len(ids) > POINTS_SHOWN:
        table = table.filter(pl.col("id").is_in(ids.sample(POINTS_SHOWN, seed=0).to_list()))
    shown = [clipped(contexts.get(id, ""), _CONTEXT_SHOWN) for id in table["id"]]
    return table.insert_column(2, pl.Series("context", shown, dtype=pl.String))


def distribution_chart(table: pl.DataFrame, metrics: Sequence[str], systems: Sequence[str]) -> Any:
    """Values of single contexts; a menu chooses the metric."""
    shown = _shown_names(systems)
    rows = table.with_columns(pl.col("system").replace_strict(shown)).to_dicts()
    base = (
        alt.Chart(inline(rows))
        .transform_calculate(value="datum[chosen]")
        .transform_filter("isValid(datum.value)")
        .encode(
            x=alt.X("value:Q", title="value of one context", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6)),
            y=alt.Y("system:N", title=None, sort=list(shown.values()), axis=alt.Axis(labelLimit=90)),
            color=_colour(list(shown.values()), legend=False),
        )
    )
    dots = base.mark_circle(opacity=0.5, size=36).encode(
        yOffset="jitter:Q", tooltip=["id:N", "context:N", _number("value")]
    )
    box = base.mark_boxplot(extent=0, size=12, opacity=0.35, outliers=False)
    jittered = dots.transform_window(rank="row_number()", groupby=["system"]).transform_calculate(
        jitter="(toNumber(datum.rank) % 7 - 3)"
    )
    return (
        alt.layer(box, jittered)
        .add_params(_menu("chosen", metrics, "metric "))
        .properties(width=_WIDTH, height=max(260, 80 * len(systems)))
        .resolve_scale(yOffset="independent")
    )


def paired_chart(table: pl.DataFrame, metrics: Sequence[str], first: str, second: str) -> Any:
    """Each context as a point, one system against the other; points above the line score higher for the second."""
    one, two = (table.filter(pl.col("system") == system).drop("system") for system in (first, second))
    values = one.select("id", "context", *(pl.col(name).alias(f"{name}|1") for name in metrics)).join(
        two.select("id", *(pl.col(name).alias(f"{name}|2") for name in metrics)), on="id", maintain_order="left"
    )
    base = (
        alt.Chart(inline(values.to_dicts()))
        .transform_calculate(one="datum[chosen + '|1']", two="datum[chosen + '|2']")
        .transform_filter("isValid(datum.one) && isValid(datum.two)")
    )
    names = list(_shown_names([first, second]).values())
    points = base.mark_circle(opacity=0.6, size=50, color=PALETTE[0]).encode(
        x=alt.X("one:Q", title=names[0], scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6)),
        y=alt.Y("two:Q", title=names[1], scale=alt.Scale(zero=False)),
        tooltip=["id:N", "context:N", _number("one", title=names[0]), _number("two", title=names[1])],
    )
    ends = base.transform_aggregate(
        low1="min(one)", low2="min(two)", high1="max(one)", high2="max(two)"
    ).transform_calculate(low="min(datum.low1, datum.low2)", high="max(datum.high1, datum.high2)")
    line = ends.mark_rule(strokeDash=[4, 4], color="gray").encode(x="low:Q", y="low:Q", x2="high:Q", y2="high:Q")
    return alt.layer(line, points).add_params(_menu("chosen", metrics, "metric ")).properties(width=340, height=300)


def length_chart(study: Result) -> Any:
    """Distinct and EAD of equally large sets of equally long texts, against that length (paper 2, Figure 1)."""
    rows = study.tables["curves"].select("score", "length", "mean", "sd", "texts").to_dicts()
    order = ["distinct", "ead"]
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("length:Q", title="words in a text", scale=alt.Scale(zero=False), axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("mean:Q", title="score", scale=alt.Scale(zero=False)),
        color=alt.Color(
            "score:N",
            scale=alt.Scale(domain=order, range=list(PALETTE[2:4])),
            legend=alt.Legend(orient="top", title=None, symbolOpacity=1),
        ),
        tooltip=["score:N", "length:Q", _number("mean"), alt.Tooltip("texts:Q", format=",")],
    )
    dots = base.mark_point(filled=True, size=45, opacity=1)
    trend = base.transform_regression("length", "mean", groupby=["score"]).mark_line(strokeDash=[5, 4], strokeWidth=1.5)
    return alt.layer(trend.encode(tooltip=alt.value(None)), dots).properties(width=_WIDTH, height=240)


def meanings_chart(meanings: Meanings, systems: Sequence[str]) -> Any:
    """In how many contexts the responses fall into one group, two groups, and so on."""
    shown = _shown_names(systems)
    counts = Counter((shown[system], max(groups) + 1) for (system, _), groups in meanings.groups.items())
    rows = [{"system": system, "groups": groups, "contexts": n} for (system, groups), n in counts.items()]
    order = list(shown.values())
    return (
        alt.Chart(inline(rows))
        .mark_bar()
        .encode(
            x=alt.X("groups:O", title="groups of responses with similar meaning", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("system:N", sort=order),
            y=alt.Y("contexts:Q", title="contexts", axis=alt.Axis(tickMinStep=1)),
            color=_colour(order),
            tooltip=["system:N", "groups:O", "contexts:Q"],
        )
        .properties(width=_WIDTH, height=240)
    )


def plane_chart(
    quality: Sequence[tuple[str, Score]], diversity: Sequence[tuple[str, Score]], systems: Sequence[str]
) -> Any:
    """Quality against diversity, one point per system; menus choose the metrics. Up and right is better."""
    shown = _shown_names(systems)
    rows = [
        {
            "system": shown[good.system],
            "quality": one,
            "diversity": other,
            "x": good.value,
            "y": varied.value,
            **{f"x{i}": end for i, end in enumerate(good.ci or (good.value, good.value))},
            **{f"y{i}": end for i, end in enumerate(varied.ci or (varied.value, varied.value))},
        }
        for one, good in quality
        for other, varied in diversity
        if good.system == varied.system
    ]
    base = alt.Chart(inline(rows)).transform_filter("datum.quality == good && datum.diversity == varied")
    colour = _colour(list(shown.values()))
    x = alt.X("x:Q", title="quality →", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6))
    y = alt.Y("y:Q", title="diversity →", scale=alt.Scale(zero=False))
    tooltip = ["system:N", _number("x", title="quality"), _number("y", title="diversity")]
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(x=x, y=y, color=colour, tooltip=tooltip)
    across = base.mark_rule(strokeWidth=2).encode(x=alt.X("x0:Q"), x2="x1:Q", y="y:Q", color=colour)
    along = base.mark_rule(strokeWidth=2).encode(x="x:Q", y=alt.Y("y0:Q"), y2="y1:Q", color=colour)
    menus = [
        _menu("good", list(dict.fromkeys(name for name, _ in quality)), "quality "),
        _menu("varied", list(dict.fromkeys(name for name, _ in diversity)), "diversity "),
    ]
    return alt.layer(across, along, dots).add_params(*menus).properties(width=340, height=300)


def _menu(param: str, names: Sequence[str], label: str) -> alt.Parameter:
    menu = alt.binding_select(options=list(names), name=label)
    return alt.param(name=param, value=names[0], bind=menu)


def to_spec(chart: Any) -> dict[str, Any]:
    """The chart as a Vega-Lite specification with a transparent background."""
    spec: dict[str, Any] = chart.configure(background="transparent").configure_view(stroke=None).to_dict()
    return spec
