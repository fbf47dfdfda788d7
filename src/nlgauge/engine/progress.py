"""Progress on standard error: a bar on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

_QUIET_SECONDS = 2.0
_LINE_EVERY = 10.0
Advance = Callable[[int], None]


class Progress(Protocol):
    """Reports how much is done, in the unit of the total, with an optional note."""

    def __call__(self, done: int, note: str = "", /) -> None:
        """Report it."""


@contextmanager
def progress_bar(label: str, total: int | None, *, show: bool = True) -> Iterator[Progress]:
    """Yield a function that reports how much is done, in the unit of `total` (None if unknown)."""
    if not show:
        yield lambda _done, _note="": None
    elif sys.stderr.isatty():
        yield from _rich_bar(label, total)
    else:
        yield _lines(label, total)


def _rich_bar(label: str, total: int | None) -> Iterator[Progress]:
    from rich import progress
    from rich.console import Console

    times = progress.TimeElapsedColumn(), "left", progress.TimeRemainingColumn()
    columns = "{task.description}", progress.BarColumn(), progress.TaskProgressColumn(), *times
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, note="": bar.update(task, completed=done, description=f"{label}: {note}" if note else label)


def _lines(label: str, total: int | None) -> Progress:
    started = time.monotonic()
    last = started

    def advance(done: int, note: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - started < _QUIET_SECONDS or now - last < _LINE_EVERY:
            return
        last = now
        if total:
            left = (now - started) * (total - done) / max(done, 1)
            about = f"{note}, " if note else ""
            print(f"{label}: {done / total:.0%}, {about}{left:.0f} s left", file=sys.stderr, flush=True)
        else:
            print(f"{label}: {now - started:.0f} s", file=sys.stderr, flush=True)

    return advance
