"""Mean pairwise cosine of n-gram counts as people write it: a loop over the pairs of every set."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

from peers.reporting import report, timed

Counts = Counter[tuple[str, ...]]


def ngrams(tokens: list[str], n: int) -> Counts:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def cosine(a: Counts, b: Counts) -> float:
    dot = sum(count * b[gram] for gram, count in a.items())
    norms = sum(count**2 for count in a.values()) * sum(count**2 for count in b.values())
    return dot / math.sqrt(norms) if norms else 0.0


def set_diversity(responses: list[str]) -> float:
    texts = [response.split() for response in responses]
    means = []
    for n in range(1, 6):
        vectors = [ngrams(tokens, n) for tokens in texts]
        cosines = [cosine(a, b) for a, b in combinations(vectors, 2)]
        means.append(sum(cosines) / len(cosines))
    return -sum(means) / len(means)


if __name__ == "__main__":
    with Path(sys.argv[1]).open(encoding="utf-8") as lines:
        sets = [json.loads(line)["responses"] for line in lines]
    values, seconds = timed(lambda: [set_diversity(responses) for responses in sets])
    report(seconds, value=math.fsum(values) / len(values))
