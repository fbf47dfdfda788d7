"""What a model draws its next token from: temperature, top-k, top-p, and what ends a text.

Sampling is implemented here: each row's seeded generator draws one exponential number per token of the vocabulary, and
the token with the smallest number divided by its probability is chosen, which happens with exactly that probability.
Rounding differs between batches of different shape; it changes the choice only if the best two tokens are tied within
rounding, so that the other rows of a batch practically never change a continuation. (Inverting the cumulative
distribution would be sensitive: in its tail, steps are as small as the accumulated rounding errors.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlgauge.models.language.base import Sampling

Tensor = Any
END, END_OF_NOTHING = -1, -2
"""The end of a text, whichever token draws it, and that of an empty one, which no stop string ends."""


@dataclass(frozen=True)
class Drawing:
    """A sampling, the end tokens of a model, and the tokens that begin with a stop string but for white space."""

    sampling: Sampling
    ends: frozenset[int]
    stops: frozenset[int]

    @classmethod
    def of(cls, sampling: Sampling, ends: frozenset[int], tokenizer: Any) -> Drawing:
        """With the tokens of a vocabulary that stop a text without adding to it."""
        if not sampling.stop:
            return cls(sampling, ends, frozenset())
        shown = tokenizer.batch_decode([[token] for token in range(len(tokenizer))], skip_special_tokens=True)
        after = [f"a{text}" for text in shown]
        stops = (id for id, text in enumerate(after) if sampling.stops(text) and sampling.cut(text) == "a")
        return cls(sampling, ends, frozenset(stops))

    def kept(self, logits: Tensor) -> Tensor:
        """The logits of the next token over the temperature; -inf for tokens that cannot be drawn.

        The nucleus is found without sorting the whole vocabulary: tokens below (1 - top_p) / size cannot be in it,
        since their total probability is less than 1 - top_p.
        """
        import torch

        sampling, logits = self.sampling, logits.double().cpu()
        if sampling.temperature == 0:
            greedy = torch.full_like(logits, -torch.inf)
            greedy[logits.argmax()] = 0.0
            return greedy
        logits = logits / sampling.temperature
        if 0 < sampling.top_k < len(logits):
            logits = logits.masked_fill(logits < logits.topk(sampling.top_k).values[-1], -torch.inf)
        if sampling.top_p < 1:
            weights = logits.softmax(0)
            candidates = (weights >= (1 - sampling.top_p) / len(weights)).nonzero()[:, 0]
            ordered, order = weights[candidates].sort(descending=True, stable=True)
            size = int((ordered.cumsum(0) < sampling.top_p).sum()) + 1
            nucleus = candidates[order[:size]]
            logits = torch.full_like(logits, -torch.inf).index_copy(0, nucleus, logits[nucleus])
        return logits

    def logprob(self, kept: Tensor, token: int) -> float:
        """The log-probability of drawing a token, or any that ends the text here (`END`, `END_OF_NOTHING`)."""
        if token >= 0:
            return float(kept[token] - kept.logsumexp(0))
        ending = sorted(self.ends | self.stops if token == END else self.ends)
        return float(kept[ending].logsumexp(0) - kept.logsumexp(0)) if ending else -math.inf


def draw_token(kept: Tensor, generator: np.random.Generator) -> int:
    """One token, by a race of exponential numbers (the Gumbel-max trick)."""
    if int((kept > -np.inf).sum()) == 1:
        return int(kept.argmax())
    race = np.log(generator.standard_exponential(len(kept)))
    return int((kept.numpy() - race).argmax())
