"""UNION: how real a story looks to a classifier that was trained on stories made worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import SetMetric, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import LONG
from nlgauge.metrics.score import Direction, Level


@dataclass(frozen=True, kw_only=True)
class TrainedMetric(SetMetric):
    """A measure of single texts by a model that `nlgauge train` made: a folder; none comes with NLGauge."""

    level: ClassVar[Level] = "item"
    direction: ClassVar[Direction] = Direction.BETTER
    costly: ClassVar[bool] = True

    model: str = option("", "Folder that `nlgauge train` made.")

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with the hash of its weights."""
        from nlgauge.models.training.run import trained_identity

        model = trained_identity(self.model, self.name) if self.model else ""
        return {**super().relevant_options(), "model": model}

    def prepare(self) -> None:
        """Refuse to begin without a trained model and what it runs with."""
        from nlgauge.models.runtime import import_torch
        from nlgauge.models.training.run import trained_identity

        advice = f"expected {self.example}; nlgauge train {self.name} makes one"
        refuse("model", not self.model, f"{self.name} has no model; {advice}")
        trained_identity(self.model, self.name)
        import_torch(self.name)


@dataclass(frozen=True, kw_only=True)
class Union(TrainedMetric):
    """The probability that a story is real rather than made worse on purpose; mean over the texts of a set.

    `model` is a folder that `nlgauge train union` made; none comes with NLGauge. A context, where there is one, is the
    beginning of the story and stands before the text (`context=scored`), or is left out (`context=none`). A story
    beyond the window of the training is cut there (`long=cut`); an empty text has no value.
    """

    name: ClassVar[str] = "union"
    aspect: ClassVar[str] = "fluency"
    paper: ClassVar[str] = "Guan & Huang 2020; OpenMEVA, section 4.1, Table 3"
    example: ClassVar[str] = "union:model=FOLDER"

    context: Literal["scored", "none"] = option("scored", "The context begins the story, or is left out.")
    long: Literal["cut"] = option("cut", LONG)

    def per_set(self, batch: Batch) -> Array:
        """The mean probability of each set; a set with an empty text has no value."""
        from nlgauge.models.encoders.story_classifier import load_story_classifier

        texts, contexts, offsets = batch.sets.texts.to_list(), batch.contexts(), batch.sets.offsets
        before = np.repeat(np.arange(len(batch)), np.diff(offsets)).tolist()
        stories = [
            f"{contexts[row]} {text}" if self.context == "scored" and text.strip() else text
            for row, text in zip(before, texts, strict=True)
        ]
        values = load_story_classifier(self.model).probabilities(stories).tolist()
        return np.array([math.fsum(values[a:b]) / (b - a) for a, b in pairwise(offsets)])
