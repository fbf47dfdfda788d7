"""The layouts in which human judgments were released, as one stream of judged texts."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from nlgauge.data.human.error_types import ERROR_TYPES, error_type, known_error_type
from nlgauge.data.human.ratings import read_ratings
from nlgauge.data.plain_tables import read_cells
from nlgauge.data.roles import names_shown
from nlgauge.data.tables import Origin
from nlgauge.errors import DataError

HANNA_COLUMNS = ("story_id", "prompt", "story", "model")
TABLE_COLUMNS = ("item", "rater", "value", "text")
Scores = dict[str, dict[str, float | None]]
Records = Sequence[tuple[int, Any]]

_HANNA_QUESTIONS = ("relevance", "coherence", "empathy", "surprise", "engagement", "complexity")
_TRUTH = "Original Ground Truth"
_CROWDS = {"expert_annotations": "expert", "turker_annotations": "turker"}


@dataclass(frozen=True)
class Place:
    """A position in the file that is read, for errors."""

    line: int | None
    words: str = ""

    def error(self, message: str) -> DataError:
        """An error about this place."""
        return DataError(f"{self.words}: {message}" if self.words else message, line=self.line)

    def inside(self, words: str) -> Place:
        """A place within this one."""
        return Place(self.line, f"{self.words}, {words}" if self.words else words)


@dataclass(frozen=True)
class Judged:
    """One text with its ratings: by question, then by rater; None if a rating is missing."""

    id: str
    system: str | None
    text: str
    scores: Scores
    place: Place
    context: str | None = None
    references: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)


def mans(records: Records) -> Iterator[Judged]:
    """Inputs by their id, each with the texts of several generators and their scores (paper 4)."""
    for line, document in records:
        file = Place(line if len(records) > 1 else None)
        for id, entry in _object(document, file).items():
            place = file.inside(f"input '{id[:60]}'")
            prompt = _optional(_object(entry, place).get("prompt"), place.inside("'prompt'"))
            references = _references(entry.get("gold_response"), place.inside("'gold_response'"))
            for system, one in _object(entry.get("gen"), place.inside("'gen'")).items():
                here = place.inside(f"generator '{system[:60]}'")
                text = _text(_object(one, here).get("text"), here.inside("'text'"))
                scores = _listed(one.get("score"), None, here.inside("'score'"))
                columns = _error_type(one, scores, here)
                label = _name(system, here)
                yield Judged(f"{id}:{label}", label, text, {"overall": scores}, here, prompt, references, columns)


def _error_type(one: Mapping[str, Any], scores: Mapping[str, float | None], place: Place) -> dict[str, str]:
    given = next((value for key, value in one.items() if plain(key) in ("error_types", "error_type")), None)
    if given is None:
        return {}
    here = place.inside("'error_types'")
    if not isinstance(given, list) or len(given) != len(scores):
        raise here.error(f"found {shown(given)}; expected a list for each of the {len(scores)} ratings")
    types = [{_known_type(word, here) for word in words} for words in map(_words, given)]
    return {"error_type": error_type([value for value in scores.values() if value is not None], types)}


def _words(given: Any) -> list[Any]:
    """The error types that a rater found: a list, a single one, or null."""
    if isinstance(given, list):
        return given
    return [given] if given or isinstance(given, str) else []


def _known_type(word: Any, place: Place) -> str:
    if isinstance(word, str) and (kind := known_error_type(word)):
        return kind
    raise place.error(f"found {shown(word)}; expected {', '.join(ERROR_TYPES)}, or an empty list")


def usr(records: Records) -> Iterator[Judged]:
    """Dialogs with the responses of several systems, rated in several respects by the same annotators."""
    first = records[0][1]
    entries = first if isinstance(first, list) else [entry for _, entry in records]
    for number, entry in enumerate(entries, 1):
        place = Place(None, f"input {number}")
        given = _object(entry, place).get("responses")
        if not isinstance(given, list) or not given:
            raise place.error(f"'responses' is {shown(given)}; expected a list of at least one")
        responses = [_object(one, place.inside("'responses'")) for one in given]
        raters = entry.get("annotators")
        if raters is not None and (not isinstance(raters, list) or len(set(map(str, raters))) < len(raters)):
            raise place.error(f"'annotators' is {shown(raters)}; expected a list of different names")
        truth = [one.get("response") for one in responses if one.get("model") == _TRUTH]
        references = _references(truth[:1], place.inside(f"generator '{_TRUTH}'"))
        context = _optional(entry.get("context"), place.inside("'context'"))
        fact = _optional(entry.get("fact"), place.inside("'fact'"))
        for one in responses:
            system = _name(one.get("model"), place.inside("'model'"))
            here = place.inside(f"generator '{system[:60]}'")
            scores: Scores = {}
            for question in (key for key in one if key not in ("response", "model")):
                where = here.inside(f"'{question}'")
                for rater, value in _listed(one[question], raters, where).items():
                    _put(scores, plain(question), rater, value, where)
            text = _text(one.get("response"), here.inside("'response'")).strip()
            columns = {} if fact is None else {"fact": fact}
            id = _name(entry.get("id", number), place.inside("'id'")) + f":{system}"
            yield Judged(id, system, text, scores, here, context, references, columns)


def summeval(records: Records) -> Iterator[Judged]:
    """Summaries of articles, one object each, rated by experts and by a crowd."""
    if len(records) == 1 and isinstance(records[0][1], list):
        records = [(1, one) for one in records[0][1]]
    for number, (line, record) in enumerate(records, 1):
        one = _object(record, Place(line))
        system = _optional(one.get("model_id"), Place(line, "'model_id'"))
        id = _name(one.get("id", number), Place(line, "'id'"))
        here = Place(line, f"summary '{id[:60]}'" + ("" if system is None else f", generator '{system[:60]}'"))
        scores: Scores = {}
        for key, rater in _CROWDS.items():
            given = one.get(key) or []
            if not isinstance(given, list):
                raise here.error(f"'{key}' is {shown(given)}; expected a list of objects")
            for place, answers in enumerate(given, 1):
                asked = _object(answers, here.inside(f"'{key}' {place}"))
                for question, value in asked.items():
                    label = plain(question) + ("_turkers" if rater == "turker" else "")
                    where = here.inside(f"'{key}' {place}, '{question}'")
                    _put(scores, label, f"{rater}_{place}", _score(value, where), where)
        yield Judged(
            id if system is None else f"{id}:{system}",
            system,
            _text(one.get("decoded"), here.inside("'decoded'")),
            scores,
            here,
            _optional(one.get("text"), here.inside("'text'")),
            _references(one.get("references", one.get("reference")), here.inside("'references'")),
        )


def hanna(path: str | Path) -> Iterator[Judged]:
    """Stories from prompts, one row per rater, one column per question."""
    frame, origin = read_cells(path)
    names = [plain(name) for name in frame.columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError("two columns have this name, ignoring case and punctuation", file=origin.file, column=twice[0])
    frame = frame.rename(dict(zip(frame.columns, names, strict=True)))
    questions = [name for name in _HANNA_QUESTIONS if name in frame.columns]
    if missing := [name for name in HANNA_COLUMNS if name not in frame.columns]:
        raise DataError(
            f"found {names_shown(frame.columns)}; expected this column", file=origin.file, column=missing[0]
        )
    if not questions:
        raise DataError(f"no column of ratings; expected some of {', '.join(_HANNA_QUESTIONS)}", file=origin.file)
    ratings: dict[str, Scores] = {}
    ids = []
    for row, cells in enumerate(frame.iter_rows(named=True)):
        place = Place(origin.line(row))
        story, system = (_name(cells[part], place.inside(f"column '{part}'")) for part in ("story_id", "model"))
        ids.append(f"{story}:{system}")
        mine = ratings.setdefault(ids[-1], {question: {} for question in questions})
        rater = str(cells.get("worker_id") or "").strip() or str(len(mine[questions[0]]) + 1)
        if rater in mine[questions[0]]:
            raise place.error(f"rater '{rater}' rated story '{ids[-1]}' on an earlier line; expected one rating")
        for question in questions:
            mine[question][rater] = _number(cells[question], place.inside(f"column '{question}'"))
    parts = {"text": "story", "system": "model", "context": "prompt", "reference": "human"}
    yield from _from_rows(frame, origin, ids, parts, ratings)


def table(path: str | Path) -> Iterator[Judged]:
    """One row per rating, with the rated text."""
    frame, origin = read_cells(path)
    if "text" not in frame.columns:
        raise DataError(
            f"found {names_shown(frame.columns)}; expected the judged texts", file=origin.file, column="text"
        )
    ratings: dict[str, Scores] = {}
    known = read_ratings(path).frame.select("item", "rater", "question", "value")
    for row, (item, rater, question, value) in enumerate(known.rows()):
        _put(ratings.setdefault(item, {}), plain(question), rater, value, Place(origin.line(row)))
    parts = {name: name for name in ("text", "system", "context")}
    parts["reference"] = "references" if "references" in frame.columns else "reference"
    yield from _from_rows(frame, origin, frame["item"].cast(pl.String).to_list(), parts, ratings)


def _from_rows(
    frame: pl.DataFrame, origin: Origin, ids: Sequence[str], parts: Mapping[str, str], ratings: Mapping[str, Scores]
) -> Iterator[Judged]:
    """Each item once, from its first row; raises an error if its rows differ in text, system and so on."""
    there = {part: name for part, name in parts.items() if name in frame.columns}
    first: dict[str, tuple[int, dict[str, Any]]] = {}
    for row, (id, cells) in enumerate(zip(ids, frame.select(list(there.values())).iter_rows(named=True), strict=True)):
        before, known = first.setdefault(id, (row, cells))
        for name, value in cells.items():
            if value != known[name]:
                raise origin.error(
                    row,
                    f"item '{id[:60]}' has {shown(value)} here and {shown(known[name])} on line "
                    f"{origin.line(before)}; expected the same",
                    name,
                )
    for id, (row, cells) in first.items():
        place = Place(origin.line(row))
        system, context, reference = (cells.get(parts[part]) for part in ("system", "context", "reference"))
        yield Judged(
            id,
            _optional(system, place.inside("the system")),
            _text(cells[parts["text"]], place.inside("the text")),
            ratings[id],
            place,
            _optional(context, place.inside("the context")),
            _references(reference or None, place.inside("the reference")),
        )


def plain(name: str) -> str:
    """A name in lower case, with `_` for other characters than letters and digits: `Story ID` is `story_id`."""
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")


def _object(value: Any, place: Place) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise place.error(f"found {shown(value)}; expected an object")
    return value


def _text(value: Any, place: Place) -> str:
    if not isinstance(value, str):
        raise place.error(f"found {shown(value)}; expected text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise place.error(f"holds a lone surrogate ({error.reason}); expected text") from error
    return value


def _name(value: Any, place: Place) -> str:
    name = _text(str(value) if isinstance(value, int) and not isinstance(value, bool) else value, place).strip()
    if not name:
        raise place.error("is empty; expected a name")
    return name


def _optional(value: Any, place: Place) -> str | None:
    return None if value is None else _text(value, place).strip()


def _references(value: Any, place: Place) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(_text(one, place).strip() for one in listed)


def _listed(values: Any, raters: Sequence[Any] | None, place: Place) -> dict[str, float | None]:
    """A list of scores by rater; raters without names are numbered from 1."""
    if values is None:
        return {}
    if not isinstance(values, list):
        raise place.error(f"found {shown(values)}; expected a list of scores")
    names = range(1, len(values) + 1) if raters is None else raters
    if len(names) != len(values):
        raise place.error(f"{len(values)} scores by {len(names)} raters; expected one each, null if it is missing")
    return {
        _name(name, place): _score(value, place.inside(f"score {number}"))
        for number, (name, value) in enumerate(zip(names, values, strict=True), 1)
    }


def _put(scores: Scores, question: str, rater: str, value: float | None, place: Place) -> None:
    """One more rating; question names that differ only in case and punctuation are the same."""
    if rater in scores.setdefault(question, {}):
        raise place.error(f"a second rating of question '{question}' by rater '{rater}'; expected one")
    scores[question][rater] = value


def _score(value: Any, place: Place) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise place.error(f"found {shown(value)}; expected a number, or null if the rating is missing")
    return float(value)


def _number(cell: Any, place: Place) -> float | None:
    """The score in a cell; an empty one is a missing rating."""
    if not isinstance(cell, str):
        return _score(cell, place)
    if not cell.strip():
        return None
    try:
        return _score(float(cell), place)
    except ValueError as error:
        raise place.error(f"found {shown(cell)}; expected a number, or an empty cell if it is missing") from error


def shown(value: Any) -> str:
    """A value, shortened for an error."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"text '{value[:60]}'"
    return f"{type(value).__name__} {str(value)[:60]}"
