"""Many small values on disk under content keys: one SQLite file, safe for parallel runs."""

from __future__ import annotations

import sqlite3
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from nlgauge.engine.cache import cache_folder, code_digest
from nlgauge.engine.checksums import checksum

T = TypeVar("T")
_AT_ONCE = 500
_INSERT = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)"
_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter where SQLite quotes a damaged name
# What the machine refuses, and no damage of the file.
_REFUSALS = {
    *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR),
    *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY),
}


class BlobStore:
    """Bytes under hashes, each with a checksum. If the store cannot be read or written, nothing is cached.

    What other code or other libraries computed is not found. A damaged entry counts as absent; a damaged file is
    replaced by one with all entries that can be read.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._name = name.encode()
        self._path = (folder or cache_folder()) / "stores" / f"{name}.sqlite"

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of those keys that are there."""
        if not self._path.exists():
            return {}
        places = {_place(key): key for key in keys}
        rows = self._use(lambda database: list(_rows_of(database, list(places))), "read") or []
        sound = [(place, value) for place, value, check in rows if self._is_sound(place, value, check)]
        if damaged := len(rows) - len(sound):
            warnings.warn(f"cache {self._path}: entries that are damaged and computed again: {damaged}", stacklevel=2)
        return {places[place]: value for place, value in sound if place in places}

    def put_many(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep values."""
        placed = ((_place(key), value) for key, value in items)
        rows = [(place, value, self._check(place, value)) for place, value in placed]
        self._use(lambda database: database.executemany(_INSERT, rows), "written")

    def _check(self, key: bytes, value: bytes) -> bytes:
        return checksum(self._name, key, value)

    def _is_sound(self, key: Any, value: Any, check: Any) -> bool:
        return isinstance(key, bytes) and isinstance(value, bytes) and check == self._check(key, value)

    def _use(self, work: Callable[[sqlite3.Connection], T], done: str) -> T | None:
        """What `work` gives, with a damaged file replaced once; None and a warning where it cannot be done."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return _with(self._path, work)
            except _DAMAGE as error:
                if _is_refusal(error):
                    raise
                self._replace_damaged(error)
                return _with(self._path, work)
        except (*_DAMAGE, OSError) as error:
            warnings.warn(f"cache {self._path}: cannot be {done}: {error}", stacklevel=3)
            return None

    def _replace_damaged(self, error: Exception) -> None:
        """Copy what can be read, from both ends up to the damage, into a new file, and put that in place."""
        beside = self._path.with_name(f".{self._path.name}.{uuid.uuid4().hex}")
        with suppress(FileNotFoundError):  # another process may have replaced it meanwhile
            try:
                kept = _with(beside, self._copied)
                for file in (Path(f"{self._path}-wal"), Path(f"{self._path}-shm")):
                    file.unlink(missing_ok=True)
                beside.replace(self._path)
            finally:
                beside.unlink(missing_ok=True)
            warnings.warn(
                f"cache {self._path}: damaged ({error}): made again with the {kept} entries that could be read; "
                "the others are computed again",
                stacklevel=4,
            )

    def _copied(self, into: sqlite3.Connection) -> int:
        for order in ("", " DESC"):
            into.executemany(_INSERT, self._readable(order))
        (count,) = into.execute("SELECT count(*) FROM entries").fetchone()
        return int(count)

    def _readable(self, order: str) -> Iterator[tuple[bytes, bytes, bytes]]:
        with suppress(*_DAMAGE), closing(sqlite3.connect(self._path)) as damaged:
            damaged.text_factory = bytes
            rows = damaged.execute(f"SELECT key, value, checksum FROM entries ORDER BY key{order}")  # noqa: S608
            yield from (row for row in rows if self._is_sound(*row))


def _place(key: bytes) -> bytes:
    """Under what a key is kept: it depends on the code and the libraries, too."""
    return checksum(code_digest().encode(), key)


def _with(path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    with closing(sqlite3.connect(path, timeout=60)) as database, database:
        database.text_factory = bytes
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("DROP TABLE IF EXISTS blobs")  # entries of older versions, which have no checksums
        database.execute(
            "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL) "
            "WITHOUT ROWID"
        )
        return work(database)


def _rows_of(database: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[tuple[Any, Any, Any]]:
    for start in range(0, len(keys), _AT_ONCE):
        part = keys[start : start + _AT_ONCE]
        marks = ",".join("?" * len(part))
        yield from database.execute(f"SELECT key, value, checksum FROM entries WHERE key IN ({marks})", part)  # noqa: S608


def _is_refusal(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSALS
