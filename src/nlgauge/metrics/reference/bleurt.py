"""BLEURT and its kind: a cross-encoder that was trained to say how good a text is, given a reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import ModelError
from nlgauge.metrics.base import refuse
from nlgauge.metrics.diversity.sts import CROSS_ENCODER, LONG_PAIR
from nlgauge.metrics.reference.references import ReferencePairMetric, TextAndReference


@dataclass(frozen=True, kw_only=True)
class Bleurt(ReferencePairMetric):
    """The number that a BLEURT-like cross-encoder gives to a reference and a text, read in this order; mean over items.

    `model` is a folder or a hub name of a sequence classifier with one output, in safetensors; none comes with NLGauge.
    `output=raw` takes its number as it is, `sigmoid` between 0 and 1, `auto` as sentence-transformers would. Pairs
    beyond the model's window lose tokens from the end of the longer text. An empty text has no value.
    """

    name: ClassVar[str] = "bleurt"
    paper: ClassVar[str] = "Sellam et al. 2020, section 4; OpenMEVA, Table 11"
    example: ClassVar[str] = "bleurt:model=FOLDER"

    model: str = option("", CROSS_ENCODER)
    output: Literal["raw", "sigmoid", "auto"] = option("raw", "What becomes of the model's number.")
    long: Literal["cut"] = option("cut", LONG_PAIR)

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with the hash of its weights."""
        from nlgauge.models.fetch import model_identity

        return {**super().relevant_options(), "model": model_identity(self.model) if self.model else ""}

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
