"""Questionnaires as small declarative files: what is asked, about what, and which answers are possible.

A form is a TOML file (docs/forms.md has every key). It is read strictly, and stored with its study as JSON, so that a
later change of the file changes nothing for work that has begun.
"""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

import msgspec

from nlgauge.annotate.units import Per, Shape, Unit, is_storable
from nlgauge.data.forms import form_names as form_names
from nlgauge.data.forms import read_form
from nlgauge.errors import DataError

Widget = Literal["scale", "choice", "ranking", "text", "span", "number"]
Shown = Literal["context", "first", "responses", "items", "pair"]

TEXT_AT_MOST = 2000
SCALE_POINTS = 11
_KEYS: Mapping[Widget, frozenset[str]] = {
    "scale": frozenset(("min", "max", "labels", "deductions")),
    "number": frozenset(("min", "max")),
    "choice": frozenset(("values", "among")),
    "ranking": frozenset(),
    "text": frozenset(("min", "max")),
    "span": frozenset(("kinds",)),
}
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_ID = re.compile(r"[a-z][a-z0-9_]{0,39}")
_WHOLE = re.compile(r"-?[0-9]{1,9}")


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
class Question:
    """One question; `min` and `max` bound a number, or the length of a text in characters."""

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

    def part(self, deduction: Deduction) -> Question:
        """The question behind a deduction: how many points, none by default."""
        values = [Choice(value=points, label=f"minus {points}") for points in deduction.points]
        return Question(
            id=f"{self.id}.{deduction.id}",
            widget="choice",
            prompt=deduction.label,
            per=self.per,
            values=(Choice(value=0, label="none"), *values),
            required=False,
            export=self.export,
        )


@dataclass(frozen=True, kw_only=True)
class Step:
    """A page of an assignment: what is shown, and what is asked about it."""

    title: str
    show: tuple[Shown, ...]
    questions: tuple[Question, ...] = ()
    instructions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rated:
    """A row of exported ratings: `pair` names two responses of the set `item`, such as `0-2`, or is empty."""

    item: str
    question: str
    value: float
    pair: str = ""


