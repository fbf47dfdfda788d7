"""MAUVE: how close a system's texts are, as a whole, to reference texts."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.engine.cache import file_with_hash
from nlgauge.errors import DataError, MissingExtra
from nlgauge.metrics.base import Metric, Shares, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import ENCODER, LONG
from nlgauge.metrics.score import Direction, Level, Score
from nlgauge.stats.inference import Inference
from nlgauge.text.sorted_texts import Candidates, SortedTexts, draw

Buckets = int | Literal["auto"]
_FEW_TEXTS_PER_BUCKET = 5
_BLOCKS = 64
_TEXTS_PER_SHARE = 1024


@dataclass(frozen=True)
class MauveResult:
    """The score, the divergence curve that it is the area under (one row per point), and the two histograms."""

    score: float
    curve: Array
    p_histogram: Array
    q_histogram: Array


def mauve_of_histograms(p: Array, q: Array, *, scaling: float = 5.0, grid: int = 25) -> MauveResult:
    """MAUVE of two distributions over the same buckets (Pillutla et al. 2021, section 2).

    Points of the curve are (exp(-c KL(Q|R)), exp(-c KL(P|R))) for mixtures R = w P + (1 - w) Q at `grid` weights w,
    with c = `scaling`, between the extreme points (1, 0) and (0, 1). The area is taken along the curve, so that equal
    distributions score 1; the authors' package sorts the points and can put tied ones in the wrong order.
    """
    from scipy.special import rel_entr

    p, q = _distribution(p), _distribution(q)
    if p.shape != q.shape:
        raise DataError(f"histograms of {len(p)} and {len(q)} buckets; expected the same buckets")
    weights = np.linspace(1e-6, 1 - 1e-6, grid)[:, None]
    mixtures = weights * p + (1 - weights) * q
    divergences = np.stack([rel_entr(q, mixtures).sum(axis=1), rel_entr(p, mixtures).sum(axis=1)], axis=1)
    curve = np.concatenate([[[1.0, 0.0]], np.exp(-scaling * divergences), [[0.0, 1.0]]])
    return MauveResult(float(np.trapezoid(curve[::-1, 1], curve[::-1, 0])), curve, p, q)


def mauve_of_features(
    p: Array,
    q: Array,
    *,
    buckets: Buckets = "auto",
    scaling: float = 5.0,
    grid: int = 25,
    seed: int = 25,
    explained: float = 0.9,
    redo: int = 5,
    iterations: int = 500,
) -> MauveResult:
    """MAUVE of two samples of features, one row per text (Pillutla et al. 2021, section 2).

    Rows are scaled to length 1, reduced to the principal components that explain a share `explained` of the variance,
    and clustered together by k-means (`iterations` steps, best of `redo` starts) into `buckets` buckets (`auto`: a
    tenth of the smaller sample, at least 2). Numbers equal those of the authors' package for the same rows in the same
    order; another order of rows starts k-means elsewhere and gives a slightly different number.
    """
    p, q = _features(p, "p"), _features(q, "q")
    if p.shape[1] != q.shape[1]:
        raise DataError(f"features of {p.shape[1]} and {q.shape[1]} dimensions; expected those of one model")
    count = max(2, round(min(len(p), len(q)) / 10)) if buckets == "auto" else buckets
    if not 1 <= count <= len(p) + len(q):
        raise DataError(
            f"{len(p)} and {len(q)} texts in {count} clusters; expected at least as many texts as clusters: add texts "
            "or lower the number of buckets"
        )
    if min(len(p), len(q)) < _FEW_TEXTS_PER_BUCKET * count:
        warnings.warn(
            f"MAUVE of {len(p)} and {len(q)} texts in {count} clusters says little; expected ten texts per cluster or "
            "more on either side, and some thousand texts",
            stacklevel=2,
        )
    labels = _clusters(np.concatenate([q, p]), count, explained, redo, iterations, seed)
    in_q, in_p = (np.bincount(part, minlength=count) for part in (labels[: len(q)], labels[len(q) :]))
    return mauve_of_histograms(in_p, in_q, scaling=scaling, grid=grid)


def _clusters(rows: Array, count: int, explained: float, redo: int, iterations: int, seed: int) -> Array:
    """The cluster of each row."""
    try:
        import faiss
        from sklearn.decomposition import PCA
        from sklearn.preprocessing import normalize
    except ImportError as error:
        raise MissingExtra.needs("mauve", "models") from error
    units = normalize(rows)
    if not np.ptp(units, axis=0).any():
        return np.zeros(len(units), dtype=np.int64)
    components = PCA().fit(units)
    kept = int(np.argmax(np.cumsum(components.explained_variance_ratio_) >= explained)) + 1
    points = np.ascontiguousarray(components.transform(units)[:, :kept], dtype=np.float32)
    clustering: Any = faiss.Kmeans(
        kept, count, niter=iterations, nredo=redo, seed=seed + 2, min_points_per_centroid=1, verbose=False
    )
    clustering.train(points)
    labels: Array = clustering.index.search(points, 1)[1][:, 0]
    return labels


def _distribution(counts: Array) -> Array:
    counts = np.asarray(counts, dtype=np.float64)
    if counts.ndim != 1 or not np.isfinite(counts).all() or (counts < 0).any() or not counts.sum() > 0:
        raise DataError("a histogram is a row of numbers that are not negative and not all 0; found something else")
    shares: Array = counts / counts.sum()
    return shares


def _features(rows: Array, name: str) -> Array:
    rows = np.asarray(rows)
    if rows.ndim != 2 or not rows.size:
        raise DataError(f"features {name} have shape {rows.shape}; expected one row per text, and at least one")
    if not np.isfinite(rows).all():
        raise DataError(f"features {name} hold values that are not finite numbers; expected numbers")
    return rows


@dataclass(frozen=True)
class FeatureStats:
    """Features of texts, with a hash of each text that puts them in a fixed order."""

    keys: tuple[Array, ...]
    features: tuple[Array, ...]

    def __add__(self, other: FeatureStats) -> FeatureStats:
        return FeatureStats(self.keys + other.keys, self.features + other.features)

    @classmethod
    def of(cls, texts: Sequence[str], features: Array) -> FeatureStats:
        """One batch."""
        keys = b"".join(hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts)
        return cls((np.frombuffer(keys, np.uint64).reshape(-1, 2),), (features,))

    def __len__(self) -> int:
        return sum(map(len, self.keys))

    def in_order(self) -> Array:
        """All features, sorted by the hashes of their texts, so that no order of reading matters."""
        return np.concatenate(self.features)[np.lexsort(np.concatenate(self.keys).T)]


@dataclass(frozen=True)
class Drawn:
    """The system's texts (features, where none had to be drawn), the reference texts, and how many texts there were."""

    system: FeatureStats | pl.Series
    references: pl.Series
    of: int

    def pieces(self) -> tuple[pl.Series, ...]:
        """The texts that have no features yet, in pieces."""
        sides = [self.system, self.references] if isinstance(self.system, pl.Series) else [self.references]
        return tuple(side[i : i + _TEXTS_PER_SHARE] for side in sides for i in range(0, len(side), _TEXTS_PER_SHARE))

    def with_features(self, rows: Array) -> Features:
        """Features on both sides, given those of the texts that had none."""
        if isinstance(self.system, FeatureStats):
            system, cut = self.system, 0
        else:
            cut = len(self.system)
            system = FeatureStats.of(self.system.to_list(), rows[:cut])
        references = FeatureStats.of(self.references.to_list(), rows[cut:])
        return Features(system.in_order(), references.in_order(), self.of)


