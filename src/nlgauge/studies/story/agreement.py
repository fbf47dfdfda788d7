"""Agreement of raters: filter, rescaling, alpha, kappa and intraclass correlation (paper 2, section 3.2.4; paper 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option
from nlgauge.data.frames import polars_frame
from nlgauge.data.human.ratings import read_ratings
from nlgauge.data.tables import Ratings
from nlgauge.drawing import PALETTE, alt, colours, inline
from nlgauge.errors import DataError, OptionError, UnknownName, argument
from nlgauge.stats.inference import Intervals
from nlgauge.stats.ratings import agreement
from nlgauge.stats.ratings.agreement import Level
from nlgauge.stats.ratings.reliability import FORMS, are_sorted, fleiss_kappa, intraclass_correlations
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, View, finite, pair
from nlgauge.studies.panels import panel, side_by_side
from nlgauge.studies.sentences import between
from nlgauge.studies.story.rating_filter import judge
from nlgauge.studies.story.rating_tables import RatingTable, check_scale, groups_of, tables_of
from nlgauge.studies.tasks import names_option

MEASURES = ("alpha", "kappa", "icc")
RELIABLE, TENTATIVE = 0.8, 0.667
_PARTS = ("item", "rater", "question", "value", "assignment")


@dataclass(frozen=True, kw_only=True)
class AgreementStudy(Intervals, Study):
    """Agreement of raters: Krippendorff's alpha, after a filter of raters and rescaling if asked for; kappa and ICC.

    A rater's correlation is Pearson's, with the mean of the items that they rated; a rater with fewer than three items
    cannot be judged and stays. Rescaling then maps each rater's lowest and highest rating to two numbers.

    Ratings with an `assignment` (what was rated together) compare within it only: correlations are those within each
    assignment, where every rater's ratings are mapped to one range before the mean, and count by their items;
    equal ratings throughout an assignment correlate 0 with it. Rescaling is per rater and assignment, too. The table
    `assignments` has each correlation. Ratings without assignments are filtered and rescaled over all, as a note says.

    Alpha is always measured. On request, rows also have Fleiss' kappa and the six intraclass correlations under their
    names, each with its F (`ICC(1,1)_f`), degrees of freedom (`_df1`, `_df2`), p-value (`_p`) and interval (`_ci`).
    Kappa takes ratings as names, and so as they were given, not rescaled. A question without variation has a row
    without alpha, and a note says why; an error where no question has one. The table `scores` has the mean of each item
    and question (and its `group`), `raters` each rater's number of ratings, correlation with the mean, and whether they
    were kept.
    """

    name: ClassVar[str] = "agreement"
    files: ClassVar[str] = "Files of ratings; several files are several tasks."
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study agreement ratings.csv --scale 1:50 --drop-below 0.65 --rescale 0:10 --scores scores.csv",
        "nlgauge study agreement ratings.csv --measures alpha,kappa,icc --by system --chart systems.html",
    )
    index: ClassVar[str] = "question"
    layout: ClassVar[tuple[Column, ...]] = (
        Column("question"),
        *(
            column
            for value in ("alpha", "kappa", *FORMS)
            for column in (Column(value, digits=3, beside=True), Column(f"{value}_ci", digits=3))
        ),
        *map(Column, ("level", "raters", "items", "ratings", "dropped")),
    )
    tables: ClassVar[Mapping[str, str]] = {"scores": "Write the mean of every item:"}
    aspect: ClassVar[str] = "quality"

    level_of_measurement: Level = option("interval", "What differences between ratings mean.")
    scale: tuple[float, float] | None = option(
        None, "Refuse ratings outside, as in 1:5.", metavar="LOW:HIGH", separator=":"
    )
    drop_below: float | None = option(
        None, "Leave out raters who correlate less with the mean; the EAD paper: 0.65.", metavar="X"
    )
    drop: Literal["raters", "assignments"] = option(
        "raters", "Leave out raters, by the mean over their assignments, or single assignments, each by its own."
    )
    leave_one_out: bool = option(False, "Compare each rater with the mean of the others.")
    rescale: tuple[float, float] | None = option(
        None, "Map each rater's range to this one; the EAD paper: 0:10.", metavar="LOW:HIGH", separator=":"
    )
    measures: Sequence[str] = option(
        ("alpha",), "alpha (always), kappa (Fleiss') and icc (all six forms).", metavar="NAME,NAME", separator=","
    )
    by: str | None = option(
        None, "Groups of items, such as systems: the chart has a box of item means for each.", metavar="COL"
    )
    item: str = option("item", "Column of items.", metavar="COL")
    rater: str = option("rater", "Column of raters.", metavar="COL")
    question: str = option("question", "Column of questions.", metavar="COL")
    value: str = option("value", "Column of ratings; 'rating_*': one column per rater.", metavar="COL")
    assignment: str = option(
        "assignment", "Column of what was rated together, if numbers compare within it only; '': none.", metavar="COL"
    )
    tasks: Sequence[str] = names_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        for measure in self.measures:
            if measure not in MEASURES:
                raise UnknownName.among("measure of agreement", measure, MEASURES)
        asked = {"alpha", *self.measures}
        object.__setattr__(self, "measures", tuple(measure for measure in MEASURES if measure in asked))
        least = self.drop_below
        check_that(least is None or -1 <= least <= 1, "drop_below", least, "a number from -1 to 1, such as 0.65")
        for name, ends in (("scale", self.scale), ("rescale", self.rescale)):
            if ends is not None and not (len(ends) == 2 and ends[0] < ends[1]):
                raise OptionError(
                    f"{argument(name, ':'.join(map(str, ends)))}; expected two ascending numbers, LOW:HIGH"
                )

    def compute(self, data: StudyData) -> Result:
        """Agreement, question by question."""
        data.check_reading("input_format")
        form, given = data.reading.input_format, data.inputs
        titles = list(self.tasks) or [Path(one).stem if isinstance(one, str | Path) else "" for one in given]
        if len(titles) != len(given):
            raise OptionError(f"{argument('tasks', ','.join(titles))} for {len(given)} files; expected one name each")
        rows: list[Row] = []
        notes: list[str] = []
        tables: dict[str, list[pl.DataFrame]] = {"scores": [], "raters": [], "assignments": []}
        failures: list[DataError] = []
        for one, title in zip(given, titles, strict=True):
            known = self._ratings(one, form)
            groups = None
            if self.by is not None:
                groups = groups_of(one if isinstance(one, str | Path) else known, self.by, self.item, form)
            for question, table in tables_of(known):
                row, told, frames, failure = self._measured(question, table)
                rows.append({"task": title, **row})
                notes += told
                if failure is not None:
                    failures.append(failure.at(file=title or None))
                named = [frame.with_columns(question=pl.lit(question), task=pl.lit(title)) for frame in frames]
                if groups is not None:
                    named[0] = named[0].join(groups, on="item", how="left", maintain_order="left")
                for name, frame in zip(tables, named, strict=True):
                    tables[name].append(frame)
        if failures and len(failures) == len(rows):
            raise failures[0]
        made = {name: pl.concat(parts) for name, parts in tables.items()}
        return Result(self, rows, tuple(notes), {"unit": "item-x-rater"}, made)

    def _ratings(self, given: Any, form: str) -> Ratings:
        """The ratings of one input."""
        columns = {part: str(getattr(self, part)) for part in _PARTS}
        if isinstance(given, str | Path):
            return read_ratings(str(given), scale=self.scale, format=form, **columns)
        if isinstance(given, Ratings):
            if other := [part for part in _PARTS if columns[part] not in (part, "")]:
                raise OptionError(f"{argument(other[0])} names a column of a file; ratings in memory have their names")
            known = given
        else:
            known = Ratings(polars_frame(given).rename({name: part for part, name in columns.items()}, strict=False))
        if not self.assignment:
            known = Ratings(known.frame.drop("assignment", strict=False), known.origin)
        if self.scale is not None:
            check_scale(known, self.scale)
        return known

    def _measured(
        self, question: str, table: RatingTable
    ) -> tuple[Row, list[str], tuple[pl.DataFrame, ...], DataError | None]:
        """The row of one question, notes, frames of item means, raters and assignments, and why there is no alpha."""
        kept, judged, followed = judge(table, self.drop_below, self.drop, self.leave_one_out)
        values = kept.values
        if self.rescale is not None:
            low, high = self.rescale
            values = agreement.rescale(values, low=low, high=high, assignments=kept.assignments)
        alpha: Row = {"alpha": None, "alpha_ci": None}
        failed = None
        more, told = _reliability(kept.values, values, self.measures, self)
        try:
            alpha = self._alpha(values)
        except DataError as error:
            told.insert(0, f"no alpha: {error.message}")
            failed = DataError(f"question '{question}': {error.message}")
        row = {
            "question": question,
            **alpha,
            **more,
            "level": self.level_of_measurement,
            "raters": len(kept.raters),
            "items": int(np.isfinite(values).any(axis=0).sum()),
            "ratings": int(np.isfinite(values).sum()),
            "dropped": judged.filter(~pl.col("kept"))["rater"].to_list(),
        }
        notes = self._notes(question, table, judged, followed) + [f"{question}: {note}" for note in told]
        return row, notes, (kept.means(values), judged, followed), failed

    def _notes(self, question: str, table: RatingTable, judged: pl.DataFrame, followed: pl.DataFrame) -> list[str]:
        notes = []
        if table.assignments is None and (self.drop_below is not None or self.rescale is not None):
            notes.append(
                f"{question}: the ratings have no assignments, so that filter and rescaling took all of a rater's "
                "ratings as one: whoever uses other numbers in another set of items correlates less with the mean; "
                "where numbers compare within one set only, as in set-diversity, name its column "
                f"({argument('assignment')})"
            )
        if table.assignments is not None and self.rescale is None:
            notes.append(
                f"{question}: numbers compare within one of {len(table.names)} assignments only, while agreement and "
                f"means take them as they are; {argument('rescale', '0:10')} maps those of each rater and assignment "
                "to one range"
            )
        if self.drop_below is not None:
            notes += _notes_on_filter(question, judged, followed, self.drop_below, self.drop)
        if single := int((judged["ratings"] == 1).sum()):
            notes.append(f"{question}: {single} of {len(judged)} raters gave one rating only")
        return notes

    def _alpha(self, values: Array) -> Row:
        """Alpha with its interval; an error where it cannot be computed, as without variation."""
        if self.drop_below is not None and len(values) < 2:
            raise DataError(
                f"{len(values)} raters are left; expected at least 2: lower the correlation that is asked for"
            )
        level = self.level_of_measurement
        alpha = agreement.krippendorff_alpha(values, level)
        how: dict[str, Any] = {"confidence": self.level, "resamples": self.resamples, "seed": self.seed}
        ci = agreement.alpha_interval(values, level, **how, fixed_raters=are_sorted(values))
        return {"alpha": alpha, "alpha_ci": pair(ci)}

    def sentence(self, result: Result) -> str:
        """How far raters agree on each question, by the lower end of alpha's interval."""
        return " ".join(_sentence(row, len(result.tasks) > 1) for row in result.rows)

    def views(self, result: Result) -> Sequence[View]:
        """Only the measures that were asked for."""
        found = {key for row in result.rows for key in row}
        return (View(tuple(column for column in self.layout if column.key in found), result.rows),)

    def chart(self, result: Result) -> Any:
        """Boxes of item means, one per group, as in paper 4; without groups, raters by how they follow the mean."""
        if self.by is None:
            return _dots(result.tables["raters"], self.drop_below)
        return side_by_side(result, [_boxes(result, row) for row in result.rows])


