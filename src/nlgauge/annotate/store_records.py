"""What the store takes and gives: settings, and frozen copies of the rows of the database."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args

import msgspec
from sqlalchemy.engine import Row

from nlgauge.annotate.forms import Form
from nlgauge.annotate.quality import Rules, read_rules
from nlgauge.annotate.units import Unit
from nlgauge.errors import OptionError

Platform = Literal["direct", "mturk", "prolific"]
PLATFORMS: tuple[Platform, ...] = get_args(Platform)
AssignmentState = Literal["leased", "submitted", "valid", "rejected", "expired"]
Key = tuple[str, str]

TAKEN = ("leased", "submitted", "valid")
DONE = ("submitted", "valid")

_Record = TypeVar("_Record")
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """How a study runs: `raters` valid ratings a unit, leases of `lease_minutes`, rules of quality by name.

    `pay` is for one assignment. A rater who is done sees the `completion_code`; `post_back_url` is where a platform
    wants to hear of it. Raters may come from the `platforms` only, and from MTurk only where there is an address to
    post back to, from Prolific only where there is a code.
    """

    raters: int = 3
    lease_minutes: float = 60.0
    pay: float = 0.0
    currency: str = "USD"
    seed: int = 12345
    max_units_per_rater: int | None = None
    quality: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    qualification_tries: int = 3
    gold_every: int = 10
    attention_every: int = 10
    completion_code: str = ""
    post_back_url: str = ""
    platforms: tuple[Platform, ...] = PLATFORMS

    def __post_init__(self) -> None:
        most = self.max_units_per_rater
        for holds, found, expected in (
            (self.raters >= 1, f"{self.raters} raters a unit", "at least 1"),
            (
                math.isfinite(self.lease_minutes) and self.lease_minutes > 0,
                f"leases of {self.lease_minutes:g} minutes",
                "more than 0",
            ),
            (math.isfinite(self.pay) and self.pay >= 0, f"a pay of {self.pay:g}", "0 or more"),
            (0 <= self.seed <= _LARGEST_SEED, f"the seed {self.seed}", f"0 to {_LARGEST_SEED}"),
            (most is None or most >= 1, f"at most {most} units a rater", "1 or more, or no limit"),
            (self.qualification_tries >= 1, f"{self.qualification_tries} tries to qualify", "1 or more"),
            (self.gold_every >= 2, f"a gold unit every {self.gold_every} assignments", "2 or more"),
            (self.attention_every >= 2, f"an attention unit every {self.attention_every} assignments", "2 or more"),
        ):
            if not holds:
                raise OptionError(f"{found}; expected {expected}")
        if not self.platforms or not set(self.platforms) <= set(PLATFORMS):
            found = ", ".join(map(str, self.platforms)) or "no platform"
            raise OptionError(f"raters from {found[:80]}; expected one or more of {', '.join(PLATFORMS)}")
        read_rules(self.quality)

    @property
    def rules(self) -> Rules:
        """The quality rules."""
        return read_rules(self.quality)

    def to_json(self) -> str:
        """The settings as they are stored with a study."""
        return encode(self)

    @classmethod
    def from_json(cls, text: str) -> StudySettings:
        """Stored settings."""
        return msgspec.json.decode(text, type=cls)


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


@dataclass(frozen=True)
class StudyUnit:
    """A unit with its place in the database; `taken` counts its live and valid assignments."""

    id: int
    position: int
    taken: int
    unit: Unit


@dataclass(frozen=True)
class Rater:
    """Somebody who rates, under a pseudonym; the id by which a platform knows them is stored as a hash only."""

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
class Answer:
    """One value; item "" stands for the unit as a whole."""

    assignment_id: int
    item: str
    question: str
    value: Any
    saved_at: float


@dataclass(frozen=True)
class Verdict:
    """A rejection of an assignment, or of a rater where `assignment_id` is none; it stays when it is overruled."""

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
    """What somebody did."""

    id: int
    at: float
    who: str
    what: str
    details: Mapping[str, Any]


@dataclass(frozen=True)
class Lease:
    """What a rater works on: the assignment, its unit, the answers so far, and how many assignments came before."""

    assignment: Assignment
    unit: Unit
    answers: Mapping[Key, Any]
    done: int


@dataclass(frozen=True)
class Finished:
    """Nothing to do: all is `done`, the rater has the `limit`, or the study is `closed`.

    With `later`, somebody else's open lease may yet make room.
    """

    reason: Literal["done", "limit", "closed"]
    done: int
    completion_code: str
    later: bool = False


@dataclass(frozen=True)
class Rejected:
    """The rater may not go on."""

    rule: str
    reason: str


@dataclass(frozen=True)
class SubmitOutcome:
    """What became of an assignment; `missing` is not empty where it cannot be submitted yet."""

    state: AssignmentState
    missing: tuple[Key, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    rater_state: str = "active"


@dataclass(frozen=True)
class LoginOutcome:
    """Whether a password was right; while `wait_seconds` is above 0, no password is looked at."""

    passed: bool
    wait_seconds: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment."""

    study: Study
    units: tuple[StudyUnit, ...]
    raters: tuple[Rater, ...]
    assignments: tuple[Assignment, ...]
    answers: tuple[Answer, ...]
    verdicts: tuple[Verdict, ...]
    taken_at: float


def record(kind: type[_Record], row: Row[Any]) -> _Record:
    """A row as a frozen record: columns that end in `_json` are decoded and lose the ending."""
    values = {}
    for one in fields(kind):  # type: ignore[arg-type]
        mapping = row._mapping
        if one.name in mapping:
            values[one.name] = mapping[one.name]
        else:
            stored = {"platform_data": "platform_json"}.get(one.name, f"{one.name}_json")
            values[one.name] = msgspec.json.decode(mapping[stored])
    return kind(**values)


def study_of(row: Row[Any]) -> Study:
    """A study from its row."""
    return Study(
        row.id,
        row.name,
        form_of(row.form_json),
        settings_of(row.settings_json),
        row.state,
        row.seed,
        row.created_at,
    )


@lru_cache(maxsize=64)
def form_of(text: str) -> Form:
    """A stored form; forms never change once a study has them."""
    return Form.from_json(text)


@lru_cache(maxsize=64)
def settings_of(text: str) -> StudySettings:
    """Stored settings; they never change either."""
    return StudySettings.from_json(text)


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


def expected_of(unit: Unit) -> dict[Key, Any]:
    """The known answers of a unit, by (item, question)."""
    return {(item, question): value for item, known in unit.expected.items() for question, value in known.items()}


def encode(value: Any) -> str:
    """Any record as JSON."""
    return msgspec.json.encode(value).decode()


def hashed_id(key: str, platform: str, external_id: str) -> str:
    """HMAC-SHA256 of a rater's id under the study's key: whoever has the key can recompute it, nobody else."""
    return hmac.new(key.encode(), f"{platform}:{external_id}".encode(), hashlib.sha256).hexdigest()


def pseudonym(hashed: str) -> str:
    """The short name that exported ratings carry; the first digits of the hash."""
    return f"rater-{hashed[:12]}"
