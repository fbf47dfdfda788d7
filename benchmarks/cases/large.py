"""A file that nobody wants to hold in memory, through the real command line."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_setup import Bench
from corpus import large_sets_file
from nlgauge.signature import Signature
from programs import ProgramError, watch
from results import Check, Section

BYTES = 5_000_000_000
SCRATCH_RATIO = 7  # exact counting keeps 65 fingerprints of 8 bytes for a text that takes 77 bytes in the file
_SETS_LIMIT, _CORPUS_LIMIT = 1_500, 3_000
_SET_METRICS = ("distinct", "cos-sim", "self-bleu", "entropy", "ead:over=set", "ttr:over=set", "compression")
_STANDARD_ERRORS = 3


@dataclass(frozen=True)
class Run:
    """One command and the memory it may take, in millions of bytes."""

    name: str
    options: tuple[str, ...]
    limit: float


_ALL_METRICS = tuple(part for metric in _SET_METRICS for part in ("-m", metric))
_EXACT = Run("exact corpus count", ("-m", "distinct:over=corpus"), _CORPUS_LIMIT)
_SKETCH = Run("sketched corpus count", ("-m", "distinct:over=corpus", "--sketch"), _CORPUS_LIMIT)
_RUNS = (
    Run("all set metrics, 1 process", (*_ALL_METRICS, "--workers", "1"), _SETS_LIMIT),
    Run("all set metrics, 2 processes", (*_ALL_METRICS, "--workers", "2"), _SETS_LIMIT),
    _EXACT,
    _SKETCH,
)


def measure(bench: Bench) -> Section:
    size = bench.scaled(BYTES)
    _require_room(bench.work, size)
    path = large_sets_file(bench.work, size)
    size = path.stat().st_size
    section = Section(f"A file of {size / 1e9:,.3f} GB (JSON lines of response sets) through the command line")
    scores: dict[Run, list[dict[str, Any]]] = {}
    for run in _RUNS:
        try:
            scores[run] = _score(bench, path, size, run, section)
        except ProgramError as error:
            section.problems.append(f"{run.name}: {error}")
    section.remarks = [
        "Seconds are those of the whole command, its start included. Peak MB is the most resident memory of all its "
        "processes together, sampled every 0.2 s; largest MB is that of the largest single process.",
    ]
    if _EXACT in scores and _SKETCH in scores:
        _compare_sketch(scores[_EXACT][0], scores[_SKETCH][0], section)
    return section


def _score(bench: Bench, path: Path, size: int, run: Run, section: Section) -> list[dict[str, Any]]:
    print(f"  nlgauge score {path} {' '.join(run.options)}", file=sys.stderr, flush=True)
    program = Path(sys.executable).with_name("nlgauge")
    fixed = ("--no-cache", "--no-progress", "--format", "json")
    watched = watch([program, "score", path, *run.options, *fixed], bench.environment)
    scores: list[dict[str, Any]] = json.loads(watched.output)["scores"]
    section.rows.append(
        {
            "run": run.name,
            "options": " ".join(run.options),
            "seconds": watched.seconds,
            "MB/s": size / 1e6 / watched.seconds,
            "peak MB": watched.peak.together,
            "largest MB": watched.peak.single,
            "value": ", ".join(f"{score['name']} {score['value']:.4f}" for score in scores),
        }
    )
    section.checks.append(
        Check(
            claim=f"peak memory, {run.name}",
            measured=watched.peak.together,
            limit=run.limit,
            kind="at most",
            unit=" MB",
        )
    )
    return scores


def _compare_sketch(exact: dict[str, Any], sketch: dict[str, Any], section: Section) -> None:
    error = float(Signature.parse(sketch["signature"]).facts["error"].removesuffix("%"))
    deviation = 100 * abs(sketch["value"] / exact["value"] - 1)
    section.remarks.append(
        f"The sketch's signature states a relative standard error of {error:g} %; its value, {sketch['value']:.6f}, is "
        f"{deviation:.3f} % off the exact {exact['value']:.6f}."
    )
    section.checks.append(
        Check(
            claim=f"the sketch's deviation from the exact value ({_STANDARD_ERRORS} standard errors)",
            measured=deviation,
            limit=_STANDARD_ERRORS * error,
            kind="at most",
            unit=" %",
        )
    )


def _require_room(folder: Path, size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    needed = (1 + SCRATCH_RATIO) * size
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ProgramError(
            f"{folder}: {free / 1e9:.1f} GB are free; the large file and its scratch files may take "
            f"{needed / 1e9:.1f} GB. Name a folder with more room (--work), or a smaller --scale."
        )
