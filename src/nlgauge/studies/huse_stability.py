"""HUSE by number of texts and of raters (paper 3, section 5.4, Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.drawing import inline
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.signature import Signature
from nlgauge.stats.neighbours import Ties, leave_one_out
from nlgauge.studies.base import Row, Study
from nlgauge.studies.huse import K
from nlgauge.studies.huse_data import HuseData, HuseOptions, read_huse
from nlgauge.studies.tasks import task_names

SCORES = ("huse", "huse_q", "huse_d")


@dataclass(frozen=True)
class HuseStability(Study):
    """Mean and standard deviation of the three scores over draws of fewer texts or fewer raters."""

    name: ClassVar[str] = "huse-stability"
    index: ClassVar[str] = "system"
    columns: ClassVar[tuple[str, ...]] = (
        "system", "varied", "items", "raters", "huse", "huse_sd", "huse_q", "huse_q_sd", "huse_d", "huse_d_sd"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {
        "huse": "HUSE", "huse_q": "HUSE-Q", "huse_d": "HUSE-D", "huse_sd": "sd", "huse_q_sd": "sd", "huse_d_sd": "sd"
    }  # fmt: skip

    def chart(self) -> Any:
        """Scores against the number of texts (left) and of raters (right), one standard deviation as a band."""
        import altair as alt

        panels = []
        for varied, title in (("items", "texts"), ("raters", "raters a text")):
            rows = [
                {
                    "count": row[varied], "score": score.upper().replace("_", "-"), "system": row["system"],
                    "mean": row[score], "low": row[score] - row[f"{score}_sd"], "high": row[score] + row[f"{score}_sd"],
                }
                for row in self.rows
                if row["varied"] == varied
                for score in SCORES
            ]  # fmt: skip
            if not rows:
                continue
            base = alt.Chart(inline(rows), width=320, height=260).encode(
                x=alt.X("count:Q", title=title), color=alt.Color("score:N", title=None), strokeDash="system:N"
            )
            band = base.mark_area(opacity=0.12).encode(y=alt.Y("low:Q", title="score"), y2="high:Q")
            line = base.mark_line(point=True).encode(
                y="mean:Q", tooltip=["system:N", "score:N", "count:Q", alt.Tooltip("mean:Q", format=".3f")]
            )
            panels.append(alt.layer(band, line))
        return alt.hconcat(*panels)


def huse_stability(
    data: Any,
    *,
    options: HuseOptions | None = None,
    items: Sequence[int] = (),
    raters: Sequence[int] = (),
    k: int = K,
    normalise: bool = True,
    ties: Ties = "computed",
    repeats: int = 50,
    seed: int = 12345,
    names: Sequence[str] = (),
    **columns: Any,
) -> HuseStability:
    """Score draws of fewer texts (as many of model and reference as there are in proportion) and of fewer raters.

    Texts are drawn without replacement, all raters kept; raters are drawn anew for every text among those who rated it,
    all texts kept, which needs single ratings (a crowd export, or a ratings file).
    """
    if repeats < 2:
        raise OptionError(f"{repeats} repeats; expected at least 2")
    chosen = options or HuseOptions(**columns)
    entries = list(data) if isinstance(data, list | tuple) else [data]
    rows: list[Row] = []
    notes: list[str] = []
    for entry, name in zip(entries, task_names(entries, names), strict=True):
        for found in read_huse(entry, name, chosen):
            one = found.select(np.lexsort((found.length, found.logp, found.judgment, found.is_model)))
            rows += _by_items(one, items, k, normalise, ties, repeats, seed)
            if one.ratings is None:
                notes.append(f"{name or 'the data'} has no single ratings: scores by number of raters are left out")
                if raters:
                    raise DataError("no single ratings; expected a crowd export or a ratings file", file=name)
            else:
                rows += _by_raters(one, raters, k, normalise, ties, repeats, seed)
    signature = Signature(
        "huse-stability",
        {
            "k": str(k),
            "ties": f"all-{ties}",
            "logp": "per-token" if normalise else "total",
            "repeats": str(repeats),
            "draws": "without-replacement",
            "seed": str(seed),
        },
    )
    return HuseStability(rows, signature, notes=tuple(notes))


def _by_items(
    data: HuseData, sizes: Sequence[int], k: int, normalise: bool, ties: Ties, repeats: int, seed: int
) -> list[Row]:
    total = len(data)
    chosen = list(sizes) or sorted({max(k + 2, round(total * share / 10)) for share in range(1, 11)} - {0})
    rows = []
    for size in chosen:
        if not k + 2 <= size <= total:
            raise OptionError(f"{size} texts, and there are {total}; expected {k + 2} (k + 2) to {total}")
        model = round(size * float(data.is_model.mean()))
        found = []
        for repeat in range(repeats if size < total else 1):
            rng = np.random.default_rng([seed, size, repeat])
            sides = [rng.permutation(np.flatnonzero(side)) for side in (data.is_model, ~data.is_model)]
            drawn = np.sort(np.concatenate([sides[0][:model], sides[1][: size - model]]))
            found.append(_scores(data, drawn, data.judgment[drawn], k, normalise, ties))
        rows.append(_row(data, "items", size, _raters(data), np.array(found)))
    return rows


def _by_raters(
    data: HuseData, counts: Sequence[int], k: int, normalise: bool, ties: Ties, repeats: int, seed: int
) -> list[Row]:
    ratings = data.ratings
    if ratings is None:
        return []
    given = np.isfinite(ratings)
    most = int(given.sum(axis=0).max())
    chosen = list(counts) or sorted({*range(2, most + 1, 2), most})
    everything = np.arange(len(data))
    rows = []
    for count in chosen:
        if not 1 <= count <= most:
            raise OptionError(f"{count} raters, and a text has at most {most}; choose fewer")
        found = []
        for repeat in range(repeats if count < most else 1):
            rng = np.random.default_rng([seed, count, repeat, 1])
            order = np.argsort(np.where(given, rng.random(ratings.shape), 2.0), axis=0)[:count]
            judgment = np.nanmean(np.take_along_axis(ratings, order, axis=0), axis=0)
            found.append(_scores(data, everything, judgment, k, normalise, ties))
        rows.append(_row(data, "raters", len(data), count, np.array(found)))
    return rows


def _raters(data: HuseData) -> int | None:
    return None if data.ratings is None else int(np.isfinite(data.ratings).sum(axis=0).max())


def _scores(
    data: HuseData, rows: Array, judgment: Array, k: int, normalise: bool, ties: Ties
) -> tuple[float, float, float]:
    features = data.features(normalise=normalise)[rows]
    features[:, 1] = judgment
    is_model = data.is_model[rows]
    both = 2 * leave_one_out(features, is_model, k=k, ties=ties).error
    alone = 2 * leave_one_out(features[:, 1:], is_model, k=k, ties=ties).error
    return both, alone, 1 + both - alone


def _row(data: HuseData, varied: str, items: int, raters: int | None, found: Array) -> Row:
    row: Row = {"task": data.name, "system": data.name or "model", "varied": varied, "items": items, "raters": raters}
    for place, score in enumerate(SCORES):
        values = found[:, place]
        row |= {score: float(values.mean()), f"{score}_sd": float(values.std(ddof=1)) if len(values) > 1 else 0.0}
    return row
