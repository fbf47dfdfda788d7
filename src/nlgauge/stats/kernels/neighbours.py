"""Leave-one-out error of a nearest-neighbour classifier, and its resamples.

The classifier of HUSE (Hashimoto et al. 2019, section 4.1 and Algorithm 1): features are divided by their standard
deviation (the population's, over all items, the one left out among them), the k nearest of the other items vote, and a
tied vote goes to "human". The neighbours of an item are all others at most as far as the k-th nearest other: the item
itself is not a neighbour and does not count among the k, and all items at the distance of the k-th vote. Twice the
error with both features is HUSE, with the judgment alone HUSE-Q.

Which distances count as equal matters. Mean ratings lie on a grid, so that many distances are equal, but
their rounded values are not. `ties="equal"` takes distances as equal that differ by less than one part in 10^9, or by
less than the rounding of the features themselves (10^-13 of the largest): what exact arithmetic would say.
`ties="computed"` compares squared distances as double precision gives them, as the authors' released code does, and the
printed numbers need it: on their summarization data, HUSE-Q is .58 as printed, but .60 when equal distances are equal.
That .58 depends on rounding: a standard deviation larger by one unit in its last place gives .60, by two .62, and so
does 1 added to every rating, which changes nothing when equal distances are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.stats.correlation import group_numbers

Ties = Literal["equal", "computed"]

_TOLERANCES = {"equal": (1e-9, 1e-13), "computed": (0.0, 0.0)}
_LISTED = {"copies": 4, "halves": 5}
_ROWS_AT_ONCE = 20_000
_WEIGHTS_AT_ONCE = 500_000


@dataclass(frozen=True)
class LeaveOneOut:
    """How the neighbours of every item voted.

    `votes` are the neighbours of each item, `votes_model` those of them that are the model's.
    """

    votes_model: Array
    votes: Array
    is_model: Array

    @cached_property
    def predicted_model(self) -> Array:
        """Which items are taken for the model's: those with more than half of the votes."""
        predicted: Array = 2 * self.votes_model > self.votes
        return predicted

    @cached_property
    def wrong(self) -> Array:
        """Which items are predicted wrongly."""
        wrong: Array = self.predicted_model != self.is_model
        return wrong

    @property
    def error(self) -> float:
        """The share of items predicted wrongly."""
        return int(np.count_nonzero(self.wrong)) / len(self.wrong)


