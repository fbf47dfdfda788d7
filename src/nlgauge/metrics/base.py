"""The contract of a metric: `collect(batch) -> Stats`, `Stats + Stats`, `finish(Stats) -> Score`.

What takes long between adding and finishing is told as `Shares`, so that it need not be done by one process.
"""

from __future__ import annotations

import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import Configured, option, options_of
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import EVERYWHERE, Bounds, Direction, ItemValues, Level, RowKeys, Score
from nlgauge.stats.inference import Inference
from nlgauge.stats.kernels.exact import ExactSum

if TYPE_CHECKING:
    from nlgauge.data.tables import ResponseSets


OVER = "What has one value: each set of responses, or the whole corpus."
SIZE = "Responses per set at which it is measured: the mean over subsets of larger sets."
SETS = "With over=corpus: take so many sets, chosen by a hash of their context."


class Stats(Protocol):
    """Anything that merges."""

    def __add__(self, other: Any) -> Any: ...


@dataclass(frozen=True)
class Shares:
    """Work that workers can share out: `work(number)` for every number below `count`, in whatever order.

    `work` can be pickled, and what it returns can be written to a run's folder. `gather` makes statistics of all that
    was returned, in the order of the numbers.
    """

    work: Callable[[int], Any]
    count: int
    gather: Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, kw_only=True)
class Metric(Configured, ABC):
    """A configured measure. Subclasses are frozen dataclasses; their fields are the options, on the command line too.

    `name` is what users type, `paper` where it is defined. A class says its `level`, `aspect` and `direction`, as class
    variables or, where they depend on options, as properties. `costly` metrics are always worth caching. `example`
    shows how to call a metric that is of no use with its defaults. A metric that `needs_references` compares every text
    with references of its own. One that does not depend on size (`depends_on_size`) has the same expectation with any
    number of responses per set, or of texts in a corpus.
    """

    paper: ClassVar[str]
    costly: ClassVar[bool] = False
    needs_references: ClassVar[bool] = False
    example: ClassVar[str] = ""

    @property
    @abstractmethod
    def level(self) -> Level:
        """What has one value: each set of responses, each item (also a text that is in no set), or the whole corpus."""

    @property
    @abstractmethod
    def aspect(self) -> str:
        """What it is about, which is a question of the report.

        NLGauge has form, content, repetition, quality, fluency and columns; any other word is a question of its own.
        """

    @property
    @abstractmethod
    def direction(self) -> Direction:
        """What a higher value means."""

    @property
    def needs(self) -> int:
        """The smallest number of responses per set."""
        return 1

    @property
    def bounds(self) -> Bounds:
        """The least and the largest possible value."""
        return EVERYWHERE

    @property
    def levels(self) -> tuple[Level, ...]:
        """All levels that the metric has, of which the option `over` chooses one."""
        return (self.level,)

    @property
    def depends_on_size(self) -> bool:
        """Whether a set's value depends on the number of its responses, or a corpus' on the number of its texts."""
        return self.level != "item"

    @property
    def encoder(self) -> str | None:
        """The sentence encoder by which it compares texts, if there is one."""
        return None

    @property
    def resources(self) -> Mapping[str, str]:
        """What of this machine its values depend on beside its options, such as a program, with a hash.

        They stand among the facts of a score, and what is kept on disk is kept under them.
        """
        return {}

    @abstractmethod
    def collect(self, batch: Batch) -> Any:
        """Statistics of some sets; adding the statistics of two parts gives those of the whole."""

    @abstractmethod
    def finish(self, stats: Any, interval: Inference | None = None) -> Score:
        """The score that statistics amount to, with an interval when asked for."""

    def make_score(self, value: float, n: int, facts: Mapping[str, str] | None = None, **found: Any) -> Score:
        """A score of this metric, with `facts` beside the signature and whatever else was found."""
        return Score(
            name=self.title,
            label=self.label,
            value=value,
            n=n,
            signature=self.signature.with_facts({**self.resources, **(facts or {})}),
            higher_is=self.direction.words,
            level=self.level,
            aspect=self.aspect,
            bounds=self.bounds,
            **found,
        )

    def part_of(self, batch: Batch, bins: Array | None) -> Batch:  # noqa: ARG002 - for subclasses
        """The sets that it measures; `bins` has the number of sets in each bin of contexts."""
        return batch

    def savings(self) -> tuple[str, ...]:
        """What would make it need less memory, in words."""
        return ()

    def shares(self, stats: Any) -> Shares | None:  # noqa: ARG002 - for subclasses
        """What has to be done between merging and `finish`, where several workers can do it; None when all is done.

        It is asked again about the statistics that were gathered, and may have another round to do.
        """
        return None

    def completed(self, stats: Any) -> Any:
        """The statistics once this process has done whatever the workers have not."""
        while (shares := self.shares(stats)) is not None:
            with ThreadPoolExecutor(1 if self.costly else 2) as pool:
                stats = shares.gather(list(pool.map(shares.work, range(shares.count))))
        return stats

    @property
    def cacheable(self) -> bool:
        """Whether statistics of a chunk are worth keeping on disk."""
        return False

    @property
    def title(self) -> str:
        """What to call the metric in a table."""
        return self.name

    @property
    def label(self) -> str:
        """What to call the metric where its options matter: its text form."""
        return self.spec

    def expect(self, option: str, holds: bool, expected: str) -> None:
        """Refuse the value of an option unless a condition holds, and say what is expected."""
        value = getattr(self, option)
        shown = f"{value:g}" if isinstance(value, float) else value
        refuse(option, not holds, f"{self.name}:{option}={shown}; expected {expected}")

    def prepare(self) -> None:
        """Raise the error that says what to install or fetch, where the metric needs more than this machine has."""

    def check(self, batch: Batch) -> None:
        """Refuse sets with too few responses, items without references, and a machine that lacks what is needed."""
        small = np.flatnonzero(batch.sets.sizes < (0 if self.level == "corpus" else self.needs))
        if len(small):
            size = int(batch.sets.sizes[small[0]])
            raise DataError(
                f"set '{batch.sets.ids[int(small[0])]}' has {size} response{'s' * (size != 1)}; {self.name} needs at "
                f"least {self.needs} responses per set"
            )
        if self.needs_references:
            self._check_references(batch.sets)
        self.prepare()

    def _check_references(self, sets: ResponseSets) -> None:
        if sets.references is not None and not sets.references.null_count():
            return
        first = 0 if sets.references is None else int(sets.references.is_null().arg_true()[0])
        raise DataError(
            f"item '{sets.ids[first]}' has no reference, and {self.name} compares every text with its own references; "
            f"expected single texts with a column 'references' (a list) or 'reference' (or another: "
            f"{argument('references', 'COL')}), or plain text with {argument('aligned', 'references=FILE')}"
        )

    def score(self, sets: Any, interval: Inference | None = None) -> Score:
        """Score response sets (a `ResponseSets`, or lists of texts) or `Items` in one call."""
        from nlgauge.data.tables import Items, ResponseSets

        given = sets.as_sets() if isinstance(sets, Items) else sets
        table = given if isinstance(given, ResponseSets) else ResponseSets.of(given)
        batch = Batch(table, grouped=interval is not None)
        self.check(batch)
        return self.finish(self.collect(batch), interval)


