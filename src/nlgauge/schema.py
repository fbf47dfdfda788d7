"""Names, versions and checksums of the JSON documents that NLGauge writes, checked when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nlgauge._version import __version__
from nlgauge.engine.checksums import Damaged, opened, sealed
from nlgauge.errors import DataError

KEY = "schema"
VERSIONS = dict.fromkeys(
    ("estimate", "leaderboard", "list", "manifest", "needed", "plan", "report", "scores", "status", "study", "suite"), 1
)


def stamped(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the name and version of its schema first."""
    return {KEY: f"nlgauge.{kind}/{VERSIONS[kind]}", **document}


def document_text(document: Mapping[str, Any]) -> str:
    """A document as it is printed and written, with its checksum."""
    return json.dumps(sealed(document), ensure_ascii=False, indent=2, allow_nan=False)


def checked_document(data: bytes, file: str) -> dict[str, Any]:
    """The content of a document that NLGauge wrote; an error where it was damaged or edited since."""
    try:
        return opened(data)
    except Damaged as error:
        raise DataError(
            f"is not as NLGauge wrote it: {error}; expected a file that nobody changed: run the command that made it "
            "again",
            file=file,
        ) from error


def check_schema(document: Any, kind: str, file: str) -> None:
    """Refuse a document of another kind, or of a newer version than this NLGauge knows."""
    found = document.get(KEY) if isinstance(document, dict) else None
    name, _, number = str(found or "").rpartition("/")
    expected = f"nlgauge.{kind}/{VERSIONS[kind]}"
    if name != f"nlgauge.{kind}" or not number.isdecimal():
        words = f"the schema '{found}'" if found else "no schema"
        raise DataError(f"has {words}; expected {expected}", file=file)
    if int(number) > VERSIONS[kind]:
        raise DataError(
            f"has the schema {found}, which is newer than {expected} of NLGauge {__version__}; upgrade NLGauge to "
            "read it",
            file=file,
        )
