"""Many small values on disk under content keys: one SQLite file, safe for parallel runs."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from nlgauge.engine.cache import cache_folder

_AT_ONCE = 500


class BlobStore:
    """Bytes under hashes. If the store cannot be read or written, nothing is cached."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._path = (folder or cache_folder()) / "stores" / f"{name}.sqlite"

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of those keys that are there."""
        found: dict[bytes, bytes] = {}
        if not self._path.exists():
            return found
        try:
            with closing(self._connect()) as database:
                for start in range(0, len(keys), _AT_ONCE):
                    part = keys[start : start + _AT_ONCE]
                    marks = ",".join("?" * len(part))
                    found.update(database.execute(f"SELECT key, value FROM blobs WHERE key IN ({marks})", part))  # noqa: S608
        except sqlite3.Error as error:
            warnings.warn(f"cache {self._path}: cannot be read: {error}", stacklevel=2)
        return found

    def put_many(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep values."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as database, database:
                database.executemany("INSERT OR REPLACE INTO blobs VALUES (?, ?)", items)
        except (sqlite3.Error, OSError) as error:
            warnings.warn(f"cache {self._path}: cannot be written: {error}", stacklevel=2)

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=60)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("CREATE TABLE IF NOT EXISTS blobs (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
        return database
