"""Vectors of single words: GloVe of the catalogue, or a user's own text file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.cache import file_digest, file_with_hash, split_hash
from nlgauge.errors import DataError
from nlgauge.models.catalogue import CATALOGUE
from nlgauge.models.fetch import model_identity, resolve_model
from nlgauge.text.tokens import TokenTable

_FILES = (".txt", ".vec")


@dataclass(frozen=True)
class WordVectors:
    """Vectors of words, one row per word."""

    rows: Mapping[str, int]
    matrix: Array

    def known(self, tokens: TokenTable) -> tuple[Array, Array, Array]:
        """Ids and offsets of the tokens that have a vector, and a vector for every id; other tokens are left out."""
        places = [self.rows.get(tokens.token(number), -1) for number in range(tokens.vocabulary_size)]
        found = np.array(places, dtype=np.int64)
        kept = found[tokens.ids] >= 0 if len(tokens.ids) else np.zeros(0, dtype=bool)
        offsets = np.concatenate([[0], np.cumsum(kept)])[tokens.offsets]
        return tokens.ids[kept], offsets, np.asarray(self.matrix[np.maximum(found, 0)], dtype=np.float64)


def load_word_vectors(spec: str) -> WordVectors:
    """Vectors of a catalogue name (`glove-50d`), or of a text file with one word and its numbers per line."""
    name = spec.partition("@")[0]
    if name in CATALOGUE:
        return _from_folder(str(resolve_model(name)), model_identity(spec))
    path = split_hash(spec)[0]
    return _from_text(path, file_digest(path))


@lru_cache(maxsize=2)
def _from_folder(folder: str, _identity: str) -> WordVectors:
    import polars as pl

    matrices, indices = sorted(Path(folder).glob("*.npy")), sorted(Path(folder).glob("*.parquet"))
    if len(matrices) != 1 or len(indices) != 1:
        raise DataError(
            "is not a folder of word vectors; expected one .npy of vectors and one .parquet of words", file=folder
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
        raise DataError("holds no word vectors; expected one word and its numbers per line", file=path)
    return WordVectors(rows, np.stack(vectors))


def _numbers(fields: list[str]) -> Array | None:
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None


def is_word_vectors(spec: str) -> bool:
    """Whether a spec names word vectors rather than a model: a catalogue's, or a file."""
    name = spec.partition("@")[0]
    if name in CATALOGUE:
        return CATALOGUE[name].kind == "word vectors"
    path = Path(split_hash(spec)[0])
    return path.is_file() or path.suffix in _FILES


def word_vectors_identity(spec: str) -> str:
    """`name@hash` of a catalogue's vectors, or `file@hash`, checked if the spec has a hash."""
    if spec.partition("@")[0] in CATALOGUE:
        return model_identity(spec)
    return file_with_hash(spec, "word vectors")
