"""Leave-one-out error of nearest neighbours (HUSE), and its resamples.

`measure` is the case; `python -m cases.neighbours SIDE ITEMS` measures one side of one part.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bench_setup import Bench
from comparison import agrees, faster, ratio, row
from peers.reporting import report, timed
from results import Check, Section

ITEMS, MANY_ITEMS, FEW_ITEMS, RESAMPLES = 20_000, 200_000, 2_000, 1_000
K = 16
_LOOP_ITEMS = 20
_REPEATS = 5
_NAMES = {"ours": "no ties", "rated": "rated", "spots": "20 x 20 spots"}


def measure(bench: Bench) -> Section:
    items, many, few = (bench.scaled(size, least=200) for size in (ITEMS, MANY_ITEMS, FEW_ITEMS))
    section = Section(f"Nearest neighbours: leave-one-out votes of {items:,} items in the plane, k = {K}")
    ours, loop = (bench.run_beside("cases.neighbours", side, str(items)) for side in ("ours", "loop"))
    section.rows = [
        row("NLGauge", "leave_one_out(features, is_model)", ours, ours),
        row("double loop in Python", "math.dist to every other item, sorted", loop, ours),
    ]
    section.checks = [
        faster("double loop in Python", loop, ours, 300),
        agrees("votes that differ from the double loop", _differing(ours["found"], loop["found"]), 0),
    ]
    for side, name in _NAMES.items():
        found = bench.run_beside("cases.neighbours", side, str(many))
        section.rows.append(row(f"NLGauge, {name}", f"the same of {many:,} items", found, ours))
        section.checks.append(
            Check(claim=f"{many:,} items, {name}", measured=found["seconds"], limit=10, kind="at most", unit=" s")
        )
    score = bench.run_beside("cases.neighbours", "score", str(few))
    section.rows.append(row("NLGauge, score", f"HUSE and HUSE-Q of {few:,} items", score, score))
    for side in ("errors", "items", "halves"):
        found = bench.run_beside("cases.neighbours", side, str(few))
        section.rows.append(row(f"NLGauge, {side}", f"resample_{side}, {RESAMPLES:,} resamples", found, score))
        claim = f"{RESAMPLES:,} resamples of {side} over one score"
        limit = {"errors": 1, "items": 20, "halves": 30}[side]
        section.checks.append(
            Check(claim=claim, measured=ratio(found, score, "seconds"), limit=limit, kind="at most", unit="x")
        )
    section.remarks = [
        f"Seconds are the least of {_REPEATS} runs, kernels compiled before. The double loop leaves out {_LOOP_ITEMS} "
        "items, each against all others, and is extrapolated to all; the votes of those are compared.",
        "The value is the error, or the mean of resampled HUSE. Ratios of the last four lines are to one score with "
        "both feature maps.",
        "Rated items have a judgment on a grid of 0.05 beside a number without ties; on 20 x 20 spots, all are tied.",
    ]
    return section


def _differing(found: list[list[int]], others: list[list[int]]) -> float:
    return float(sum(a != b for a, b in zip(found, others, strict=True)))


def _data(items: int, kind: str = "") -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    is_model = np.arange(items) % 2 == 0
    points = rng.normal(size=(items, 2)) + 0.7 * is_model[:, None]
    if kind == "rated":
        points[:, 1] = np.clip(np.round(20 * points[:, 1]) / 20, -2, 3)
    if kind == "spots":
        points = np.clip(np.round(3 * points), -9, 10)
    return points, is_model


def _least(function: Callable[[], Any]) -> tuple[Any, float]:
    runs = [timed(function) for _ in range(_REPEATS)]
    return runs[0][0], min(seconds for _, seconds in runs)


def _ours(side: str, items: int) -> None:
    from nlgauge.stats.kernels.neighbours import leave_one_out

    points, is_model = _data(items, side)
    leave_one_out(points[:200], is_model[:200], k=K)
    found, seconds = _least(lambda: leave_one_out(points, is_model, k=K))
    some = np.stack([found.votes_model, found.votes], axis=1)[:_LOOP_ITEMS]
    report(seconds, value=found.error, found=some.tolist())


def _loop(items: int) -> None:
    points, is_model = _data(items)
    rows = [tuple(point) for point in (points / points.std(axis=0)).tolist()]
    labels = is_model.tolist()

    def votes(left_out: int) -> list[int]:
        distances = [(math.dist(rows[left_out], row), label) for row, label in zip(rows, labels, strict=True)]
        del distances[left_out]
        radius = sorted(distance for distance, _ in distances)[K - 1]
        near = [label for distance, label in distances if distance <= radius * (1 + 1e-9)]
        return [sum(near), len(near)]

    found, seconds = timed(lambda: [votes(i) for i in range(_LOOP_ITEMS)])
    wrong = sum((2 * model > every) != label for (model, every), label in zip(found, labels, strict=False))
    report(seconds / _LOOP_ITEMS * items, value=wrong / _LOOP_ITEMS, found=found)


def _resamples(side: str, items: int) -> None:
    from nlgauge.stats.kernels.neighbours import leave_one_out, resample_errors, resample_halves, resample_items

    points, is_model = _data(items)
    maps = [points, points[:, 1:]]

    def score() -> list[Any]:
        return [leave_one_out(one, is_model, k=K) for one in maps]

    found = score()
    calls: dict[str, Callable[[], Any]] = {
        "score": score,
        "errors": lambda: resample_errors(found, resamples=RESAMPLES),
        "items": lambda: resample_items(maps, is_model, k=K, resamples=RESAMPLES),
        "halves": lambda: resample_halves(maps, is_model, k=K, resamples=RESAMPLES),
    }
    calls[side]()
    drawn, seconds = _least(calls[side])
    report(seconds, value=2 * drawn[0].error if side == "score" else float(drawn[0].mean()))


if __name__ == "__main__":
    side, size = sys.argv[1], int(sys.argv[2])
    if side in _NAMES:
        _ours(side, size)
    elif side == "loop":
        _loop(size)
    else:
        _resamples(side, size)
