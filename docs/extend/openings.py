"""Openings: in how many ways the responses of a set begin."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from nlgauge import register_metric
from nlgauge.arrays import Array
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import HigherIs


@register_metric
@dataclass(frozen=True, kw_only=True)
class Openings(SetMetric):
    """Different openings of the texts of a set, divided by the number of texts.

    `words` says how many words count as the opening; case does not matter.
    """

    name: ClassVar[str] = "openings"
    higher_is: ClassVar[HigherIs] = "more diverse"
    paper: ClassVar[str] = "an example"

    words: int = 2

    def per_set(self, batch: Batch) -> Array:
        """Share of different openings in each set."""
        openings = [tuple(text.lower().split()[: self.words]) for text in batch.sets.texts]
        sets = [openings[start:end] for start, end in pairwise(batch.sets.offsets)]
        return np.array([len(set(one)) / len(one) for one in sets])
