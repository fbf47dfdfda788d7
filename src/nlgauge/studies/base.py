"""The contract of a study: `compute(data) -> Result`. Options are fields; a result says in words what was found."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import polars as pl

from nlgauge.configured import Configured, options_of, spread
from nlgauge.data.columns import Reading
from nlgauge.data.frames import is_records
from nlgauge.data.reading import Source
from nlgauge.data.sources.files import kept_open
from nlgauge.engine.running import Progress, Workers
from nlgauge.errors import DataError, MissingExtra, OptionError, argument
from nlgauge.models.runtime import Machine
from nlgauge.schema import document_text, stamped
from nlgauge.scoring.scoring import file_names
from nlgauge.signature import Signature

Row = dict[str, Any]
FILES = (str, Path, Source)


@dataclass(frozen=True)
class Column:
    """A column of a result's table: the key in the rows, its title, and how many digits to show.

    With several tasks, papers print the columns that are `beside` once for each of them. `p_value` is the key of the
    p-value that marks the number with † or ‡. An interval has the key of its number and `_ci`.
    """

    key: str
    title: str = ""
    digits: int = 2
    beside: bool = False
    p_value: str = ""


def with_interval(
    key: str, title: str = "", digits: int = 2, *, beside: bool = False, p_value: str = ""
) -> tuple[Column, Column]:
    """A column and that of its interval."""
    return Column(key, title, digits, beside, p_value), Column(f"{key}_ci", digits=digits)


def columns(*keys: str, **titles: str) -> tuple[Column, ...]:
    """Columns of these keys, then columns of these keys with titles."""
    return (*map(Column, keys), *(Column(key, title) for key, title in titles.items()))


@dataclass(frozen=True)
class View:
    """A table that is printed: some rows, perhaps under other names, and their columns."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    title: str = ""


@dataclass(frozen=True)
class StudyData:
    """What a study is given: files, tables, frames or lists, how to read them, and how to run."""

    entries: list[Any]
    reading: Reading = field(default_factory=Reading)
    running: Progress = field(default_factory=Workers)

    def check_reading(self, *used: str) -> None:
        """Refuse reading options other than these, which the study would ignore."""
        for one in options_of(Reading):
            if one.name not in used and getattr(self.reading, one.name) != one.default:
                raise OptionError(f"{argument(one.name)} has no meaning for this study's data; leave it out")

    @property
    def inputs(self) -> list[Any]:
        """The entries of a study that takes no lists of texts: a list of no records is a list of files."""
        return [
            one
            for entry in self.entries
            for one in (entry if isinstance(entry, list | tuple) and not is_records(entry) else [entry])
        ]


@dataclass(frozen=True, kw_only=True)
class Study(Configured, ABC):
    """A question about metrics or raters, configured. Subclasses are frozen dataclasses; their fields are the options.

    The first line of the docstring is its help; `examples` follow. `takes` says how many files it reads ("any": also
    none), `tables` names the frames that a result may have beside its rows (`--items OUT` writes the one called items),
    with their help. One that is `by_workers` computes metrics of sets, on any backend and with a folder that keeps
    finished values. `index` is the key that names a row, `layout` the columns of the table, and `aspect` the question
    of the report that the result helps to answer. `corrected_by` says what corrects the p-values that are shown, if
    anything does.
    """

    takes: ClassVar[Literal["files", "file", "any", "none"]] = "files"
    files: ClassVar[str] = "JSONL, CSV, TSV or Parquet; several files are several tasks."
    examples: ClassVar[tuple[str, ...]] = ()
    index: ClassVar[str] = "metric"
    layout: ClassVar[tuple[Column, ...]]
    tables: ClassVar[Mapping[str, str]] = {}
    aspect: ClassVar[str] = ""
    by_workers: ClassVar[bool] = False
    corrected_by: ClassVar[str] = ""

    def run(self, data: Any = None, **options: Any) -> Result:
        """Run the study on a file, a table, a frame, lists of texts, or a list of those.

        Further options are those of `Reading`, `Machine` and, where it is `by_workers`, `Workers`, else `Progress`.
        """
        reading, machine, running = spread(options, Reading, Machine, self.running_options())
        entries = list(data) if _is_list_of_inputs(data) else [] if data is None else [data]
        if not entries and (data is not None or self.takes in ("files", "file")):
            raise DataError("nothing to study: the list of files is empty")
        with machine.used(), kept_open():
            try:
                found = self.compute(StudyData(entries, reading, running))
            except DataError as error:
                _name_file(error, entries, vars(self).get("tasks", ()))
                raise
        return replace(found, notes=(*found.notes, *_notes_on_tests(found)))

    @classmethod
    def running_options(cls) -> type[Progress]:
        """The options that say how the study runs."""
        return Workers if cls.by_workers else Progress

    @abstractmethod
    def compute(self, data: StudyData) -> Result:
        """The result on this data."""

    @abstractmethod
    def sentence(self, result: Result) -> str:
        """What was found, in one sentence that follows from an interval or a test."""

    def views(self, result: Result) -> Sequence[View]:
        """The tables to print, as papers print them; the last one has all rows."""
        return (View(result.layout or self.layout, result.rows),)

    def chart(self, result: Result) -> Any:
        """The study's figure, as an Altair chart."""
        raise NotImplementedError(f"{self.name} of {len(result.rows)} rows has no chart")

    @classmethod
    def has_chart(cls) -> bool:
        """Whether there is a figure."""
        return cls.chart is not Study.chart


