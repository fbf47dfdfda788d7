"""Connections that are slow, many or too large do not keep raters from the annotation site."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from io import StringIO

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from nlgauge.annotate.connections import LARGEST_HEADERS, Connections, ShortLog, limited_server
from tests.conftest import ROOT

PROGRAM = ROOT / "benchmarks" / "annotate_hostile.py"
REQUEST = b"GET / HTTP/1.1\r\nHost: site\r\n\r\n"
HALF = REQUEST[:-2]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await PlainTextResponse("here")(scope, receive, send)


@contextmanager
def running(limits: Connections) -> Iterator[int]:
    """The port of a server with these limits."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = limited_server(app, limits, lifespan="off", log_level="error")
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(timeout=30)


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """The server's log replaces that of the tests only for a test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def opened(port: int, sent: bytes = b"") -> closing[socket.socket]:
    line = socket.create_connection(("127.0.0.1", port), timeout=10)
    line.sendall(sent)
    return closing(line)


def said(line: socket.socket) -> bytes:
    """What comes next; empty where the server has closed the connection."""
    try:
        return line.recv(65536)
    except ConnectionResetError:
        return b""


def is_answered(line: socket.socket) -> bool:
    """Whether a whole response comes next."""
    found = b""
    while not found.endswith(b"here") and (part := said(line)):
        found += part
    return b"200 OK" in found and found.endswith(b"here")


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET", HALF, b"POST / HTTP/1.1\r\nHost: site\r\nContent-Length: 9\r\n\r\nhalf", REQUEST[:-2] + b"X: y"],
)
def test_a_request_that_is_not_complete_in_time_is_ended(sent: bytes) -> None:
    with running(Connections(seconds=0.5)) as port, opened(port, sent) as line:
        began = time.monotonic()
        assert said(line) == b""
        assert 0.3 < time.monotonic() - began < 5


def test_bytes_one_by_one_do_not_extend_the_time() -> None:
    with running(Connections(seconds=1)) as port, opened(port, HALF) as line:
        began = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - began < 8:
                line.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() - began < 5


def test_a_connection_may_have_one_request_after_another() -> None:
    with running(Connections(seconds=1)) as port, opened(port) as line:
        for _ in range(4):
            line.sendall(REQUEST)
            assert is_answered(line)
            time.sleep(0.4)
        line.sendall(REQUEST + REQUEST + HALF)
        found = b""
        while part := said(line):
            found += part
        assert found.count(b"200 OK") == 2


def test_the_oldest_half_request_gives_way_and_complete_ones_stay() -> None:
    with running(Connections(most=4)) as port, opened(port, REQUEST) as kept:
        assert is_answered(kept)
        with opened(port, HALF) as first, opened(port, HALF) as second, opened(port, HALF) as third:
            time.sleep(0.3)
            with opened(port, REQUEST) as late:
                assert is_answered(late)
                assert said(first) == b""
                for line, rest in ((kept, REQUEST), (second, b"\r\n"), (third, b"\r\n")):
                    line.sendall(rest)
                    assert is_answered(line)


def test_an_address_closes_its_own_connections_first() -> None:
    """Linux has every address of 127.0.0.0/8 on the loopback."""
    if sys.platform != "linux":
        pytest.skip("needs a second address of the loopback")
    with running(Connections(most=4)) as port:
        rater = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=("127.0.0.9", 0))
        with closing(rater):
            rater.sendall(HALF)
            time.sleep(0.2)
            others = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(12)]
            for one in others:
                one.sendall(HALF)
            time.sleep(0.3)
            rater.sendall(b"\r\n")
            assert is_answered(rater)
            for one in others:
                one.close()


@pytest.mark.parametrize("pieces", [1, 50])
def test_headers_have_a_limit_however_they_arrive(pieces: int) -> None:
    large = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 1000) for number in range(4 * LARGEST_HEADERS // 1000))
    sent = HALF + large + b"\r\n"
    with running(Connections()) as port, opened(port) as line:
        with suppress(OSError):
            for start in range(0, len(sent), step := len(sent) // pieces):
                line.sendall(sent[start : start + step])
        assert b"200 OK" not in said(line)


def test_the_log_has_a_limit_per_minute_and_says_what_it_left_out() -> None:
    now = 60.0
    stream = StringIO()
    log, own = logging.getLogger("tests.short"), logging.getLogger("nlgauge.annotate")
    handler = ShortLog(3, stream, lambda: now)
    for one in (log, own):
        one.addHandler(handler)
    try:
        for number in range(10):
            log.warning("%d %s", number, "x" * 100_000)
        now = 120.0
        log.warning("later")
    finally:
        for one in (log, own):
            one.removeHandler(handler)
    lines = stream.getvalue().splitlines()
    assert [line[:1] for line in lines] == ["0", "1", "2", "7", "l"]
    assert lines[3] == "7 records of the log were left out"
    assert max(map(len, lines)) < 10_000


def test_raters_have_no_error_while_slow_connections_are_held_and_ids_invented() -> None:
    """`benchmarks/annotate_hostile.py` in short: more slow connections than the server may have files open."""
    options = ["--seconds", "2", "--raters", "10", "--slow", "300", "--descriptors", "330", "--invented", "60"]
    done = subprocess.run([sys.executable, str(PROGRAM), *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert int(found["open at once"]) > 250
    assert int(found["handed in"]) > 0
    assert found["errors of raters"] == "0"
    assert found["joined"] == "20, at most 20"
