"""What a metric returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.signature import Signature
from nlgauge.stats.jackknife import LeftOut

HigherIs = Literal["more diverse", "less diverse", "better", "worse"]
Level = Literal["set", "item", "corpus"]
Bounds = tuple[float, float]
EVERYWHERE: Bounds = (-math.inf, math.inf)


class Direction(Enum):
    """What a higher value means."""

    MORE_DIVERSE = "more diverse"
    LESS_DIVERSE = "less diverse"
    BETTER = "better"
    WORSE = "worse"

    @property
    def words(self) -> HigherIs:
        """As in "higher is more diverse"."""
        return self.value

    @property
    def sign(self) -> Literal[1, -1]:
        """1 where higher values are better or more diverse, -1 where lower ones are."""
        return 1 if self in (Direction.MORE_DIVERSE, Direction.BETTER) else -1

    @property
    def opposite(self) -> Direction:
        """What a lower value means."""
        pairs = {Direction.MORE_DIVERSE: Direction.LESS_DIVERSE, Direction.BETTER: Direction.WORSE}
        return {**pairs, **{other: one for one, other in pairs.items()}}[self]

    @property
    def is_about_diversity(self) -> bool:
        """Whether it is about diversity rather than quality."""
        return self in (Direction.MORE_DIVERSE, Direction.LESS_DIVERSE)


@dataclass(frozen=True)
class RowKeys:
    """Ids of the sets of one batch, hashes of their contexts and runs where there are some, and their sizes."""

    ids: pl.Series
    contexts: Array | None
    runs: Array | None = None
    sizes: Array | None = None

    def to_polars(self) -> pl.DataFrame:
        """`id`, and `context_hash`, `run` and `size` where these are known."""
        known = {"context_hash": self.contexts, "run": self.runs, "size": self.sizes}
        frame = pl.DataFrame({"id": self.ids})
        return frame.with_columns(pl.Series(name, values) for name, values in known.items() if values is not None)

    @classmethod
    def from_polars(cls, frame: pl.DataFrame) -> RowKeys:
        """Back from such a frame."""
        names = ("context_hash", "run", "size")
        return cls(frame["id"], *(frame[name].to_numpy() if name in frame.columns else None for name in names))


@dataclass(frozen=True)
class ItemValues:
    """Values of single sets, batch by batch; the keys are shared between metrics."""

    rows: tuple[RowKeys, ...]
    values: tuple[Array, ...]

    def __add__(self, other: ItemValues) -> ItemValues:
        return ItemValues(self.rows + other.rows, self.values + other.values)

    def all_values(self) -> Array:
        """All values, in order."""
        return np.concatenate(self.values)

    def contexts(self) -> Array | None:
        """A hash of the context of each set; None where some have none."""
        return _together([rows.contexts for rows in self.rows])

    def runs(self) -> Array | None:
        """A hash of the run of each set; None where some have none."""
        return _together([rows.runs for rows in self.rows])

    def sizes(self) -> Array | None:
        """The number of responses of each set; None where some have none."""
        return _together([rows.sizes for rows in self.rows])

    def to_polars(self) -> pl.DataFrame:
        """`id`, `value`, and `context_hash` and `run` where these are known."""
        keys = replace(rows_together(self.rows), sizes=None)
        return keys.to_polars().insert_column(1, pl.Series("value", self.all_values()))


def rows_together(rows: Sequence[RowKeys]) -> RowKeys:
    """The keys of several batches as one; contexts, runs and sizes are None where some have none."""
    others = ([keys.contexts for keys in rows], [keys.runs for keys in rows], [keys.sizes for keys in rows])
    return RowKeys(pl.concat([keys.ids for keys in rows]), *map(_together, others))


def _together(parts: list[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


@dataclass(frozen=True)
class Score:
    """One number, with what is needed to defend it.

    `level` says what has one value (each set, each item, or the whole corpus) and `aspect` what the metric is about.
    `parts` are the numbers that `value` averages (one per n-gram order). `items` are the values of single sets; it is
    None for a measure of a whole corpus, which has `left_out` instead when an interval was asked for: its values with
    each group of texts left out. `excluded` sets had no defined value and do not count in `value`. `bounds` are the
    least and the largest value that there can be. `skipped` names the rows of the input that could not be read or
    measured and were left out on request. `sizes` says how many sets there are of each number of responses, where the
    metric depends on that number.
    """

    name: str
    label: str
    value: float
    n: int
    signature: Signature
    higher_is: HigherIs
    level: Level = "set"
    aspect: str = ""
    ci: tuple[float, float] | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    items: ItemValues | None = field(default=None, repr=False, compare=False)
    left_out: LeftOut | None = field(default=None, repr=False, compare=False)
    excluded: int = 0
    system: str = ""
    skipped: tuple[str, ...] = field(default=(), compare=False)
    bounds: Bounds = field(default=EVERYWHERE, repr=False, compare=False)
    sizes: Mapping[int, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def direction(self) -> Direction:
        """What a higher value means, with its sign."""
        return Direction(self.higher_is)

    @property
    def per_item(self) -> pl.DataFrame | None:
        """Values of single sets: `id` and `value`, one row per set."""
        return None if self.items is None else self.items.to_polars()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "label": self.label,
            "system": self.system,
            "value": _finite(self.value),
            "ci": None if self.ci is None else list(self.ci),
            "n": self.n,
            "excluded": self.excluded,
            "parts": {name: _finite(value) for name, value in self.parts.items()},
            "higher_is": self.higher_is,
            "level": self.level,
            "aspect": self.aspect,
            "signature": str(self.signature),
            **({"skipped": list(self.skipped)} if self.skipped else {}),
            **({"sizes": {str(size): count for size, count in self.sizes.items()}} if self.sizes else {}),
        }


def has_one_context(score: Score) -> bool:
    """Whether several sets with an interval have one context."""
    contexts = None if score.items is None or score.ci is None else score.items.contexts()
    return contexts is not None and len(contexts) > 1 == len(np.unique(contexts))


def is_skewed(score: Score) -> bool:
    """Whether the values of sets are too skewed for so few units, those of the score's interval."""
    from nlgauge.stats.inference import Unit
    from nlgauge.stats.means import TOO_SKEWED, is_share, mean_of
    from nlgauge.stats.units import find_units

    if score.items is None:
        return False
    values = score.items.all_values()
    defined = ~np.isnan(values)
    used: Unit = next((unit for unit in get_args(Unit) if unit == score.signature.facts.get("unit")), "auto")
    units = find_units(score.items.contexts(), score.items.runs(), used)[defined]
    return not is_share(values[defined], score.bounds) and abs(mean_of(values[defined], units).skewness) > TOO_SKEWED


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
