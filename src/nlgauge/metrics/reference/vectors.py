"""Measures against references from vectors of words (average, extrema, greedy matching) or of sentences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import LONG, EncoderMetric, check_encoder, unit
from nlgauge.metrics.diversity.ngram import CASE, TokenOptions
from nlgauge.metrics.reference.references import ReferenceMetric, best_of_references, of_references
from nlgauge.metrics.score import Bounds
from nlgauge.models.encoders.word_vectors import is_word_vectors, load_word_vectors, word_vectors_identity
from nlgauge.text.reference_kernels import extreme_vectors, greedy_matches, summed_vectors
from nlgauge.text.tokens import canonical_tokenizer


@dataclass(frozen=True, kw_only=True)
class WordVectorMetric(TokenOptions, ReferenceMetric):
    """A similarity of a text and a reference from the vectors of their words; the best of an item's references counts.

    `vectors` is `glove-50d`, a text file with one word and its numbers per line, or an encoder (a catalogue name, a
    folder or a hub name), whose own tokens then stand for words, with embeddings of its last layer. A reference
    without any vector is ignored. An item that is left with none scores 0 with word vectors, which do not know
    every word, and has no value with an encoder, which does; a text beyond its window is cut there.
    """

    vectors: str = option("glove-50d", "glove-50d, a text file, or an encoder whose tokens stand for words.")
    case: Literal["keep", "lower"] = option("lower", CASE)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(
            "vectors",
            self._by_encoder and (self.tok, self.case) != (canonical_tokenizer("space"), "lower"),
            f"{self.name}: the encoder '{self.vectors}' has its own tokens; tok and case require word vectors",
        )

    @property
    def _by_encoder(self) -> bool:
        return not is_word_vectors(self.vectors)

    def relevant_options(self) -> Mapping[str, Any]:
        """The vectors with the hash of their file; an encoder has its own tokens."""
        shown = dict(super().relevant_options())
        if self._by_encoder:
            from nlgauge.models.fetch import model_identity

            return {"vectors": model_identity(self.vectors), "scale": shown["scale"]}
        return {**shown, "vectors": word_vectors_identity(self.vectors)}

    def prepare(self) -> None:
        """Refuse to begin without the vectors."""
        if self._by_encoder:
            check_encoder(self.vectors, self.name)
        else:
            load_word_vectors(self.vectors)

    @abstractmethod
    def of_pairs(self, ids: Array, texts: Array, sets: Array, vectors: Array) -> Array:
        """One value per reference."""

    def per_item(self, batch: Batch) -> Array:
        """The best of each item's references that have words."""
        paired = batch.with_references
        values = self._of_tokens(paired) if self._by_encoder else self._of_words(paired)
        best = best_of_references(values, paired.sets.offsets)
        return np.where(np.isneginf(best), np.nan if self._by_encoder else 0.0, best)

    def _of_words(self, paired: Batch) -> Array:
        """One value per reference; minus infinity where a side has no word."""
        sets = paired.sets.offsets
        ids, texts, vectors = load_word_vectors(self.vectors).known(paired.tokens(self.tokenizer))
        own, others = of_references(np.diff(texts) > 0, sets)
        return np.where(own & others, self.of_pairs(ids, texts, sets, vectors), -np.inf)

    def _of_tokens(self, paired: Batch) -> Array:
        """The same from the tokens of an encoder, each of them a word of its own."""
        from nlgauge.metrics.reference.contextual import Group, measured_once, vectors_of_texts
        from nlgauge.models.encoders.embedder import load_embedder

        embedder = load_embedder(self.vectors)

        def measure(pairs: Sequence[Group]) -> list[Array]:
            found = vectors_of_texts(embedder, pairs, layer=-1)
            rows = {text: one.vectors[~one.special].astype(np.float64) for text, one in found.items()}
            return [self._of_rows([rows[text.strip()] for text in pair]) for pair in pairs]

        own, others = of_references(np.array(paired.sets.texts.to_list(), dtype=object), paired.sets.offsets)
        return measured_once(embedder, self.name, list(zip(own, others, strict=True)), measure)[:, 0]

    def _of_rows(self, sides: Sequence[Array]) -> Array:
        """The value of a text and a reference from their vectors."""
        texts = np.cumsum([0, *map(len, sides)])
        if not all(map(len, sides)):
            return np.array([-np.inf])
        return self.of_pairs(np.arange(texts[-1]), texts, np.array([0, 2]), np.concatenate(sides))


