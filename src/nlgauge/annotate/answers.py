"""Answers to the questions of a form: which are asked, which are possible, and what they are as ratings."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from nlgauge.data.human.forms import Form, FormQuestion
from nlgauge.errors import DataError

if TYPE_CHECKING:
    from nlgauge.annotate.units import Unit

_WHOLE = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True)
class Rated:
    """A row of exported ratings: `pair` names two responses of the set `item`, such as `0-2`, or is empty."""

    item: str
    question: str
    value: float
    pair: str = ""


def is_storable(text: str) -> bool:
    """Whether every database can keep the text: PostgreSQL has no NUL, and a lone surrogate is no character."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def questions_for(form: Form, unit: Unit, step: int) -> list[tuple[str, FormQuestion]]:
    """What a step asks about a unit: (item, question), item by item; the item is "" for the unit as a whole."""
    asked = []
    for per, group in groupby(form.steps[step].questions, key=lambda question: question.per):
        together = list(group)
        asked += [(item, question) for item in unit.targets(per) for question in together]
    return asked


def missing_answers(form: Form, unit: Unit, answers: Mapping[tuple[str, str], Any]) -> list[tuple[str, str]]:
    """The (item, question id) that need an answer and have none, in the order in which they are asked."""
    return [
        (item, question.id)
        for step in range(len(form.steps))
        for item, question in questions_for(form, unit, step)
        if question.required and (item, question.id) not in answers
    ]


def check_answer(form: Form, question: str, item: str, value: Any, unit: Unit) -> Any:
    """The answer as it is stored: whole numbers, tidy text, sorted spans. An impossible one is a DataError."""
    asked = form.question(question)
    known = unit.targets(asked.per)
    if item not in known:
        raise DataError(
            f"question '{question}' about '{item[:60]}'; expected an item of this assignment: "
            f"{', '.join(map(repr, known[:3]))}{', …' if len(known) > 3 else ''}"
        )
    ids = [one.id for one in unit.items]
    match asked.widget:
        case "scale" | "number":
            (low, high), number = asked.bounds, _whole(value)
            if number is None or not low <= number <= high:
                _refuse(asked, value, f"a whole number from {low} to {high}")
            return number
        case "choice" if asked.among:
            return value if value in ids else _refuse(asked, value, f"one of the items {', '.join(ids)[:200]}")
        case "choice":
            number, values = _whole(value), [one.value for one in asked.values]
            return number if number in values else _refuse(asked, value, f"one of {', '.join(map(str, values))}")
        case "ranking":
            if not isinstance(value, list) or sorted(map(str, value)) != sorted(ids):
                _refuse(asked, value, f"a list with each of the {len(ids)} items once")
            return list(map(str, value))
        case "text":
            return _checked_text(asked, value)
        case "span":
            return _checked_spans(asked, value, next(one.texts[0] for one in unit.items if one.id == item))


def ratings_of(form: Form, question: str, item: str, value: Any, unit: Unit) -> list[Rated]:
    """A stored answer as numbers; none for free text.

    Pairs of a set stand as item and pair (simHDS). The choice between two items is 1 for `first>second` when it
    is the first, else -1, as the ranking test reads it (rnkHDS); among more, 1 for the chosen one and 0 for the
    others. A ranking gives places from 1, spans their number, in all and by kind.
    """
    asked = form.question(question)
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


def written_sets(form: Form, answers: Mapping[tuple[str, str], Any]) -> list[tuple[int, list[str]]]:
    """The sets that the texts of an assignment make, with their labels, where the form asks people to write some."""
    sets = [(one.label, [answers.get(("", id), "") for id in one.questions]) for one in form.writes]
    return [(label, texts) for label, texts in sets if all(texts)]


def _refuse(question: FormQuestion, value: Any, expected: str) -> NoReturn:
    raise DataError(f"question '{question.id}': found {ascii(value)[:60]}; expected {expected}")


def _whole(value: Any) -> int | None:
    """A whole number, also one that a web form sends as text."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def _checked_text(question: FormQuestion, value: Any) -> str:
    low, high = question.bounds
    if not isinstance(value, str) or not is_storable(value):
        _refuse(question, value, "text without NUL characters and lone surrogates")
    text = unicodedata.normalize("NFC", value.replace("\r\n", "\n").replace("\r", "\n")).strip()
    if not low <= len(text) <= high and (text or question.required):
        _refuse(question, value, f"{low} to {high} characters, not {len(text)}")
    return text


def _checked_spans(question: FormQuestion, value: Any, text: str) -> list[list[Any]]:
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
