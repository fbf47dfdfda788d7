"""Agreement of raters: filter of raters, rescaling, Krippendorff's alpha (paper 2, section 3.2.4; paper 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.ratings import read_ratings
from nlgauge.data.tables import Ratings
from nlgauge.drawing import PALETTE, inline
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.stats.agreement import Level, alpha_interval, krippendorff_alpha, rater_correlations, rescale
from nlgauge.studies.base import Row, Study, finite

LEAST_CORRELATION = 0.65
_TO = (0.0, 10.0)


@dataclass(frozen=True)
class Agreement(Study):
    """Krippendorff's alpha of every question, after the filter and the rescaling that were asked for.

    `scores` has the mean of each item and question; `raters` each rater's number of ratings, correlation with the mean,
    and whether they were kept.
    """

    name: ClassVar[str] = "agreement"
    index: ClassVar[str] = "question"
    columns: ClassVar[tuple[str, ...]] = (
        "question", "alpha", "alpha_ci", "level", "raters", "items", "ratings", "dropped"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ("alpha",)
    digits: ClassVar[Mapping[str, int]] = {"alpha": 3, "alpha_ci": 3}

    scores: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)
    raters: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    def chart(self) -> Any:
        """Each rater's correlation with the mean, by number of ratings, and the line below which raters are dropped."""
        import altair as alt

        shown = self.raters.filter(pl.col("correlation").is_not_null())
        dots = (
            alt.Chart(inline(shown.to_dicts()), width=420, height=260)
            .mark_circle(size=60, opacity=0.7)
            .encode(
                x=alt.X("ratings:Q", title="ratings by this rater"),
                y=alt.Y("correlation:Q", title="correlation with the mean"),
                color=alt.Color("kept:N", scale=alt.Scale(domain=[True, False], range=list(PALETTE[:2]))),
                tooltip=["rater:N", "question:N", "ratings:Q", alt.Tooltip("correlation:Q", format=".2f")],
            )
        )
        least = self.signature.options["drop_below"]
        if least == "none":
            return dots
        line = alt.Chart(inline([{"least": float(least)}])).mark_rule(strokeDash=[4, 3], color="gray")
        return alt.layer(line.encode(y="least:Q"), dots)


def agreement_study(
    ratings: str | Path | Ratings | Sequence[str | Path],
    *,
    level: Level = "interval",
    scale: tuple[float, float] | None = None,
    drop_below: float | None = None,
    leave_one_out: bool = False,
    rescale_to: tuple[float, float] | None = None,
    interval: Interval | None = None,
    names: Sequence[str] = (),
    **columns: str,
) -> Agreement:
    """Measure agreement, question by question.

    `drop_below` leaves out raters whose Pearson correlation with the mean of the items they rated is lower (the EAD
    paper: .65; with `leave_one_out` the mean is that of the others); a rater with fewer than three items cannot be
    judged and stays. `rescale_to` then maps each rater's lowest and highest rating to two numbers (the EAD paper: 0
    and 10). A rating outside `scale` is an error. `columns` name the columns of the file (`item=`, `rater=`, …).
    """
    if drop_below is not None and not -1 <= drop_below <= 1:
        raise OptionError(f"raters below a correlation of {drop_below:g}; expected a number from -1 to 1, such as 0.65")
    if rescale_to is not None and not rescale_to[0] < rescale_to[1]:
        raise OptionError(f"rescaling to {rescale_to[0]:g} and {rescale_to[1]:g}; expected two ascending numbers")
    using = interval or Interval()
    given = list(ratings) if isinstance(ratings, list | tuple) else [ratings]
    titles = list(names) or [Path(one).stem if isinstance(one, str | Path) else "" for one in given]
    if len(titles) != len(given):
        raise OptionError(f"{len(titles)} names for {len(given)} files; expected one each")
    rows: list[Row] = []
    scores, raters, notes = [], [], []
    for one, title in zip(given, titles, strict=True):
        known = one if isinstance(one, Ratings) else read_ratings(str(one), scale=scale, **columns)
        if isinstance(one, Ratings) and scale is not None:
            _check_scale(one, scale)
        for question, table in _tables(known):
            try:
                judged = _judge(table, drop_below, leave_one_out)
                kept = table.keep(judged["kept"].to_numpy())
                values = (
                    kept.values if rescale_to is None else rescale(kept.values, low=rescale_to[0], high=rescale_to[1])
                )
                alpha = krippendorff_alpha(values, level)
                ci = alpha_interval(
                    values, level, confidence=using.confidence, resamples=using.resamples, seed=using.seed
                )
            except DataError as error:
                raise DataError(f"question '{question}': {error.message}", file=title or None) from error
            dropped = judged.filter(~pl.col("kept"))["rater"].to_list()
            rows.append(
                {
                    "task": title, "question": question, "alpha": alpha, "alpha_ci": [float(ci[0]), float(ci[1])],
                    "level": level, "raters": len(kept.raters), "items": int(np.isfinite(values).any(axis=0).sum()),
                    "ratings": int(np.isfinite(values).sum()), "dropped": dropped,
                }
            )  # fmt: skip
            notes += _notes(question, judged, drop_below)
            raters.append(judged.with_columns(question=pl.lit(question), task=pl.lit(title)))
            scores.append(kept.means(values).with_columns(question=pl.lit(question), task=pl.lit(title)))
    options = {
        "level": level, "drop_below": "none" if drop_below is None else f"{drop_below:g}",
        "mean": "others" if leave_one_out else "all",
        "rescale": "none" if rescale_to is None else f"{rescale_to[0]:g}-{rescale_to[1]:g}",
        "ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}", "seed": str(using.seed),
    }  # fmt: skip
    return Agreement(
        rows, Signature("agreement", options), notes=tuple(notes), scores=pl.concat(scores), raters=pl.concat(raters)
    )


