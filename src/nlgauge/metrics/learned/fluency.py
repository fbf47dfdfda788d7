"""Fluency of single texts: perplexity under a language model, and how much sentences have to do with each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import EmbeddingMetric, unit
from nlgauge.metrics.score import Bounds, Direction, Level
from nlgauge.text.words import sentences


@dataclass(frozen=True, kw_only=True)
class Perplexity(SetMetric):
    """Minus the perplexity of each text, so that higher is better; mean over the texts of a set.

    `context=given` conditions on a text's context, which is not scored itself; `none` scores the text alone; `scored`
    scores context and text as one, as OpenMEVA's released code does. `model` is any language
    model, pretrained or fine-tuned (`nlgauge train`). `end=yes` scores the end token too. Perplexity measures how well
    a model predicts a text; it is no measure of the diversity of a set (paper 1, section 2). Long contexts are cut from
    the left, and texts beyond the window are scored with a sliding window (`long=slide`), to the last token. A blank
    text has no value, unless its end is scored.
    """

    name: ClassVar[str] = "ppl"
    bounds: ClassVar[Bounds] = (-math.inf, -1.0)
    level: ClassVar[Level] = "item"
    aspect: ClassVar[str] = "fluency"
    direction: ClassVar[Direction] = Direction.BETTER
    paper: ClassVar[str] = "OpenMEVA, section 4.1; Tevet & Berant 2021, section 2"
    costly: ClassVar[bool] = True

    model: str = option("smollm2", "Language model: a name of the catalogue, a folder, an address, or a hub name.")
    context: Literal["given", "none", "scored"] = option(
        "given", "Condition on the context, leave it out, or score it too."
    )
    end: Literal["no", "yes"] = option("no", "Whether the end token is scored.")
    long: Literal["slide"] = option("slide", "A text beyond the model's window is scored with a sliding window.")

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with its hash."""
        from nlgauge.models.shared import language_model_identity

        return {**super().relevant_options(), "model": language_model_identity(self.model)}

    def per_set(self, batch: Batch) -> Array:
        """Minus the mean perplexity of each set; a set with a text that has no token has no value."""
        scored = self._read(batch).token_logprobs(self.model, with_end=self.end == "yes")
        return batch.means([_perplexity(text.logprobs) for texts in scored for text in texts])

    def _read(self, batch: Batch) -> Batch:
        """The batch with contexts where the model is to see them, and with blank texts made empty."""
        sets, frame = batch.sets, batch.sets.frame
        texts = [text if text.strip() else "" for text in sets.texts.to_list()]
        if self.context == "scored":
            contexts = np.repeat(np.array(batch.contexts(), dtype=object), sets.sizes).tolist()
            pairs = zip(contexts, texts, strict=True)
            texts = [f"{context} {text}" if context and text else text for context, text in pairs]
        if self.context != "given":
            frame = frame.drop("context", strict=False)
        return Batch(replace(sets, frame=frame, texts=pl.Series(sets.texts.name, texts, dtype=pl.String)))


def _perplexity(logprobs: Array) -> float:
    return -math.exp(-logprobs.mean()) if len(logprobs) else math.nan


@dataclass(frozen=True, kw_only=True)
class Relatedness(EmbeddingMetric):
    """The mean cosine of every sentence of a text with the one before it, in the space of a sentence encoder.

    The context, where there is one, stands before the first sentence. `between=all` takes all pairs of sentences
    instead of neighbours. A text with a single sentence and no context has no value. Repetition raises it: it is a
    measure of what sentences share, not of quality.
    """

    name: ClassVar[str] = "relatedness"
    bounds: ClassVar[Bounds] = (-1.0, 1.0)
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
        parts = [
            [*sentences(context), *sentences(text)] if text.strip() else []
            for context, texts in zip(batch.contexts(), batch.texts_of_sets, strict=True)
            for text in texts
        ]
        places = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        lines = [line for part in parts for line in part]
        vectors = batch.embed(self.model, lines).astype(np.float64) if lines else np.empty((0, 1))
        return batch.means([self.of_vectors(vectors[a:b]) for a, b in pairwise(places)])