@dataclass(frozen=True, kw_only=True)
class Form:
    """A questionnaire. `minutes` is the time that an assignment should take."""

    name: str
    title: str
    instructions: tuple[str, ...]
    unit: Shape
    minutes: float
    steps: tuple[Step, ...]
    paper: str = ""

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions, in order, without those behind deductions."""
        return tuple(question for step in self.steps for question in step.questions)

    def question(self, id: str) -> Question:
        """The question of this id, or the one behind a deduction (`quality.repetition`)."""
        known = {question.id: question for question in self.questions}
        known |= {part.id: part for question in self.questions for part in map(question.part, question.deductions)}
        if id not in known:
            raise DataError(f"no question '{id[:40]}' in the form '{self.name}'; {_nearest(id, known)}")
        return known[id]

    def questions_for(self, unit: Unit, step: int) -> list[tuple[str, Question]]:
        """What a step asks about a unit: (item, question), item by item; the item is "" for the unit as a whole."""
        asked = []
        for per, group in groupby(self.steps[step].questions, key=lambda question: question.per):
            together = list(group)
            asked += [(item, question) for item in unit.targets(per) for question in together]
        return asked

    def complete(self, unit: Unit, answers: Mapping[tuple[str, str], Any]) -> list[tuple[str, str]]:
        """The (item, question id) that need an answer and have none, in the order in which they are asked."""
        return [
            (item, question.id)
            for step in range(len(self.steps))
            for item, question in self.questions_for(unit, step)
            if question.required and (item, question.id) not in answers
        ]

    def check_answer(self, question: str, item: str, value: Any, unit: Unit) -> Any:
        """The answer as it is stored: whole numbers, tidy text, sorted spans. An impossible one is a DataError."""
        asked = self.question(question)
        known = unit.targets(asked.per)
        if item not in known:
            raise DataError(
                f"question '{question}' about '{item[:60]}'; expected an item of this assignment: "
                f"{', '.join(map(repr, known[:3]))}{', …' if len(known) > 3 else ''}"
            )
        return _checked(asked, value, unit, item)

    def warnings(self, unit: Unit, answers: Mapping[tuple[str, str], Any]) -> list[str]:
        """Scores that do not follow from their deductions (paper 4, section 3.1): worth a look, never an error."""
        found = []
        for question in self.questions:
            for item in unit.targets(question.per) if question.deductions else ():
                taken = sum(answers.get((item, part.id), 0) for part in map(question.part, question.deductions))
                score = answers.get((item, question.id))
                low, high = bounds(question)
                if score is not None and score != max(low, high - taken):
                    found.append(
                        f"'{item}' has {score} points after deductions of {taken}; {high} less {taken} would be "
                        f"{max(low, high - taken)}"
                    )
        return found

    def ratings(self, question: str, item: str, value: Any, unit: Unit) -> list[Rated]:
        """A stored answer as numbers; none for free text.

        Pairs of a set stand as item and pair (simHDS). The choice between two items is 1 for `first>second` when it
        is the first, else -1, as the ranking test reads it (rnkHDS); among more, 1 for the chosen one and 0 for the
        others. A ranking gives places from 1, spans their number, in all and by kind.
        """
        asked = self.question(question)
        ids = [one.id for one in unit.items]
        if asked.widget == "text":
            return []
        if asked.widget == "ranking":
            return [Rated(one, question, float(value.index(one) + 1)) for one in ids]
        if asked.widget == "span":
            kinds = Counter(span[2] for span in value if len(span) == 3)
            counts = {question: len(value)} | {f"{question}.{kind.id}": kinds[kind.id] for kind in asked.kinds}
            return [Rated(item, name, float(count)) for name, count in counts.items()]
        if asked.among and len(ids) == 2:
            return [Rated(">".join(sorted(ids)), question, 1.0 if value == min(ids) else -1.0)]
        if asked.among:
            return [Rated(one, question, float(value == one)) for one in ids]
        if asked.per == "pair":
            whole, _, pair = item.rpartition("#")
            return [Rated(whole, question, float(value), pair)]
        return [Rated(item or ">".join(sorted(ids)), question, float(value))]

    def to_json(self) -> str:
        """The form as it is stored with a study."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str) -> Form:
        """A stored form, checked as strictly as a file."""
        return _read(msgspec.json.decode(text), "the stored form")


def bounds(question: Question) -> tuple[int, int]:
    """The lowest and the highest number of a scale, or the shortest and the longest text, in characters."""
    if question.widget == "text":
        low = int(question.required) if question.min is None else question.min
        return low, TEXT_AT_MOST if question.max is None else question.max
    if question.min is None or question.max is None:
        raise DataError(f"question '{question.id}' has no ends; expected min and max")
    return question.min, question.max


def load_form(name_or_path: str | Path) -> Form:
    """A form that comes with NLGauge, by name, or a user's own, by path."""
    return _read(read_form(name_or_path), str(name_or_path))


def _read(raw: Any, file: str) -> Form:
    try:
        _check_words(Form, raw, "")
        form = msgspec.convert(raw, Form, str_keys=True)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        raise DataError(f"{place.strip('`').removeprefix('$.') or 'the form'}: {message}", file=file) from error
    except DataError as error:
        raise error.at(file=file) from error
    for place, problem in _problems(form):
        raise DataError(f"{place}: {problem}", file=file)
    return form


def _nearest(found: str, known: Iterable[str]) -> str:
    choices = [word for word in known if word]
    near = difflib.get_close_matches(found, choices, n=1, cutoff=0.5)
    return f"expected one of {', '.join(choices)}{f' (did you mean {near[0]!r}?)' if near else ''}"


def _check_words(kind: Any, raw: Any, place: str) -> None:
    """Refuse unknown and missing keys, and words that are not on their list, anywhere in the form."""
    if is_dataclass(kind) and isinstance(raw, dict):
        hints = get_type_hints(kind)
        for key, value in raw.items():
            if key not in hints:
                raise DataError(f"{place or 'the form'}: found the key '{key}'; {_nearest(key, hints)}")
            _check_words(hints[key], value, f"{place}.{key}".lstrip("."))
        for one in fields(kind):
            if one.default is MISSING and one.default_factory is MISSING and one.name not in raw:
                raise DataError(f"{place or 'the form'}: found no '{one.name}'; expected one: docs/forms.md says what")
    elif get_origin(kind) is tuple and isinstance(raw, list):
        for number, value in enumerate(raw):
            _check_words(get_args(kind)[0], value, f"{place}[{number}]")
    elif get_origin(kind) is Literal and isinstance(raw, str) and raw not in get_args(kind):
        raise DataError(f"{place}: found '{raw}'; {_nearest(raw, get_args(kind))}")


