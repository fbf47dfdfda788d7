"""Results of studies that were made before, for a report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlgauge._version import __version__
from nlgauge.errors import DataError, OptionError
from nlgauge.report.card.questions import BY_KEY, STUDIES
from nlgauge.report.study_tables import grid
from nlgauge.schema import check_schema, checked_document
from nlgauge.signature import Signature
from nlgauge.studies.base import Column


@dataclass(frozen=True)
class StudyTable:
    """A study's table, as it is printed, what it found in words, and the question of the report that it answers."""

    study: str
    question: str
    sentence: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    signature: str
    notes: tuple[str, ...]
    file: str


def read_result(path: Path) -> StudyTable:
    """A result that `nlgauge study … --format json` printed."""
    data = _content(path)
    check_schema(_parsed(data, path), "study", str(path))
    document = checked_document(data, str(path))
    rows, signature = document.get("rows"), document.get("signature")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise _partial("has no rows", path)
    if not isinstance(signature, str):
        raise _partial("has no signature", path)
    try:
        made_by = Signature.parse(signature)
    except OptionError as error:
        raise _partial(f"has a damaged signature ({error.message})", path) from error
    notes = tuple(str(note) for note in document.get("notes") or ())
    if made_by.version != __version__:
        notes += (f"computed by NLGauge {made_by.version}, and this is {__version__}: numbers may differ",)
    try:
        columns = [Column(**column) for column in document["columns"]]
        header, cells = grid(document["index"], columns, rows)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _partial(f"cannot be shown as a table ({type(error).__name__}: {error})", path) from error
    if not header:
        found = f"has rows of {', '.join(rows[0]) or 'nothing'}, none of which is one of its columns"
        raise _partial(found, path, advice=": run it again")
    return StudyTable(
        study=str(document.get("study", made_by.name)),
        question=aspect if (aspect := str(document.get("aspect"))) in BY_KEY else STUDIES,
        sentence=str(document.get("sentence", "")),
        header=tuple(header),
        rows=tuple(map(tuple, cells)),
        signature=signature,
        notes=notes,
        file=path.name,
    )


def _partial(found: str, path: Path, advice: str = "") -> DataError:
    return DataError(f"{found}; expected the whole result of a study{advice}", file=str(path))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DataError("no such file; expected the JSON that a study printed", file=str(path)) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(path)) from error


def _parsed(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"cannot be read as JSON ({error}); expected what `nlgauge study … --format json` prints", file=str(path)
        ) from error
