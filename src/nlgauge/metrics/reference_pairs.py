"""Measures that score a text with one reference at a time, whatever the number of its references."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.references import ReferenceMetric

TextAndReference = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class ReferencePairMetric(ReferenceMetric):
    """A value for each text with each of its references; an item has the best of them, or their mean (`references`).

    A reference without a token is passed over. An item has no value when its text, or every reference, is without one;
    the score counts such items as excluded. Values are not scaled: papers print these measures as they are.
    """

    costly: ClassVar[bool] = True

    references: Literal["max", "mean"] = "max"
    scale: Literal[100, 1] = 1

    @abstractmethod
    def of_pairs(self, pairs: Sequence[TextAndReference]) -> Array:
        """One value a pair; NaN where the text or the reference has no token."""

    def per_item(self, batch: Batch) -> Array:
        """The best value over an item's references, or their mean, whatever their order."""
        paired = batch.with_references.sets
        texts = paired.texts.to_list()
        values = self.of_pairs(
            [(texts[first], texts[i]) for first, last in pairwise(paired.offsets) for i in range(first + 1, last)]
        )
        edges = paired.offsets - np.arange(len(paired.offsets))
        return np.array([self._of_references(values[a:b]) for a, b in pairwise(edges)])

    def _of_references(self, values: Array) -> float:
        defined = values[~np.isnan(values)].tolist()
        if not defined:
            return math.nan
        return max(defined) if self.references == "max" else math.fsum(defined) / len(defined)
