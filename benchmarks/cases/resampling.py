"""Bootstrap of correlations of many metrics, and optimal classification accuracy.

`measure` is the case; `python -m cases.resampling SIDE PART ITEMS METRICS RESAMPLES` measures one side of one part.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bench_setup import Bench
from comparison import agrees, faster, row
from peers.reporting import report, timed
from results import Check, Section

ITEMS, METRICS, RESAMPLES = 2_000, 30, 1_000
_SEED = 12345
_REPEATS = 7
_CALLS = 200
_LOOP_METRICS, _LOOP_RESAMPLES = 3, 100
_PEERS = {
    "pearson": ("scipy.stats.pearsonr", 80),
    "spearman": ("scipy.stats.spearmanr", 10),
    "kendall": ("scipy.stats.kendalltau", 5),
    "oca": ("loop over thresholds", 200),
}


def measure(bench: Bench) -> Section:
    items, metrics, resamples = bench.scaled(ITEMS, least=100), METRICS, RESAMPLES
    section = Section(
        f"Resampling: {items:,} items, {metrics} metrics, {resamples:,} resamples; OCA of one metric, no resamples"
    )
    for part, (peer, limit) in _PEERS.items():
        sizes = (part, str(items), str(metrics), str(resamples))
        ours, loop = (bench.run_beside("cases.resampling", side, *sizes) for side in ("ours", "loop"))
        ours_call, loop_call = _calls(part)
        section.rows += [row(f"NLGauge, {part}", ours_call, ours, ours), row(peer, loop_call, loop, ours)]
        section.checks += [faster(peer, loop, ours, limit), _same(peer, loop["found"], ours["found"])]
    section.remarks = [
        f"Seconds are the least of {_REPEATS} runs or more (3 of Kendall's tau), kernels compiled before; "
        f"one OCA takes so little that {_CALLS} are timed together. The loops take {_LOOP_METRICS} metrics and "
        f"{_LOOP_RESAMPLES} resamples, drawn beforehand, and are "
        "extrapolated to all.",
        "The value is the mean over those; the differences are the largest of any one value on the same resamples.",
    ]
    return section


def _calls(part: str) -> tuple[str, str]:
    if part == "oca":
        return "optimal_accuracy(values, labels)", "((values > t) == high).mean() for every t"
    return f'resampled(values, truth, "{part}")', "a call for each metric and resample"


def _same(peer: str, found: list[float], ours: list[float]) -> Check:
    gap = max(abs(a - b) for a, b in zip(found, ours, strict=True))
    return agrees(f"difference from {peer}", gap, 1e-9)


def _least(function: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    runs = [timed(function) for _ in range(repeats)]
    return runs[0][0], min(seconds for _, seconds in runs)


def _data(items: int, metrics: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    truth = rng.normal(size=items)
    return truth + 2 * rng.normal(size=(metrics, items)), truth


def _ours(part: str, items: int, metrics: int, resamples: int) -> None:
    from nlgauge.stats.correlation import optimal_accuracy, resampled

    values, truth = _data(items, metrics)
    if part == "oca":
        labels = (truth > 0).astype(np.float64)
        optimal_accuracy(values[0], labels)
        found, seconds = _least(lambda: [optimal_accuracy(values[0], labels)[0] for _ in range(_CALLS)], _REPEATS)
        report(seconds / _CALLS, value=found[0], found=found[:1])
        return
    statistic: Any = part
    resampled(values[:1, :100], truth[:100], statistic, resamples=1)
    repeats = 3 if part == "kendall" else _REPEATS
    found, seconds = _least(lambda: resampled(values, truth, statistic, resamples=resamples, seed=_SEED), repeats)
    some = found[:_LOOP_METRICS, :_LOOP_RESAMPLES].ravel().tolist()
    report(seconds, value=statistics.mean(some), found=some)


def _loop(part: str, items: int, metrics: int, resamples: int) -> None:
    from scipy import stats

    values, truth = _data(items, metrics)
    if part == "oca":
        column, high = values[0], truth > 0
        thresholds = [-np.inf, *column]
        accuracy, seconds = _least(lambda: max(((column > t) == high).mean() for t in thresholds), _REPEATS)
        report(seconds, value=float(accuracy), found=[float(accuracy)])
        return
    call = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}[part]
    draws = np.random.default_rng(_SEED).integers(0, items, (resamples, items))[:_LOOP_RESAMPLES]
    sides = [(row[order], truth[order]) for row in values[:_LOOP_METRICS] for order in [np.lexsort((truth, row))]]
    found, seconds = _least(
        lambda: [float(call(x[drawn], y[drawn])[0]) for x, y in sides for drawn in draws],
        3 if part == "kendall" else _REPEATS,
    )
    report(seconds / len(found) * metrics * resamples, value=statistics.mean(found), found=found)


if __name__ == "__main__":
    side, part, *sizes = sys.argv[1:]
    {"ours": _ours, "loop": _loop}[side](part, *(int(size) for size in sizes))
