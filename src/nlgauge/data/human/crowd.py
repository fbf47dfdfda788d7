"""Reading crowdsourcing exports: one row per assignment, with several items and the answers to each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import polars as pl

from nlgauge.data.columns import numbered, numbered_columns
from nlgauge.data.plain_tables import read_cells
from nlgauge.data.reading import Source
from nlgauge.data.roles import find_column, no_such_column
from nlgauge.data.tables import Items, Origin, Ratings
from nlgauge.errors import DataError, OptionError, argument

HUSE_WORDS: Mapping[str, float] = MappingProxyType(
    {"Invalid": 1, "Rare": 2, "Specific": 3, "Average": 4, "Typical": 5, "Very Typical": 6}
)
"""The answers of HUSE's task (paper 3, appendix A.3) and their values in the authors' published averages.

The paper counts from 0 ("invalid") to 5 ("very typical"), the published averages from 1 to 6. HUSE does not change if
a constant is added to all judgments.
"""
HUSE_QUESTIONS: Mapping[str, str] = MappingProxyType({"": "typicality"})
COUNTED = ("Submitted", "Approved")
Unanswered = Literal["error", "drop"]

_INPUT, _ANSWER, _STATUS = "Input.", "Answer.", "AssignmentStatus"
_Cells = Mapping[str, Sequence[str]]


def is_crowd_export(path: str | Path) -> bool:
    """Whether a file is a table of assignments: CSV with columns `Input.*` and `Answer.*`."""
    source = Source(path=str(path))
    if source.format not in ("csv", "tsv"):
        return False
    first = next(iter(source.chunks(1 << 16)), None)
    header = "" if first is None else first.header.decode("utf-8", "replace")
    return _INPUT in header and _ANSWER in header


def read_crowd(
    path: str | Path,
    *,
    text: str = "OUT",
    context: str | None = "CTX",
    kind: str | None = "TYPE",
    logp: str | None = "LOGP",
    index: str | None = "IDX",
    hit: str | None = "HITId",
    worker: str = "WorkerId",
    questions: Mapping[str, str] = HUSE_QUESTIONS,
    words: Mapping[str, float] = HUSE_WORDS,
    statuses: Collection[str] | None = COUNTED,
    unanswered: Unanswered = "error",
    format: str = "",
) -> tuple[Items, Ratings]:
    """Read the items and the ratings of a batch of Mechanical Turk, as its results are downloaded.

    A row is one assignment: one worker's answers to the items of one HIT. The columns of item number k are
    `Input.<stem>k`, where `text`, `context`, `kind` (where the text comes from), `logp` and `index` are stems (None:
    the file has none), and `Answer.<stem>k`, where `questions` gives the name of the question for each stem. The
    defaults are those of HUSE's files (paper 3, appendix A.3), whose answers are in `Answer.0, Answer.1, …`.

    An item is identified by its HIT and its index in it, as in `HIT:7` (by its number k without `index`; by its index
    alone without `hit`, which is for files where an item occurs in several HITs). It occurs in the row of every worker,
    and must be the same in all. Items have the columns `context`, `kind`, `logp` and `length`, the number of words
    between white space; they are in the order of the file.

    Answers are numbers or the keys of `words`, whose values are used then; never both for one question. An empty answer
    is an error, or no rating where `unanswered` is `drop` (an item may then have none). A worker who answers for an
    item twice is an error.

    Left out are rows with neither a worker nor an answer (HITs without a worker), rows with an `AssignmentStatus` that
    is not among `statuses` (None: all count), and items whose inputs are all empty (a last HIT that is not
    full).
    """
    parts = {"index": index, "context": context, "kind": kind, "text": text, "logp": logp}
    stems = {part: stem for part, stem in parts.items() if stem is not None}
    _check_options(stems, questions, words, is_named=hit is not None or index is not None)
    if unanswered not in ("error", "drop"):
        raise OptionError(f"unanswered is '{unanswered}'; expected error or drop")
    if isinstance(statuses, str):
        raise OptionError(f"statuses is '{statuses}'; expected several, as in ('{statuses}',), or None for all")
    frame, origin = read_cells(path, format=format)
    others = [name for name in frame.columns if not name.startswith((_INPUT, _ANSWER))]
    for role, name in (("worker", worker), ("hit", hit)):
        find_column(others, role, name, file=origin.file)
    slots = _slots(frame.columns, stems, questions, origin)
    cells = _texts_of(frame, [name for name in (worker, hit, _STATUS) if name in frame.columns], slots, origin)
    rows = _assignments(cells, slots, worker, statuses, origin)
    shown = list(_presentations(cells, slots, rows, hit, origin))
    if not shown:
        raise DataError("the assignments hold no items; expected texts", file=origin.file, column=f"{_INPUT}{text}…")
    items = _items(cells, shown, origin)
    return items, _ratings(cells, shown, cells[worker], words, unanswered, origin)


@dataclass(frozen=True)
class _Slot:
    """The columns of item number `number`: inputs by role, answers by question."""

    number: int
    inputs: Mapping[str, str]
    answers: Mapping[str, str]


@dataclass(frozen=True)
class _Shown:
    """One item as shown to one worker."""

    id: str
    row: int
    slot: _Slot


def _check_options(
    stems: Mapping[str, str], questions: Mapping[str, str], words: Mapping[str, float], *, is_named: bool
) -> None:
    for group, names in (("stem", list(stems.values())), ("question", list(questions.values()))):
        if twice := [name for name in names if names.count(name) > 1]:
            raise OptionError(f"the {group} '{twice[0]}' has two roles; expected a different one for each")
    if not questions:
        raise OptionError("no questions; expected the stem of at least one group of answer columns and its name")
    if not is_named:
        raise OptionError("neither hit nor index; expected at least one of them to identify items")
    for word, number in words.items():
        if not math.isfinite(number):
            raise OptionError(f"the answer '{word}' counts as {number}; expected a finite number")


def _slots(
    names: Sequence[str], stems: Mapping[str, str], questions: Mapping[str, str], origin: Origin
) -> tuple[_Slot, ...]:
    """The numbered groups of columns, in the order of their numbers; every group must be complete."""
    inputs = {part: _numbered(names, _INPUT, stem, origin, option=part) for part, stem in stems.items()}
    answers = {name: _numbered(names, _ANSWER, stem, origin, option="questions") for stem, name in questions.items()}
    labels = {_INPUT + stem: part for part, stem in stems.items()} | {_ANSWER + stem: "questions" for stem in questions}
    groups = [*inputs.values(), *answers.values()]
    numbers = sorted(set().union(*groups))
    for (label, option), columns in zip(labels.items(), groups, strict=True):
        for number in numbers:
            if number not in columns:
                other = next(found[number] for found in groups if number in found)
                advice = f"'{other}' requires it: expected all columns of an item"
                raise no_such_column(f"{label}{number}", names, file=origin.file, option=option, advice=advice)

    def of(number: int, columns: Mapping[str, Mapping[int, str]]) -> dict[str, str]:
        return {name: numbered[number] for name, numbered in columns.items()}

    return tuple(_Slot(number, of(number, inputs), of(number, answers)) for number in numbers)


def _numbered(names: Sequence[str], prefix: str, stem: str, origin: Origin, *, option: str) -> dict[int, str]:
    """The columns `prefix + stem + number`, by their number."""
    found = numbered_columns(names, prefix + stem, origin.file)
    if not found:
        others = (numbered(name) for name in names if name.startswith(prefix))
        there = dict.fromkeys(f"{parts[0]}0, …" for parts in others if parts)
        advice = f"name the stem with {argument(option)}" + ("" if option == "questions" else ", or None without one")
        raise no_such_column(f"{prefix}{stem}<number>", there, file=origin.file, option=option, advice=advice)
    return found


def _texts_of(frame: pl.DataFrame, names: Sequence[str], slots: Sequence[_Slot], origin: Origin) -> _Cells:
    """The columns that count as texts; what is null is empty."""
    used = [*names, *(name for slot in slots for name in (*slot.inputs.values(), *slot.answers.values()))]
    for name in used:
        if frame[name].dtype.is_nested():
            raise DataError(f"holds {frame[name].dtype}; expected one value per row", file=origin.file, column=name)
    return {name: frame[name].cast(pl.String).fill_null("").to_list() for name in used}


def _assignments(
    cells: _Cells, slots: Sequence[_Slot], worker: str, statuses: Collection[str] | None, origin: Origin
) -> list[int]:
    """The rows that count."""
    rows, seen = [], set()
    for row, name in enumerate(cells[worker]):
        if not name.strip():
            answered = (column for slot in slots for column in slot.answers.values() if cells[column][row].strip())
            if (column := next(answered, None)) is not None:
                raise origin.error(row, f"the cell is empty, but '{column}' is answered; expected a worker", worker)
            continue
        status = cells[_STATUS][row].strip() if _STATUS in cells else ""
        seen.add(status)
        if statuses is None or _STATUS not in cells or status in statuses:
            rows.append(row)
    if not rows:
        found = f"only assignments that are {', '.join(sorted(seen))}" if seen else "no row with a worker"
        raise DataError(f"found {found}; expected at least one assignment that counts", file=origin.file)
    return rows


def _presentations(
    cells: _Cells, slots: Sequence[_Slot], rows: Sequence[int], hit: str | None, origin: Origin
) -> Iterator[_Shown]:
    """Every item for every worker, in the order of the file."""
    for row in rows:
        for slot in slots:
            if not any(cells[column][row].strip() for column in slot.inputs.values()):
                for column in slot.answers.values():
                    if cells[column][row].strip():
                        raise origin.error(row, f"is answered, but item {slot.number} is empty; expected none", column)
                continue
            name = str(slot.number)
            if "index" in slot.inputs:
                name = _named(cells, slot.inputs["index"], row, "index of the item", origin)
            if hit is not None:
                name = f"{_named(cells, hit, row, 'name of the HIT', origin)}:{name}"
            yield _Shown(name, row, slot)


def _named(cells: _Cells, column: str, row: int, what: str, origin: Origin) -> str:
    name = cells[column][row].strip()
    if not name:
        raise origin.error(row, f"the cell is empty; expected the {what}", column)
    return name


def _items(cells: _Cells, shown: Sequence[_Shown], origin: Origin) -> Items:
    """Each item once; raises an error if its rows differ."""
    first: dict[str, _Shown] = {}
    for here in shown:
        before = first.setdefault(here.id, here)
        for part, column in here.slot.inputs.items():
            value, expected = cells[column][here.row], cells[before.slot.inputs[part]][before.row]
            if value != expected and part != "index":
                raise origin.error(
                    here.row,
                    f"item '{here.id}' has '{value[:60]}' here and '{expected[:60]}' on line "
                    f"{origin.line(before.row)}; expected the same: hit= and index= must identify items",
                    column,
                )
    names = shown[0].slot.inputs
    parts = {part: [cells[item.slot.inputs[part]][item.row] for item in first.values()] for part in names}
    columns: dict[str, Any] = {"kind": parts["kind"]} if "kind" in parts else {}
    if "logp" in parts:
        columns["logp"] = [_logp(cells, item, origin) for item in first.values()]
    columns["length"] = [len(text.split()) for text in parts["text"]]
    return Items.of(
        parts["text"], contexts=parts.get("context"), ids=list(first), columns=columns, origin=Origin(origin.file)
    )


def _logp(cells: _Cells, item: _Shown, origin: Origin) -> float:
    column = item.slot.inputs["logp"]
    cell = cells[column][item.row].strip()
    if (number := _number(cell)) is None:
        found = f"'{cell[:60]}'" if cell else "the cell is empty"
        raise origin.error(item.row, f"{found}; expected a number (or set logp=None)", column)
    return number


def _ratings(
    cells: _Cells,
    shown: Sequence[_Shown],
    workers: Sequence[str],
    words: Mapping[str, float],
    unanswered: Unanswered,
    origin: Origin,
) -> Ratings:
    """One row per answer, in the order of the file."""
    in_words = {
        question
        for here in shown
        for question, column in here.slot.answers.items()
        if cells[column][here.row].strip() in words
    }
    before: dict[tuple[str, str, str], tuple[int, float]] = {}
    for here in shown:
        rater = workers[here.row].strip()
        for question, column in here.slot.answers.items():
            answer = cells[column][here.row].strip()
            if not answer and unanswered == "drop":
                continue
            value = words.get(answer) if question in in_words else _number(answer)
            if value is None:
                raise origin.error(here.row, _no_answer(answer, words, is_word=question in in_words), column)
            key = (here.id, rater, question)
            if key in before:
                row, other = before[key]
                raise origin.error(
                    here.row,
                    f"worker '{rater}' answered '{question}' for item '{here.id}' twice: {other:g} on line "
                    f"{origin.line(row)} and {value:g} here; expected one answer: delete the other row",
                    column,
                )
            before[key] = (here.row, float(value))
    if not before:
        raise DataError("every answer is empty; expected ratings", file=origin.file)
    frame = pl.DataFrame(list(before), schema=["item", "rater", "question"], orient="row")
    frame = frame.with_columns(value=pl.Series([value for _, value in before.values()]))
    return Ratings(frame, Origin(origin.file, [origin.line(row) for row, _ in before.values()]))


def _no_answer(answer: str, words: Mapping[str, float], *, is_word: bool) -> str:
    found = f"'{answer[:60]}'" if answer else "the cell is empty"
    listed = ", ".join(words)
    expected = f"one of {listed}, as elsewhere" if is_word else f"a number{f' or one of {listed}' if words else ''}"
    advice = "; add other words to words=" if answer else "; set unanswered='drop' if it is not a rating"
    return f"{found}; expected {expected}{advice}"


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in cell else None
