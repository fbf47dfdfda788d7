"""Figures of the HUSE studies: the plane of the two features (Figure 4) and the trade-off plane (Figure 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.drawing import alt, colours, inline, shortened
from nlgauge.studies.base import Row
from nlgauge.studies.huse.data import HuseData
from nlgauge.studies.huse.judges import PEOPLE

_CELLS = 48
_SOURCES = ["reference", "model"]
_COLOURS = ["#3366aa", "#cc4433"]
_SHOWN = ("id", "source", "verdict", "judgment", "logp", "model_votes", "votes")


def features_chart(rows: Sequence[Row], errors: pl.DataFrame, systems: Sequence[HuseData], *, per_token: bool) -> Any:
    """Texts in the plane of log p and judgment, the classifier's regions behind them, marginals beside them."""
    panels = [
        _one_system(row, errors.filter(pl.col("system") == row["system"]), data, per_token)
        for row, data in zip(rows, systems, strict=True)
    ]
    return alt.hconcat(*panels).resolve_scale(color="independent")


def _one_system(row: Row, errors: pl.DataFrame, data: HuseData, per_token: bool) -> Any:
    cut = [pl.col(name).map_elements(shortened, return_dtype=pl.String) for name in ("text", "context")]
    base = alt.Chart(inline(errors.select(*_SHOWN, *cut).to_dicts()))
    low, high = _range(errors["logp"].to_numpy()), _range(errors["judgment"].to_numpy())
    judged = "judgment" if data.judge == PEOPLE else f"judgment by {data.judge} (not by people)"
    source = alt.Color("source:N", scale=alt.Scale(domain=_SOURCES, range=_COLOURS), title=None)
    dots = base.mark_point(filled=True, size=42, opacity=0.85).encode(
        x=alt.X("logp:Q", title="log p per token" if per_token else "log p", scale=alt.Scale(domain=low)),
        y=alt.Y("judgment:Q", title=judged, scale=alt.Scale(domain=high)),
        color=source,
        shape=alt.Shape("source:N", scale=alt.Scale(domain=_SOURCES), legend=None),
        tooltip=[
            *(f"{name}:N" for name in ("source", "verdict", "text", "context")),
            "judgment:Q",
            alt.Tooltip("logp:Q", format=".3f"),
            "model_votes:Q",
            "votes:Q",
        ],
    )
    cells = _regions(data, low, high, int(row["k"]), per_token=per_token)
    plane = alt.layer(_region_chart(cells, low, high), dots).properties(width=360, height=320)

    def marginal(field: str, extent: list[float]) -> dict[str, Any]:
        return {"field": field, "type": "quantitative", "bin": {"maxbins": 30, "extent": extent}, "axis": None}

    count: dict[str, Any] = {"aggregate": "count", "type": "quantitative", "stack": None, "title": None}
    bars = base.mark_bar(opacity=0.5)
    top = bars.encode(x=alt.X(**marginal("logp", low)), y=alt.Y(**count), color=source).properties(width=360, height=50)
    right = bars.encode(y=alt.Y(**marginal("judgment", high)), x=alt.X(**count), color=source)
    right = right.properties(width=50, height=320)
    scores = f"HUSE {row['huse']:.2f}, HUSE-Q {row['huse_q']:.2f}, HUSE-D {row['huse_d']:.2f}"
    return alt.vconcat(top, alt.hconcat(plane, right)).properties(title=alt.Title(str(row["system"]), subtitle=scores))


def _range(values: Array) -> list[float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low or 1.0)
    return [low - margin, high + margin]


def _region_chart(cells: list[dict[str, float]], low: list[float], high: list[float]) -> Any:
    x, y = alt.X("x:Q", scale=alt.Scale(domain=low)), alt.Y("y:Q", scale=alt.Scale(domain=high))
    shares = alt.Scale(domain=[0, 0.5, 1], range=["#a9c4e8", "#ffffff", "#f0b3aa"])
    fill = alt.Fill("share:Q", scale=shares, legend=alt.Legend(title="votes for model", format=".0%"))
    return (
        alt.Chart(inline(cells))
        .mark_rect(opacity=0.35, strokeWidth=0)
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q", fill=fill)
    )


