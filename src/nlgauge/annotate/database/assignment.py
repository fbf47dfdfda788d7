"""Assignment of units: the next unit for a rater is one that needs ratings most, in a random order per rater.

Everything here runs inside a transaction of the store. A unit's column `taken` counts its leased, submitted and valid
assignments, so that no lease reads more than a few rows of an index. Rows are locked in one order everywhere, so that
writers on PostgreSQL never deadlock: study, rater, assignments by id, units by id; a search for a unit never waits.
SQLite has one writer.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from nlgauge.annotate.database import schema
from nlgauge.annotate.database.records import (
    Assignment,
    Finished,
    Key,
    Lease,
    Rejected,
    Study,
    record,
    unit_of,
)
from nlgauge.annotate.units import Unit
from nlgauge.errors import DataError

GRACE_SECONDS = 120.0
SHUFFLE_ENDS = 2**31 - 1

_EXPIRED_AT_ONCE = 500


_mine, _unit = schema.assignment, schema.unit

# Built once: building a statement costs more than running it.
_HELD = (
    sa.select(
        _mine,
        *(_unit.c[name] for name in ("kind", "content_json", "expected_json")),
        *(
            schema.study.c[name].label(f"study_{name}")
            for name in ("name", "form_json", "settings_json", "state", "seed", "created_at")
        ),
    )
    .where(_mine.c.id == sa.bindparam("assignment"), _mine.c.rater_id == sa.bindparam("rater"))
    .where(_unit.c.id == _mine.c.unit_id, schema.study.c.id == _mine.c.study_id)
    .with_for_update(of=_mine, key_share=True)
)
_HANDED_IN = sa.case((sa.and_(_unit.c.kind == "normal", _mine.c.submitted_at.is_not(None)), 1))
_WORK_SO_FAR = sa.select(sa.func.count(), sa.func.count(_HANDED_IN)).where(
    _mine.c.rater_id == sa.bindparam("rater"), _mine.c.unit_id == _unit.c.id, _unit.c.kind != "qualification"
)
_LEVEL = sa.select(sa.func.min(_unit.c.taken)).where(
    _unit.c.study_id == sa.bindparam("study"),
    _unit.c.kind == sa.bindparam("kind"),
    _unit.c.taken > sa.bindparam("above"),
    _unit.c.taken < sa.bindparam("below"),
)
_OPEN = sa.select(_mine.c.id).where(
    _mine.c.id == sa.bindparam("assignment"),
    _mine.c.rater_id == sa.bindparam("rater"),
    _mine.c.state == "leased",
    _mine.c.expires_at >= sa.bindparam("at"),
)


class LeasesDue(Exception):
    """Leases of the study have expired and should be ended first."""


class OthersTaking(Exception):
    """All remaining units are locked by other transactions; retry this one."""


def point(order_seed: int, position: int, purpose: str = "unit") -> int:
    """A number from 0 to 2^31 - 2 from the rater's seed and the number of earlier assignments."""
    digest = hashlib.blake2b(f"{order_seed}:{purpose}:{position}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % SHUFFLE_ENDS


def is_turn(order_seed: int, position: int, every: int, purpose: str) -> bool:
    """Whether the assignment at this position is the one of its block of `every` that is gold (or for attention)."""
    block = position // every
    return position % every == point(order_seed, block, purpose) % every


def lease(
    connection: Connection, study: Study, rater_id: int, at: float, *, may_expire: bool
) -> Lease | Finished | Rejected:
    """The next work of a rater; raises `LeasesDue`, or `OthersTaking` while other transactions hold all candidates."""
    state = connection.execute(
        sa.select(schema.study.c.state).where(schema.study.c.id == study.id).with_for_update(read=True)
    ).scalar_one()
    rater = lock_rater(connection, rater_id)
    if rater is None or rater.study_id != study.id:
        raise DataError(f"no rater {rater_id} in study '{study.name}'; expected one who has joined it")
    if rater.state == "rejected":
        verdict = standing_verdict(connection, rater.id)
        return Rejected(verdict.rule, verdict.reason) if verdict else Rejected("manual", "rejected by the researcher")
    settings, (position, done) = study.settings, work_so_far(connection, rater.id)
    if state == "closed":
        return Finished("closed", done, settings.completion_code)
    if may_expire and schema.has(connection, _is_due(study.id, at)):
        raise LeasesDue
    expires_at = at + study.lease_seconds
    row = open_lease(connection, rater.id)
    if row is not None and at > row.expires_at:
        row = _lease_again(connection, row.id, expires_at)
    if row is None and settings.max_units_per_rater is not None and done >= settings.max_units_per_rater:
        return _finish(connection, rater, Finished("limit", done, settings.completion_code), at)
    if row is None and (old := lapsed(connection, rater, settings.raters)) is not None:
        change_taken(connection, [old.unit_id], 1)
        row = _lease_again(connection, old.id, expires_at)
    if row is None:
        unit, attempt = _pick(connection, study, rater, position)
        if unit is None:
            others = (_mine.c.study_id == study.id, _mine.c.state == "leased", _mine.c.rater_id != rater.id)
            later = schema.has(connection, *others)
            return _finish(connection, rater, Finished("done", done, settings.completion_code, later), at)
        change_taken(connection, [unit], 1)
        row = _insert(connection, study.id, unit, rater.id, position, at, expires_at, attempt)
    state = "active" if rater.state == "finished" else rater.state
    connection.execute(schema.change(schema.rater, rater.id, last_seen_at=at, state=state))
    content = unit_of(connection.execute(sa.select(_unit).where(_unit.c.id == row.unit_id)).one())
    return Lease(record(Assignment, row), content, answers_of(connection, row.id), done)


def take(
    connection: Connection, study: Study, rater_id: int, unit_id: int, leased_at: float, expires_at: float
) -> Assignment:
    """The rater's assignment of this unit, leased if it is new or expired."""
    lock_rater(connection, rater_id)
    query = sa.select(_mine).where(_mine.c.unit_id == unit_id, _mine.c.rater_id == rater_id, _mine.c.attempt == 0)
    row = connection.execute(query.with_for_update(key_share=True)).first()
    if row is not None and row.state != "expired":
        return record(Assignment, row)
    change_taken(connection, [unit_id], 1)
    if row is not None:
        return record(Assignment, _lease_again(connection, row.id, expires_at))
    position = work_so_far(connection, rater_id)[0]
    return record(Assignment, _insert(connection, study.id, unit_id, rater_id, position, leased_at, expires_at))


def _insert(
    connection: Connection,
    study_id: int,
    unit_id: int,
    rater_id: int,
    position: int,
    leased_at: float,
    expires_at: float,
    attempt: int = 0,
) -> Row[Any]:
    values = {"study_id": study_id, "unit_id": unit_id, "rater_id": rater_id, "attempt": attempt, "position": position}
    made = sa.insert(schema.assignment).values(**values, leased_at=leased_at, expires_at=expires_at)
    return connection.execute(made.returning(schema.assignment)).one()


def held(connection: Connection, assignment_id: int, rater_id: int) -> tuple[Row[Any], Study, Unit]:
    """An assignment of this rater, locked, with its study and its unit.

    For other raters' assignments, the error is the same as for missing ones.
    """
    row = connection.execute(_HELD, {"assignment": assignment_id, "rater": rater_id}).first()
    if row is None:
        raise DataError(f"no assignment {assignment_id} of this rater; expected the one that they were given")
    return row, record(Study, row, "study_"), unit_of(row)


def require_leased(row: Row[Any], at: float) -> None:
    """Raise an error if an assignment is closed for answers."""
    if row.state in ("submitted", "valid", "rejected"):
        ended = "rejected" if row.state == "rejected" else "submitted"
        raise DataError(f"assignment {row.id} was {ended}; expected an open one: continue with the next")
    if row.state == "expired" or at > row.expires_at + GRACE_SECONDS:
        raise DataError(f"the time for assignment {row.id} has expired; expected an open one: open your link again")


def answers_of(connection: Connection, assignment_id: int) -> dict[Key, Any]:
    """The answers of an assignment, by (item, question)."""
    table = schema.answer
    query = sa.select(table.c.item, table.c.question, table.c.value_json).where(table.c.assignment_id == assignment_id)
    rows = connection.execute(query.order_by(table.c.saved_at, table.c.item, table.c.question))
    return {(item, question): msgspec.json.decode(value) for item, question, value in rows}


def has_qualification(connection: Connection, study_id: int) -> bool:
    """Whether raters of the study must qualify first."""
    return schema.has(connection, _unit.c.study_id == study_id, _unit.c.kind == "qualification")


def standing_verdict(connection: Connection, rater_id: int) -> Row[Any] | None:
    """The latest verdict about a rater that has not been overruled."""
    table = schema.verdict
    query = sa.select(table).where(
        table.c.rater_id == rater_id, table.c.assignment_id.is_(None), table.c.overruled_at.is_(None)
    )
    return connection.execute(query.order_by(table.c.id.desc()).limit(1)).first()


def _pick(connection: Connection, study: Study, rater: Row[Any], position: int) -> tuple[int | None, int]:
    """The rater's next unit, and their number of earlier tries of it; qualification units alternate."""
    if rater.state != "qualifying":
        return pick_unit(connection, study, rater, position), 0
    query = sa.select(_unit.c.id).where(_unit.c.study_id == study.id, _unit.c.kind == "qualification")
    units = connection.execute(query.order_by(_unit.c.position)).scalars().all()
    return (units[rater.tries % len(units)], rater.tries // len(units)) if units else (None, 0)


def _lease_again(connection: Connection, assignment_id: int, expires_at: float) -> Row[Any]:
    change = schema.change(_mine, assignment_id, state="leased", expires_at=expires_at)
    return connection.execute(change.returning(_mine)).one()


def _finish(connection: Connection, rater: Row[Any], finished: Finished, at: float) -> Finished:
    state = "finished" if rater.state == "active" else rater.state
    connection.execute(schema.change(schema.rater, rater.id, last_seen_at=at, state=state))
    return finished


def _is_due(study_id: int, at: float) -> sa.ColumnElement[bool]:
    """Whether a lease of the study has expired, grace time included."""
    mine = _mine.c
    return sa.and_(mine.study_id == study_id, mine.state == "leased", mine.expires_at < at - GRACE_SECONDS)


def expire_due(connection: Connection, study_id: int, at: float) -> int:
    """End the expired leases and free their units; assignments and answers are kept."""
    query = sa.select(_mine.c.id, _mine.c.unit_id).where(_is_due(study_id, at)).order_by(_mine.c.id)
    rows = connection.execute(query.limit(_EXPIRED_AT_ONCE).with_for_update(skip_locked=True, key_share=True)).all()
    set_state(connection, [row.id for row in rows], "expired")
    change_taken(connection, [row.unit_id for row in rows], -1)
    return len(rows)


def set_state(connection: Connection, assignments: Sequence[int], state: str) -> None:
    """Give assignments a state; the caller has locked them."""
    for start in range(0, len(assignments), _EXPIRED_AT_ONCE):
        part = assignments[start : start + _EXPIRED_AT_ONCE]
        connection.execute(sa.update(_mine).where(_mine.c.id.in_(part)).values(state=state))


def change_taken(connection: Connection, units: Iterable[int], by: int) -> None:
    """Change the counters of units, in the order of their ids, by so much for each mention of a unit."""
    for unit, count in sorted(Counter(units).items()):
        connection.execute(schema.change(_unit, unit, taken=_unit.c.taken + by * count))


def lock_rater(connection: Connection, rater_id: int) -> Row[Any] | None:
    """The rater's row, held until the end of the transaction."""
    return schema.find(connection, schema.rater, rater_id, lock=True)


def locked(connection: Connection, *where: sa.ColumnElement[bool]) -> Sequence[Row[Any]]:
    """Some assignments, held in the order of their ids until the end of the transaction."""
    query = sa.select(_mine).where(*where).order_by(_mine.c.id)
    return connection.execute(query.with_for_update(key_share=True)).all()


def open_lease(connection: Connection, rater_id: int) -> Row[Any] | None:
    """The assignment that the rater is working on, locked, so that it cannot expire while it is leased again."""
    query = sa.select(_mine).where(_mine.c.rater_id == rater_id, _mine.c.state == "leased").order_by(_mine.c.id)
    return connection.execute(query.limit(1).with_for_update(key_share=True)).first()


def work_so_far(connection: Connection, rater_id: int) -> tuple[int, int]:
    """The rater's number of assignments, without qualification, and of submitted normal units."""
    position, done = connection.execute(_WORK_SO_FAR, {"rater": rater_id}).one()
    return int(position), int(done)


def lapsed(connection: Connection, rater: Row[Any], raters: int) -> Row[Any] | None:
    """The rater's latest expired assignment whose unit still needs ratings, with its unit locked.

    It is resumed with its answers: the rater never submitted it, and so has not rated the unit.
    """
    values = {"rater": rater.id} if rater.state == "qualifying" else {"rater": rater.id, "raters": raters}
    return connection.execute(_lapsed_statement(rater.state == "qualifying"), values).first()


@cache
def _lapsed_statement(qualifying: bool) -> sa.Select[Any]:
    room = _unit.c.kind == "qualification"
    if not qualifying:
        needed = sa.and_(_unit.c.kind == "normal", _unit.c.taken < sa.bindparam("raters"))
        room = sa.or_(_unit.c.kind.in_(("gold", "attention")), needed)
    return (
        sa.select(_mine)
        .join(_unit, _unit.c.id == _mine.c.unit_id)
        .where(_mine.c.rater_id == sa.bindparam("rater"), _mine.c.state == "expired", room)
        .order_by(_mine.c.id.desc())
        .limit(1)
        .with_for_update(skip_locked=True, key_share=True)
    )


def pick_unit(connection: Connection, study: Study, rater: Row[Any], position: int) -> int | None:
    """The next unit for an active rater, locked: gold or attention if one is due, else one that needs ratings.

    Among units that the rater has not had, one with the fewest assignments; among those, the first at or after a random
    point of a shuffled ring, with a new point for each assignment of each rater.
    """
    settings = study.settings
    for kind, every in (("attention", settings.attention_every), ("gold", settings.gold_every)):
        if is_turn(rater.order_seed, position, every, kind):
            found = _needed(connection, study.id, kind, rater, position)
            if found is not None:
                return found
    return _needed(connection, study.id, "normal", rater, position, settings.raters)


def _needed(
    connection: Connection, study_id: int, kind: str, rater: Row[Any], position: int, below: int = SHUFFLE_ENDS
) -> int | None:
    """A unit, locked. Units locked by other transactions are skipped, never waited for.

    PostgreSQL keeps the lock of a unit that turned out to be taken when it was read again, so that two waiting
    transactions could deadlock.
    """
    start, of_kind = point(rater.order_seed, position), {"study": study_id, "kind": kind}
    for lock in (True, False):
        level: int | None = -1
        while (level := connection.execute(_LEVEL, {**of_kind, "above": level, "below": below}).scalar()) is not None:
            values = {**of_kind, "level": level, "rater": rater.id, "start": start}
            for after in (True, False):
                found = connection.execute(_first_statement(after, lock), values).scalar()
                if found is not None and not lock:
                    raise OthersTaking
                if found is not None:
                    return int(found)
    return None


@cache
def _first_statement(after: bool, lock: bool) -> sa.Select[Any]:
    start, unit = sa.bindparam("start", type_=sa.Integer), _unit.c
    had = sa.exists().where(_mine.c.unit_id == unit.id, _mine.c.rater_id == sa.bindparam("rater"))
    query = (
        sa.select(unit.id)
        .where(
            unit.study_id == sa.bindparam("study"),
            unit.kind == sa.bindparam("kind"),
            unit.taken == sa.bindparam("level"),
            unit.shuffle >= start if after else unit.shuffle < start,
            ~had,
        )
        .order_by(unit.shuffle)
        .limit(1)
    )
    return query.with_for_update(of=_unit, skip_locked=True, key_share=True) if lock else query


def is_open(connection: Connection, assignment_id: int, rater_id: int, at: float) -> bool:
    """Whether a rater may work on an assignment; those of rejected raters and closed studies have expired."""
    return connection.execute(_OPEN, {"assignment": assignment_id, "rater": rater_id, "at": at}).first() is not None
