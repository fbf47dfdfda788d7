"""Self-BLEU with NLTK: `sentence_bleu` of some of the texts, evenly spread, each against all the others."""

from __future__ import annotations

import sys
from pathlib import Path

from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from peers.reporting import report, timed

ORDERS = 4


def self_bleu(texts: list[str], chosen: list[int]) -> list[float]:
    tokens = [text.split() for text in texts]
    smooth = SmoothingFunction().method1
    weights = (1 / ORDERS,) * ORDERS
    return [
        sentence_bleu(tokens[:i] + tokens[i + 1 :], tokens[i], weights=weights, smoothing_function=smooth)
        for i in chosen
    ]


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    sample = min(int(sys.argv[2]), len(lines))
    chosen = [i * len(lines) // sample for i in range(sample)]
    values, seconds = timed(lambda: self_bleu(lines, chosen))
    report(seconds, value=sum(values) / len(values), values=values, chosen=chosen)
