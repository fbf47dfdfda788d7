"""Diversity from a cross-encoder: a model that reads two texts together and scores their similarity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import SetMetric, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import Direction

CROSS_ENCODER = "Cross-encoder: a folder or a hub name; none comes with NLGauge."
LONG_PAIR = "A pair beyond the model's window loses tokens from the end of the longer text."


@dataclass(frozen=True, kw_only=True)
class StsDiversity(SetMetric):
    """Minus the mean similarity that a cross-encoder gives to the pairs of a set, each read in both orders.

    `model` is a folder or a hub name; none comes with NLGauge. `output` says what becomes of its number: `auto` is what
    sentence-transformers does with such a model (mostly a sigmoid), `raw` takes it as it is, as BLEURT wants. A model
    with several labels is scored by the probability of `outcome`, as in `outcome=entailment`. Pairs beyond the model's
    window lose tokens from the end of the longer text.
    """

    name: ClassVar[str] = "sts-div"
    aspect: ClassVar[str] = "content"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    paper: ClassVar[str] = "Tevet & Berant 2021, sections 5 and 6.2 (BERT-STS)"
    needs: ClassVar[int] = 2
    costly: ClassVar[bool] = True
    example: ClassVar[str] = "sts-div:model=FOLDER"

    model: str = option("", CROSS_ENCODER)
    output: Literal["auto", "raw", "sigmoid", "softmax"] = option("auto", "What becomes of the model's number.")
    outcome: str | None = option(None, "Of a model with several labels, the one whose probability is the similarity.")
    long: Literal["cut"] = option("cut", LONG_PAIR)

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with the hash of its weights."""
        from nlgauge.models.fetch import model_identity

        return {**super().relevant_options(), "model": model_identity(self.model) if self.model else ""}

    def check(self, batch: Batch) -> None:
        """Refuse to begin without a model."""
        super().check(batch)
        refuse(
            "model",
            not self.model,
            "sts-div needs a cross-encoder, and none comes with NLGauge; name a folder, as in sts-div:model=FOLDER, or "
            "a hub name such as cross-encoder/stsb-roberta-base after: nlgauge models fetch "
            "cross-encoder/stsb-roberta-base",
        )

    def per_set(self, batch: Batch) -> Array:
        """Minus the mean over the unordered pairs of each set of the mean over both orders."""
        from nlgauge.models.encoders.pair_scorer import load_pair_scorer

        texts = batch.sets.texts.to_list()
        sets = [list(combinations(sorted(texts[a:b]), 2)) for a, b in pairwise(batch.sets.offsets)]
        both = [pair for pairs in sets for one, other in pairs for pair in ((one, other), (other, one))]
        scores = iter(load_pair_scorer(self.model, self.output, self.outcome or "").score(both).tolist())
        return np.array([-math.fsum(next(scores) for _ in range(2 * len(pairs))) / (2 * len(pairs)) for pairs in sets])
