"""Ratings as the study of agreement needs them: one table of raters x items per question, and groups of items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.plain_tables import read_cells
from nlgauge.data.roles import names_in
from nlgauge.data.sources.files import STDIN
from nlgauge.data.tables import Ratings
from nlgauge.errors import DataError, OptionError, argument


@dataclass(frozen=True)
class RatingTable:
    """Ratings of one question, raters x items, NaN where there is none.

    `assignments` has the number of the assignment of each, in `names`; None where no rating has one. Ratings without
    one beside others that have one are an assignment of their own, whose name is empty.
    """

    raters: list[str]
    items: list[str]
    values: Array
    assignments: Array | None = None
    names: Sequence[str] = ()

    def keep(self, chosen: Array) -> RatingTable:
        """Only these raters."""
        raters = [rater for rater, wanted in zip(self.raters, chosen, strict=True) if wanted]
        assignments = None if self.assignments is None else self.assignments[chosen]
        return RatingTable(raters, self.items, self.values[chosen], assignments, self.names)

    def without(self, left_out: Array) -> RatingTable:
        """Without the ratings of these assignments (raters x assignments), and without raters who have no others."""
        if self.assignments is None:
            return self
        gone = np.take_along_axis(left_out, self.assignments, axis=1)
        fewer = RatingTable(self.raters, self.items, np.where(gone, np.nan, self.values), self.assignments, self.names)
        return fewer.keep(np.isfinite(fewer.values).sum(axis=1) > 0)

    def means(self, values: Array) -> pl.DataFrame:
        """The mean of every item that has ratings."""
        count = np.isfinite(values).sum(axis=0)
        rated = count > 0
        total = np.where(np.isfinite(values), values, 0.0).sum(axis=0)
        items = pl.Series("item", self.items, dtype=pl.String).filter(pl.Series(rated))
        return pl.DataFrame({"item": items, "score": total[rated] / count[rated], "ratings": count[rated]})


def tables_of(ratings: Ratings) -> list[tuple[str, RatingTable]]:
    """Questions, each with its table."""
    frame = ratings.frame.with_columns(item=_item_names(ratings.frame))
    found = []
    for question in frame["question"].unique(maintain_order=True).to_list():
        mine = frame.filter(pl.col("question") == question)
        raters, items = mine["rater"].unique().sort().to_list(), mine["item"].unique().sort().to_list()
        values = np.full((len(raters), len(items)), np.nan)
        rows = mine["rater"].replace_strict({rater: i for i, rater in enumerate(raters)}, return_dtype=pl.Int64)
        places = mine["item"].replace_strict({item: i for i, item in enumerate(items)}, return_dtype=pl.Int64)
        values[rows.to_numpy(), places.to_numpy()] = mine["value"].to_numpy()
        assignments, names = None, list[str]()
        if "assignment" in mine.columns and mine["assignment"].null_count() < len(mine):
            named = mine["assignment"].cast(pl.String).fill_null("")
            names = named.unique().sort().to_list()
            assignments = np.zeros(values.shape, dtype=np.int64)
            numbers = named.replace_strict({name: i for i, name in enumerate(names)}, return_dtype=pl.Int64)
            assignments[rows.to_numpy(), places.to_numpy()] = numbers.to_numpy()
        found.append((str(question), RatingTable(raters, items, values, assignments, names)))
    return found


def groups_of(ratings: str | Path | Ratings, by: str, item: str, form: str = "") -> pl.DataFrame:
    """The group of every item, from the column `by`; `item` is the column of items of a file."""
    if isinstance(ratings, Ratings):
        frame, origin, item = ratings.frame, ratings.origin, "item"
    elif str(ratings) == STDIN:
        raise OptionError(f"{argument('by', by)}: ratings from standard input cannot be grouped; expected a file")
    else:
        frame, origin = read_cells(str(ratings), format=form)
    group = names_in(frame, by, option="by", file=origin.file).str.strip_chars().replace("", None)
    if group.null_count():
        raise origin.error(int(group.is_null().arg_true()[0]), "the cell is empty; expected the item's group", by)
    named = _item_names(frame.rename({item: "item"} if item != "item" else {}))
    pairs = pl.DataFrame({"item": named, "group": group}).unique(maintain_order=True)
    twice = pairs.filter(pl.col("item").is_duplicated())
    if len(twice):
        (name, one), (_, other) = twice.filter(pl.col("item") == twice["item"][0]).rows()[:2]
        raise DataError(
            f"item '{name}' belongs to '{one}' and to '{other}'; expected one group per item",
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


def check_scale(ratings: Ratings, scale: tuple[float, float]) -> None:
    """Refuse ratings outside of a scale."""
    low, high = scale
    bad = ratings.frame.filter((pl.col("value") < low) | (pl.col("value") > high))
    if len(bad):
        row = bad.row(0, named=True)
        raise DataError(
            f"rater '{row['rater']}' gave item '{row['item']}' {row['value']:g}; expected {low:g} to {high:g}",
            column="value",
        )
