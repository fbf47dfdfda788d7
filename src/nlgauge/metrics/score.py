"""What a metric returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from nlgauge.metrics.signature import Signature
from nlgauge.stats.jackknife import LeftOut

HigherIs = Literal["more diverse", "less diverse", "better", "worse"]


@dataclass(frozen=True)
class Interval:
    """How to make an interval: its level, the number of resamples and the seed."""

    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 12345


@dataclass(frozen=True)
class Score:
    """One number, with what is needed to defend it.

    `parts` are the numbers that `value` averages (one an n-gram order). `per_item` has `id` and `value`, a row a set;
    it is None for a measure of a whole corpus, which has `left_out` instead when an interval was asked for: its
    values with each group of texts left out. `excluded` sets had no defined value and do not count in `value`.
    """

    name: str
    label: str
    value: float
    n: int
    signature: Signature
    higher_is: HigherIs
    ci: tuple[float, float] | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    per_item: pl.DataFrame | None = field(default=None, repr=False, compare=False)
    left_out: LeftOut | None = field(default=None, repr=False, compare=False)
    excluded: int = 0
    system: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "label": self.label,
            "system": self.system,
            "value": _finite(self.value),
            "ci": None if self.ci is None else list(self.ci),
            "n": self.n,
            "excluded": self.excluded,
            "parts": {name: _finite(value) for name, value in self.parts.items()},
            "higher_is": self.higher_is,
            "signature": str(self.signature),
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
