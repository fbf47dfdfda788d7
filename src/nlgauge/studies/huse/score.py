"""HUSE: human judgment and model probability in one score of quality and diversity (paper 3, section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.stats.kernels.neighbours import LeaveOneOut, Ties
from nlgauge.studies.base import Column, Result, Row, StudyData, columns, facts_of, with_interval
from nlgauge.studies.huse.charts import features_chart
from nlgauge.studies.huse.data import HuseData, read_systems
from nlgauge.studies.huse.intervals import HuseInference, huse_intervals
from nlgauge.studies.huse.judges import PEOPLE
from nlgauge.studies.huse.options import SCORES
from nlgauge.studies.sentences import between

QUALITY, DIVERSITY, ALIKE, DISTINGUISHED = "quality failure", "diversity failure", "indistinguishable", "distinguished"
SCORE_COLUMNS = (
    *with_interval("huse", "HUSE"),
    *with_interval("huse_q", "HUSE-Q"),
    *with_interval("huse_d", "HUSE-D"),
)
_METHOD = {"even": "human", "scale": "population-sd"}


@dataclass(frozen=True, kw_only=True)
class Huse(HuseInference):
    """HUSE: quality and diversity in one score, from judgments and log-probabilities.

    HUSE is twice the error of a classifier that tells the model's texts from references by both, HUSE-Q by the judgment
    alone, and HUSE-D is 1 + HUSE - HUSE-Q. The neighbours of a text are all others at most as far as the k-th nearest,
    ties included; a tied vote goes to human; features are divided by their population standard deviation.

    The table of errors has one row per text, with the votes of its neighbours by both features and by the judgment
    alone. A *quality failure* is a text of the model that the judgment alone gives away, a *diversity failure* one that
    only the model's probability gives away (mostly references that the model would hardly write), and an
    *indistinguishable* text is taken for the other side's.
    """

    name: ClassVar[str] = "huse"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study huse judged.csv --judgment hj --logp logp --length tokens --is-model source --chart huse.html",
        "nlgauge study huse crowd_export.csv --report huse.html --errors errors.csv",
        "nlgauge study huse texts.jsonl --model smollm2 --judge relevance:minilm --by system",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *columns("system", "n", "k"),
        *SCORE_COLUMNS,
        Column("judge"),
    )
    tables: ClassVar[Mapping[str, str]] = {"errors": "Every text with votes and verdict:"}
    aspect: ClassVar[str] = "people"

    def compute(self, data: StudyData) -> Result:
        """The three scores of every system, with intervals; `detail` has what they were computed from."""
        systems = read_systems(self, data)
        rows, errors, notes, ways = [], [], [], set()
        for one in systems:
            features = one.features(per_token=self.per_token)
            found = self.classify(features, one.is_model)
            intervals, way = huse_intervals(one, features, found, self)
            ways.add(way)
            row = _row(one, found, intervals, self.k)
            rows.append(row)
            errors.append(_errors(one, *found, features))
            notes += [*_notes(one, row), *probability_notes(one), *self._tie_notes(one, row)]
        sampled = {one.sampling for one in systems if one.sampling}
        facts = {**_METHOD, **facts_of(intervals=ways), **(facts_of(sampling=sampled) if sampled else {})}
        return Result(self, rows, tuple(notes), facts, {"errors": pl.concat(errors)}, tuple(systems))

    def sentence(self, result: Result) -> str:
        """What the intervals of each system say about its texts, their quality and their diversity."""
        return " ".join(_sentence(row) for row in result.rows)

    def chart(self, result: Result) -> Any:
        """The two features with the classifier's regions and marginals, one panel per system (Figure 4)."""
        return features_chart(result.rows, result.tables["errors"], result.detail, per_token=self.per_token)

    def _tie_notes(self, data: HuseData, row: Row) -> list[str]:
        """How much depends on rounding: mean ratings lie on a grid, where many distances are equal but for rounding."""
        other: Ties = "equal" if self.ties == "computed" else "computed"
        found = self.classify(data.features(per_token=self.per_token), data.is_model, other)
        huse, huse_q = (2 * one.error for one in found)
        if (huse, huse_q) == (row["huse"], row["huse_q"]):
            return []
        words = "taken as equal" if other == "equal" else "compared as computed"
        return [
            f"with equal distances {words} (ties={other}), HUSE and HUSE-Q{_of(data)} are {huse:.3f} and {huse_q:.3f}: "
            "so much depends on rounding"
        ]


def clearest_errors(errors: pl.DataFrame, count: int = 5) -> pl.DataFrame:
    """The clearest texts of every kind of error, with their contexts (Table 2)."""
    surest = (pl.col("model_votes") / pl.col("votes") - 0.5).abs()
    ranked = errors.filter(pl.col("verdict") != DISTINGUISHED).with_columns(margin=-surest)
    ranked = ranked.sort("system", "verdict", "margin", "id")
    return ranked.group_by("system", "verdict", maintain_order=True).head(count).drop("margin")


