"""Pairs without generic utterances: the entropy filter of Csaky, Purgai & Recski (2019), as in paper 5, section 5.

An utterance is generic when many different utterances follow it (as a source) or come before it (as a target).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.dialogs import read_pairs
from nlgauge.data.tables import Items
from nlgauge.drawing import PALETTE, inline, shortened
from nlgauge.errors import DataError, MissingExtra, OptionError
from nlgauge.metrics.signature import Signature
from nlgauge.studies.base import Row, Study

Side = Literal["source", "target", "both"]
Clustering = Literal["identity", "kmeans", "mean-shift"]
Normal = Literal["none", "space", "lower"]
_COLUMNS = {"source": "context", "target": "text"}
_STEP = 0.25
_BANDWIDTH_SAMPLE = 500


@dataclass(frozen=True)
class EntropyFilter(Study):
    """The utterances (or clusters, named by their medoid) with the highest entropy, and which pairs are dropped.

    In a row, `pairs` counts the pairs with the utterance, `neighbours` the different utterances (or clusters) across
    from it, and `utterances` the different ones in the cluster. `items` are the pairs as they came in; `is_dropped` and
    both entropies have a value for each of them.
    """

    name: ClassVar[str] = "entropy-filter"
    index: ClassVar[str] = "utterance"
    columns: ClassVar[tuple[str, ...]] = ("side", "utterance", "utterances", "pairs", "neighbours", "entropy")
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"entropy": "entropy (bits)"}

    items: Items = field(repr=False, kw_only=True)
    is_dropped: Array = field(repr=False, kw_only=True)
    source_entropy: Array = field(repr=False, kw_only=True)
    target_entropy: Array = field(repr=False, kw_only=True)
    side: Side = field(kw_only=True)
    threshold: float = field(kw_only=True)

    @property
    def kept(self) -> Items:
        """The pairs that stay, as they came in."""
        return Items(self.items.frame.filter(pl.Series(~self.is_dropped)), self.items.explicit_ids)

    @property
    def dropped(self) -> Items:
        """The pairs that go, with both entropies."""
        entropies = [pl.Series(f"{side}_entropy", values) for side, values in self._entropies.items()]
        frame = self.items.frame.with_columns(entropies).filter(pl.Series(self.is_dropped))
        return Items(frame, self.items.explicit_ids)

    @property
    def _entropies(self) -> dict[str, Array]:
        return {"source": self.source_entropy, "target": self.target_entropy}

    def to_dict(self) -> dict[str, Any]:
        """For JSON: also how many pairs are kept and dropped."""
        dropped = int(self.is_dropped.sum())
        return {**super().to_dict(), "kept": len(self.items) - dropped, "dropped": dropped}

    def chart(self) -> Any:
        """How many pairs have an utterance of which entropy, with the threshold; the axis of counts is logarithmic."""
        import altair as alt

        panels = [self._panel(side) for side in _sides(self.side)]
        return alt.hconcat(*panels) if len(panels) > 1 else panels[0]

    def _panel(self, side: str) -> Any:
        import altair as alt

        bars = (
            alt.Chart(inline(self._histogram(side)), title=f"entropy of the {side}", width=360, height=260)
            .mark_bar(stroke="white")
            .encode(
                x=alt.X("low:Q", title="entropy (bits)"),
                x2="high:Q",
                y=alt.Y("pairs:Q", scale=alt.Scale(type="symlog")),
                y2=alt.datum(0),
                color=alt.Color(
                    "verdict:N", title="", scale=alt.Scale(domain=["kept", "dropped"], range=list(PALETTE[:2]))
                ),
                tooltip=["low:Q", "high:Q", "pairs:Q"],
            )
        )
        line = alt.Chart(inline([{"threshold": self.threshold}])).mark_rule(strokeDash=[4, 4]).encode(x="threshold:Q")
        return alt.layer(bars, line)

    def _histogram(self, side: str) -> list[Row]:
        """Bars that end exactly at the threshold, so that each is dropped or kept as a whole."""
        step = self.threshold / math.ceil(self.threshold / _STEP) if self.threshold > 0 else _STEP
        values = self._entropies[side]
        over = values > self.threshold
        bins = np.maximum(np.ceil(values / step).astype(np.int64) - 1, 0)
        places, counts = np.unique(np.stack([bins, over]), axis=1, return_counts=True)
        return [
            {
                "low": float(place * step), "high": float((place + 1) * step), "pairs": int(count),
                "verdict": "dropped" if is_over else "kept",
            }
            for (place, is_over), count in zip(places.T, counts, strict=True)
        ]  # fmt: skip


@dataclass(frozen=True)
class _Clusters:
    """One side of all pairs: the cluster of each pair, and of each cluster its name and number of utterances."""

    of_pairs: Array
    names: list[str]
    sizes: Array
    entropies: Array = field(default_factory=lambda: np.empty(0))
    neighbours: Array = field(default_factory=lambda: np.empty(0, np.int64))


def entropy_filter(
    pairs: Items | str | Path,
    *,
    side: Side = "target",
    threshold: float = 1.0,
    cluster: Clustering = "identity",
    clusters: int = 0,
    bandwidth: float = 0.0,
    model: str = "minilm",
    normalise: Normal = "lower",
    top: int = 20,
    seed: int = 12345,
) -> EntropyFilter:
    """Drop pairs whose source (`context`), target (`text`) or either has an entropy above `threshold`.

    The entropy of a source is that of the targets that follow it in the pairs, and the entropy of a target that of the
    sources before it (Csaky et al. 2019, section 3), in bits: the released code takes logarithms to base 2. At the
    threshold of 1 that paper 5 takes (section 5), an utterance with two neighbours that are equally frequent stays, and
    one with three goes. `both` drops what either side drops.

    With `cluster="identity"` an utterance is itself, after `normalise`: `space` takes every run of white space for one
    blank, as the released code does, `lower` also ignores case. Otherwise the different utterances
    of each side are clustered by their sentence embeddings from `model`, scaled to length 1: `kmeans` makes `clusters`
    clusters (0: the square root of the number of utterances), `mean-shift` goes by `bandwidth` (0: estimated) and is
    slow with many utterances. Entropies of clusters are higher, and need a higher threshold. The released
    code also keeps clusters that are small (fewer than 2 pairs) or long (a mean of 15 words or more, a medoid of 50 or
    more) whatever their entropy; this one does not.

    The order of pairs does not matter.
    """
    _check(side, threshold, cluster, clusters, bandwidth, normalise, top)
    items = pairs if isinstance(pairs, Items) else read_pairs(pairs)
    texts = {name: _normal(items, column, normalise) for name, column in _COLUMNS.items()}
    options = {"side": side, "threshold": f"{threshold:g}", "log": "2", "norm": normalise, "cluster": cluster}
    if cluster == "identity":
        found = {name: _identity(values) for name, values in texts.items()}
    else:
        found = {name: _clustered(values, cluster, clusters, bandwidth, model, seed) for name, values in texts.items()}
        options |= _cluster_options(cluster, clusters, bandwidth, model, seed)
    found = {name: _with_entropies(found[name], found[_across(name)]) for name in found}
    of_pairs = {name: one.entropies[one.of_pairs] for name, one in found.items()}
    is_dropped = np.any([of_pairs[name] > threshold for name in _sides(side)], axis=0)
    return EntropyFilter(
        [row for name in _sides(side) for row in _top(name, found[name], top, is_identity=cluster == "identity")],
        Signature("entropy-filter", options).with_facts(_facts(found, len(items))),
        notes=_notes(found, of_pairs, is_dropped, side, threshold),
        items=items,
        is_dropped=is_dropped,
        source_entropy=of_pairs["source"],
        target_entropy=of_pairs["target"],
        side=side,
        threshold=threshold,
    )


def neighbour_entropies(of: Array, across: Array) -> tuple[Array, Array]:
    """For every number in `of` (from 0), the entropy in bits of what stands across from it, and how many differ there.

    Terms are added from rare to frequent, so that neither the order of pairs nor the numbering changes a sum.
    """
    width = int(across.max(initial=0)) + 1
    keys, counts = np.unique(of.astype(np.int64) * width + across, return_counts=True)
    which = keys // width
    totals = np.bincount(of)
    shares = counts / totals[which]
    order = np.lexsort((counts, which))
    terms = (-shares * np.log2(shares))[order]
    return np.bincount(which[order], weights=terms, minlength=len(totals)) + 0.0, np.bincount(which)


def _check(
    side: str, threshold: float, cluster: str, clusters: int, bandwidth: float, normalise: str, top: int
) -> None:
    for option, value, known in (
        ("side", side, Side),
        ("cluster", cluster, Clustering),
        ("normalise", normalise, Normal),
    ):
        if value not in get_args(known):
            raise OptionError(f"{option} '{value}'; expected one of {', '.join(get_args(known))}")
    if not (math.isfinite(threshold) and threshold >= 0):
        raise OptionError(f"a threshold of {threshold}; expected a number of bits, 0 or more")
    if clusters < 0 or top < 0 or not (math.isfinite(bandwidth) and bandwidth >= 0):
        raise OptionError(f"clusters {clusters}, bandwidth {bandwidth:g}, top {top}; expected 0 or more")
    if clusters and cluster != "kmeans":
        raise OptionError(f"a number of clusters goes with kmeans, not with {cluster}")
    if bandwidth and cluster != "mean-shift":
        raise OptionError(f"a bandwidth goes with mean-shift, not with {cluster}")


def _sides(side: str) -> tuple[str, ...]:
    return ("source", "target") if side == "both" else (side,)


def _across(side: str) -> str:
    return "target" if side == "source" else "source"


def _normal(items: Items, column: str, normalise: str) -> pl.Series:
    if column not in items.frame.columns:
        raise DataError(f"no such column; found {', '.join(items.frame.columns)}; expected pairs", column=column)
    texts = items.frame[column]
    if texts.null_count():
        row = int(texts.is_null().arg_true()[0])
        raise DataError(f"null in the pair '{items.frame['id'][row]}'; expected text", column=column)
    if normalise == "none":
        return texts
    texts = texts.str.replace_all(r"\s+", " ").str.strip_chars()
    return texts.str.to_lowercase() if normalise == "lower" else texts


def _identity(texts: pl.Series) -> _Clusters:
    names = texts.unique().sort()
    return _Clusters(_codes(texts), names.to_list(), np.ones(len(names), np.int64))


def _codes(texts: pl.Series) -> Array:
    """The place of each text among the different ones in their order."""
    return texts.rank("dense").to_numpy().astype(np.int64) - 1


def _clustered(texts: pl.Series, cluster: str, clusters: int, bandwidth: float, model: str, seed: int) -> _Clusters:
    from nlgauge.models.embedder import load_embedder

    different = texts.unique().sort().to_list()
    vectors = load_embedder(model).encode(different)
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    if cluster == "kmeans":
        labels, centres = _kmeans(units, clusters or max(1, round(math.sqrt(len(units)))), seed)
    else:
        labels, centres = _mean_shift(units, bandwidth, seed)
    used, labels = np.unique(labels, return_inverse=True)
    gaps = np.linalg.norm(units - centres[used][labels], axis=1)
    order = np.lexsort((gaps, labels))
    medoids = order[np.searchsorted(labels[order], np.arange(len(used)))]
    return _Clusters(labels[_codes(texts)], [different[i] for i in medoids], np.bincount(labels))


def _kmeans(points: Array, count: int, seed: int) -> tuple[Array, Array]:
    if count > len(points):
        raise OptionError(f"{count} clusters of {len(points)} different utterances; expected at most as many")
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
        raise OptionError(f"{len(points)} different utterances are too few to estimate a bandwidth; name one")
    fitted = MeanShift(bandwidth=width).fit(points)
    return fitted.labels_, fitted.cluster_centers_


def _cluster_options(cluster: str, clusters: int, bandwidth: float, model: str, seed: int) -> dict[str, str]:
    from nlgauge.models.embedder import load_embedder

    if cluster == "kmeans":
        size = {"clusters": str(clusters or "sqrt")}
    else:
        size = {"bandwidth": f"{bandwidth:g}" if bandwidth else "auto"}
    return {**size, "model": load_embedder(model).identity, "seed": str(seed)}


def _facts(found: Mapping[str, _Clusters], pairs: int) -> dict[str, str]:
    return {"n": str(pairs), **{f"{name}s": str(len(one.names)) for name, one in found.items()}}


def _with_entropies(one: _Clusters, other: _Clusters) -> _Clusters:
    entropies, neighbours = neighbour_entropies(one.of_pairs, other.of_pairs)
    return _Clusters(one.of_pairs, one.names, one.sizes, entropies, neighbours)


def _top(side: str, found: _Clusters, top: int, *, is_identity: bool) -> list[Row]:
    """The highest entropies; of equal ones, the more frequent and then the first in the order of names."""
    pairs = np.bincount(found.of_pairs)
    order = np.lexsort((-pairs, -found.entropies))[:top]
    return [
        {
            "side": side, "utterance": shortened(found.names[i]),
            "utterances": None if is_identity else int(found.sizes[i]), "pairs": int(pairs[i]),
            "neighbours": int(found.neighbours[i]), "entropy": float(found.entropies[i]),
        }
        for i in order
    ]  # fmt: skip


def _notes(
    found: Mapping[str, _Clusters], of_pairs: Mapping[str, Array], is_dropped: Array, side: str, threshold: float
) -> tuple[str, ...]:
    count, total = int(is_dropped.sum()), len(is_dropped)
    notes = [f"dropped {count:,} of {total:,} pairs ({count / total:.2%}), kept {total - count:,}"]
    for name in _sides(side):
        over = found[name].entropies > threshold
        notes.append(
            f"{int(over.sum()):,} of {len(over):,} different {name}s have an entropy above {threshold:g}; "
            f"{int((of_pairs[name] > threshold).sum()):,} pairs have one of them"
        )
    if count == total:
        notes.append("no pair is left; raise the threshold")
    return tuple(notes)
