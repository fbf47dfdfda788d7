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
from dataclasses import dataclass
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
    form_of,
    record,
    settings_of,
    unit_of,
)
from nlgauge.annotate.units import Unit
from nlgauge.errors import DataError

GRACE_SECONDS = 120.0
SHUFFLE_ENDS = 2**31 - 1

_EXPIRED_AT_ONCE = 500


def _held_statement() -> sa.Select[Any]:
    """Built once: building a statement costs more than running it."""
    mine, unit, study = schema.assignment, schema.unit, schema.study
    return (
        sa.select(
            mine,
            *(unit.c[name] for name in ("kind", "content_json", "expected_json")),
            *(study.c[name] for name in ("form_json", "settings_json")),
            *(study.c[name].label(f"study_{name}") for name in ("name", "state", "seed", "created_at")),
        )
        .where(mine.c.id == sa.bindparam("assignment"), mine.c.rater_id == sa.bindparam("rater"))
        .where(unit.c.id == mine.c.unit_id, study.c.id == mine.c.study_id)
        .with_for_update(of=mine, key_share=True)
    )


def _work_statement() -> sa.Select[int, int]:
    mine, unit = schema.assignment.c, schema.unit.c
    handed_in = sa.and_(unit.kind == "normal", mine.submitted_at.is_not(None))
    return sa.select(sa.func.count(), sa.func.count(sa.case((handed_in, 1)))).where(
        mine.rater_id == sa.bindparam("rater"), mine.unit_id == unit.id, unit.kind != "qualification"
    )


def _level_statement() -> sa.Select[Any]:
    table = schema.unit.c
    return sa.select(sa.func.min(table.taken)).where(
        table.study_id == sa.bindparam("study"),
        table.kind == sa.bindparam("kind"),
        table.taken > sa.bindparam("above"),
        table.taken < sa.bindparam("below"),
    )


def _open_statement() -> sa.Select[int]:
    mine = schema.assignment.c
    return sa.select(mine.id).where(
        mine.id == sa.bindparam("assignment"),
        mine.rater_id == sa.bindparam("rater"),
        mine.state == "leased",
        mine.expires_at >= sa.bindparam("at"),
    )


_OPEN = _open_statement()
_LEVEL = _level_statement()
_HELD = _held_statement()
_WORK_SO_FAR = _work_statement()


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
) -> Lease | Finished | Rejected | None:
    """The next work of a rater. None if leases have expired and should be ended first.

    Raises `OthersTaking` while other transactions hold all candidates.
    """
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
    if may_expire and due(connection, study.id, at):
        return None
    expires_at = at + study.lease_seconds
    row = open_lease(connection, rater.id)
    if row is not None and at > row.expires_at:
        row = _lease_again(connection, row.id, expires_at)
    if row is None and settings.max_units_per_rater is not None and done >= settings.max_units_per_rater:
        return _finish(connection, rater, Finished("limit", done, settings.completion_code), at)
    if row is None and (old := lapsed(connection, rater, settings.raters)) is not None:
        take_units(connection, [old.unit_id])
        row = _lease_again(connection, old.id, expires_at)
    if row is None:
        unit, attempt = _pick(connection, study, rater, position)
        if unit is None:
            later = others_working(connection, study.id, rater.id)
            return _finish(connection, rater, Finished("done", done, settings.completion_code, later), at)
        take_units(connection, [unit])
        row = _insert(connection, study.id, unit, rater.id, position, at, expires_at, attempt)
    _touch(connection, rater.id, at, "active" if rater.state == "finished" else rater.state)
    return Lease(record(Assignment, row), unit_at(connection, row.unit_id), answers_of(connection, row.id), done)


def take(
    connection: Connection, study: Study, rater_id: int, unit_id: int, leased_at: float, expires_at: float
) -> Assignment:
    """The rater's assignment of this unit, leased if it is new or expired."""
    table = schema.assignment
    lock_rater(connection, rater_id)
    query = sa.select(table).where(table.c.unit_id == unit_id, table.c.rater_id == rater_id, table.c.attempt == 0)
    row = connection.execute(query.with_for_update(key_share=True)).first()
    if row is not None and row.state != "expired":
        return record(Assignment, row)
    take_units(connection, [unit_id])
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


@dataclass(frozen=True)
class Held:
    """An assignment with its study and its unit."""

    row: Row[Any]
    study: Study
    unit: Unit


def held(connection: Connection, assignment_id: int, rater_id: int) -> Held:
    """An assignment of this rater, locked; for other raters' assignments, the error is the same as for missing ones."""
    row = connection.execute(_HELD, {"assignment": assignment_id, "rater": rater_id}).first()
    if row is None:
        raise DataError(f"no assignment {assignment_id} of this rater; expected the one that they were given")
    study = Study(
        row.study_id,
        row.study_name,
        form_of(row.form_json),
        settings_of(row.settings_json),
        row.study_state,
        row.study_seed,
        row.study_created_at,
    )
    return Held(row, study, unit_of(row))


