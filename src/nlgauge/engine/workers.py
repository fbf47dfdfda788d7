"""An ordered map over threads or worker processes that never runs far ahead of its consumer."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from nlgauge.engine.messages import show_warnings_plainly
from nlgauge.engine.scratch import Scratch, use_scratch
from nlgauge.errors import NLGaugeError

T = TypeVar("T")
R = TypeVar("R")
_THREADS = 4
_function: Callable[[Any], Any]


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(function: Callable[[T], R], values: Iterable[T], *, processes: int, scratch: Scratch) -> Iterator[R]:
    """Results in the order of the values.

    One process works with a thread a core (up to four), since kernels run without the interpreter lock. Several
    processes are started afresh rather than forked (forking a program with threads may hang). At most one value more
    than there are workers is under way at a time.
    """
    if processes == 1:
        workers = min(_THREADS, available_cores())
        pool: Executor = ThreadPoolExecutor(workers)
        call: Callable[[T], R] = function
    else:
        workers, call = processes, _call
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(processes, context, initializer=_start, initargs=(function, scratch))
    pending: deque[Future[R]] = deque()
    try:
        for value in values:
            with _without_interrupts():
                pending.append(pool.submit(call, value))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise NLGaugeError(
            "a worker process died, probably for lack of memory; run with fewer --processes or a smaller --chunk-mb"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back, so that processes started meanwhile leave it to this one from their first moment on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(function: Callable[[Any], Any], scratch: Scratch) -> None:
    global _function
    show_warnings_plainly()
    use_scratch(scratch)
    _function = function


def _call(value: Any) -> Any:
    return _function(value)
