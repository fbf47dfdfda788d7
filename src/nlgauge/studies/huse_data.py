"""What HUSE is computed from: for every text a judgment, its log-probability, its length, and who wrote it.

Three sources (paper 3, sections 3.2 and 5.1): a tidy table, a raw crowd export, or texts with ratings and a language
model that supplies log p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.crowd import is_crowd_export, read_crowd
from nlgauge.data.plain_tables import read_table
from nlgauge.data.ratings import read_ratings
from nlgauge.data.tables import Items, Ratings
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.column import numbers_in
from nlgauge.studies.human import human_scores
from nlgauge.studies.judges import PEOPLE, judge_texts, log_probabilities
from nlgauge.studies.tasks import Over, context_groups

_USUAL = {
    "judgment": ("judgment", "judgement", "HumanJudgement", "hj", "human"),
    "logp": ("logp", "log_p", "ModelProbability", "logprob"),
    "token_logprobs": ("token_logprobs",),
    "length": ("length", "LengthOfUtterance", "len"),
    "is_model": ("is_model", "Label", "source", "kind"),
    "text": ("text", "response", "output"),
    "context": ("context", "prompt"),
    "id": ("id", "sample_id"),
}
_MODEL = {"true", "1", "1.0", "model", "system", "generated", "machine"}
_REFERENCE = {"false", "0", "0.0", "human", "reference", "ref", "gold", "person"}


@dataclass(frozen=True, kw_only=True)
class HuseOptions:
    """Names of columns, and where judgments and log-probabilities come from when no column has them.

    `judge` is "people", the name of whatever made the judgments in the file, or a scorer to run (`relevance:MODEL`,
    `llm:MODEL`, `llm-judge:model=URL#NAME`). `model` scores texts after their contexts, put into `template`. `ratings`
    are single answers, `question` one of theirs.
    """

    judgment: str | None = None
    logp: str | None = None
    token_logprobs: str | None = None
    length: str | None = None
    is_model: str | None = None
    text: str | None = None
    context: str | None = None
    ratings: str | Path | Ratings | None = None
    question: str | None = None
    model: str | None = None
    judge: str = PEOPLE
    template: str = "{context}"


@dataclass(frozen=True)
class HuseData:
    """Texts of one system and references: a row each.

    `logp` is the log-probability of the whole text and `length` its number of tokens. `ratings` (raters x texts, NaN
    where there is none) are the single answers behind `judgment`, when known.
    """

    name: str
    ids: list[str]
    is_model: Array
    judgment: Array
    logp: Array
    length: Array
    texts: list[str]
    contexts: list[str]
    judge: str = PEOPLE
    ratings: Array | None = None

    def __post_init__(self) -> None:
        for what, values in (("judgment", self.judgment), ("log p", self.logp), ("length", self.length)):
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad):
                found = "none" if np.isnan(values[bad[0]]) else f"{values[bad[0]]}"
                raise self._error(f"the {what} of '{self.ids[bad[0]]}' is {found}; expected a finite number")
        if len(empty := np.flatnonzero(self.length <= 0)):
            raise self._error(
                f"'{self.ids[empty[0]]}' has length {self.length[empty[0]]:g}, and log p is divided by it; expected at "
                "least 1 token: leave empty texts out, and say so"
            )
        if self.is_model.all() or not self.is_model.any():
            found = "model" if self.is_model.all() else "reference"
            raise self._error(f"all {len(self)} texts are from the {found}; expected texts from model and reference")
        if np.ptp(self.judgment) == 0:
            raise self._error(f"all judgments are {self.judgment[0]:g}; expected judgments that tell texts apart")

    def __len__(self) -> int:
        return len(self.ids)

    def _error(self, message: str) -> DataError:
        return DataError(message, file=self.name or None)

    def features(self, *, normalise: bool = True) -> Array:
        """The two features of equation 5: log p divided by length (or not), and the judgment."""
        per_token = self.logp / self.length if normalise else self.logp
        return np.stack([per_token, self.judgment], axis=1)

    def groups(self, over: Over) -> Array | None:
        """A label a text where texts that share a context are drawn together."""
        return context_groups(self.contexts, self.ids, over)

    def select(self, rows: Array) -> HuseData:
        """Some of the texts."""
        return HuseData(
            self.name, [self.ids[i] for i in rows], self.is_model[rows], self.judgment[rows], self.logp[rows],
            self.length[rows], [self.texts[i] for i in rows], [self.contexts[i] for i in rows], self.judge,
            None if self.ratings is None else self.ratings[:, rows],
        )  # fmt: skip


def read_huse(source: Any, name: str, options: HuseOptions, by: str | None = None) -> list[HuseData]:
    """The data of a file or frame; several systems when the column `by` tells them apart.

    With `by`, texts of the reference belong to every system, since all are compared with the same references.
    """
    if isinstance(source, HuseData):
        return [source]
    if isinstance(source, str | Path) and is_crowd_export(source):
        if by is not None:
            raise OptionError("a crowd export holds one system; leave out --by")
        items, answers = read_crowd(source)
        kinds = items.frame["kind"].str.to_lowercase()
        reference = kinds.str.contains("human") | kinds.str.starts_with("ref")
        return [_build(items.frame.with_columns(is_model=~reference), name, options, answers)]
    if isinstance(source, str | Path):
        source = read_table(str(source))
    frame = source.frame if isinstance(source, Items) else source
    if not isinstance(frame, pl.DataFrame):
        raise DataError(f"cannot study a {type(source).__name__}; expected a file name, Items or a Polars frame")
    known = options.ratings
    ratings = known if known is None or isinstance(known, Ratings) else read_ratings(str(known))
    if by is None:
        return [_build(frame, name, options, ratings)]
    if by not in frame.columns:
        raise DataError(f"no such column; found {', '.join(frame.columns)}", file=name, column=by)
    is_model = _sources(frame, _column(frame, "is_model", options.is_model, name), name)
    systems = frame[by].cast(pl.String).fill_null("")
    found = []
    for system in systems.filter(pl.Series(is_model)).unique(maintain_order=True).to_list():
        rows = np.flatnonzero(~is_model | (systems == system).to_numpy())
        found.append(_build(frame[rows], f"{name}: {system}" if name else system, options, ratings))
    if not found:
        raise DataError("no text is from a model", file=name)
    return found


def _build(frame: pl.DataFrame, name: str, options: HuseOptions, ratings: Ratings | None) -> HuseData:
    id_column = _column(frame, "id", None, name, needed=False)
    ids = frame[id_column].cast(pl.String).to_list() if id_column else [str(i) for i in range(1, frame.height + 1)]
    is_model = _sources(frame, _column(frame, "is_model", options.is_model, name), name)
    texts, contexts = (_texts(frame, part, getattr(options, part), name) for part in ("text", "context"))
    table = None
    if ratings is not None:
        judgment, table = _rated(ratings, ids, options.question, name)
    elif (column := _column(frame, "judgment", options.judgment, name, needed=False)) is not None:
        judgment = _numbers(frame, column, name)
    else:
        judgment = judge_texts(options.judge, contexts, texts)
    logp = _logp(frame, options, contexts, texts, name)
    length_column = _column(frame, "length", options.length, name, needed=False)
    if length_column is not None:
        length = _numbers(frame, length_column, name)
    elif any(texts):
        length = np.array([float(len(text.split())) for text in texts])
    else:
        raise DataError(
            f"no length; found columns {', '.join(frame.columns)}; name the column with --length, or that of the texts "
            "with --text",
            file=name,
        )
    return HuseData(name, ids, is_model, judgment, logp, length, texts, contexts, options.judge, table)


def _logp(frame: pl.DataFrame, options: HuseOptions, contexts: Sequence[str], texts: Sequence[str], name: str) -> Array:
    if options.model is not None:
        return log_probabilities(options.model, contexts, texts, options.template)
    listed = _column(frame, "token_logprobs", options.token_logprobs, name, needed=False)
    if listed is not None and options.logp is None:
        if not isinstance(frame[listed].dtype, pl.List):
            raise DataError(f"holds {frame[listed].dtype}; expected a list of numbers a row", file=name, column=listed)
        sums: Array = frame[listed].list.sum().cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return sums
    return _numbers(frame, _column(frame, "logp", options.logp, name), name)


def _column(frame: pl.DataFrame, part: str, given: str | None, name: str, *, needed: bool = True) -> Any:
    if given is not None:
        if given not in frame.columns:
            raise DataError(f"no such column; found {', '.join(frame.columns)}", file=name, column=given)
        return given
    found = next((usual for usual in _USUAL[part] if usual in frame.columns), None)
    if found is None and needed:
        option = part.replace("_", "-")
        advice = " (or score the texts with --model)" if part == "logp" else ""
        raise DataError(
            f"no {part}; found columns {', '.join(frame.columns)}; name the column with --{option}{advice}", file=name
        )
    return found


def _numbers(frame: pl.DataFrame, column: str, name: str) -> Array:
    try:
        return numbers_in(frame, column)
    except DataError as error:
        raise error.at(file=name) from error


def _texts(frame: pl.DataFrame, part: str, given: str | None, name: str) -> list[str]:
    column = _column(frame, part, given, name, needed=False)
    if column is None:
        return [""] * frame.height
    texts: list[str] = frame[column].cast(pl.String).fill_null("").to_list()
    return texts


def _sources(frame: pl.DataFrame, column: str, name: str) -> Array:
    """Which rows are the model's: true or false, 1 or 0, or words such as model and reference."""
    words = frame[column].cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase().to_list()
    for row, word in enumerate(words):
        if word not in _MODEL and word not in _REFERENCE:
            raise DataError(
                f"row {row + 1} has '{frame[column][row]}'; expected true or false (is it the model's?), or model and "
                "reference",
                file=name,
                column=column,
            )
    return np.array([word in _MODEL for word in words])


