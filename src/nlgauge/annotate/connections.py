"""Limits of the server: how long a request may take, how many connections are open, how much is logged.

Without them, connections that send a request byte by byte use up the file descriptors of the process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from socket import socket
from typing import Any, TextIO

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

LARGEST_HEADERS = 16 * 1024
_PART = 4096
REQUEST_SECONDS = 20.0
_ANSWER_SECONDS = 300.0
_MOST_CONNECTIONS = 1000
_OTHER_FILES = 256
_ACCEPTED_AT_ONCE = 16
_BACKLOG = 2048
_RECORDS_PER_MINUTE = 120
_LONGEST_RECORD = 8000

_Group = tuple[bool, str]
_log = logging.getLogger("nlgauge.annotate")


def most_connections() -> int:
    """Most open connections: fewer where the process may have few files open, of which the database needs some."""
    if find_spec("resource") is None:
        return _MOST_CONNECTIONS // 2
    import resource

    return max(16, min(_MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES))


@dataclass
class Connections:
    """The open connections of a server, and those without a complete request: by address, oldest first.

    A connection beyond `most` closes another one, of the address that has most of them: the oldest with half a request,
    else the oldest without any. So an attacker closes their own connections before those of others.
    """

    most: int = field(default_factory=most_connections)
    seconds: float = REQUEST_SECONDS
    open: set[Connection] = field(default_factory=set)
    waiting: dict[_Group, dict[Connection, None]] = field(default_factory=dict)

    def add(self, one: Connection) -> bool:
        """Count a connection; False where all others are busy with complete requests."""
        if len(self.open) >= self.most:
            if not self.waiting:
                return False
            group = max(self.waiting, key=lambda key: (key[0], len(self.waiting[key])))
            next(iter(self.waiting[group])).give_up()
        self.open.add(one)
        return True

    def remove(self, one: Connection) -> None:
        """Count a connection no more."""
        self.open.discard(one)
        self.move(one, None)

    def move(self, one: Connection, group: _Group | None) -> None:
        """Let a connection wait in a group; None: it does not wait."""
        if one.group is not None:
            del self.waiting[one.group][one]
            if not self.waiting[one.group]:
                del self.waiting[one.group]
        if group is not None:
            self.waiting.setdefault(group, {})[one] = None
        one.group = group


class Connection(H11Protocol):
    """A connection with limits on the size of headers, and on the times of a complete request and of its response."""

    group: _Group | None = None
    _connections: Connections
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for a request, if there may be another connection."""
        super().connection_made(transport)
        if self._connections.add(self):
            self._wait(has_begun=True)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part at a time, so that the limit on headers holds however much arrives at once."""
        if self.group is not None and not self.group[0]:
            self._wait(has_begun=True)
        for start in range(0, len(data), _PART):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + _PART])
        if self.group is not None and not self._is_incomplete:
            self._connections.move(self, None)
            self._start_timer(_ANSWER_SECONDS)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has arrived already."""
        super().on_response_complete()
        if self.group is None and self._is_incomplete and not self.transport.is_closing():
            self._wait(has_begun=bool(self.conn.trailing_data[0]))

    def give_up(self) -> None:
        """End the connection at once; what was not sent yet is lost."""
        self._connections.remove(self)
        self._stop_timer()
        self.transport.abort()

    @property
    def _is_incomplete(self) -> bool:
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _wait(self, *, has_begun: bool) -> None:
        self._connections.move(self, (has_begun, self.client[0] if self.client else ""))
        self._start_timer(self._connections.seconds)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Server(uvicorn.Server):
    """A server that accepts few connections at a time, so that it reads those that it has before it gets more."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Start; the system may still keep many waiting."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(_BACKLOG)


def limited_server(app: Any, limits: Connections, **options: Any) -> Server:
    """A server of an application with these limits."""
    config = uvicorn.Config(
        app,
        http=type("Limited", (Connection,), {"_connections": limits}),
        h11_max_incomplete_event_size=LARGEST_HEADERS,
        backlog=_ACCEPTED_AT_ONCE,
        log_config=_LOGS,
        ws="none",
        **options,
    )
    return Server(config)


class ShortLog(logging.StreamHandler[TextIO]):
    """A log of so many records per minute, the next of which says how many were left out; long ones are cut."""

    def __init__(
        self,
        most: int = _RECORDS_PER_MINUTE,
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream)
        self.most, self.now, self.minute, self.seen = most, now, 0, 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, if there is space for it."""
        minute, seen = int(self.now() // 60), self.seen
        if minute != self.minute:
            self.minute, self.seen = minute, 0
            if seen > self.most:
                _log.warning("%d records of the log were left out", seen - self.most)
        self.seen += 1
        if self.seen <= self.most:
            super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """The record in readable form; addresses and traces may be long."""
        return super().format(record)[:_LONGEST_RECORD]


_LOGS = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(levelname)s: %(message)s"}},
    "handlers": {"errors": {"()": ShortLog, "formatter": "plain"}},
    "root": {"level": "WARNING", "handlers": ["errors"]},
}
