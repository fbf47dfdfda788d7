"""The folder of a run that can be resumed: a manifest of what is computed, finished pieces, and a lock."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nlgauge.engine import saving
from nlgauge.engine.checksums import Damaged, opened, sealed
from nlgauge.engine.files import write_text
from nlgauge.engine.scratch import MEMORY_BYTES, Scratch
from nlgauge.errors import OptionError, OutputError

_MANIFEST, _LOCK = "manifest.json", "lock"
_PIECES, _SCRATCH = "pieces", "scratch"
_SHOWN = 5


class RunFolder:
    """`manifest.json` says what is computed; `pieces/NAME` holds one finished piece each, moved there in one step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder; unfinished files of a dead run are deleted."""
        with _writing(self.folder):
            (self.folder / _PIECES).mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._take(lock)
            for left in [self.folder / _SCRATCH, *(self.folder / _PIECES).glob(".*")]:
                shutil.rmtree(left, ignore_errors=True)
            with _writing(self.folder):
                (self.folder / _SCRATCH).mkdir(exist_ok=True)  # a worker that outlived its run may still write there
            try:
                yield
            finally:
                shutil.rmtree(self.folder / _SCRATCH, ignore_errors=True)
        finally:
            os.close(lock)

    def _take(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(lock, 1000).decode(errors="replace").strip() or "another process"
            raise OptionError(
                f"{self.folder}: {holder} is using this folder; expected one run at a time: wait for it, or choose "
                "another folder"
            ) from error
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be locked: {error.strerror}; choose another folder") from error
        with _writing(self.folder):
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)

    def scratch(self, memory_bytes: int = MEMORY_BYTES) -> Scratch:
        """Space for large intermediate results, on the same disk as the pieces."""
        return Scratch(self.folder / _SCRATCH, memory_bytes)

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Write the manifest, or check that a resumed run computes the same."""
        place = self.folder / _MANIFEST
        wanted = json.loads(json.dumps(settings))
        if not place.exists():
            if any((self.folder / _PIECES).iterdir()):
                raise OptionError(f"{self.folder}: has pieces of a run but no {_MANIFEST}; choose an empty folder")
            self._write_manifest(wanted)
            return
        if differences := list(_differences(self._manifest(), wanted)):
            more = f" (and {len(differences) - _SHOWN} more)" if len(differences) > _SHOWN else ""
            raise OptionError(
                f"{self.folder}: holds another run: {'; '.join(differences[:_SHOWN])}{more}; give the same options and "
                "files to resume it, or delete this folder or choose another"
            )

    def note(self, name: str, value: Any) -> None:
        """Add a value that became known during the run to the manifest."""
        self._write_manifest({**self._manifest(), name: value})

    def _manifest(self) -> dict[str, Any]:
        place = self.folder / _MANIFEST
        try:
            return opened(place.read_bytes())
        except (OSError, Damaged) as error:
            raise OptionError(
                f"{place}: damaged, or of another version ({error}); delete this folder or choose another"
            ) from error

    def _write_manifest(self, settings: Mapping[str, Any]) -> None:
        write_text(self.folder / _MANIFEST, json.dumps(sealed(settings), indent=1, ensure_ascii=False) + "\n")

    def is_done(self, piece: str) -> bool:
        """Whether a piece exists and is intact; a damaged piece is removed with a warning."""
        place = self.folder / _PIECES / piece
        if not place.exists():
            return False
        try:
            saving.check(place)
        except Damaged as error:
            warnings.warn(f"{place}: damaged: {error}; it is left out and computed again", stacklevel=2)
            shutil.rmtree(place, ignore_errors=True)
            return False
        return True

    def load(self, piece: str) -> Any:
        """A finished piece."""
        return saving.load(self.folder / _PIECES / piece)

    def save(self, piece: str, value: Any) -> None:
        """Save a finished piece; one that another process has saved meanwhile is the same."""
        place = self.folder / _PIECES / piece
        beside = place.with_name(f".{piece}.{uuid.uuid4().hex}")
        try:
            with _writing(beside):
                beside.mkdir()
                saving.save(value, beside)
                try:
                    beside.rename(place)
                except OSError:
                    if not place.is_dir():
                        raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def remove(self) -> None:
        """Delete the folder; it is renamed first, so that no other run resumes from a part of it."""
        doomed = self.folder.with_name(f"{self.folder.name}.removed")
        shutil.rmtree(doomed, ignore_errors=True)
        self.folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    """Add advice to errors of a full disk."""
    advice = "finished pieces are kept: free some space, then run the same command again to resume"
    try:
        yield
    except OutputError as error:
        raise OutputError(f"{error}; {advice}") from error
    except OSError as error:
        raise OutputError(f"{place}: cannot be written: {error.strerror or error}; {advice}") from error


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    for name, value in wanted.items():
        before = found.get(name)
        if before == value:
            continue
        if isinstance(value, list) and isinstance(before, list) and len(value) == len(before):
            changed = ((a, b) for a, b in zip(before, value, strict=True) if a != b)
            yield from (f"{name} had {_shown(a)}, now {_shown(b)}" for a, b in changed)
        else:
            yield f"{name} was {_shown(before)}, now {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) > _SHOWN:
        return f"{len(value)} of them"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
