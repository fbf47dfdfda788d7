"""Human diversity scores from ratings (paper 1, sections 4 and 6.2): absHDS, aspHDS, simHDS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.tables import Ratings


def human_scores(ratings: Ratings, ids: Sequence[str]) -> list[tuple[str, Array, Array]]:
    """For every question its name, a score for each of `ids` (NaN without ratings) and the raters' standard deviation.

    A question about whole sets (absHDS, aspHDS) scores the mean over raters. One about pairs of responses (simHDS, a
    column `pair` says which) goes through the reduction of section 5: minus the mean over pairs of the pair's mean.
    """
    found = []
    for question in ratings.frame["question"].unique(maintain_order=True).to_list():
        mine = ratings.frame.filter(pl.col("question") == question)
        per_item = _of_pairs(mine) if _has_pairs(mine) else _of_sets(mine)
        joined = pl.DataFrame({"item": list(ids)}).join(per_item, on="item", how="left", maintain_order="left")
        found.append((str(question), _numbers(joined["score"]), _numbers(joined["spread"])))
    return found


def _has_pairs(frame: pl.DataFrame) -> bool:
    return "pair" in frame.columns and frame["pair"].null_count() < frame.height


def _of_sets(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.group_by("item").agg(
        pl.col("value").sort().mean().alias("score"), pl.col("value").sort().std(ddof=0).alias("spread")
    )


def _of_pairs(frame: pl.DataFrame) -> pl.DataFrame:
    pairs = frame.group_by("item", "pair").agg(
        pl.col("value").sort().mean().alias("similarity"), pl.col("value").sort().std(ddof=0).alias("sd")
    )
    return pairs.group_by("item").agg(
        (-pl.col("similarity").sort().mean()).alias("score"), pl.col("sd").sort().mean().alias("spread")
    )


def _numbers(series: pl.Series) -> Array:
    values: Array = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return np.array(values)
