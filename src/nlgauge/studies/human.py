"""Human diversity scores from ratings (paper 1, sections 4 and 6.2): absHDS, aspHDS, simHDS."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.tables import Ratings


def human_scores(ratings: Ratings, ids: Sequence[str]) -> list[tuple[str, Array, Array]]:
    """For every question its name, a score for each of `ids` (NaN without ratings) and the raters' standard deviation.

    A question about whole sets (absHDS, aspHDS) scores the mean over raters. One about pairs of responses (simHDS, a
    column `pair` says which) goes through the reduction of section 5: minus the mean over pairs of the pair's mean.
    """
    found = []
    value, both = pl.col("value").sort(), pl.col("score", "spread")
    rated = {"score": value.mean(), "spread": value.std(ddof=0)}
    for (question,), mine in ratings.frame.group_by("question", maintain_order=True):
        if has_pairs(mine):
            per_pair = mine.group_by("item", "pair").agg(**rated)
            per_item = per_pair.group_by("item").agg(both.sort().mean()).with_columns(-pl.col("score"))
        else:
            per_item = mine.group_by("item").agg(**rated)
        joined = pl.DataFrame({"item": list(ids)}).join(per_item, on="item", how="left", maintain_order="left")
        score, spread = joined.select(both.cast(pl.Float64).fill_null(float("nan")))
        found.append((str(question), score.to_numpy(writable=True), spread.to_numpy(writable=True)))
    return found


def has_pairs(ratings: pl.DataFrame) -> bool:
    """Whether ratings are about pairs of responses."""
    return "pair" in ratings.columns and ratings["pair"].null_count() < ratings.height
