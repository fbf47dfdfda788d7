"""Several systems or temperatures in the plane of quality and diversity (paper 3, section 5.2, Figure 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from nlgauge.errors import DataError, argument
from nlgauge.studies.base import Column, Result, Row, StudyData, columns
from nlgauge.studies.huse.charts import plane_chart
from nlgauge.studies.huse.intervals import HuseInference
from nlgauge.studies.huse.score import SCORE_COLUMNS, Huse, score_with_interval
from nlgauge.studies.sentences import listed


@dataclass(frozen=True, kw_only=True)
class Tradeoff(HuseInference):
    """Trade-off between quality and diversity: several systems or temperatures in one plane.

    HUSE of every system, best first, and which systems are at least as good in both quality and diversity. Systems
    whose name ends in a number after the last space or `@` (`model @0.7`) belong to one group in the chart.
    """

    name: ClassVar[str] = "tradeoff"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study tradeoff t10.csv t07.csv --tasks 'model @1.0,model @0.7' --chart tradeoff.html",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        Column("system"),
        *SCORE_COLUMNS,
        *columns("n", "dominated_by", "judge"),
    )
    aspect: ClassVar[str] = "people"

    def compute(self, data: StudyData) -> Result:
        """HUSE of every system, and which of them dominate each."""
        return self.of(Huse(**vars(self)).compute(data))

    @classmethod
    def of(cls, scores: Result) -> Result:
        """From a result of `Huse`, without computing it again."""
        if len(scores.rows) < 2:
            raise DataError(
                f"one system; expected several files, or a column of systems ({argument('by')}), to compare"
            )
        rows: list[Row] = []
        for row in sorted(scores.rows, key=lambda row: (-row["huse"], row["system"])):
            better = [other["system"] for other in scores.rows if other is not row and _dominates(other, row)]
            rows.append({**row, "group": _group(str(row["system"])), "dominated_by": better})
        return Result(cls(**vars(scores.study)), rows, scores.notes, scores.facts)

    def sentence(self, result: Result) -> str:
        """Which system is best, and which of the others have intervals that lie below its own."""
        best, *others = result.rows
        first = f"Highest HUSE: {best['system']} ({score_with_interval(best, 'huse')})"
        if best["huse_ci"] is None:
            return f"{first}, without an interval."
        below = [str(row["system"]) for row in others if row["huse_ci"] and row["huse_ci"][1] < best["huse_ci"][0]]
        if not below:
            return f"{first}; no other system's interval lies below its own."
        rest = [str(row["system"]) for row in others if row["system"] not in below]
        tied = f"; not shown to differ from it: {listed(rest)}" if rest else ""
        return f"{first}; its interval lies above {'those' if len(below) > 1 else 'that'} of {listed(below)}{tied}."

    def chart(self, result: Result) -> Any:
        """Figure 3: lines of equal HUSE, and the region that some system dominates."""
        return plane_chart(result.rows, sorted({str(row["judge"]) for row in result.rows}))


def _dominates(other: Row, row: Row) -> bool:
    """Whether another system is at least as good in both, and better in one."""
    theirs, own = (other["huse_q"], other["huse_d"]), (row["huse_q"], row["huse_d"])
    return theirs != own and theirs[0] >= own[0] and theirs[1] >= own[1]


def _group(system: str) -> str:
    for mark in ("@", " "):
        stem, found, rest = system.rpartition(mark)
        if found and rest.replace(".", "", 1).isdigit():
            return stem.strip()
    return system
