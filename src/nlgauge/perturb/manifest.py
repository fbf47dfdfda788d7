"""The manifest of a suite: how its texts were made, and checksums of its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nlgauge.engine.checksums import Damaged, check_files, file_checksum, opened, sealed
from nlgauge.engine.files import write_text
from nlgauge.errors import DataError

FORMAT, MANIFEST = "nlgauge-suite-1", "manifest.json"
FILES = ("stories", "discrimination", "invariance")
_MARKS = (b"nlgauge-suite", b"data_sha256")  # two, since one may be damaged


def write_manifest(about: Mapping[str, Any], folder: Path) -> None:
    """Write the manifest of the files that are in the folder."""
    present = (file for name in FILES if (file := folder / f"{name}.jsonl").is_file())
    files = {file.name: file_checksum(file) for file in present}
    document = sealed({**about, "files": files})
    write_text(folder / MANIFEST, json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What the manifest says, once all files are as it says; None where the folder is no suite."""
    file = folder / MANIFEST
    data = file.read_bytes() if file.is_file() else b""
    if not any(mark in data for mark in _MARKS):
        return None
    advice = "expected a suite as `nlgauge perturb build` wrote it: build it again"
    try:
        about = opened(data)
    except Damaged as error:
        raise DataError(f"damaged, edited or of another version: {error}; {advice}", file=str(file)) from error
    try:
        check_files(folder, about["files"])
    except Damaged as error:
        raise DataError(f"the suite was damaged or edited: {error}; {advice}", file=str(folder)) from error
    return about
