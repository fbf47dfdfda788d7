"""Distinct-n of a corpus as people write it: a set of tuples for every order."""

from __future__ import annotations

import sys
from pathlib import Path

from peers.reporting import report, timed


def distinct(path: Path) -> float:
    with path.open(encoding="utf-8") as lines:
        texts = [line.split() for line in lines]
    ratios = []
    for n in range(1, 6):
        seen, total = set(), 0
        for tokens in texts:
            for i in range(len(tokens) - n + 1):
                seen.add(tuple(tokens[i : i + n]))
                total += 1
        ratios.append(len(seen) / total)
    return sum(ratios) / len(ratios)


if __name__ == "__main__":
    value, seconds = timed(lambda: distinct(Path(sys.argv[1])))
    report(seconds, value=value)
