"""Measures by a cross-encoder, a model that reads two texts together: BLEURT, and the diversity of a set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import ModelError
from nlgauge.metrics.base import Metric, SetMetric, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.reference.references import ReferencePairMetric, TextAndReference
from nlgauge.metrics.score import EVERYWHERE, Bounds, Direction

_LONG = "A pair beyond the model's window loses tokens from the end of the longer text."


@dataclass(frozen=True, kw_only=True)
class CrossEncoderMetric(Metric):
    """A measure of pairs of texts by a cross-encoder; none comes with NLGauge."""

    costly: ClassVar[bool] = True

    model: str = option("", "Cross-encoder: a folder or a hub name; none comes with NLGauge.")

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with its hash."""
        from nlgauge.models.fetch import model_identity

        return {**super().relevant_options(), "model": model_identity(self.model) if self.model else ""}


@dataclass(frozen=True, kw_only=True)
class StsDiversity(CrossEncoderMetric, SetMetric):
    """Minus the mean similarity that a cross-encoder gives to the pairs of a set, each read in both orders.

    `model` is a folder or a hub name; none comes with NLGauge. `output` says what becomes of its number: `auto` is what
    sentence-transformers does with such a model (mostly a sigmoid), `raw` takes it as it is, as BLEURT wants. A model
    with several labels is scored by the probability of `outcome`, as in `outcome=entailment`. Pairs beyond the model's
    window lose tokens from the end of the longer text.
    """

    name: ClassVar[str] = "sts-div"
    aspect: ClassVar[str] = "content"
    depends_on_size: ClassVar[bool] = False
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    paper: ClassVar[str] = "Tevet & Berant 2021, sections 5 and 6.2 (BERT-STS)"
    needs: ClassVar[int] = 2
    example: ClassVar[str] = "sts-div:model=FOLDER"

    output: Literal["auto", "raw", "sigmoid", "softmax"] = option("auto", "What becomes of the model's number.")
    outcome: str | None = option(None, "Of a model with several labels, the one whose probability is the similarity.")
    long: Literal["cut"] = option("cut", _LONG)

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

        sets = [list(combinations(sorted(texts), 2)) for texts in batch.texts_of_sets]
        both = [pair for pairs in sets for one, other in pairs for pair in ((one, other), (other, one))]
        scores = iter(load_pair_scorer(self.model, self.output, self.outcome or "").score(both).tolist())
        return np.array([-math.fsum(next(scores) for _ in range(2 * len(pairs))) / (2 * len(pairs)) for pairs in sets])


@dataclass(frozen=True, kw_only=True)
class Bleurt(CrossEncoderMetric, ReferencePairMetric):
    """The number that a BLEURT-like cross-encoder gives to a reference and a text, read in this order; mean over items.

    `model` is a folder or a hub name of a sequence classifier with one output, in safetensors; none comes with NLGauge.
    `output=raw` takes its number as it is, `sigmoid` between 0 and 1, `auto` as sentence-transformers would. Pairs
    beyond the model's window lose tokens from the end of the longer text. An empty text has no value.
    """

    name: ClassVar[str] = "bleurt"
    share_bounds: ClassVar[Bounds] = EVERYWHERE
    paper: ClassVar[str] = "Sellam et al. 2020, section 4; OpenMEVA, Table 11"
    example: ClassVar[str] = "bleurt:model=FOLDER"

    output: Literal["raw", "sigmoid", "auto"] = option("raw", "What becomes of the model's number.")
    long: Literal["cut"] = option("cut", _LONG)

    def prepare(self) -> None:
        """Refuse to begin without a model that gives one number."""
        refuse(
            "model",
            not self.model,
            "bleurt needs a cross-encoder that was trained on human ratings, and none comes with NLGauge; name a "
            "folder, as in bleurt:model=FOLDER, or a hub name after: nlgauge models fetch NAME",
        )
        from nlgauge.models.encoders.pair_scorer import load_pair_scorer

        if len(labels := load_pair_scorer(self.model, self.output).labels) != 1:
            raise ModelError(
                f"{self.model} has {len(labels)} outputs ({', '.join(labels.values())}); expected one number, as a "
                "model for regression gives"
            )

    def of_pairs(self, pairs: Sequence[TextAndReference]) -> Array:
        """One number per pair that has words on either side."""
        from nlgauge.models.encoders.pair_scorer import load_pair_scorer

        filled = [place for place, pair in enumerate(pairs) if all(text.strip() for text in pair)]
        values = np.full(len(pairs), math.nan)
        scored = [(reference, text) for text, reference in (pairs[place] for place in filled)]
        values[filled] = load_pair_scorer(self.model, self.output).score(scored)
        return values
