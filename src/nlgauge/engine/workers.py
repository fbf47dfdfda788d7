"""An ordered map over worker processes that never runs far ahead of its consumer."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from nlgauge.engine.scratch import Scratch, use_scratch
from nlgauge.errors import NLGaugeError

T = TypeVar("T")
R = TypeVar("R")
_function: Callable[[Any], Any]


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(function: Callable[[T], R], values: Iterable[T], *, processes: int, scratch: Scratch) -> Iterator[R]:
    """Results in the order of the values; with one process, in this one.

    Workers are started afresh rather than forked (forking a program with threads may hang), and at most two values a
    worker are under way at a time.
    """
    if processes == 1:
        yield from map(function, values)
        return
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), initializer=_start, initargs=(function, scratch)
    )
    pending: deque[Future[R]] = deque()
    try:
        for value in values:
            pending.append(pool.submit(_call, value))
            if len(pending) >= 2 * processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise NLGaugeError(
            "a worker process died, probably for lack of memory; run with fewer --processes or a smaller --chunk-mb"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start(function: Callable[[Any], Any], scratch: Scratch) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    use_scratch(scratch)
    _function = function


def _call(value: Any) -> Any:
    return _function(value)
