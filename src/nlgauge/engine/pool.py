"""A pool of workers that apply one function to values, with replacement of workers that die."""

from __future__ import annotations

import pickle
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from nlgauge.errors import NLGaugeError, argument

W = TypeVar("W")
UNDER_WAY = 2
_FAILED_STARTS = 3


class WorkerDied(NLGaugeError):
    """A worker ended while it processed a value: killed, out of memory, or crashed by its input."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one value: a result or an error, and the warnings."""

    ticket: int
    value: Any = None
    error: Exception | None = None
    warnings: tuple[str, ...] = ()


def outcome_of(ticket: int, function: Callable[[Any], Any], value: Any) -> Outcome:
    """Apply a function in a worker; errors and warnings become part of the outcome."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(value)
        except Exception as error:  # noqa: BLE001 - it is raised again by the process that asked
            return Outcome(ticket, error=_portable(error), warnings=_said(caught))
    return Outcome(ticket, result, warnings=_said(caught))


def _said(caught: list[warnings.WarningMessage]) -> tuple[str, ...]:
    kept = [str(entry.message) for entry in caught if not issubclass(entry.category, DeprecationWarning)]
    return tuple(dict.fromkeys(kept))


def _portable(error: Exception) -> Exception:
    """The error itself if it can be pickled, else one with the same message."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made a moment ago, by this process
    except Exception:  # noqa: BLE001 - pickling may raise anything
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


@dataclass
class _Load:
    """The values assigned to a worker, oldest first."""

    tickets: deque[int] = field(default_factory=deque)
    ready: bool = False


class Pool(ABC, Generic[W]):
    """Workers, each with at most two assigned values.

    `give` a value while there is `room`, and `take` the next outcome; outcomes come in the order of completion. When a
    worker dies, the outcome of its current value is `WorkerDied`; its other values are reassigned, and a new worker
    replaces it.
    """

    isolated = True
    _function: Callable[[Any], Any]

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._loads: dict[W, _Load] = {}
        self._values: dict[int, Any] = {}
        self._waiting: deque[int] = deque()
        self._outcomes: deque[Outcome] = deque()
        self._next_ticket = 0
        self._failed_starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(at_once=kind is not None)

    def use(self, function: Callable[[Any], Any]) -> None:
        """Apply this function from now on; no value may be pending."""
        if self._values:
            raise RuntimeError("values are pending")
        self._function = function
        for worker in self._loads:
            self._set_function(worker, function)

    @property
    def room(self) -> bool:
        """Whether another value can be given."""
        return len(self._values) < UNDER_WAY * self.workers

    @property
    def under_way(self) -> int:
        """How many outcomes are still to be taken."""
        return len(self._values) + len(self._outcomes)

    def give(self, value: Any) -> int:
        """Submit a value; returns the ticket of its outcome."""
        ticket = self._next_ticket
        self._next_ticket += 1
        self._values[ticket] = value
        self._waiting.append(ticket)
        self._assign()
        return ticket

    def take(self) -> Outcome:
        """The next outcome; waits for it."""
        if not self.under_way:
            raise RuntimeError("nothing is pending")
        while not self._outcomes:
            self._wait()
            self._assign()
        return self._outcomes.popleft()

    def close(self, *, at_once: bool = False) -> None:
        """End all workers, even those at work."""
        for worker in list(self._loads):
            self._end(worker, at_once=at_once or bool(self._loads[worker].tickets))
        self._loads.clear()

    def _assign(self) -> None:
        """Send waiting values to ready workers; start workers as needed."""
        while len(self._loads) < min(self.workers, len(self._values)):
            self._loads[self._start(self._function)] = _Load(ready=not self.isolated)
        ready = [(worker, load) for worker, load in self._loads.items() if load.ready]
        while self._waiting and ready:
            worker, load = min(ready, key=lambda entry: len(entry[1].tickets))
            if len(load.tickets) >= UNDER_WAY:
                return
            ticket = self._waiting.popleft()
            load.tickets.append(ticket)
            self._send(worker, ticket, self._values[ticket])

    def _report_start(self, worker: W) -> None:
        """A worker is ready."""
        if worker in self._loads:
            self._loads[worker].ready, self._failed_starts = True, 0

    def _report_outcome(self, worker: W, outcome: Outcome) -> None:
        """A worker has sent an outcome."""
        self._report_start(worker)
        if worker in self._loads:
            self._loads[worker].tickets.remove(outcome.ticket)
            for message in outcome.warnings:
                warnings.warn(message, stacklevel=2)
            self._finish(outcome)

    def _report_death(self, worker: W, reason: str) -> None:
        """A worker has ended."""
        load = self._loads.pop(worker, None)
        if load is None:
            return
        if load.tickets:
            self._finish(Outcome(load.tickets.popleft(), error=WorkerDied(reason)))
        if not load.ready:
            self._failed_starts += 1
            if self._failed_starts >= _FAILED_STARTS:
                raise NLGaugeError(
                    f"workers die while they start ({reason}); expected them to run: is there enough memory for "
                    f"{self.workers}? Use fewer: {argument('workers')}"
                )
        self._waiting.extendleft(reversed(load.tickets))

    def _finish(self, outcome: Outcome) -> None:
        del self._values[outcome.ticket]
        self._outcomes.append(outcome)

    @abstractmethod
    def _start(self, function: Callable[[Any], Any]) -> W:
        """Start a worker, without waiting for it."""

    @abstractmethod
    def _set_function(self, worker: W, function: Callable[[Any], Any]) -> None:
        """Send a worker another function."""

    @abstractmethod
    def _send(self, worker: W, ticket: int, value: Any) -> None:
        """Send a value to a worker; `_wait` reports a worker that has just died."""

    @abstractmethod
    def _wait(self) -> None:
        """Report what happens to workers next, by `_report_start`, `_report_outcome` or `_report_death`."""

    @abstractmethod
    def _end(self, worker: W, *, at_once: bool) -> None:
        """End a worker."""
