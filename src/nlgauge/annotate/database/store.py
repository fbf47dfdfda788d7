"""Every read and write of the annotation site, each in one transaction, on SQLite or PostgreSQL."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from nlgauge.annotate.answers import check_answer, missing_answers
from nlgauge.annotate.database import assignment as assigning
from nlgauge.annotate.database import joining, schema, verdicts
from nlgauge.annotate.database.records import (
    Assignment,
    Finished,
    Key,
    Lease,
    Rater,
    Rejected,
    SavedAnswer,
    Snapshot,
    Study,
    StudyUnit,
    SubmitOutcome,
    Verdict,
    encode,
    hashed_id,
    record,
    unit_of,
    unit_values,
)
from nlgauge.annotate.quality import Finding, Mans, fingerprint
from nlgauge.annotate.rules import MANUAL
from nlgauge.annotate.settings import CROWDS, StudySettings
from nlgauge.annotate.units import Unit
from nlgauge.data.human.forms import Form
from nlgauge.errors import DataError, OptionError

_SECONDS_FOR_OTHERS = 20.0


class Store(joining.Raters):
    """The database of the annotation site. Nothing is ever deleted."""

    def create_study(
        self,
        name: str,
        form: Form,
        units: Sequence[Unit],
        settings: StudySettings,
        who: str = "cli",
        *,
        ids: Sequence[str] = (),
    ) -> Study:
        """Create an open study with its units; the form is stored with it and never changes.

        With `ids`, nobody else may join from platforms; only their hashes are stored.
        """
        if not name or not name.isprintable() or len(name) > 200:
            raise OptionError(f"a study named {name[:60]!r}; expected 1 to 200 printable characters")
        if not any(unit.kind == "normal" for unit in units):
            raise DataError(f"study '{name}' has no unit to rate; expected at least one")
        for rule in settings.rules.on_assignments:
            if isinstance(rule, Mans) and rule.question:
                form.question(rule.question)
        form_json = form.to_json()
        Form.from_json(form_json)
        made = sa.insert(schema.study).values(
            name=name,
            form_json=form_json,
            settings_json=encode(settings),
            seed=settings.seed,
            secret=secrets.token_hex(32),
            created_at=self.now(),
        )
        with self._write() as connection:
            try:
                row = connection.execute(made.returning(schema.study)).one()
            except exc.IntegrityError as error:
                raise DataError(f"a study named '{name}' exists; expected a new name") from error
            places = random.Random(settings.seed).sample(range(len(units)), len(units))
            spread = assigning.SHUFFLE_ENDS // len(units)
            rows = [
                {"study_id": row.id, "position": position, "shuffle": place * spread, **unit_values(unit)}
                for position, (place, unit) in enumerate(zip(places, units, strict=True))
            ]
            connection.execute(sa.insert(schema.unit), rows)
            hashes = {hashed_id(row.secret, one, id) for one in CROWDS for id in ids}
            if hashes:
                expected = [{"study_id": row.id, "hashed_id": one} for one in sorted(hashes)]
                connection.execute(sa.insert(schema.expected_rater), expected)
            plugin = {"plugin": form.plugin} if form.plugin else {}
            about = {"study": name, "form": form.name, **plugin, "units": len(units)}
            self._note(connection, who, "create study", about)
        return record(Study, row)

    def study(self, name: str) -> Study:
        """The study of this name."""
        with self._read() as connection:
            row = connection.execute(sa.select(schema.study).where(schema.study.c.name == name)).first()
            known = [] if row else connection.execute(sa.select(schema.study.c.name)).scalars().all()
        if row is None:
            raise DataError(f"no study named '{name}'; found {', '.join(sorted(known)) or 'none'}")
        return record(Study, row)

    def studies(self) -> list[Study]:
        """All studies, oldest first."""
        with self._read() as connection:
            rows = connection.execute(sa.select(schema.study).order_by(schema.study.c.id))
            return [record(Study, row) for row in rows]

    def close_study(self, name: str, who: str) -> int:
        """Close a study: its open leases expire with their answers; returns their number."""
        study = self.study(name)
        with self._write() as connection:
            connection.execute(schema.change(schema.study, study.id, state="closed"))
            mine = schema.assignment.c
            rows = assigning.locked(connection, mine.study_id == study.id, mine.state == "leased")
            assigning.set_state(connection, [row.id for row in rows], "expired")
            assigning.change_taken(connection, [row.unit_id for row in rows], -1)
            self._note(connection, who, "close study", {"study": name, "open leases": len(rows)})
        return len(rows)

    def export_key(self, name: str, who: str) -> str:
        """The study's key, with which `hashed_id` gives the hash and pseudonym of a platform's id."""
        study = self.study(name)
        with self._write() as connection:
            self._note(connection, who, "export key", {"study": name})
            query = sa.select(schema.study.c.secret).where(schema.study.c.id == study.id)
            return str(connection.execute(query).scalar_one())

    def rater(self, rater_id: int) -> Rater:
        """The rater with this id."""
        with self._read() as connection:
            row = schema.find(connection, schema.rater, rater_id)
        if row is None:
            raise DataError(f"no rater {rater_id}; expected one who has joined")
        return record(Rater, row)

    def lease(self, study: Study, rater: Rater) -> Lease | Finished | Rejected:
        """The rater's next work: an open lease, else the unit that needs ratings most."""
        until, may_expire = time.monotonic() + _SECONDS_FOR_OTHERS, True
        while True:
            try:
                with self._write() as connection:
                    return assigning.lease(connection, study, rater.id, self.now(), may_expire=may_expire)
            except assigning.LeasesDue:
                self._expire(study.id)
                until, may_expire = time.monotonic() + _SECONDS_FOR_OTHERS, False
            except assigning.OthersTaking as error:
                if time.monotonic() > until:
                    raise DataError(
                        f"all remaining units are locked since {_SECONDS_FOR_OTHERS:.0f} seconds; expected them to be "
                        "free at once: is the database blocked?"
                    ) from error
                time.sleep(random.uniform(0.005, 0.02))

    def take_unit(self, study: Study, rater: Rater, unit_id: int, leased_at: float) -> Assignment:
        """The rater's assignment of a unit chosen elsewhere, such as by a crowd platform.

        A new or expired one is leased from `leased_at` on; others stay unchanged.
        """
        with self._write() as connection:
            expires_at = self.now() + study.lease_seconds
            return assigning.take(connection, study, rater.id, unit_id, leased_at, expires_at)

    def save(self, assignment_id: int, rater_id: int, item: str, question: str, value: Any) -> None:
        """Save one answer; a later one to the same question replaces it."""
        self.save_all(assignment_id, rater_id, {(item, question): value})

    def save_all(self, assignment_id: int, rater_id: int, answers: Mapping[Key, Any]) -> None:
        """Save several answers by (item, question) atomically."""
        with self._write() as connection:
            row, study, unit = assigning.held(connection, assignment_id, rater_id)
            assigning.require_leased(row, self.now())
            rows = []
            for (item, question), given in answers.items():
                value = check_answer(study.form, question, item, given, unit)
                is_text = study.form.question(question).widget == "text"
                rows.append(
                    {
                        "assignment_id": row.id,
                        "item": item,
                        "question": question,
                        "value_json": encode(value),
                        "fingerprint": fingerprint(value) if is_text else "",
                        "saved_at": self.now(),
                    }
                )
            made = self.insert(schema.answer)
            changed = {name: made.excluded[name] for name in ("value_json", "fingerprint", "saved_at")}
            keys = ["assignment_id", "item", "question"]
            if rows:
                connection.execute(made.on_conflict_do_update(index_elements=keys, set_=changed), rows)

    def answers(self, assignment_id: int) -> dict[Key, Any]:
        """The answers of an assignment, by (item, question)."""
        with self._read() as connection:
            return assigning.answers_of(connection, assignment_id)

    def open_answers(self, assignment_id: int, rater_id: int) -> dict[Key, Any] | None:
        """The answers of an assignment that is open for its rater; None if it is not open."""
        with self._read() as connection:
            if not assigning.is_open(connection, assignment_id, rater_id, self.now()):
                return None
            return assigning.answers_of(connection, assignment_id)

    def submit(self, assignment_id: int, rater_id: int, seconds: float) -> SubmitOutcome:
        """Submit an assignment: complete work is judged at once; if it is rejected, its unit is free again.

        `seconds` is measured by the page; it is limited to the time since the lease, or to the length of a lease if the
        clock was set back meanwhile. A repeated submission gives the same outcome.

        If the study has the correlation filter, it judges this rater now, and all raters of a unit when the unit is
        complete, since their correlations change with later ratings.
        """
        outcome, study, unit_id = self._submit(assignment_id, rater_id, seconds)
        rule = study.settings.rules.correlation
        if outcome.state == "valid" and rule is not None:
            with self._read() as connection:
                raters = verdicts.raters_when_full(connection, unit_id, study.settings.raters)
                table = schema.rater.c
                query = sa.select(table.id).where(table.id.in_(raters), table.id != rater_id, table.state != "rejected")
                ids = connection.execute(query.order_by(table.id)).scalars().all()
                found = [(one, verdicts.find_contrary(connection, study, one, rule)) for one in ids]
            for one, finding in found:
                if finding is not None:
                    self.reject(rater_id=one, rule=finding.rule, reason=finding.reason, who="site")
        return outcome

    def _submit(self, assignment_id: int, rater_id: int, seconds: float) -> tuple[SubmitOutcome, Study, int]:
        at = self.now()
        with self._write() as connection:
            rater = assigning.lock_rater(connection, rater_id)
            row, study, unit = assigning.held(connection, assignment_id, rater_id)
            if rater is None or row.submitted_at is not None:
                return verdicts.outcome(connection, assignment_id), study, row.unit_id
            assigning.require_leased(row, at)
            answers = assigning.answers_of(connection, assignment_id)
            if missing := missing_answers(study.form, unit, answers):
                return SubmitOutcome("leased", tuple(missing), rater_state=rater.state), study, row.unit_id
            most = at - row.leased_at if at >= row.leased_at else study.lease_seconds
            spent = min(max(seconds, 0.0) if math.isfinite(seconds) else 0.0, most)
            findings = study.settings.rules.find(verdicts.work_of(connection, study, row, unit, answers, spent))
            connection.execute(schema.change(schema.assignment, row.id, state="valid", submitted_at=at, seconds=spent))
            for finding in findings:
                verdicts.add_verdict(connection, rater_id, finding, at, row.id)
            if not verdicts.judge_rater(connection, study, rater, unit.kind, findings, at) and findings:
                assigning.set_state(connection, [row.id], "rejected")
                assigning.change_taken(connection, [row.unit_id], -1)
            return verdicts.outcome(connection, assignment_id), study, row.unit_id

    def reject(
        self,
        *,
        assignment_id: int | None = None,
        rater_id: int | None = None,
        rule: str = MANUAL,
        reason: str,
        who: str,
    ) -> Verdict:
        """Reject an assignment, or a rater with all their work; the units become free."""
        if (assignment_id is None) == (rater_id is None):
            raise OptionError("expected either an assignment or a rater to reject")
        if not reason.strip():
            raise OptionError("a rejection without a reason; expected one in plain words")
        at, finding = self.now(), Finding(rule, reason)
        with self._write() as connection:
            if assignment_id is not None:
                made = verdicts.reject_assignment(connection, assignment_id, finding, at)
            else:
                rater = assigning.lock_rater(connection, rater_id or 0)
                if rater is None:
                    raise DataError(f"no rater {rater_id}; expected one who has joined")
                made = verdicts.reject_rater(connection, rater.id, finding, at)
            details = {"verdict": made.id, "assignment": assignment_id, "rater": made.rater_id, "rule": rule}
            self._note(connection, who, "reject", {**details, "reason": reason})
        return made

    def overrule(self, verdict_id: int, why: str, who: str) -> None:
        """Overrule a rejection: work rejected by it alone is valid again, even beyond the wanted ratings."""
        if not why.strip():
            raise OptionError("overruled without a reason; expected one in plain words")
        table = schema.verdict
        with self._write() as connection:
            found = schema.find(connection, table, verdict_id)
            if found is None:
                raise DataError(f"no verdict {verdict_id}; expected one of the study's rejections")
            assigning.lock_rater(connection, found.rater_id)
            change = sa.update(table).where(table.c.id == verdict_id, table.c.overruled_at.is_(None))
            change = change.values(overruled_at=self.now(), overruled_why=why)
            if connection.execute(change).rowcount == 0:
                raise DataError(f"verdict {verdict_id} is already overruled; expected one in force")
            verdicts.restore(connection, found)
            self._note(connection, who, "overrule", {"verdict": verdict_id, "why": why})

    def expire(self) -> int:
        """End all expired leases and return their number; new leases do so when needed."""
        return sum(self._expire(study.id) for study in self.studies() if study.state == "open")

    def last_change(self, study: Study) -> tuple[int | float | str | None, ...]:
        """A value that changes whenever work, verdicts, raters or the state of the study change."""
        mine, rater, verdict = schema.assignment.c, schema.rater.c, schema.verdict.c
        of_study = verdict.rater_id.in_(sa.select(rater.id).where(rater.study_id == study.id))
        with self._read() as connection:
            state = connection.execute(sa.select(schema.study.c.state).where(schema.study.c.id == study.id)).scalar()
            work = sa.select(
                sa.func.max(mine.id),
                sa.func.max(mine.submitted_at),
                sa.func.count(mine.submitted_at),
                sa.func.count(sa.case((mine.state == "leased", 1))),
            ).where(mine.study_id == study.id)
            judged = sa.select(sa.func.max(verdict.id), sa.func.count(verdict.overruled_at)).where(of_study)
            seen = sa.select(sa.func.max(rater.last_seen_at)).where(rater.study_id == study.id)
            return (state, *(value for query in (work, judged, seen) for value in connection.execute(query).one()))

    def snapshot(self, study: Study) -> Snapshot:
        """A consistent snapshot of a study."""
        with self._read() as connection:
            mine, answer = schema.assignment.c.study_id == study.id, schema.answer.c
            units = sa.select(schema.unit).where(schema.unit.c.study_id == study.id).order_by(schema.unit.c.position)
            raters = sa.select(schema.rater).where(schema.rater.c.study_id == study.id).order_by(schema.rater.c.id)
            assignments = sa.select(schema.assignment).where(mine).order_by(schema.assignment.c.id)
            answers = sa.select(schema.answer).join(schema.assignment).where(mine)
            answers = answers.order_by(answer.assignment_id, answer.item, answer.question)
            judged = sa.select(schema.verdict).join(schema.rater).where(schema.rater.c.study_id == study.id)
            return Snapshot(
                record(Study, connection.execute(sa.select(schema.study).where(schema.study.c.id == study.id)).one()),
                tuple(StudyUnit(row.id, row.position, row.taken, unit_of(row)) for row in connection.execute(units)),
                tuple(record(Rater, row) for row in connection.execute(raters)),
                tuple(record(Assignment, row) for row in connection.execute(assignments)),
                tuple(record(SavedAnswer, row) for row in connection.execute(answers)),
                tuple(record(Verdict, row) for row in connection.execute(judged.order_by(schema.verdict.c.id))),
                self.now(),
            )

    def _expire(self, study_id: int) -> int:
        total, ended = 0, 1
        while ended:
            with self._write() as connection:
                ended = assigning.expire_due(connection, study_id, self.now())
            total += ended
        return total
