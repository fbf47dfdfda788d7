"""`SelfBLEU` of the package `fast-bleu`, which wants lists of tokens."""

from __future__ import annotations

import sys
from pathlib import Path

from fast_bleu import SelfBLEU

from peers.reporting import report, timed

ORDERS = 4


def self_bleu(texts: list[str]) -> list[float]:
    scorer = SelfBLEU([text.split() for text in texts], {ORDERS: (1 / ORDERS,) * ORDERS}, smoothing_func=1)
    values: list[float] = scorer.get_score()[ORDERS]
    return values


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    values, seconds = timed(lambda: self_bleu(lines))
    report(seconds, value=sum(values) / len(values), values=values)