@dataclass(frozen=True)
class _Table:
    """Ratings of one question: a row a rater, a column an item, NaN where there is none."""

    raters: list[str]
    items: list[str]
    values: Array

    def keep(self, chosen: Array) -> _Table:
        """Only these raters."""
        names = [rater for rater, wanted in zip(self.raters, chosen, strict=True) if wanted]
        if len(names) < 2:
            raise DataError(
                f"{len(names)} raters are left; expected at least 2: lower the correlation that is asked for"
            )
        return _Table(names, self.items, self.values[chosen])

    def means(self, values: Array) -> pl.DataFrame:
        """The mean of every item that has ratings."""
        count = np.isfinite(values).sum(axis=0)
        rated = count > 0
        total = np.where(np.isfinite(values), values, 0.0).sum(axis=0)
        return pl.DataFrame(
            {
                "item": [item for item, there in zip(self.items, rated, strict=True) if there],
                "score": total[rated] / count[rated],
                "ratings": count[rated],
            }
        )


def _tables(ratings: Ratings) -> list[tuple[str, _Table]]:
    frame = ratings.frame
    if "pair" in frame.columns:
        named = pl.col("item") + pl.when(pl.col("pair").is_null()).then(pl.lit("")).otherwise("#" + pl.col("pair"))
        frame = frame.with_columns(item=named)
    found = []
    for question in frame["question"].unique(maintain_order=True).to_list():
        mine = frame.filter(pl.col("question") == question)
        raters, items = mine["rater"].unique().sort().to_list(), mine["item"].unique().sort().to_list()
        values = np.full((len(raters), len(items)), np.nan)
        rows = mine["rater"].replace_strict({rater: i for i, rater in enumerate(raters)}, return_dtype=pl.Int64)
        places = mine["item"].replace_strict({item: i for i, item in enumerate(items)}, return_dtype=pl.Int64)
        values[rows.to_numpy(), places.to_numpy()] = mine["value"].to_numpy()
        found.append((str(question), _Table(raters, items, values)))
    return found


def _judge(table: _Table, drop_below: float | None, leave_one_out: bool) -> pl.DataFrame:
    found = rater_correlations(table.values, leave_one_out=leave_one_out)
    kept = np.ones(len(found), dtype=bool) if drop_below is None else ~(found < drop_below)
    return pl.DataFrame(
        {
            "rater": table.raters,
            "ratings": np.isfinite(table.values).sum(axis=1),
            "correlation": pl.Series([finite(value) for value in found], dtype=pl.Float64),
            "kept": kept,
        }
    )


def _notes(question: str, judged: pl.DataFrame, drop_below: float | None) -> list[str]:
    notes = []
    if drop_below is not None:
        unjudged = int(judged["correlation"].null_count())
        if unjudged:
            notes.append(f"{question}: {unjudged} raters have too few ratings (or equal ones) to be judged; they stay")
        dropped = int((~judged["kept"]).sum())
        notes.append(f"{question}: {dropped} of {len(judged)} raters correlate below {drop_below:g} and were left out")
    if single := int((judged["ratings"] == 1).sum()):
        notes.append(f"{question}: {single} raters gave one rating only")
    return notes


def _check_scale(ratings: Ratings, scale: tuple[float, float]) -> None:
    low, high = scale
    bad = ratings.frame.filter((pl.col("value") < low) | (pl.col("value") > high))
    if len(bad):
        row = bad.row(0, named=True)
        raise DataError(
            f"rater '{row['rater']}' gave item '{row['item']}' {row['value']:g}; expected {low:g} to {high:g}",
            column="value",
        )
