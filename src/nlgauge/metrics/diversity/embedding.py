"""Diversity of a set of texts from their sentence embeddings."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import Metric, SetMetric, SizedMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import Bounds, Direction

ENCODER = "Sentence encoder: a name of the catalogue, a folder, or a hub name."
LONG = "A text beyond the model's window is cut there."


@dataclass(frozen=True, kw_only=True)
class EncoderMetric(Metric):
    """A measure from the vectors of an encoder, `model`: a catalogue name, a folder or a hub name."""

    costly: ClassVar[bool] = True

    model: str = option("minilm", ENCODER)

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with its hash."""
        from nlgauge.models.fetch import model_identity

        return {**super().relevant_options(), "model": model_identity(self.model)}


@dataclass(frozen=True, kw_only=True)
class EncoderDiversity(EncoderMetric, SetMetric):
    """The diversity of a set's content by the vectors of an encoder."""

    aspect: ClassVar[str] = "content"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    needs: ClassVar[int] = 2

    @property
    def encoder(self) -> str:
        """The model."""
        return self.model


@dataclass(frozen=True, kw_only=True)
class EmbeddingMetric(EncoderDiversity):
    """A measure of each set's sentence embeddings; a text beyond the model's window is cut there (`long`)."""

    long: Literal["cut"] = option("cut", LONG)

    @abstractmethod
    def of_vectors(self, vectors: Array) -> float:
        """The measure of one set; one row per text."""

    def per_set(self, batch: Batch) -> Array:
        """The measure of each set, texts in a fixed order."""
        return np.array([self.of_vectors(vectors) for vectors in self.sorted_vectors(batch)])

    def sorted_vectors(self, batch: Batch) -> Iterator[Array]:
        """The embeddings of each set's texts, these in alphabetical order."""
        vectors, texts = batch.embeddings(self.model), batch.sets.texts.to_list()
        for first, last in pairwise(batch.sets.offsets):
            yield vectors[sorted(range(first, last), key=texts.__getitem__)].astype(np.float64)


def unit(vectors: Array) -> Array:
    """Rows scaled to length 1; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Array = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return scaled


@dataclass(frozen=True, kw_only=True)
class SentenceSimilarity(EmbeddingMetric):
    """Minus the mean cosine of sentence embeddings over the pairs of a set (sent-BERT through the reduction)."""

    name: ClassVar[str] = "sent-sim"
    bounds: ClassVar[Bounds] = (-1.0, 1.0)
    depends_on_size: ClassVar[bool] = False
    paper: ClassVar[str] = "Tevet & Berant 2021, sections 5 and 6.2; Reimers & Gurevych 2019"

    def of_vectors(self, vectors: Array) -> float:
        """From the length of the sum of unit vectors: no loop over pairs."""
        size = len(vectors)
        units = unit(vectors)
        total = units.sum(axis=0)
        return -float((total @ total - (units * units).sum()) / (size * (size - 1)))


@dataclass(frozen=True, kw_only=True)
class Vendi(EmbeddingMetric, SizedMetric):
    """The Vendi score: the effective number of different texts in a set, from the eigenvalues of their similarities.

    1 when all texts are alike, the number of texts when none resembles another. `q` is the order of the entropy.
    """

    name: ClassVar[str] = "vendi"
    bounds: ClassVar[Bounds] = (1.0, math.inf)
    paper: ClassVar[str] = "Friedman & Dieng 2023; Pasarkar & Dieng 2024 for q other than 1"
    needs: ClassVar[int] = 1

    q: float = option(1.0, "Order of the entropy; 1 is Shannon's, inf counts the largest eigenvalue only.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect("q", self.q > 0, "a positive order, 1 for the Shannon entropy")

    def of_vectors(self, vectors: Array) -> float:
        """Exponential of the entropy of the eigenvalues of K / n."""
        units = unit(vectors)
        shares = np.linalg.eigvalsh(units @ units.T / len(units))
        shares = shares[shares > 1e-12]
        if self.q == 1:
            return float(np.exp(-(shares * np.log(shares)).sum()))
        if np.isinf(self.q):
            return float(1 / shares.max())
        return float((shares**self.q).sum() ** (1 / (1 - self.q)))


@dataclass(frozen=True, kw_only=True)
class KMeansInertia(EmbeddingMetric, SizedMetric):
    """Mean squared distance of embeddings to the nearest of k centres (Du & Black 2019); best of ten seeded starts."""

    name: ClassVar[str] = "kmeans-inertia"
    bounds: ClassVar[Bounds] = (0.0, math.inf)
    paper: ClassVar[str] = "Du & Black 2019; Tevet & Berant 2021, section 2"

    k: int = option(2, "Number of centres.")
    seed: int = option(0, "Seed of the ten starts.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect("k", self.k >= 1, "at least 1 cluster")

    def of_vectors(self, vectors: Array) -> float:
        """With as many centres as texts or more, every text is its own centre."""
        if self.k >= len(np.unique(vectors, axis=0)):
            return 0.0
        return min(self._inertia(vectors, start) for start in range(10))

    def _inertia(self, vectors: Array, start: int) -> float:
        from scipy.cluster.vq import kmeans2

        rng = np.random.default_rng([self.seed, start])
        centres, labels = kmeans2(vectors, self.k, minit="++", seed=rng, missing="warn")
        return float(((vectors - centres[labels]) ** 2).sum(axis=1).mean())


@dataclass(frozen=True, kw_only=True)
class Volume(EmbeddingMetric, SizedMetric):
    """Volume that a set's embeddings take up: the geometric mean of their standard deviations along the axes."""

    name: ClassVar[str] = "volume"
    bounds: ClassVar[Bounds] = (0.0, math.inf)
    paper: ClassVar[str] = "Lai et al. 2020; Tevet & Berant 2021, section 2"

    def of_vectors(self, vectors: Array) -> float:
        """0 when a set does not spread along some axis."""
        spread = vectors.std(axis=0)
        return float(np.exp(np.log(spread).mean())) if np.all(spread > 0) else 0.0


def check_encoder(model: str, metric: str) -> None:
    """Refuse to begin without an encoder and what it runs with."""
    from nlgauge.models.fetch import resolve_model
    from nlgauge.models.runtime import import_torch

    resolve_model(model)
    import_torch(metric)
