"""Running the annotation site in one process, with all checks before the start."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from nlgauge.annotate.database import schema
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.pages.signing import entrance_address, link_address, read_secret, sign_link
from nlgauge.annotate.settings import PLATFORMS
from nlgauge.errors import OptionError, argument

if TYPE_CHECKING:
    import uvicorn

DATABASE_VARIABLE = "NLGAUGE_DATABASE"

_LISTEN_ERRORS = {
    errno.EADDRINUSE: "port {port} is in use; stop the other program, or choose another with {name}",
    errno.EACCES: "port {port} is reserved; expected one from 1024 on: choose another with {name}",
    errno.EADDRNOTAVAIL: (
        "the host '{host}' is not an address of this machine; expected 127.0.0.1, 0.0.0.0 or one of its own"
    ),
}
_NOT_LISTENING = "cannot listen on {host}, port {port}: {reason}; expected a host and a port of this machine"
_GRACEFUL_SECONDS = 10
_THREADS = 8


def database_address(given: str = "") -> str:
    """The database to use: the given one, else that of the environment, else a file in the working folder."""
    return given or os.environ.get(DATABASE_VARIABLE, "") or "annotate.db"


@contextmanager
def opened_store(database: str, *, must_exist: bool = True) -> Iterator[Store]:
    """The store of a database with the tables of this version; raises an error if it cannot be read and written.

    With `must_exist`, a missing SQLite file is an error.
    """
    place = _sqlite_file(database)
    if must_exist and place is not None and not place.exists():
        raise OptionError(
            f"no database {place}; expected one that `nlgauge annotate new` has made: name it with "
            f"{argument('database')}, or set "
            f"{DATABASE_VARIABLE}"
        )
    engine = schema.connect(database)
    try:
        schema.migrate(engine)
        _check_writable(engine)
        yield Store(engine)
    finally:
        engine.dispose()


def secret_file(database: str) -> Path:
    """Where the secret that signs links is kept: beside a SQLite file, else in the working folder."""
    place = _sqlite_file(database)
    return Path("annotate.secret") if place is None else place.with_name(f"{place.name}.secret")


def rater_links(database: str, study: str, count: int, *, base_url: str, days: float) -> list[str]:
    """Signed personal links; each is valid for one rater and expires after some days."""
    if count < 1 or not days > 0:
        raise OptionError(f"{count} links for {days:g} days; expected at least 1, and more than 0 days")
    secret = read_secret(secret_file(database))
    return [link_address(base_url, sign_link(secret, study, days=days)) for _ in range(count)]


def serve(
    database: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    base_url: str = "",
    log_level: str = "warning",
    say: Callable[[str], None] = print,
) -> None:
    """Run the site until Ctrl-C or the signal TERM; open requests finish first.

    `base_url` is the address by which raters reach the site if there is a proxy. Port 0 means any free port.
    Several servers may share a database; each is one process, since a SQLite file has one writer anyway.
    """
    from nlgauge.annotate.connections import Connections, limited_server
    from nlgauge.annotate.pages.app import AppSettings, create_app

    with opened_store(database) as store, _listening(host, port) as listener:
        settings = AppSettings(secret_file=secret_file(database), base_url=base_url)
        app = create_app(store, settings)
        named = f"[{host}]" if ":" in host else host
        address = base_url or f"http://{named}:{listener.getsockname()[1]}"
        for line in _welcome(store, address, settings.key()):
            say(line)
        server = limited_server(
            app,
            Connections(),
            log_level=log_level,
            server_header=False,
            proxy_headers=bool(base_url),
            timeout_graceful_shutdown=_GRACEFUL_SECONDS,
        )
        with _quiet_signals():
            asyncio.run(_run(server, listener))
        say("stopped; every answer that was acknowledged is in the database")


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve with a few threads: more would only wait for the interpreter lock and the single writer."""
    from anyio.to_thread import current_default_thread_limiter

    current_default_thread_limiter().total_tokens = _THREADS
    await server.serve(sockets=[listener])


def _welcome(store: Store, address: str, secret: str) -> Iterator[str]:
    from nlgauge.annotate.pages.security import allows

    yield f"for researchers: {address.rstrip('/')}/"
    for study in store.studies():
        if study.state == "open":
            if allows(study, "direct"):
                links = f"nlgauge annotate links {study.name} --url {address}"
                yield f"for raters of '{study.name}': make links with `{links}`"
            for platform in PLATFORMS:
                if platform != "direct" and allows(study, platform):
                    entrance = entrance_address(address, study.name, platform, secret)
                    yield f"for raters of '{study.name}' from {platform}: {entrance}"


def _sqlite_file(database: str) -> Path | None:
    """The file of a SQLite database; none for another kind."""
    if "://" not in database:
        return Path(database).expanduser()
    name = sa.make_url(database).database if database.startswith("sqlite:") else None
    return None if name is None or name.startswith("file:") else Path(name)


def _check_writable(engine: Engine) -> None:
    """Raise an error for a read-only database, by an empty write."""
    table = schema.study
    with schema.clear_errors(engine), engine.begin() as connection:
        connection.execute(sa.update(table).where(table.c.id < 0).values(state=table.c.state))


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """A listening socket, so that no other program can take the port between the check and the start."""
    if not 0 <= port <= 65535:
        raise OptionError(f"port {port}; expected 1 to 65535, or 0 for any free port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except socket.gaierror as error:
        raise OptionError(f"the host '{host}' is unknown ({error.strerror}); expected one of this machine") from error
    except OSError as error:
        text = _LISTEN_ERRORS.get(error.errno or 0, _NOT_LISTENING)
        reason, name = error.strerror or error, argument("port")
        raise OptionError(text.format(host=host, port=port, reason=reason, name=name)) from error
    with listener:
        yield listener


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """Ignore the signal that the server raises again after it has stopped."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
