"""Pipes and process substitution, copied to disk: they can be read once, and readers look at a file several times."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from nlgauge.errors import DataError, OutputError

_PREFIX = "nlgauge-pipe-"
_PATIENCE = 2.0
_BLOCK = 1 << 20
_LONGEST_NAME = 240
_copies: ContextVar[dict[str, Path] | None] = ContextVar("copies", default=None)


@contextmanager
def pipes_copied() -> Iterator[None]:
    """In this block every pipe is read once, however many readers it has."""
    if _copies.get() is not None:
        yield
        return
    copies: dict[str, Path] = {}
    before = _copies.set(copies)
    try:
        yield
    finally:
        _copies.reset(before)
        for copy in copies.values():
            shutil.rmtree(copy.parent, ignore_errors=True)


def on_disk(path: str) -> str:
    """The path of a file; of a pipe, that of a copy of all that is written into it.

    A copy is removed at the end of the block of `pipes_copied`, or of this process.
    """
    try:
        if not stat.S_ISFIFO(Path(path).stat().st_mode):
            return path
    except (OSError, ValueError):  # no file, which the reader of the path explains
        return path
    known = _copies.get()
    if known is None:
        copy = _copied(path)
        atexit.register(shutil.rmtree, copy.parent, ignore_errors=True)
        return str(copy)
    if path not in known:
        known[path] = _copied(path)
    return str(known[path])


def name_given(path: str) -> str:
    """The name of a file that the user gave: of a copy, that of its pipe."""
    place = Path(path)
    return os.fsdecode(unquote_to_bytes(place.name)) if place.parent.name.startswith(_PREFIX) else path


def _copied(path: str) -> Path:
    """A copy in a folder of its own, in whose name there is that of the pipe."""
    parent = os.environ.get("NLGAUGE_SCRATCH") or tempfile.gettempdir()
    try:
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    except OSError as error:
        raise OutputError(f"scratch folder {parent}: {error.strerror or error}") from error
    copy = Path(folder) / quote(os.fsencode(path), safe="")[-_LONGEST_NAME:]
    try:
        if not _copy(path, copy):
            raise DataError("is a pipe into which nothing was written; expected data", file=path)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise OutputError(f"{path}: cannot be copied to {parent}: {error.strerror or error}") from error
        raise
    return copy


def _copy(path: str, copy: Path) -> int:
    """Copy a pipe; after a while without any data, say what it waits for. Returns the number of bytes."""
    waits = f"nlgauge: waiting for data: nothing has been written into the pipe {path} yet"
    notice = threading.Timer(_PATIENCE, print, [waits], {"file": sys.stderr})
    notice.daemon = True
    notice.start()
    try:
        with Path(path).open("rb") as pipe, copy.open("wb") as file:
            while block := pipe.read1(_BLOCK):
                notice.cancel()
                file.write(block)
            return file.tell()
    finally:
        notice.cancel()
