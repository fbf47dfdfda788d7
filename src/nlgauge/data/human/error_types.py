"""The error type of a story, from the errors that its raters found (paper 4, section 4.2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

ERROR_TYPES = ("repetitive", "unrelated", "conflicting", "chaotic")
_REASONABLE_ABOVE = 4
_TELLING = 4


def error_type(scores: Sequence[float], types: Sequence[Collection[str]]) -> str:
    """The error type of a story, by the rule of paper 4, section 4.2: one of `ERROR_TYPES`, `reasonable` or `none`.

    `types[i]` are the errors that rater i found. A story is reasonable when its mean score is above 4. Otherwise it is
    of a type when that type, and no other, was found by more than half of the raters (three of five).
    """
    if scores and math.fsum(scores) / len(scores) > _REASONABLE_ABOVE:
        return "reasonable"
    seen = Counter(kind for one in types for kind in set(one))
    agreed = [kind for kind, count in seen.items() if 2 * count > len(types)]
    return agreed[0] if len(agreed) == 1 else "none"


def known_error_type(word: str) -> str | None:
    """The type that a word or phrase means, such as `Repeated plots` (repetitive), or None."""
    said = word.strip().lower()
    return next((kind for kind in ERROR_TYPES if said.startswith(kind[:_TELLING])), None)
