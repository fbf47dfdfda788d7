"""Human judgments as they were released: MANS, USR, SummEval, HANNA or a plain table, as items and single ratings."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nlgauge.data.human import judgment_layouts as layouts
from nlgauge.data.human.judgment_layouts import HANNA_COLUMNS, TABLE_COLUMNS, Judged, Records, plain
from nlgauge.data.plain_tables import read_cells
from nlgauge.data.sources.files import STDIN, decode_utf8, display_name, read_bytes
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
    name = display_name(str(path))
    data = read_bytes(str(path))
    if not data.strip():
        raise DataError(f"the file is empty; expected {_LAYOUTS}", file=name)
    records = _json_records(data, name) if data.lstrip()[:1] in (b"{", b"[") else None
    form = format or (_table_format(path, name) if records is None else _json_format(records, name))
    judged: Iterable[Judged]
    if form in ("hanna", "table"):
        judged = layouts.hanna(path) if form == "hanna" else layouts.table(path)
    elif records is None:
        raise DataError(f"is not JSON, as format {form} requires; expected {_LAYOUTS}", file=name)
    else:
        judged = {"mans": layouts.mans, "usr": layouts.usr, "summeval": layouts.summeval}[form](records, name)
    return _judgments(list(judged), form, name)


def _json_records(data: bytes, name: str) -> Records:
    """A single document, or one per line, each with its line."""
    text = decode_utf8(data, file=name, first_line=1)
    try:
        return [(1, json.loads(text, object_pairs_hook=_once))]
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise DataError(f"invalid JSON ({error.msg}); expected {_LAYOUTS}", file=name, line=error.lineno) from error
    except RecursionError as error:
        raise DataError(f"JSON that is nested too deeply; expected {_LAYOUTS}", file=name) from error
    except DataError as error:
        raise error.at(file=name) from error
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                records.append((number, json.loads(line, object_pairs_hook=_once)))
            except (json.JSONDecodeError, RecursionError) as error:
                raise DataError(
                    f"invalid JSON ({error}); expected one object per line", file=name, line=number
                ) from error
            except DataError as error:
                raise error.at(file=name, line=number) from error
    return records


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate names, of which JSON would silently keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise DataError(f"the name '{twice[:60]}' is a duplicate in one object; expected each input and generator once")
    return found


def _table_format(path: str | Path, name: str) -> str:
    columns = read_cells(path)[0].columns
    names = {plain(column) for column in columns}
    if names.issuperset(HANNA_COLUMNS):
        return "hanna"
    if names.issuperset(TABLE_COLUMNS):
        return "table"
    raise DataError(f"found columns {', '.join(columns)}; expected {_LAYOUTS}", file=name)


def _json_format(records: Records, name: str) -> str:
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
    raise DataError(f"found {kind} with the names {found}{inside}; expected {_LAYOUTS}", file=name)


def _judgments(judged: list[Judged], form: str, name: str) -> Judgments:
    seen: dict[str, Judged] = {}
    for one in judged:
        if one.id in seen:
            raise one.place.error("duplicate; expected every generator once per input, with a unique name")
        seen[one.id] = one
    rated = [one for one in judged if any(v is not None for scores in one.scores.values() for v in scores.values())]
    if not rated:
        raise DataError(f"none of {len(judged)} items has a rating; expected {_LAYOUTS}", file=name)
    questions = list(dict.fromkeys(question for one in rated for question in one.scores))
    given = [
        {question: [v for v in one.scores.get(question, {}).values() if v is not None] for question in questions}
        for one in rated
    ]
    if any(one.references for one in rated) and (bare := next((one for one in rated if not one.references), None)):
        raise bare.place.error("has no reference, but others do; expected one for every text, or for none")
    columns: dict[str, Any] = {
        "human" if len(questions) == 1 else f"human_{question}": pl.Series(
            [math.fsum(mine[question]) / len(mine[question]) if mine[question] else None for mine in given],
            dtype=pl.Float64,
        )
        for question in questions
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
        origin=Origin(name),
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
    notes = _notes(judged, rated, questions, given)
    return Judgments(items, Ratings(frame, Origin(name)), form, tuple(notes))


def _notes(
    judged: Sequence[Judged],
    rated: Sequence[Judged],
    questions: Sequence[str],
    given: Sequence[Mapping[str, list[float]]],
) -> list[str]:
    """What is missing or unusual, with the first few items by name."""
    notes = []
    kept = {one.id for one in rated}
    if without := [one.id for one in judged if one.id not in kept]:
        notes.append(f"{len(without)} of {len(judged)} items have no rating and were left out: {_first(without)}")
    for question in questions:
        sizes = [len(mine[question]) for mine in given]
        usual = max(Counter(sizes).items(), key=lambda found: (found[1], found[0]))[0]
        if odd := [f"{one.id} ({size})" for one, size in zip(rated, sizes, strict=True) if size != usual]:
            notes.append(f"{question}: {len(odd)} of {len(rated)} items do not have {usual} ratings: {_first(odd)}")
    if empty := [one.id for one in rated if not one.text.strip()]:
        notes.append(f"{len(empty)} of {len(rated)} texts are empty: {_first(empty)}")
    if same := [one.system or one.id for one in rated if one.text in one.references]:
        systems = ", ".join(f"{system} ({count})" for system, count in Counter(same).most_common(_NAMED))
        notes.append(f"{len(same)} of {len(rated)} texts equal one of their references, by system: {systems}")
    return notes


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