def _problems(form: Form) -> Iterator[tuple[str, str]]:
    """What is wrong with a form whose keys and types are right: (place, found and expected)."""
    if not _NAME.fullmatch(form.name):
        yield "name", f"found '{form.name}'; expected small letters, digits and hyphens, a letter first"
    if not (math.isfinite(form.minutes) and form.minutes > 0):
        yield "minutes", f"found {form.minutes}; expected a number above 0"
    if not form.instructions or not all(text.strip() for text in (form.title, *form.instructions)):
        yield "instructions", "found an empty title or no words; expected a title and at least one paragraph"
    yield from (("unit", problem) for problem in form.unit.problems())
    for id, count in Counter(question.id for question in form.questions).items():
        if count > 1:
            yield "steps", f"found {count} questions with the id '{id}'; expected an id of its own for each"
    if not any(question.export and question.widget != "text" for question in form.questions):
        yield "steps", "found no question whose answers are exported; expected one that is no free text"
    for number, step in enumerate(form.steps):
        yield from ((f"steps[{number}]", problem) for problem in _step_problems(form.unit, step))
        for place, question in enumerate(step.questions):
            where = f"steps[{number}].questions[{place}] ('{question.id}')"
            yield from ((where, problem) for problem in _question_problems(form.unit, step, question))


def _step_problems(shape: Shape, step: Step) -> Iterator[str]:
    if not step.show or len(set(step.show)) < len(step.show):
        yield f"found show = {list(step.show)}; expected at least one word, each once"
    wrong = {"items"} if shape.of == "set" else {"first", "responses", "pair"}
    if misplaced := sorted(wrong & set(step.show)):
        yield f"found show '{misplaced[0]}' in a form whose units are made of {shape.of}s; expected other words"
    if "pair" in step.show and all(question.per != "pair" for question in step.questions):
        yield "found show 'pair' without a question about pairs; expected one with per = 'pair'"


def _question_problems(shape: Shape, step: Step, question: Question) -> Iterator[str]:
    if not _ID.fullmatch(question.id):
        yield "found this id; expected small letters, digits and underscores, a letter first, at most 40"
    if not question.prompt.strip():
        yield "found an empty prompt; expected a question"
    given = {name for name in frozenset.union(*_KEYS.values()) if getattr(question, name) not in (None, "", (), {})}
    if alien := sorted(given - _KEYS[question.widget]):
        known = ", ".join(sorted(_KEYS[question.widget])) or "none of the keys of other widgets"
        yield f"found '{alien[0]}' with the widget '{question.widget}'; expected {known}"
    if question.per == "pair" and shape.of != "set":
        yield "found per = 'pair' in a form without pairs; expected units of sets, whose responses make pairs"
    elif question.per == "pair" and "pair" not in step.show:
        yield "found per = 'pair' in a step that does not show pairs; expected show = ['pair']"
    if question.per == "item" and not {"items", "responses"} & set(step.show):
        yield "found per = 'item' in a step that shows none; expected show = ['items'], or ['responses'] for sets"
    if (question.widget == "ranking" or question.among) and (question.per != "unit" or shape.size < 2):
        yield "found a question that compares items; expected per = 'unit' and units of at least 2"
    if question.widget == "span" and (question.per != "item" or shape.of != "item"):
        yield "found spans; expected per = 'item' in a form whose units are made of items, which have one text each"
    if question.widget in ("scale", "number", "text"):
        yield from _range_problems(question)
    if question.widget == "choice" and bool(question.among) == bool(question.values):
        yield "found a choice with both or neither of 'values' and 'among'; expected one of them"
    if question.values and (len({one.value for one in question.values}) < max(2, len(question.values))):
        yield "found too few values, or one twice; expected at least 2 that differ"
    for name, ids in (("deductions", question.deductions), ("kinds", question.kinds)):
        if len({one.id for one in ids}) < len(ids) or not all(_ID.fullmatch(one.id) for one in ids):
            yield f"found {name} {[one.id for one in ids]}; expected ids that differ: letters, digits, underscores"
    for one in question.deductions:
        if not one.points or sorted({*one.points}) != [*one.points] or one.points[0] < 1:
            yield f"found points {list(one.points)} for '{one.id}'; expected whole numbers above 0 in ascending order"


