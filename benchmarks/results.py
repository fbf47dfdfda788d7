"""What a benchmark found: tables of measurements and checks against targets, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Check:
    """A measured number against its limit.

    Targets count at full scale only; values that must agree (`at_any_scale`) count always. `measured` is None when
    there was nothing to measure, for instance because a peer could not be installed.
    """

    claim: str
    measured: float | None
    limit: float
    kind: Literal["at least", "at most"]
    unit: str = ""
    at_any_scale: bool = False

    def verdict(self, *, full_scale: bool) -> str:
        """Whether the limit holds, and whether that counts."""
        if self.measured is None:
            return "not measured"
        if self.measured >= self.limit if self.kind == "at least" else self.measured <= self.limit:
            return "PASS"
        return "FAIL" if full_scale or self.at_any_scale else "missed, counts at full scale only"

    def row(self, *, full_scale: bool) -> dict[str, Any]:
        """A line of the table of checks."""
        return {
            "claim": self.claim,
            "measured": None if self.measured is None else f"{_number(self.measured)}{self.unit}",
            "target": f"{self.kind} {_number(self.limit)}{self.unit}",
            "verdict": self.verdict(full_scale=full_scale),
        }


@dataclass
class Section:
    """One comparison: rows that were measured, remarks on them, and checks; problems are failures of NLGauge itself."""

    title: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def markdown(self, *, full_scale: bool) -> str:
        """Heading, measurements, remarks, checks."""
        remarks = [*self.remarks, *(f"FAIL: {problem}" for problem in self.problems)]
        checks = [check.row(full_scale=full_scale) for check in self.checks]
        parts = [f"## {self.title}", _table(self.rows), "\n".join(f"- {remark}" for remark in remarks), _table(checks)]
        return "\n\n".join(part for part in parts if part)

    def verdicts(self, *, full_scale: bool) -> list[str]:
        """One a check, and a FAIL a problem."""
        return [*(check.verdict(full_scale=full_scale) for check in self.checks), *("FAIL" for _ in self.problems)]


def _table(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    header = list(rows[0])
    lines = [header, ["---"] * len(header), *([_cell(row[name]) for name in header] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return _number(value) if isinstance(value, float) else str(value).replace("|", "\\|").replace("\n", " ")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
