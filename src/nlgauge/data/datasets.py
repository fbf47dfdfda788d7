"""The public datasets of the papers: their sources, their folders, and checks of their files.

Nothing is bundled or downloaded: a user names a folder.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from nlgauge.errors import DataError, UnknownName, argument

VARIABLE = "NLGAUGE_DATA"
Counted = Literal["csv", "lines", "json"]
State = Literal["ok", "missing", "changed"]


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """An expected file: its path below the data folder, its number of records and its hash.

    A record is a CSV record after the header, a line that is not blank, or an entry of a JSON list or object, as
    `counted` says. `original` is the path at the source if it differs.
    """

    path: str
    records: int
    counted: Counted
    sha256: str
    original: str = ""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A dataset: what it is, which papers use it, where to get it and under which licence, and its files."""

    name: str
    summary: str
    papers: tuple[str, ...]
    url: str
    licence: str
    folder: str
    files: tuple[DataFile, ...]
    note: str = ""

    @property
    def advice(self) -> str:
        """Where to get it and where to put it."""
        note = f" ({self.note})" if self.note else ""
        return f"get it from {self.url}{note} and put its files into '{self.folder}' below the data folder"

    def present(self, folder: Path) -> int:
        """The number of its files that exist, valid or not."""
        return sum((folder / file.path).is_file() for file in self.files)

    def present_in(self, folder: Path | None) -> str:
        """How many of its files exist, in words: `yes`, `2 of 3` or `-`."""
        count = self.present(folder) if folder else 0
        return "yes" if count == len(self.files) else f"{count} of {len(self.files)}" if count else "-"


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """A file on disk; `records` is None if they cannot be counted, `sha256` if there is no file."""

    file: DataFile
    state: State
    records: int | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        if self.state == "missing":
            source = f" (at the source: {self.file.original})" if self.file.original else ""
            return f"expected {self.file.records} records; found no file{source}"
        if self.state == "ok":
            return f"{self.records} records"
        found = "records that cannot be counted" if self.records is None else f"{self.records} records"
        return (
            f"expected {self.file.records} records with SHA-256 {self.file.sha256}; "
            f"found {found} with SHA-256 {self.sha256}"
        )


@cache
def catalogue() -> Mapping[str, Dataset]:
    """All datasets by name."""
    table = tomllib.loads((resources.files("nlgauge.data") / "datasets.toml").read_text(encoding="utf-8"))
    for name, entry in table.items():
        entry["name"] = name
        for file in entry["files"]:
            file["path"] = f"{entry['folder']}/{file.pop('name')}"
    return msgspec.convert(table, dict[str, Dataset])


def find_dataset(name: str) -> Dataset:
    """The dataset of this name; an unknown name raises an error that suggests the nearest."""
    known = catalogue()
    if name not in known:
        raise UnknownName.among("dataset", name, known)
    return known[name]


def data_dir(given: str | Path | None = None) -> Path:
    """The folder of all datasets: the one given, else `NLGAUGE_DATA`."""
    named = str(given) if given else os.environ.get(VARIABLE, "")
    if not named:
        raise DataError(
            f"no data folder; expected the folder of the datasets: name it with {argument('data_dir')} or set "
            f"{VARIABLE} (`nlgauge data list` shows its content)"
        )
    folder = Path(named)
    if not folder.is_dir():
        source = "the data folder" if given else f"the data folder that {VARIABLE} names"
        found = "is a file" if folder.exists() else "does not exist"
        raise DataError(
            f"{source} {found}; expected a folder: create it, or name another with {argument('data_dir')}", file=named
        )
    return folder


def dataset_path(name: str, folder: str | Path | None = None, *, file: str = "") -> Path:
    """The folder of a dataset, or one of its files by relative path or base name."""
    dataset = find_dataset(name)
    root = data_dir(folder)
    wanted = _find_file(dataset, file).path if file else dataset.folder
    place = root / wanted
    if file and not place.is_file():
        raise DataError(f"no such file; it belongs to '{name}': {dataset.advice}", file=str(place))
    if not file and not dataset.present(root):
        raise DataError(
            f"none of the {len(dataset.files)} files of '{name}' is here; {dataset.advice}", file=str(place)
        )
    return place


def verify(dataset: Dataset, folder: Path) -> list[FileCheck]:
    """Compare every file of a dataset with the catalogue; records are counted only if the hash differs."""
    return [_check(file, folder / file.path) for file in dataset.files]


def count_records(path: Path, counted: Counted) -> int | None:
    """Records in a file, as `DataFile` defines them; None if it cannot be read."""
    try:
        if counted == "lines":
            with path.open("rb") as stream:
                return sum(1 for line in stream if line.strip())
        if counted == "csv":
            csv.field_size_limit(sys.maxsize)
            with path.open(encoding="utf-8-sig", newline="") as stream:
                return max(0, sum(1 for row in csv.reader(stream, strict=True) if row) - 1)
        entries = json.loads(path.read_bytes())
        return len(entries) if isinstance(entries, list | dict) else None
    except (ValueError, RecursionError, csv.Error):
        return None


def _find_file(dataset: Dataset, wanted: str) -> DataFile:
    for file in dataset.files:
        if wanted in (file.path, file.path.removeprefix(dataset.folder + "/"), file.name):
            return file
    raise UnknownName.among(f"file of {dataset.name}", wanted, [file.name for file in dataset.files])


def _check(file: DataFile, path: Path) -> FileCheck:
    if not path.is_file():
        return FileCheck(file=file, state="missing")
    try:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found == file.sha256:
            return FileCheck(file=file, state="ok", records=file.records, sha256=found)
        return FileCheck(file=file, state="changed", records=count_records(path, file.counted), sha256=found)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(path)) from error