def _range_problems(question: Question) -> Iterator[str]:
    if question.widget != "text" and (question.min is None or question.max is None):
        yield "found a scale without its ends; expected min and max"
        return
    low, high = bounds(question)
    if not (0 <= low <= high if question.widget == "text" else low < high):
        yield f"found {low} to {high}; expected min below max"
    if question.widget != "scale":
        return
    if high - low >= SCALE_POINTS:
        yield f"found a scale of {high - low + 1} points; expected at most {SCALE_POINTS}: use the widget 'number'"
    if missing := [end for end in (low, high) if not question.labels.get(end, "").strip()]:
        yield f"found no label for {missing[0]}; expected labels for both ends, {low} and {high}"
    if outside := sorted(set(question.labels) - set(range(low, high + 1))):
        yield f"found a label for {outside[0]}; expected numbers from {low} to {high}"


def _refuse(question: Question, value: Any, expected: str) -> NoReturn:
    raise DataError(f"question '{question.id}': found {ascii(value)[:60]}; expected {expected}")


def _whole(value: Any) -> int | None:
    """A whole number, also one that a web form sends as text."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def _checked(question: Question, value: Any, unit: Unit, item: str) -> Any:
    ids = [one.id for one in unit.items]
    match question.widget:
        case "scale" | "number":
            (low, high), number = bounds(question), _whole(value)
            if number is None or not low <= number <= high:
                _refuse(question, value, f"a whole number from {low} to {high}")
            return number
        case "choice" if question.among:
            return value if value in ids else _refuse(question, value, f"one of the items {', '.join(ids)[:200]}")
        case "choice":
            number, known = _whole(value), [one.value for one in question.values]
            return number if number in known else _refuse(question, value, f"one of {', '.join(map(str, known))}")
        case "ranking":
            if not isinstance(value, list) or sorted(map(str, value)) != sorted(ids):
                _refuse(question, value, f"a list with each of the {len(ids)} items once")
            return list(map(str, value))
        case "text":
            return _checked_text(question, value)
        case "span":
            return _checked_spans(question, value, next(one.texts[0] for one in unit.items if one.id == item))


def _checked_text(question: Question, value: Any) -> str:
    low, high = bounds(question)
    if not isinstance(value, str) or not is_storable(value):
        _refuse(question, value, "text without NUL characters and lone surrogates")
    text = unicodedata.normalize("NFC", value.replace("\r\n", "\n").replace("\r", "\n")).strip()
    if not low <= len(text) <= high and (text or question.required):
        _refuse(question, value, f"{low} to {high} characters, not {len(text)}")
    return text


def _checked_spans(question: Question, value: Any, text: str) -> list[list[Any]]:
    """Spans as `[start, end]` or `[start, end, kind]`, in characters (Unicode code points) of the item's text."""
    kinds = [kind.id for kind in question.kinds]
    if not isinstance(value, list):
        _refuse(question, value, "a list of [start, end] or [start, end, kind]")
    for span in value:
        if not isinstance(span, list | tuple) or len(span) not in (2, 3) or {*map(type, span[:2])} != {int}:
            _refuse(question, span, "[start, end] or [start, end, kind]")
        if not 0 <= span[0] < span[1] <= len(text):
            _refuse(question, span, f"0 <= start < end <= {len(text)}, in characters")
        if len(span) == 3 and span[2] not in kinds:
            _refuse(question, span, f"as kind one of {', '.join(kinds) or 'none'}")
    spans = sorted(map(list, value), key=lambda span: span[:2])
    for one, other in pairwise(spans):
        if other[0] < one[1]:
            _refuse(question, [one, other], "spans that do not overlap")
    return spans
