"""Diversity of content: how different the responses are once what they owe to their context is taken out."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import SetStats
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import SentenceSimilarity
from nlgauge.metrics.score import EVERYWHERE, Bounds, Score
from nlgauge.stats.inference import Inference

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, kw_only=True)
class Content(SentenceSimilarity):
    """Minus the mean cosine over the pairs of a set after the context was taken out of every response's embedding.

    Responses to one context share its topic, which hides what they say about it: `sent-sim` mostly sees the topic. Here
    each embedding is regressed on those of the context as a whole and of its sentences (with a ridge penalty, `ridge`),
    and the cosine is that of the residuals. Without a context it is `sent-sim`. `model=mpnet` is the better and slower
    choice.

    `lm` names a language model for a second view, at some hundred times the cost: how much one response gives away
    another, log p(r | c, s, c) - log p(r | c) for context c and responses r and s, where the prompt tells c and s and
    then begins again with c. Its mean over ordered pairs, in units of `nats`, is taken off as the cosine is.
    docs/papers/content.md has the evidence, and says on which data defaults were chosen.
    """

    name: ClassVar[str] = "content"
    bounds: ClassVar[Bounds] = EVERYWHERE
    paper: ClassVar[str] = "NLGauge's answer to Tevet & Berant 2021, section 6.4"

    ridge: float = option(0.3, "Ridge penalty of the regression on the context's embeddings.")
    lm: str | None = option(None, "A language model for a second view: how much one response tells about another.")
    nats: float = option(50.0, "With lm: how many nats weigh as much as a cosine of 1.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect("ridge", self.ridge >= 0, "0 or more")
        self.expect("nats", self.nats > 0, "more than 0")

    def relevant_options(self) -> Mapping[str, Any]:
        """Models with their hashes; the weight of a view that is not taken does not matter."""
        options = dict(super().relevant_options())
        if self.lm is None:
            return {name: value for name, value in options.items() if name not in ("lm", "nats")}
        from nlgauge.models.shared import language_model_identity

        return {**options, "lm": language_model_identity(self.lm)}

    def finish(self, stats: SetStats, interval: Inference | None = None) -> Score:
        """The mean over sets; texts without contexts are said to be so, in a warning and beside the signature."""
        score = super().finish(stats, interval)
        if any(rows.contexts is not None for rows in stats.items.rows):
            return score
        warnings.warn(
            "content takes the context out of responses, and the data has none: it is sent-sim here; expected a column "
            "'context' or 'prompt' (another: --context COL)",
            stacklevel=2,
        )
        return replace(score, signature=score.signature.with_facts({"context": "none"}))

    def per_set(self, batch: Batch) -> Array:
        """The measure of each set."""
        contexts = batch.contexts()
        parts = [split_context(context) for context in contexts]
        encoded = iter(batch.embed(self.model, [text for texts in parts for text in texts]).astype(np.float64))
        bases = (np.array([next(encoded) for _ in pieces]) for pieces in parts)
        residuals = map(without, self.sorted_vectors(batch), bases, repeat(self.ridge))
        values = np.array([self.of_vectors(vectors) for vectors in residuals])
        if self.lm is None:
            return values
        return values - np.array(given_away(self.lm, contexts, list(map(sorted, batch.texts_of_sets)))) / self.nats


def given_away(model: str, contexts: Sequence[str], sets: Sequence[Sequence[str]]) -> list[float]:
    """How many nats of a response another one saves a language model, on average over the ordered pairs of each set."""
    from nlgauge.models.shared import score_texts

    prompts: list[str] = []
    wanted: list[list[str]] = []
    for context, texts in zip(contexts, sets, strict=True):
        inside = [f" {text}" if context and text else text for text in texts]
        prompts += [context, *(f"{context} {text}".strip() + f"\n\n{context}" for text in texts)]
        wanted += [inside, *(inside[:i] + inside[i + 1 :] for i in range(len(inside)))]
    totals = iter([[result.total for result in group] for group in score_texts(model, prompts, wanted)])
    means = []
    for texts in sets:
        alone, size = next(totals), len(texts)
        saved = [
            after - before
            for i in range(size)
            for after, before in zip(next(totals), alone[:i] + alone[i + 1 :], strict=True)
        ]
        means.append(math.fsum(saved) / len(saved))
    return means


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
