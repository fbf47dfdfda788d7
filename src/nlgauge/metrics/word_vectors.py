"""Measures against references from word vectors: embedding average, vector extrema, greedy matching."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.cache import file_digest
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.embedding import unit
from nlgauge.metrics.ngram import TokenOptions
from nlgauge.metrics.references import ReferenceMetric, best_of_references, of_references
from nlgauge.text.reference_kernels import extreme_vectors, greedy_matches, summed_vectors
from nlgauge.text.tokens import TokenTable

_FILES = (".txt", ".vec")
_WITH_HASH = re.compile(r"(.+)@([0-9a-f]{12})")


@dataclass(frozen=True)
class WordVectors:
    """Vectors of words, a row a word."""

    rows: Mapping[str, int]
    matrix: Array

    def known(self, tokens: TokenTable) -> tuple[Array, Array, Array]:
        """Ids and offsets of the tokens that have a vector, the others left out, and a vector for every id."""
        places = [self.rows.get(tokens.token(number), -1) for number in range(tokens.vocabulary_size)]
        found = np.array(places, dtype=np.int64)
        kept = found[tokens.ids] >= 0 if len(tokens.ids) else np.zeros(0, dtype=bool)
        offsets = np.concatenate([[0], np.cumsum(kept)])[tokens.offsets]
        return tokens.ids[kept], offsets, np.asarray(self.matrix[np.maximum(found, 0)], dtype=np.float64)


def load_word_vectors(spec: str) -> WordVectors:
    """Vectors of a catalogue name (`glove-50d`), or of a text file with a word and its numbers a line."""
    from nlgauge.models.catalogue import CATALOGUE
    from nlgauge.models.fetch import resolve_model

    name = spec.partition("@")[0]
    if name in CATALOGUE:
        return _from_folder(str(resolve_model(name)))
    path = _split_hash(spec)[0]
    return _from_text(path, file_digest(path))


@lru_cache(maxsize=2)
def _from_folder(folder: str) -> WordVectors:
    import polars as pl

    matrices, indices = sorted(Path(folder).glob("*.npy")), sorted(Path(folder).glob("*.parquet"))
    if len(matrices) != 1 or len(indices) != 1:
        raise DataError(
            "is no folder of word vectors; expected one .npy of vectors and one .parquet of words", file=folder
        )
    words = pl.read_parquet(indices[0]).to_series(0).to_list()
    return WordVectors({word: row for row, word in enumerate(words)}, np.load(matrices[0], mmap_mode="r"))


@lru_cache(maxsize=2)
def _from_text(path: str, _digest: str) -> WordVectors:
    """GloVe's format, or word2vec's, whose first line has the numbers of words and dimensions."""
    rows: dict[str, int] = {}
    vectors: list[Array] = []
    size = 0
    with Path(path).open(encoding="utf-8", newline="\n") as file:
        try:
            for number, line in enumerate(file, 1):
                fields = line.rstrip().split(" ")
                if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                    continue
                size = size or len(fields) - 1
                word = " ".join(fields[: len(fields) - size])
                vector = _numbers(fields[len(fields) - size :]) if size and word else None
                if vector is None:
                    raise DataError(
                        f"'{line.strip()[:40]}'; expected a word and {size or 'its'} numbers", file=path, line=number
                    )
                if rows.setdefault(word, len(vectors)) == len(vectors):
                    vectors.append(vector)
        except UnicodeDecodeError as error:
            raise DataError(f"is not UTF-8 text ({error.reason}); expected word vectors as text", file=path) from error
    if not vectors:
        raise DataError("holds no word vectors; expected a word and its numbers a line", file=path)
    return WordVectors(rows, np.stack(vectors))


def _numbers(fields: list[str]) -> Array | None:
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None


def _split_hash(spec: str) -> tuple[str, str]:
    claim = _WITH_HASH.fullmatch(spec)
    return (claim[1], claim[2]) if claim else (spec, "")


def is_word_vectors(spec: str) -> bool:
    """Whether a spec names word vectors rather than a model: a catalogue's, or a file."""
    from nlgauge.models.catalogue import CATALOGUE

    name = spec.partition("@")[0]
    if name in CATALOGUE:
        return CATALOGUE[name].kind == "word vectors"
    path = Path(_split_hash(spec)[0])
    return path.is_file() or path.suffix in _FILES


