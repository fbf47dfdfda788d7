"""Pairs without generic utterances: the entropy filter of Csaky, Purgai & Recski (2019), as in paper 5, section 5.

An utterance is generic when many different utterances follow it (as a source) or come before it (as a target).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.dialogs import read_pairs
from nlgauge.data.tables import Items
from nlgauge.drawing import PALETTE, inline, shortened
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.signature import Signature
from nlgauge.studies.base import Row, Study
from nlgauge.studies.utterance_clusters import Clustering, Clusters, Method

Side = Literal["source", "target", "both"]
Normal = Literal["none", "space", "lower"]
_COLUMNS = {"source": "context", "target": "text"}
_STEP = 0.25


@dataclass(frozen=True)
class EntropyFilter(Study):
    """The utterances (or clusters, named by their medoid) with the highest entropy, and which pairs are dropped.

    In a row, `pairs` counts the pairs with the utterance, `neighbours` the different utterances (or clusters) across
    from it, and `utterances` the different ones in the cluster. `items` are the pairs as they came in; both entropies
    have a value for each of them, and so has `drops`, which says what each side that counts drops.
    """

    name: ClassVar[str] = "entropy-filter"
    index: ClassVar[str] = "utterance"
    columns: ClassVar[tuple[str, ...]] = ("side", "utterance", "utterances", "pairs", "neighbours", "entropy")
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"entropy": "entropy (bits)"}

    items: Items = field(repr=False, kw_only=True)
    source_entropy: Array = field(repr=False, kw_only=True)
    target_entropy: Array = field(repr=False, kw_only=True)
    drops: Mapping[str, Array] = field(repr=False, kw_only=True)
    side: Side = field(kw_only=True)
    threshold: float = field(kw_only=True)

    @property
    def is_dropped(self) -> Array:
        """Whether each pair goes."""
        dropped: Array = np.any(list(self.drops.values()), axis=0)
        return dropped

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
                y=alt.Y("top:Q", title="pairs", scale=alt.Scale(type="symlog")),
                y2="base:Q",
                color=alt.Color(
                    "verdict:N", title="", scale=alt.Scale(domain=["kept", "dropped"], range=list(PALETTE[:2]))
                ),
                tooltip=["low:Q", "high:Q", "pairs:Q"],
            )
        )
        line = alt.Chart(inline([{"threshold": self.threshold}])).mark_rule(strokeDash=[4, 4]).encode(x="threshold:Q")
        return alt.layer(bars, line)

    def _histogram(self, side: str) -> list[Row]:
        """Bars that end exactly at the threshold; above it, dropped pairs stand below those of clusters that stay."""
        step = self.threshold / math.ceil(self.threshold / _STEP) if self.threshold > 0 else _STEP
        values, drops = self._entropies[side], self.drops[side]
        bins = np.maximum(np.ceil(values / step).astype(np.int64) - 1, 0)
        rows: list[Row] = []
        for place in np.unique(bins):
            base = 0
            for verdict, is_here in (("dropped", drops), ("kept", ~drops)):
                count = int((is_here & (bins == place)).sum())
                if count:
                    rows.append(
                        {
                            "low": float(place * step), "high": float((place + 1) * step), "pairs": count,
                            "base": base, "top": base + count, "verdict": verdict,
                        }
                    )  # fmt: skip
                base += count
        return rows


@dataclass(frozen=True, kw_only=True)
class Spared:
    """Clusters that stay whatever their entropy, 0 sparing none: of fewer pairs, or of so many words or more.

    Words are those between white space, their mean is over the pairs of a cluster. The released code has 2 pairs (which
    spares nothing that exceeds a threshold), a mean of 15 words and a medoid of 50.
    """

    min_pairs: int = 0
    max_mean_words: float = 0.0
    max_medoid_words: int = 0

    def __post_init__(self) -> None:
        values = (self.min_pairs, self.max_mean_words, self.max_medoid_words)
        if not all(math.isfinite(value) and value >= 0 for value in values):
            raise OptionError(
                f"min pairs {self.min_pairs}, max mean words {self.max_mean_words:g}, max medoid words "
                f"{self.max_medoid_words}; expected 0 or more"
            )

    def options(self) -> dict[str, str]:
        """For a signature: those that are set."""
        values = {
            "min-pairs": self.min_pairs,
            "max-mean-words": self.max_mean_words,
            "max-medoid-words": self.max_medoid_words,
        }
        return {name: f"{value:g}" for name, value in values.items() if value}

    def of(self, clusters: Clusters, texts: pl.Series) -> Array:
        """Which clusters are spared."""
        pairs = np.bincount(clusters.of_pairs)
        means = np.bincount(clusters.of_pairs, weights=_words(texts)) / pairs
        medoids = _words(pl.Series(clusters.medoids, dtype=pl.String))
        spared: Array = pairs < self.min_pairs
        if self.max_mean_words:
            spared |= means >= self.max_mean_words
        if self.max_medoid_words:
            spared |= medoids >= self.max_medoid_words
        return spared


@dataclass(frozen=True)
class _Side:
    """One side of all pairs: clusters, and of each its entropy, its different neighbours and whether it goes."""

    clusters: Clusters
    entropies: Array
    neighbours: Array
    is_over: Array
    goes: Array

    @property
    def of_pairs(self) -> Array:
        return self.clusters.of_pairs


def entropy_filter(
    pairs: Items | str | Path,
    *,
    side: Side = "target",
    threshold: float = 1.0,
    cluster: Method = "identity",
    clusters: int = 0,
    bandwidth: float = 0.0,
    embedding: str = "minilm",
    min_pairs: int = 0,
    max_mean_words: float = 0.0,
    max_medoid_words: int = 0,
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
    blank, as the released code does, `lower` also ignores case. Otherwise the different utterances of each side are
    clustered by `kmeans` or `mean-shift` (slow with many utterances) on vectors of `embedding`, a sentence encoder or
    word vectors; `Clustering` says how. Entropies of clusters are higher, and need a higher threshold. The released
    code clusters every occurrence of an utterance by default.

    Clusters of fewer than `min_pairs` pairs, with a mean of `max_mean_words` words or more, or with a medoid of
    `max_medoid_words` or more stay whatever their entropy; 0, as by default, spares none.

    The order of pairs does not matter.
    """
    _check(side, threshold, normalise, top)
    way = Clustering(method=cluster, clusters=clusters, bandwidth=bandwidth, embedding=embedding, seed=seed)
    spared = Spared(min_pairs=min_pairs, max_mean_words=max_mean_words, max_medoid_words=max_medoid_words)
    if cluster == "identity" and spared != Spared():
        raise OptionError(f"{min(spared.options())} goes with clusters, not with identity; name kmeans or mean-shift")
    items = pairs if isinstance(pairs, Items) else read_pairs(pairs)
    texts = {name: _normal(items, column, normalise) for name, column in _COLUMNS.items()}
    options = {"side": side, "threshold": f"{threshold:g}", "log": "2", "norm": normalise}
    options |= {**way.options(), **spared.options()}
    found = {name: way.of(values) for name, values in texts.items()}
    sides = {
        name: _side(found[name], found[_across(name)], threshold, spared.of(found[name], texts[name])) for name in found
    }
    study = EntropyFilter(
        [row for name in _sides(side) for row in _top(name, sides[name], top, is_identity=cluster == "identity")],
        Signature("entropy-filter", options).with_facts(_facts(found, len(items))),
        items=items,
        source_entropy=sides["source"].entropies[sides["source"].of_pairs],
        target_entropy=sides["target"].entropies[sides["target"].of_pairs],
        drops={name: sides[name].goes[sides[name].of_pairs] for name in _sides(side)},
        side=side,
        threshold=threshold,
    )
    return replace(study, notes=_notes(sides, study, way))


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


