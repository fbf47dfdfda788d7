"""Openings: in how many ways the responses of a set begin."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from nlgauge.extend import Array, Batch, Direction, Level, SetMetric, option


@dataclass(frozen=True, kw_only=True)
class Openings(SetMetric):
    """Different openings of the texts of a set, divided by the number of texts."""

    name: ClassVar[str] = "openings"
    aspect: ClassVar[str] = "openings"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    level: ClassVar[Level] = "set"
    paper: ClassVar[str] = "an example"

    words: int = option(2, "How many words count as the opening; case does not matter.")

    def per_set(self, batch: Batch) -> Array:
        """Share of different openings in each set."""
        openings = [tuple(text.lower().split()[: self.words]) for text in batch.sets.texts]
        sets = [openings[start:end] for start, end in pairwise(batch.sets.offsets)]
        return np.array([len(set(one)) / len(one) for one in sets])
