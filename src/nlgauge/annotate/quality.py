"""Quality rules: which work to reject, and why; each is a class with its options.

A rule sees the work of one assignment (and what came before it) and says nothing, or gives a reason in plain words with
the numbers that led to it. The store acts on a reason, and lets a researcher overrule it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from nlgauge.configured import Configured, option
from nlgauge.errors import OptionError
from nlgauge.stats.ratings.agreement import rater_correlations
from nlgauge.text.near_copies import normalised

Key = tuple[str, str]
Answers = Mapping[Key, Any]

_SHOWN = 3


@dataclass(frozen=True)
class Finding:
    """A reason to reject."""

    rule: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Work:
    """One assignment as the rules see it; answers and expected answers go by (item, question).

    `minutes` is the time that the form expects for as many items. `roles` says which items are the human's, the
    negative or gold. `scales` are the questions answered in points, `levels` these and choices of three values or more,
    such as those of typicality; `texts` those answered in free text. `earlier` has, for each of `levels`, the rater's
    answers in earlier assignments, oldest first; `own_texts` and `other_texts` have fingerprints of texts that this
    rater and others have handed in before. `written` has the sets that the texts make, in forms that ask people to
    write some, and `context` what they respond to.
    """

    answers: Answers
    seconds: float = 0.0
    minutes: float = 1.0
    kind: str = "normal"
    roles: Mapping[str, str] = field(default_factory=dict)
    expected: Answers = field(default_factory=dict)
    scales: Collection[str] = ()
    levels: Collection[str] = ()
    texts: Collection[str] = ()
    earlier: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    own_texts: Collection[str] = ()
    other_texts: Collection[str] = ()
    written: Sequence[Sequence[str]] = ()
    context: str = ""

    @property
    def free_texts(self) -> list[str]:
        """All free texts that are not empty, in the order of their keys."""
        return [
            text
            for (_, question), text in sorted(self.answers.items())
            if question in self.texts and isinstance(text, str) and text
        ]

    def tested_by(self, item: str) -> str:
        """The rule that knows the answers about this item."""
        if self.kind != "normal":
            return self.kind
        return "attention" if self.roles.get(item) == "attention" else "gold"


@dataclass(frozen=True, kw_only=True)
class Rule(Configured):
    """A quality rule. `always` says that it applies whether or not a study names it.

    `limits` are options with the values that they may have, as a function and in words.
    """

    always: ClassVar[bool] = False
    limits: ClassVar[tuple[tuple[str, Callable[[Any], bool], str], ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, holds, expected in self.limits:
            value = getattr(self, name)
            if not holds(value):
                raise OptionError(f"{self.name}:{name}={value}; expected {expected}", option=name)


class AssignmentRule(Rule, ABC):
    """A rule about the work of one assignment."""

    @abstractmethod
    def find(self, work: Work) -> Finding | None:
        """The reason to reject this work, or None."""


@dataclass(frozen=True, kw_only=True)
class KnownAnswers(AssignmentRule):
    """Answers that are known beforehand: a share of them must be right."""

    name: ClassVar[str] = "gold"
    always: ClassVar[bool] = True

    tolerance: float = option(0.0, "How far a right number may be from the known one.")
    least: float = option(1.0, "Share of known answers that must be right.")
    rater_after: int = option(1, "Rejections by this rule that reject the rater with all their work; 0: never.")

    limits = (
        ("tolerance", lambda value: value >= 0, "0 or more"),
        ("least", lambda value: 0 < value <= 1, "a share above 0, at most 1"),
        ("rater_after", lambda value: value >= 0, "0 or more"),
    )

    def find(self, work: Work) -> Finding | None:
        """Compare with the expected answers that this rule is about."""
        mine = {key: value for key, value in work.expected.items() if work.tested_by(key[0]) == self.name}
        wrong = [key for key, value in mine.items() if not is_close(work.answers.get(key), value, self.tolerance)]
        if not mine or len(mine) - len(wrong) >= self.least * len(mine) - 1e-9:
            return None
        shown = "; ".join(
            f"'{question}'{f' of {item}' if item else ''}: {_shown(work.answers.get((item, question)))}, expected "
            f"{_shown(mine[item, question])}{f' give or take {self.tolerance:g}' if self.tolerance else ''}"
            for item, question in wrong[:_SHOWN]
        )
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        return Finding(
            self.name,
            f"{len(mine) - len(wrong)} of {len(mine)} known answers were right, fewer than {self.least:.0%} "
            f"({shown}{more})",
        )


@dataclass(frozen=True, kw_only=True)
class Attention(KnownAnswers):
    """Items that anybody who reads them answers right."""

    name: ClassVar[str] = "attention"


@dataclass(frozen=True, kw_only=True)
class Qualification(KnownAnswers):
    """The round before the first assignment; the study says how many tries there are."""

    name: ClassVar[str] = "qualification"

    least: float = option(0.8, "Share of known answers that must be right.")
    rater_after: int = option(0, "Rejections by this rule that reject the rater with all their work; 0: never.")


@dataclass(frozen=True, kw_only=True)
class Mans(AssignmentRule):
    """Paper 4, section 3.1: the human-written story must have at least 4 points, the negative example at most 2."""

    name: ClassVar[str] = "mans"

    human: float = option(4.0, "Fewest points of the human-written text.")
    negative: float = option(2.0, "Most points of the negative example.")
    question: str = option("", "The question with the points. Default: every scale of the form.")

    def find(self, work: Work) -> Finding | None:
        """Check the points of the human-written story and of the negative example."""
        found = []
        for (item, question), value in work.answers.items():
            if question != self.question and (self.question or question not in work.scales):
                continue
            role = work.roles.get(item, "")
            if role == "human" and value < self.human:
                found.append(f"the human-written text has {value:g}, below {self.human:g}")
            if role == "negative" and value > self.negative:
                found.append(f"the negative example has {value:g}, above {self.negative:g}")
        return Finding(self.name, " and ".join(found)) if found else None


@dataclass(frozen=True, kw_only=True)
class MinTime(AssignmentRule):
    """Work that was too quick for its number of items."""

    name: ClassVar[str] = "min-time"

    share: float = option(0.2, "Least share of the time per item that the form expects.")
    seconds: float | None = option(None, "Least time of an assignment, instead of a share of the form's; 0: none.")

    limits = (
        ("share", lambda value: 0 <= value <= 1, "a share from 0 to 1"),
        ("seconds", lambda value: value is None or value >= 0, "0 or more"),
    )

    def find(self, work: Work) -> Finding | None:
        """Compare the time that the work took with the least."""
        least = self.share * work.minutes * 60 if self.seconds is None else self.seconds
        if work.seconds >= least:
            return None
        return Finding(self.name, f"the work took {work.seconds:.1f} seconds, fewer than {least:.1f}")


@dataclass(frozen=True, kw_only=True)
class StraightLining(AssignmentRule):
    """The same answer throughout, in one assignment or in a row over several.

    Choices between two values do not count: five honest answers to a question with yes and no are often the same.
    """

    name: ClassVar[str] = "straight-lining"

    answers: int = option(5, "Number of equal answers in one assignment.")
    run: int = option(0, "Number of equal answers in a row, over several assignments; 0: only within one.")

    limits = (
        ("answers", lambda value: value >= 2, "2 or more"),
        ("run", lambda value: value == 0 or value >= 2, "0, or 2 or more"),
    )

    def find(self, work: Work) -> Finding | None:
        """Look at every question with levels."""
        for question in work.levels:
            given = [value for (_, asked), value in work.answers.items() if asked == question]
            if len(given) >= self.answers and len(set(given)) == 1:
                return Finding(self.name, f"all {len(given)} answers to '{question}' are {given[0]:g}")
            row = [*work.earlier.get(question, ()), *given][-self.run :] if self.run else []
            if given and len(row) >= self.run > 0 and len(set(row)) == 1:
                return Finding(self.name, f"the last {len(row)} answers to '{question}' are all {row[0]:g}")
        return None


@dataclass(frozen=True, kw_only=True)
class DuplicateText(AssignmentRule):
    """Free text that was handed in before; case, spaces and punctuation do not matter."""

    name: ClassVar[str] = "duplicate-text"

    words: int = option(4, "Shorter texts do not count: people may give the same short answer.")
    across: bool = option(True, "Also texts of other raters.")

    limits = (("words", lambda value: value >= 1, "1 or more"),)

    def find(self, work: Work) -> Finding | None:
        """Look for the texts of this assignment among each other and among earlier ones."""
        texts = {key: text for key, text in work.answers.items() if key[1] in work.texts and isinstance(text, str)}
        long_enough = {key: text for key, text in texts.items() if len(normalised(text).split()) >= self.words}
        marks = {key: fingerprint(text) for key, text in long_enough.items()}
        counts = Counter(marks.values())
        for key, text in long_enough.items():
            where = ""
            if counts[marks[key]] > 1:
                where = f"occurs {counts[marks[key]]} times in this assignment"
            elif marks[key] in work.own_texts:
                where = "was handed in before by the same rater"
            elif self.across and marks[key] in work.other_texts:
                where = "was handed in before by another rater"
            if where:
                return Finding(self.name, f"the text '{text[:60]}' for '{key[1]}' {where}")
        return None


@dataclass(frozen=True, kw_only=True)
class CorrelationFilter(Rule):
    """Paper 2, section 3.2.4: raters whose ratings correlate below .65 with the mean of the items that they rated.

    Where numbers compare the items of one assignment only (set-diversity), the mean of the correlations within
    assignments counts, and where there are several questions, their mean. A comparison of two items is one item here,
    and counts in both directions.
    """

    name: ClassVar[str] = "correlation"

    below: float = option(0.65, "Least correlation.")
    items: int = option(10, "Judge a rater who has rated so many items, each with enough raters.")
    raters: int = option(2, "Fewest raters of an item, this one included.")
    leave_one_out: bool = option(False, "Take the mean of the others.")

    limits = (
        ("below", lambda value: -1 <= value <= 1, "a correlation"),
        ("items", lambda value: value >= 3, "3 or more"),
        ("raters", lambda value: value >= 2, "2 or more"),
    )

    def find(
        self,
        rater: str,
        ratings: Iterable[tuple[str, str, str, float]],
        comparisons: Collection[str] = (),
        within: Mapping[Key, int] = MappingProxyType({}),
    ) -> Finding | None:
        """Judge one rater by rows of (rater, item, question, value): at least all ratings of their items.

        `within` has the assignment of each item and question whose numbers compare within one assignment only.

        `comparisons` names the items that stand for two: which of these comes first is chance, so that -1 for one
        order is 1 for the other. Without the other order a rater who says what all say, be it always 1, would have no
        correlation with them.
        """
        tables: dict[str, dict[str, dict[str, float]]] = {}
        for who, item, question, value in ratings:
            tables.setdefault(question, {}).setdefault(item, {})[who] = value
        found, most = [], 0
        for question, table in tables.items():
            shared = {item: given for item, given in table.items() if rater in given and len(given) >= self.raters}
            if len(shared) < self.items:
                continue
            names = sorted({who for given in shared.values() for who in given})
            cells = np.array([[given.get(who, np.nan) for given in shared.values()] for who in names])
            if all((item, question) in within for item in shared):
                _, units = np.unique([within[item, question] for item in shared], return_inverse=True)
                assignments = np.broadcast_to(units, cells.shape)
                known = rater_correlations(cells, assignments=assignments, leave_one_out=self.leave_one_out)
            else:
                turned = -cells[:, [item in comparisons for item in shared]]
                known = rater_correlations(np.hstack([cells, turned]), leave_one_out=self.leave_one_out)
            value = float(known[names.index(rater)])
            if not np.isnan(value):
                found.append(value)
                most = max(most, len(shared))
        if not found or np.mean(found) >= self.below:
            return None
        mean = "the mean of the others" if self.leave_one_out else "the mean rating"
        return Finding(
            self.name,
            f"the ratings correlate {np.mean(found):.2f} with {mean} over {most} items, below {self.below:g}",
        )


def fingerprint(text: str) -> str:
    """A short hash of the normalised text, by which equal texts are found; empty for a text without words."""
    words = normalised(text)
    return hashlib.blake2b(words.encode(), digest_size=16).hexdigest() if words else ""


def is_close(value: Any, expected: Any, tolerance: float) -> bool:
    """Whether an answer is the expected one: numbers within the tolerance, texts after normalising, the rest equal."""
    if _is_number(value) and _is_number(expected):
        return abs(float(value) - float(expected)) <= tolerance + 1e-9
    if isinstance(value, str) and isinstance(expected, str):
        return value == expected or (normalised(value) == normalised(expected) != "")
    if isinstance(value, list | tuple) and isinstance(expected, list | tuple):
        return list(value) == list(expected)
    return bool(value == expected)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return "no answer" if value is None else str(value)[:60]