def _check(side: str, threshold: float, normalise: str, top: int) -> None:
    for option, value, known in (("side", side, Side), ("normalise", normalise, Normal)):
        if value not in get_args(known):
            raise OptionError(f"{option} '{value}'; expected one of {', '.join(get_args(known))}")
    if not (math.isfinite(threshold) and threshold >= 0):
        raise OptionError(f"a threshold of {threshold}; expected a number of bits, 0 or more")
    if top < 0:
        raise OptionError(f"top {top}; expected 0 or more")


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


def _words(texts: pl.Series) -> Array:
    """Words of each text, between white space."""
    return texts.str.count_matches(r"\S+").to_numpy().astype(np.float64)


def _facts(found: Mapping[str, Clusters], pairs: int) -> dict[str, str]:
    return {"n": str(pairs), **{f"{name}s": str(len(one.medoids)) for name, one in found.items()}}


def _side(one: Clusters, other: Clusters, threshold: float, spared: Array) -> _Side:
    entropies, neighbours = neighbour_entropies(one.of_pairs, other.of_pairs)
    is_over = entropies > threshold
    return _Side(one, entropies, neighbours, is_over, is_over & ~spared)


def _top(name: str, side: _Side, top: int, *, is_identity: bool) -> list[Row]:
    """The highest entropies; of equal ones, the more frequent and then the first in the order of names."""
    clusters, pairs = side.clusters, np.bincount(side.of_pairs)
    names = pl.Series(clusters.medoids, dtype=pl.String).rank("ordinal").to_numpy()
    order = np.lexsort((names, -pairs, -side.entropies))[:top]
    return [
        {
            "side": name, "utterance": shortened(clusters.medoids[i]),
            "utterances": None if is_identity else int(clusters.sizes[i]), "pairs": int(pairs[i]),
            "neighbours": int(side.neighbours[i]), "entropy": float(side.entropies[i]),
        }
        for i in order
    ]  # fmt: skip


def _notes(sides: Mapping[str, _Side], study: EntropyFilter, way: Clustering) -> tuple[str, ...]:
    count, total = int(study.is_dropped.sum()), len(study.items)
    notes = [f"dropped {count:,} of {total:,} pairs ({count / total:.2%}), kept {total - count:,}"]
    for name in study.drops:
        one, noun = sides[name], f"different {name}s" if way.method == "identity" else f"clusters of {name}s"
        notes.append(
            f"{int(one.is_over.sum()):,} of {len(one.is_over):,} {noun} have an entropy above "
            f"{study.threshold:g}; {int(one.is_over[one.of_pairs].sum()):,} pairs have one of them"
        )
        stays = one.is_over & ~one.goes
        if stays.any():
            notes.append(
                f"{int(stays.sum()):,} of these clusters stay for their size or length, with "
                f"{int(stays[one.of_pairs].sum()):,} pairs"
            )
    for name, one in sides.items():
        if one.clusters.unknown:
            notes.append(
                f"{one.clusters.unknown:,} different {name}s have no word with a vector in {way.embedding}; each is a "
                "cluster of its own"
            )
    if count == total:
        notes.append("no pair is left; raise the threshold")
    return tuple(notes)
