"""Self-BLEU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.metrics.base import SetMetric, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.ngram import TokenOptions
from nlgauge.metrics.score import HigherIs


@dataclass(frozen=True, kw_only=True)
class SelfBleu(TokenOptions, SetMetric):
    """Mean over the texts of a set of the sentence BLEU of each with the others as references (Zhu et al. 2018).

    `n` is the highest order, all orders weigh the same. `smooth=epsilon` puts 0.1 matches where an order has none
    (NLTK's method 1, as in Texygen); `smooth=none` scores such a text 0.
    """

    name: ClassVar[str] = "self-bleu"
    higher_is: ClassVar[HigherIs] = "less diverse"
    paper: ClassVar[str] = "Zhu et al. 2018; Tevet & Berant 2021, section 2"
    needs: ClassVar[int] = 2

    n: int = 4
    smooth: Literal["epsilon", "none"] = "epsilon"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(not 1 <= self.n <= 64, f"self-bleu:n={self.n}; expected the highest order, from 1 to 64")

    def per_text(self, batch: Batch) -> Array:
        """BLEU of every text against the rest of its set."""
        from nlgauge.text.set_kernels import leave_one_out_bleu

        grams = batch.ngrams(self.tokenizer, self.n)
        orders = np.arange(1, self.n + 1)
        weights = np.full(self.n, 1 / self.n)
        return leave_one_out_bleu(
            grams.ranks, grams.different, grams.texts, grams.sets, orders, weights, self.smooth == "epsilon"
        )

    def per_set(self, batch: Batch) -> Array:
        """Mean BLEU of each set."""
        means: Array = np.add.reduceat(self.per_text(batch), batch.sets.offsets[:-1]) / batch.sets.sizes
        return means
