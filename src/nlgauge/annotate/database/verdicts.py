"""Rejecting work and raters, and overruling: the effects on assignments and on the counters of units.

An assignment is rejected as long as a verdict about it, or about its rater, has not been overruled. Everything here
runs inside a transaction of the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from nlgauge.annotate.answers import ratings_of, written_sets
from nlgauge.annotate.database import assignment as assigning
from nlgauge.annotate.database import schema
from nlgauge.annotate.database.records import (
    DONE,
    TAKEN,
    Key,
    Study,
    SubmitOutcome,
    Verdict,
    record,
    unit_of,
)
from nlgauge.annotate.quality import CorrelationFilter, Finding, Work, fingerprint
from nlgauge.annotate.units import Unit
from nlgauge.errors import DataError

# Messages to raters, by rule.
REASONS = {
    "gold": "Some answers to questions with a known answer were too far from it.",
    "attention": "A question that checks whether the texts are read was answered wrongly.",
    "qualification": "The answers of the first round were too far from the known ones.",
    "mans": "A text that was written with care got few points, or one that was made worse on purpose got many.",
    "correlation": "The answers have too little in common with those of the other raters.",
    "min-time": "The work was submitted faster than the texts can be read.",
    "straight-lining": "Nearly all answers were the same.",
    "duplicate-text": "A text that you wrote is a duplicate of one submitted before.",
    "near-copy": "Two texts that you wrote are nearly equal, or one repeats the text that you were shown.",
    "text-length": "A text that you wrote is too short.",
    "language": "The texts are not written in the language that was asked for.",
}


def add_verdict(
    connection: Connection, rater_id: int, finding: Finding, at: float, assignment_id: int | None = None
) -> Verdict:
    """Write a verdict about an assignment, or about a rater."""
    values = {"assignment_id": assignment_id, "rater_id": rater_id, "rule": finding.rule, "reason": finding.reason}
    made = sa.insert(schema.verdict).values(**values, at=at).returning(schema.verdict)
    return record(Verdict, connection.execute(made).one())


def reject_rater(connection: Connection, rater_id: int, finding: Finding, at: float) -> Verdict:
    """Reject a rater, whose row is locked, with all their work; their open leases end."""
    made = add_verdict(connection, rater_id, finding, at)
    rows = assigning.locked(connection, schema.assignment.c.rater_id == rater_id)
    assigning.set_state(connection, [row.id for row in rows if row.state == "leased"], "expired")
    assigning.set_state(connection, [row.id for row in rows if row.state in DONE], "rejected")
    assigning.change_taken(connection, [row.unit_id for row in rows if row.state in TAKEN], -1)
    connection.execute(schema.change(schema.rater, rater_id, state="rejected"))
    return made


def reject_assignment(connection: Connection, assignment_id: int, finding: Finding, at: float) -> Verdict:
    """Reject one assignment, open or submitted."""
    before = schema.find(connection, schema.assignment, assignment_id)
    if before is not None:
        assigning.lock_rater(connection, before.rater_id)
    row = schema.find(connection, schema.assignment, assignment_id, lock=True)
    if row is None:
        raise DataError(f"no assignment {assignment_id}; expected one of the study's")
    if row.state == "expired":
        raise DataError(f"assignment {assignment_id} has expired; expected one that is open or submitted")
    made = add_verdict(connection, row.rater_id, finding, at, row.id)
    if row.state in TAKEN:
        assigning.set_state(connection, [row.id], "rejected")
        assigning.change_taken(connection, [row.unit_id], -1)
    return made


def judge_rater(
    connection: Connection, study: Study, rater: Row[Any], kind: str, findings: Sequence[Finding], at: float
) -> bool:
    """Judge a rater, whose row is locked, after a submission; returns whether they are rejected.

    A rater who is rejected loses all work at once, so that the units are freed in one pass.
    """
    rules, found = study.settings.rules, None
    if kind == "qualification":
        tries = rater.tries + 1
        passed = {} if findings else {"state": "active", "qualified": True}
        connection.execute(schema.change(schema.rater, rater.id, tries=tries, **passed))
        if findings and tries >= study.settings.qualification_tries:
            reason = f"none of {tries} tries to qualify was good enough; the last: {findings[0].reason}"
            found = Finding(findings[0].rule, reason)
    elif findings:
        for finding in findings:
            count, most = rejections(connection, rater.id, finding.rule), rules.rater_after(finding.rule)
            if most and count >= most:
                reason = f"{count} of the rater's assignments rejected by '{finding.rule}', the last: {finding.reason}"
                found = Finding(finding.rule, reason)
                break
    elif rules.correlation is not None and kind == "normal":
        found = find_contrary(connection, study, rater.id, rules.correlation)
    if found is not None:
        reject_rater(connection, rater.id, found, at)
    return found is not None


def outcome(connection: Connection, assignment_id: int) -> SubmitOutcome:
    """The outcome of a submitted assignment."""
    table, rater, verdict = schema.assignment, schema.rater, schema.verdict
    row = connection.execute(
        sa.select(table.c.state, table.c.rater_id, rater.c.state.label("rater_state"))
        .join(rater, rater.c.id == table.c.rater_id)
        .where(table.c.id == assignment_id)
    ).one()
    about = sa.or_(verdict.c.assignment_id == assignment_id, verdict.c.assignment_id.is_(None))
    query = sa.select(verdict).where(verdict.c.rater_id == row.rater_id, verdict.c.overruled_at.is_(None), about)
    found = tuple(record(Verdict, one) for one in connection.execute(query.order_by(verdict.c.id)))
    return SubmitOutcome(row.state, (), found, row.rater_state)


def restore(connection: Connection, verdict: Row[Any]) -> None:
    """Restore work that only this overruled verdict had rejected, even beyond the wanted ratings."""
    rater_row = assigning.lock_rater(connection, verdict.rater_id)
    rows = assigning.locked(connection, schema.assignment.c.rater_id == verdict.rater_id)
    rows = [row for row in rows if row.state == "rejected"]
    if verdict.assignment_id is not None:
        rows = [row for row in rows if row.id == verdict.assignment_id]
    table = schema.verdict.c
    query = sa.select(table.assignment_id).where(table.rater_id == verdict.rater_id, table.overruled_at.is_(None))
    standing = set(connection.execute(query).scalars())
    if None in standing:
        return
    freed = [row for row in rows if row.id not in standing]
    handed_in = [row for row in freed if row.submitted_at is not None]
    assigning.set_state(connection, [row.id for row in handed_in], "valid")
    assigning.set_state(connection, [row.id for row in freed if row.submitted_at is None], "expired")
    assigning.change_taken(connection, [row.unit_id for row in handed_in], 1)
    if verdict.rule == "qualification":
        connection.execute(schema.change(schema.rater, verdict.rater_id, state="active", qualified=True))
    elif rater_row is not None and rater_row.state == "rejected":
        waits = assigning.has_qualification(connection, rater_row.study_id) and not rater_row.qualified
        connection.execute(schema.change(schema.rater, verdict.rater_id, state="qualifying" if waits else "active"))


def rejections(connection: Connection, rater_id: int, rule: str) -> int:
    """The number of a rater's assignments rejected by a rule."""
    table = schema.verdict.c
    query = sa.select(sa.func.count(table.assignment_id.distinct())).where(
        table.rater_id == rater_id, table.rule == rule, table.overruled_at.is_(None)
    )
    return int(connection.execute(query).scalar_one())


