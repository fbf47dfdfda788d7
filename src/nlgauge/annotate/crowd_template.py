"""HITs for Mechanical Turk: a table with one row per HIT for the bulk upload, and the page that shows a row.

Mechanical Turk puts the cells of a row into the page as they are, in place of `${column}`. So every cell is HTML:
ASCII without tags, and without anything that a browser, a spreadsheet or the site could execute.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec
import polars as pl

from nlgauge.annotate.answers import check_answer, questions_for
from nlgauge.annotate.database.records import Snapshot, Study, StudyUnit, encode
from nlgauge.annotate.units import Unit, order_for
from nlgauge.data.human.forms import Form, FormQuestion, Step
from nlgauge.errors import DataError, OptionError

_RISKY = re.compile(r"[${}`\x00-\x1f\x7f]")
_ANSWER, _PACKED = "Answer.", "Answer.taskAnswers"
_FORMULA_STARTS = ("=", "+", "-", "@")
_STYLE = (
    "section, article { margin: 1em 0 } fieldset { margin: .5em 0; border: 1px solid #767676 } "
    ".text { white-space: pre-wrap } label { display: block } .text, .prompt { max-width: 45em }"
)


@dataclass(frozen=True)
class HitFile:
    """HITs that one page can show: `hits` has a row each."""

    hits: pl.DataFrame
    template: str


def unit_name(one: StudyUnit) -> str:
    """The name of a HIT's unit: its number, and a hash that identifies the study."""
    content = encode({"context": one.unit.context, "items": one.unit.items})
    return f"{one.position}-{hashlib.blake2b(content.encode(), digest_size=5).hexdigest()}"


def shown_unit(study: Study, unit: Unit) -> Unit:
    """The unit as its HIT shows it: items in one random order for all workers, since a HIT is the same for all."""
    return order_for(unit, study.seed)


def as_html(text: str) -> str:
    """A text that is safe in a page, in a variable of a page and in a spreadsheet; ASCII only."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    safe = _RISKY.sub(_reference, html.escape(lines, quote=True)).encode("ascii", "xmlcharrefreplace").decode()
    return f"&#{ord(safe[0])};{safe[1:]}" if safe.startswith(_FORMULA_STARTS) else safe


def make_hits(snapshot: Snapshot) -> list[HitFile]:
    """All normal, gold and attention units as HITs; one file per number of items and texts."""
    study = snapshot.study
    if spans := [question.id for question in study.form.questions if question.widget == "span"]:
        raise OptionError(
            f"the form '{study.form.name}' asks for spans ('{spans[0]}'), which a page of Mechanical Turk cannot mark; "
            "expected other widgets: send workers to this site with an external question"
        )
    shown = [
        (unit_name(one), shown_unit(study, one.unit)) for one in snapshot.units if one.unit.kind != "qualification"
    ]
    shapes = sorted({_shape(unit) for _, unit in shown})
    return [
        HitFile(pl.DataFrame([_row(name, unit) for name, unit in group]), _page(study.form, group[0][1]))
        for shape in shapes
        if (group := [(name, unit) for name, unit in shown if _shape(unit) == shape])
    ]


def page_fields(cells: Mapping[str, str]) -> dict[str, str]:
    """The values of a page's inputs, from a row of results: one column each, as in `Answer.diversity-1`, or all in one.

    A page that was put into a crowd-form has all of them in `Answer.taskAnswers`, a JSON list of objects: texts and
    numbers unchanged, buttons as in `{"1": false, "2": true}`. Other values stay JSON.
    """
    names = [name for name in cells if name.startswith(_ANSWER) and name != _PACKED]
    found = {name.removeprefix(_ANSWER): cells[name] for name in names}
    if not (packed := cells.get(_PACKED, "")):
        return found
    try:
        objects = msgspec.json.decode(packed, type=list[dict[str, Any]])
    except msgspec.DecodeError as error:
        raise DataError(
            f"found '{packed[:60]}' ({error}); expected a JSON list of objects with inputs and their values",
            column=_PACKED,
        ) from error
    for name, value in (pair for one in objects for pair in one.items()):
        typed = _typed(value)
        if typed and found.get(name, typed) not in ("", typed):
            raise DataError(
                f"found '{typed[:40]}' and '{found[name][:40]}' for '{name}'; expected one value", column=_PACKED
            )
        found[name] = typed or found.get(name, "")
    return found


def _typed(value: Any) -> str:
    """A value of a crowd-form, as a plain page would send it."""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, dict) and all(type(is_on) is bool for is_on in value.values()):
        chosen = [name for name, is_on in value.items() if is_on]
        if len(chosen) < 2:
            return "".join(chosen)
    return encode(value)


def read_answers(form: Form, unit: Unit, cells: Mapping[str, str]) -> dict[tuple[str, str], Any]:
    """The answers of a page, by (item, question), from the values of its inputs; empty values are not answers."""
    found: dict[tuple[str, str], Any] = {}
    ids = unit.targets("item")
    for step in range(len(form.steps)):
        for item, question in questions_for(form, unit, step):
            number = unit.targets(question.per).index(item) + 1
            if question.widget == "ranking":
                places = {cells.get(f"{question.id}-{place}", ""): id for place, id in enumerate(ids, 1)}
                if any(places):
                    found[item, question.id] = [places.get(str(place), "") for place in range(1, len(ids) + 1)]
                continue
            for asked in (question, *map(question.part, question.deductions)):
                value: Any = cells.get(f"{asked.id}-{number}", "")
                if value == "":
                    continue
                if asked.among:
                    value = dict(zip(map(str, range(1, len(ids) + 1)), ids, strict=True)).get(value, value)
                found[item, asked.id] = value
    for (item, asked_id), value in found.items():
        found[item, asked_id] = check_answer(form, asked_id, item, value, unit)
    return found


def external_question(address: str) -> str:
    """A question that shows another site in Mechanical Turk's frame, for its API."""
    if not address.startswith("https://"):
        raise OptionError(f"the address '{address[:60]}'; expected https://…: Mechanical Turk frames only these")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ExternalQuestion xmlns="http://mechanicalturk.amazonaws.com/'
        'AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd">\n'
        f"  <ExternalURL>{html.escape(address)}</ExternalURL>\n  <FrameHeight>0</FrameHeight>\n</ExternalQuestion>\n"
    )


