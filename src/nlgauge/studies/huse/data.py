"""What HUSE is computed from: for every text a judgment, its log-probability, its length, and who wrote it.

Three sources (paper 3, sections 3.2 and 5.1): a tidy table, a raw crowd export, or texts with ratings and a language
model that supplies log p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.columns import Reading
from nlgauge.data.frames import is_frame, polars_frame
from nlgauge.data.human.crowd import is_crowd_export, read_crowd
from nlgauge.data.plain_tables import read_table
from nlgauge.data.reading import Source
from nlgauge.data.roles import find_column, names_in, numbers_in, refuse_unused, required_column
from nlgauge.data.tables import Items, Ratings
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.models.language.base import Sampling
from nlgauge.studies.base import StudyData
from nlgauge.studies.human import human_scores
from nlgauge.studies.huse.judges import PEOPLE, judge_texts, log_probabilities
from nlgauge.studies.huse.options import DECODING_OPTIONS, FLOOR, HuseStudy
from nlgauge.studies.tasks import ratings_in, task_names

_READ = ("text", "context", "id")
_USED = (*_READ, "input_format")
_ADVICE = "the study reads tables with one text per row: leave it out"
_NO_PROBABILITY = (
    "a system without probabilities has no HUSE: score its texts and the references with the model behind it, where "
    "that is available"
)
_MODEL = {"true", "1", "1.0", "model", "system", "generated", "machine"}
_REFERENCE = {"false", "0", "0.0", "human", "reference", "ref", "gold", "person"}


@dataclass(frozen=True)
class HuseData:
    """Texts of one system and references, one per row.

    `logp` is the log-probability of the whole text (-inf where p is 0) and `length` its number of tokens; per token it
    counts as the `floor` at least. `ratings` (raters x texts, NaN where there is none) are the single answers behind
    `judgment`, when known, and `truncated` says which texts were cut at the largest length.
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
    floor: float = FLOOR
    truncated: Array | None = None
    sampling: str = ""

    def __post_init__(self) -> None:
        logp = np.where(self.logp == -np.inf, 0.0, self.logp)
        for what, values in (("judgment", self.judgment), ("log p", logp), ("length", self.length)):
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad):
                found = "none" if np.isnan(values[bad[0]]) else f"{values[bad[0]]}"
                advice = f"; {_NO_PROBABILITY}" if what == "log p" and found == "none" else ""
                raise self._error(f"the {what} of '{self.ids[bad[0]]}' is {found}; expected a finite number{advice}")
        if len(empty := np.flatnonzero(self.length <= 0)):
            raise self._error(
                f"'{self.ids[empty[0]]}' has length {self.length[empty[0]]:g}, and log p is divided by it; expected at "
                "least 1 token: leave empty texts out, and say so"
            )
        if self.is_model.all() or not self.is_model.any():
            found = "model" if self.is_model.all() else "reference"
            raise self._error(f"all {len(self)} texts are from the {found}; expected texts from model and reference")
        if np.ptp(self.judgment) == 0:
            raise self._error(f"all judgments are {self.judgment[0]:g}; expected judgments that differ")

    def __len__(self) -> int:
        return len(self.ids)

    def _error(self, message: str) -> DataError:
        return DataError(message, file=self.name or None)

    @property
    def system(self) -> str:
        """What a table calls the system."""
        return self.name or "model"

    @property
    def most_raters(self) -> int | None:
        """The most ratings of one text, where single ratings are known."""
        return None if self.ratings is None else int(np.isfinite(self.ratings).sum(axis=0).max())

    def features(self, *, per_token: bool = True) -> Array:
        """The two features of equation 5: log p divided by length (or not), and the judgment."""
        logp = np.maximum(self.logp, self.floor * self.length)
        return np.stack([logp / self.length if per_token else logp, self.judgment], axis=1)

    @property
    def below_floor(self) -> Array:
        """Which texts the system cannot write, or less probably than the floor says."""
        found: Array = self.logp < self.floor * self.length
        return found

    def select(self, rows: Array) -> HuseData:
        """Some of the texts."""
        found: dict[str, Any] = {name: [getattr(self, name)[i] for i in rows] for name in ("ids", "texts", "contexts")}
        found |= {name: getattr(self, name)[rows] for name in ("is_model", "judgment", "logp", "length")}
        found["truncated"] = None if self.truncated is None else self.truncated[rows]
        return replace(self, **found, ratings=None if self.ratings is None else self.ratings[:, rows])


def read_systems(study: HuseStudy, data: StudyData) -> list[HuseData]:
    """The data of every system: one per file or frame, or one per value of the column `by`.

    With `by`, texts of the reference belong to every system, since all are compared with the same references; where
    every system has references of its name, it has these, with log p under it.
    """
    found: list[HuseData] = []
    for entry, title in zip(data.entries, task_names(data.entries, study.tasks), strict=True):
        if isinstance(entry, HuseData):
            found.append(replace(entry, floor=study.floor))
            continue
        name = "" if study.by and len(data.entries) == 1 else title
        try:
            table, ratings = _load(entry, name, study, data.reading)
            found += [part.build(ratings) for part in table.systems()]
        except DataError as error:
            raise error.at(file=name or None) from error
    return found


