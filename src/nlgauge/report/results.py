"""Results of studies that were made before, for a report: HUSE (paper 3), trade-offs and RUQ (paper 5)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlgauge._version import __version__
from nlgauge.errors import DataError
from nlgauge.metrics.signature import Signature
from nlgauge.report.study_tables import study_grid

_QUESTIONS = {"huse": "people", "tradeoff": "people", "ruq": "generic"}


@dataclass(frozen=True)
class Result:
    """A study's table, as it is printed, with its signature and notes."""

    study: str
    question: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    signature: str
    notes: tuple[str, ...]
    file: str


def read_result(path: Path) -> Result:
    """A result that `nlgauge study huse|tradeoff|ruq … --format json` printed."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError("no such file; expected the JSON that a study printed", file=str(path)) from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(
            f"cannot be read as JSON ({error}); expected what `nlgauge study … --format json` prints", file=str(path)
        ) from error
    name = document.get("study") if isinstance(document, dict) else None
    if name not in _QUESTIONS:
        raise DataError(
            f"holds {f'a study of {name!r}' if name else 'no study'}; expected the result of one of "
            f"{', '.join(_QUESTIONS)}, made with --format json",
            file=str(path),
        )
    rows, signature = document.get("rows"), document.get("signature")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError("has no rows; expected the whole result of a study", file=str(path))
    if not isinstance(signature, str):
        raise DataError("has no signature; expected the whole result of a study", file=str(path))
    made_by = Signature.parse(signature)
    notes = tuple(str(note) for note in document.get("notes", ()))
    if made_by.version != __version__:
        notes += (f"computed by NLGauge {made_by.version}, and this is {__version__}: numbers may differ",)
    header, cells = study_grid(_class_of(name)(rows, made_by, notes=notes))
    if not header:
        raise DataError(
            f"has rows of {', '.join(rows[0]) or 'nothing'} by NLGauge {made_by.version}, none of which {__version__} "
            f"knows in a {name} study; expected the whole result of a study: run it again",
            file=str(path),
        )
    return Result(name, _QUESTIONS[name], tuple(header), tuple(map(tuple, cells)), signature, notes, path.name)


def _class_of(name: str) -> Any:
    from nlgauge.studies.huse import HuseStudy
    from nlgauge.studies.ruq import Ruq
    from nlgauge.studies.tradeoff import Tradeoff

    return {"huse": HuseStudy, "tradeoff": Tradeoff, "ruq": Ruq}[name]