@dataclass(frozen=True)
class Features:
    """Features of a system and of references, and how many texts the system had."""

    system: Array
    references: Array
    of: int


@dataclass(frozen=True, kw_only=True)
class Mauve(Metric):
    """MAUVE: how close all texts of a system are to reference texts, from 0 to 1, by the area under a divergence curve.

    `against` is a file of reference texts, such as people's: any file that NLGauge reads, its responses pooled. Texts
    become sentence embeddings of `model`, which k-means deals into `buckets`. The original takes the last hidden state
    of GPT-2 large instead: values are comparable only between equal features, options and numbers of texts. Some
    thousand texts on either side are wanted; a text beyond the model's window is cut there. A corpus has one value, and
    no interval.

    `sample` bounds the number of embeddings on either side: those texts are taken whose hashes, which `seed` goes into,
    are the smallest. Copies of a text are numbered and hashed one by one, so that a text which makes up a tenth of the
    corpus makes up about a tenth of the sample, and no order matters. The hash knows nothing of systems: texts that
    system and references share are drawn on both sides. Another number of texts gives another value; compare like with
    like.
    """

    name: ClassVar[str] = "mauve"
    level: ClassVar[Level] = "corpus"
    aspect: ClassVar[str] = "quality"
    direction: ClassVar[Direction] = Direction.BETTER
    paper: ClassVar[str] = "Pillutla et al. 2021, section 2"
    costly: ClassVar[bool] = True
    example: ClassVar[str] = "mauve:against=human.jsonl"

    against: str = option("", "File of reference texts.")
    model: str = option("minilm", ENCODER)
    long: Literal["cut"] = option("cut", LONG)
    buckets: str = option("auto", "Number of clusters; auto is a tenth of the smaller side.")
    scaling: float = option(5.0, "Scaling factor of the divergences.")
    grid: int = option(25, "Number of points of the divergence curve.")
    seed: int = option(25, "Seed of the clustering and of the sample.")
    redo: int = option(5, "Number of starts of the clustering.")
    iterations: int = option(500, "Most iterations per start.")
    sample: int | None = option(None, "Largest number of texts on either side, drawn by a hash; none for all texts.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.against:
            object.__setattr__(self, "against", file_with_hash(self.against, "references"))
        is_number = self.buckets.isdigit() and int(self.buckets) > 1
        self.expect("buckets", self.buckets == "auto" or is_number, "auto or a number of clusters, 2 or more")
        self.expect("scaling", self.scaling > 0, "a positive number")
        for name, value in (("grid", self.grid), ("redo", self.redo), ("iterations", self.iterations)):
            self.expect(name, value >= 1, "1 or more")
        sampled = self.sample is None or self.sample >= 1
        self.expect("sample", sampled, "a number of texts, or none for all of them")

    def savings(self) -> tuple[str, ...]:
        """A sample."""
        return () if self.sample is not None else ("sample=N",)

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with its hash, the references with the hash of their file, the sample if any."""
        from nlgauge.models.fetch import model_identity

        shown = {**super().relevant_options(), "model": model_identity(self.model)}
        return {key: value for key, value in shown.items() if key != "sample" or value is not None}

    def check(self, batch: Batch) -> None:
        """Refuse to begin without references."""
        super().check(batch)
        refuse(
            "against",
            not self.against,
            "mauve compares with reference texts, and none were named; name a file of them, as in "
            "mauve:against=human.jsonl",
        )

    def collect(self, batch: Batch) -> FeatureStats | SortedTexts:
        """Features of all texts, or the texts that a sample will be drawn from."""
        if self.sample is not None:
            return SortedTexts.of(batch.sets.texts, _BLOCKS)
        return FeatureStats.of(batch.sets.texts.to_list(), batch.embeddings(self.model))

    def shares(self, stats: Any) -> Shares | None:
        """Drawing from blocks of texts and reading the references; then embedding what was drawn."""
        if isinstance(stats, SortedTexts):
            return Shares(partial(self._draw, stats), stats.blocks + 1, partial(self._drawn, stats))
        if isinstance(stats, FeatureStats):
            return Shares(partial(self._draw, None), 1, lambda done: Drawn(stats, done[0], len(stats)))
        if isinstance(stats, Drawn):
            pieces = stats.pieces()
            embed = partial(_embedded, self.model, pieces)
            return Shares(embed, len(pieces), lambda done: stats.with_features(np.concatenate(done)))
        return None

    def finish(self, stats: Any, interval: Inference | None = None) -> Score:  # noqa: ARG002 - there is none
        """The area under the curve; references are P and the system is Q."""
        features: Features = self.completed(stats)
        result = mauve_of_features(
            features.references,
            features.system,
            buckets="auto" if self.buckets == "auto" else int(self.buckets),
            scaling=self.scaling,
            grid=self.grid,
            seed=self.seed,
            redo=self.redo,
            iterations=self.iterations,
        )
        facts = {} if self.sample is None else {"of": str(features.of)}
        return self.make_score(result.score, len(features.system), facts)

    def _draw(self, stats: SortedTexts | None, number: int) -> Candidates | pl.Series:
        """What a sample could have from one block; after the last block, the reference texts."""
        if stats is not None and number < stats.blocks:
            return stats.candidates(number, self.sample or len(stats), self.seed)
        return self._reference_texts()

    def _drawn(self, texts: SortedTexts, done: Sequence[Any]) -> Drawn:
        *blocks, references = done
        return Drawn(pl.Series(draw(blocks, self.sample or len(texts)), dtype=pl.String), references, len(texts))

    def _reference_texts(self) -> pl.Series:
        """The references; the file is the one that the signature names, or an error."""
        from nlgauge.data.reading import Source

        source = Source(path=file_with_hash(self.against, "references").rpartition("@")[0], extras=())
        if self.sample is None:
            return source.read().texts
        tables = (source.parse(chunk) for chunk in source.chunks())
        kept = sum((SortedTexts.of(table.texts) for table in tables if table is not None), SortedTexts(1, ()))
        if not len(kept):
            raise DataError("the file of references has no records; expected texts", file=source.name)
        return pl.Series(kept.sample(self.sample, self.seed), dtype=pl.String)


def _embedded(model: str, pieces: tuple[pl.Series, ...], number: int) -> Array:
    return Batch.embed(model, pieces[number].to_list())
