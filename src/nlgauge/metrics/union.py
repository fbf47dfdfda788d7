"""UNION: how real a story looks to a classifier that was trained on stories made worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.metrics.base import SetMetric, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import HigherIs


@dataclass(frozen=True, kw_only=True)
class Union(SetMetric):
    """The probability that a story is real rather than made worse on purpose; mean over the texts of a set.

    `model` is a folder that `nlgauge train union` made; none comes with NLGauge. A context, where there is one, is the
    beginning of the story and stands before the text (`context=scored`), or is left out (`context=none`). A story
    beyond the window of the training is cut there (`long=cut`); an empty text has no value.
    """

    name: ClassVar[str] = "union"
    higher_is: ClassVar[HigherIs] = "better"
    paper: ClassVar[str] = "Guan & Huang 2020; OpenMEVA, section 4.1, Table 3"
    of_single_texts: ClassVar[bool] = True
    costly: ClassVar[bool] = True
    example: ClassVar[str] = "union:model=FOLDER"

    model: str = ""
    context: Literal["scored", "none"] = "scored"
    long: Literal["cut"] = "cut"

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with the hash of its weights."""
        from nlgauge.models.trained import trained_identity

        model = trained_identity(self.model, self.name) if self.model else ""
        return {**super().relevant_options(), "model": model}

    def prepare(self) -> None:
        """Refuse to begin without a trained model."""
        refuse(not self.model, f"{self.name} has no model; expected {self.example}; nlgauge train union makes one")
        from nlgauge.models.runtime import import_torch
        from nlgauge.models.trained import trained_identity

        trained_identity(self.model, self.name)
        import_torch(self.name)

    def per_set(self, batch: Batch) -> Array:
        """The mean probability of each set; a set with an empty text has no value."""
        from nlgauge.models.story_classifier import load_story_classifier

        texts, contexts, offsets = batch.sets.texts.to_list(), batch.contexts(), batch.sets.offsets
        before = np.repeat(np.arange(len(batch)), np.diff(offsets)).tolist()
        stories = [
            f"{contexts[row]} {text}" if self.context == "scored" and text.strip() else text
            for row, text in zip(before, texts, strict=True)
        ]
        values = load_story_classifier(self.model).probabilities(stories).tolist()
        return np.array([math.fsum(values[a:b]) / (b - a) for a, b in pairwise(offsets)])
