"""The unit of inference: what is independent of what, found from the data or named by the user.

Sets of one context answer the same question, so the context is drawn, swapped or flipped as a whole. Where a column
names runs (seeds, checkpoints, repeated generations), runs answer the same contexts: both are units, and crossed. Runs
with contexts of their own are units that hold their contexts, and contexts with runs of their own the reverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, argument
from nlgauge.stats.inference import Unit


@dataclass(frozen=True)
class Units:
    """The unit of each value: a number per value, or None where every value is a unit of its own.

    `runs` numbers the runs that are crossed with these units; None where there is one run.
    """

    of: Array | None = None
    runs: Array | None = None
    name: str = "set"

    def __getitem__(self, chosen: Array) -> Units:
        """The units of some of the values."""
        return Units(
            None if self.of is None else self.of[chosen], None if self.runs is None else self.runs[chosen], self.name
        )


def find_units(contexts: Array | None, runs: Array | None, unit: Unit, what: str = "set") -> Units:
    """The units of values whose contexts and runs are known, as labels; `what` has one value."""
    several_runs = runs is not None and len(np.unique(runs)) > 1
    shared = contexts is not None and 1 < len(np.unique(contexts)) < len(contexts)
    if unit == "context" and contexts is None:
        raise DataError(f"{argument('unit', 'context')}, and no contexts are known: name their column", option="unit")
    if unit == "context" and contexts is not None and len(contexts) > 1 == len(np.unique(contexts)):
        raise DataError(f"{argument('unit', 'context')}, and there is one context; expected several", option="unit")
    if unit == "run":
        if not several_runs:
            raise DataError(f"{argument('unit', 'run')}, and there is one run; expected several", option="unit")
        return Units(numbered(runs), None, "run")
    if unit == "set" or not (shared or several_runs):
        return Units(name=what)
    if contexts is None:
        return Units(numbered(runs), None, "run")
    of, made = numbered(contexts), numbered(runs) if several_runs and unit == "auto" else None
    if made is None:
        return Units(of, None, "context")
    cells = len(np.unique(of * (made.max() + 1) + made))
    if cells == made.max() + 1:
        return Units(of, None, "context")
    return Units(made, None, "run") if cells == of.max() + 1 else Units(of, made, "context-x-run")


def numbered(labels: Array | None) -> Array:
    """Labels as numbers from 0, in the order of the labels."""
    found: Array = np.unique(np.asarray(labels), return_inverse=True)[1]
    return found
