"""How every measured program, peer or not, reports: one JSON object on its last line of output."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def timed(function: Callable[[], T]) -> tuple[T, float]:
    """What the function returns, and its seconds."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def peak_mb() -> float:
    """The most memory that this process has held so far."""
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def report(seconds: float, **found: Any) -> None:
    """Print the result."""
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb(), **found}))
