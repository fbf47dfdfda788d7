"""How small a difference so many contexts can show, and how many would show the one that was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlgauge.metrics.score import Score
from nlgauge.scoring.compared import SIGNIFICANT, Comparison
from nlgauge.stats.components import ErrorParts, error_parts
from nlgauge.stats.power import POWER, formula_difference, smallest_difference
from nlgauge.stats.units import find_units

__all__ = ["POWER", "Power", "parts_of", "power_of", "what_next"]


@dataclass(frozen=True)
class Power:
    """The smallest true difference that would be found significant in four of five such experiments.

    `contexts` is how many contexts would show the observed difference as often; None where there is none to show.
    """

    smallest: float
    contexts: int | None


def power_of(comparison: Comparison, seed: int = 12345) -> Power | None:
    """By simulation with the test and the correction of this comparison where it has differences of units.

    Else from Student's t. None where so few units can show nothing at all, and where nothing shows the error: systems
    that do not differ anywhere.
    """
    if not comparison.error > 0 or comparison.smallest_p >= SIGNIFICANT or comparison.units < 2:
        return None
    known, alpha = comparison.evidence, comparison.alpha
    if known is None:
        smallest = formula_difference(comparison.error, comparison.units - 1, alpha)
    else:
        smallest = smallest_difference(known.sums, known.sizes, alpha, critical=known.critical, seed=seed)
    if not math.isfinite(smallest):
        return None
    if comparison.difference == 0:
        return Power(smallest, None)
    return Power(smallest, max(2, math.ceil(comparison.units * (smallest / comparison.difference) ** 2)))


def what_next(scores: Sequence[Score], comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """What to add next, contexts, runs or responses, where runs are known: of differences, or else of means."""
    about = [(f"{one.second} minus {one.first}", one.metric_label, one.parts) for one in comparisons]
    if not comparisons:
        about = [(one.system, one.label, parts_of(one)) for one in scores if one.ci is not None]
    return tuple(
        f"{label}{of and f' of {of}'}: {parts.words}" for of, label, parts in about if parts and parts.several_runs
    )


def parts_of(score: Score) -> ErrorParts | None:
    """Where the error of a mean over sets comes from, by contexts, runs and what they hold; None of a corpus."""
    if score.items is None:
        return None
    values = score.items.all_values()
    defined = ~np.isnan(values)
    units = find_units(score.items.contexts(), score.items.runs(), "auto")[defined]
    return error_parts([(values[defined], units)])
