"""What measures against references share: a value an item, or counts that pool over a corpus."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import JACKKNIFE_GROUPS, Batch
from nlgauge.metrics.score import HigherIs, Interval, Score
from nlgauge.stats.jackknife import LeftOut, jackknife_interval


@dataclass(frozen=True, kw_only=True)
class ReferenceMetric(SetMetric):
    """A measure of each text against its own references; `references[i]` belongs to item i, and there may be several.

    Values are multiplied by `scale`: papers print these measures between 0 and 100.
    """

    higher_is: ClassVar[HigherIs] = "better"
    of_single_texts: ClassVar[bool] = True
    needs_references: ClassVar[bool] = True

    scale: Literal[100, 1] = 100

    @abstractmethod
    def per_item(self, batch: Batch) -> Array:
        """One value an item, as a share of 1."""

    def per_set(self, batch: Batch) -> Array:
        """Values of items, scaled."""
        return self.scale * self.per_item(batch)

    def relevant_options(self) -> Mapping[str, Any]:
        """All options, the scale last."""
        shown = dict(super().relevant_options())
        return {**{key: value for key, value in shown.items() if key != "scale"}, "scale": self.scale}


@dataclass(frozen=True)
class PooledCounts:
    """Counts summed over the items of each group (of one group when not grouped), and the number of items there."""

    items: Array
    counts: Array

    def __add__(self, other: PooledCounts) -> PooledCounts:
        return PooledCounts(self.items + other.items, self.counts + other.counts)


@dataclass(frozen=True, kw_only=True)
class PooledReferenceMetric(ReferenceMetric):
    """A measure from whole-number counts: of each item (`over=item`), or of all items added up (`over=corpus`)."""

    over: Literal["item", "corpus"] = "item"

    @abstractmethod
    def counts(self, batch: Batch) -> Array:
        """A row of counts an item."""

    @abstractmethod
    def of_counts(self, counts: Array) -> Array:
        """A value a row, as a share of 1."""

    @property
    def cacheable(self) -> bool:
        """Values of items are kept, sums are not."""
        return self.over == "item"

    def per_item(self, batch: Batch) -> Array:
        """The measure of each item's counts."""
        return self.of_counts(self.counts(batch))

    def collect(self, batch: Batch) -> Any:
        """Values of items, or sums of counts."""
        if self.over == "item":
            return super().collect(batch)
        counts, groups = self.counts(batch), batch.text_groups()
        if groups is None:
            return PooledCounts(np.array([len(counts)]), counts.sum(axis=0, keepdims=True))
        sums = np.zeros((JACKKNIFE_GROUPS, counts.shape[1]), np.int64)
        np.add.at(sums, groups, counts)
        return PooledCounts(np.bincount(groups, minlength=JACKKNIFE_GROUPS), sums)

    def finish(self, stats: Any, interval: Interval | None = None) -> Score:
        """Mean over items, or the value of all counts together, with an interval from leaving out groups of items."""
        if self.over == "item":
            return super().finish(stats, interval)
        whole, used = stats.counts.sum(axis=0, keepdims=True), stats.items > 0
        value = float(self.scale * self.of_counts(whole)[0])
        left_out: LeftOut | None = None
        ci, signature = None, self.signature
        if interval is not None:
            values = self.scale * self.of_counts(whole - stats.counts[used])
            left_out = LeftOut.where_known(values, stats.items[used])
        if interval is not None and left_out is not None:
            ci = jackknife_interval(value, left_out, interval.confidence)
            signature = signature.with_facts({"ci": f"{interval.confidence:g}", "by": f"jackknife-{len(left_out)}"})
        return Score(
            name=self.title,
            label=self.label,
            value=value,
            n=int(stats.items.sum()),
            signature=signature,
            higher_is=self.higher_is,
            ci=ci,
            left_out=left_out,
        )


def best_of_references(values: Array, sets: Array) -> Array:
    """The largest of an item's values, one a reference; `sets` are offsets of texts followed by their references."""
    best: Array = np.maximum.reduceat(values, sets[:-1] - np.arange(len(sets) - 1))
    return best


def of_references(rows: Array, sets: Array) -> tuple[Array, Array]:
    """Rows that stand for texts, one for each reference of theirs, and the rows of those references."""
    own = np.repeat(sets[:-1], np.diff(sets) - 1)
    others = np.delete(np.arange(sets[-1]), sets[:-1])
    return rows[own], rows[others]
