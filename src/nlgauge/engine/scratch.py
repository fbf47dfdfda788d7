"""The folder for large intermediate results: it exists during a run and is shared with the workers."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nlgauge.errors import OutputError

MEMORY_BYTES = 1 << 30


@dataclass(frozen=True)
class Scratch:
    """A folder, and how many bytes of intermediate results may stay in memory before they are written there."""

    folder: Path
    memory_bytes: int = MEMORY_BYTES

    def new_file(self) -> Path:
        """A new file name in the folder."""
        return self.folder / uuid.uuid4().hex


_current: Scratch | None = None


@contextmanager
def scratch_folder(memory_bytes: int = MEMORY_BYTES) -> Iterator[Scratch]:
    """Make the folder, in `NLGAUGE_SCRATCH` or the system's temporary folder, and remove it at the end."""
    parent = os.environ.get("NLGAUGE_SCRATCH")
    try:
        folder = Path(tempfile.mkdtemp(prefix="nlgauge-", dir=parent))
    except OSError as error:
        raise OutputError(f"scratch folder {parent or tempfile.gettempdir()}: {error.strerror or error}") from error
    try:
        with using_scratch(Scratch(folder, memory_bytes)) as scratch:
            yield scratch
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def using_scratch(scratch: Scratch) -> Iterator[Scratch]:
    """Use another scratch folder within the block."""
    before = current_scratch()
    use_scratch(scratch)
    try:
        yield scratch
    finally:
        use_scratch(before)


def use_scratch(scratch: Scratch | None) -> None:
    """Say where this process keeps scratch files from now on."""
    global _current
    _current = scratch


def current_scratch() -> Scratch | None:
    """The run's scratch folder, or None outside a run (everything then stays in memory)."""
    return _current