def _sentence(row: Row, several: bool) -> str:
    name = f"{row['question']} ({row['task']})" if several else row["question"]
    if row["alpha"] is None or row["alpha_ci"] is None:
        return f"Agreement on {name} could not be measured."
    low = row["alpha_ci"][0]
    limits = {RELIABLE: f"is reliable (alpha above {RELIABLE})", TENTATIVE: "is good enough for tentative conclusions"}
    words = next((text for limit, text in limits.items() if low >= limit), "")
    words = words or ("is better than chance" if low > 0 else "was not shown to be better than chance")
    return f"Agreement on {name} {words}: alpha {row['alpha']:.3f} {between(row['alpha_ci'], 3)}."


def _boxes(result: Result, row: Row) -> Any:
    scores = result.tables["scores"]
    mine = scores.filter((pl.col("task") == row["task"]) & (pl.col("question") == row["question"]))
    means = mine.group_by("group").agg(pl.col("score").mean()).sort("score", "group", descending=[True, False])
    order = means["group"].to_list()
    x = alt.X("group:N", sort=order, title="line: median, diamond: mean", axis=alt.Axis(labelAngle=-30))
    shades = alt.Scale(domain=sorted(order), range=colours(len(order)))
    boxes = panel(result, row, mine.select("group", "score"), {"alpha": row["alpha"]}).mark_boxplot(
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


def _dots(raters: pl.DataFrame, least: float | None) -> Any:
    shown = raters.filter(pl.col("correlation").is_not_null())
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
    if least is None:
        return dots
    line = alt.Chart(inline([{"least": least}])).mark_rule(strokeDash=[4, 3], color="gray")
    return alt.layer(line.encode(y="least:Q"), dots)


def _reliability(given: Array, rescaled: Array, measures: Sequence[str], using: Intervals) -> tuple[Row, list[str]]:
    """Kappa and intraclass correlations, if asked for; what cannot be computed is None, and a note says why."""
    row: Row = {}
    notes = []
    if "kappa" in measures:
        row |= {"kappa": None, "kappa_ci": None}
        try:
            how: dict[str, Any] = {"confidence": using.level, "resamples": using.resamples, "seed": using.seed}
            kappa = fleiss_kappa(given, **how, fixed_raters=are_sorted(given))
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
            found = intraclass_correlations(
                rescaled, confidence=using.level, seed=using.seed, fixed_raters=are_sorted(given)
            )
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
            "behind a rater's name; alpha, kappa and ICC(1,·) hold, as of these raters alone, ICC(2,·), ICC(3,·) and "
            "raters' correlations do not"
        )
    return row, notes


def _notes_on_filter(question: str, judged: pl.DataFrame, followed: pl.DataFrame, least: float, drop: str) -> list[str]:
    notes = []
    unjudged = int(judged["correlation"].null_count())
    if unjudged:
        notes.append(f"{question}: {unjudged} raters have too few ratings (or equal ones) to be judged; they stay")
    dropped = int((~judged["kept"]).sum())
    if len(followed) and drop == "assignments":
        gone = int((~followed["kept"]).sum())
        return [
            *notes,
            f"{question}: {gone} of {len(followed)} assignments correlate below {least:g} with the mean and were left "
            f"out; {dropped} of {len(judged)} raters have no other",
        ]
    where = " within their assignments" if len(followed) else ""
    notes.append(f"{question}: {dropped} of {len(judged)} raters correlate below {least:g}{where} and were left out")
    return notes
