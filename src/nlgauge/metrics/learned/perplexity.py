"""Perplexity: fluency under a language model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import Direction, Level


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
        """The model with the hash of its weights."""
        from nlgauge.models.shared import language_model_identity

        return {**super().relevant_options(), "model": language_model_identity(self.model)}

    def per_set(self, batch: Batch) -> Array:
        """Minus the mean perplexity of each set; a set with a text that has no token has no value."""
        scored = self._read(batch).token_logprobs(self.model, with_end=self.end == "yes")
        return np.array([_mean([_perplexity(text.logprobs) for text in texts]) for texts in scored])

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


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
