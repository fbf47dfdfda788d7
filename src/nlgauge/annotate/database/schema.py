"""The tables of the annotation site, and connections to SQLite and PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection, Engine, make_url

from nlgauge.errors import DataError, OptionError

metadata = sa.MetaData()

_BUSY_SECONDS = 30
_CONNECT_SECONDS = 10
_ADDRESSES = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_MIGRATION_LOCK = 7_310_155


def _key() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, primary_key=True, autoincrement=True)


def _belongs(name: str, target: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, sa.ForeignKey(f"{target}.id"), nullable=nullable)


def _text(name: str, default: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default="0")


def _time(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=nullable)


study = sa.Table(
    "study",
    metadata,
    _key(),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    _text("form_json"),
    _text("settings_json"),
    _text("state", "open"),
    sa.Column("seed", sa.BigInteger, nullable=False),
    _text("secret"),
    _time("created_at"),
)

# `taken` counts a unit's assignments that are leased, submitted or valid; `shuffle` is its position in a random order.
unit = sa.Table(
    "unit",
    metadata,
    _key(),
    _belongs("study_id", "study"),
    _whole("position"),
    _whole("shuffle"),
    _text("kind", "normal"),
    _whole("taken"),
    _text("content_json"),
    _text("expected_json", "{}"),
    sa.Index("unit_need", "study_id", "kind", "taken", "shuffle"),
)

rater = sa.Table(
    "rater",
    metadata,
    _key(),
    _belongs("study_id", "study"),
    _text("pseudonym"),
    _text("hashed_id"),
    _text("platform", "direct"),
    _text("platform_json", "{}"),
    _text("state", "active"),
    sa.Column("qualified", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("order_seed", sa.BigInteger, nullable=False),
    _whole("tries"),
    _time("created_at"),
    _time("last_seen_at"),
    sa.UniqueConstraint("study_id", "hashed_id"),
    sa.UniqueConstraint("study_id", "pseudonym"),
)

# Ids of platforms, as hashes, that may join a study; a study without any takes all ids.
expected_rater = sa.Table(
    "expected_rater",
    metadata,
    sa.Column("study_id", sa.Integer, sa.ForeignKey("study.id"), primary_key=True, autoincrement=False),
    sa.Column("hashed_id", sa.Text, primary_key=True),
)

# `attempt` is above 0 only if a qualification unit is repeated.
assignment = sa.Table(
    "assignment",
    metadata,
    _key(),
    _belongs("study_id", "study"),
    _belongs("unit_id", "unit"),
    _belongs("rater_id", "rater"),
    _whole("attempt"),
    _text("state", "leased"),
    _time("leased_at"),
    _time("expires_at"),
    _time("submitted_at", nullable=True),
    _time("seconds", nullable=True),
    _whole("position"),
    sa.UniqueConstraint("unit_id", "rater_id", "attempt"),
    sa.Index("assignment_of_rater", "rater_id", "state"),
    sa.Index("assignment_due", "study_id", "state", "expires_at"),
)

# `fingerprint` is a hash of a free text without case, spaces and punctuation; empty for other answers.
answer = sa.Table(
    "answer",
    metadata,
    sa.Column("assignment_id", sa.Integer, sa.ForeignKey("assignment.id"), primary_key=True, autoincrement=False),
    sa.Column("item", sa.Text, primary_key=True),
    sa.Column("question", sa.Text, primary_key=True),
    _text("value_json"),
    _text("fingerprint", ""),
    _time("saved_at"),
    sa.Index(
        "answer_text",
        "fingerprint",
        postgresql_where=sa.text("fingerprint <> ''"),
        sqlite_where=sa.text("fingerprint <> ''"),
    ),
)

verdict = sa.Table(
    "verdict",
    metadata,
    _key(),
    _belongs("assignment_id", "assignment", nullable=True),
    _belongs("rater_id", "rater"),
    _text("rule"),
    _text("reason"),
    _time("at"),
    _time("overruled_at", nullable=True),
    sa.Column("overruled_why", sa.Text),
    sa.Index("verdict_of_rater", "rater_id"),
    sa.Index("verdict_of_assignment", "assignment_id"),
)

audit = sa.Table(
    "audit",
    metadata,
    _key(),
    _time("at"),
    _text("who"),
    _text("what"),
    _text("details_json", "{}"),
)

researcher = sa.Table(
    "researcher",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    _text("password_hash"),
    _time("created_at"),
)

researcher_session = sa.Table(
    "researcher_session",
    metadata,
    sa.Column("nonce", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, sa.ForeignKey("researcher.name"), nullable=False),
    _time("began_at"),
    _time("expires_at"),
    _time("ended_at", nullable=True),
    sa.Index("session_of_researcher", "name"),
)

login_attempt = sa.Table(
    "login_attempt",
    metadata,
    _key(),
    _text("name"),
    _text("address"),
    _time("at"),
    sa.Column("passed", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("login_of_name", "name", "at"),
    sa.Index("login_of_address", "address", "at"),
)


def connect(url: str) -> Engine:
    """An engine for `sqlite:///file`, a path of a SQLite file, or `postgresql://…`, tested before it is returned.

    SQLite runs with a write-ahead log, so that readers and the one writer do not wait for each other, and with
    synchronous=NORMAL: acknowledged writes survive any end of the process (kill -9 included), since the operating
    system has the pages. A power failure may undo the last writes, but never leaves a partial transaction. FULL would
    wait for the disk at every answer, which is slow on a busy disk; PostgreSQL does wait, for several writers at once.
    """
    place = _read_url(url)
    if place.drivername == "sqlite":
        engine = _sqlite_engine(place)
    else:
        waits = {} if "connect_timeout" in place.query else {"connect_timeout": _CONNECT_SECONDS}
        engine = sa.create_engine(place, pool_size=20, max_overflow=40, pool_pre_ping=True, connect_args=waits)
    with clear_errors(engine), engine.connect() as connection:
        connection.execute(sa.text("SELECT 1"))
    return engine


def is_sqlite(engine: Engine) -> bool:
    """Whether the database is a SQLite file, which has one writer at a time."""
    return engine.dialect.name == "sqlite"


def shown(engine: Engine) -> str:
    """The address of the database, without its password."""
    return engine.url.render_as_string(hide_password=True)


@contextmanager
def clear_errors(engine: Engine) -> Iterator[None]:
    """Translate errors of a database that cannot be reached, read or written, with advice."""
    try:
        yield
    except exc.TimeoutError as error:
        raise DataError(
            f"{shown(engine)}: no connection became free in time; expected fewer requests at once: try again"
        ) from error
    except exc.DBAPIError as error:
        if (meaning := _meaning(error)) is None:
            raise
        found = str(error.orig).strip().partition("\n")[0]
        raise DataError(f"{shown(engine)}: {found}; {meaning}") from error


class _Queue:
    """A fair lock: threads get it in the order of their requests."""

    def __init__(self) -> None:
        self._guard, self._busy, self._waiting = threading.Lock(), False, deque[threading.Lock]()

    def __enter__(self) -> None:
        with self._guard:
            if not self._busy:
                self._busy = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        gate.acquire()

    def __exit__(self, *_: object) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._busy = False


class Database:
    """Transactions. `now` is the clock; tests pass their own.

    On SQLite the writers of a process wait for a lock here, since the database itself waits by sleeping and retrying;
    writers of other processes wait there.
    """

    def __init__(self, engine: Engine, now: Callable[[], float] = time.time) -> None:
        self.engine, self.now = engine, now
        self._turn: AbstractContextManager[None] = _Queue() if is_sqlite(engine) else nullcontext()

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """An atomic transaction."""
        with clear_errors(self.engine), self._turn, self.engine.begin() as connection:
            yield connection

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """A read transaction that sees one state of the database and blocks no other."""
        options: dict[str, Any] = {"reads_only": True}
        if not is_sqlite(self.engine):
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with (
            clear_errors(self.engine),
            self.engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            yield connection


def find(connection: Connection, table: sa.Table, id: int, *, lock: bool = False) -> sa.Row[Any] | None:
    """The row with this id; with `lock`, it is held until the end of the transaction."""
    query = sa.select(table).where(table.c.id == id)
    return connection.execute(query.with_for_update(key_share=True) if lock else query).first()


def has(connection: Connection, *where: sa.ColumnElement[bool]) -> bool:
    """Whether a table has such a row."""
    return bool(connection.execute(sa.select(sa.exists().where(*where))).scalar())


def change(table: sa.Table, id: int, **values: Any) -> sa.Update:
    """The change of the row with this id."""
    return sa.update(table).where(table.c.id == id).values(**values)


def migrate(engine: Engine) -> None:
    """Bring an empty or older database to this version's tables; raises an error if it is newer.

    Servers that start at the same time wait for each other: the revision is read inside the transaction that changes
    it.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", (Path(__file__).parent / "migrations").as_posix().replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with clear_errors(engine), engine.begin() as connection:
        if not is_sqlite(engine):
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        found = MigrationContext.configure(connection).get_current_heads()
        if unknown := sorted(set(found) - known):
            raise DataError(
                f"{shown(engine)}: the tables have revision {', '.join(unknown)}; expected one of "
                f"{', '.join(sorted(known))}: install the newer NLGauge that made them"
            )
        config.attributes["connection"] = connection
        if found:
            command.upgrade(config, "head")
        else:
            metadata.create_all(connection)
            command.stamp(config, "head")


