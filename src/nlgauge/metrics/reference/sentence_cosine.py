"""Similarity of texts to references in the space of a sentence encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import LONG, EncoderMetric, check_encoder, unit
from nlgauge.metrics.reference.references import ReferenceMetric, best_of_references, of_references


@dataclass(frozen=True, kw_only=True)
class SentenceCosine(EncoderMetric, ReferenceMetric):
    """Cosine of the sentence embeddings of a text and its nearest reference, times 100, mean over items.

    It stands where paper 5 has SkipThought vectors; with another encoder, values are not comparable with the printed
    ones. `model` is a catalogue name, a folder or a hub name; a text beyond its window is cut there (`long=cut`).
    """

    name: ClassVar[str] = "sent-cos"
    paper: ClassVar[str] = "RUQ, section A.2, Tables 5 and 7 (SkipThought); Reimers & Gurevych 2019"

    long: Literal["cut"] = option("cut", LONG)

    def prepare(self) -> None:
        """Refuse to begin without the model."""
        check_encoder(self.model, self.name)

    def per_item(self, batch: Batch) -> Array:
        """The best cosine of each item."""
        paired = batch.with_references
        units = unit(paired.embeddings(self.model).astype(np.float64))
        own, others = of_references(units, paired.sets.offsets)
        return best_of_references((own * others).sum(axis=1), paired.sets.offsets)