def _reference(match: re.Match[str]) -> str:
    letter = match[0]
    return f"&#{ord(letter)};" if letter in "\n\t" or (letter >= " " and letter != "\x7f") else "&#65533;"


def _shape(unit: Unit) -> tuple[Any, ...]:
    return bool(unit.context), tuple((bool(item.context), len(item.texts)) for item in unit.items)


def _row(name: str, unit: Unit) -> dict[str, str]:
    row = {"unit": name}
    if unit.context:
        row["context"] = as_html(unit.context)
    for number, item in enumerate(unit.items, 1):
        if item.context:
            row[f"context_{number}"] = as_html(item.context)
        row |= {f"text_{number}_{place}": as_html(text) for place, text in enumerate(item.texts, 1)}
    return row


def _page(form: Form, unit: Unit) -> str:
    lines = [f"<style>{_STYLE}</style>", f"<h1>{as_html(form.title)}</h1>", *map(_paragraph, form.instructions)]
    for step in form.steps:
        lines += ["<section>", f"<h2>{as_html(step.title)}</h2>", *map(_paragraph, step.instructions)]
        lines += [*_step(step, unit), "</section>"]
    return "\n".join(lines) + "\n"


def _paragraph(text: str) -> str:
    return f"<p>{as_html(text)}</p>"


def _variable(name: str) -> str:
    return f'<p class="text"><bdi dir="auto">${{{name}}}</bdi></p>'


def _step(step: Step, unit: Unit) -> Iterator[str]:
    asked = {per: list(group) for per, group in groupby(sorted(step.questions, key=_per), key=_per)}
    if "context" in step.show and unit.context:
        yield _variable("context")
    if "first" in step.show:
        yield _variable("text_1_1")
    if {"items", "responses"} & set(step.show):
        for number, item in enumerate(unit.items, 1):
            yield f"<article><h3>{number}</h3>"
            if item.context and "context" in step.show:
                yield _variable(f"context_{number}")
            yield from (_variable(f"text_{number}_{place}") for place in range(1, len(item.texts) + 1))
            yield from (_question(question, unit, number) for question in asked.get("item", ()))
            yield "</article>"
    if "pair" in step.show:
        for number, pair in enumerate(unit.targets("pair"), 1):
            whole, _, places = pair.rpartition("#")
            place_of_item = unit.targets("item").index(whole) + 1
            yield f"<article><h3>{number}</h3>"
            yield from (_variable(f"text_{place_of_item}_{int(place) + 1}") for place in places.split("-"))
            yield from (_question(question, unit, number) for question in asked.get("pair", ()))
            yield "</article>"
    yield from (_question(question, unit, 1) for question in asked.get("unit", ()))


def _per(question: FormQuestion) -> str:
    return question.per


def _question(question: FormQuestion, unit: Unit, number: int) -> str:
    lines = [f'<fieldset><legend class="prompt">{as_html(question.prompt)}</legend>']
    lines += [_paragraph(question.help)] if question.help else []
    name, needed = f"{question.id}-{number}", " required" if question.required else ""
    for part in map(question.part, question.deductions):
        points = "".join(f'<option value="{one.value}">{as_html(one.label)}</option>' for one in part.values)
        lines.append(f'<label>{as_html(part.prompt)} <select name="{part.id}-{number}">{points}</select></label>')
    if question.widget in ("scale", "choice"):
        lines += [
            f'<label><input type="radio" name="{name}" value="{value}"{needed}> {as_html(label)}</label>'
            for value, label in _choices(question, unit)
        ]
    elif question.widget == "ranking":
        most = len(unit.items)
        lines += [
            f'<label>{place}: <input type="number" name="{question.id}-{place}" min="1" max="{most}"{needed}></label>'
            for place in range(1, most + 1)
        ]
    elif question.widget == "number":
        low, high = question.bounds
        lines.append(f'<label><input type="number" name="{name}" min="{low}" max="{high}" step="1"{needed}></label>')
    elif question.widget == "text":
        low, high = question.bounds
        lines.append(f'<textarea name="{name}" minlength="{low}" maxlength="{high}" rows="3"{needed}></textarea>')
    else:
        raise DataError(f"question '{question.id}' has the widget '{question.widget}'; expected another")
    return "\n".join([*lines, "</fieldset>"])


def _choices(question: FormQuestion, unit: Unit) -> Sequence[tuple[int, str]]:
    if question.widget == "scale":
        low, high = question.bounds
        return [(value, f"{value} {question.labels.get(value, '')}".strip()) for value in range(low, high + 1)]
    if question.among:
        return [(number, str(number)) for number in range(1, len(unit.items) + 1)]
    return [(one.value, one.label) for one in question.values]