@dataclass(frozen=True)
class SetStats:
    """One value per set, and the sums of the parts that the values average."""

    items: ItemValues
    sums: tuple[ExactSum, ...]

    def __add__(self, other: SetStats) -> SetStats:
        sums = tuple(a + b for a, b in zip(self.sums, other.sums, strict=True))
        return SetStats(self.items + other.items, sums)


@dataclass(frozen=True, kw_only=True)
class SetMetric(Metric):
    """A measure with one value per set; a system's score is the mean over sets (paper 1, section 3)."""

    @property
    def level(self) -> Level:
        """One value per set."""
        return "set"

    @abstractmethod
    def per_set(self, batch: Batch) -> Array:
        """One value per set, or one row per set of parts that average to it."""

    def part_names(self) -> tuple[str, ...]:
        """Names of the columns of `per_set`, if it has several."""
        return ()

    @property
    def cacheable(self) -> bool:
        """Values of sets are small: keep them."""
        return True

    def collect(self, batch: Batch) -> SetStats:
        """Values of every set."""
        return self.stats_of(batch.rows, self.values(batch))

    def values(self, batch: Batch) -> Array:
        """What `per_set` gives, as a table with one row per set and one column per part."""
        return np.asarray(self.per_set(batch), dtype=np.float64).reshape(len(batch), -1)

    def stats_of(self, rows: RowKeys, values: Array) -> SetStats:
        """Statistics from a table of values."""
        sums = tuple(ExactSum.of(column[~np.isnan(column)].tolist()) for column in values.T)
        return SetStats(ItemValues((rows,), (self.combine(values),)), sums)

    def combine(self, values: Array) -> Array:
        """One value per set from its parts: their mean, parts without a value aside."""
        if values.shape[1] == 1:
            return values[:, 0]
        defined = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            mean: Array = np.where(defined, values, 0.0).sum(axis=1) / defined.sum(axis=1)
        return mean

    def finish(self, stats: SetStats, interval: Inference | None = None) -> Score:
        """Mean over sets, exactly rounded so that their order does not matter; one set alone has no interval."""
        whole = stats.items.all_values()
        defined = whole[~np.isnan(whole)]
        if len(defined) == 0:
            raise DataError(f"{self.name} has no value on any of the {len(whole)} sets")
        facts, ci = {}, None
        if interval is not None and len(defined) > 1:
            from nlgauge.stats.means import interval_name, mean_interval
            from nlgauge.stats.units import find_units

            units = find_units(stats.items.contexts(), stats.items.runs(), interval.unit)[~np.isnan(whole)]
            ci = mean_interval(defined, interval.level, units, self.bounds)
            if ci is not None:
                facts = {
                    "ci": f"{interval.level:g}",
                    "by": interval_name(defined, units, self.bounds),
                    "unit": units.name,
                }
        return self.make_score(
            _mean_of(defined),
            len(defined),
            facts,
            ci=ci,
            parts={name: total.mean for name, total in zip(self.part_names(), stats.sums, strict=False)},
            items=stats.items,
            excluded=len(whole) - len(defined),
        )


