"""What is wrong with a form: unknown keys and words, and combinations that make no sense."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from nlgauge.errors import DataError

if TYPE_CHECKING:
    from nlgauge.data.human.forms import Form, FormQuestion, Shape, Step, Widget

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


def nearest(found: str, known: Iterable[str]) -> str:
    """What was expected in place of a word: the known ones, with the nearest."""
    choices = [word for word in known if word]
    near = difflib.get_close_matches(found, choices, n=1, cutoff=0.5)
    return f"expected one of {', '.join(choices)}{f' (did you mean {near[0]!r}?)' if near else ''}"


def check_words(kind: Any, raw: Any, place: str) -> None:
    """Refuse unknown and missing keys, and words that are not on their list, anywhere in the form."""
    if is_dataclass(kind) and isinstance(raw, dict):
        hints = get_type_hints(kind)
        for key, value in raw.items():
            if key not in hints:
                raise DataError(f"{place or 'the form'}: found the key '{key}'; {nearest(key, hints)}")
            check_words(hints[key], value, f"{place}.{key}".lstrip("."))
        for one in fields(kind):
            if one.default is MISSING and one.default_factory is MISSING and one.name not in raw:
                raise DataError(f"{place or 'the form'}: found no '{one.name}'; expected one: docs/forms.md says what")
    elif get_origin(kind) is tuple and isinstance(raw, list):
        for number, value in enumerate(raw):
            check_words(get_args(kind)[0], value, f"{place}[{number}]")
    elif get_origin(kind) is Literal and isinstance(raw, str) and raw not in get_args(kind):
        raise DataError(f"{place}: found '{raw}'; {nearest(raw, get_args(kind))}")


def problems(form: Form) -> Iterator[tuple[str, str]]:
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
    yield from (("writes", problem) for problem in _writing_problems(form))
    if not form.writes and not any(question.export and question.widget != "text" for question in form.questions):
        yield "steps", "found no question whose answers are exported; expected one that is no free text"
    for number, step in enumerate(form.steps):
        yield from ((f"steps[{number}]", problem) for problem in _step_problems(form.unit, step))
        for place, question in enumerate(step.questions):
            where = f"steps[{number}].questions[{place}] ('{question.id}')"
            yield from ((where, problem) for problem in _question_problems(form.unit, step, question))


def _writing_problems(form: Form) -> Iterator[str]:
    """What is wrong with the sets that people are asked to write."""
    if (form.unit.of == "context") != bool(form.writes):
        yield "found 'writes' or of = 'context' alone; expected both, in a form that asks people to write, or neither"
    texts = {one.id for one in form.questions if one.widget == "text" and one.per == "unit" and one.required}
    for one in form.writes:
        if len(set(one.questions)) < max(2, len(one.questions)):
            yield f"found the questions {list(one.questions)}; expected at least 2, each once"
        if unknown := [id for id in one.questions if id not in texts]:
            yield f"found '{unknown[0]}'; expected questions with the widget 'text' that require an answer, per unit"
    if len({one.label for one in form.writes}) < len(form.writes):
        yield "found a label twice; expected one set of each class at most: 1 for high diversity, 0 for low"


def _step_problems(shape: Shape, step: Step) -> Iterator[str]:
    if not step.show or len(set(step.show)) < len(step.show):
        yield f"found show = {list(step.show)}; expected at least one word, each once"
    shown_of = {"set": {"first", "responses", "pair"}, "item": {"items"}, "context": set[str]()}
    wrong = {"first", "responses", "pair", "items"} - shown_of[shape.of]
    if misplaced := sorted(wrong & set(step.show)):
        yield f"found show '{misplaced[0]}' in a form whose units are made of {shape.of}s; expected other words"
    if "pair" in step.show and all(question.per != "pair" for question in step.questions):
        yield "found show 'pair' without a question about pairs; expected one with per = 'pair'"


def _question_problems(shape: Shape, step: Step, question: FormQuestion) -> Iterator[str]:
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
    if question.relative and (question.widget not in ("scale", "number") or question.per != "item" or shape.size < 3):
        yield "found relative = true; expected a scale or number with per = 'item' in units of at least 3"
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


def _range_problems(question: FormQuestion) -> Iterator[str]:
    if question.widget != "text" and (question.min is None or question.max is None):
        yield "found a scale without its ends; expected min and max"
        return
    low, high = question.bounds
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
