"""Utterances as they are, or in clusters by the vectors of what they say (Csaky, Purgai & Recski 2019, section 3.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import Options, check_that, option
from nlgauge.errors import DataError, MissingExtra, OptionError, argument
from nlgauge.metrics.diversity.embedding import unit
from nlgauge.models.encoders.word_vectors import is_word_vectors, load_word_vectors, word_vectors_identity
from nlgauge.text.reference_kernels import summed_vectors
from nlgauge.text.tokens import Tokenizer

Method = Literal["identity", "kmeans", "mean-shift"]
SMOOTHING = 0.001
_BANDWIDTH_SAMPLE = 500


@dataclass(frozen=True)
class Clusters:
    """One side of all pairs: the cluster of each pair, and of each cluster its medoid and number of utterances.

    `unknown` counts utterances without any word that has a vector; each of them is a cluster of its own.
    """

    of_pairs: Array
    medoids: list[str]
    sizes: Array
    unknown: int = 0


@dataclass(frozen=True, kw_only=True)
class Clustering(Options):
    """Utterances as they are, or clusters of them.

    `embedding` is a sentence encoder (`minilm`, a folder, a hub name), whose vectors are scaled to length 1, or word
    vectors (`glove-50d`, or a text file with one word and its numbers per line). Of these an utterance has the mean
    over its words, each weighed by 0.001 / (0.001 + p), where p is the word's share of all known words of that side:
    the smooth inverse frequency that Csaky et al. take from Arora et al. (2017). Words are cut at white space and
    looked up in lower case; those without a vector are skipped, and an utterance without any other word is a cluster of
    its own.
    """

    cluster: Method = option("identity", "Utterances as they are, or clusters of them.")
    clusters: int = option(
        0, "With kmeans: clusters per side; 0: the square root of the number of utterances.", metavar="N"
    )
    bandwidth: float = option(0.0, "With mean-shift: the width of the kernel; 0: estimated.", metavar="X")
    embedding: str = option(
        "minilm", "For clusters: sentence encoder, glove-50d or a vector file.", metavar="MODEL|VECTORS"
    )
    seed: int = option(12345, "Seed of every random step.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.clusters >= 0, "clusters", self.clusters, "0 or more")
        check_that(math.isfinite(self.bandwidth) and self.bandwidth >= 0, "bandwidth", self.bandwidth, "0 or more")
        for name, method in (("clusters", "kmeans"), ("bandwidth", "mean-shift")):
            if getattr(self, name) and self.cluster != method:
                needed = argument("cluster", method)
                raise OptionError(f"{argument(name)} requires {needed}; found {argument('cluster', self.cluster)}")

    @property
    def unused(self) -> frozenset[str]:
        """Options that do not matter to the method."""
        if self.cluster == "identity":
            return frozenset({"clusters", "bandwidth", "embedding", "seed"})
        return frozenset({"bandwidth" if self.cluster == "kmeans" else "clusters"})

    @property
    def embedding_identity(self) -> str:
        """The encoder or the word vectors, with their hash."""
        if is_word_vectors(self.embedding):
            return word_vectors_identity(self.embedding)
        from nlgauge.models.encoders.embedder import load_embedder

        return load_embedder(self.embedding).identity

    def clusters_of(self, texts: pl.Series) -> Clusters:
        """The clusters of one side's utterances, one for each pair, whatever their order."""
        different = texts.unique().sort()
        codes = texts.rank("dense").to_numpy().astype(np.int64) - 1
        if self.cluster == "identity":
            return Clusters(codes, different.to_list(), np.ones(len(different), np.int64))
        points, is_known = utterance_vectors(different, np.bincount(codes), self.embedding)
        if not is_known.any():
            raise DataError(
                f"none of {len(different)} different utterances has a word with a vector in {self.embedding}; "
                "expected word vectors of the texts' language",
                column=texts.name or None,
            )
        known = np.flatnonzero(is_known)
        labels, medoids = self._grouped(points[known])
        alone = np.flatnonzero(~is_known)
        numbers = np.empty(len(different), np.int64)
        numbers[known], numbers[alone] = labels, len(medoids) + np.arange(len(alone))
        named = [different[int(i)] for i in [*known[medoids], *alone]]
        return Clusters(numbers[codes], named, np.bincount(numbers), len(alone))

    def _grouped(self, points: Array) -> tuple[Array, Array]:
        """The cluster of every point, and the point nearest to each cluster's centre."""
        if self.cluster == "kmeans":
            labels, centres = _kmeans(points, self.clusters or max(1, round(math.sqrt(len(points)))), self.seed)
        else:
            labels, centres = _mean_shift(points, self.bandwidth, self.seed)
        used, labels = np.unique(labels, return_inverse=True)
        gaps = np.linalg.norm(points - centres[used][labels], axis=1)
        order = np.lexsort((gaps, labels))
        return labels, order[np.searchsorted(labels[order], np.arange(len(used)))]


def utterance_vectors(texts: pl.Series, counts: Array, embedding: str) -> tuple[Array, Array]:
    """A vector for each text, and which texts have one; `counts` says how often each occurs in the corpus."""
    if not is_word_vectors(embedding):
        from nlgauge.models.encoders.embedder import load_embedder

        return unit(load_embedder(embedding).encode(texts.to_list())), np.ones(len(texts), dtype=bool)
    ids, offsets, vectors = load_word_vectors(embedding).known(Tokenizer("space", lower=True)(texts))
    lengths = np.diff(offsets)
    times = np.bincount(ids, weights=np.repeat(counts, lengths), minlength=len(vectors))
    weights = SMOOTHING / (SMOOTHING + times / max(times.sum(), 1.0))
    sums = summed_vectors(ids, offsets, vectors * weights[:, None])
    return sums / np.maximum(lengths, 1)[:, None], lengths > 0


def _kmeans(points: Array, count: int, seed: int) -> tuple[Array, Array]:
    if count > len(points):
        raise OptionError(
            f"{argument('clusters', count)} for {len(points)} different utterances; expected at most as many"
        )
    try:
        import faiss
    except ImportError as error:
        raise MissingExtra.needs("clustering utterances", "models") from error
    points = np.ascontiguousarray(points, dtype=np.float32)
    clustering: Any = faiss.Kmeans(
        points.shape[1], count, niter=50, nredo=1, seed=seed, min_points_per_centroid=1, verbose=False
    )
    clustering.train(points)
    return clustering.index.search(points, 1)[1][:, 0], np.asarray(clustering.centroids)


def _mean_shift(points: Array, bandwidth: float, seed: int) -> tuple[Array, Array]:
    try:
        from sklearn.cluster import MeanShift, estimate_bandwidth
    except ImportError as error:
        raise MissingExtra.needs("clustering utterances", "models") from error
    sample = min(_BANDWIDTH_SAMPLE, len(points))
    width = bandwidth or estimate_bandwidth(points, n_samples=sample, random_state=seed)
    if not width > 0:
        raise OptionError(
            f"{len(points)} different utterances are too few to estimate {argument('bandwidth')}; name one"
        )
    fitted = MeanShift(bandwidth=width).fit(points)
    return fitted.labels_, fitted.cluster_centers_
