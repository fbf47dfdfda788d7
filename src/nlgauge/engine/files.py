"""Atomic writing of files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nlgauge.errors import OutputError


def check_writable(path: Path) -> None:
    """Fail before any work when the output cannot be written."""
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; expected the name of a file")
    folder = path.parent
    if not folder.is_dir():
        found = "is not a folder; choose another" if folder.exists() else "does not exist; create it first"
        raise OutputError(f"{path}: the folder '{folder}' {found}")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OutputError(
            f"{path}: the folder '{folder}' is not writable ({error.strerror}); choose another"
        ) from error


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that replaces it when the block succeeds, and is deleted when it fails."""
    check_writable(path)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
        temporary = Path(name)
        os.close(handle)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically; what is not UTF-8 in the name of a file is escaped, as JSON does."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
