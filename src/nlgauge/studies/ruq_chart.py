"""Token scores by position, and their figure (paper 5, section 7.1, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.drawing import colours, inline, shortened

if TYPE_CHECKING:
    from nlgauge.studies.ruq import Ruq

_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_FEWEST_SHARE, _FEWEST = 0.05, 2


def token_positions(split: str, kind: str, logprobs: Sequence[Array]) -> pl.DataFrame:
    """Mean, standard deviation and number of the finite scores at every position, from 1 on."""
    place = np.concatenate([np.arange(1, len(one) + 1, dtype=np.int64) for one in logprobs])
    frame = pl.DataFrame({"position": place, "score": np.concatenate(logprobs)})
    counted = frame.filter(pl.col("score").is_finite()).group_by("position").agg(
        mean=pl.col("score").mean(), sd=pl.col("score").std(), count=pl.len().cast(pl.Int64)
    )  # fmt: skip
    return counted.sort("position").select(pl.lit(split).alias("split"), pl.lit(kind).alias("kind"), pl.all())


def positions_chart(study: Ruq) -> Any:
    """A panel a split, a line a kind of text, with bands of one standard error either way.

    Positions that fewer than a twentieth of the prompts, or a single one, reach are left out.
    """
    import altair as alt

    kinds = study.positions["kind"].unique(maintain_order=True).to_list()
    names = [shortened(kind) for kind in kinds]
    shown = study.positions.with_columns(
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
                "kind:N", "position:Q", alt.Tooltip("mean:Q", format=".3f"), alt.Tooltip("sd:Q", format=".3f"),
                alt.Tooltip("error:Q", title="standard error", format=".3f"), alt.Tooltip("count:Q", title="texts"),
            ],
        )  # fmt: skip
        title = alt.Title(split, subtitle=_found(study, split))
        panels.append(alt.layer(band, line, dots).properties(title=title, width=380, height=280))
    return alt.hconcat(*panels).resolve_scale(y="shared")


def _found(study: Ruq, split: str) -> list[str]:
    return [
        f"RUQ {row['ruq']:.3f} against {shortened(row['generic'])}"
        for row in study.rows
        if row["split"] == split and row["ruq"] is not None
    ]