def _row(data: HuseData, found: Sequence[LeaveOneOut], intervals: Sequence[list[float] | None], k: int) -> Row:
    row: Row = {"task": data.name, "system": data.system, "n": len(data), "k": k}
    huse, huse_q = (2 * one.error for one in found)
    for key, score, ends in zip(SCORES, (huse, huse_q, 1 + huse - huse_q), intervals, strict=True):
        row |= {key: score, f"{key}_ci": ends}
    n_model = int(data.is_model.sum())
    return row | {"n_model": n_model, "n_reference": len(data) - n_model, "judge": data.judge}


def _errors(data: HuseData, both: LeaveOneOut, alone: LeaveOneOut, features: Array) -> pl.DataFrame:
    right, right_alone = both.predicted_model == data.is_model, alone.predicted_model == data.is_model
    verdicts = np.select(
        [~right, data.is_model & right_alone, ~right_alone], [ALIKE, QUALITY, DIVERSITY], default=DISTINGUISHED
    )
    return pl.DataFrame(
        {
            "system": [data.system] * len(data),
            "id": data.ids,
            "source": np.where(data.is_model, "model", "reference"),
            "verdict": verdicts,
            "judgment": features[:, 1],
            "logp": features[:, 0],
            "model_votes": both.votes_model,
            "votes": both.votes,
            "model_votes_by_judgment": alone.votes_model,
            "votes_by_judgment": alone.votes,
            "context": data.contexts,
            "text": data.texts,
        }
    )


def _sentence(row: Row) -> str:
    """If its interval lies below what a blind guess would reach, the model is distinguished from references."""
    guess = 2 * min(row["n_model"], row["n_reference"]) / row["n"]
    quality = f"quality (HUSE-Q {score_with_interval(row, 'huse_q')})"
    diversity = f"diversity (HUSE-D {score_with_interval(row, 'huse_d')})"
    parts = {
        (True, True): f"{quality} and {diversity} fall short",
        (True, False): f"{quality} falls short, {diversity} is not shown to",
        (False, True): f"{diversity} falls short, {quality} is not shown to",
        (False, False): f"neither {quality} nor {diversity} is shown to fall short",
    }[_is_below(row, "huse_q", guess), _is_below(row, "huse_d", 1.0)]
    told = "differ from" if _is_below(row, "huse", guess) else "are not shown to differ from"
    return f"HUSE of {row['system']}: {score_with_interval(row, 'huse')}, so its texts {told} references; {parts}."


def _is_below(row: Row, key: str, value: float) -> bool:
    ends = row[f"{key}_ci"]
    return ends is not None and bool(ends[1] < value)


def score_with_interval(row: Row, key: str) -> str:
    """A score and its interval, for a sentence."""
    ends = row[f"{key}_ci"]
    return f"{row[key]:.2f}" if ends is None else f"{row[key]:.2f} {between(ends)}"


def _of(data: HuseData) -> str:
    return f" of {data.name}" if data.name else ""


def probability_notes(data: HuseData) -> list[str]:
    """Texts whose log p is not simply that of the whole text."""
    notes = []
    if below := int(data.below_floor.sum()):
        of_model = int((data.below_floor & data.is_model).sum())
        notes.append(
            f"{below} of {len(data)} texts{_of(data)} ({of_model} of the model) have p = 0 under the system, or less "
            f"than the floor: log p per token counts as {data.floor:g} (floor)"
        )
    if data.truncated is not None and (cut := int((data.truncated & data.is_model).sum())):
        notes.append(
            f"{cut} of {int(data.is_model.sum())} texts of the model{_of(data)} were cut at the largest length: their "
            "log p is that of the tokens drawn, without an end"
        )
    return notes


def _notes(data: HuseData, row: Row) -> list[str]:
    notes = []
    if data.judge != PEOPLE:
        notes.append(f"judgments{_of(data)} are by {data.judge}, not by people: HUSE-Q measures what that scorer sees")
    if row["n_model"] != row["n_reference"]:
        notes.append(
            f"{row['n_model']} texts of the model and {row['n_reference']} references{_of(data)}: with unequal classes "
            "a blind guess errs less than half of the time, so scores are lower than with equal ones"
        )
    if row["huse"] > row["huse_q"]:
        notes.append(
            f"HUSE-D{_of(data)} is above 1: more information cannot raise the error of the best classifier, but it can "
            "raise that of a k-nearest-neighbour classifier in a small sample (section 3.3 is about populations)"
        )
    return notes