def work_of(
    connection: Connection, study: Study, row: Row[Any], unit: Unit, answers: Mapping[Key, Any], seconds: float
) -> Work:
    """An assignment that is being submitted, as input of the quality rules."""
    questions = study.form.questions
    scales = [question.id for question in questions if question.widget in ("scale", "number")]
    levels = [*scales, *(question.id for question in questions if len(question.values) > 2)]
    texts = {question.id for question in questions if question.widget == "text"}
    marks = {fingerprint(value) for (_, question), value in answers.items() if question in texts} - {""}
    own, others = _same_texts(connection, study.id, row, sorted(marks))
    return Work(
        answers=answers,
        seconds=seconds,
        minutes=study.form.minutes * len(unit.items) / study.form.unit.size,
        kind=unit.kind,
        roles={item.id: item.role for item in unit.items},
        expected={(item, asked): value for item, known in unit.expected.items() for asked, value in known.items()},
        scales=scales,
        levels=levels,
        texts=texts,
        earlier=_earlier(connection, row.rater_id, levels, study.settings.rules.earlier_answers),
        own_texts=own,
        other_texts=others,
        written=[texts for _, texts in written_sets(study.form, answers)],
        context=unit.context,
    )


def raters_when_full(connection: Connection, unit_id: int, raters: int) -> Sequence[int]:
    """The raters of a complete unit; empty if ratings are missing."""
    table = schema.assignment.c
    query = sa.select(table.rater_id).where(table.unit_id == unit_id, table.state.in_(DONE)).order_by(table.rater_id)
    found = connection.execute(query).scalars().all()
    return found if len(found) >= raters else ()


