"""The list of quality rules, open to other packages and to users' own files, and the rules of one study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from nlgauge.annotate.quality import (
    AssignmentRule,
    CorrelationFilter,
    Finding,
    KnownAnswers,
    Rule,
    StraightLining,
    Work,
)
from nlgauge.configured import options_of
from nlgauge.errors import OptionError, UnknownName, argument
from nlgauge.registry import Registry

MANUAL = "manual"
_HOME = "nlgauge.annotate.quality"
RULES: Registry[Rule] = Registry(
    "quality rule",
    "nlgauge.rules",
    {
        "gold": f"{_HOME}:KnownAnswers",
        "attention": f"{_HOME}:Attention",
        "qualification": f"{_HOME}:Qualification",
        "mans": f"{_HOME}:Mans",
        "min-time": f"{_HOME}:MinTime",
        "straight-lining": f"{_HOME}:StraightLining",
        "duplicate-text": f"{_HOME}:DuplicateText",
        "near-copy": "nlgauge.annotate.writing:NearCopy",
        "text-length": "nlgauge.annotate.writing:TextLength",
        "language": "nlgauge.annotate.writing:Language",
        "correlation": f"{_HOME}:CorrelationFilter",
    },
    "min-time:seconds=20",
    "See `nlgauge annotate rules`.",
)


def rule_names() -> list[str]:
    """All names: those of NLGauge in their order, then others."""
    return list(dict.fromkeys([*RULES.built_in, *RULES.names()]))


def register_rule(cls: type[Rule]) -> type[Rule]:
    """Add a rule under its `name`; usable as a decorator. A taken name is refused."""
    return RULES.register(cls)


@dataclass(frozen=True)
class StudyRules:
    """The rules of a study. Those about known answers always apply where such answers exist."""

    on_assignments: tuple[AssignmentRule, ...]
    correlation: CorrelationFilter | None = None

    def find(self, work: Work) -> list[Finding]:
        """All reasons to reject this work; extra units (gold, attention, qualification) answer for themselves only."""
        rules = [rule for rule in self.on_assignments if work.kind == "normal" or rule.name == work.kind]
        return [found for rule in rules if (found := rule.find(work)) is not None]

    def rater_after(self, rule: str) -> int:
        """How many rejections by this rule reject the rater; 0: never."""
        mine = (one for one in self.on_assignments if one.name == rule)
        return next((one.rater_after for one in mine if isinstance(one, KnownAnswers)), 0)

    @property
    def earlier_answers(self) -> int:
        """How many earlier answers a rule needs."""
        return max((rule.run for rule in self.on_assignments if isinstance(rule, StraightLining)), default=0)


def read_rules(options: Mapping[str, Mapping[str, Any]]) -> StudyRules:
    """The rules by their names, with their options, as a study stores them."""
    for name, given in options.items():
        RULES.find(name)
        if not isinstance(given, Mapping):
            raise OptionError(f"quality rule '{name}' has {str(given)[:60]}; expected options, such as {{}} for none")
    known = [*RULES.built_in, *(name for name in options if name not in RULES.built_in)]
    classes = [cls for name in known if (cls := RULES.find(name)).always or name in options]
    made = [_make(cls, options.get(cls.name, {})) for cls in classes]
    correlation = next((one for one in made if isinstance(one, CorrelationFilter)), None)
    return StudyRules(tuple(one for one in made if isinstance(one, AssignmentRule)), correlation)


def parse_rules(specs: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Rules in text form (`min-time:seconds=20`) as a study stores them, each once."""
    rules: dict[str, dict[str, Any]] = {}
    for made in map(RULES.create, specs):
        if made.name in rules:
            raise OptionError(f"{argument('rule', made.name)} is duplicated; expected it once, with all its options")
        rules[made.name] = {one.name: getattr(made, one.name) for one in options_of(type(made))}
    return rules


def _make(cls: type[Rule], options: Mapping[str, Any]) -> Rule:
    known = [one.name for one in options_of(cls)]
    for key in options:
        if key not in known:
            raise UnknownName.among(f"option of {cls.name}", key, known)
    try:
        return msgspec.convert(dict(options), cls)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        key = place.strip("`$.")
        raise OptionError(f"quality rule '{cls.name}', {key or 'options'}: {message}", option=key or None) from error
