"""HITs for Mechanical Turk: a table with one row per HIT for the bulk upload, and the page that shows a row.

Mechanical Turk puts the cells of a row into the page as they are, in place of `${column}`. So every cell is HTML:
ASCII without tags, and without anything that a browser, a spreadsheet or the site could execute.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import msgspec
import polars as pl

from nlgauge.annotate.answers import check_answer, questions_for
from nlgauge.annotate.database.records import Snapshot, Study, StudyUnit, encode, unit_values
from nlgauge.annotate.pages.rendering import templates
from nlgauge.annotate.units import Unit, order_for
from nlgauge.data.human.forms import Form
from nlgauge.errors import DataError, OptionError

_RISKY = re.compile(r"[${}`\x00-\x1f\x7f]")
_ANSWER, _PACKED = "Answer.", "Answer.taskAnswers"
_FORMULA_STARTS = ("=", "+", "-", "@")


def unit_name(one: StudyUnit) -> str:
    """The name of a HIT's unit: its number, and a hash that identifies the study."""
    content = unit_values(one.unit)["content_json"].encode()
    return f"{one.position}-{hashlib.blake2b(content, digest_size=5).hexdigest()}"


def shown_unit(study: Study, unit: Unit) -> Unit:
    """The unit as its HIT shows it: items in one random order for all workers, since a HIT is the same for all."""
    return order_for(unit, study.seed)


def as_html(text: str) -> str:
    """A text that is safe in a page, in a variable of a page and in a spreadsheet; ASCII only."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    safe = _RISKY.sub(_reference, html.escape(lines, quote=True)).encode("ascii", "xmlcharrefreplace").decode()
    return f"&#{ord(safe[0])};{safe[1:]}" if safe.startswith(_FORMULA_STARTS) else safe


def make_hits(snapshot: Snapshot) -> list[tuple[pl.DataFrame, str]]:
    """All normal, gold and attention units as HITs, one per row, each table with a page that can show them."""
    study = snapshot.study
    if spans := [question.id for question in study.form.questions if question.widget == "span"]:
        raise OptionError(
            f"the form '{study.form.name}' asks for spans ('{spans[0]}'), which a page of Mechanical Turk cannot mark; "
            "expected other widgets: send workers to this site with an external question"
        )
    rated = [one for one in snapshot.units if one.unit.kind != "qualification"]
    shown = sorted(((unit_name(one), shown_unit(study, one.unit)) for one in rated), key=_shape)
    page, made = templates().get_template("hits.html"), []
    for _, same in groupby(shown, key=_shape):
        group = list(same)
        template = page.render(form=study.form, unit=group[0][1], as_html=as_html)
        made.append((pl.DataFrame([_row(*named) for named in group]), template))
    return made


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
    ids = {str(number): id for number, id in enumerate(unit.targets("item"), 1)}
    for step in range(len(form.steps)):
        for item, question in questions_for(form, unit, step):
            number = unit.targets(question.per).index(item) + 1
            if question.widget == "ranking":
                places = {cells.get(f"{question.id}-{place}", ""): id for place, id in ids.items()}
                if any(places):
                    found[item, question.id] = [places.get(place, "") for place in ids]
                continue
            for asked in (question, *map(question.part, question.deductions)):
                if value := cells.get(f"{asked.id}-{number}", ""):
                    found[item, asked.id] = ids.get(value, value) if asked.among else value
    for (item, asked_id), value in found.items():
        found[item, asked_id] = check_answer(form, asked_id, item, value, unit)
    return found


def external_question(address: str) -> str:
    """A question that shows another site in Mechanical Turk's frame, for its API."""
    if not address.startswith("https://"):
        raise OptionError(f"the address '{address[:60]}'; expected https://…: Mechanical Turk frames only these")
    return templates().get_template("external_question.xml").render(address=address) + "\n"


def _reference(match: re.Match[str]) -> str:
    letter = match[0]
    return f"&#{ord(letter)};" if letter in "\n\t" or (letter >= " " and letter != "\x7f") else "&#65533;"


def _shape(named: tuple[str, Unit]) -> tuple[Any, ...]:
    unit = named[1]
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
