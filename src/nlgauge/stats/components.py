"""Variance components of contexts, runs and responses, and which of them to add next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.units import Units, numbered

# An addition that is this close to the best one is as good, and responses cost less than contexts or runs.
_AS_GOOD = 1.1


@dataclass(frozen=True)
class ErrorParts:
    """The squared standard error of a mean or a difference, by where it comes from.

    `cells` is what neither contexts nor runs explain. `responses` is what differs between values of one context and
    run; None where each has one value, and `cells` then contains it. `several_runs` says whether `runs` were seen.
    """

    contexts: float
    runs: float = 0.0
    cells: float = 0.0
    responses: float | None = None
    several_runs: bool = True

    def error(self, *, contexts: float = 1.0, runs: float = 1.0, responses: float = 1.0) -> float:
        """The standard error with so many times as many contexts, runs, and responses per context and run."""
        within = self.cells + (self.responses or 0.0) / responses
        return math.sqrt(self.contexts / contexts + self.runs / runs + within / (contexts * runs))

    @property
    def doubled(self) -> dict[str, float]:
        """The standard error with twice as many of what can be added, the cheapest first."""
        found = {} if self.responses is None else {"responses": self.error(responses=2)}
        found["contexts"] = self.error(contexts=2)
        return {**found, "runs": self.error(runs=2)} if self.several_runs else found

    @property
    def add(self) -> str:
        """What to add next: the cheapest of those that shrink the error as much as the best does."""
        best = min(self.doubled.values())
        return next(name for name, error in self.doubled.items() if error <= _AS_GOOD * best)

    @property
    def words(self) -> str:
        """The advice as a sentence."""
        shown = ", ".join(f"{error:.2g} with twice the {name}" for name, error in self.doubled.items())
        return f"the standard error is {self.error():.2g}, and would be {shown}; add {self.add} next"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: shares of the squared error, and the errors after each addition."""
        whole = self.error() ** 2
        parts = {"contexts": self.contexts, "runs": self.runs, "cells": self.cells, "responses": self.responses}
        shares = {name: part / whole for name, part in parts.items() if part is not None and whole}
        return {"error": self.error(), "shares": shares, "error_with_twice": self.doubled, "add": self.add}


@dataclass(frozen=True)
class Components:
    """Variances of contexts, of runs, of what they do not explain, and of values within a context and run."""

    contexts: float
    runs: float
    cells: float
    responses: float | None


def variance_components(values: Array, units: Units) -> Components | None:
    """Moments over pairs of values, by whether they share context and run: unbiased also where sizes differ.

    The same as the analysis of variance where sizes are equal. None where no pairs show one of them.
    """
    of, runs = _labels(values, units)
    deviations = values - values.mean()
    of_cells = of * (runs.max() + 1) + runs
    same_context, same_run, same_cell = (_half_squares(deviations, labels) for labels in (of, runs, of_cells))
    within = _mean(same_cell)
    if not runs.max():
        others = _mean(_half_squares(deviations, np.zeros_like(of)) - same_context)
        found = [others - (within or 0.0), 0.0, 0.0] if others is not None else None
    else:
        neither = _mean(_half_squares(deviations, np.zeros_like(of)) - same_context - same_run + same_cell)
        other_run, other_context = _mean(same_context - same_cell), _mean(same_run - same_cell)
        if neither is None or other_run is None or other_context is None:
            return None
        of_cell = other_run + other_context - neither - (within or 0.0)
        found = [neither - other_run, neither - other_context, of_cell]
    if found is None:
        return None
    contexts, of_runs, cells = (max(0.0, one) for one in found)
    return Components(contexts, of_runs, cells, within)


def error_parts(sides: Sequence[tuple[Array, Units]], *, paired: bool = True) -> ErrorParts | None:
    """What the squared error of a mean (one side) or of a difference of two means comes from.

    `paired` sides share contexts, whose common part falls out; runs are each side's own.
    """
    known = [variance_components(values, units) for values, units in sides]
    labels = [_labels(values, units) for values, units in sides]
    total = np.zeros(4)
    for one, (of, runs) in zip(known, labels, strict=True):
        if one is None:
            return None
        cells = of * (runs.max() + 1) + runs
        spread = [_concentration(of), _concentration(runs), _concentration(cells), 1 / len(of)]
        total += np.array([one.contexts, one.runs, one.cells, one.responses or 0.0]) * spread
    if paired and len(sides) > 1:
        total[0] = max(0.0, total[0] - 2 * _shared(*sides))
    within = None if all(one is None or one.responses is None for one in known) else float(total[3])
    several = any(bool(runs.max()) for _, runs in labels)
    return ErrorParts(float(total[0]), float(total[1]), float(total[2]), within, several)


def _labels(values: Array, units: Units) -> tuple[Array, Array]:
    of = np.arange(len(values)) if units.of is None else numbered(units.of)
    return of, np.zeros(len(values), np.int64) if units.runs is None else numbered(units.runs)


def _half_squares(values: Array, labels: Array) -> Array:
    """Half the squared differences of all pairs that share a label, added up, and the number of those pairs."""
    sizes = np.bincount(labels)
    squares, sums = np.bincount(labels, weights=values**2), np.bincount(labels, weights=values)
    return np.array([float((sizes * squares - sums**2).sum()) / 2, float((sizes * (sizes - 1)).sum()) / 2])


def _mean(found: Array) -> float | None:
    return float(found[0] / found[1]) if found[1] > 0 else None


def _concentration(labels: Array) -> float:
    """One over the number of equal groups that would do as well."""
    return float(np.square(np.bincount(labels) / len(labels)).sum())


def _shared(one: tuple[Array, Units], two: tuple[Array, Units]) -> float:
    """The covariance of two means that contexts with the same labels bring about."""
    first, second = one[0] - one[0].mean(), two[0] - two[0].mean()
    of = [_labels(*side)[0] for side in (one, two)]
    size = int(max(labels.max() for labels in of)) + 1
    sums = [np.bincount(labels, values, size) for labels, values in zip(of, (first, second), strict=True)]
    counts = [np.bincount(labels, minlength=size).astype(np.float64) for labels in of]
    same, pairs = float(sums[0] @ sums[1]), float(counts[0] @ counts[1])
    others = len(first) * len(second) - pairs
    if not pairs or not others:
        return 0.0
    covariance = same / pairs - (float(first.sum() * second.sum()) - same) / others
    return covariance * pairs / (len(first) * len(second))
