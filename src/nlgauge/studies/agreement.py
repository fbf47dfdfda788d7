"""Agreement of raters: filter, rescaling, alpha, kappa and intraclass correlation (paper 2, section 3.2.4; paper 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.files import STDIN
from nlgauge.data.plain_tables import read_cells
from nlgauge.data.ratings import read_ratings
from nlgauge.data.tables import Ratings
from nlgauge.drawing import PALETTE, colours, inline
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.stats.agreement import Level, alpha_interval, krippendorff_alpha, rater_correlations, rescale
from nlgauge.stats.reliability import FORMS, are_sorted, fleiss_kappa, intraclass_correlations
from nlgauge.studies.base import Row, Study, finite, pair

Measure = Literal["alpha", "kappa", "icc"]
_VALUES = ("alpha", "kappa", *FORMS)


@dataclass(frozen=True)
class Agreement(Study):
    """Krippendorff's alpha of every question, after the filter and the rescaling that were asked for.

    On request, rows also have Fleiss' kappa and the six intraclass correlations under their names, each with its F
    (`ICC(1,1)_f`), degrees of freedom (`_df1`, `_df2`), p-value (`_p`) and interval (`_ci`). `scores` has the mean of
    each item and question (and its `group`); `raters` each rater's number of ratings, correlation with the mean, and
    whether they were kept.
    """

    name: ClassVar[str] = "agreement"
    index: ClassVar[str] = "question"
    columns: ClassVar[tuple[str, ...]] = (
        "question", *(key for value in _VALUES for key in (value, f"{value}_ci")), "level", "raters", "items",
        "ratings", "dropped",
    )  # fmt: skip
    digits: ClassVar[Mapping[str, int]] = {key: 3 for value in _VALUES for key in (value, f"{value}_ci")}

    scores: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)
    raters: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    @property
    def side_by_side(self) -> tuple[str, ...]:  # type: ignore[override]
        """The measures that were asked for."""
        return tuple(value for value in _VALUES if any(value in row for row in self.rows))

    def chart(self) -> Any:
        """Boxes of item means, one a group, as in paper 4; without groups, raters by how they follow the mean."""
        return self.lay_out([self._boxes(row) for row in self.rows]) if "group" in self.scores else self._dots()

    def _boxes(self, row: Row) -> Any:
        import altair as alt

        mine = self.scores.filter((pl.col("task") == row["task"]) & (pl.col("question") == row["question"]))
        means = mine.group_by("group").agg(pl.col("score").mean()).sort("score", "group", descending=[True, False])
        order = means["group"].to_list()
        x = alt.X("group:N", sort=order, title="line: median, diamond: mean", axis=alt.Axis(labelAngle=-30))
        shades = alt.Scale(domain=sorted(order), range=colours(len(order)))
        boxes = self.panel(row, mine.select("group", "score"), {"alpha": row["alpha"]}).mark_boxplot(
            size=24, median={"color": "black"}
        )
        diamonds = alt.Chart(inline(means.to_dicts())).mark_point(
            shape="diamond", fill="white", stroke="black", size=60, opacity=1
        )
        return alt.layer(
            boxes.encode(
                x=x,
                y=alt.Y("score:Q", title="mean rating of an item", scale=alt.Scale(zero=False)),
                color=alt.Color("group:N", scale=shades, legend=None),
            ),
            diamonds.encode(x=x, y="score:Q", tooltip=["group:N", alt.Tooltip("score:Q", format=".3f")]),
        )

    def _dots(self) -> Any:
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
    measures: Sequence[Measure] = ("alpha",),
    by: str | None = None,
    interval: Interval | None = None,
    names: Sequence[str] = (),
    **columns: str,
) -> Agreement:
    """Measure agreement, question by question.

    `drop_below` leaves out raters whose Pearson correlation with the mean of the items they rated is lower (the EAD
    paper: .65; with `leave_one_out` the mean is that of the others); a rater with fewer than three items cannot be
    judged and stays. `rescale_to` then maps each rater's lowest and highest rating to two numbers (the EAD paper: 0
    and 10). A rating outside `scale` is an error. `columns` name the columns of the file (`item=`, `rater=`, …).

    Alpha is always measured; `measures` may ask for `kappa` and `icc`, too. Kappa takes ratings as names, and so as
    they were given, not rescaled. A question without variation has a row without alpha, and a note says why; an error
    where no question has one. `by` names a column that says which group an item belongs to, such as the system that
    wrote it: the chart then has a box of item means for each.
    """
    for measure in measures:
        if measure not in get_args(Measure):
            raise UnknownName.among("measure of agreement", measure, get_args(Measure))
    if drop_below is not None and not -1 <= drop_below <= 1:
        raise OptionError(f"raters below a correlation of {drop_below:g}; expected a number from -1 to 1, such as 0.65")
    if rescale_to is not None and not rescale_to[0] < rescale_to[1]:
        raise OptionError(f"rescaling to {rescale_to[0]:g} and {rescale_to[1]:g}; expected two ascending numbers")
    using = interval or Interval()
    given = [ratings] if isinstance(ratings, str | Path | Ratings) else list(ratings)
    titles = list(names) or [Path(one).stem if isinstance(one, str | Path) else "" for one in given]
    if len(titles) != len(given):
        raise OptionError(f"{len(titles)} names for {len(given)} files; expected one each")
    rows: list[Row] = []
    scores, raters, notes, failures = [], [], [], []
    for one, title in zip(given, titles, strict=True):
        known = one if isinstance(one, Ratings) else read_ratings(str(one), scale=scale, **columns)
        if isinstance(one, Ratings) and scale is not None:
            _check_scale(one, scale)
        groups = None if by is None else _groups(one, by, columns.get("item", "item"))
        for question, table in _tables(known):
            judged = _judge(table, drop_below, leave_one_out)
            kept = table.keep(judged["kept"].to_numpy())
            values = kept.values if rescale_to is None else rescale(kept.values, low=rescale_to[0], high=rescale_to[1])
            alpha, failed = _alpha(values, level, using, drop_below)
            more, told = _reliability(kept.values, values, measures, using)
            if failed is not None:
                failures.append(DataError(f"question '{question}': {failed.message}", file=title or None))
                told.insert(0, f"no alpha: {failed.message}")
            dropped = judged.filter(~pl.col("kept"))["rater"].to_list()
            rows.append(
                {
                    "task": title, "question": question, **alpha, **more, "level": level, "raters": len(kept.raters),
                    "items": int(np.isfinite(values).any(axis=0).sum()),
                    "ratings": int(np.isfinite(values).sum()), "dropped": dropped,
                }
            )  # fmt: skip
            notes += _notes(question, judged, drop_below) + [f"{question}: {note}" for note in told]
            raters.append(judged.with_columns(question=pl.lit(question), task=pl.lit(title)))
            means = kept.means(values).with_columns(question=pl.lit(question), task=pl.lit(title))
            scores.append(means if groups is None else means.join(groups, on="item", how="left", maintain_order="left"))
    if failures and len(failures) == len(rows):
        raise failures[0]
    options = {
        "level": level, "drop_below": "none" if drop_below is None else f"{drop_below:g}",
        "mean": "others" if leave_one_out else "all",
        "rescale": "none" if rescale_to is None else f"{rescale_to[0]:g}-{rescale_to[1]:g}",
        "ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}", "seed": str(using.seed),
    }  # fmt: skip
    if set(measures) - {"alpha"}:
        options["measures"] = "+".join(measure for measure in get_args(Measure) if measure in {"alpha", *measures})
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


def _alpha(values: Array, level: Level, using: Interval, drop_below: float | None) -> tuple[Row, DataError | None]:
    """Alpha with its interval; where it cannot be computed, as without variation, None and the reason."""
    try:
        if drop_below is not None and len(values) < 2:
            raise DataError(
                f"{len(values)} raters are left; expected at least 2: lower the correlation that is asked for"
            )
        alpha = krippendorff_alpha(values, level)
        ci = alpha_interval(values, level, confidence=using.confidence, resamples=using.resamples, seed=using.seed)
    except DataError as error:
        return {"alpha": None, "alpha_ci": None}, error
    return {"alpha": alpha, "alpha_ci": pair(ci)}, None


def _reliability(given: Array, rescaled: Array, measures: Sequence[Measure], using: Interval) -> tuple[Row, list[str]]:
    """Kappa and intraclass correlations, if asked for; what cannot be computed is None, and a note says why."""
    row: Row = {}
    notes = []
    if "kappa" in measures:
        row |= {"kappa": None, "kappa_ci": None}
        try:
            kappa = fleiss_kappa(given, confidence=using.confidence, resamples=using.resamples, seed=using.seed)
        except DataError as error:
            notes.append(f"no kappa: {error.message}")
        else:
            row |= {"kappa": kappa.value, "kappa_ci": pair(kappa.interval)}
            if kappa.left_out:
                notes.append(f"kappa leaves out {kappa.left_out} items, which do not have {kappa.ratings} ratings")
    if "icc" in measures:
        keys = ("", "_ci", "_f", "_df1", "_df2", "_p")
        row |= {f"{form}{key}": None for form in FORMS for key in keys}
        try:
            found = intraclass_correlations(rescaled, confidence=using.confidence)
        except DataError as error:
            return row, [*notes, f"no intraclass correlation: {error.message}"]
        for form, one in found.items():
            cells = (finite(one.value), pair(one.interval), finite(one.f), one.df1, one.df2, finite(one.p))
            row |= {f"{form}{key}": cell for key, cell in zip(keys, cells, strict=True)}
        first = found["ICC(1,1)"]
        if first.left_out:
            notes.append(f"ICC(1,·) leaves out {first.left_out} items, which do not have {first.raters} ratings")
        if "ICC(2,1)" not in found:
            notes.append(
                f"no ICC(2,·) and ICC(3,·): fewer than 2 items that differ were rated by all {len(given)} raters"
            )
        elif found["ICC(2,1)"].left_out:
            left_out = found["ICC(2,1)"].left_out
            notes.append(f"ICC(2,·) and ICC(3,·) leave out {left_out} items, which not all {len(given)} raters rated")
    if are_sorted(given):
        notes.append(
            "the ratings of every item ascend from the first rater to the last: they were sorted, and nobody stands "
            "behind a rater's name; alpha, kappa and ICC(1,·) hold, ICC(2,·), ICC(3,·) and raters' correlations do not"
        )
    return row, notes


def _groups(ratings: str | Path | Ratings, by: str, item: str) -> pl.DataFrame:
    """The group of every item, from the column `by`."""
    if isinstance(ratings, Ratings):
        frame, origin, item = ratings.frame, ratings.origin, "item"
    elif str(ratings) == STDIN:
        raise OptionError(f"ratings from standard input cannot be grouped by '{by}'; expected a file")
    else:
        frame, origin = read_cells(str(ratings))
    if by not in frame.columns:
        raise DataError(f"no such column; found {', '.join(frame.columns)}", file=origin.file, column=by)
    if frame[by].dtype.is_nested():
        raise DataError(f"holds {frame[by].dtype}; expected one name a row", file=origin.file, column=by)
    group = frame[by].cast(pl.String).str.strip_chars().replace("", None)
    if group.null_count():
        raise origin.error(int(group.is_null().arg_true()[0]), "the cell is empty; expected the item's group", by)
    named = _item_names(frame.rename({item: "item"} if item != "item" else {}))
    pairs = pl.DataFrame({"item": named, "group": group}).unique(maintain_order=True)
    twice = pairs.filter(pl.col("item").is_duplicated())
    if len(twice):
        (name, one), (_, other) = twice.filter(pl.col("item") == twice["item"][0]).rows()[:2]
        raise DataError(
            f"item '{name}' belongs to '{one}' and to '{other}'; expected one group an item",
            file=origin.file,
            column=by,
        )
    return pairs


def _item_names(frame: pl.DataFrame) -> pl.Series:
    """The name of what was rated: the item, and which pair of it where pairs were compared."""
    names = frame["item"].cast(pl.String)
    if "pair" not in frame.columns:
        return names
    pairs = frame["pair"].cast(pl.String).replace("", None)
    return names + ("#" + pairs).fill_null("")


def _tables(ratings: Ratings) -> list[tuple[str, _Table]]:
    frame = ratings.frame.with_columns(item=_item_names(ratings.frame))
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
