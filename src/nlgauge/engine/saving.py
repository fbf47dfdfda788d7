"""Values of frozen dataclasses in a folder: arrays, columns and tables as Parquet, the rest as JSON; no pickles."""

from __future__ import annotations

import dataclasses
import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nlgauge.engine.checksums import Damaged, check_files, file_checksum, opened, sealed
from nlgauge.errors import DataError, NLGaugeError, OptionError, OutputError, argument

_TREE = "value.json"


def save(value: Any, folder: Path) -> None:
    """Write a value into an empty folder.

    It may be made of dataclasses, tuples, lists, texts, numbers, NumPy arrays, Polars series, Polars data frames, each
    of which becomes a Parquet file, and paths of files, which are moved into the folder. An object with a method
    `spilled()`, which gives the same value in files, is saved in that form: such files stay on disk when the value is
    loaded. An array that occurs several times is written once.
    """
    writer = _Writer(folder)
    tree = writer.tree(value)
    try:
        files = {name: file_checksum(folder / name) for name in (*writer.write_columns(), *writer.files)}
        (folder / _TREE).write_text(json.dumps(sealed({"value": tree, "files": files})), encoding="utf-8")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise OutputError(f"{folder}: cannot be written: {getattr(error, 'strerror', '') or error}") from error


def load(folder: Path) -> Any:
    """The value in a folder; what is read into memory is checked."""
    try:
        document = _document(folder)
        return _Reader(folder, document["files"]).value(document["value"])
    except Damaged as error:
        raise DataError(f"damaged: {error}; run again, and it is computed again", file=str(folder)) from error


def check(folder: Path) -> None:
    """Raise `Damaged` where anything in a folder is not as it was saved."""
    check_files(folder, _document(folder)["files"])


def _document(folder: Path) -> dict[str, Any]:
    try:
        return opened((folder / _TREE).read_bytes())
    except OSError as error:
        raise Damaged(f"{_TREE} cannot be read: {error.strerror or error}") from error
    except Damaged as error:
        raise Damaged(f"{_TREE}: {error}") from error


class _Writer:
    """Turns a value into a tree for JSON, and collects its columns by length: one file per length."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._columns: dict[int, list[pl.Series]] = {}
        self._tables: list[pl.DataFrame] = []
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.files: list[str] = []

    def tree(self, value: Any) -> Any:
        if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, np.generic)):
            return value
        if id(value) in self._known:
            return self._known[id(value)][1]
        if isinstance(value, np.generic):
            return {"scalar": value.item(), "dtype": value.dtype.str}
        if isinstance(value, tuple | list) and type(value) in (tuple, list):
            return {type(value).__name__: [self.tree(entry) for entry in value]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.tree(entry) for key, entry in value.items()}}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            described = {"array": self._column(value), "dtype": value.dtype.str, "shape": list(value.shape)}
        elif isinstance(value, pl.Series):
            described = {"series": self._column(value), "name": value.name}
        elif isinstance(value, pl.DataFrame):
            self._tables.append(value)
            described = {"table": len(self._tables) - 1}
        elif isinstance(value, Path):
            described = {"file": self._moved(value)}
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            described = self._dataclass(value)
        else:
            raise OptionError(
                f"statistics hold a {type(value).__module__}.{type(value).__qualname__}; expected frozen dataclasses "
                "of NumPy arrays of numbers, Polars series, numbers, texts and tuples of these, which can be written "
                f"to Parquet: convert it, or score with one process and without {argument('run')}"
            )
        self._known[id(value)] = value, described
        return described

    def _dataclass(self, value: Any) -> dict[str, Any]:
        if hasattr(value, "spilled"):
            value = value.spilled()
        module = type(value).__module__
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return {
            "class": f"{'__main__' if module == '__mp_main__' else module}:{type(value).__qualname__}",
            "fields": {name: self.tree(getattr(value, name)) for name in fields},
        }

    def _column(self, values: Any) -> list[int]:
        column = values if isinstance(values, pl.Series) else pl.Series(np.ascontiguousarray(values).reshape(-1))
        columns = self._columns.setdefault(len(column), [])
        columns.append(column.alias(str(len(columns))))
        return [len(column), len(columns) - 1]

    def _moved(self, file: Path) -> str:
        name = f"{len(self.files)}{file.suffix or '.data'}"
        try:
            shutil.move(file, self._folder / name)
        except OSError as error:
            raise OutputError(f"{self._folder}: cannot be written: {error.strerror or error}") from error
        self.files.append(name)
        return name

    def write_columns(self) -> list[str]:
        frames = {_column_file(rows): pl.DataFrame(columns) for rows, columns in self._columns.items()}
        frames |= {_table_file(number): table for number, table in enumerate(self._tables)}
        for name, frame in frames.items():
            with (self._folder / name).open("wb") as file:  # Polars itself opens no name that is not UTF-8
                frame.write_parquet(file, compression="lz4")
        return list(frames)


class _Reader:
    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self._folder, self._files = folder, files
        self._frames: dict[str, pl.DataFrame] = {}
        self._columns: dict[tuple[int, int], Any] = {}

    def value(self, tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        if "class" in tree:
            return _named(tree["class"])(**{name: self.value(entry) for name, entry in tree["fields"].items()})
        if "tuple" in tree:
            return tuple(self.value(entry) for entry in tree["tuple"])
        if "list" in tree:
            return [self.value(entry) for entry in tree["list"]]
        if "dict" in tree:
            return {name: self.value(entry) for name, entry in tree["dict"].items()}
        if "scalar" in tree:
            return np.dtype(tree["dtype"]).type(tree["scalar"])
        if "file" in tree:
            return self._folder / tree["file"]
        if "table" in tree:
            return self._frame(_table_file(tree["table"]))
        kind = "array" if "array" in tree else "series"
        rows, number = tree[kind]
        if (rows, number) not in self._columns:
            column = self._frame(_column_file(rows))[str(number)]
            if kind == "series":
                self._columns[rows, number] = column.alias(tree["name"])
            else:
                self._columns[rows, number] = column.to_numpy().astype(tree["dtype"]).reshape(tree["shape"])
        return self._columns[rows, number]

    def _frame(self, name: str) -> pl.DataFrame:
        if name not in self._frames:
            check_files(self._folder, {name: self._files[name]})
            with (self._folder / name).open("rb") as file:
                self._frames[name] = pl.read_parquet(file)
        return self._frames[name]


def _column_file(rows: int) -> str:
    return f"rows-{rows}.parquet"


def _table_file(number: int) -> str:
    return f"table-{number}.parquet"


def _named(name: str) -> Any:
    """A dataclass of NLGauge, or of a module that is already imported."""
    module, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module)
    if found is None and module.startswith("nlgauge."):
        found = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise NLGaugeError(f"statistics are of the class {name}, which is not loaded; expected that of the metric")
    return found