@dataclass(frozen=True, kw_only=True)
class EmbeddingAverage(WordVectorMetric):
    """Cosine of the mean word vectors of a text and a reference, best of the references, times 100, mean over items.

    Words come from `glove-50d`, a text file (`vectors=FILE`) or an encoder (`vectors=minilm`), whose tokens stand for
    words. Words without a vector are skipped, and a text without any scores 0; with an encoder it has no value.
    nlg-eval takes GloVe in 300 dimensions and gives unknown words the mean of all vectors.
    """

    name: ClassVar[str] = "embed-average"
    share_bounds: ClassVar[Bounds] = (-1.0, 1.0)
    paper: ClassVar[str] = "Forgues et al. 2014; Liu et al. 2016; RUQ, section A.2, Tables 5 and 7"

    def of_pairs(self, ids: Array, texts: Array, sets: Array, vectors: Array) -> Array:
        """The mean points where the sum does."""
        return _cosines(summed_vectors(ids, texts, vectors), sets)


@dataclass(frozen=True, kw_only=True)
class VectorExtrema(WordVectorMetric):
    """Cosine of vectors that keep the most extreme value of each dimension; best reference, times 100, mean over items.

    Words come from `glove-50d`, a text file (`vectors=FILE`) or an encoder (`vectors=minilm`), whose tokens stand for
    words. Words without a vector are skipped, and a text without any scores 0; with an encoder it has no value.
    Of two values equally far from 0 the negative one is kept.
    """

    name: ClassVar[str] = "vector-extrema"
    share_bounds: ClassVar[Bounds] = (-1.0, 1.0)
    paper: ClassVar[str] = "Forgues et al. 2014; Liu et al. 2016; RUQ, section A.2, Tables 5 and 7"

    def of_pairs(self, ids: Array, texts: Array, sets: Array, vectors: Array) -> Array:
        """From the extremes of each text."""
        return _cosines(extreme_vectors(ids, texts, vectors), sets)


@dataclass(frozen=True, kw_only=True)
class GreedyMatching(WordVectorMetric):
    """Mean cosine of words with their nearest on the other side, both ways; best reference, times 100, mean over items.

    Words come from `glove-50d`, a text file (`vectors=FILE`) or an encoder (`vectors=minilm`), whose tokens stand for
    words. Words without a vector are skipped, and a text without any scores 0; with an encoder it has no value.
    """

    name: ClassVar[str] = "greedy"
    share_bounds: ClassVar[Bounds] = (-1.0, 1.0)
    paper: ClassVar[str] = "Rus & Lintean 2012; Liu et al. 2016; RUQ, section A.2, Tables 5 and 7"

    def of_pairs(self, ids: Array, texts: Array, sets: Array, vectors: Array) -> Array:
        """Word by word."""
        return greedy_matches(ids, texts, sets, unit(vectors))


def _cosines(rows: Array, sets: Array) -> Array:
    own, others = of_references(unit(rows), sets)
    cosines: Array = (own * others).sum(axis=1)
    return cosines


@dataclass(frozen=True, kw_only=True)
class SentenceCosine(EncoderMetric, ReferenceMetric):
    """Cosine of the sentence embeddings of a text and its nearest reference, times 100, mean over items.

    It stands where paper 5 has SkipThought vectors; with another encoder, values are not comparable with the printed
    ones. `model` is a catalogue name, a folder or a hub name; a text beyond its window is cut there (`long=cut`).
    """

    name: ClassVar[str] = "sent-cos"
    share_bounds: ClassVar[Bounds] = (-1.0, 1.0)
    paper: ClassVar[str] = "RUQ, section A.2, Tables 5 and 7 (SkipThought); Reimers & Gurevych 2019"

    long: Literal["cut"] = option("cut", LONG)

    def prepare(self) -> None:
        """Refuse to begin without the model."""
        check_encoder(self.model, self.name)

    def per_item(self, batch: Batch) -> Array:
        """The best cosine of each item."""
        paired = batch.with_references
        units = unit(paired.embeddings(self.model).astype(np.float64))
        own, others = of_references(units, paired.sets.offsets)
        return best_of_references((own * others).sum(axis=1), paired.sets.offsets)