def _rated(ratings: Ratings, ids: Sequence[str], question: str | None, name: str) -> tuple[Array, Array]:
    """The mean rating of every text, and the table of raters x texts."""
    questions = ratings.frame["question"].unique(maintain_order=True).to_list()
    if question is None and len(questions) > 1:
        raise DataError(f"ratings of {', '.join(questions)}; say which with --question", file=name)
    chosen = question or questions[0]
    if chosen not in questions:
        raise DataError(f"no ratings of '{chosen}'; found {', '.join(questions)}", file=name)
    mine = ratings.frame.filter((pl.col("question") == chosen) & pl.col("item").is_in(list(ids)))
    if mine.height == 0:
        raise DataError("none of the ratings is about these texts; expected items named as their ids", file=name)
    judgment = human_scores(Ratings(mine), ids)[0][1]
    if len(missing := np.flatnonzero(~np.isfinite(judgment))):
        raise DataError(f"'{ids[missing[0]]}' has no rating; expected at least one for every text", file=name)
    raters = mine["rater"].unique().sort().to_list()
    table = np.full((len(raters), len(ids)), np.nan)
    places = {id: place for place, id in enumerate(ids)}
    lines = {rater: line for line, rater in enumerate(raters)}
    for item, rater, value in mine.select("item", "rater", "value").iter_rows():
        table[lines[rater], places[item]] = value
    return judgment, table
