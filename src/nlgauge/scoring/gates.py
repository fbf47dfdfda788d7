"""Conditions that make `nlgauge score` fail: a check for continuous integration."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nlgauge.errors import DataError, OptionError, UnknownName, argument
from nlgauge.metrics.score import Score
from nlgauge.scoring.compared import Comparison

_TESTS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"(?P<what>.+?)\s*(?P<test><=|>=|<|>)\s*(?P<limit>[^<>=\s]+)", re.S)
_ENDS = r"low|high|p|worse_p|equal_p|not_worse_p|difference(?:\.low|\.high)?"
_AFTER_NAME = re.compile(rf"(\.(?P<end>{_ENDS}))?(@(?P<system>.+))?")
_EXPECTED = (
    "expected METRIC, or METRIC with .low or .high (of its interval), .difference, .difference.low, .difference.high, "
    ".p, .worse_p, .equal_p or .not_worse_p (against the first system), perhaps @SYSTEM, one of < <= > >=, and a "
    "number, as in 'distinct < 0.4'"
)


@dataclass(frozen=True)
class Gate:
    """One condition, about one metric of one system, or of any system when `system` is empty.

    `end` is empty for the value itself, `low` or `high` for an end of its interval; `difference` (or an end of its
    interval) and p-values (corrected for the number of tests) are those of a system against the first: `p` of no
    difference, `worse_p` of a system that is worse (1 where it is not), `equal_p` and `not_worse_p` of `--margin`.
    """

    text: str
    label: str
    end: str
    system: str
    test: str
    limit: float

    @property
    def of_difference(self) -> bool:
        """Whether the condition is about a system against the first."""
        return self.end.endswith("p") or self.end.startswith("difference")

    def check(self, margin: float | None) -> None:
        """Refuse, before the work, a condition on a test that takes a margin where there is none."""
        if margin is None and self.end in ("equal_p", "not_worse_p"):
            raise OptionError(f"{_named(self.text)} is about a margin; expected one, as in {argument('margin', 0.02)}")

    def met(self, scores: Sequence[Score], comparisons: Sequence[Comparison] = ()) -> list[str]:
        """A line for every score that meets the condition; a value that is no number meets every one."""
        found = self._differences(comparisons) if self.of_difference else self._values(scores)
        if self.system:
            if self.system not in found:
                raise UnknownName.among(f"system in {_named(self.text)}:", self.system, list(found))
            found = {self.system: found[self.system]}
        return [line for system, value in found.items() if (line := self._line(system, value))]

    def _differences(self, comparisons: Sequence[Comparison]) -> dict[str, float]:
        about = [one for one in comparisons if one.metric_label == self.label]
        if not about:
            raise DataError(
                f"{_named(self.text)}: no systems were compared; expected several files, or a column of systems, "
                "the first of which is what others are compared with"
            )
        return {one.second: _compared(one)[self.end] for one in about}

    def _values(self, scores: Sequence[Score]) -> dict[str, float]:
        return {score.system: self._value(score) for score in scores if score.label == self.label}

    def _value(self, score: Score) -> float:
        if self.end:
            if score.ci is None:
                raise DataError(
                    f"{_named(self.text)}: {score.label} has no interval; expected a condition on its value, or a "
                    "metric that has one"
                )
            return score.ci[self.end == "high"]
        return score.value

    def _line(self, system: str, value: float) -> str:
        name = self.label + (f".{self.end}" if self.end else "")
        of = f" of '{system}'" if system else ""
        if math.isnan(value):
            return f"{self.text}: {name}{of} is not a number, which meets every condition"
        return f"{self.text}: {name}{of} is {value:.10g}" if _TESTS[self.test](value, self.limit) else ""


def _compared(one: Comparison) -> dict[str, float]:
    """What a condition may be about, of a comparison."""
    worse = one.difference * one.direction.sign < 0
    return {
        "difference": one.difference,
        "difference.low": one.ci[0],
        "difference.high": one.ci[1],
        "p": one.p_adjusted,
        "worse_p": one.p_adjusted if worse or math.isnan(one.p_adjusted) else 1.0,
        "equal_p": math.nan if one.equal_p is None else one.equal_p,
        "not_worse_p": math.nan if one.not_worse_p is None else one.not_worse_p,
    }


def _named(condition: str) -> str:
    return argument("fail_if", f"'{condition}'")


def read_gates(conditions: Sequence[str], metrics: Sequence[Any]) -> list[Gate]:
    """Conditions as typed, about metrics by the names that tables print (or their labels)."""
    names: dict[str, list[str]] = {}
    for metric in metrics:
        for name in dict.fromkeys((metric.label, metric.title)):
            names.setdefault(name, []).append(metric.label)
    return [_read(condition.strip(), names) for condition in conditions]


def _read(condition: str, names: dict[str, list[str]]) -> Gate:
    parts = _CONDITION.fullmatch(condition)
    if parts is None:
        raise OptionError(f"{_named(condition)} is no condition; {_EXPECTED}")
    what, limit = parts["what"].strip(), _number(parts["limit"])
    if limit is None:
        raise OptionError(f"{_named(condition)}: '{parts['limit']}' is no number; {_EXPECTED}")
    for name in sorted(names, key=len, reverse=True):
        rest = _AFTER_NAME.fullmatch(what.removeprefix(name)) if what.startswith(name) else None
        if rest is None:
            continue
        labels = names[name]
        if name not in labels and len(labels) > 1:
            raise OptionError(f"{_named(condition)}: {name} stands for {', '.join(labels)}; expected one of them")
        label = name if name in labels else labels[0]
        return Gate(condition, label, rest["end"] or "", rest["system"] or "", parts["test"], limit)
    asked = re.split(rf"@|\.(?:{_ENDS})\b", what)[0]
    raise UnknownName.among(
        f"metric in {_named(condition)}:",
        asked,
        names,
        "A condition is about a metric that is measured: add it with -m.",
    )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
