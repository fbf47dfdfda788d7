"""Conditions that make `nlgauge score` fail: a check for continuous integration."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.metrics.score import Score

_TESTS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"(?P<what>.+?)\s*(?P<test><=|>=|<|>)\s*(?P<limit>[^<>=\s]+)", re.S)
_AFTER_NAME = re.compile(r"(\.(?P<end>low|high))?(@(?P<system>.+))?")
_EXPECTED = "expected METRIC[.low|.high][@SYSTEM], one of < <= > >=, and a number, as in 'distinct < 0.4'"


@dataclass(frozen=True)
class Gate:
    """One condition, about one metric of one system, or of any system when `system` is empty.

    `end` is `low` or `high` for an end of the interval, and empty for the value itself.
    """

    text: str
    label: str
    end: str
    system: str
    test: str
    limit: float

    def met(self, scores: Sequence[Score]) -> list[str]:
        """A line for every score that meets the condition; a value that is no number meets every one."""
        about = [score for score in scores if score.label == self.label]
        if self.system:
            systems = [score.system for score in about]
            about = [score for score in about if score.system == self.system]
            if not about:
                raise UnknownName.among(f"system in --fail-if '{self.text}':", self.system, systems)
        return [line for score in about if (line := self._line(score))]

    def _line(self, score: Score) -> str:
        value = score.value
        if self.end:
            if score.ci is None:
                raise DataError(
                    f"--fail-if '{self.text}': {score.label} has no interval; expected a condition on its value, or a "
                    "metric that has one"
                )
            value = score.ci[self.end == "high"]
        name = score.label + (f".{self.end}" if self.end else "")
        of = f" of '{score.system}'" if score.system else ""
        if math.isnan(value):
            return f"{self.text}: {name}{of} is not a number, which meets every condition"
        return f"{self.text}: {name}{of} is {value:.10g}" if _TESTS[self.test](value, self.limit) else ""


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
        raise OptionError(f"--fail-if '{condition}' is no condition; {_EXPECTED}")
    what, limit = parts["what"].strip(), _number(parts["limit"])
    if limit is None:
        raise OptionError(f"--fail-if '{condition}': '{parts['limit']}' is no number; {_EXPECTED}")
    for name in sorted(names, key=len, reverse=True):
        rest = _AFTER_NAME.fullmatch(what.removeprefix(name)) if what.startswith(name) else None
        if rest is None:
            continue
        labels = names[name]
        if name not in labels and len(labels) > 1:
            raise OptionError(f"--fail-if '{condition}': {name} stands for {', '.join(labels)}; expected one of them")
        label = name if name in labels else labels[0]
        return Gate(condition, label, rest["end"] or "", rest["system"] or "", parts["test"], limit)
    asked = re.split(r"@|\.(?:low|high)$", what)[0]
    raise UnknownName.among(
        f"metric in --fail-if '{condition}':",
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
