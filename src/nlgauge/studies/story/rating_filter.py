"""The filter of raters: who follows the mean too little, over all ratings or within assignments (paper 2, 3.2.4)."""

from __future__ import annotations

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.stats.ratings.agreement import rater_correlations, within_assignments
from nlgauge.studies.base import finite
from nlgauge.studies.story.rating_tables import RatingTable

_FOLLOWED = {
    "rater": pl.String,
    "assignment": pl.String,
    "ratings": pl.Int64,
    "correlation": pl.Float64,
    "kept": pl.Boolean,
}


def judge(
    table: RatingTable, below: float | None, drop: str, leave_one_out: bool
) -> tuple[RatingTable, pl.DataFrame, pl.DataFrame]:
    """The ratings that are kept, a frame of raters, and one of their assignments (empty without any).

    Who cannot be judged is kept. With `drop` "assignments" a rater is kept as long as one of their assignments is.
    """
    least = -np.inf if below is None else below
    if table.assignments is None:
        found = rater_correlations(table.values, leave_one_out=leave_one_out)
        stays = ~(found < least)
        return table.keep(stays), _raters(table, found, stays), pl.DataFrame(schema=_FOLLOWED)
    inside = within_assignments(table.values, table.assignments, leave_one_out=leave_one_out)
    found = inside.of_raters()
    given = np.isfinite(table.values)
    shape = inside.correlations.shape
    rows = np.broadcast_to(np.arange(len(given))[:, None], given.shape)
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, (rows[given], table.assignments[given]), 1)
    left_out = inside.correlations < least
    if drop == "raters":
        left_out = np.broadcast_to((found < least)[:, None], shape)
    kept = table.without(left_out)
    stays = np.isin(table.raters, kept.raters)
    rater, one = np.nonzero(counts)
    followed = pl.DataFrame(
        {
            "rater": [table.raters[number] for number in rater.tolist()],
            "assignment": [table.names[number] for number in one.tolist()],
            "ratings": counts[rater, one],
            "correlation": [finite(value) for value in inside.correlations[rater, one]],
            "kept": ~left_out[rater, one],
        },
        schema=_FOLLOWED,
    )
    return kept, _raters(table, found, stays), followed


def _raters(table: RatingTable, found: Array, stays: Array) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "rater": table.raters,
            "ratings": np.isfinite(table.values).sum(axis=1),
            "correlation": pl.Series([finite(value) for value in found], dtype=pl.Float64),
            "kept": stays,
        }
    )
