"""ROUGE-L of texts against references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.ngram import TokenOptions
from nlgauge.metrics.reference.references import ReferenceMetric, best_of_references
from nlgauge.text.reference_kernels import common_subsequences
from nlgauge.text.tokens import Tokenizer

_BETA = 1.2


@dataclass(frozen=True, kw_only=True)
class RougeL(TokenOptions, ReferenceMetric):
    """ROUGE-L: F-measure of the longest common subsequence with the references, times 100, mean over items.

    `variant=nlg-eval` (paper 5) takes the best precision and the best recall, possibly of different references, and
    weighs recall with beta 1.2. `variant=rouge-score` is that package's rougeL without stemming: the best F1 of a
    single reference, over runs of a-z and 0-9 in lower case (it has its own tokeniser, so `tok` and `case` do not
    apply). A text without tokens scores 0.
    """

    name: ClassVar[str] = "rouge-l"
    paper: ClassVar[str] = "Lin 2004; RUQ, section A.2, Tables 4 and 6"

    variant: Literal["nlg-eval", "rouge-score"] = option("nlg-eval", "Which program's definition and tokens.")

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(
            "variant",
            self.variant == "rouge-score" and (self.tok, self.case) != ("space", "keep"),
            "rouge-l: variant=rouge-score has its own tokeniser; leave out tok and case",
        )

    def relevant_options(self) -> Mapping[str, Any]:
        """The variant first, and the tokeniser where it can be chosen."""
        own = self.variant == "rouge-score"
        shown = {k: v for k, v in super().relevant_options().items() if not own or k not in ("tok", "case")}
        return {"variant": self.variant, **shown}

    def per_item(self, batch: Batch) -> Array:
        """The F-measure of each item."""
        paired = batch.with_references
        if self.variant == "rouge-score":
            words = paired.sets.texts.str.to_lowercase().str.replace_all("[^a-z0-9]+", " ")
            tokens = Tokenizer("space")(words)
        else:
            tokens = paired.tokens(self.tokenizer)
        sets, lengths = paired.sets.offsets, tokens.lengths
        common = common_subsequences(tokens.ids, tokens.offsets, sets)
        own = np.repeat(lengths[sets[:-1]], np.diff(sets) - 1)
        precision = common / np.maximum(own, 1)
        recall = common / np.maximum(np.delete(lengths, sets[:-1]), 1)
        if self.variant == "rouge-score":
            return best_of_references(_f_measure(precision, recall, 1.0), sets)
        return _f_measure(best_of_references(precision, sets), best_of_references(recall, sets), _BETA)


def _f_measure(precision: Array, recall: Array, beta: float) -> Array:
    """(1 + beta^2) P R / (R + beta^2 P), and 0 where both are (Lin 2004, equation 4)."""
    weight = beta**2
    below = recall + weight * precision
    measure: Array = np.divide((1 + weight) * precision * recall, below, out=np.zeros(len(below)), where=below > 0)
    return measure
