"""Types of the store: settings, and frozen copies of database rows."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from sqlalchemy.engine import Row

from nlgauge.annotate.settings import Platform, StudySettings
from nlgauge.annotate.units import Unit
from nlgauge.data.human.forms import Form
from nlgauge.errors import DataError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AssignmentState = Literal["leased", "submitted", "valid", "rejected", "expired"]
Key = tuple[str, str]

TAKEN = ("leased", "submitted", "valid")
DONE = ("submitted", "valid")

_Record = TypeVar("_Record", bound="DataclassInstance")

# The form and the settings of a study never change.
_FROM_JSON: Mapping[str, Callable[[str], Any]] = {
    "form": lru_cache(maxsize=64)(Form.from_json),
    "settings": lru_cache(maxsize=64)(msgspec.json.Decoder(StudySettings).decode),
}


class NotExpected(DataError):
    """A platform's id that is not on the study's list."""


class TooManyRaters(DataError):
    """More new raters from platforms within a minute than the study allows."""


@dataclass(frozen=True)
class Study:
    """A form, its units and its settings, under a name."""

    id: int
    name: str
    form: Form
    settings: StudySettings
    state: Literal["open", "closed"]
    seed: int
    created_at: float

    @property
    def lease_seconds(self) -> float:
        """How long a rater may keep a unit."""
        minutes = self.settings.lease_minutes
        return 60 * (max(30.0, 5 * self.form.minutes) if minutes is None else minutes)


@dataclass(frozen=True)
class StudyUnit:
    """A unit with its database id; `taken` counts its live and valid assignments."""

    id: int
    position: int
    taken: int
    unit: Unit


@dataclass(frozen=True)
class Rater:
    """A rater with a pseudonym; the platform's id is stored as a hash only."""

    id: int
    study_id: int
    pseudonym: str
    hashed_id: str
    platform: Platform
    platform_data: Mapping[str, Any]
    state: Literal["qualifying", "active", "rejected", "finished"]
    qualified: bool
    order_seed: int
    tries: int
    created_at: float
    last_seen_at: float


@dataclass(frozen=True)
class Assignment:
    """One unit leased to one rater; `position` is its place among the rater's assignments."""

    id: int
    study_id: int
    unit_id: int
    rater_id: int
    attempt: int
    state: AssignmentState
    leased_at: float
    expires_at: float
    submitted_at: float | None
    seconds: float | None
    position: int


@dataclass(frozen=True)
class SavedAnswer:
    """One value; item "" is the unit as a whole."""

    assignment_id: int
    item: str
    question: str
    value: Any
    saved_at: float


@dataclass(frozen=True)
class Verdict:
    """A rejection of an assignment, or of a rater if `assignment_id` is None; an overruled one is kept."""

    id: int
    assignment_id: int | None
    rater_id: int
    rule: str
    reason: str
    at: float
    overruled_at: float | None
    overruled_why: str | None


@dataclass(frozen=True)
class AuditEntry:
    """An entry of the audit log."""

    id: int
    at: float
    who: str
    what: str
    details: Mapping[str, Any]


@dataclass(frozen=True)
class Lease:
    """The current work of a rater: the assignment, its unit, the answers so far, and its position."""

    assignment: Assignment
    unit: Unit
    answers: Mapping[Key, Any]
    done: int


@dataclass(frozen=True)
class Finished:
    """No more work: all is `done`, the rater has reached the `limit`, or the study is `closed`.

    With `later`, a unit may become free when another rater's lease expires.
    """

    reason: Literal["done", "limit", "closed"]
    done: int
    completion_code: str
    later: bool = False


@dataclass(frozen=True)
class Rejected:
    """The rater is rejected."""

    rule: str
    reason: str


@dataclass(frozen=True)
class SubmitOutcome:
    """The outcome of an assignment; `missing` is not empty if it cannot be submitted yet."""

    state: AssignmentState
    missing: tuple[Key, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    rater_state: str = "active"


@dataclass(frozen=True)
class LoginOutcome:
    """Whether a password was right; while `wait_seconds` is above 0, no password is checked."""

    passed: bool
    wait_seconds: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a study."""

    study: Study
    units: tuple[StudyUnit, ...]
    raters: tuple[Rater, ...]
    assignments: tuple[Assignment, ...]
    answers: tuple[SavedAnswer, ...]
    verdicts: tuple[Verdict, ...]
    taken_at: float

    def rater_id(self, pseudonym: str) -> int:
        """The number of a rater of this study."""
        ids = {one.pseudonym: one.id for one in self.raters}
        if pseudonym not in ids:
            found = ", ".join(list(ids)[:5]) or "none"
            raise DataError(f"no rater '{pseudonym}' in study '{self.study.name}'; found {found}")
        return ids[pseudonym]

    def check_own(self, *, assignment: int | None = None, verdict: int | None = None) -> None:
        """Refuse an assignment or a verdict of another study."""
        for kind, number, own in (("assignment", assignment, self.assignments), ("verdict", verdict, self.verdicts)):
            if number is not None and number not in {one.id for one in own}:
                raise DataError(f"no {kind} {number} in study '{self.study.name}'; expected one of its own")


def record(kind: type[_Record], row: Row[Any], prefix: str = "") -> _Record:
    """A row as a frozen record: columns that end in `_json` are decoded and renamed."""
    columns, values = row._mapping, {}
    for one in fields(kind):
        name = prefix + one.name
        if name in columns:
            values[one.name] = columns[name]
        else:
            stored = {"platform_data": "platform_json"}.get(name, f"{name}_json")
            values[one.name] = _FROM_JSON.get(one.name, msgspec.json.decode)(columns[stored])
    return kind(**values)


def unit_of(row: Row[Any]) -> Unit:
    """A unit from its row."""
    content = msgspec.json.decode(row.content_json)
    return msgspec.convert({**content, "kind": row.kind, "expected": msgspec.json.decode(row.expected_json)}, Unit)


def unit_values(unit: Unit) -> dict[str, Any]:
    """The columns of a unit that come from the unit itself."""
    return {
        "kind": unit.kind,
        "content_json": encode({"context": unit.context, "items": unit.items}),
        "expected_json": encode(unit.expected),
    }


def encode(value: Any) -> str:
    """Any record as JSON."""
    return msgspec.json.encode(value).decode()


def hashed_id(key: str, platform: str, external_id: str) -> str:
    """HMAC-SHA256 of a rater's id under the study's key: only the owner of the key can recompute it."""
    return hmac.new(key.encode(), f"{platform}:{external_id}".encode(), hashlib.sha256).hexdigest()


def pseudonym(hashed: str) -> str:
    """The short name in exported ratings: the first digits of the hash."""
    return f"rater-{hashed[:12]}"
