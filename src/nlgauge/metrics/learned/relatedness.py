"""How much the sentences of a text have to do with each other and with the context."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import EmbeddingMetric, unit
from nlgauge.metrics.score import Direction, Level
from nlgauge.text.words import sentences


@dataclass(frozen=True, kw_only=True)
class Relatedness(EmbeddingMetric):
    """The mean cosine of every sentence of a text with the one before it, in the space of a sentence encoder.

    The context, where there is one, stands before the first sentence. `between=all` takes all pairs of sentences
    instead of neighbours. A text with a single sentence and no context has no value. Repetition raises it: it is a
    measure of what sentences share, not of quality.
    """

    name: ClassVar[str] = "relatedness"
    level: ClassVar[Level] = "item"
    aspect: ClassVar[str] = "fluency"
    direction: ClassVar[Direction] = Direction.BETTER
    paper: ClassVar[str] = "OpenMEVA, section 3.2 (relatedness); Reimers & Gurevych 2019"
    needs: ClassVar[int] = 1

    between: Literal["neighbours", "all"] = option("neighbours", "Pairs of neighbouring sentences, or all pairs.")

    def of_vectors(self, vectors: Array) -> float:
        """The mean cosine of the sentences that these vectors stand for, in order."""
        units = unit(vectors)
        if len(units) < 2:
            return math.nan
        if self.between == "neighbours":
            return math.fsum((units[1:] * units[:-1]).sum(axis=1)) / (len(units) - 1)
        above = np.triu_indices(len(units), 1)
        return math.fsum((units @ units.T)[above]) / len(above[0])

    def per_set(self, batch: Batch) -> Array:
        """The mean over the texts of each set."""
        contexts, texts, offsets = batch.contexts(), batch.sets.texts.to_list(), batch.sets.offsets
        parts = [
            [*sentences(contexts[row]), *sentences(text)] if text.strip() else []
            for row, (a, b) in enumerate(pairwise(offsets))
            for text in texts[a:b]
        ]
        places = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        lines = [line for part in parts for line in part]
        vectors = batch.embed(self.model, lines).astype(np.float64) if lines else np.empty((0, 1))
        values = [self.of_vectors(vectors[a:b]) for a, b in pairwise(places)]
        return np.array([math.fsum(values[a:b]) / (b - a) for a, b in pairwise(offsets)])
