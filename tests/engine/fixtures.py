"""Metrics that kill, dawdle or meddle, data for them, and a program to be killed."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nlgauge.metrics.base import Metric, SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import Direction, Score

CORPUS = [
    "distinct:over=corpus",
    "entropy:over=corpus,n=1-2",
    "cos-sim",
    "self-bleu:over=corpus",
    "compression:over=corpus,blocks=4",
]


@dataclass(frozen=True, kw_only=True)
class Touchy(SetMetric):
    """Words in the set, unless one of them is the deadly word; each call leaves a file named after its process."""

    name: ClassVar[str] = "touchy"
    aspect: ClassVar[str] = "form"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    paper: ClassVar[str] = "none: a test"

    deadly: str = "poison"
    calls: str = ""
    seconds: float = 0.0
    removes: str = ""

    @property
    def cacheable(self) -> bool:
        return False

    def per_set(self, batch: Batch) -> np.ndarray[Any, Any]:
        words = [text.split() for text in batch.sets.texts.to_list()]
        if any(self.deadly in text for text in words):
            os._exit(3)
        if self.calls:
            (Path(self.calls) / f"{os.getpid()}-{time.time_ns()}").touch()
        time.sleep(self.seconds)
        if self.removes:
            Path(self.removes).unlink(missing_ok=True)
        counts = np.array([float(len(text)) for text in words])
        return np.add.reduceat(counts, batch.sets.offsets[:-1])


@dataclass(frozen=True, kw_only=True)
class Costly(Touchy):
    """The same, as if a model had to be asked."""

    costly: ClassVar[bool] = True


def write_sets(path: Path, count: int = 400, poison: tuple[int, ...] = (), seed: int = 0) -> Path:
    """Sets of made-up words, with the deadly word in some of them."""
    rng = np.random.default_rng(seed)
    lines = []
    for row in range(count):
        responses = [" ".join(f"w{w}" for w in rng.zipf(1.5, rng.integers(1, 12)) % 300) for _ in range(3)]
        if row in poison:
            responses[1] += " poison"
        lines.append(json.dumps({"id": f"s{row}", "responses": responses}) + "\n")
    path.write_text("".join(lines))
    return path


def numbers(scores: list[Score]) -> list[object]:
    """What must be equal."""
    return [(score.name, score.value, score.ci, score.n, dict(score.parts), score.excluded) for score in scores]


def main() -> None:
    """Score a file slowly in a run folder: FILE FOLDER ENGINE WORKERS CALLS."""
    import nlgauge
    from nlgauge.engine.running import Running
    from tests.helpers import MB

    file, folder, engine, workers, calls = sys.argv[1:]
    how = Running(
        engine=engine, workers=int(workers), run=Path(folder), part_mb=4000 / MB, chunk_mb=2000 / MB, cache=False
    )
    metrics: list[str | Metric] = [*CORPUS, Touchy(calls=calls, seconds=0.02)]
    print(json.dumps(numbers(nlgauge.score(file, metrics, confidence=True, resamples=100, **vars(how)))))


if __name__ == "__main__":
    main()