def word_vectors_identity(spec: str) -> str:
    """`name@hash` of a catalogue's vectors, or `file@hash`, checked if there is a hash already."""
    from nlgauge.models.catalogue import CATALOGUE
    from nlgauge.models.fetch import model_identity

    if spec.partition("@")[0] in CATALOGUE:
        return model_identity(spec)
    path, claimed = _split_hash(spec)
    digest = file_digest(path)[:12]
    if claimed and claimed != digest:
        raise OptionError(f"{path}: has hash {digest}; expected {claimed}: these are other word vectors")
    return f"{path}@{digest}"


@dataclass(frozen=True, kw_only=True)
class WordVectorMetric(TokenOptions, ReferenceMetric):
    """A similarity of a text and a reference from the vectors of their words; the best of an item's references counts.

    `vectors` is `glove-50d` or a text file with a word and its numbers a line. Words without a vector are skipped; a
    reference without any is ignored, and a text without any (or with no other reference) scores 0.
    """

    vectors: str = "glove-50d"
    case: Literal["keep", "lower"] = "lower"

    def relevant_options(self) -> Mapping[str, Any]:
        """The vectors with the hash of their file."""
        return {**super().relevant_options(), "vectors": word_vectors_identity(self.vectors)}

    def prepare(self) -> None:
        """Refuse to begin without the vectors."""
        load_word_vectors(self.vectors)

    @abstractmethod
    def of_pairs(self, ids: Array, texts: Array, sets: Array, vectors: Array) -> Array:
        """One value a reference."""

    def per_item(self, batch: Batch) -> Array:
        """The best of each item's references that have words."""
        paired = batch.with_references
        sets = paired.sets.offsets
        ids, texts, vectors = load_word_vectors(self.vectors).known(paired.tokens(self.tokenizer))
        own, others = of_references(np.diff(texts) > 0, sets)
        values = np.where(own & others, self.of_pairs(ids, texts, sets, vectors), -np.inf)
        best = best_of_references(values, sets)
        return np.where(np.isneginf(best), 0.0, best)


@dataclass(frozen=True, kw_only=True)
class EmbeddingAverage(WordVectorMetric):
    """Cosine of the mean word vectors of a text and a reference, best of the references, times 100, mean over items.

    Words come from `glove-50d`, or from a text file (`vectors=FILE`); words without a vector are skipped, and a text
    without any scores 0. nlg-eval takes GloVe in 300 dimensions and gives unknown words the mean of all vectors.
    """

    name: ClassVar[str] = "embed-average"
    paper: ClassVar[str] = "Forgues et al. 2014; Liu et al. 2016; RUQ, section A.2, Tables 5 and 7"

    def of_pairs(self, ids: Array, texts: Array, sets: Array, vectors: Array) -> Array:
        """The mean points where the sum does."""
        return _cosines(summed_vectors(ids, texts, vectors), sets)


@dataclass(frozen=True, kw_only=True)
class VectorExtrema(WordVectorMetric):
    """Cosine of vectors that keep the most extreme value of each dimension; best reference, times 100, mean over items.

    Words come from `glove-50d`, or from a text file (`vectors=FILE`); words without a vector are skipped, and a text
    without any scores 0. Of two values equally far from 0 the negative one is kept.
    """

    name: ClassVar[str] = "vector-extrema"
    paper: ClassVar[str] = "Forgues et al. 2014; Liu et al. 2016; RUQ, section A.2, Tables 5 and 7"

    def of_pairs(self, ids: Array, texts: Array, sets: Array, vectors: Array) -> Array:
        """From the extremes of each text."""
        return _cosines(extreme_vectors(ids, texts, vectors), sets)


@dataclass(frozen=True, kw_only=True)
class GreedyMatching(WordVectorMetric):
    """Mean cosine of words with their nearest on the other side, both ways; best reference, times 100, mean over items.

    Words come from `glove-50d`, or from a text file (`vectors=FILE`); words without a vector are skipped, and a text
    without any scores 0.
    """

    name: ClassVar[str] = "greedy"
    paper: ClassVar[str] = "Rus & Lintean 2012; Liu et al. 2016; RUQ, section A.2, Tables 5 and 7"

    def of_pairs(self, ids: Array, texts: Array, sets: Array, vectors: Array) -> Array:
        """Word by word."""
        return greedy_matches(ids, texts, sets, unit(vectors))


def _cosines(rows: Array, sets: Array) -> Array:
    own, others = of_references(unit(rows), sets)
    cosines: Array = (own * others).sum(axis=1)
    return cosines
