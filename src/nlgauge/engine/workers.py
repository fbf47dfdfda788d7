"""An ordered map over threads or worker processes that never runs far ahead of its consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from nlgauge.engine.cores import available_cores
from nlgauge.engine.local import ProcessPool, ThreadPool
from nlgauge.engine.pool import Outcome, Pool, WorkerDied
from nlgauge.engine.scratch import Scratch
from nlgauge.errors import NLGaugeError, argument

__all__ = ["available_cores", "finished", "ordered_map"]

T = TypeVar("T")
R = TypeVar("R")


def finished(pool: Pool[Any], function: Callable[[T], R], values: Sequence[T]) -> Iterator[tuple[int, R]]:
    """Results as they come, each with the place of its value; a value on which a worker dies is retried once."""
    pool.use(function)
    waiting = deque(range(len(values)))
    places: dict[int, int] = {}
    tried: set[int] = set()
    while waiting or pool.under_way:
        while waiting and pool.room:
            place = waiting.popleft()
            places[pool.give(values[place])] = place
        outcome = pool.take()
        place = places.pop(outcome.ticket)
        if isinstance(outcome.error, WorkerDied) and place not in tried:
            tried.add(place)
            waiting.append(place)
        elif isinstance(outcome.error, WorkerDied):
            raise NLGaugeError(
                f"a worker {outcome.error} twice at the same work; expected enough memory: run the same command with "
                f"fewer workers ({argument('workers')})"
            ) from outcome.error
        elif outcome.error is not None:
            raise outcome.error
        else:
            yield place, outcome.value


def ordered_map(function: Callable[[T], R], values: Iterable[T], *, processes: int, scratch: Scratch) -> Iterator[R]:
    """Results in the order of the values.

    At most one value more than there are workers is pending, or done and not yet consumed, at a time. A value on
    which a worker process dies is retried once; the first error in the order of the values is raised.
    """
    pool: Pool[Any] = ThreadPool() if processes == 1 else ProcessPool(processes, scratch)
    held: dict[int, T] = {}
    done: dict[int, Outcome] = {}
    order: deque[int] = deque()
    tried: set[int] = set()

    def first() -> R:
        while order[0] not in done:
            outcome = pool.take()
            if isinstance(outcome.error, WorkerDied) and outcome.ticket not in tried:
                again = pool.give(held[outcome.ticket])
                tried.add(again)
                held[again] = held.pop(outcome.ticket)
                order[order.index(outcome.ticket)] = again
            else:
                done[outcome.ticket] = outcome
        ticket = order.popleft()
        del held[ticket]
        outcome = done.pop(ticket)
        if isinstance(outcome.error, WorkerDied):
            raise NLGaugeError(
                f"a worker process died twice on the same part of the input ({outcome.error}); if memory is short, "
                f"use fewer workers ({argument('workers')}) or smaller chunks ({argument('chunk_mb')}); "
                f"{argument('on_error', 'skip')} leaves out the row that causes it"
            ) from outcome.error
        if outcome.error is not None:
            raise outcome.error
        result: R = outcome.value
        return result

    with pool:
        pool.use(function)
        for value in values:
            ticket = pool.give(value)
            held[ticket] = value
            order.append(ticket)
            if len(order) > pool.workers:
                yield first()
        while order:
            yield first()
