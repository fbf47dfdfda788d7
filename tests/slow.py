"""Slow, obvious versions of what the kernels do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

Tokens = Sequence[str]


def ngrams(tokens: Tokens, n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def pooled(texts: Sequence[Tokens], n: int) -> list[tuple[str, ...]]:
    return [gram for tokens in texts for gram in ngrams(tokens, n)]


def entropy(texts: Sequence[Tokens], n: int) -> float:
    counts = Counter(pooled(texts, n))
    total = sum(counts.values())
    return -math.fsum(c / total * math.log2(c / total) for c in counts.values()) if total else 0.0


def cosine(one: Tokens, other: Tokens, n: int, *, whole_when_short: bool) -> float:
    if whole_when_short and list(one) == list(other):
        return 1.0
    a, b = Counter(ngrams(one, n)), Counter(ngrams(other, n))
    norm = math.sqrt(sum(c * c for c in a.values()) * sum(c * c for c in b.values()))
    return sum(a[gram] * b[gram] for gram in a) / norm if norm else 0.0


def mean_cosine(texts: Sequence[Tokens], n: int, *, whole_when_short: bool) -> float:
    pairs = [(i, j) for i in range(len(texts)) for j in range(i)]
    return math.fsum(cosine(texts[i], texts[j], n, whole_when_short=whole_when_short) for i, j in pairs) / len(pairs)


def nodot(text: str) -> list[str]:
    return [word for word in text.replace(".", "").split(" ") if word]
