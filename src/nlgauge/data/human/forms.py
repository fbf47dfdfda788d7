"""Questionnaires as small declarative files: what is asked, about what, and which answers are possible.

A form is a TOML file (docs/forms.md has every key), read strictly. Raters on the annotation site and models that judge
are asked in the same words. `forms/*.toml` come with NLGauge; other packages bring theirs with the entry point
`nlgauge.forms`: the package that has `NAME.toml` in its folder, or `module:attribute` with the path of a file.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from nlgauge.data.human.form_checks import check_words, nearest, problems
from nlgauge.data.sources.files import decode_utf8, located
from nlgauge.errors import DataError, PluginError, UnknownName
from nlgauge.registry import distribution_of, installed_points

Widget = Literal["scale", "choice", "ranking", "text", "span", "number"]
Shown = Literal["context", "first", "responses", "items", "pair"]
Per = Literal["unit", "item", "pair"]
Added = Literal["human", "negative"]
PairsOf = Literal["", "all", "neighbours"]

TEXT_AT_MOST = 2000
_LARGEST = 100


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What an assignment is made of: `size` sets or items, those that share the column `group` where one is named; or a
    context, to which people write.

    `pairs` makes units of two out of each group; `add` says which items of a unit are not a system's (paper 4).
    """

    of: Literal["set", "item", "context"]
    size: int
    group: str = ""
    pairs: PairsOf = ""
    add: tuple[Added, ...] = ()

    def problems(self) -> Iterator[str]:
        """What is wrong: found and expected."""
        if not 1 <= self.size <= _LARGEST:
            yield f"found size {self.size}; expected 1 to {_LARGEST}"
        if self.group and self.size < 2:
            yield f"found group = '{self.group}' with size {self.size}; expected units of at least 2"
        if self.pairs and (self.size != 2 or not self.group):
            yield f"found pairs = '{self.pairs}' with size {self.size}; expected size = 2 and a column as group"
        if self.add and (self.of != "item" or not self.group or self.pairs or self.size <= len(self.add)):
            yield "found 'add'; expected of = 'item', a column as group, and a size with room for systems' items"
        if self.of == "context" and self.size != 1:
            yield f"found size {self.size} with of = 'context'; expected 1: people write to one context at a time"
        if len(set(self.add)) < len(self.add):
            yield "found a word twice in 'add'; expected each once"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of the answers to choose from; `value` is the number that exported ratings carry."""

    value: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Deduction:
    """A reason to take points off a scale (paper 4, Figure 1); stored as an answer to `<question>.<id>`."""

    id: str
    label: str
    points: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SpanKind:
    """What may be wrong with a marked span."""

    id: str
    label: str


@dataclass(frozen=True, kw_only=True)
class FormQuestion:
    """One question; `min` and `max` bound a number, or the length of a text in characters.

    `relative` says that numbers compare the items of one assignment, and mean nothing beyond it.
    """

    id: str
    widget: Widget
    prompt: str
    help: str = ""
    per: Per = "unit"
    min: int | None = None
    max: int | None = None
    labels: Mapping[int, str] = field(default_factory=dict)
    values: tuple[Choice, ...] = ()
    among: Literal["", "items"] = ""
    kinds: tuple[SpanKind, ...] = ()
    deductions: tuple[Deduction, ...] = ()
    required: bool = True
    export: bool = True
    relative: bool = False

    def part(self, deduction: Deduction) -> FormQuestion:
        """The question behind a deduction: how many points, none by default."""
        values = [Choice(value=points, label=f"minus {points}") for points in deduction.points]
        return FormQuestion(
            id=f"{self.id}.{deduction.id}",
            widget="choice",
            prompt=deduction.label,
            per=self.per,
            values=(Choice(value=0, label="none"), *values),
            required=False,
            export=self.export,
        )

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest number of a scale, or the shortest and the longest text, in characters."""
        if self.widget == "text":
            low = int(self.required) if self.min is None else self.min
            return low, TEXT_AT_MOST if self.max is None else self.max
        if self.min is None or self.max is None:
            raise DataError(f"question '{self.id}' has no ends; expected min and max")
        return self.min, self.max


