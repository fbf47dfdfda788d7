"""One vector per text, pooled from the vectors of its words, or from the token states of an encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.engine.blobs import BlobStore
from nlgauge.models.encoders.embedder import load_embedder
from nlgauge.models.encoders.encoding import remembered
from nlgauge.models.encoders.word_vectors import is_word_vectors, load_word_vectors, word_vectors_identity
from nlgauge.models.fetch import model_identity
from nlgauge.text.tokens import Tokenizer

Pooling = Literal["mean", "minmax"]
_AT_ONCE = 256


class PooledReader:
    """Reads texts with word vectors (`glove-50d`, a file) or with an encoder (`minilm`, a folder).

    `pooling` is the mean over words or tokens, or the minimum and maximum of each dimension, concatenated, as in
    RUBER. Words are lower-cased, and those without a vector are skipped.
    """

    def __init__(self, spec: str, pooling: Pooling) -> None:
        self.words = is_word_vectors(spec)
        self.identity = word_vectors_identity(spec) if self.words else model_identity(spec)
        self.pooling = pooling
        self._store = BlobStore(f"pooled-{self.identity.rpartition('@')[2]}-{pooling}")

    def read(self, texts: Sequence[str]) -> Array:
        """One row of float32 per text; NaN for a text without a word."""
        keys = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        if self.words:
            rows = dict(zip(distinct, self._from_words(list(distinct.values())), strict=True))
        else:
            known = remembered(self._store, distinct, self._from_encoder)
            rows = {key: np.frombuffer(value, np.float32) for key, value in known.items()}
        return np.stack([rows[key] for key in keys])

    def _from_words(self, texts: list[str]) -> list[Array]:
        vectors = load_word_vectors(self.identity)
        ids, offsets, matrix = vectors.known(Tokenizer("word", lower=True)(pl.Series(texts, dtype=pl.String)))
        size = vectors.matrix.shape[1]
        return [_pooled(matrix[ids[a:b]].reshape(-1, size), self.pooling) for a, b in pairwise(offsets)]

    def _from_encoder(self, texts: list[str]) -> list[Array]:
        found: list[Array] = []
        for start in range(0, len(texts), _AT_ONCE):
            part = load_embedder(self.identity).token_embeddings(texts[start : start + _AT_ONCE])
            found += [_pooled(vectors, self.pooling) for vectors in part]
        return found


def _pooled(vectors: Array, pooling: Pooling) -> Array:
    if not len(vectors):
        row = np.full(vectors.shape[1] * (1 + (pooling == "minmax")), np.nan)
    elif pooling == "mean":
        row = vectors.mean(axis=0)
    else:
        row = np.concatenate([vectors.min(axis=0), vectors.max(axis=0)])
    return row.astype(np.float32)


load_pooled_reader = lru_cache(maxsize=4)(PooledReader)
