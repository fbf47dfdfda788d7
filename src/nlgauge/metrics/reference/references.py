"""What measures against references share: one value per item, or counts that pool over a corpus."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.metrics.base import PooledMetric, SetMetric
from nlgauge.metrics.batch import JACKKNIFE_GROUPS, Batch
from nlgauge.metrics.score import Bounds, Direction, Level, Score
from nlgauge.stats.inference import Inference
from nlgauge.stats.jackknife import LeftOut, added_keys, jackknife_interval
from nlgauge.stats.means import within

SCALE = "The largest value."
TextAndReference = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class ReferenceMetric(SetMetric):
    """A measure of each text against its own references; `references[i]` belongs to item i, and there may be several.

    Values are multiplied by `scale`: papers print these measures between 0 and 100.
    """

    aspect: ClassVar[str] = "quality"
    direction: ClassVar[Direction] = Direction.BETTER
    needs_references: ClassVar[bool] = True

    share_bounds: ClassVar[Bounds] = (0.0, 1.0)

    scale: Literal[100, 1] = option(100, SCALE)

    @property
    def bounds(self) -> Bounds:
        """Those of shares of 1, scaled."""
        least, most = self.share_bounds
        return self.scale * least, self.scale * most

    @property
    def level(self) -> Level:
        """One value per item."""
        return "item"

    @abstractmethod
    def per_item(self, batch: Batch) -> Array:
        """One value per item, as a share of 1."""

    def per_set(self, batch: Batch) -> Array:
        """Values of items, scaled."""
        return self.scale * self.per_item(batch)

    def relevant_options(self) -> Mapping[str, Any]:
        """All options, the scale last."""
        shown = super().relevant_options()
        return {**{key: value for key, value in shown.items() if key != "scale"}, "scale": self.scale}


@dataclass(frozen=True, kw_only=True)
class ReferencePairMetric(ReferenceMetric):
    """A value for each text with each of its references; an item has the best of them, or their mean (`references`).

    A reference without a token is passed over. An item has no value when its text, or every reference, is without one;
    the score counts such items as excluded. Values are not scaled: papers print these measures as they are.
    """

    costly: ClassVar[bool] = True

    references: Literal["max", "mean"] = option("max", "The best reference of an item, or the mean over all of them.")
    scale: Literal[100, 1] = option(1, SCALE)

    @abstractmethod
    def of_pairs(self, pairs: Sequence[TextAndReference]) -> Array:
        """One value per pair; NaN where the text or the reference has no token."""

    def per_item(self, batch: Batch) -> Array:
        """The best value over an item's references, or their mean, whatever their order."""
        paired = batch.with_references.sets
        texts = paired.texts.to_list()
        values = self.of_pairs(
            [(texts[first], texts[i]) for first, last in pairwise(paired.offsets) for i in range(first + 1, last)]
        )
        edges = paired.offsets - np.arange(len(paired.offsets))
        return np.array([self._of_references(values[a:b]) for a, b in pairwise(edges)])

    def _of_references(self, values: Array) -> float:
        defined = values[~np.isnan(values)].tolist()
        if not defined:
            return math.nan
        return max(defined) if self.references == "max" else math.fsum(defined) / len(defined)


@dataclass(frozen=True)
class PooledCounts:
    """Counts summed over the items of each group (of one group when not grouped), the number of items there, and
    digests."""

    items: Array
    counts: Array
    keys: Array | None = None

    def __add__(self, other: PooledCounts) -> PooledCounts:
        keys = added_keys(self.keys, other.keys)
        return PooledCounts(self.items + other.items, self.counts + other.counts, keys)


@dataclass(frozen=True, kw_only=True)
class PooledReferenceMetric(PooledMetric, ReferenceMetric):
    """A measure from whole-number counts: of each item (`over=item`), or of all items added up (`over=corpus`)."""

    depends_on_size: ClassVar[bool] = False

    over: Literal["item", "corpus"] = option("item", "What has one value: each item, or the whole corpus.")

    @abstractmethod
    def counts(self, batch: Batch) -> Array:
        """One row of counts per item."""

    @abstractmethod
    def of_counts(self, counts: Array) -> Array:
        """One value per row, as a share of 1."""

    def per_item(self, batch: Batch) -> Array:
        """The measure of each item's counts."""
        return self.of_counts(self.counts(batch))

    def collect_corpus(self, batch: Batch) -> PooledCounts:
        """Sums of counts."""
        counts, groups = self.counts(batch), batch.text_groups()
        if groups is None:
            return PooledCounts(np.array([len(counts)]), counts.sum(axis=0, keepdims=True))
        sums = np.zeros((JACKKNIFE_GROUPS, counts.shape[1]), np.int64)
        np.add.at(sums, groups, counts)
        return PooledCounts(np.bincount(groups, minlength=JACKKNIFE_GROUPS), sums, batch.group_keys())

    def finish_corpus(self, stats: Any, interval: Inference | None = None) -> Score:
        """The value of all counts together, with an interval from leaving out groups of items."""
        whole, used = stats.counts.sum(axis=0, keepdims=True), stats.items > 0
        value = float(self.scale * self.of_counts(whole)[0])
        left_out, ci, facts = None, None, {}
        if interval is not None:
            values = self.scale * self.of_counts(whole - stats.counts[used])
            left_out = LeftOut.where_known(values, stats.items[used], None if stats.keys is None else stats.keys[used])
        if interval is not None and left_out is not None:
            ci = within(jackknife_interval(value, left_out, interval.level), self.bounds)
            facts = {"ci": f"{interval.level:g}", "by": f"jackknife-{len(left_out)}", "unit": "group"}
        return self.make_score(value, int(stats.items.sum()), facts, ci=ci, left_out=left_out)


def best_of_references(values: Array, sets: Array) -> Array:
    """The largest of an item's values, one per reference; `sets` are offsets of texts followed by their references."""
    best: Array = np.maximum.reduceat(values, sets[:-1] - np.arange(len(sets) - 1))
    return best


def of_references(rows: Array, sets: Array) -> tuple[Array, Array]:
    """Rows that stand for texts, one for each reference of theirs, and the rows of those references."""
    own = np.repeat(sets[:-1], np.diff(sets) - 1)
    others = np.delete(np.arange(sets[-1]), sets[:-1])
    return rows[own], rows[others]