def read_texts(entry: Any, reading: Reading) -> tuple[pl.DataFrame, Reading, str | None]:
    """A file or a frame with one text per row, the names of its columns, and its own name."""
    refuse_unused(reading, _USED, _ADVICE)
    if isinstance(entry, Source):
        return read_table(entry.path, format=entry.format), entry.reading, entry.name
    if isinstance(entry, str | Path):
        return read_table(entry, format=reading.input_format), reading, str(entry)
    refuse_unused(reading, _READ, "the data was given in memory: leave it out")
    if isinstance(entry, Items):
        return entry.frame, reading, None
    if is_frame(entry):
        return polars_frame(entry), reading, None
    raise DataError(f"cannot study a {type(entry).__name__}; expected a file name, Items or a frame")


def _load(entry: Any, name: str, study: HuseStudy, reading: Reading) -> tuple[_Table, Ratings | None]:
    path = entry.path if isinstance(entry, Source) else entry if isinstance(entry, str | Path) else None
    if path is None or reading.input_format not in ("", "csv", "tsv") or not is_crowd_export(path):
        frame, columns, _ = read_texts(entry, reading)
        if study.question is not None and study.ratings is None:
            raise OptionError(
                f"{argument('question', study.question)} requires {argument('ratings')} or a crowd export"
            )
        return _Table(frame, name, study, columns), ratings_in(study.ratings)
    refuse_unused(reading, _USED, _ADVICE)
    for given in ("by", "ratings", "judgment"):
        if getattr(study, given) is not None:
            raise OptionError(
                f"{argument(given)} was given, and a crowd export holds one system with its ratings; leave it out"
            )
    items, answers = read_crowd(path)
    kinds = items.frame["kind"].str.to_lowercase()
    reference = kinds.str.contains("human") | kinds.str.starts_with("ref")
    return _Table(items.frame.with_columns(is_model=~reference), name, study, reading), answers


