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
from typing import Any

from nlgauge.signature import Signature

_STRONG, _MODERATE = 0.5, 0.3
_TESTS = {
    "content": "content test",
    "decoding": "decoding test",
    "length-bias": "length",
    "correlation": "people",
    "discrimination": "discrimination",
    "invariance": "invariance",
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
        return _TESTS.get(self.test, self.test)

    @property
    def reading(self) -> str:
        """The first finding in words."""
        return _reading(self.test, self.findings[0])


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
    return Evidence(
        test=study["test"],
        data=row["data"],
        n=row["n"],
        of=row["of"],
        findings=tuple(
            Finding(
                measure, one["value"], None if one["interval"] is None else (one["interval"][0], one["interval"][1])
            )
            for measure, one in row["found"].items()
        ),
        metric=row["metric"],
        signature=row["signature"],
        study=study["signature"],
        command=study["command"],
        same=known is not None and dict(known.options) == dict(signature.options),
    )


def _reading(test: str, finding: Finding) -> str:
    value, interval = finding.value, finding.interval
    if test == "length-bias":
        return f"a token more changes it by {100 * value:+.1f} %"
    if test == "invariance":
        return f"a change that does not matter moves it by {value:.2f} standard deviations"
    if interval is None:
        return "too few for an interval"
    if interval[0] <= (0.5 if finding.measure == "AUC" else 0.0) <= interval[1]:
        return {
            "content": "does not tell high from low content diversity",
            "decoding": "does not follow the temperature",
            "discrimination": "does not tell good from worse",
        }.get(test, "no agreement was shown")
    if value < 0:
        return "goes the wrong way"
    if test == "discrimination":
        return f"tells good from worse in {value:.0%} of pairs" if finding.measure == "AUC" else "tells good from worse"
    strength = "strongly" if value >= _STRONG else "moderately" if value >= _MODERATE else "weakly"
    follows = {
        "content": "tells high from low content diversity",
        "decoding": "follows the temperature",
    }.get(test, "agrees with people")
    return f"{follows} {strength}"
