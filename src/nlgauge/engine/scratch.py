"""Where large intermediate results go: a folder that lives as long as a run, shared with its worker processes."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY_BUDGET = 1 << 30

_current: Path | None = None


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make the folder, in `NLGAUGE_SCRATCH` or the system's temporary folder, and remove it at the end."""
    global _current
    parent = os.environ.get("NLGAUGE_SCRATCH")
    folder = Path(tempfile.mkdtemp(prefix="nlgauge-", dir=parent))
    before, _current = _current, folder
    try:
        yield folder
    finally:
        _current = before
        shutil.rmtree(folder, ignore_errors=True)


def use_scratch(folder: Path) -> None:
    """Tell a worker process where its run keeps scratch files."""
    global _current
    _current = folder


def new_scratch_file() -> Path | None:
    """A fresh file name in the run's folder, or None outside a run (everything then stays in memory)."""
    return None if _current is None else _current / uuid.uuid4().hex
