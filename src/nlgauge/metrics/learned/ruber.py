"""RUBER: how well a text goes with its context, and how near it is to its references."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import DataError
from nlgauge.metrics.base import refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import LONG
from nlgauge.metrics.learned.union import TrainedMetric
from nlgauge.metrics.reference.references import best_of_references, of_references

if TYPE_CHECKING:
    from nlgauge.models.encoders.ruber_model import RuberModel


@dataclass(frozen=True, kw_only=True)
class Ruber(TrainedMetric):
    """RUBER of texts with contexts and references, from a model that `nlgauge train ruber` made; mean over texts.

    `part=unreferenced` is the probability that a text belongs to its context, `part=referenced` the cosine of the
    pooled vectors of a text and its nearest reference. `part=hybrid` puts both on the ranges that training fixed, so
    that a score never depends on the other texts, and takes their mean, the lower or the higher (`blend`). Where the
    model was trained on whole stories, a text without a context is cut after its first sentence. A text without a word
    has no value; one beyond the window is cut (`long=cut`).
    """

    name: ClassVar[str] = "ruber"
    aspect: ClassVar[str] = "quality"
    paper: ClassVar[str] = "Tao et al. 2018; Ghazarian et al. 2019; OpenMEVA, section 4.1, Table 3"
    example: ClassVar[str] = "ruber:model=FOLDER"

    part: Literal["hybrid", "referenced", "unreferenced"] = option("hybrid", "One part of RUBER, or both blended.")
    blend: Literal["mean", "min", "max"] = option("mean", "With part=hybrid: how the two parts become one.")
    long: Literal["cut"] = option("cut", LONG)

    def relevant_options(self) -> Mapping[str, Any]:
        """The blend only where there is one."""
        shown = super().relevant_options()
        return {key: value for key, value in shown.items() if key != "blend" or self.part == "hybrid"}

    def prepare(self) -> None:
        """Refuse to begin without a trained model and what it reads texts with."""
        super().prepare()
        refuse(
            "blend",
            self.part != "hybrid" and self.blend != "mean",
            f"blend={self.blend} with part={self.part}; expected part=hybrid, which has two parts to blend",
        )
        from nlgauge.models.encoders.ruber_model import load_ruber

        load_ruber(self.model)

    def check(self, batch: Batch) -> None:
        """Refuse items without references too, where these are needed."""
        super().check(batch)
        if self.part != "unreferenced":
            self._check_references(batch.sets)

    def per_set(self, batch: Batch) -> Array:
        """The part that was asked for, or both parts blended."""
        from nlgauge.models.encoders.ruber_model import load_ruber

        model = load_ruber(self.model)
        if self.part == "unreferenced":
            return self._unreferenced(batch, model)
        if self.part == "referenced":
            return self._referenced(batch, model)
        both = np.stack(
            [
                model.ranges["unreferenced"].place(self._unreferenced(batch, model)),
                model.ranges["referenced"].place(self._referenced(batch, model)),
            ]
        )
        if self.blend == "mean":
            return np.asarray(both.mean(axis=0))
        return np.asarray(both.min(axis=0) if self.blend == "min" else both.max(axis=0))

    def _unreferenced(self, batch: Batch, model: RuberModel) -> Array:
        from nlgauge.models.encoders.ruber_model import GIVEN, story_pair
        from nlgauge.models.training.data import PromptPair

        texts, contexts, offsets = batch.sets.texts.to_list(), batch.contexts(), batch.sets.offsets
        pairs = []
        for row, (a, b) in enumerate(pairwise(offsets)):
            if not contexts[row].strip() and model.contexts == GIVEN:
                raise DataError(
                    f"'{batch.sets.ids[row]}' has no context, and {model.identity} was trained on pairs of context and "
                    "text; expected a column 'context'; part=referenced needs none"
                )
            pairs += [
                PromptPair(contexts[row], text) if contexts[row].strip() else story_pair(text) for text in texts[a:b]
            ]
        values = model.unreferenced(pairs).tolist()
        return np.array([math.fsum(values[a:b]) / (b - a) for a, b in pairwise(offsets)])

    def _referenced(self, batch: Batch, model: RuberModel) -> Array:
        """The nearest reference; NaN where the text or all of its references have no word."""
        sets = batch.with_references.sets
        own, others = of_references(np.array(sets.texts.to_list(), dtype=object), sets.offsets)
        values = model.referenced(own.tolist(), others.tolist())
        best = best_of_references(np.where(np.isnan(values), -np.inf, values), sets.offsets)
        return np.where(np.isneginf(best), np.nan, best)