def _regions(data: HuseData, low: list[float], high: list[float], k: int, *, per_token: bool) -> list[dict[str, float]]:
    """Cells of the plane with the share of votes for the model at their centres."""
    xs, ys = (pairwise(np.linspace(ends[0], ends[1], _CELLS + 1).tolist()) for ends in (low, high))
    cells = [{"x": x, "x2": x2, "y": y, "y2": y2} for (x, x2), (y, y2) in product(xs, ys)]
    centres = np.array([((cell["x"] + cell["x2"]) / 2, (cell["y"] + cell["y2"]) / 2) for cell in cells])
    shares = votes_at(data, centres, k, per_token=per_token).tolist()
    return [{**cell, "share": round(share, 3)} for cell, share in zip(cells, shares, strict=True)]


def votes_at(data: HuseData, points: Array, k: int, *, per_token: bool = True) -> Array:
    """Share of the model among the neighbours of any points of the plane, by the classifier that makes the score."""
    from scipy.spatial import cKDTree

    features = data.features(per_token=per_token)
    spread = features.std(axis=0)
    tree = cKDTree(features / spread)
    scaled = np.asarray(points) / spread
    radius = tree.query(scaled, k=[k])[0][:, 0] * (1 + 1e-9)
    return np.array([data.is_model[rows].mean() for rows in tree.query_ball_point(scaled, radius)])


def plane_chart(rows: Sequence[Row], judges: list[str]) -> Any:
    """Systems by HUSE-D and HUSE-Q, lines of equal HUSE, and the region that some system dominates (Figure 3)."""
    top = max(1.05, *(row[key] + 0.05 for row in rows for key in ("huse_d", "huse_q")))
    groups = list(dict.fromkeys(str(row["group"]) for row in rows))
    scale = alt.Scale(domain=groups, range=colours(len(groups)))
    xy = {
        "x": alt.X("huse_d:Q", title="HUSE-D (diversity)", scale=alt.Scale(domain=[0, top])),
        "y": alt.Y("huse_q:Q", title="HUSE-Q (quality)", scale=alt.Scale(domain=[0, top])),
    }
    lines = [
        {"huse_d": d, "huse_q": level + 1 - d, "huse": f"HUSE {level:.1f}"}
        for level in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
        for d in (max(0.0, level + 1 - top), min(top, level + 1))
    ]
    iso = alt.Chart(inline(lines)).mark_line(color="#bbbbbb", strokeDash=[4, 3])
    iso = iso.encode(detail="huse:N", tooltip="huse:N", **xy)
    levels = alt.Chart(inline(lines[::2])).mark_text(color="#888888", dx=6, dy=4, align="left", fontSize=10)
    levels = levels.encode(text="huse:N", **xy)
    shade = alt.Chart(inline(_dominated_region(rows))).mark_line(filled=True, opacity=0.1, color="#888888")
    shade = shade.encode(order="order:Q", **xy)
    base = alt.Chart(inline([_flat(row) for row in rows]))
    colour = alt.Color("group:N", scale=scale, title=None)
    bars = [
        base.mark_rule(opacity=0.6).encode(x="d_low:Q", x2="d_high:Q", y="huse_q:Q", color=colour),
        base.mark_rule(opacity=0.6).encode(x="huse_d:Q", y="q_low:Q", y2="q_high:Q", color=colour),
    ]
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        color=colour,
        tooltip=["system:N", *(alt.Tooltip(f"{key}:Q", format=".3f") for key in ("huse", "huse_q", "huse_d")), "n:Q"],
        **xy,
    )
    names = base.mark_text(dx=8, dy=-8, align="left").encode(text="system:N", **xy)
    judged = "judged by " + ", ".join(judges) + (" (not by people)" if judges != [PEOPLE] else "")
    shown = "shaded: worse than systems at the same proportion of both"
    title = alt.Title("Quality and diversity", subtitle=f"{judged}; {shown}")
    return alt.layer(shade, iso, levels, *bars, dots, names).properties(width=440, height=440, title=title)


def _dominated_region(rows: Sequence[Row]) -> list[Row]:
    """From the origin to the systems that nothing dominates, in the order of their proportion, and back."""
    best = sorted(
        (row for row in rows if not row["dominated_by"]), key=lambda row: math.atan2(row["huse_q"], row["huse_d"])
    )
    corners = [(0.0, 0.0), *((row["huse_d"], row["huse_q"]) for row in best), (0.0, 0.0)]
    return [{"huse_d": d, "huse_q": q, "order": place} for place, (d, q) in enumerate(corners)]


def _flat(row: Row) -> Row:
    d, q = row["huse_d_ci"] or [row["huse_d"]] * 2, row["huse_q_ci"] or [row["huse_q"]] * 2
    return {**row, "d_low": d[0], "d_high": d[1], "q_low": q[0], "q_high": q[1]}
