"""How much the n-grams of the texts of a set overlap: cosine similarity of their counts, and Self-BLEU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import DataError
from nlgauge.metrics.base import OVER, SetMetric, Shares, WordingMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.ngram import TOKENIZER, OrderOptions, TokenOptions
from nlgauge.metrics.score import Bounds, Direction, Score
from nlgauge.stats.inference import Inference
from nlgauge.stats.kernels.exact import ExactSum
from nlgauge.text.matching import TextNgrams


@dataclass(frozen=True, kw_only=True)
class CosineSimilarity(OrderOptions, SetMetric):
    """Minus the mean cosine of n-gram count vectors over the pairs of a set, averaged over the orders.

    `variant=paper`: a text is always similar to itself, so texts too short for an n-gram have cosine 1 if equal, 0 if
    not. `variant=reference` follows the code released with paper 1: without a common n-gram the cosine is 0, so
    {ok, ok, ok} scores -0.20 for n = 1-5 instead of -1.
    """

    name: ClassVar[str] = "cos-sim"
    bounds: ClassVar[Bounds] = (-1.0, 0.0)
    aspect: ClassVar[str] = "form"
    depends_on_size: ClassVar[bool] = False
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    paper: ClassVar[str] = "Tevet & Berant 2021, sections 5 and 6.2"
    needs: ClassVar[int] = 2

    tok: str = option("space-nodot", TOKENIZER)
    variant: Literal["paper", "reference"] = option("paper", "As the paper says, or as the code released with it does.")

    def per_set(self, batch: Batch) -> Array:
        """Minus the mean cosine of each set, one column per order."""
        from nlgauge.text.set_kernels import set_cosine

        grams = batch.ngrams(self.tokenizer, max(self.n))
        whole = self.variant == "paper"
        columns = [set_cosine(grams.ranks, grams.different, grams.texts, grams.sets, n, whole) for n in self.n]
        return 0.0 - np.stack(columns, axis=1)


@dataclass(frozen=True, kw_only=True)
class SelfBleu(TokenOptions, WordingMetric):
    """Mean over the texts of a set of the sentence BLEU of each with the others as references (Zhu et al. 2018).

    `n` is the highest order, all orders weigh the same. `smooth=epsilon` puts 0.1 matches where an order has none
    (NLTK's method 1, as in Texygen); `smooth=none` scores such a text 0. A text that occurs twice has its copy as a
    reference.

    `over=corpus` takes the texts of all sets together, each against all others, as Texygen does: exact, in linear time,
    for corpora larger than memory. It has no interval: a text is a reference of every other, so leaving out a part of
    the corpus changes the matches of all the rest, and these are not known without counting again. It grows with the
    number of texts: compare corpora of similar size.
    """

    name: ClassVar[str] = "self-bleu"
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    direction: ClassVar[Direction] = Direction.LESS_DIVERSE
    paper: ClassVar[str] = "Zhu et al. 2018; Tevet & Berant 2021, section 2"
    needs: ClassVar[int] = 2

    n: int = option(4, "Highest n-gram order; all orders have the same weight.")
    smooth: Literal["epsilon", "none"] = option("epsilon", "Where an order has no match: 0.1 matches, or a score of 0.")
    over: Literal["set", "corpus"] = option("set", OVER)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect("n", 1 <= self.n <= 64, "the highest order, from 1 to 64")

    def relevant_options(self) -> Mapping[str, Any]:
        """All options, but `over` only where it pools sets."""
        shown = super().relevant_options()
        return {key: value for key, value in shown.items() if key != "over" or self.over == "corpus"}

    def per_text(self, batch: Batch) -> Array:
        """BLEU of every text against the rest of its set."""
        from nlgauge.text.set_kernels import leave_one_out_bleu

        grams = batch.ngrams(self.tokenizer, self.n)
        orders = np.arange(1, self.n + 1)
        return leave_one_out_bleu(
            grams.ranks, grams.different, grams.texts, grams.sets, orders, self._weights, self.smooth == "epsilon"
        )

    @property
    def _weights(self) -> Array:
        return np.full(self.n, 1 / self.n)

    def per_set(self, batch: Batch) -> Array:
        """Mean BLEU of each set."""
        means: Array = np.add.reduceat(self.per_text(batch), batch.sets.offsets[:-1]) / batch.sets.sizes
        return means

    def collect_corpus(self, batch: Batch) -> TextNgrams:
        """N-grams with the texts that they occur in."""
        return TextNgrams.of(batch.tokens(self.tokenizer), self.n)

    def shares(self, stats: Any) -> Shares | None:
        """The slices of a corpus' n-grams that are to be matched; then the texts that are to be scored."""
        if not isinstance(stats, TextNgrams):
            return None
        if not stats.matched:
            return Shares(stats.match_slice, stats.slices, lambda done: replace(stats, matched=tuple(done)))
        return Shares(partial(self._sum_of_run, stats, *stats.lengths()), len(stats.runs), partial(reduce, add))

    def _sum_of_run(self, stats: TextNgrams, known: Array, often: Array, number: int) -> ExactSum:
        from nlgauge.text.match_kernels import corpus_bleu_of_texts

        lengths, matched = stats.matches(number)
        scores = corpus_bleu_of_texts(lengths, matched, known, often, self._weights, self.smooth == "epsilon")
        return ExactSum.of(scores.tolist())

    def finish_corpus(self, stats: Any, interval: Inference | None = None) -> Score:  # noqa: ARG002 - there is none
        """The mean over the texts of the corpus."""
        total: ExactSum = self.completed(stats)
        if total.count < self.needs:
            raise DataError(f"the corpus has {total.count} text; self-bleu needs at least {self.needs}: add texts")
        return self.make_score(total.mean, total.count)