@dataclass(frozen=True, kw_only=True)
class PooledMetric(SetMetric):
    """A measure with one value per set or item, or, `over=corpus`, one value of all of them together."""

    @property
    @abstractmethod
    def over(self) -> Level:
        """What has one value: an option of every subclass."""

    @property
    def level(self) -> Level:
        """As the option `over` says."""
        return self.over

    @property
    def levels(self) -> tuple[Level, ...]:
        """The choices of the option `over`."""
        return next(typing.get_args(one.kind) for one in options_of(type(self)) if one.name == "over")

    @property
    def cacheable(self) -> bool:
        """Values of sets are small: keep them; what is known about a corpus is not."""
        return self.level != "corpus"

    @abstractmethod
    def collect_corpus(self, batch: Batch) -> Any:
        """What some sets contribute to the value of the corpus."""

    @abstractmethod
    def finish_corpus(self, stats: Any, interval: Inference | None = None) -> Score:
        """The value of the corpus."""

    def collect(self, batch: Batch) -> Any:
        """Values of sets, or what they contribute to the value of the corpus."""
        if self.level != "corpus":
            return super().collect(batch)
        size = getattr(self, "size", None)
        return self.collect_corpus(batch if size is None else batch.at_size(size))

    def finish(self, stats: Any, interval: Inference | None = None) -> Score:
        """The mean over sets, or the value of the corpus."""
        if self.level == "corpus":
            return self.finish_corpus(stats, interval)
        return super().finish(stats, interval)


@dataclass(frozen=True, kw_only=True)
class SizedMetric(SetMetric):
    """A measure that changes with the number of responses per set, and can be taken at another number of them.

    With `size`, the value of a set is the mean over its subsets of so many responses: all of them where they are few,
    else a random choice of them. Sets with fewer responses have no value.
    """

    size: int | None = option(None, SIZE, metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        least = 1 if self.level == "corpus" else max(1, self.needs)
        self.expect("size", self.size is None or self.size >= least, f"a number of responses, {least} or more")

    def relevant_options(self) -> Mapping[str, Any]:
        """All options; sizes only where there are some."""
        shown = super().relevant_options()
        return {key: value for key, value in shown.items() if value is not None or key not in ("size", "sets")}

    def values(self, batch: Batch) -> Array:
        """One row per set and one column per part; with `size`, means over subsets."""
        if self.size is None:
            return super().values(batch)
        found: Array | None = None
        for part, owners in batch.subsets(self.size):
            drawn = super().values(part)
            if found is None:
                found = np.full((len(batch), drawn.shape[1]), math.nan)
            starts = np.flatnonzero(np.diff(owners, prepend=-1))
            defined = ~np.isnan(drawn)
            with np.errstate(invalid="ignore"):
                means = np.add.reduceat(np.where(defined, drawn, 0.0), starts) / np.add.reduceat(defined, starts)
            found[owners[starts]] = means
        return np.full((len(batch), 1), math.nan) if found is None else found


@dataclass(frozen=True, kw_only=True)
class WordingMetric(PooledMetric, SizedMetric):
    """A measure of wording: within each set or, `over=corpus`, across the contexts of the corpus.

    Over a corpus, `size` is the number of responses of each set that are taken, and `sets` the number of sets.
    """

    sets: int | None = option(None, SETS, metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse("sets", self.sets is not None and self.level != "corpus", f"{self.name}: sets requires over=corpus")
        self.expect("sets", self.sets is None or self.sets >= 1, "a number of sets, 1 or more")

    def part_of(self, batch: Batch, bins: Array | None) -> Batch:
        """The first of the sets in the order of their bins, so many that `sets` are not exceeded."""
        if self.sets is None or bins is None:
            return batch
        return batch.of_bins(int(np.searchsorted(np.cumsum(bins), self.sets, side="right")) - 1)

    @property
    def aspect(self) -> str:
        """Form within a set; repetition across contexts."""
        return "repetition" if self.level == "corpus" else "form"


def _mean_of(values: Array, block: int = 1 << 16) -> float:
    """The exactly rounded mean, without a list of all values."""
    return math.fsum(chain.from_iterable(values[i : i + block].tolist() for i in range(0, len(values), block))) / len(
        values
    )


def refuse(option: str, condition: bool, message: str) -> None:
    """Raise an `OptionError` about an option where a condition holds."""
    if condition:
        raise OptionError(message, option=option)
