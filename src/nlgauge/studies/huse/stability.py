"""HUSE by number of texts and of raters (paper 3, section 5.4, Figure 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option
from nlgauge.drawing import alt, inline
from nlgauge.errors import DataError
from nlgauge.studies.base import Column, Result, Row, StudyData, columns
from nlgauge.studies.huse.data import HuseData, read_systems
from nlgauge.studies.huse.options import SCORES, HuseStudy

_NEAR = 0.1
_Draw = Callable[[int, int], tuple[Array, Array]]


@dataclass(frozen=True, kw_only=True)
class HuseStability(HuseStudy):
    """HUSE by number of texts and of raters, to plan how many are enough.

    Mean and standard deviation of the three scores over random draws. Texts are drawn without replacement, in the
    proportion of model and reference that the data has, all raters kept. Raters are drawn for each text among those
    who rated it, all texts kept, which requires single ratings (a crowd export, or a ratings file).
    """

    name: ClassVar[str] = "huse-stability"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study huse-stability crowd_export.csv --raters 2,5,10,20 --chart stability.png",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *columns("system", "varied", "items", "raters"),
        *columns(huse="HUSE", huse_sd="sd", huse_q="HUSE-Q", huse_q_sd="sd", huse_d="HUSE-D", huse_d_sd="sd"),
    )

    items: Sequence[int] = option((), "Numbers of texts to try.", metavar="N,N")
    raters: Sequence[int] = option((), "Numbers of raters to try.", metavar="N,N")
    repeats: int = option(50, "Random draws of each size.", metavar="N")
    seed: int = option(12345, "Seed of every random step.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.repeats >= 2, "repeats", self.repeats, "at least 2")
        check_that(self.seed >= 0, "seed", self.seed, "0 or more")

    def compute(self, data: StudyData) -> Result:
        """Scores of draws of fewer texts, and of fewer raters where single ratings are known."""
        rows: list[Row] = []
        notes: list[str] = []
        for found in read_systems(self, data):
            one = found.select(np.lexsort((found.length, found.logp, found.judgment, found.is_model)))
            rows += self._by_items(one)
            if one.ratings is not None:
                rows += self._by_raters(one, one.ratings)
            elif self.raters:
                message = "no single ratings; expected a crowd export or a ratings file"
                raise DataError(message, file=one.name, option="raters")
            else:
                notes.append(f"{one.name or 'the data'} has no single ratings: scores by number of raters are left out")
        return Result(self, rows, tuple(notes), {"draws": "without-replacement"})

    def sentence(self, result: Result) -> str:
        """How many texts and raters keep HUSE near that of the largest draw, by mean and standard deviation."""
        return " ".join(
            _sentence([row for row in result.rows if row["system"] == system])
            for system in dict.fromkeys(row["system"] for row in result.rows)
        )

    def chart(self, result: Result) -> Any:
        """Scores against the number of texts (left) and of raters (right), one standard deviation as a band."""
        panels = []
        for varied, title in (("items", "texts"), ("raters", "raters per text")):
            rows = [_point(row, varied, score) for row in result.rows if row["varied"] == varied for score in SCORES]
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

    def _by_items(self, data: HuseData) -> Iterator[Row]:
        total, least = len(data), self.k + 2
        share_of_model = float(data.is_model.mean())

        def draw(size: int, repeat: int) -> tuple[Array, Array]:
            rng = np.random.default_rng([self.seed, size, repeat])
            model, reference = (rng.permutation(np.flatnonzero(side)) for side in (data.is_model, ~data.is_model))
            of_model = round(size * share_of_model)
            rows = np.sort(np.concatenate([model[:of_model], reference[: size - of_model]]))
            return rows, data.judgment[rows]

        for size in self.items or sorted({max(least, round(total * share / 10)) for share in range(1, 11)}):
            check_that(least <= size <= total, "items", size, f"{least} (k + 2) to {total}, the number of texts")
            yield self._row(data, "items", size, total, draw)

    def _by_raters(self, data: HuseData, ratings: Array) -> Iterator[Row]:
        most, given = data.most_raters or 0, np.isfinite(ratings)

        def draw(count: int, repeat: int) -> tuple[Array, Array]:
            rng = np.random.default_rng([self.seed, count, repeat, 1])
            order = np.argsort(np.where(given, rng.random(ratings.shape), 2.0), axis=0)[:count]
            return np.arange(len(data)), np.nanmean(np.take_along_axis(ratings, order, axis=0), axis=0)

        for count in self.raters or sorted({*range(2, most + 1, 2), most}):
            check_that(1 <= count <= most, "raters", count, f"1 to {most}, the most that rated one text")
            yield self._row(data, "raters", count, most, draw)

    def _row(self, data: HuseData, varied: str, number: int, most: int, draw: _Draw) -> Row:
        """Mean and standard deviation of the scores of texts and their judgments that are drawn."""
        features, found = data.features(per_token=self.per_token), []
        for repeat in range(self.repeats if number < most else 1):
            rows, judgment = draw(number, repeat)
            drawn = np.stack([features[rows, 0], judgment], axis=1)
            huse, huse_q = (2 * one.error for one in self.classify(drawn, data.is_model[rows]))
            found.append((huse, huse_q, 1 + huse - huse_q))
        row: Row = {"task": data.name, "system": data.system, "varied": varied}
        row |= {"items": len(data), "raters": data.most_raters, varied: number}
        for score, values in zip(SCORES, np.array(found).T, strict=True):
            row |= {score: float(values.mean()), f"{score}_sd": float(values.std(ddof=1)) if len(values) > 1 else 0.0}
        return row


def _point(row: Row, varied: str, score: str) -> Row:
    mean, deviation = row[score], row[f"{score}_sd"]
    return {
        "count": row[varied],
        "score": score.upper().replace("_", "-"),
        "system": row["system"],
        "mean": mean,
        "low": mean - deviation,
        "high": mean + deviation,
    }


def _sentence(rows: Sequence[Row]) -> str:
    largest = max((row for row in rows if row["varied"] == "items"), key=lambda row: int(row["items"]))
    ends = []
    for varied, words in (("items", "texts"), ("raters", "raters per text")):
        mine = sorted((row for row in rows if row["varied"] == varied), key=lambda row: int(row[varied]))
        far = [abs(row["huse"] - largest["huse"]) + row["huse_sd"] > _NEAR for row in mine]
        enough = [row for place, row in enumerate(mine) if not any(far[place:])]
        if enough:
            ends.append(f"from {enough[0][varied]} {words} on")
        elif mine:
            ends.append(f"with none of these numbers of {words}")
    return (
        f"HUSE of {largest['system']} is {largest['huse']:.2f} with {largest['items']} texts; draws stay within "
        f"{_NEAR:g} of it (difference of means and one standard deviation) {' and '.join(ends)}."
    )
