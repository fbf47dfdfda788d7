"""The one checksum of everything that NLGauge keeps on disk and reads again: SHA-256 of the content.

Bytes and rows of databases have it beside them, JSON documents in a field, and folders in a JSON document that has one
for each file. What does not match was not written by NLGauge, and its numbers are not used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CHECKSUM = "checksum"
CHECKSUM_BYTES = 16
_SAMPLED_BEYOND, _SAMPLES, _SAMPLE_BYTES = 256 << 20, 256, 256 << 10


class Damaged(ValueError):
    """What is wrong with content that is not as it was written; who reads it names the file and says what to do."""


def checksum(*parts: bytes | memoryview) -> bytes:
    """The checksum of byte strings in their order."""
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "little") for part in parts[:-1]))
    for part in parts:
        digest.update(part)
    return digest.digest()[:CHECKSUM_BYTES]


def file_checksum(path: str | Path) -> str:
    """The whole SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_words(path: str | Path) -> str:
    """The size of a file and its SHA-256; of samples, which it says, where reading all of it would take long."""
    size = Path(path).stat().st_size
    if size <= _SAMPLED_BEYOND:
        return f"{size} bytes, SHA-256 {file_checksum(path)[:32]}"
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        for number in range(_SAMPLES):
            file.seek((size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    kilobytes = _SAMPLE_BYTES >> 10
    return f"{size} bytes, SHA-256 of {_SAMPLES} samples of {kilobytes} KB {digest.hexdigest()[:32]}"


def check_files(folder: Path, checksums: Mapping[str, str]) -> None:
    """Raise `Damaged` for the first file that is missing or does not have its checksum."""
    for name, expected in checksums.items():
        try:
            found = file_checksum(folder / name)
        except OSError as error:
            raise Damaged(f"{name} cannot be read: {error.strerror or error}") from error
        if found != expected:
            raise Damaged(f"{name} does not match its checksum")


def file_checksums(folder: Path) -> dict[str, str]:
    """The checksum of every file directly in a folder."""
    return {file.name: file_checksum(file) for file in _files(folder)}


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON document with its checksum as the last field; other line breaks and spaces leave it valid."""
    return {**document, CHECKSUM: _of_document(document)}


def opened(data: bytes) -> dict[str, Any]:
    """The JSON document that was sealed, without its checksum; `Damaged` for anything else."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is not JSON: {error}") from error
    if not isinstance(document, dict) or CHECKSUM not in document:
        raise Damaged("it has no checksum")
    if document.pop(CHECKSUM) != _of_document(document):
        raise Damaged("its checksum does not match its content")
    return document


def _of_document(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, separators=(",", ":"))
    return checksum(text.encode()).hex()


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.iterdir()) if file.is_file())
