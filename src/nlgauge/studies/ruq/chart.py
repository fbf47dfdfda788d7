"""Figures of RUQ: token scores by position (paper 5, section 7.1, Figure 1), and many models side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.drawing import alt, colours, inline, shortened
from nlgauge.studies.base import Result

_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_FEWEST_SHARE, _FEWEST = 0.05, 2
_PANELS_PER_LINE = 3


def token_positions(split: str, kind: str, logprobs: Sequence[Array]) -> pl.DataFrame:
    """Mean, standard deviation and number of the finite scores at every position, from 1 on."""
    place = np.concatenate([np.arange(1, len(one) + 1, dtype=np.int64) for one in logprobs])
    frame = pl.DataFrame({"position": place, "score": np.concatenate(logprobs)})
    score = pl.col("score")
    counts = pl.len().cast(pl.Int64)
    counted = frame.filter(score.is_finite()).group_by("position").agg(mean=score.mean(), sd=score.std(), count=counts)
    return counted.sort("position").select(pl.lit(split).alias("split"), pl.lit(kind).alias("kind"), pl.all())


def positions_chart(result: Result) -> Any:
    """One panel per split, one line per kind of text, with bands of one standard error either way.

    Positions that fewer than a twentieth of the prompts, or a single one, reach are left out.
    """
    positions = result.tables["positions"]
    kinds = positions["kind"].unique(maintain_order=True).to_list()
    names = [shortened(kind) for kind in kinds]
    shown = positions.with_columns(
        kind=pl.col("kind").replace_strict(dict(zip(kinds, names, strict=True))),
        error=(pl.col("sd") / pl.col("count").sqrt()).fill_null(0.0),
    ).filter(pl.col("count") >= (_FEWEST_SHARE * pl.col("count").max().over("split")).clip(lower_bound=_FEWEST))
    shown = shown.with_columns(low=pl.col("mean") - pl.col("error"), high=pl.col("mean") + pl.col("error"))
    scale = alt.Scale(domain=names, range=colours(len(names)))
    colour = alt.Color("kind:N", scale=scale, legend=alt.Legend(title=None, symbolOpacity=1))
    shapes = alt.Scale(domain=names, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(names))])
    panels = []
    for split in shown["split"].unique(maintain_order=True).to_list():
        mine = shown.filter(pl.col("split") == split).drop("split")
        base = alt.Chart(inline(mine.to_dicts())).encode(
            x=alt.X("position:Q", title="position of the token", axis=alt.Axis(tickMinStep=1)), color=colour
        )
        band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="mean log-probability"), y2="high:Q")
        line = base.mark_line().encode(y="mean:Q")
        dots = base.mark_point(size=50, filled=True, opacity=1).encode(
            y="mean:Q",
            shape=alt.Shape("kind:N", scale=shapes, legend=alt.Legend(title=None, symbolOpacity=1)),
            tooltip=[
                "kind:N",
                "position:Q",
                alt.Tooltip("mean:Q", format=".3f"),
                alt.Tooltip("sd:Q", format=".3f"),
                alt.Tooltip("error:Q", title="standard error", format=".3f"),
                alt.Tooltip("count:Q", title="texts"),
            ],
        )
        title = alt.Title(split, subtitle=_found(result, split))
        panels.append(alt.layer(band, line, dots).properties(title=title, width=380, height=280))
    return alt.hconcat(*panels).resolve_scale(y="shared")


def _found(result: Result, split: str) -> list[str]:
    return [
        f"RUQ {row['ruq']:.3f} against {shortened(row['generic'])}"
        for row in result.rows
        if row["split"] == split and row["ruq"] is not None
    ]


def sweep_chart(result: Result) -> Any:
    """RUQ of every model on every split, with intervals, over a panel for each other score against RUQ on the target.

    A score that no model with RUQ has is drawn as RUQ is, system by system.
    """
    splits = [key.removeprefix("n_") for key in result.rows[0] if key.startswith("n_")]
    target = f"ruq_{result.facts['target']}"
    others = [key for column in result.columns if not (key := column.key).endswith("_ci")]
    columns = [key for key in others if key not in ("model", *(f"ruq_{split}" for split in splits))]
    panels = []
    for column in columns:
        both = [row for row in result.rows if row[target] is not None and row[column] is not None]
        panels.append(_against_ruq(both, target, column) if both else _by_system(result, {column: column}, column))
    ruqs = {split: f"ruq_{split}" for split in splits}
    found = any(row[key] is not None for row in result.rows for key in ruqs.values())
    whole = [_by_system(result, ruqs, "RUQ")] if found or not panels else []
    if not panels:
        return whole[0]
    return alt.vconcat(*whole, alt.concat(*panels, columns=_PANELS_PER_LINE)).resolve_scale(color="independent")


def _by_system(result: Result, keys: dict[str, str], title: str) -> Any:
    """Values with their intervals, one line per system, one colour per key."""
    points = [
        {"model": row["model"], "what": name, "value": row[key], "low": ci[0], "high": ci[1]}
        for row in result.rows
        for name, key in keys.items()
        if row[key] is not None and (ci := row.get(f"{key}_ci") or (row[key], row[key]))
    ]
    names = list(keys)
    scale = alt.Scale(domain=names, range=colours(len(names)))
    base = alt.Chart(inline(points), width=420, height=alt.Step(28)).encode(
        y=alt.Y("model:N", sort=None, title=None),
        yOffset=alt.YOffset("what:N", sort=names),
        color=alt.Color("what:N", scale=scale, title=None),
        tooltip=["model:N", "what:N", *(alt.Tooltip(f"{key}:Q", format=".3f") for key in ("value", "low", "high"))],
    )
    rule = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    return alt.layer(rule, base.mark_point(filled=True, size=70).encode(x="value:Q"))


def _against_ruq(rows: Sequence[dict[str, Any]], target: str, column: str) -> Any:
    """One point per model, with its name: RUQ on the target to the right, the score upwards."""
    points = [{"model": shortened(row["model"]), "ruq": row[target], "value": row[column]} for row in rows]
    base = alt.Chart(inline(points)).encode(
        x=alt.X("ruq:Q", title=f"RUQ-{target.removeprefix('ruq_')}", scale=alt.Scale(zero=False, padding=12)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, padding=12)),
        tooltip=["model:N", alt.Tooltip("ruq:Q", format=".3f"), alt.Tooltip("value:Q", format=".3f")],
    )
    names = base.mark_text(align="left", dx=6, dy=-6).encode(text="model:N")
    dots = base.mark_point(filled=True, size=70, color=colours(1)[0])
    return alt.layer(dots, names).properties(title=column, width=220, height=200)
