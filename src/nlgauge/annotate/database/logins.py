"""Researchers: passwords (argon2, and waits that grow with failures), sessions, and the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from nlgauge.annotate.database import schema
from nlgauge.annotate.database.records import AuditEntry, LoginOutcome, encode, record
from nlgauge.errors import OptionError

FEWEST_CHARACTERS = 10

_WINDOW_SECONDS = 3600.0
_BY_NAME_AND_SOURCE = (3, 60.0)
_BY_NAME = (30, 60.0)
_BY_ADDRESS = (10, 900.0)
_LONGEST_PASSWORD = 1000
_hasher = PasswordHasher()


class Researchers(schema.Database):
    """Researchers in the store. A session is stored in the database, so that it ends on every server at logout or when
    the password changes.
    """

    def insert(self, table: sa.Table) -> Any:
        """An insert that supports `on_conflict`."""
        return (sqlite.insert if schema.is_sqlite(self.engine) else postgresql.insert)(table)

    def set_password(self, name: str, password: str, who: str = "cli") -> None:
        """Create a researcher, or set a new password, which ends their sessions."""
        if not name or not name.isprintable() or len(name) > 200:
            raise OptionError(f"a researcher named {name[:60]!r}; expected 1 to 200 printable characters")
        if not FEWEST_CHARACTERS <= len(password) <= _LONGEST_PASSWORD:
            raise OptionError(
                f"a password of {len(password)} characters; expected {FEWEST_CHARACTERS} to {_LONGEST_PASSWORD}"
            )
        hashed = _hasher.hash(password)
        with self._write() as connection:
            made = self.insert(schema.researcher).values(name=name, password_hash=hashed, created_at=self.now())
            changed = {"password_hash": hashed}
            connection.execute(made.on_conflict_do_update(index_elements=["name"], set_=changed))
            self._end_sessions(connection, schema.researcher_session.c.name == name)
            self._note(connection, who, "set password", {"researcher": name})

    def check_login(self, name: str, password: str, address: str, *, browser: str = "") -> LoginOutcome:
        """Whether the password is right; after failures only after a growing wait.

        `browser` names one in which this researcher has logged in before: failures of others do not count there.
        """
        name = name.encode(errors="replace").decode().replace("\0", "?")[:200]
        with self._write() as connection:
            wait, attempt = begin_attempt(connection, name, address, browser, self.now())
            query = sa.select(schema.researcher.c.password_hash).where(schema.researcher.c.name == name)
            hashed = connection.execute(query).scalar()
        if wait > 0:
            return LoginOutcome(passed=False, wait_seconds=wait)
        if not is_right(hashed, password):
            return LoginOutcome(passed=False)
        with self._write() as connection:
            connection.execute(schema.change(schema.login_attempt, attempt, passed=True))
            self._note(connection, name, "log in", {"address": address})
        return LoginOutcome(passed=True)

    def begin_session(self, name: str, nonce: str, expires_at: float) -> None:
        """Record a login; the nonce identifies the session."""
        values = {"nonce": nonce, "name": name, "began_at": self.now(), "expires_at": expires_at}
        with self._write() as connection:
            connection.execute(sa.insert(schema.researcher_session).values(**values))

    def has_session(self, name: str, nonce: str) -> bool:
        """Whether the session has begun and not ended."""
        table = schema.researcher_session.c
        is_open = (table.nonce == nonce, table.name == name, table.ended_at.is_(None), table.expires_at >= self.now())
        with self._read() as connection:
            return schema.has(connection, *is_open)

    def end_session(self, nonce: str) -> None:
        """Log a researcher out on every server, even with a copied cookie."""
        with self._write() as connection:
            self._end_sessions(connection, schema.researcher_session.c.nonce == nonce)

    def audit(self, who: str, what: str, details: Mapping[str, Any]) -> None:
        """Add an entry to the audit log."""
        with self._write() as connection:
            self._note(connection, who, what, details)

    def audit_log(self) -> list[AuditEntry]:
        """All entries of the audit log, oldest first."""
        with self._read() as connection:
            rows = connection.execute(sa.select(schema.audit).order_by(schema.audit.c.id))
            return [record(AuditEntry, row) for row in rows]

    def _end_sessions(self, connection: Connection, which: sa.ColumnElement[bool]) -> None:
        table = schema.researcher_session
        connection.execute(sa.update(table).where(which, table.c.ended_at.is_(None)).values(ended_at=self.now()))

    def _note(self, connection: Connection, who: str, what: str, details: Mapping[str, Any]) -> None:
        values = {"at": self.now(), "who": who, "what": what, "details_json": encode(details)}
        connection.execute(sa.insert(schema.audit).values(**values))


def is_right(password_hash: str | None, password: str) -> bool:
    """Whether the password matches; takes the same time for an unknown researcher."""
    if len(password) > _LONGEST_PASSWORD:
        return False
    try:
        return _hasher.verify(password_hash or _nobody(), password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


def begin_attempt(connection: Connection, name: str, address: str, browser: str, at: float) -> tuple[float, int]:
    """The seconds to wait, or the id of the attempt, which counts as failed until it is marked as passed.

    Attempts are counted before the password is checked, in serial transactions, so that parallel attempts gain
    nothing. Refused attempts do not count. A known browser waits for its own failures alone, so that nobody else can
    lock a researcher out; elsewhere the failures of the address count, for this name and for all, and many failures
    from anywhere for this name.
    """
    table = schema.login_attempt
    if connection.dialect.name != "sqlite":
        connection.execute(sa.text("LOCK TABLE login_attempt IN SHARE ROW EXCLUSIVE MODE"))
    source = f"browser {browser}" if browser else address
    mine = [table.c.name == name, table.c.address == source]
    since = connection.execute(sa.select(sa.func.max(table.c.id)).where(*mine, table.c.passed)).scalar() or 0
    waits = [_wait(connection, [*mine, table.c.id > since], at, *_BY_NAME_AND_SOURCE)]
    if not browser:
        waits.append(_wait(connection, [table.c.name == name], at, *_BY_NAME))
        waits.append(_wait(connection, [table.c.address == address], at, *_BY_ADDRESS))
    if max(waits) > 0:
        return max(waits), 0
    made = sa.insert(table).values(name=name, address=source, at=at).returning(table.c.id)
    return 0.0, int(connection.execute(made).scalar_one())


def _wait(connection: Connection, whose: list[sa.ColumnElement[bool]], at: float, free: int, longest: float) -> float:
    """0 for the first failures of an hour, then 1, 2, 4, … seconds from the last one, even after clock changes."""
    table = schema.login_attempt.c
    query = sa.select(sa.func.count(), sa.func.max(table.at)).where(
        *whose, table.at > at - _WINDOW_SECONDS, ~table.passed
    )
    failures, last = connection.execute(query).one()
    if failures < free:
        return 0.0
    held: float = min(longest, 2.0 ** min(failures - free, 20))
    return min(held, max(0.0, float(last) + held - at))


@lru_cache(maxsize=1)
def _nobody() -> str:
    return _hasher.hash("nobody has this password")
