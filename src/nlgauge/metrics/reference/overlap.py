"""How much the words of texts overlap with those of references: BLEU and ROUGE-L."""

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
from nlgauge.metrics.reference.references import PooledReferenceMetric, ReferenceMetric, best_of_references
from nlgauge.text.reference_kernels import clipped_matches, closest_lengths, common_subsequences
from nlgauge.text.tokens import Tokenizer

_EPSILON = 0.1


@dataclass(frozen=True, kw_only=True)
class Bleu(TokenOptions, PooledReferenceMetric):
    """BLEU-n against one or many references, times 100: mean over items of sentence BLEU, or corpus BLEU.

    `n` is the highest order; all orders weigh the same. `refs=max` scores a text with each reference alone and keeps
    the best (paper 5's "average max sentence BLEU"); `refs=multi` is ordinary BLEU with several references, the only
    reading of `over=corpus`. `auto` is `max` for items. `smooth=epsilon` puts 0.1 matches where an order has none
    (NLTK's method 1), `none` scores 0; `auto` smooths items and not a corpus. `variant=nltk` counts a text too short
    for an order as one n-gram of it in the corpus' precision, as NLTK does; `nlg-eval` (like sacrebleu) does not.
    """

    name: ClassVar[str] = "bleu"
    paper: ClassVar[str] = "Papineni et al. 2002; RUQ, section A.2, Tables 4 and 6"

    n: int = option(4, "Highest n-gram order; all orders have the same weight.")
    refs: Literal["auto", "max", "multi"] = option("auto", "The best single reference (max), or all together (multi).")
    smooth: Literal["auto", "epsilon", "none"] = option("auto", "An order without a match: 0.1 matches, or score 0.")
    variant: Literal["nltk", "nlg-eval"] = option(
        "nltk", "With over=corpus: how to count texts too short for an order."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect("n", 1 <= self.n <= 64, "the highest order, from 1 to 64")
        refuse(
            "refs",
            self.over == "corpus" and self.refs == "max",
            "bleu: refs=max takes the best reference of each item; it requires over=item, a corpus has refs=multi",
        )
        refuse(
            "variant",
            self.over == "item" and self.variant == "nlg-eval",
            "bleu: variant=nlg-eval is about the precision of a corpus; it requires over=corpus",
        )

    @property
    def _best_reference(self) -> bool:
        return self.over == "item" and self.refs != "multi"

    @property
    def _smooths(self) -> bool:
        return self.smooth == "epsilon" or (self.smooth == "auto" and self.over == "item")

    def relevant_options(self) -> Mapping[str, Any]:
        """What `auto` stands for, and the variant where there are two."""
        shown = {
            **super().relevant_options(),
            "refs": "max" if self._best_reference else "multi",
            "smooth": "epsilon" if self._smooths else "none",
        }
        if self.over == "item":
            del shown["variant"]
        return {key: shown[key] for key in ("n", "over", "refs", "smooth")} | shown

    def counts(self, batch: Batch) -> Array:
        """Matches and n-grams of each order, the text's length and the closest reference's, one row per item."""
        matches, texts, sets = self._matches(batch, together=True)
        lengths = np.diff(texts)[sets[:-1]]
        return self._row(matches, lengths, closest_lengths(texts, sets))

    def per_item(self, batch: Batch) -> Array:
        """Sentence BLEU of each item."""
        if not self._best_reference:
            return super().per_item(batch)
        matches, texts, sets = self._matches(batch, together=False)
        lengths = np.repeat(np.diff(texts)[sets[:-1]], np.diff(sets) - 1)
        references = np.delete(np.diff(texts), sets[:-1])
        return best_of_references(self.of_counts(self._row(matches, lengths, references)), sets)

    def _matches(self, batch: Batch, *, together: bool) -> tuple[Array, Array, Array]:
        grams = batch.with_references.ngrams(self.tokenizer, self.n)
        matches = clipped_matches(grams.ranks[: self.n], grams.different, grams.texts, grams.sets, together)
        return matches, grams.texts, grams.sets

    def _row(self, matches: Array, lengths: Array, references: Array) -> Array:
        least = 0 if self.variant == "nlg-eval" else 1
        totals = np.maximum(lengths[:, None] - np.arange(self.n), least)
        return np.column_stack([matches, totals, lengths, references])

    def of_counts(self, counts: Array) -> Array:
        """The brevity penalty times the geometric mean of the precisions; 0 where no word matches."""
        matches, totals = counts[:, : self.n], counts[:, self.n : 2 * self.n]
        lengths, references = counts[:, -2], counts[:, -1]
        found = np.where((matches == 0) & self._smooths, _EPSILON, matches)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(found / np.maximum(totals, 1)).mean(axis=1)
            penalty = np.where(lengths > references, 1.0, np.exp(1 - references / lengths))
        scored: Array = np.where(matches[:, 0] > 0, penalty * np.exp(logs), 0.0)
        return scored


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