def require_leased(row: Row[Any], at: float) -> None:
    """Raise an error if an assignment is closed for answers."""
    if row.state in ("submitted", "valid"):
        raise DataError(f"assignment {row.id} was submitted; expected an open one: continue with the next")
    if row.state == "rejected":
        raise DataError(f"assignment {row.id} was rejected; expected an open one: continue with the next")
    if row.state == "expired" or at > row.expires_at + GRACE_SECONDS:
        raise DataError(f"the time for assignment {row.id} has expired; expected an open one: open your link again")


def answers_of(connection: Connection, assignment_id: int) -> dict[Key, Any]:
    """The answers of an assignment, by (item, question)."""
    table = schema.answer
    query = sa.select(table.c.item, table.c.question, table.c.value_json).where(table.c.assignment_id == assignment_id)
    rows = connection.execute(query.order_by(table.c.saved_at, table.c.item, table.c.question))
    return {(item, question): msgspec.json.decode(value) for item, question, value in rows}


def unit_at(connection: Connection, unit_id: int) -> Unit:
    """The unit with this id."""
    return unit_of(connection.execute(sa.select(schema.unit).where(schema.unit.c.id == unit_id)).one())


def has_qualification(connection: Connection, study_id: int) -> bool:
    """Whether raters of the study must qualify first."""
    table = schema.unit.c
    query = sa.select(table.id).where(table.study_id == study_id, table.kind == "qualification")
    return connection.execute(query.limit(1)).first() is not None


def standing_verdict(connection: Connection, rater_id: int) -> Row[Any] | None:
    """The latest verdict about a rater that has not been overruled."""
    table = schema.verdict
    query = sa.select(table).where(
        table.c.rater_id == rater_id, table.c.assignment_id.is_(None), table.c.overruled_at.is_(None)
    )
    return connection.execute(query.order_by(table.c.id.desc()).limit(1)).first()


def _pick(connection: Connection, study: Study, rater: Row[Any], position: int) -> tuple[int | None, int]:
    if rater.state == "qualifying":
        return qualification_unit(connection, study.id, rater.tries) or (None, 0)
    return pick_unit(connection, study, rater, position), 0


def _lease_again(connection: Connection, assignment_id: int, expires_at: float) -> Row[Any]:
    table = schema.assignment
    change = sa.update(table).where(table.c.id == assignment_id).values(state="leased", expires_at=expires_at)
    return connection.execute(change.returning(table)).one()


def _finish(connection: Connection, rater: Row[Any], finished: Finished, at: float) -> Finished:
    _touch(connection, rater.id, at, "finished" if rater.state == "active" else rater.state)
    return finished


def _touch(connection: Connection, rater_id: int, at: float, state: str) -> None:
    table = schema.rater
    connection.execute(sa.update(table).where(table.c.id == rater_id).values(last_seen_at=at, state=state))


def due(connection: Connection, study_id: int, at: float) -> bool:
    """Whether a lease of the study has expired, grace time included."""
    table = schema.assignment.c
    query = sa.select(table.id).where(
        table.study_id == study_id, table.state == "leased", table.expires_at < at - GRACE_SECONDS
    )
    return connection.execute(query.limit(1)).first() is not None


def expire_due(connection: Connection, study_id: int, at: float) -> int:
    """End the expired leases and free their units; assignments and answers are kept."""
    table = schema.assignment.c
    query = (
        sa.select(table.id, table.unit_id)
        .where(table.study_id == study_id, table.state == "leased", table.expires_at < at - GRACE_SECONDS)
        .order_by(table.id)
        .limit(_EXPIRED_AT_ONCE)
    )
    rows = connection.execute(query.with_for_update(skip_locked=True, key_share=True)).all()
    set_state(connection, [row.id for row in rows], "expired")
    free_units(connection, [row.unit_id for row in rows])
    return len(rows)


def set_state(connection: Connection, assignments: Sequence[int], state: str) -> None:
    """Give assignments a state; the caller has locked them."""
    table = schema.assignment
    for start in range(0, len(assignments), _EXPIRED_AT_ONCE):
        part = assignments[start : start + _EXPIRED_AT_ONCE]
        connection.execute(sa.update(table).where(table.c.id.in_(part)).values(state=state))


def free_units(connection: Connection, units: Iterable[int]) -> None:
    """One assignment fewer for each mention of a unit."""
    change_taken(connection, {unit: -count for unit, count in Counter(units).items()})


