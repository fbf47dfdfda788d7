"""Human judgments as they were released: MANS, USR, SummEval, HANNA or a plain table, as items and single ratings."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nlgauge.data.human import judgment_layouts as layouts
from nlgauge.data.human.judgment_layouts import HANNA_COLUMNS, TABLE_COLUMNS, Judged, Records, plain
from nlgauge.data.plain_tables import read_cells
from nlgauge.data.roles import names_shown
from nlgauge.data.sources.files import STDIN, decode_utf8, located, read_bytes
from nlgauge.data.tables import Items, Origin, Ratings
from nlgauge.errors import DataError, OptionError

JUDGMENT_FORMATS = ("mans", "usr", "summeval", "hanna", "table")
_LAYOUTS = (
    "an object of inputs with 'gen' (mans), a list of inputs with 'responses' (usr), one object per line with "
    "'decoded' and 'expert_annotations' (summeval), a table with Story ID, Prompt, Story and Model (hanna), or a "
    "table with item, rater, value and text (table)"
)
_NAMED = 5


@dataclass(frozen=True)
class Judgments:
    """Judged texts and their single ratings.

    `items` has `id`, `text`, `context`, `references`, `system` and the mean rating of each question: `human` if
    there is one question, otherwise `human_<question>`. `ratings` has `item, rater, question, value` and `system`.
    `notes` list what is missing or unusual, and in how many items.
    """

    items: Items
    ratings: Ratings
    format: str
    notes: tuple[str, ...] = ()


def read_judgments(path: str | Path, format: str = "") -> Judgments:
    """Read released judgments (also .gz and .zst); by default the content decides the format.

    - `mans` (paper 4): `{id: {prompt, gold_response, gen: {system: {text, score: […]}}}}`; the question is `overall`.
      If there are `error_types` beside `score`, one list per rating, items get a column `error_type`.
    - `usr`: a list of `{context, fact, annotators, responses: [{response, model, question: […]}]}`. The original
      response of an input is the reference of all.
    - `summeval`: one object per line with `id, model_id, decoded, text, reference(s)` and `expert_annotations`, a list
      of `{question: score}`; questions of `turker_annotations` end in `_turkers`, since the two are never pooled.
    - `hanna`: one row per rating, with columns Story ID, Prompt, Human, Story, Model, Relevance, Coherence and so on.
    - `table`: one row per rating, with columns `item, rater, value, text` and, where known, `question, system, context`
      and `reference`.

    A rating that is null (an empty cell in `hanna`) is missing; text, NaN or a truth value in its place is an error.
    Raters without names are numbered from 1. Names of questions are in lower case, with `_` for a space. An item
    without a rating is left out and noted.
    """
    if format and format not in JUDGMENT_FORMATS:
        raise OptionError(f"judgment format '{format}'; expected one of {', '.join(JUDGMENT_FORMATS)}")
    if str(path) == STDIN:
        raise OptionError("judgments from standard input; expected a file, whose content decides its format")
    file = str(path)
    with located(file):
        data = read_bytes(file)
        if not data.strip():
            raise DataError(f"the file is empty; expected {_LAYOUTS}")
        is_json = data.lstrip().startswith((b"{", b"["))
        records = _json_records(decode_utf8(data, file=file, first_line=1)) if is_json else []
        form = format or (_json_format(records) if is_json else _table_format(path))
        judged: Iterable[Judged]
        if form in ("hanna", "table"):
            judged = layouts.hanna(path) if form == "hanna" else layouts.table(path)
        elif not is_json:
            raise DataError(f"is not JSON, as format {form} requires; expected {_LAYOUTS}")
        else:
            judged = {"mans": layouts.mans, "usr": layouts.usr, "summeval": layouts.summeval}[form](records)
        return _judgments(list(judged), form, file)


def _json_records(text: str) -> Records:
    """A single document, or one per line, each with its line."""
    try:
        return [(1, json.loads(text, object_pairs_hook=_once))]
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise DataError(f"invalid JSON ({error.msg}); expected {_LAYOUTS}", line=error.lineno) from error
    except RecursionError as error:
        raise DataError(f"JSON that is nested too deeply; expected {_LAYOUTS}") from error
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            with located(line=number):
                try:
                    records.append((number, json.loads(line, object_pairs_hook=_once)))
                except (json.JSONDecodeError, RecursionError) as error:
                    raise DataError(f"invalid JSON ({error}); expected one object per line") from error
    return records


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate names, of which JSON would silently keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise DataError(f"the name '{twice[:60]}' is a duplicate in one object; expected each input and generator once")
    return found


def _table_format(path: str | Path) -> str:
    columns = read_cells(path)[0].columns
    names = {plain(column) for column in columns}
    if names.issuperset(HANNA_COLUMNS):
        return "hanna"
    if names.issuperset(TABLE_COLUMNS):
        return "table"
    raise DataError(f"found columns {names_shown(columns)}; expected {_LAYOUTS}")


def _json_format(records: Records) -> str:
    """The format of the first object: that of a line, or the first member of a list or of an object."""
    first = records[0][1]
    inner = first[0] if isinstance(first, list) and first else None
    one = inner if isinstance(inner, dict) else first if isinstance(first, dict) else {}
    if "decoded" in one:
        return "summeval"
    if "responses" in one:
        return "usr"
    if one.keys() >= set(TABLE_COLUMNS):
        return "table"
    member = next(iter(one.values()), None)
    if isinstance(member, dict) and "gen" in member:
        return "mans"
    found = ", ".join(list(one)[:_NAMED]) or "none"
    inside = f", the first of which has {', '.join(list(member)[:_NAMED])}" if isinstance(member, dict) else ""
    kind = "a list of objects" if isinstance(first, list) else "an object"
    raise DataError(f"found {kind} with the names {found}{inside}; expected {_LAYOUTS}")


def _judgments(judged: list[Judged], form: str, file: str) -> Judgments:
    seen: set[str] = set()
    for one in judged:
        if one.id in seen:
            raise one.place.error("duplicate; expected every generator once per input, with a unique name")
        seen.add(one.id)
    rated = [one for one in judged if any(v is not None for scores in one.scores.values() for v in scores.values())]
    if not rated:
        raise DataError(f"none of {len(judged)} items has a rating; expected {_LAYOUTS}")
    questions = dict.fromkeys(question for one in rated for question in one.scores)
    given = {
        question: [[v for v in one.scores.get(question, {}).values() if v is not None] for one in rated]
        for question in questions
    }
    if any(one.references for one in rated) and (bare := next((one for one in rated if not one.references), None)):
        raise bare.place.error("has no reference, but others do; expected one for every text, or for none")
    columns: dict[str, Any] = {
        "human" if len(given) == 1 else f"human_{question}": pl.Series(
            [math.fsum(values) / len(values) if values else None for values in lists], dtype=pl.Float64
        )
        for question, lists in given.items()
    }
    for extra in dict.fromkeys(key for one in rated for key in one.columns):
        columns[extra] = [one.columns.get(extra) for one in rated]
    items = Items.of(
        [one.text for one in rated],
        references=[list(one.references) for one in rated] if rated[0].references else None,
        contexts=[one.context for one in rated] if any(one.context is not None for one in rated) else None,
        systems=[one.system for one in rated] if any(one.system is not None for one in rated) else None,
        ids=[one.id for one in rated],
        columns=columns,
        origin=Origin(file),
    )
    rows = [
        {"item": one.id, "rater": rater, "question": question, "value": value, "system": one.system}
        for one in rated
        for question, scores in one.scores.items()
        for rater, value in scores.items()
        if value is not None
    ]
    frame = pl.DataFrame(rows, schema_overrides={"system": pl.String, "value": pl.Float64}, infer_schema_length=None)
    frame = frame if "system" in items.frame.columns else frame.drop("system")
    return Judgments(items, Ratings(frame, Origin(file)), form, tuple(_notes(judged, rated, given)))


def _notes(judged: Sequence[Judged], rated: Sequence[Judged], given: Mapping[str, list[list[float]]]) -> Iterator[str]:
    """What is missing or unusual, with the first few items by name."""
    kept = {one.id for one in rated}
    if without := [one.id for one in judged if one.id not in kept]:
        yield f"{len(without)} of {len(judged)} items have no rating and were left out: {_first(without)}"
    for question, lists in given.items():
        sizes = [len(values) for values in lists]
        usual = max(Counter(sizes).items(), key=lambda found: (found[1], found[0]))[0]
        if odd := [f"{one.id} ({size})" for one, size in zip(rated, sizes, strict=True) if size != usual]:
            yield f"{question}: {len(odd)} of {len(rated)} items do not have {usual} ratings: {_first(odd)}"
    if empty := [one.id for one in rated if not one.text.strip()]:
        yield f"{len(empty)} of {len(rated)} texts are empty: {_first(empty)}"
    if same := [one.system or one.id for one in rated if one.text in one.references]:
        systems = ", ".join(f"{system} ({count})" for system, count in Counter(same).most_common(_NAMED))
        yield f"{len(same)} of {len(rated)} texts equal one of their references, by system: {systems}"


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
