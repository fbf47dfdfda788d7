"""Workers on this machine: threads, or processes of which each can die without ending the run."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.context import SpawnProcess
from typing import Any

from nlgauge.engine.cores import available_cores, thread_limits
from nlgauge.engine.pool import Outcome, Pool, outcome_of
from nlgauge.engine.scratch import Scratch, use_scratch
from nlgauge.errors import NLGaugeError
from nlgauge.registry import load_plugins

_THREADS = 4
_PATIENCE = 5.0
_Message = tuple[int | None, bytes]


class ThreadPool(Pool[int]):
    """One thread per core (up to four), since kernels release the interpreter lock.

    Nothing is sent between processes; if this process dies, the run ends.
    """

    isolated = False

    def __init__(self) -> None:
        super().__init__(min(_THREADS, available_cores()))
        self._threads = ThreadPoolExecutor(self.workers)
        self._futures: dict[Future[Any], tuple[int, int]] = {}
        self._started = 0

    def _start(self, function: Callable[[Any], Any]) -> int:  # noqa: ARG002 - threads share it
        self._started += 1
        return self._started

    def _set_function(self, worker: int, function: Callable[[Any], Any]) -> None:
        """Threads see the function as it is."""

    def _send(self, worker: int, ticket: int, value: Any) -> None:
        self._futures[self._threads.submit(self._function, value)] = worker, ticket

    def _wait(self) -> None:
        done, _ = wait(self._futures, return_when=FIRST_COMPLETED)
        for future in done:
            worker, ticket = self._futures.pop(future)
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            self._report_outcome(worker, Outcome(ticket, None if error else future.result(), error))

    def _end(self, worker: int, *, at_once: bool) -> None:  # noqa: ARG002 - all end together
        self._threads.shutdown(wait=True, cancel_futures=at_once)


@dataclass(frozen=True, eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection


class ProcessPool(Pool[_Worker]):
    """Processes, spawned rather than forked (forking a program with threads may hang)."""

    def __init__(self, workers: int, scratch: Scratch) -> None:
        super().__init__(workers)
        self._scratch = scratch
        self._context = multiprocessing.get_context("spawn")

    def _start(self, function: Callable[[Any], Any]) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, pickle.dumps(function), self._scratch))
        process.daemon = True
        resource_tracker.ensure_running()  # if the first process started it, interrupts would be unblocked
        with _without_interrupts(), _with_variables(thread_limits(self.workers)):
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _set_function(self, worker: _Worker, function: Callable[[Any], Any]) -> None:
        self._write(worker, None, pickle.dumps(function))

    def _send(self, worker: _Worker, ticket: int, value: Any) -> None:
        self._write(worker, ticket, pickle.dumps(value))

    @staticmethod
    def _write(worker: _Worker, ticket: int | None, data: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # `_wait` reports its end
            worker.connection.send(ticket)
            worker.connection.send_bytes(data)

    def _wait(self) -> None:
        by_end = {worker.process.sentinel: worker for worker in self._loads}
        by_connection = {worker.connection: worker for worker in self._loads}
        for ready in wait_for([*by_connection, *by_end]):
            if isinstance(ready, int):
                worker = by_end[ready]
                while worker.connection.poll() and self._read(worker):
                    pass
                worker.process.join()
                worker.connection.close()
                self._report_death(worker, _exit_reason(worker.process.exitcode))
            elif isinstance(ready, Connection):
                self._read(by_connection[ready])

    def _read(self, worker: _Worker) -> bool:
        """Report what a worker sent; False at its end."""
        try:
            found = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(_PATIENCE)
            return False
        if isinstance(found, Outcome):
            self._report_outcome(worker, found)
        elif found is not None:
            raise found
        else:
            self._report_start(worker)
        return True

    def _end(self, worker: _Worker, *, at_once: bool) -> None:
        if at_once:
            worker.process.kill()
        worker.connection.close()
        worker.process.join(_PATIENCE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _exit_reason(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"ended by {name}" + (", as when memory runs out" if -code == signal.SIGKILL else "")
    return f"ended with exit code {code}"


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C, so that processes started meanwhile never handle it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _with_variables(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for processes started within the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Connection, function_data: bytes, scratch: Scratch) -> None:
    """The main function of a worker process; ends when the parent closes the connection."""
    with suppress(BrokenPipeError, ConnectionResetError):
        _answer_requests(connection, function_data, scratch)


def _answer_requests(connection: Connection, function_data: bytes, scratch: Scratch) -> None:
    """Answer all requests; a thread receives them meanwhile."""
    use_scratch(scratch)
    inbox: queue.SimpleQueue[_Message | None] = queue.SimpleQueue()
    busy = threading.Event()
    threading.Thread(target=_listen, args=(connection, inbox, busy), daemon=True).start()
    message: _Message | None = (None, function_data)
    function: Callable[[Any], Any] | None = None
    while message is not None:
        ticket, data = message
        if ticket is None or function is None:
            try:
                load_plugins()
                function = pickle.loads(data)  # noqa: S301 - from the process that started this one
            except Exception as error:  # noqa: BLE001 - raised again by the parent
                reason = NLGaugeError(
                    f"a worker process could not start: {error!r}; expected it to import the same code: put your "
                    "own metrics into an importable module, or into a file that NLGAUGE_PLUGINS names"
                )
                connection.send(reason)
                return
            connection.send(None)
        else:
            busy.set()
            connection.send(outcome_of(ticket, function, pickle.loads(data)))  # noqa: S301 - as above
            busy.clear()
        message = inbox.get()


def _listen(connection: Connection, inbox: queue.SimpleQueue[_Message | None], busy: threading.Event) -> None:
    """Receive messages; when the parent is gone, end the process at once."""
    try:
        while True:
            inbox.put((connection.recv(), connection.recv_bytes()))
    except (EOFError, OSError):
        if busy.is_set():
            os._exit(1)
        inbox.put(None)