def _read_url(url: str) -> URL:
    if "://" not in url:
        url = f"sqlite:///{Path(url).expanduser()}"
    try:
        place = make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        found = f"the database '{url.partition(':')[0]}://…' cannot be read as an address"
        raise OptionError(f"{found}; expected {_ADDRESSES}") from error
    if place.drivername in ("postgresql", "postgres"):
        place = place.set(drivername="postgresql+psycopg")
    if place.drivername not in ("sqlite", "postgresql+psycopg"):
        raise OptionError(f"a database of the kind '{place.drivername}'; expected {_ADDRESSES}")
    if place.drivername == "sqlite" and place.database in (None, "", ":memory:"):
        raise OptionError("a SQLite database in memory; expected a file, since answers must outlive the server")
    return place


def _sqlite_engine(place: URL) -> Engine:
    engine = sa.create_engine(
        place,
        pool_size=20,
        max_overflow=40,
        connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
    )

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        for setting in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {setting}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("reads_only", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


_MEANINGS = (
    (("readonly", "read-only"), "expected to write: check the permissions, or whether it is a copy for reading"),
    (("unable to open",), "expected a file in a folder that exists and may be written: check the path"),
    (("database is locked",), f"another program held it for {_BUSY_SECONDS} seconds; expected to write: end it"),
    (("not a database", "malformed"), "expected a SQLite file that NLGauge made: check the path or take a backup"),
    (("disk is full", "no space left"), "expected free space: free some and try again; nothing was partly written"),
    (("no such table", 'relation "'), "expected the tables of the site: `nlgauge annotate new` makes them"),
    (
        ("connection", "could not translate", "failed to resolve", "password", "server closed", "terminating"),
        "expected a PostgreSQL server that answers: check that it runs, and host, port, user, password and database",
    ),
)


def _meaning(error: exc.DBAPIError) -> str | None:
    found = str(error.orig).lower()
    if not isinstance(error, exc.DatabaseError) or isinstance(error, exc.IntegrityError | exc.DataError):
        return None
    return next((meaning for signs, meaning in _MEANINGS if any(sign in found for sign in signs)), None)
