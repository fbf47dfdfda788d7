"""The contract of a metric: `collect(batch) -> Stats`, `Stats + Stats`, `finish(Stats) -> Score`.

What takes long between adding and finishing is told as `Shares`, so that it need not be done by one process.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics import options
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import HigherIs, Interval, ItemValues, RowKeys, Score
from nlgauge.metrics.signature import Signature
from nlgauge.stats.exact import ExactSum

if TYPE_CHECKING:
    from nlgauge.data.tables import ResponseSets


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
class Metric(ABC):
    """A configured measure. Subclasses are frozen dataclasses; their fields are the options, on the command line too.

    `name` is what users type, `paper` where it is defined, `needs` how many responses a set must have.
    `of_single_texts` metrics also make sense for texts that are in no set; `costly` ones are always worth caching.
    `example` shows how to call a metric that is of no use with its defaults. A metric that `needs_references` compares
    every text with references of its own.
    """

    name: ClassVar[str]
    higher_is: ClassVar[HigherIs]
    paper: ClassVar[str]
    needs: ClassVar[int] = 1
    of_single_texts: ClassVar[bool] = False
    costly: ClassVar[bool] = False
    needs_references: ClassVar[bool] = False
    example: ClassVar[str] = ""

    def __post_init__(self) -> None:
        options.check_choices(self)

    @abstractmethod
    def collect(self, batch: Batch) -> Any:
        """Statistics of some sets; adding the statistics of two parts gives those of the whole."""

    @abstractmethod
    def finish(self, stats: Any, interval: Interval | None = None) -> Score:
        """The score that statistics amount to, with an interval when asked for."""

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

    def relevant_options(self) -> Mapping[str, Any]:
        """Options that matter to the result, as they appear in the signature."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def title(self) -> str:
        """What to call the metric in a table."""
        return self.name

    @property
    def label(self) -> str:
        """The shortest way to write this metric on the command line."""
        changed = []
        for field in dataclasses.fields(self):
            default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            if field.name in self.relevant_options() and getattr(self, field.name) != default:
                changed.append(f"{field.name}={options.show(getattr(self, field.name))}")
        return f"{self.name}:{','.join(changed)}" if changed else self.name

    @property
    def signature(self) -> Signature:
        """How to make this metric again."""
        return Signature(self.name, {key: options.show(value) for key, value in self.relevant_options().items()})

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> Self:
        """Make the metric from options written as text."""
        return options.build(cls, cls.name, given)

    def prepare(self) -> None:  # noqa: B027 - most metrics need nothing
        """Raise the error that says what to install or fetch, where the metric needs more than this machine has."""

    def check(self, batch: Batch) -> None:
        """Refuse sets with too few responses, items without references, and a machine that lacks what is needed."""
        small = np.flatnonzero(batch.sets.sizes < self.needs)
        if len(small):
            size = int(batch.sets.sizes[small[0]])
            raise DataError(
                f"set '{batch.sets.ids[int(small[0])]}' has {size} response{'s' * (size != 1)}; {self.name} needs at "
                f"least {self.needs} responses a set"
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
            "expected single texts with a column 'references' (a list) or 'reference' (or another: --references COL), "
            "or plain text with --aligned references=FILE (in Python: Columns(references=…) or aligned=…)"
        )

    def score(self, sets: Any, interval: Interval | None = None) -> Score:
        """Score response sets (a `ResponseSets`, or lists of texts) or `Items` in one call."""
        from nlgauge.data.tables import Items, ResponseSets

        given = sets.as_sets() if isinstance(sets, Items) else sets
        table = given if isinstance(given, ResponseSets) else ResponseSets.of(given)
        batch = Batch(table, grouped=interval is not None)
        self.check(batch)
        return self.finish(self.collect(batch), interval)


@dataclass(frozen=True)
class SetStats:
    """One value a set, and the sums of the parts that the values average."""

    items: ItemValues
    sums: tuple[ExactSum, ...]

    def __add__(self, other: SetStats) -> SetStats:
        sums = tuple(a + b for a, b in zip(self.sums, other.sums, strict=True))
        return SetStats(self.items + other.items, sums)


@dataclass(frozen=True, kw_only=True)
class SetMetric(Metric):
    """A measure with one value a set; a system's score is the mean over sets (paper 1, section 3)."""

    @abstractmethod
    def per_set(self, batch: Batch) -> Array:
        """One value a set, or a row of parts a set that average to it."""

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
        """What `per_set` gives, as a table with a row a set and a column a part."""
        return np.asarray(self.per_set(batch), dtype=np.float64).reshape(len(batch), -1)

    def stats_of(self, rows: RowKeys, values: Array) -> SetStats:
        """Statistics from a table of values."""
        sums = tuple(ExactSum.of(column[~np.isnan(column)].tolist()) for column in values.T)
        return SetStats(ItemValues((rows,), (self.combine(values),)), sums)

    def combine(self, values: Array) -> Array:
        """One value a set from its parts: their mean, parts without a value aside."""
        if values.shape[1] == 1:
            return values[:, 0]
        defined = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            mean: Array = np.where(defined, values, 0.0).sum(axis=1) / defined.sum(axis=1)
        return mean

    def finish(self, stats: SetStats, interval: Interval | None = None) -> Score:
        """Mean over sets, exactly rounded so that their order does not matter; one set alone has no interval."""
        whole = stats.items.all_values()
        defined = whole[~np.isnan(whole)]
        if len(defined) == 0:
            raise DataError(f"{self.name} has no value on any of the {len(whole)} sets")
        signature, ci = self.signature, None
        if interval is not None and len(defined) > 1:
            from nlgauge.stats.bootstrap import bootstrap_mean

            ci = bootstrap_mean(defined, interval.confidence, interval.resamples, interval.seed)
            signature = signature.with_facts(
                {
                    "ci": f"{interval.confidence:g}",
                    "by": f"bootstrap-{interval.resamples}",
                    "seed": str(interval.seed),
                }
            )
        return Score(
            name=self.title,
            label=self.label,
            value=_mean_of(defined),
            n=len(defined),
            signature=signature,
            higher_is=self.higher_is,
            ci=ci,
            parts={name: total.mean for name, total in zip(self.part_names(), stats.sums, strict=False)},
            items=stats.items,
            excluded=len(whole) - len(defined),
        )


def _mean_of(values: Array, block: int = 1 << 16) -> float:
    """The exactly rounded mean, without a list of all values."""
    return math.fsum(chain.from_iterable(values[i : i + block].tolist() for i in range(0, len(values), block))) / len(
        values
    )


def refuse(condition: bool, message: str) -> None:
    """Raise an `OptionError` when options clash."""
    if condition:
        raise OptionError(message)