@dataclass(frozen=True)
class Result:
    """What a study found: rows, notes, frames beside the rows, and facts for the signature.

    What could not be computed is None in a row, and `notes` say why. `layout` has the columns where they depend on the
    data, `extra` further entries of the JSON document.
    """

    study: Study
    rows: Sequence[Row]
    notes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict, repr=False)
    detail: Any = field(default=None, repr=False)
    layout: tuple[Column, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name

    @property
    def index(self) -> str:
        """The key that names a row."""
        return self.study.index

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table of all rows."""
        return self.study.views(self)[-1].columns

    @property
    def signature(self) -> Signature:
        """How to get this result again, and facts about it."""
        return self.study.signature.with_facts(self.facts)

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        return self.study.sentence(self)

    def chart(self) -> Any:
        """The study's figure, as an Altair chart."""
        return self.study.chart(self)

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks, in order."""
        return list(dict.fromkeys(str(row["task"]) for row in self.rows if "task" in row))

    def to_polars(self) -> pl.DataFrame:
        """The rows as a frame; intervals are lists of two."""
        return pl.DataFrame(list(self.rows), infer_schema_length=None)

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra.needs("to_pandas()", "pandas") from error

        return pandas.DataFrame(list(self.rows))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        document = {
            "study": self.name,
            "signature": str(self.signature),
            "sentence": self.sentence,
            "aspect": self.study.aspect,
            "index": self.index,
            "columns": [asdict(column) for column in self.columns],
            "rows": list(self.rows),
            "notes": list(self.notes),
            **self.extra,
        }
        return stamped("study", document)

    def to_json(self) -> str:
        """One JSON document with a checksum, as `nlgauge study` writes it."""
        return document_text(self.to_dict())

    def row(self, name: str, task: str | None = None) -> Row:
        """The row of one metric (on one task); for use in programs."""
        found = [r for r in self.rows if r[self.index] == name and (task is None or r.get("task") == task)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} rows for {name!r} on {task!r}; found {[r[self.index] for r in self.rows]}")
        return found[0]


def _name_file(error: DataError, entries: Sequence[Any], names: Sequence[str]) -> None:
    """Say the file of an error about a task, which has the title of the file, the value of a column, or both."""
    paths = [str(entry.path if isinstance(entry, Source) else entry) for entry in entries if isinstance(entry, FILES)]
    if not error.file or len(paths) < len(entries) or error.file in paths or Path(error.file).exists():
        return
    known = dict(zip(names or file_names(paths), paths, strict=True))
    title, _, part = error.file.rpartition(": ")
    if error.file in known:
        error.file = known[error.file]
    elif title in known or len(paths) == 1:
        error.message = f"{part}: {error.message}"
        error.file = known.get(title, paths[0])


def _is_list_of_inputs(data: Any) -> bool:
    """Whether a list has inputs in it rather than being one: sets of texts, or records."""
    if not isinstance(data, list | tuple):
        return False
    return not data or not (is_records(data) or all(isinstance(entry, list | tuple) for entry in data))


def _notes_on_tests(result: Result) -> list[str]:
    """Which tests of a result are a family, and what corrects them, in words."""
    keys = dict.fromkeys(one.p_value or one.key for one in result.columns if one.p_value or one.key.endswith("_p"))
    tests = sum(row.get(key) is not None for row in result.rows for key in keys)
    notes = []
    if tests > 1 and result.study.corrected_by:
        notes.append(f"{tests} tests are one family, corrected by {result.study.corrected_by}")
    elif tests > 1:
        notes.append(f"{tests} p-values, each of a test by itself: they are not corrected for their number")
    if any(row.get("tied_with") is not None for row in result.rows):
        notes.append("clusters: all pairs of metrics on the same items are one family of tests, corrected by max-T")
    return notes


def facts_of(**found: set[str]) -> dict[str, str]:
    """Facts for the signature: what was found in one task or another."""
    return {name: "/".join(sorted(values)) for name, values in found.items()}


def finite(value: float) -> float | None:
    """The number, or None where there is none."""
    return float(value) if math.isfinite(value) else None


def pair(interval: Sequence[float] | None) -> list[float] | None:
    """An interval for a row, or None where there is none."""
    if interval is None:
        return None
    low, high = float(interval[0]), float(interval[1])
    return [low, high] if math.isfinite(low) and math.isfinite(high) else None
