"""What `nlgauge train` makes: UNION, how real a story looks, and RUBER, how well a text goes with its context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import DataError
from nlgauge.metrics.base import SetMetric, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import LONG
from nlgauge.metrics.reference.references import best_of_references, of_references
from nlgauge.metrics.score import Bounds, Direction, Level

if TYPE_CHECKING:
    from nlgauge.models.encoders.ruber_model import RuberModel


@dataclass(frozen=True, kw_only=True)
class TrainedMetric(SetMetric):
    """A measure of single texts by a model that `nlgauge train` made: a folder; none comes with NLGauge."""

    level: ClassVar[Level] = "item"
    direction: ClassVar[Direction] = Direction.BETTER
    costly: ClassVar[bool] = True

    model: str = option("", "Folder that `nlgauge train` made.")

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with its hash."""
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
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    aspect: ClassVar[str] = "fluency"
    paper: ClassVar[str] = "Guan & Huang 2020; OpenMEVA, section 4.1, Table 3"
    example: ClassVar[str] = "union:model=FOLDER"

    context: Literal["scored", "none"] = option("scored", "The context begins the story, or is left out.")
    long: Literal["cut"] = option("cut", LONG)

    def per_set(self, batch: Batch) -> Array:
        """The mean probability of each set; a set with an empty text has no value."""
        from nlgauge.models.encoders.story_classifier import load_story_classifier

        stories = [
            f"{context} {text}" if self.context == "scored" and text.strip() else text
            for context, texts in zip(batch.contexts(), batch.texts_of_sets, strict=True)
            for text in texts
        ]
        return batch.means(load_story_classifier(self.model).probabilities(stories).tolist())


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

    @property
    def bounds(self) -> Bounds:
        """Those of a cosine or, where both parts are placed on their ranges, of a probability."""
        return (-1.0, 1.0) if self.part == "referenced" else (0.0, 1.0)

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
        parts = {"unreferenced": self._unreferenced, "referenced": self._referenced}
        if self.part != "hybrid":
            return parts[self.part](batch, model)
        both = [model.ranges[part].place(measure(batch, model)) for part, measure in parts.items()]
        blends: dict[str, Callable[..., Array]] = {"mean": np.mean, "min": np.min, "max": np.max}
        return blends[self.blend](both, axis=0)

    def _unreferenced(self, batch: Batch, model: RuberModel) -> Array:
        from nlgauge.models.encoders.ruber_model import GIVEN, story_pair
        from nlgauge.models.training.data import PromptPair

        pairs = []
        for id, context, texts in zip(batch.sets.ids, batch.contexts(), batch.texts_of_sets, strict=True):
            if not context.strip() and model.contexts == GIVEN:
                raise DataError(
                    f"'{id}' has no context, and {model.identity} was trained on pairs of context and "
                    "text; expected a column 'context'; part=referenced needs none"
                )
            pairs += [PromptPair(context, text) if context.strip() else story_pair(text) for text in texts]
        return batch.means(model.unreferenced(pairs).tolist())

    def _referenced(self, batch: Batch, model: RuberModel) -> Array:
        """The nearest reference; NaN where the text or all of its references have no word."""
        sets = batch.with_references.sets
        own, others = of_references(np.array(sets.texts.to_list(), dtype=object), sets.offsets)
        values = model.referenced(own.tolist(), others.tolist())
        best = best_of_references(np.where(np.isnan(values), -np.inf, values), sets.offsets)
        return np.where(np.isneginf(best), np.nan, best)
