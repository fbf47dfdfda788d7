"""Do distinct and EAD change with length on the report's own texts (paper 2, section 4; the Twitter case)?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from nlgauge.data.tables import Items, ResponseSets
from nlgauge.metrics.base import Metric
from nlgauge.metrics.diversity.ngram import ExpectationAdjustedDistinct
from nlgauge.report.card.texts import Texts, lengths_by_context
from nlgauge.scoring.compared import SIGNIFICANT
from nlgauge.stats.permutation import paired_permutation
from nlgauge.studies.base import Result
from nlgauge.studies.diversity.cut_lengths import CutSlopes, cut_slopes
from nlgauge.studies.diversity.length_bias import NOTABLE_CHANGE, LengthBias
from nlgauge.text.tokens import Tokenizer

FEWEST_LENGTHS = 5
FEWEST_TEXTS = 20
_MOST_TEXTS = 2000
_NOTABLE_RATIO = 1.05


@dataclass(frozen=True)
class LengthGap:
    """Two systems whose texts differ in length, in words."""

    first: str
    second: str
    lengths: tuple[float, float]


def length_gaps(texts: Texts) -> list[LengthGap]:
    """Systems whose mean length differs by a twentieth or more from the first one's, significantly if paired."""
    frame = lengths_by_context(texts)
    first = texts.systems[0]
    base = frame.filter(pl.col("system") == first)
    gaps = []
    for other in texts.systems[1:]:
        mine = frame.filter(pl.col("system") == other)
        means = (float(base["words"].to_numpy().mean()), float(mine["words"].to_numpy().mean()))
        if min(means) == 0 or max(means) / min(means) < _NOTABLE_RATIO:
            continue
        both = base.join(mine, on="id", suffix="_2")
        if len(both) == len(base) == len(mine) and len(both) > 1:
            p = paired_permutation(both["words"].to_numpy(), both["words_2"].to_numpy(), resamples=2000)
            if p >= SIGNIFICANT:
                continue
        gaps.append(LengthGap(first, other, means))
    return gaps


def own_length_bias(texts: Texts, seed: int) -> Result | None:
    """The length-bias study on the references, or on the responses of all systems where there are none.

    Sets are as large as five lengths allow; None if fewer have `FEWEST_TEXTS` texts.
    """
    column = "references" if "references" in texts.frame.columns else "responses"
    pool = texts.frame[column].explode().drop_nulls()
    lengths = Tokenizer("space")(pool).lengths
    _, counts = np.unique(lengths[lengths > 0], return_counts=True)
    ranked = np.sort(counts)[::-1]
    if len(ranked) < FEWEST_LENGTHS or ranked[FEWEST_LENGTHS - 1] < FEWEST_TEXTS:
        return None
    size = int(min(_MOST_TEXTS, max(FEWEST_TEXTS, ranked[FEWEST_LENGTHS - 1] // 2)))
    return LengthBias(texts_per_set=size, designated=False, cut=False, seed=seed).run(Items.of(pool.to_list()))


@dataclass(frozen=True)
class MeasuredSlopes:
    """How much a metric and EAD change with length alone on the texts of all systems; None where it is not known."""

    name: str
    has_ead: bool
    found: CutSlopes | None

    @property
    def meaning(self) -> str:
        """What follows where the two disagree."""
        flatter = None if self.found is None else self.found.flatter
        if flatter is None:
            return f"Which of the two changes less is not shown: where {self.name} and EAD disagree, neither decides."
        if not self.has_ead:
            ways = ("EAD would change more with length here", "EAD changes less with length here: add it, -m ead")
            return f"{ways[flatter]}."
        less, more = (self.name, "EAD") if flatter == 0 else ("EAD", self.name)
        return f"{less} changes less with length here: where the two disagree, length speaks against {more}."


def measured_slopes(
    metrics: Sequence[Metric], names: Sequence[str], texts: Texts, *, level: float
) -> MeasuredSlopes | None:
    """Slopes of the first metric that length is known to change, and of EAD, as they were measured; None without one.

    The responses of all systems are cut to common lengths; EAD is that of the paper where it was not measured.
    """
    chosen = next((one for one in metrics if one.name in names), None)
    if chosen is None:
        return None
    measured = next((one for one in metrics if one.name == ExpectationAdjustedDistinct.name), None)
    parts = []
    for system in texts.systems:
        mine = texts.of(system)
        parts.append(
            ResponseSets.of(mine["responses"].to_list(), contexts=mine["context"].to_list(), ids=mine["id"].to_list())
        )
    found = cut_slopes(parts, (chosen, measured or ExpectationAdjustedDistinct()), level=level)
    return MeasuredSlopes(chosen.name, measured is not None, found)


def ead_declines(study: Result) -> float | None:
    """The relative change of EAD from the shortest to the longest texts, where it declines significantly."""
    row = next(row for row in study.rows if row["score"] == "ead")
    change = float(row["relative_slope"] * (row["longest"] - row["shortest"]))
    declines = row["slope_ci"] is not None and row["slope_ci"][1] < 0 and change < -NOTABLE_CHANGE
    return change if declines else None
