"""Several systems or temperatures in the plane of quality and diversity (paper 3, section 5.2, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from nlgauge.errors import DataError
from nlgauge.metrics.signature import Signature
from nlgauge.studies.base import Row, Study
from nlgauge.studies.huse import HuseStudy, huse
from nlgauge.studies.huse_charts import plane_chart


@dataclass(frozen=True)
class Tradeoff(Study):
    """HUSE of every system, best first, and which systems are at least as good in both quality and diversity."""

    name: ClassVar[str] = "tradeoff"
    index: ClassVar[str] = "system"
    columns: ClassVar[tuple[str, ...]] = (
        "system", "huse", "huse_ci", "huse_q", "huse_q_ci", "huse_d", "huse_d_ci", "n", "dominated_by", "judge"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = HuseStudy.titles

    def chart(self) -> Any:
        """Figure 3: lines of equal HUSE, and the region that some system dominates."""
        return plane_chart([dict(row) for row in self.rows], sorted({str(row["judge"]) for row in self.rows}))


def tradeoff(data: Any, **options: Any) -> Tradeoff:
    """Compare systems by HUSE; arguments as for `huse`, with several files or the option `by`.

    Systems whose name ends in a number after the last space or `@` (`model @0.7`) belong to one group in the chart.
    """
    study = data if isinstance(data, HuseStudy) else huse(data, **options)
    if len(study.rows) < 2:
        raise DataError("one system; expected several files, or a column of systems (--by), to compare")
    rows: list[Row] = []
    for row in sorted(study.rows, key=lambda row: (-row["huse"], row["system"])):
        better = [
            other["system"]
            for other in study.rows
            if other is not row
            and other["huse_q"] >= row["huse_q"]
            and other["huse_d"] >= row["huse_d"]
            and (other["huse_q"], other["huse_d"]) != (row["huse_q"], row["huse_d"])
        ]
        rows.append({**row, "group": _group(str(row["system"])), "dominated_by": better})
    return Tradeoff(rows, Signature("tradeoff", study.signature.options), notes=study.notes)


def _group(system: str) -> str:
    for mark in ("@", " "):
        stem, found, rest = system.rpartition(mark)
        if found and rest.replace(".", "", 1).isdigit():
            return stem.strip()
    return system
