"""How every measured program, peer or not, reports: one JSON object on its last line of output."""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def timed(function: Callable[[], T]) -> tuple[T, float]:
    """What the function returns, and its seconds."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def peak_mb() -> float:
    """The most resident memory that this process has held, in millions of bytes.

    Linux carries `ru_maxrss` over from the parent process, so that a small program would report its parent's size;
    the high-water mark in `/proc` starts at zero.
    """
    status = Path("/proc/self/status")
    if status.exists() and (mark := re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="ascii"))):
        return int(mark[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def report(seconds: float, **found: Any) -> None:
    """Print what was found, with this process' peak memory."""
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb(), **found}))