def leave_one_out(features: Array, is_model: Array, *, k: int = 16, ties: Ties = "equal") -> LeaveOneOut:
    """Predict every item's side from its nearest neighbours among the others; features are items x features."""
    from nlgauge.stats.kernels.neighbour_kernels import MODEL, gather

    points, labels = _checked(features, is_model, k)
    lists = _NeighbourLists.of(points, ties=ties, length=k + 10)
    weights = 1 + MODEL * labels.astype(np.int64)
    while True:
        short = np.zeros(len(lists.points), dtype=np.bool_)
        found = gather(weights, lists.place, *lists.arrays, k, short)
        if not short.any():
            return LeaveOneOut(votes_model=found // MODEL, votes=found % MODEL, is_model=labels)
        lists.lengthen(np.flatnonzero(short))


def resample_errors(
    found: Sequence[LeaveOneOut],
    *,
    groups: Array | None = None,
    by_class: bool = True,
    resamples: int = 1000,
    seed: int = 12345,
) -> Array:
    """Twice the error in resamples of the errors already made (one row for each of `found`, one column per resample).

    Items are drawn with replacement, each with the errors that it has in all of `found`: with those of both features
    and of the judgment alone, the rows are HUSE and HUSE-Q of the same draws. No neighbour is looked for again. Items
    are drawn within each class (the design fixes how many there are), or from all when `by_class` is false. With
    `groups`, one label per item, whole groups are drawn, whatever the classes.

    What is drawn is how many items of each pattern of errors there are (a multinomial number), so that neither the
    number of items nor their order matters.
    """
    _check_resamples(resamples)
    labels = _shared_labels(found)
    wrong = np.stack([one.wrong for one in found])
    rng = np.random.default_rng(seed)
    if groups is not None:
        numbers = group_numbers(groups, len(labels))
        sizes = np.bincount(numbers)
        made = np.stack([np.bincount(numbers[row], minlength=len(sizes)) for row in wrong])
        blocks = []
        for rows in _blocks(resamples, len(sizes)):
            drawn = rng.integers(0, len(sizes), (rows, len(sizes)))
            blocks.append(made[:, drawn].sum(axis=2) / sizes[drawn].sum(axis=1))
        return 2 * np.concatenate(blocks, axis=1)
    drawn_wrong = np.zeros((len(wrong), resamples))
    for members in [~labels, labels] if by_class else [np.ones(len(labels), dtype=np.bool_)]:
        patterns, counts = np.unique(wrong[:, members], axis=1, return_counts=True)
        drawn_counts = rng.multinomial(counts.sum(), counts / counts.sum(), size=resamples)
        drawn_wrong += patterns.astype(np.float64) @ drawn_counts.T
    return 2 * drawn_wrong / len(labels)


def resample_items(
    features: Sequence[Array],
    is_model: Array,
    *,
    k: int = 16,
    ties: Ties = "equal",
    groups: Array | None = None,
    by_class: bool = True,
    resamples: int = 1000,
    seed: int = 12345,
) -> Array:
    """Twice the error in resamples of the items, with new neighbours in each (one row for each of `features`).

    Items are drawn as in `resample_errors`, the same for all feature maps. All copies of an item are left out together:
    a copy would be a neighbour at distance 0 that always votes for the right class. An item drawn three times
    counts three times, as a neighbour and as an item to predict; where fewer than k others were drawn, all of them
    vote. Features keep the scale that they have in the full sample.

    With copies among the neighbours, fewer different items vote, so that resamples err more than the full sample does.
    """
    draw = Draw("copies", groups, by_class=by_class, resamples=resamples, seed=seed)
    return 2 * draw.errors(features, is_model, k=k, ties=ties)


def resample_halves(
    features: Sequence[Array],
    is_model: Array,
    *,
    k: int = 16,
    ties: Ties = "equal",
    groups: Array | None = None,
    by_class: bool = True,
    resamples: int = 1000,
    seed: int = 12345,
) -> Array:
    """Twice the error in halves of the items, moved so that their mean is the full sample's: for intervals.

    Half of the items of each class (or of all, or of the groups) are drawn without replacement, and neighbours searched
    again. A half differs from the whole about as much as the whole from the population. No item is duplicated, so that
    k neighbours are k different items. Rows and options are those of `resample_items`. Recommended: intervals of 95 %
    from these values hold what HUSE estimates 95 to 99 % of the time; those of the other two ways are off by more
    (`docs/papers/huse_coverage.md`, which says too how far HUSE itself is biased).
    """
    size = len(np.asarray(is_model))
    if size < 2 * (k + 1):
        raise DataError(
            f"{size} items; expected at least {2 * (k + 1)}, so that items of a half have {k} neighbours: add items or "
            "lower k"
        )
    draw = Draw("halves", groups, by_class=by_class, resamples=resamples, seed=seed)
    found = draw.errors(features, is_model, k=k, ties=ties)
    whole = np.array([leave_one_out(one, is_model, k=k, ties=ties).error for one in features])
    moved: Array = 2 * (found - found.mean(axis=1, keepdims=True) + whole[:, None])
    return moved


@dataclass(frozen=True)
class Draw:
    """How items are drawn: with replacement ("copies"), or half of them without ("halves")."""

    kind: Literal["copies", "halves"]
    groups: Array | None = None
    by_class: bool = True
    resamples: int = 1000
    seed: int = 12345

    def __post_init__(self) -> None:
        _check_resamples(self.resamples)

    def errors(self, features: Sequence[Array], is_model: Array, *, k: int = 16, ties: Ties = "equal") -> Array:
        """The error of every feature map (rows) in every draw (columns)."""
        from nlgauge.stats.kernels.neighbour_kernels import resampled_errors

        if not features:
            raise DataError("no feature maps; expected at least one, such as the array of both features")
        checked = [_checked(one, is_model, k) for one in features]
        order = self.order(features, is_model)
        labels = checked[0][1][order]
        length = _LISTED[self.kind] * k
        maps = [_NeighbourLists.of(points[order], ties=ties, length=length) for points, _ in checked]
        blocks = []
        for weights in self.weights(labels, order):
            errors = np.full((len(maps), len(weights)), np.nan)
            for line, lists in zip(errors, maps, strict=True):
                members = lists.items, lists.place[lists.items], labels[lists.items]
                while (left := np.isnan(line)).any():
                    line[left], short = resampled_errors(weights[left], *members, *lists.arrays, k)
                    lists.lengthen(np.flatnonzero(short))
            blocks.append(errors)
        return np.concatenate(blocks, axis=1)

    def order(self, features: Sequence[Array], is_model: Array) -> Array:
        """An order of items, humans before models, that does not depend on their input order."""
        return np.lexsort((*(column for one in features for column in np.asarray(one).T), is_model))

    def weights(self, labels: Array, order: Array) -> Iterator[Array]:
        """How often each item counts, some resamples at a time, for labels in that order."""
        from nlgauge.stats.kernels.neighbour_kernels import choose_halves, count_drawn

        size, humans = len(labels), int(np.count_nonzero(~labels))
        numbers = None if self.groups is None else group_numbers(self.groups, size)[order]
        if numbers is not None:
            bounds = [0, int(numbers.max()) + 1]
        else:
            bounds = [0, humans, size] if self.by_class else [0, size]
        generators = np.random.default_rng(self.seed).spawn(len(bounds) - 1)
        done = 0
        for rows in _blocks(self.resamples, size):
            weights = np.zeros((rows, bounds[-1]), dtype=np.int32)
            for (start, stop), rng in zip(pairwise(bounds), generators, strict=True):
                part = weights[:, start:stop]
                if self.kind == "copies":
                    count_drawn(rng.integers(0, stop - start, part.shape), part)
                else:
                    choose_halves(rng.random(part.shape), done, part)
            done += rows
            yield weights if numbers is None else np.ascontiguousarray(weights[:, numbers])


class _NeighbourLists:
    """For every place, the nearest places by distance; lists are extended on demand.

    `points` are the places, `place` says where each item lies, and `items` are sorted by it.
    """

    def __init__(
        self, points: Array, place: Array, items: Array, *, tolerances: tuple[float, float], length: int
    ) -> None:
        from scipy.spatial import cKDTree

        self.points, self.place, self.items = points, place, items
        self._tree = cKDTree(points)
        relative, absolute = tolerances
        self._tolerances = relative, absolute * float(np.abs(points).max())
        self._begins = np.zeros(len(points), dtype=np.int64)
        self._stops = np.zeros(len(points), dtype=np.int64)
        self._near, self._ends = np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.int32)
        self._look_up(np.arange(len(points)), length)

    @classmethod
    def of(cls, points: Array, *, ties: Ties, length: int) -> _NeighbourLists:
        """Lists of the different points among the items'."""
        if ties not in _TOLERANCES:
            raise UnknownName.among("choice of ties", ties, _TOLERANCES)
        order = np.lexsort(points.T)
        ascending = points[order]
        new = np.ones(len(points), dtype=np.bool_)
        new[1:] = (ascending[1:] != ascending[:-1]).any(axis=1)
        place = np.empty(len(points), dtype=np.int64)
        place[order] = np.cumsum(new) - 1
        return cls(np.ascontiguousarray(ascending[new]), place, order, tolerances=_TOLERANCES[ties], length=length)

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Where each place's list begins and stops, and all lists with their ends."""
        return self._begins, self._stops, self._near, self._ends

    def lengthen(self, which: Array) -> None:
        """Give these places lists of at least twice the length; other lists stay unchanged."""
        if len(which):
            self._look_up(which, 2 * int((self._stops - self._begins)[which].max()))

    def _look_up(self, which: Array, length: int) -> None:
        from nlgauge.stats.kernels.neighbour_kernels import sort_lists

        length = min(length, len(self.points))
        rows = max(1, _ROWS_AT_ONCE * 64 // length)
        nears, ends = [self._near], [self._ends]
        for start in range(0, len(which), rows):
            places = which[start : start + rows]
            near = self._tree.query(self.points[places], k=np.arange(1, length + 1))[1]
            near, end = sort_lists(self.points, places, near, *self._tolerances)
            nears.append(near.ravel())
            ends.append(end.ravel())
        self._begins[which] = len(self._near) + length * np.arange(len(which))
        self._stops[which] = self._begins[which] + length
        self._near, self._ends = np.concatenate(nears), np.concatenate(ends)


def _blocks(resamples: int, size: int) -> Iterator[int]:
    """How many resamples to do at a time."""
    block = max(1, _WEIGHTS_AT_ONCE // size)
    for start in range(0, resamples, block):
        yield min(block, resamples - start)


def _checked(features: Array, is_model: Array, k: int) -> tuple[Array, Array]:
    """Features on one scale, and labels."""
    if k < 1:
        raise OptionError(f"k = {k}; expected at least 1 neighbour, such as 16")
    values, labels = np.asarray(features, dtype=np.float64), np.asarray(is_model)
    if values.ndim != 2 or labels.shape != values.shape[:1] or not values.shape[1]:
        raise DataError(
            f"features of shape {values.shape} and labels of shape {labels.shape}; expected one row of features and "
            "one label per item"
        )
    if labels.dtype != np.bool_:
        raise DataError(f"labels of type {labels.dtype}; expected true for the model's items and false for the others")
    if len(labels) <= k:
        raise DataError(f"{len(labels)} items; expected at least {k + 1} for {k} neighbours: add items or lower k")
    if labels.all() or not labels.any():
        raise DataError("items of one side only; expected human and model items")
    if not np.isfinite(values).all():
        column = int(np.flatnonzero(~np.isfinite(values).all(axis=0))[0])
        raise DataError(f"feature {column} has values that are not finite; expected a number for every item")
    return np.stack([_scaled(column, number) for number, column in enumerate(values.T)], axis=1), labels


def _scaled(column: Array, number: int) -> Array:
    """A feature over its standard deviation, taken of sorted values so that their order does not matter."""
    if column.min() == column.max():
        raise DataError(
            f"feature {number} is {column[0]:g} for every item; expected one that varies between items: leave it out"
        )
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        deviation = np.sort(column).std()
        scaled: Array = column / deviation
    if not (deviation > 0 and np.isfinite(deviation) and np.isfinite(scaled).all()):
        raise DataError(
            f"feature {number} has a standard deviation of {deviation:g}; expected one that double precision can hold: "
            "use other units"
        )
    return scaled


def _shared_labels(found: Sequence[LeaveOneOut]) -> Array:
    if not found:
        raise DataError("no results to resample; expected at least one of `leave_one_out`")
    labels = found[0].is_model
    if any(not np.array_equal(one.is_model, labels) for one in found):
        raise DataError("results on different items; expected all of `leave_one_out` on the same items in one order")
    return labels


def _check_resamples(resamples: int) -> None:
    if resamples < 1:
        raise OptionError(f"{resamples} resamples; expected at least 1")
