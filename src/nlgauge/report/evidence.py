"""Evidence about metrics: a small table that `python -m papers.evidence` writes.

Its rows come from the results of `make papers`; every row names the study, the data, the metric's signature, the number
of texts or sets, and an interval. The tests are those of paper 1 (decoding, content), paper 2 (length) and paper 4
(discrimination, invariance, agreement with people).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from nlgauge.report.study_tables import short, show
from nlgauge.signature import Signature

_STRONG, _MODERATE = 0.5, 0.3


class _Test(NamedTuple):
    """The title of a test, and what a metric does by it, or does not."""

    title: str
    follows: str = "agrees with people"
    not_shown: str = "no agreement was shown"


_TESTS = {
    "content": _Test(
        "content test", "tells high from low content diversity", "does not tell high from low content diversity"
    ),
    "decoding": _Test("decoding test", "follows the temperature", "does not follow the temperature"),
    "length-bias": _Test("length"),
    "correlation": _Test("people"),
    "discrimination": _Test("discrimination", "tells good from worse", "does not tell good from worse"),
    "invariance": _Test("invariance"),
}


@dataclass(frozen=True)
class Finding:
    """A number that a test found, with its interval if there is one."""

    measure: str
    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Evidence:
    """The result of one test of one metric on some data; `same`: measured with the same settings."""

    test: str
    data: str
    n: int
    of: str
    findings: tuple[Finding, ...]
    metric: str
    signature: str
    study: str
    command: str
    same: bool

    @property
    def title(self) -> str:
        """The test's name."""
        return _TESTS[self.test].title

    @property
    def digits(self) -> int:
        """Digits of its numbers on a page: changes per token are small."""
        return 3 if self.test == "length-bias" else 2

    def found(self, digits: int | None = None) -> str:
        """All findings with their intervals."""
        shown = digits or self.digits
        return ", ".join(
            f"{one.measure} {short(one.value, shown)}{'' if one.interval is None else f' {show(one.interval, shown)}'}"
            for one in self.findings
        )

    @property
    def reading(self) -> str:
        """The first finding in words."""
        first = self.findings[0]
        value, interval, test = first.value, first.interval, _TESTS[self.test]
        if self.test == "length-bias":
            return f"a token more changes it by {100 * value:+.1f} %"
        if self.test == "invariance":
            return f"a change that does not matter moves it by {value:.2f} standard deviations"
        if interval is None:
            return "too few for an interval"
        if interval[0] <= (0.5 if first.measure == "AUC" else 0.0) <= interval[1]:
            return test.not_shown
        if value < 0:
            return "goes the wrong way"
        if self.test == "discrimination":
            return f"{test.follows} in {value:.0%} of pairs" if first.measure == "AUC" else test.follows
        strength = "strongly" if value >= _STRONG else "moderately" if value >= _MODERATE else "weakly"
        return f"{test.follows} {strength}"


@lru_cache(maxsize=1)
def shipped() -> dict[str, Any]:
    """The table of the package."""
    text = (resources.files("nlgauge.report") / "evidence.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def evidence_for(signature: Signature) -> list[Evidence]:
    """All evidence about a metric with these settings, or else with other settings.

    Rows without a signature are about values computed by others and are always included.
    """
    document = shipped()
    found = [
        _evidence(row, document["studies"][row["study"]], signature)
        for row in document["rows"]
        if row["metric"].partition(":")[0] == signature.name
    ]
    return [one for one in found if one.same or not one.signature] if any(one.same for one in found) else found


def _evidence(row: Mapping[str, Any], study: Mapping[str, Any], signature: Signature) -> Evidence:
    known = Signature.parse(row["signature"]) if row["signature"] else None
    findings = [{"measure": measure, **one} for measure, one in row["found"].items()]
    about = {"test": study["test"], "study": study["signature"], "command": study["command"]}
    same = known is not None and dict(known.options) == dict(signature.options)
    return msgspec.convert({**row, **about, "findings": findings, "same": same}, Evidence)