def find_contrary(connection: Connection, study: Study, rater_id: int, rule: CorrelationFilter) -> Finding | None:
    """The finding of the correlation filter about a rater, from all valid ratings of their units.

    All exported ordinal answers count: points, numbers of choices, chosen items, ranks. The number of marked spans does
    not: equal numbers may mark different spans.
    """
    mine, theirs, unit, answer = schema.assignment.alias(), schema.assignment, schema.unit, schema.answer
    counted = [one.id for one in study.form.questions if one.export and one.widget not in ("text", "span")]
    query = (
        sa.select(theirs.c.rater_id, unit, answer.c.item, answer.c.question, answer.c.value_json)
        .join(unit, unit.c.id == theirs.c.unit_id)
        .join(answer, answer.c.assignment_id == theirs.c.id)
        .join(mine, sa.and_(mine.c.unit_id == theirs.c.unit_id, mine.c.rater_id == rater_id, mine.c.attempt == 0))
        .where(unit.c.kind == "normal", theirs.c.state.in_(DONE), mine.c.state.in_(DONE))
        .where(answer.c.question.in_(counted))
    )
    units: dict[int, Unit] = {}
    found, comparisons, within = [], set(), dict[Key, int]()
    for row in connection.execute(query):
        if row.id not in units:
            units[row.id] = unit_of(row)
        for rated in ratings_of(study.form, row.question, row.item, msgspec.json.decode(row.value_json), units[row.id]):
            item = f"{rated.item}#{rated.pair}"
            found.append((str(row.rater_id), item, rated.question, rated.value))
            asked = study.form.question(row.question)
            if asked.among and len(units[row.id].items) == 2:
                comparisons.add(item)
            if asked.relative:
                within[item, rated.question] = row.id
    return rule.find(str(rater_id), found, comparisons, within)


def _same_texts(
    connection: Connection, study_id: int, row: Row[Any], marks: Sequence[str]
) -> tuple[set[str], set[str]]:
    """Which of these fingerprints earlier work has, by the same rater and by others."""
    if not marks:
        return set(), set()
    table, answer = schema.assignment.c, schema.answer.c
    query = sa.select(answer.fingerprint, table.rater_id).where(
        answer.fingerprint.in_(marks),
        answer.fingerprint != "",
        answer.assignment_id == table.id,
        table.study_id == study_id,
        table.submitted_at.is_not(None),
        table.id != row.id,
    )
    found = connection.execute(query.distinct()).all()
    own = {mark for mark, rater_id in found if rater_id == row.rater_id}
    return own, {mark for mark, rater_id in found if rater_id != row.rater_id}


def _earlier(connection: Connection, rater_id: int, levels: Sequence[str], most: int) -> dict[str, list[Any]]:
    """The rater's last answers to each question in submitted work, oldest first, at most `most`."""
    if not most:
        return {}
    table, answer = schema.assignment.c, schema.answer.c
    found = {}
    for question in levels:
        query = (
            sa.select(answer.value_json)
            .where(
                table.rater_id == rater_id,
                table.submitted_at.is_not(None),
                answer.assignment_id == table.id,
                answer.question == question,
            )
            .order_by(table.submitted_at.desc(), answer.saved_at.desc(), answer.item.desc())
            .limit(most)
        )
        values = connection.execute(query).scalars().all()
        found[question] = [msgspec.json.decode(value) for value in reversed(values)]
    return found
