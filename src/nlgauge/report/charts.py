"""Charts, in Altair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from nlgauge.drawing import PALETTE, colours, inline
from nlgauge.metrics.score import Score
from nlgauge.report.tables import unique_names

POINTS_SHOWN = 2000


def _colour(systems: list[str]) -> alt.Color:
    scale = alt.Scale(domain=systems, range=colours(len(systems)))
    return alt.Color("system:N", scale=scale, legend=alt.Legend(orient="top", title=None) if systems[1:] else None)


def _systems(scores: Sequence[Score]) -> list[str]:
    return list(dict.fromkeys(score.system for score in scores))


def interval_chart(scores: Sequence[Score]) -> Any:
    """Every score with its interval, one small panel a metric, since their scales differ."""
    names = unique_names(scores)
    systems = _systems(scores)
    rows = [
        {
            "metric": names[s.label],
            "system": s.system,
            "value": s.value,
            "low": s.value if s.ci is None else s.ci[0],
            "high": s.value if s.ci is None else s.ci[1],
        }
        for s in scores
    ]
    panels = []
    for name in names.values():
        mine = [row for row in rows if row["metric"] == name]
        higher = next(s.higher_is for s in scores if names[s.label] == name)
        base = alt.Chart(inline(mine)).encode(y=alt.Y("system:N", title=None, sort=systems), color=_colour(systems))
        axis = alt.X("low:Q", title=f"{name} (higher is {higher})", scale=alt.Scale(zero=False))
        tooltip = ["system:N", *(alt.Tooltip(f"{field}:Q", format=".4f") for field in ("value", "low", "high"))]
        bar = base.mark_rule(strokeWidth=3).encode(x=axis, x2="high:Q", tooltip=tooltip)
        dot = base.mark_point(filled=True, size=90, opacity=1).encode(x="value:Q", tooltip=tooltip)
        panels.append((bar + dot).properties(width=420, height=24 * len(systems) + 6))
    return alt.vconcat(*panels).resolve_scale(x="independent")


def distribution_chart(table: pl.DataFrame, names: Sequence[str], systems: list[str]) -> Any:
    """Values of single contexts; a menu chooses the metric."""
    choice = _metric_menu(names)
    rows = table.unpivot(index=["system", "id", "context"], on=list(names), variable_name="metric").to_dicts()
    base = (
        alt.Chart(inline(rows))
        .transform_filter("datum.metric == chosen && isValid(datum.value)")
        .encode(
            x=alt.X("value:Q", title="value of one context", scale=alt.Scale(zero=False)),
            y=alt.Y("system:N", title=None, sort=systems),
            color=_colour(systems),
        )
    )
    ticks = base.mark_circle(opacity=0.5, size=40).encode(
        yOffset="jitter:Q", tooltip=["id:N", "context:N", alt.Tooltip("value:Q", format=".4f")]
    )
    box = base.mark_boxplot(extent=0, size=10, opacity=0.35, outliers=False)
    jittered = ticks.transform_calculate(jitter="(toNumber(datum.rank) % 7 - 3)").transform_window(
        rank="row_number()", groupby=["system"]
    )
    return (
        alt.layer(box, jittered)
        .add_params(choice)
        .properties(width=420, height=80 * len(systems))
        .resolve_scale(yOffset="independent")
    )


def paired_chart(table: pl.DataFrame, names: Sequence[str], first: str, second: str) -> Any:
    """Each context as a point, one system against the other; points above the line score higher for the second."""
    choice = _metric_menu(names)
    long = table.unpivot(index=["system", "id", "context"], on=list(names), variable_name="metric")
    one, two = long.filter(pl.col("system") == first), long.filter(pl.col("system") == second)
    rows = one.join(two, on=["id", "metric"], suffix="_2").select(
        "id", "context", "metric", pl.col("value").alias("one"), pl.col("value_2").alias("two")
    )
    base = alt.Chart(inline(rows.to_dicts())).transform_filter(
        "datum.metric == chosen && isValid(datum.one) && isValid(datum.two)"
    )
    points = base.mark_circle(opacity=0.6, size=60, color=PALETTE[0]).encode(
        x=alt.X("one:Q", title=first, scale=alt.Scale(zero=False)),
        y=alt.Y("two:Q", title=second, scale=alt.Scale(zero=False)),
        tooltip=[
            "id:N",
            "context:N",
            alt.Tooltip("one:Q", title=first, format=".4f"),
            alt.Tooltip("two:Q", title=second, format=".4f"),
        ],
    )
    ends = base.transform_aggregate(
        low1="min(one)", low2="min(two)", high1="max(one)", high2="max(two)"
    ).transform_calculate(low="min(datum.low1, datum.low2)", high="max(datum.high1, datum.high2)")
    line = ends.mark_rule(strokeDash=[4, 4], color="gray").encode(x="low:Q", y="low:Q", x2="high:Q", y2="high:Q")
    return alt.layer(line, points).add_params(choice).properties(width=360, height=360)


def _metric_menu(names: Sequence[str]) -> alt.Parameter:
    menu = alt.binding_select(options=list(names), name="metric ")
    return alt.param(name="chosen", value=names[0], bind=menu)


def to_spec(chart: Any) -> dict[str, Any]:
    """The chart as a Vega-Lite specification with a transparent background."""
    spec: dict[str, Any] = chart.configure(background="transparent").configure_view(stroke=None).to_dict()
    return spec


def loss_curve(training: Sequence[float], validation: Sequence[tuple[int, float]], best: int) -> str:
    """Training loss of every step and validation loss of some, as SVG."""
    import vl_convert

    rows: list[dict[str, Any]] = [
        {"step": step, "loss": loss, "texts": "training"} for step, loss in enumerate(training, 1)
    ]
    rows += [{"step": step, "loss": loss, "texts": "validation"} for step, loss in validation]
    colour = alt.Color(
        "texts:N",
        scale=alt.Scale(domain=["training", "validation"], range=["#aabbdd", "#dd7733"]),
        legend=alt.Legend(orient="top", title=None),
    )
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("step:Q", title=f"step (best: {best})"),
        y=alt.Y("loss:Q", title="loss a token (nats)", scale=alt.Scale(zero=False)),
        color=colour,
    )
    points = base.transform_filter("datum.texts == 'validation'").mark_point(filled=True, size=40, opacity=1)
    svg: str = vl_convert.vegalite_to_svg(
        alt.layer(base.mark_line(), points).properties(width=560, height=320).to_dict()
    )
    return svg
