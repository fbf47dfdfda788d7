"""Diversity of content: how different the responses are once what they owe to their context is taken out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.metrics.base import refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.embedding import EmbeddingMetric, SentenceSimilarity
from nlgauge.metrics.score import HigherIs

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, kw_only=True)
class Content(EmbeddingMetric):
    """Minus the mean cosine over the pairs of a set after the context was taken out of every response's embedding.

    Responses to one context share its topic, which hides what they say about it: `sent-sim` mostly sees the topic. Here
    each embedding is regressed on those of the context as a whole and of its sentences (with a ridge penalty, `ridge`),
    and the cosine is that of the residuals. Without a context it is `sent-sim`. `model=mpnet` is the better and slower
    choice; docs/papers/content.md has the evidence, and says on which data the default penalty was chosen.
    """

    name: ClassVar[str] = "content"
    higher_is: ClassVar[HigherIs] = "more diverse"
    paper: ClassVar[str] = "NLGauge's answer to Tevet & Berant 2021, section 6.4"

    ridge: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(not self.ridge >= 0, f"content:ridge={self.ridge:g}; expected 0 or more")

    def of_vectors(self, vectors: Array) -> float:
        """Minus the mean cosine."""
        return SentenceSimilarity(model=self.model).of_vectors(vectors)

    def per_set(self, batch: Batch) -> Array:
        """The measure of each set."""
        contexts = batch.contexts()
        parts = [split_context(context) for context in contexts]
        encoded = iter(batch.embed(self.model, [text for texts in parts for text in texts]).astype(np.float64))
        vectors = batch.embeddings(self.model).astype(np.float64)
        texts, offsets = batch.sets.texts.to_list(), batch.sets.offsets
        values = np.empty(len(batch))
        for i, pieces in enumerate(parts):
            basis = np.array([next(encoded) for _ in pieces])
            order = sorted(range(offsets[i], offsets[i + 1]), key=texts.__getitem__)
            values[i] = self.of_vectors(without(vectors[order], basis, self.ridge))
        return values


def split_context(context: str) -> list[str]:
    """The context as a whole and, if there are several, its sentences; nothing for an empty one."""
    whole = context.strip()
    sentences = [part for part in _SENTENCE_END.split(whole) if part]
    return [] if not whole else [whole, *sentences] if len(sentences) > 1 else [whole]


def without(vectors: Array, basis: Array, ridge: float) -> Array:
    """Residuals of a ridge regression of each vector on the rows of `basis`."""
    if len(basis) == 0:
        return vectors
    inner = basis @ basis.T + ridge * np.eye(len(basis))
    residuals: Array = vectors - (np.linalg.lstsq(inner, basis @ vectors.T, rcond=None)[0]).T @ basis
    return residuals
