"""`ngram_diversity_score` of the package `diversity`, which wants a list of texts."""

from __future__ import annotations

import sys
from pathlib import Path

from diversity import ngram_diversity_score

from peers.reporting import report, timed


def diversity(path: Path) -> float:
    texts = path.read_text(encoding="utf-8").splitlines()
    return float(ngram_diversity_score(texts, num_n=5))


if __name__ == "__main__":
    value, seconds = timed(lambda: diversity(Path(sys.argv[1])))
    report(seconds, value=value)
