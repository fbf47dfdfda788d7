"""Rendering of a form and a unit as pages, and parsing of posted fields to answers.

Fields are named by position (`q0`, `q1`, …) and items by number, in the order in which this rater sees them: ids would
reveal which text is human and which one is a test. A page without JavaScript posts the
same fields that the script saves one by one.

Texts of models and raters are hostile: they are escaped, and invisible characters that change the
display (control characters, direction marks) are shown by their code points.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from nlgauge.annotate.answers import check_answer, missing_answers, questions_for
from nlgauge.annotate.database.records import Key
from nlgauge.annotate.units import Unit
from nlgauge.data.human.forms import Form, FormQuestion
from nlgauge.errors import DataError

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_WIDE}]|[^\\s{_WIDE}]+")
_EXCERPT = 90


@dataclass(frozen=True)
class Option:
    """One of the answers to choose from."""

    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True)
class RankedItem:
    """An item to put in order; `place` is empty if there is no order yet."""

    name: str
    label: str
    excerpt: str
    place: int | None


@dataclass(frozen=True)
class Word:
    """A word of a text where spans are marked, with the text before it; `mark` is empty if it is not marked."""

    before: str
    text: str
    mark: str


@dataclass(frozen=True)
class Mark:
    """A marked span; `first` and `last` are word numbers, inclusive."""

    value: str
    text: str
    kind: str
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Field:
    """One question as a page shows it; `parts` are the deductions, `error` says why an answer was not saved."""

    name: str
    question: FormQuestion
    options: tuple[Option, ...] = ()
    text: str = ""
    ranked: tuple[RankedItem, ...] = ()
    words: tuple[Word, ...] = ()
    marks: tuple[Mark, ...] = ()
    is_answered: bool = False
    parts: tuple[Field, ...] = ()
    note: str = ""
    error: str = ""


@dataclass(frozen=True)
class Section:
    """Texts and the questions about them; without a title, the questions are about the whole unit."""

    title: str
    context: str
    texts: tuple[str, ...]
    fields: tuple[Field, ...]


def shown(text: object) -> Markup:
    """A text for a page: escaped, with hidden characters made visible."""
    parts, end = [], 0
    letters = str(text).replace("\r\n", "\n")
    for found in _HIDDEN.finditer(letters):
        number = Markup('<span class="control">U+{:04X}</span>').format(ord(found.group()))
        parts += [escape(letters[end : found.start()]), number]
        end = found.end()
    return Markup("").join([*parts, escape(letters[end:])])


def page(template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A page from its template."""
    return HTMLResponse(templates().get_template(template).render(status=status, **context), status_code=status)


