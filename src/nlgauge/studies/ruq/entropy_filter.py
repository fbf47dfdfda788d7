"""Pairs without generic utterances: the entropy filter of Csaky, Purgai & Recski (2019), as in paper 5, section 5.

An utterance is generic when many different utterances follow it (as a source) or come before it (as a target).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import Options, check_that, option
from nlgauge.data.columns import Reading
from nlgauge.data.dialogs import read_pairs
from nlgauge.data.frames import frame_table
from nlgauge.data.roles import no_such_column
from nlgauge.data.tables import Items
from nlgauge.drawing import PALETTE, alt, inline, shortened
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.models.encoders.word_vectors import is_word_vectors
from nlgauge.studies.base import Column, Result, Row, Study, StudyData
from nlgauge.studies.ruq.utterance_clusters import SMOOTHING, Clustering, Clusters

Side = Literal["source", "target", "both"]
Normal = Literal["none", "space", "lower"]
_COLUMNS = {"source": "context", "target": "text"}
_ACROSS = {"source": "target", "target": "source"}
_STEP = 0.25


@dataclass(frozen=True, kw_only=True)
class Spared(Options):
    """Clusters that stay whatever their entropy: those of few pairs, or of many words.

    Words are those between white space, their mean is over the pairs of a cluster. The released code has 2 pairs (which
    spares nothing that exceeds a threshold), a mean of 15 words and a medoid of 50.
    """

    min_pairs: int = option(0, "Keep clusters of fewer pairs, whatever their entropy.", metavar="N")
    max_mean_words: float = option(0.0, "Keep clusters with a mean of so many words or more; 0: none.", metavar="N")
    max_medoid_words: int = option(0, "Keep clusters with a medoid of so many words or more; 0: none.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _SPARED:
            value = getattr(self, name)
            check_that(math.isfinite(value) and value >= 0, name, value, "0 or more")

    def spared(self, clusters: Clusters, texts: pl.Series) -> Array:
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


_SPARED = ("min_pairs", "max_mean_words", "max_medoid_words")


@dataclass(frozen=True)
class _Side:
    """One side of all pairs: clusters, and of each its entropy, its different neighbours and whether it is dropped."""

    clusters: Clusters
    entropies: Array
    neighbours: Array
    is_over: Array
    goes: Array

    @property
    def of_pairs(self) -> Array:
        return self.clusters.of_pairs


@dataclass(frozen=True)
class Filtered:
    """The pairs as they came in, the entropies of both sides, and what each side that counts drops: one value each."""

    items: Items
    entropies: Mapping[str, Array]
    drops: Mapping[str, Array]

    @property
    def is_dropped(self) -> Array:
        """Whether each pair is dropped."""
        dropped: Array = np.any(list(self.drops.values()), axis=0)
        return dropped

    @property
    def kept(self) -> Items:
        """The pairs that stay, as they came in."""
        return Items(self.items.frame.filter(pl.Series(~self.is_dropped)), self.items.explicit_ids)

    @property
    def dropped(self) -> Items:
        """The pairs that are dropped, with both entropies."""
        entropies = [pl.Series(f"{side}_entropy", values) for side, values in self.entropies.items()]
        frame = self.items.frame.with_columns(entropies).filter(pl.Series(self.is_dropped))
        return Items(frame, self.items.explicit_ids)


@dataclass(frozen=True, kw_only=True)
class EntropyFilter(Clustering, Spared, Study):
    """Drop pairs with generic utterances: those that many different utterances follow or precede (Csaky et al. 2019).

    The entropy of a source (`context`) is that of the targets that follow it in the pairs, and the entropy of a target
    (`text`) that of the sources before it, in bits: the released code takes logarithms to base 2. Paper 5 drops what
    exceeds 1 bit, with utterances as they are: an utterance with two equally frequent neighbours stays, one with three
    is dropped. `both` drops what either side drops. Clusters have higher entropies and need a higher threshold. The
    order of pairs does not matter.

    Rows are the utterances (or clusters, named by their medoid) with the highest entropy: `pairs` counts the pairs with
    the utterance, `neighbours` the different utterances (or clusters) across from it, and `utterances` the different
    ones in the cluster.
    """

    name: ClassVar[str] = "entropy-filter"
    takes: ClassVar[Literal["files", "file", "none"]] = "file"
    files: ClassVar[str] = (
        "Dialogs (dailydialog, parlai, chat, json), or a table with the columns context and text; "
        "the input format is found from name and content."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge filter entropy dialogues_train.txt --side both --kept kept.jsonl --dropped dropped.jsonl",
        "nlgauge filter entropy pairs.jsonl --cluster kmeans --clusters 500 --threshold 4 --chart entropy.html",
        "nlgauge filter entropy pairs.jsonl --cluster mean-shift --embedding glove-50d --threshold 3 "
        "--max-mean-words 15",
    )
    index: ClassVar[str] = "utterance"
    layout: ClassVar[tuple[Column, ...]] = (
        *map(Column, ("side", "utterance", "utterances", "pairs", "neighbours")),
        Column("entropy", "entropy (bits)"),
    )
    tables: ClassVar[Mapping[str, str]] = {
        "kept": "Pairs that stay:",
        "dropped": "Pairs that are dropped, with both entropies:",
    }
    aspect: ClassVar[str] = "generic"

    side: Side = option("target", "Whose entropy counts: the context's, the reply's, or either's.")
    threshold: float = option(1.0, "Entropy, in bits, above which a pair is dropped.", metavar="X")
    normalise: Normal = option("lower", "Ignore differences of white space, and of case.")
    context_turns: int = option(1, "Of dialogs: turns of context, at most.", metavar="N")
    separator: str = option(" ", r"Between turns of the context; \n is a line break.", metavar="TEXT", escapes=True)
    top: int = option(20, "Utterances of the highest entropy to print.", metavar="N", signed=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(math.isfinite(self.threshold) and self.threshold >= 0, "threshold", self.threshold, "0 or more")
        check_that(self.top >= 0, "top", self.top, "0 or more")
        check_that(self.context_turns >= 1, "context_turns", self.context_turns, "1 or more")
        if self.cluster == "identity" and (idle := [name for name in _SPARED if getattr(self, name)]):
            needed = f"{argument('cluster', 'kmeans')} or {argument('cluster', 'mean-shift')}"
            raise OptionError(f"{argument(idle[0])} requires {needed}")

    def relevant_options(self) -> Mapping[str, Any]:
        """Those that matter to the clusters; the embedding with its hash."""
        unused = self.unused | (frozenset(_SPARED) if self.cluster == "identity" else frozenset())
        shown = {name: value for name, value in super().relevant_options().items() if name not in unused}
        return shown | ({"embedding": self.embedding_identity} if "embedding" in shown else {})

    def compute(self, data: StudyData) -> Result:
        """Entropies of both sides, and the pairs that are dropped."""
        if len(data.entries) != 1:
            raise DataError(f"{len(data.entries)} inputs; expected one file or table of pairs")
        items = self._pairs(data.entries[0], data.reading)
        texts = {name: _normal(items, column, self.normalise) for name, column in _COLUMNS.items()}
        found = {name: self.clusters_of(values) for name, values in texts.items()}
        sides = {name: self._side(one, found[_ACROSS[name]], texts[name]) for name, one in found.items()}
        filtered = Filtered(
            items,
            {name: one.entropies[one.of_pairs] for name, one in sides.items()},
            {name: sides[name].goes[sides[name].of_pairs] for name in self._counted},
        )
        kept, dropped = filtered.kept, filtered.dropped
        facts = {"log": "2", "n": str(len(items)), "dropped": str(len(dropped))}
        facts |= {f"{name}s": str(len(one.medoids)) for name, one in found.items()}
        if self.cluster != "identity" and is_word_vectors(self.embedding):
            facts["words"] = f"sif-{SMOOTHING:g}"
        return Result(
            self,
            [row for name in self._counted for row in self._top(name, sides[name])],
            self._notes(sides, len(items), len(dropped)),
            facts,
            {"kept": kept.frame, "dropped": dropped.frame},
            filtered,
            extra={"kept": len(kept), "dropped": len(dropped)},
        )

    def _pairs(self, entry: Any, reading: Reading) -> Items:
        if isinstance(entry, str | Path):
            return read_pairs(
                entry,
                format=reading.input_format,
                context_turns=self.context_turns,
                separator=self.separator,
                reading=reading,
            )
        table = entry if isinstance(entry, Items) else frame_table(entry, reading)
        if not isinstance(table, Items):
            raise DataError(f"found {type(table).__name__}; expected pairs in the columns 'context' and 'text'")
        return table

    @property
    def _counted(self) -> tuple[str, ...]:
        """The sides whose entropy counts."""
        return ("source", "target") if self.side == "both" else (self.side,)

    def _side(self, one: Clusters, other: Clusters, texts: pl.Series) -> _Side:
        entropies, neighbours = neighbour_entropies(one.of_pairs, other.of_pairs)
        is_over = entropies > self.threshold
        return _Side(one, entropies, neighbours, is_over, is_over & ~self.spared(one, texts))

    def _top(self, name: str, side: _Side) -> list[Row]:
        """The highest entropies; of equal ones, the more frequent and then the first in the order of names."""
        clusters, pairs = side.clusters, np.bincount(side.of_pairs)
        names = pl.Series(clusters.medoids, dtype=pl.String).rank("ordinal").to_numpy()
        order = np.lexsort((names, -pairs, -side.entropies))[: self.top]
        return [
            {
                "side": name,
                "utterance": shortened(clusters.medoids[i]),
                "utterances": None if self.cluster == "identity" else int(clusters.sizes[i]),
                "pairs": int(pairs[i]),
                "neighbours": int(side.neighbours[i]),
                "entropy": float(side.entropies[i]),
            }
            for i in order
        ]

    def _notes(self, sides: Mapping[str, _Side], pairs: int, dropped: int) -> tuple[str, ...]:
        notes = []
        for name in self._counted:
            one, noun = sides[name], f"different {name}s" if self.cluster == "identity" else f"clusters of {name}s"
            notes.append(
                f"{int(one.is_over.sum()):,} of {len(one.is_over):,} {noun} have an entropy above "
                f"{self.threshold:g}; {int(one.is_over[one.of_pairs].sum()):,} pairs have one of them"
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
                    f"{one.clusters.unknown:,} different {name}s have no word with a vector in {self.embedding}; each "
                    "is a cluster of its own"
                )
        if dropped == pairs:
            notes.append("no pair is left; raise the threshold")
        return tuple(notes)

    def sentence(self, result: Result) -> str:
        """How many pairs are dropped: a count of the data, without an interval."""
        filtered: Filtered = result.detail
        count, total = int(filtered.is_dropped.sum()), len(filtered.items)
        what = "a source or a target" if self.side == "both" else f"a {self.side}"
        return (
            f"Dropped {count:,} of {total:,} pairs ({count / total:.2%}), which have {what} with an entropy above "
            f"{self.threshold:g}; kept {total - count:,}."
        )

    def chart(self, result: Result) -> Any:
        """How many pairs have an utterance of which entropy, with the threshold; the axis of counts is logarithmic."""
        panels = [self._panel(result.detail, side) for side in self._counted]
        return alt.hconcat(*panels) if len(panels) > 1 else panels[0]

    def _panel(self, filtered: Filtered, side: str) -> Any:
        bars = (
            alt.Chart(inline(self._histogram(filtered, side)), title=f"entropy of the {side}", width=360, height=260)
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

    def _histogram(self, filtered: Filtered, side: str) -> list[Row]:
        """Bars that end exactly at the threshold; above it, dropped pairs are below those of clusters that stay."""
        step = self.threshold / math.ceil(self.threshold / _STEP) if self.threshold > 0 else _STEP
        values, drops = filtered.entropies[side], filtered.drops[side]
        bins = np.maximum(np.ceil(values / step).astype(np.int64) - 1, 0)
        rows: list[Row] = []
        for place in np.unique(bins):
            base = 0
            for verdict, is_here in (("dropped", drops), ("kept", ~drops)):
                count = int((is_here & (bins == place)).sum())
                if count:
                    ends = {"low": float(place * step), "high": float((place + 1) * step)}
                    rows.append({**ends, "pairs": count, "base": base, "top": base + count, "verdict": verdict})
                base += count
        return rows


def neighbour_entropies(of: Array, across: Array) -> tuple[Array, Array]:
    """For every number in `of` (from 0), the entropy in bits of what is across from it, and how many differ there.

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


def _normal(items: Items, column: str, normalise: str) -> pl.Series:
    if column not in items.frame.columns:
        raise no_such_column(column, items.frame.columns, option=column, advice="expected pairs")
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
