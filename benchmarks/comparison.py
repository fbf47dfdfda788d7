"""Rows and checks that every comparison with peers has."""

from __future__ import annotations

from typing import Any

from results import Check

Report = dict[str, Any]


def row(program: str, calls: str, found: Report, ours: Report) -> dict[str, Any]:
    """One line of the table; ratios say how many times more than NLGauge's first line."""
    version = found.get("version")
    return {
        "program": f"{program} {version}" if version else program,
        "called": calls,
        "seconds": found.get("seconds"),
        "peak MB": found.get("peak_mb"),
        "value": found.get("problem") or found["value"],
        "time ratio": ratio(found, ours, "seconds"),
        "memory ratio": ratio(found, ours, "peak_mb"),
    }


def ratio(found: Report, ours: Report, key: str) -> float | None:
    """How many times more the peer took; None when it did not run."""
    return float(found[key] / ours[key]) if key in found else None


def faster(peer: str, found: Report, ours: Report, limit: float) -> Check:
    """NLGauge takes so many times less time."""
    claim = f"faster than {peer}"
    return Check(claim=claim, measured=ratio(found, ours, "seconds"), limit=limit, kind="at least", unit="x")


def smaller(peer: str, found: Report, ours: Report, limit: float) -> Check:
    """NLGauge takes so many times less memory."""
    claim = f"peak memory lower than that of {peer}"
    return Check(claim=claim, measured=ratio(found, ours, "peak_mb"), limit=limit, kind="at least", unit="x")


def difference(found: Report, ours: Report) -> float | None:
    """Between the two values; None when the peer did not run."""
    return abs(float(found["value"] - ours["value"])) if "value" in found else None


def largest_gap(found: list[list[float]], expected: list[list[float]]) -> float:
    """The largest difference between two numbers that stand at the same place."""
    return max(abs(a - b) for x, y in zip(found, expected, strict=True) for a, b in zip(x, y, strict=True))


def agrees(claim: str, difference: float | None, limit: float) -> Check:
    """Both computed the same."""
    return Check(claim=claim, measured=difference, limit=limit, kind="at most", at_any_scale=True)
