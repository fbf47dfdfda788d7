"""Sentences in words about the rows of a result, drawn from intervals and tests."""

from __future__ import annotations

from collections.abc import Sequence

from nlgauge.studies.base import Result, Row

ALPHA = 0.05


def best_metrics(result: Result, truth: str, value: str = "spearman", interval: str = "spearman_ci") -> str:
    """Which metrics follow the truth, by an interval above 0; with clusters, also which do not differ from the best."""
    tasks = result.tasks or [""]
    return " ".join(
        _best(
            [row for row in result.rows if row.get("task", "") == task],
            f"On {task}, " if len(tasks) > 1 else "",
            truth,
            value,
            interval,
        )
        for task in tasks
    )


def _best(rows: Sequence[Row], where: str, truth: str, value: str, interval: str) -> str:
    above = [row for row in rows if _is_above(row, value, interval)]
    if not above:
        tested = "interval lies above 0" if any(row.get(interval) for row in rows) else "correlation is significant"
        none = f"no metric follows {truth}: no {tested}."
        return where + none if where else none.capitalize()
    first = max(above, key=lambda row: float(row[value]))
    tied = first.get("tied_with")
    if tied is None:  # no test between metrics: the best has the highest number, and others may be as good
        tied = [row["metric"] for row in above if row is not first and row[interval][1] >= first[interval][0]]
        others = f"; with overlapping intervals: {listed(tied)}" if tied else ""
    else:
        others = f"; not significantly different from it: {listed(tied)}" if tied else ""
    count = f"{len(above)} of {len(rows)} metrics follow {truth}"
    name = value.partition("_")[0]
    shown = between(first[interval]) if first.get(interval) else f"p = {first[f'{value}_p']:.2g}"
    best = f"best {first['metric']} ({name} {first[value]:.2f} {shown}{others})"
    return f"{where}{count}, {best}."


def _is_above(row: Row, value: str, interval: str) -> bool:
    """Whether the interval lies above 0; without one, whether a test says so at p < .05."""
    if row.get(interval) is not None:
        return bool(row[interval][0] > 0)
    p = row.get(f"{value}_p")
    return p is not None and p < ALPHA and row[value] > 0


def between(interval: Sequence[float], digits: int = 2) -> str:
    """`[0.48, 0.65]`."""
    return f"[{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