def take_units(connection: Connection, units: Iterable[int]) -> None:
    """One assignment more for each mention of a unit."""
    change_taken(connection, Counter(units))


def change_taken(connection: Connection, changes: dict[int, int]) -> None:
    """Change the counters of units, in the order of their ids."""
    table = schema.unit
    for unit, change in sorted(changes.items()):
        connection.execute(sa.update(table).where(table.c.id == unit).values(taken=table.c.taken + change))


def lock_rater(connection: Connection, rater_id: int) -> Row[Any] | None:
    """The rater's row, held until the end of the transaction."""
    query = sa.select(schema.rater).where(schema.rater.c.id == rater_id)
    return connection.execute(query.with_for_update(key_share=True)).first()


def open_lease(connection: Connection, rater_id: int) -> Row[Any] | None:
    """The assignment that the rater is working on, locked, so that it cannot expire while it is leased again."""
    table = schema.assignment
    query = sa.select(table).where(table.c.rater_id == rater_id, table.c.state == "leased").order_by(table.c.id)
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
    table, unit = schema.assignment, schema.unit
    room = unit.c.kind == "qualification"
    if not qualifying:
        needed = sa.and_(unit.c.kind == "normal", unit.c.taken < sa.bindparam("raters"))
        room = sa.or_(unit.c.kind.in_(("gold", "attention")), needed)
    return (
        sa.select(table)
        .join(unit, unit.c.id == table.c.unit_id)
        .where(table.c.rater_id == sa.bindparam("rater"), table.c.state == "expired", room)
        .order_by(table.c.id.desc())
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
            found = _needed(connection, study.id, kind, rater, position, None)
            if found is not None:
                return found
    return _needed(connection, study.id, "normal", rater, position, settings.raters)


def qualification_unit(connection: Connection, study_id: int, tries: int) -> tuple[int, int] | None:
    """The unit of a rater's next try, and their number of earlier tries of it; units alternate."""
    table = schema.unit.c
    query = sa.select(table.id).where(table.study_id == study_id, table.kind == "qualification")
    units = connection.execute(query.order_by(table.position)).scalars().all()
    return (units[tries % len(units)], tries // len(units)) if units else None


def _needed(
    connection: Connection, study_id: int, kind: str, rater: Row[Any], position: int, below: int | None
) -> int | None:
    """A unit, locked. Units locked by other transactions are skipped, never waited for.

    PostgreSQL keeps the lock of a unit that turned out to be taken when it was read again, so that two waiting
    transactions could deadlock.
    """
    start = point(rater.order_seed, position)
    for lock in (True, False):
        level = -1
        while (level := _next_level(connection, study_id, kind, level, below)) >= 0:
            values = {"study": study_id, "kind": kind, "level": level, "rater": rater.id, "start": start}
            for after in (True, False):
                found = connection.execute(_first_statement(after, lock), values).scalar()
                if found is not None and not lock:
                    raise OthersTaking
                if found is not None:
                    return int(found)
    return None


def _next_level(connection: Connection, study_id: int, kind: str, above: int, below: int | None) -> int:
    """The smallest number of assignments of any unit between two bounds (exclusive); -1 if there is none."""
    values = {"study": study_id, "kind": kind, "above": above, "below": SHUFFLE_ENDS if below is None else below}
    found = connection.execute(_LEVEL, values).scalar()
    return -1 if found is None else int(found)


@cache
def _first_statement(after: bool, lock: bool) -> sa.Select[Any]:
    unit, mine = schema.unit, schema.assignment
    start = sa.bindparam("start", type_=sa.Integer)
    had = sa.exists().where(mine.c.unit_id == unit.c.id, mine.c.rater_id == sa.bindparam("rater"))
    query = (
        sa.select(unit.c.id)
        .where(
            unit.c.study_id == sa.bindparam("study"),
            unit.c.kind == sa.bindparam("kind"),
            unit.c.taken == sa.bindparam("level"),
            unit.c.shuffle >= start if after else unit.c.shuffle < start,
            ~had,
        )
        .order_by(unit.c.shuffle)
        .limit(1)
    )
    return query.with_for_update(of=unit, skip_locked=True, key_share=True) if lock else query


def is_open(connection: Connection, assignment_id: int, rater_id: int, at: float) -> bool:
    """Whether a rater may work on an assignment; those of rejected raters and closed studies have expired."""
    return connection.execute(_OPEN, {"assignment": assignment_id, "rater": rater_id, "at": at}).first() is not None


def others_working(connection: Connection, study_id: int, rater_id: int) -> bool:
    """Whether another rater has an open lease of the study."""
    table = schema.assignment.c
    query = sa.select(table.id).where(table.study_id == study_id, table.state == "leased", table.rater_id != rater_id)
    return connection.execute(query.limit(1)).first() is not None
