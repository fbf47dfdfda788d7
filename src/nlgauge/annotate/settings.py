"""How a study runs: options of `nlgauge annotate new`, stored with the study."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from nlgauge.annotate.rules import StudyRules, parse_rules, read_rules
from nlgauge.configured import Options, check_that, option
from nlgauge.data.human.forms import Form
from nlgauge.errors import OptionError, argument

Platform = Literal["direct", "mturk", "prolific"]
PLATFORMS: tuple[Platform, ...] = get_args(Platform)
PLATFORM_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
CROWDS: tuple[Platform, ...] = ("mturk", "prolific")
_LARGEST_SEED = 2**63 - 1
DEFAULT_RULE = "min-time:share=0.1"
_EVERY = {"gold": "gold_every", "attention": "attention_every", "qualification": "qualification_tries"}


@dataclass(frozen=True, kw_only=True)
class Asking(Options):
    """Who is asked, how often, and for what pay."""

    heading: ClassVar[str] = "Raters"

    raters: int = option(3, "Valid ratings that each unit gets.", metavar="N")
    lease_minutes: float | None = option(
        None, "How long a rater may keep a unit. Default: five times the form's time, at least 30."
    )
    pay: float = option(0.0, "What one assignment pays.")
    currency: str = option("USD", "Currency of the pay.")
    seed: int = option(12345, "Seed of every random step.", metavar="N")
    max_units_per_rater: int | None = option(
        None, "Most units that one rater may have.", metavar="N", flags=("--units-per-rater",)
    )
    qualification_tries: int = option(3, "Tries of a rater to pass the qualification.", metavar="N")
    gold_every: int = option(10, "One gold unit among N assignments of a rater.", metavar="N")
    attention_every: int = option(10, "One attention unit among N assignments of a rater.", metavar="N")
    joins_per_minute: int = option(20, "Most new raters from platforms per minute.", metavar="N")
    completion_code: str = option("", "Code that a rater sees at the end, for Prolific.")
    post_back_url: str = option(
        "", "Mechanical Turk's address for finished work, where it shows this site.", metavar="URL"
    )
    platforms: tuple[Platform, ...] = option(
        PLATFORMS,
        "Only raters from here: with links of your own, or from a platform. Repeat for more.",
        flags=("--platform",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        most, lease = self.max_units_per_rater, self.lease_minutes
        for holds, name, expected in (
            (self.raters >= 1, "raters", "at least 1"),
            (lease is None or (math.isfinite(lease) and lease > 0), "lease_minutes", "more than 0"),
            (math.isfinite(self.pay) and self.pay >= 0, "pay", "0 or more"),
            (0 <= self.seed <= _LARGEST_SEED, "seed", f"0 to {_LARGEST_SEED}"),
            (most is None or most >= 1, "max_units_per_rater", "1 or more, or no limit"),
            (self.joins_per_minute >= 1, "joins_per_minute", "1 or more"),
            (self.qualification_tries >= 1, "qualification_tries", "1 or more"),
            (self.gold_every >= 2, "gold_every", "2 or more"),
            (self.attention_every >= 2, "attention_every", "2 or more"),
        ):
            check_that(holds, name, getattr(self, name), expected)
        if not self.platforms:
            raise OptionError(f"no {argument('platforms')}; expected one or more of {', '.join(PLATFORMS)}")


@dataclass(frozen=True, kw_only=True)
class Known(Options):
    """Files with known answers, and quality rules."""

    heading: ClassVar[str] = "Quality"

    gold: str | None = option(
        None, "Units mixed in with others: rows as in the data, with columns expected_QUESTION.", metavar="FILE"
    )
    attention: str | None = option(None, "Units that anybody who reads them answers right; as --gold.", metavar="FILE")
    qualification: str | None = option(None, "Units that a rater must pass first; as --gold.", metavar="FILE")
    rule: Sequence[str] = option(
        (),
        f"A quality rule, as `nlgauge annotate rules` shows them; repeat for more. Always: {DEFAULT_RULE}, unless "
        "min-time is given (min-time:seconds=0: off).",
        metavar="RULE[:OPTION=VALUE,...]",
    )

    @property
    def files(self) -> dict[str, str]:
        """The files that were named, by the kind of their units."""
        return {kind: file for kind in _EVERY if (file := getattr(self, kind)) is not None}

    def rules(self, of_form: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """The rules that were named; those of the form, and the least time per item, if they were not."""
        return {**parse_rules([DEFAULT_RULE]), **parse_rules(of_form), **parse_rules(self.rule)}

    def check(self, asking: Asking, rules: Collection[str]) -> None:
        """Refuse options about known answers that are missing: they would do nothing."""
        for kind, name in _EVERY.items():
            value = getattr(asking, name)
            if kind in self.files:
                continue
            if value != getattr(Asking, name):
                raise OptionError(
                    f"{argument(name, value)} without {argument(kind)}; expected a file of known answers", option=name
                )
            if kind in rules:
                raise OptionError(
                    f"{argument('rule', kind)} without {argument(kind)}; expected a file of known answers"
                )


@dataclass(frozen=True, kw_only=True)
class Dividing(Options):
    """How rows become units."""

    heading: ClassVar[str] = "Options"

    per_unit: int | None = option(None, "Sets or items of a unit, instead of the form's number.", metavar="N")
    smaller_last: bool = option(False, "The last unit may have fewer.")
    pages: Literal["apart", "joined"] = option(
        "apart", "Pages as the form has them; joined: those that show the same on one (asp-hds)."
    )
    apart: str = option("", "Pair sets that differ in this column (rnk-hds).", metavar="COL")
    negatives: bool = option(True, "Make negatives (story-quality).")

    def pages_of(self, form: Form) -> Form:
        """A form with the pages that are asked for."""
        return form.with_joined_pages() if self.pages == "joined" else form


@dataclass(frozen=True, kw_only=True)
class StudySettings(Asking):
    """All settings of a study: how raters are asked, and the quality rules by name.

    A rater who is done sees the `completion_code`; `post_back_url` is where a platform is told so. Raters may come from
    the `platforms` only, and from MTurk only where there is an address to post back to, from Prolific only where there
    is a code.
    """

    quality: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        read_rules(self.quality)

    @property
    def rules(self) -> StudyRules:
        """The quality rules."""
        return read_rules(self.quality)

    @property
    def rule_specs(self) -> list[str]:
        """The rules that were chosen for the study, in text form."""
        made = (*self.rules.on_assignments, *filter(None, [self.rules.correlation]))
        return [one.spec for one in made if one.name in self.quality]