@dataclass(frozen=True, kw_only=True)
class Step:
    """A page of an assignment: what is shown, and what is asked about it."""

    title: str
    show: tuple[Shown, ...]
    questions: tuple[FormQuestion, ...] = ()
    instructions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WrittenSet:
    """Free-text questions whose answers make one set of responses, and its label: 1 for high diversity of content,
    0 for low.
    """

    label: Literal[0, 1]
    questions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Form:
    """A questionnaire. `minutes` is the time that an assignment should take.

    `writes` says which sets the texts of an assignment make, in a form that asks people to write them; `rules` are the
    quality rules that a study with this form has unless others of the same name are given.
    `plugin` is the package that brought it along, with its version, or nothing. No file says it: it is found.
    """

    name: str
    title: str
    instructions: tuple[str, ...]
    unit: Shape
    minutes: float
    steps: tuple[Step, ...]
    paper: str = ""
    writes: tuple[WrittenSet, ...] = ()
    rules: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def questions(self) -> tuple[FormQuestion, ...]:
        """All questions, in order, without those behind deductions."""
        return tuple(question for step in self.steps for question in step.questions)

    def question(self, id: str) -> FormQuestion:
        """The question of this id, or the one behind a deduction (`quality.repetition`)."""
        known = {question.id: question for question in self.questions}
        known |= {part.id: part for question in self.questions for part in map(question.part, question.deductions)}
        if id not in known:
            raise DataError(f"no question '{id[:40]}' in the form '{self.name}'; {nearest(id, known)}")
        return known[id]

    def with_joined_pages(self) -> Form:
        """The form with pages that follow each other and show the same on one page."""
        steps: list[Step] = []
        for step in self.steps:
            if not steps or steps[-1].show != step.show:
                steps.append(step)
                continue
            title = f"{steps[-1].title} {step.title}"
            told = tuple(dict.fromkeys((*steps[-1].instructions, *step.instructions)))
            asked = (*steps[-1].questions, *step.questions)
            steps[-1] = replace(step, title=title, instructions=told, questions=asked)
        if len(steps) == len(self.steps):
            raise DataError(f"no two pages of the form '{self.name}' that follow each other show the same")
        return replace(self, steps=tuple(steps))

    def to_json(self) -> str:
        """The form as it is stored with a study."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str) -> Form:
        """A stored form, checked as strictly as a file."""
        return _checked(msgspec.json.decode(text), "the stored form")


def form_names() -> list[str]:
    """The forms that come with NLGauge and with installed packages."""
    built_in = _built_in()
    return sorted({*built_in, *installed_points("form", "nlgauge.forms", built_in)})


def load_forms() -> list[Form]:
    """All of these; one of a package that cannot be read is named in a warning."""
    found: list[Form] = []
    for name in form_names():
        try:
            found.append(load_form(name))
        except (PluginError, DataError) as error:
            warnings.warn(str(error), stacklevel=2)
    return found


def load_form(name_or_path: str | Path) -> Form:
    """A form that comes with NLGauge or another package, by name, or a user's own, by path."""
    name = str(name_or_path)
    data, plugin = _data(name)
    file = f"{name} ({plugin})" if plugin else name
    try:
        raw = tomllib.loads(decode_utf8(data, file=file, first_line=1))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{error}; expected a TOML file, as docs/forms.md describes it", file=file) from error
    if "plugin" in raw:
        raise DataError("the form: found the key 'plugin'; leave it out: it is found from the package", file=file)
    return replace(_checked(raw, file), plugin=plugin)


def _built_in() -> list[str]:
    folder = resources.files("nlgauge.data.human") / "forms"
    return [file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")]


def _data(name: str) -> tuple[bytes, str]:
    """What a form's file has, and the package that brought it along."""
    built_in = _built_in()
    if name in built_in:
        return (resources.files("nlgauge.data.human") / "forms" / f"{name}.toml").read_bytes(), ""
    point = installed_points("form", "nlgauge.forms", built_in).get(name)
    if point is not None:
        try:
            found: Any = point.load() if point.attr else resources.files(point.module) / f"{name}.toml"
            return (Path(found) if isinstance(found, str) else found).read_bytes(), distribution_of(point)
        except Exception as error:
            raise PluginError(
                f"the form '{name}' of {distribution_of(point)} cannot be read: {type(error).__name__}: {error}"
            ) from error
    if not name.endswith(".toml") and not Path(name).exists():
        raise UnknownName.among("form", name, form_names(), "A form of your own is a file whose name ends in .toml.")
    try:
        return Path(name).read_bytes(), ""
    except OSError as error:
        raise DataError(
            f"cannot be read: {error.strerror or error}; expected a form file, or one of {', '.join(form_names())}",
            file=name,
        ) from error


def _checked(raw: Any, file: str) -> Form:
    with located(file):
        try:
            check_words(Form, raw, "")
            form = msgspec.convert(raw, Form, str_keys=True)
        except msgspec.ValidationError as error:
            message, _, place = str(error).partition(" - at ")
            raise DataError(f"{place.strip('`').removeprefix('$.') or 'the form'}: {message}") from error
        for place, problem in problems(form):
            raise DataError(f"{place}: {problem}")
        return form
