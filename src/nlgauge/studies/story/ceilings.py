"""The single ratings behind a truth, and the ceiling that their noise sets to correlations with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.roles import numbers_in
from nlgauge.data.tables import Ratings
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.stats.correlation import Kind, correlation
from nlgauge.stats.inference import Inference
from nlgauge.stats.ratings.ceiling import SPLITS, Ceiling, noise_ceilings
from nlgauge.studies.base import Column, Row, finite, pair
from nlgauge.studies.human import has_pairs, human_scores
from nlgauge.studies.story.rating_tables import tables_of
from nlgauge.studies.tasks import Task, columns_named

CEILINGS: dict[Kind, str] = {"pearson": "ceiling", "spearman": "spearman_ceiling", "kendall": "kendall_ceiling"}
COLUMNS = tuple(column for key in CEILINGS.values() for column in (Column(key), Column(f"{key}_ci")))
_SAME = 0.999


@dataclass(frozen=True)
class RatedTruth:
    """The ratings behind the truth of a task, raters x items; ceilings of the same items are computed once."""

    values: Array
    using: Inference
    known: dict[bytes, dict[Kind, Ceiling]] = field(default_factory=dict, repr=False)

    def cells(self, rows: Array, units: Array | None = None, contexts: Array | None = None) -> Row:
        """The ceilings of correlations over these items (row numbers); None where ratings do not show them."""
        place = rows.tobytes() + (b"" if contexts is None else b"within")
        if place not in self.known:
            mine = None if units is None else units[rows]
            self.known[place] = self._ceilings(self.values[:, rows], mine, contexts)
        return _cells(self.known[place])

    def of_systems(self, rows: Array, systems: Array) -> Row:
        """The same over means of systems, one number per item, where every rater rated all of these items."""
        values = self.values[:, rows]
        if np.isnan(values).any():
            return _cells({})
        sizes = np.bincount(systems)
        means = np.stack([np.bincount(systems, weights=row) / sizes for row in values])
        return _cells(self._ceilings(means, None, None))

    def _ceilings(self, values: Array, units: Array | None, contexts: Array | None) -> dict[Kind, Ceiling]:
        level, seed = self.using.level, self.using.seed
        return noise_ceilings(values, units=units, contexts=contexts, confidence=level, seed=seed)


def _cells(found: dict[Kind, Ceiling]) -> Row:
    row: Row = {key: None for name in CEILINGS.values() for key in (name, f"{name}_ci")}
    for kind, one in found.items():
        row |= {CEILINGS[kind]: finite(one.value), f"{CEILINGS[kind]}_ci": pair(one.interval)}
    return row


def split_ratings(ratings: Ratings | None, truth: str) -> tuple[Ratings | None, Ratings | None]:
    """The ratings behind the truth, which are those of the question of its name, and the others."""
    if ratings is None:
        return None, None
    asked = pl.col("question") == truth
    behind, others = (ratings.frame.filter(one) for one in (asked, ~asked))
    return (Ratings(behind) if len(behind) else None), (Ratings(others) if len(others) else None)


def with_truth(task: Task, truth: str, behind: Ratings | None) -> Task:
    """The task with the mean ratings as its truth, where it has no column of that name."""
    if behind is None or truth in task.frame.columns:
        return task
    ((_, means, _),) = human_scores(behind, task.ids)
    return replace(task, frame=task.frame.with_columns(pl.Series(truth, means)))


def rated_truth(
    task: Task, levels: Array, columns: Sequence[str], behind: Ratings | None, using: Inference, notes: list[str]
) -> RatedTruth | None:
    """The ratings behind the truth of a task, from columns of raters or from a table; a note says what they show."""
    if columns:
        if behind is not None:
            raise OptionError(f"{argument('raters')} and ratings of the truth in {argument('ratings')}; expected one")
        names = columns_named(task.frame, columns)
        values = np.stack([numbers_in(task.frame, name, option="raters", file=task.name) for name in names])
    elif behind is None:
        return None
    elif has_pairs(behind.frame):
        notes.append("no ceiling: the ratings behind the truth are of pairs of responses")
        return None
    else:
        ((_, table),) = tables_of(behind)
        place = {item: number for number, item in enumerate(table.items)}
        values = np.full((len(table.raters), len(task)), np.nan)
        known = [(row, place[id]) for row, id in enumerate(task.ids) if id in place]
        rows, items = np.array(known, dtype=np.int64).reshape(-1, 2).T
        values[:, rows] = table.values[:, items]
    if np.isinf(values).any():
        raise DataError("a rating that is infinite; expected finite numbers, or none", file=task.name, option="raters")
    given = ~np.isnan(values)
    counts = given.sum(axis=0)
    rated = counts > 0
    if counts.max(initial=0) < 2:
        notes.append(f"no ceiling{task.where}: no item has two ratings, which would show their noise")
        return None
    means = np.where(given, values, 0.0).sum(axis=0)[rated] / counts[rated]
    same = correlation(means, levels[rated], "pearson") if rated.sum() > 1 else np.nan
    if not same >= _SAME:
        notes.append(
            f"the truth{task.where} is not the mean of its ratings (their correlation is {same:.2f}): the ceiling is "
            "that of the mean"
        )
    numbers = np.unique(counts[rated])
    each = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    notes.append(
        f"ceiling{task.where}: what a metric without any error would correlate with the means of {each} ratings on "
        f"{int(rated.sum())} items, whose reliability it is the root of; of Spearman and Kendall by {SPLITS} random "
        "halves of the ratings"
    )
    return RatedTruth(values, using)