@dataclass(frozen=True)
class _Table:
    """A table of texts, and the names of its columns."""

    frame: pl.DataFrame
    name: str
    study: HuseStudy
    columns: Reading

    def find(self, role: str) -> str | None:
        """The column that plays a role, if there is one."""
        given = getattr(self.columns if role in _READ else self.study, role)
        return find_column(self.frame.columns, role, given, file=self.name)

    def need(self, role: str, advice: str = "") -> str:
        """The column that plays a role; none is an error."""
        given = getattr(self.study, role)
        return required_column(self.frame.columns, role, given, file=self.name, advice=advice)

    def systems(self) -> list[_Table]:
        """One table per system."""
        if self.study.by is None:
            return [self]
        is_model, by = self.is_model(), self.need("by")
        systems = self.names(by, "by")
        found = []
        named = systems.filter(pl.Series(is_model)).unique(maintain_order=True).to_list()
        each_has_own = set(named) <= set(systems.filter(pl.Series(~is_model)))
        for system in named:
            own = (systems == system).to_numpy()
            rows = np.flatnonzero(own if each_has_own else ~is_model | own)
            title = f"{self.name}: {system}" if self.name else str(system)
            found.append(_Table(self.frame[rows], title, self.study, self.columns))
        if not found:
            raise DataError("no text is from a model", column=by)
        return found

    def build(self, ratings: Ratings | None) -> HuseData:
        """Every part that HUSE needs."""
        named = self.find("id")
        ids = [str(i) for i in range(1, self.frame.height + 1)]
        if named is not None:
            ids = self.names(named, "id").to_list()
            if len(twice := pl.Series(ids).is_duplicated().arg_true()):
                raise DataError(
                    f"the id '{ids[twice[0]]}' is a duplicate; expected one for each text: where the table has several "
                    f"systems, name their column ({argument('by')})",
                    column=named,
                    option="by",
                )
        texts, contexts, judge = self.texts("text"), self.texts("context"), self.study.judge
        table = None
        if ratings is not None:
            judgment, table = _rated(ratings, ids, self.study.question)
        elif (column := self.find("judgment")) is not None:
            judgment = numbers_in(self.frame, column, option="judgment")
        else:
            judgment = judge_texts(judge, contexts, texts)
        is_model, sampling = self.is_model(), self.sampling()
        return HuseData(
            self.name,
            ids,
            is_model,
            judgment,
            self.logp(contexts, texts, sampling),
            self.lengths(texts),
            texts,
            contexts,
            judge,
            table,
            floor=self.study.floor,
            truncated=self.truncated(),
            sampling="" if sampling is None else sampling_fact(sampling),
        )

    def texts(self, role: str) -> list[str]:
        """A column of texts; empty ones where there is no such column."""
        column = self.find(role)
        if column is None:
            return [""] * self.frame.height
        texts: list[str] = self.names(column, role).to_list()
        return texts

    def names(self, column: str, role: str) -> pl.Series:
        """A column as text, empty where a cell is."""
        return names_in(self.frame, column, option=role, file=self.name).fill_null("")

    def is_model(self) -> Array:
        """Which rows are the model's: true or false, 1 or 0, or words such as model and reference."""
        column = self.need("is_model")
        words = self.names(column, "is_model").str.strip_chars().str.to_lowercase()
        if len(unknown := (~words.is_in(_MODEL | _REFERENCE)).arg_true()):
            raise DataError(
                f"row {unknown[0] + 1} has '{self.frame[column][unknown[0]]}'; expected true or false (is it the "
                "model's?), or model and reference",
                column=column,
            )
        return words.is_in(_MODEL).to_numpy()

    def sampling(self) -> Sampling | None:
        """How the system's texts were drawn, where a model scores them: by the options, else by columns."""
        if self.study.model is None:
            return None
        found = {name: value for name in DECODING_OPTIONS if (value := self._decoding(name)) is not None}
        if "top_k" in found:
            found["top_k"] = int(found["top_k"])
        return Sampling(**found)

    def _decoding(self, name: str) -> Any:
        if (given := getattr(self.study, name)) is not None or name not in self.frame.columns:
            return given
        texts = self.frame.filter(pl.Series(self.is_model()))
        values = np.unique(numbers_in(texts, name, option=name, file=self.name)).tolist()
        if len(values) > 1 or not np.isfinite(values).all():
            raise DataError(
                f"texts of {self.name or 'the model'} were drawn at {', '.join(f'{value:g}' for value in values[:5])}; "
                f"expected one value for each system: name the column of systems ({argument('by')}), or give the value "
                f"({argument(name)})",
                column=name,
                option=name,
            )
        return values[0]

    def truncated(self) -> Array | None:
        """Which texts were cut at the largest length, where a column of that name says so."""
        if "truncated" not in self.frame.columns or self.frame["truncated"].dtype != pl.Boolean:
            return None
        cut: Array = self.frame["truncated"].fill_null(False).to_numpy()
        return cut

    def logp(self, contexts: Sequence[str], texts: Sequence[str], sampling: Sampling | None) -> Array:
        """The log-probability of every text, from the model, from tokens or from a column."""
        if self.study.model is not None and sampling is not None:
            return log_probabilities(self.study.model, contexts, texts, self.study.template, sampling)
        listed = self.find("token_logprobs")
        if listed is None or self.study.logp is not None:
            advice = f", or score the texts with {argument('model')}"
            return numbers_in(self.frame, self.need("logp", advice), option="logp")
        if not isinstance(self.frame[listed].dtype, pl.List):
            raise DataError(f"holds {self.frame[listed].dtype}; expected a list of numbers in every row", column=listed)
        sums: Array = self.frame[listed].list.sum().cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return sums

    def lengths(self, texts: Sequence[str]) -> Array:
        """The length of every text: a column, or its number of words."""
        if self.find("length") is None and any(texts):
            return np.array([float(len(text.split())) for text in texts])
        return numbers_in(self.frame, self.need("length", f", or that of the texts with {argument('text')}"))


def sampling_fact(sampling: Sampling) -> str:
    """How texts were drawn, for a signature."""
    return ",".join(f"{name}={getattr(sampling, name):g}" for name in DECODING_OPTIONS)


def _rated(ratings: Ratings, ids: Sequence[str], question: str | None) -> tuple[Array, Array]:
    """The mean rating of every text, and the table of raters x texts."""
    questions = ratings.frame["question"].unique(maintain_order=True).to_list()
    if question is None and len(questions) > 1:
        raise DataError(f"ratings of {', '.join(questions)}; name one with {argument('question')}")
    chosen = question or questions[0]
    if chosen not in questions:
        raise DataError(f"no ratings of '{chosen}'; found {', '.join(questions)}", option="question")
    mine = ratings.frame.filter((pl.col("question") == chosen) & pl.col("item").is_in(list(ids)))
    if mine.height == 0:
        raise DataError("none of the ratings is about these texts; expected items named as their ids", option="ratings")
    judgment = human_scores(Ratings(mine), ids)[0][1]
    if len(missing := np.flatnonzero(~np.isfinite(judgment))):
        raise DataError(f"'{ids[missing[0]]}' has no rating; expected at least one for every text", option="ratings")
    raters = mine["rater"].rank("dense").to_numpy() - 1
    places = {id: place for place, id in enumerate(ids)}
    table = np.full((int(raters.max()) + 1, len(ids)), np.nan)
    table[raters, [places[item] for item in mine["item"]]] = mine["value"].to_numpy()
    return judgment, table
