"""Several systems or temperatures in the plane of quality and diversity (paper 3, section 5.2, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.configured import option, options_of
from nlgauge.errors import DataError, argument
from nlgauge.stats.inference import CORRECTIONS, Correction
from nlgauge.studies.base import Column, Result, Row, StudyData, View, columns, with_interval
from nlgauge.studies.huse.charts import plane_chart
from nlgauge.studies.huse.intervals import HuseInference
from nlgauge.studies.huse.paired import compare_systems
from nlgauge.studies.huse.score import SCORE_COLUMNS, Huse, score_with_interval
from nlgauge.studies.sentences import listed

_ALPHA = 0.05
_ROUNDING = 1e-9
_NO_PAIRS: dict[str, Any] = {
    "first": pl.String,
    "second": pl.String,
    "score": pl.String,
    "difference": pl.Float64,
    "difference_ci": pl.List(pl.Float64),
    "p": pl.Float64,
}

PAIRS = (*columns("first", "second", "score"), *with_interval("difference"), Column("p", digits=3))


@dataclass(frozen=True, kw_only=True)
class Tradeoff(HuseInference):
    """Trade-off between quality and diversity: several systems or temperatures in one plane.

    HUSE of every system, best first. A system is dominated when its HUSE is worse than that of others at the same
    proportion of HUSE-D and HUSE-Q (Figure 3): of one other system, or of the straight line between two whose
    proportions lie on either side. Systems that share references are compared in pairs, by halves of the contexts that
    both are drawn with, all scores of all pairs as one family. Systems whose name ends in a number after the last space
    or `@` (`model @0.7`) belong to one group in the chart.
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
    tables: ClassVar[Mapping[str, str]] = {"pairs": "Differences between each two systems, with tests:"}
    aspect: ClassVar[str] = "people"

    correction: Correction = option("max-t", CORRECTIONS)

    def compute(self, data: StudyData) -> Result:
        """HUSE of every system, which of them dominate each, and tests of their differences."""
        own = {one.name: getattr(self, one.name) for one in options_of(Huse)}
        return self.of(Huse(**own).compute(data), self.correction)

    @classmethod
    def of(cls, scores: Result, correction: Correction = "max-t") -> Result:
        """From a result of `Huse`, without computing it again."""
        if len(scores.rows) < 2:
            raise DataError(
                f"one system; expected several files, or a column of systems ({argument('by')}), to compare"
            )
        rows: list[Row] = []
        for row in sorted(scores.rows, key=lambda row: (-row["huse"], row["system"])):
            others = [other for other in scores.rows if other is not row]
            rows.append({**row, "group": _group(str(row["system"])), "dominated_by": dominating(row, others)})
        study = cls(**vars(scores.study), correction=correction)
        pairs, left_out = compare_systems(scores.detail, study, correction)
        tests = {"tests": f"halves-{correction}"} if pairs else {}
        frame = pl.DataFrame(pairs, infer_schema_length=None) if pairs else pl.DataFrame(schema=_NO_PAIRS)
        notes = (*scores.notes, *left_out)
        extra = {"pairs": pairs}
        return Result(study, rows, notes, {**scores.facts, **tests}, {"pairs": frame}, scores.detail, extra=extra)

    def views(self, result: Result) -> Sequence[View]:
        """The tests of pairs, then all systems."""
        pairs = result.extra["pairs"]
        return (*([View(PAIRS, pairs)] if pairs else []), View(self.layout, result.rows))

    def sentence(self, result: Result) -> str:
        """Which system is best, and which of the others differ from it by the paired tests."""
        best, *others = result.rows
        first = f"Highest HUSE: {best['system']} ({score_with_interval(best, 'huse')})"
        tests = {frozenset((row["first"], row["second"])): row["p"] for row in _of_score(result, "huse")}
        p = {str(row["system"]): tests.get(frozenset((best["system"], row["system"]))) for row in others}
        lower = [name for name, value in p.items() if value is not None and value < _ALPHA]
        same = [name for name, value in p.items() if value is not None and value >= _ALPHA]
        untested = [name for name, value in p.items() if value is None]
        said = [f"significantly different from it by paired tests: {listed(lower)}"] if lower else []
        said += [f"not significantly different from it: {listed(same)}"] if same else []
        said += [f"not tested against it: {listed(untested)}"] if untested else []
        return f"{'; '.join([first, *said])}."

    def chart(self, result: Result) -> Any:
        """Figure 3: lines of equal HUSE, and the region that the systems dominate."""
        return plane_chart(result.rows, sorted({str(row["judge"]) for row in result.rows}))


def _of_score(result: Result, score: str) -> list[Row]:
    return [row for row in result.extra["pairs"] if row["score"] == score]


def dominating(row: Row, others: Sequence[Row]) -> list[str]:
    """The one or two other systems with the highest HUSE at the same proportion of HUSE-D and HUSE-Q; none if lower."""
    own = np.array([row["huse_d"], row["huse_q"]])
    size = float(np.linalg.norm(own))
    best, found = size, []
    if size == 0:
        return []
    along, across = own / size, np.array([-own[1], own[0]]) / size
    pairs = [*((one, one) for one in others), *combinations(others, 2)]
    for first, second in pairs:
        ends = np.array([[one["huse_d"], one["huse_q"]] for one in (first, second)])
        ahead, aside = ends @ along, ends @ across
        aside = np.where(np.abs(aside) < _ROUNDING, 0.0, aside)
        if aside[0] * aside[1] > 0 or (first is second and aside[0] != 0):
            continue
        gap = aside[0] - aside[1]
        reached = ahead[0] + (aside[0] / gap) * (ahead[1] - ahead[0]) if gap else ahead.max()
        if reached > best * (1 + _ROUNDING):
            best, found = float(reached), list(dict.fromkeys((str(first["system"]), str(second["system"]))))
    return found


def _group(system: str) -> str:
    for mark in ("@", " "):
        stem, found, rest = system.rpartition(mark)
        if found and rest.replace(".", "", 1).isdigit():
            return stem.strip()
    return system