@lru_cache(maxsize=1)
def templates() -> Environment:
    """The templates of the site, which escape what they show."""
    made = Environment(
        loader=PackageLoader("nlgauge.annotate", "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["shown"], made.filters["plain"] = shown, tidy_line
    return made


def first_incomplete_step(form: Form, unit: Unit, answers: Mapping[Key, Any]) -> int:
    """The step to continue with: the first one that lacks an answer, or the last one."""
    if not answers:
        return 0
    places = field_places(form, unit)
    return min((places[key][0] for key in missing_answers(form, unit, answers)), default=len(form.steps) - 1)


def field_places(form: Form, unit: Unit) -> dict[Key, tuple[int, str]]:
    """The step and the name of the field that asks each question."""
    return {
        (item, question.id): (step, f"q{number}")
        for step in range(len(form.steps))
        for number, (item, question) in enumerate(questions_for(form, unit, step))
    }


def item_label(form: Form, unit: Unit, target: str) -> str:
    """The label of an item, a pair, or the whole unit."""
    noun = "Set" if form.unit.of == "set" else "Text"
    for number, item in enumerate(unit.items, 1):
        if item.id == target:
            return f"{noun} {number}" if len(unit.items) > 1 or noun == "Text" else "The responses"
    pairs = unit.targets("pair") if target else []
    return f"Pair {pairs.index(target) + 1} of {len(pairs)}" if target in pairs else ""


def step_sections(
    form: Form,
    unit: Unit,
    step: int,
    answers: Mapping[Key, Any],
    *,
    errors: Mapping[str, str] | None = None,
    sent: Mapping[str, list[str]] | None = None,
) -> list[Section]:
    """A step with the answers so far; fields with an error show what was sent."""
    page, sections = form.steps[step], []
    if "first" in page.show:
        sections += [Section("A first response", item.context, item.texts[:1], ()) for item in unit.items]
    if {"items", "responses"} & set(page.show) and all(one.per != "item" for one in page.questions):
        sections += [Section(item_label(form, unit, item.id), item.context, item.texts, ()) for item in unit.items]
    asked = enumerate(questions_for(form, unit, step))
    for target, group in groupby(asked, key=lambda numbered: numbered[1][0]):
        fields = []
        for number, (_, question) in group:
            name = f"q{number}"
            wrong, given = (errors or {}).get(name, ""), (sent or {}).get(name, [""])[0]
            fields.append(_field(form, unit, name, target, question, answers, wrong, given))
        context, texts = _about(unit, target)
        sections.append(Section(item_label(form, unit, target), context, texts, tuple(fields)))
    return sections


def _about(unit: Unit, target: str) -> tuple[str, tuple[str, ...]]:
    for item in unit.items:
        if item.id == target:
            return item.context, item.texts
    if not target:
        return "", ()
    whole, _, pair = target.rpartition("#")
    item = next(one for one in unit.items if one.id == whole)
    first, second = map(int, pair.split("-"))
    return item.context, (item.texts[first], item.texts[second])


def _field(
    form: Form,
    unit: Unit,
    name: str,
    target: str,
    question: FormQuestion,
    answers: Mapping[Key, Any],
    error: str = "",
    given: str = "",
) -> Field:
    value = answers.get((target, question.id))
    spans = [one.texts[0] for one in unit.items if question.widget == "span" and one.id == target]
    return Field(
        name=name,
        question=question,
        options=tuple(_options(form, unit, question, value)),
        text=given if error else "" if value is None else str(value),
        ranked=tuple(_ranked(form, unit, name, value)) if question.widget == "ranking" else (),
        words=tuple(word for text in spans for word in _words(text, value or [])),
        marks=tuple(mark for text in spans for mark in _marks(question, text, value or [])),
        is_answered=value is not None,
        parts=tuple(
            _field(form, unit, f"{name}.{deduction.id}", target, question.part(deduction), answers)
            for deduction in question.deductions
        ),
        note=_deduction_note(question, target, answers),
        error=error,
    )


def _options(form: Form, unit: Unit, question: FormQuestion, value: Any) -> Iterator[Option]:
    if question.widget == "scale":
        low, high = question.bounds
        for number in range(low, high + 1):
            yield Option(str(number), question.labels.get(number, ""), value == number)
    elif question.among:
        for number, item in enumerate(unit.items):
            yield Option(str(number), item_label(form, unit, item.id), value == item.id)
    else:
        for choice in question.values:
            yield Option(str(choice.value), choice.label, value == choice.value)


def _ranked(form: Form, unit: Unit, name: str, value: list[str] | None) -> list[RankedItem]:
    rows = []
    for number, item in enumerate(unit.items):
        text = "".join(item.texts[:1])
        excerpt = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT].rstrip()}…"
        place = value.index(item.id) + 1 if value else None
        rows.append(RankedItem(f"{name}.place.{number}", item_label(form, unit, item.id), excerpt, place))
    return sorted(rows, key=lambda row: row.place or 0)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each word of a text, in characters; in scripts without spaces each character is a word."""
    return [found.span() for found in _WORD.finditer(text)]


def _words(text: str, spans: list[list[Any]]) -> Iterator[Word]:
    end = 0
    for start, stop in word_spans(text):
        mark = next((one for one in spans if one[0] < stop and start < one[1]), None)
        yield Word(text[end:start], text[start:stop], "" if mark is None else (mark[2:] or ["marked"])[0])
        end = stop


def _marks(question: FormQuestion, text: str, spans: list[list[Any]]) -> Iterator[Mark]:
    labels = {kind.id: kind.label for kind in question.kinds}
    words = word_spans(text)
    for start, end, *kind in spans:
        inside = [number for number, (first, last) in enumerate(words) if first < end and start < last] or [0]
        label = labels.get(kind[0], "") if kind else ""
        yield Mark(f"{start}-{end}", text[start:end], label, inside[0], inside[-1])


def _deduction_note(question: FormQuestion, target: str, answers: Mapping[Key, Any]) -> str:
    """A score that does not follow from its deductions is noted (paper 4, section 3.1)."""
    score = answers.get((target, question.id))
    parts = [answers.get((target, part.id)) for part in map(question.part, question.deductions)]
    given = [points for points in parts if points is not None]
    if score is None or not given:
        return ""
    low, high = question.bounds
    taken, due = sum(given), max(low, high - sum(given))
    points = "1 point" if taken == 1 else f"{taken} points"
    return "" if score == due else f"You took {points} off, which leaves {due}; you gave {score}. Is that right?"


def known_fields(form: Form, unit: Unit, step: int) -> set[str]:
    """The names of all fields that the page of a step sends."""
    names = set()
    for number, (_, question) in enumerate(questions_for(form, unit, step)):
        name = f"q{number}"
        if question.widget == "ranking":
            names |= {f"{name}.place.{place}" for place in range(len(unit.items))}
        elif question.widget == "span":
            names |= {f"{name}.{part}" for part in ("word", "kind", "remove", "none")}
        else:
            names |= {name, *(f"{name}.{deduction.id}" for deduction in question.deductions)}
    return names


def read_fields(
    form: Form, unit: Unit, step: int, fields: Mapping[str, list[str]], answers: Mapping[Key, Any]
) -> tuple[dict[Key, Any], dict[str, str]]:
    """The valid answers in what a page sent, and the errors of the others by field name.

    Empty fields are not answers, unless there was one before.
    """
    kept: dict[Key, Any] = {}
    errors: dict[str, str] = {}
    for number, (item, question) in enumerate(questions_for(form, unit, step)):
        name = f"q{number}"
        asked = [(name, question)]
        asked += [(f"{name}.{deduction.id}", question.part(deduction)) for deduction in question.deductions]
        for field, one in asked:
            key = (item, one.id)
            try:
                value = _read_field(one, field, unit, item, fields, answers.get(key))
                if value is not None:
                    kept[key] = check_answer(form, one.id, item, value, unit)
            except DataError as error:
                errors[field] = _plain(error)
    return kept, errors


def _plain(error: DataError) -> str:
    """The part of an error that a rater can use."""
    _, found, expected = error.message.partition("expected ")
    return f"Expected {expected}." if found else f"{error.message}."


def _read_field(
    question: FormQuestion, name: str, unit: Unit, item: str, fields: Mapping[str, list[str]], before: Any
) -> Any:
    """The value of a field, or None if it is empty."""
    if question.widget == "ranking":
        return _read_ranking(name, unit, fields)
    if question.widget == "span":
        text = next(one.texts[0] for one in unit.items if one.id == item)
        return _read_spans(question, name, text, fields, before)
    given = fields.get(name, [])
    if len(given) > 1:
        raise DataError(f"found {len(given)} answers; expected one")
    if not given or (not given[0].strip() and before is None):
        return None
    if question.among:
        numbers = {str(number): one.id for number, one in enumerate(unit.items)}
        if given[0] not in numbers:
            raise DataError("found something else; expected one of the texts on this page")
        return numbers[given[0]]
    return given[0].strip() if question.widget != "text" else given[0]


def _read_ranking(name: str, unit: Unit, fields: Mapping[str, list[str]]) -> list[str] | None:
    places = [fields.get(f"{name}.place.{number}", [""])[-1] for number in range(len(unit.items))]
    if not any(places):
        return None
    if sorted(places) != sorted(str(number + 1) for number in range(len(places))):
        raise DataError(f"expected a different place for each, from 1 (best) to {len(places)}")
    return [unit.items[places.index(str(number + 1))].id for number in range(len(places))]


def _read_spans(
    question: FormQuestion, name: str, text: str, fields: Mapping[str, list[str]], before: list[list[Any]] | None
) -> list[list[Any]] | None:
    """The marks after a change: ticked words become marks of one kind, others are removed."""
    words, spans = word_spans(text), [*(before or [])]
    known = {str(number): number for number in range(len(words))}
    ticked = sorted({known[one] for one in fields.get(f"{name}.word", []) if one in known})
    kind = fields.get(f"{name}.kind", [""])[-1]
    removed = set(fields.get(f"{name}.remove", []))
    spans = [span for span in spans if f"{span[0]}-{span[1]}" not in removed]
    if ticked and question.kinds and not kind:
        raise DataError("expected a kind for the words that you ticked: choose one")
    for _, run in groupby(enumerate(ticked), key=lambda numbered: numbered[1] - numbered[0]):
        numbers = [number for _, number in run]
        start, end = words[numbers[0]][0], words[numbers[-1]][1]
        spans = [span for span in spans if span[1] <= start or end <= span[0]]
        spans.append([start, end, kind] if question.kinds else [start, end])
    if fields.get(f"{name}.none") and spans:
        raise DataError("expected either marks or nothing to mark: take the marks away, or untick that")
    if ticked or removed or (fields.get(f"{name}.none") and before is None):
        return sorted(spans)
    return None


def tidy_line(text: object) -> str:
    """A reason or a name on one line, in composed form, without invisible characters."""
    return " ".join(_HIDDEN.sub(" ", unicodedata.normalize("NFC", str(text))).split())
