"""Cosine similarity of n-gram counts, as a diversity metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.ngram import ORDERS, TOKENIZER, TokenOptions
from nlgauge.metrics.orders import Orders
from nlgauge.metrics.score import Direction


@dataclass(frozen=True, kw_only=True)
class CosineSimilarity(TokenOptions, SetMetric):
    """Minus the mean cosine of n-gram count vectors over the pairs of a set, averaged over the orders.

    `variant=paper`: a text is always similar to itself, so texts too short for an n-gram have cosine 1 if equal, 0 if
    not. `variant=reference` follows the code released with paper 1: without a common n-gram the cosine is 0, so
    {ok, ok, ok} scores -0.20 for n = 1-5 instead of -1.
    """

    name: ClassVar[str] = "cos-sim"
    aspect: ClassVar[str] = "form"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    paper: ClassVar[str] = "Tevet & Berant 2021, sections 5 and 6.2"
    needs: ClassVar[int] = 2

    n: Orders = option(Orders("1-5"), ORDERS)
    tok: str = option("space-nodot", TOKENIZER)
    variant: Literal["paper", "reference"] = option("paper", "As the paper says, or as the code released with it does.")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "n", Orders(self.n))

    def part_names(self) -> tuple[str, ...]:
        """One part per order."""
        return tuple(f"n={n}" for n in self.n)

    def per_set(self, batch: Batch) -> Array:
        """Minus the mean cosine of each set, one column per order."""
        from nlgauge.text.set_kernels import set_cosine

        grams = batch.ngrams(self.tokenizer, max(self.n))
        whole = self.variant == "paper"
        columns = [set_cosine(grams.ranks, grams.different, grams.texts, grams.sets, n, whole) for n in self.n]
        return 0.0 - np.stack(columns, axis=1)
