"""How many contexts, runs, values or ratings find a difference of a given size, from the spread of those at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from nlgauge.data.tables import Ratings
from nlgauge.errors import DataError
from nlgauge.metrics.score import Score
from nlgauge.scoring.compared import SIGNIFICANT, Comparison
from nlgauge.scoring.comparison import compare_systems
from nlgauge.scoring.pairing import Side, one_side, shared_sides
from nlgauge.stats.components import ErrorParts, error_parts
from nlgauge.stats.inference import Comparing
from nlgauge.stats.jackknife import jackknife_error
from nlgauge.stats.means import mean_of
from nlgauge.stats.power import (
    POWER,
    fewest,
    planned_difference,
    power_range,
    smallest_difference,
    spread_freedom,
    units_needed,
)
from nlgauge.stats.units import find_units

_ROUNDING = 1e-12
_LEAST = {"contexts": 2, "runs": 2, "per_context": 1}
Number = TypeVar("Number", float, int | None)


@dataclass(frozen=True)
class Needed:
    """What an experiment has and what it needs, by what can be added while the rest stays as it is.

    `needs` has None where that alone cannot do it, and is empty where nothing shows the error; `together` adds contexts
    and runs in the proportion that they have. `reach` is the
    difference that is found now, or half of the interval. The true power of a plan lies in `power_range` for four of
    five pilots like this one, whose spread is an estimate; None of an interval. `simulated` plans went through the test
    itself, others through Student's t. Of samples (`paired` is false), contexts are those of both systems together.
    """

    metric: str
    label: str
    systems: tuple[str, ...]
    value: float
    error: float
    reach: float
    has: Mapping[str, float]
    needs: Mapping[str, int | None]
    power_range: tuple[float, float] | None = None
    simulated: bool = False
    paired: bool = True
    together: Mapping[str, int | None] | None = None
    signature: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON; a number that is not finite is null there."""
        return {
            name: None if isinstance(one, float) and not math.isfinite(one) else one for name, one in vars(self).items()
        }


@dataclass(frozen=True)
class _Design:
    """An error and the numbers that it comes from: contexts, and runs and values per context and run where known.

    Means take `lost` degrees of freedom, `sides` have runs of their own, and `groups` are those of a jackknife.
    `unit` is what `contexts` are for readers.
    """

    error: float
    has: Mapping[str, float]
    parts: ErrorParts
    unit: str = "contexts"
    lost: int = 1
    sides: int = 1
    groups: int = 0

    def at(self, **numbers: float) -> tuple[float, float]:
        """The error and its degrees of freedom with other numbers."""
        contexts, runs, each = (numbers[name] / self.has[name] if name in numbers else 1.0 for name in _LEAST)
        error = self.parts.error(contexts=contexts, runs=runs, responses=each)
        free = max(1.0, (self.groups or contexts * self.has["contexts"]) - self.lost)
        if "runs" in self.has:
            within = (self.parts.cells + (self.parts.responses or 0.0) / each) / (contexts * runs)
            of_contexts, of_runs = self.parts.contexts / contexts + within, self.parts.runs / runs + within
            free_runs = self.sides * (runs * self.has["runs"] - 1)
            free = error**4 / (of_contexts**2 / free + of_runs**2 / free_runs)
        return self.error * error / self.parts.error(), free

    def needs(self, wanted: float, reach: Callable[[float, float], float]) -> dict[str, int | None]:
        """The fewest of each that bring the reach of error and freedom to what is wanted."""

        def enough(axis: str, number: int) -> bool:
            return reach(*self.at(**{axis: number})) <= wanted

        least = {**_LEAST, "contexts": 2 * self.lost}
        return {axis: fewest(partial(enough, axis), least[axis]) for axis in self.has}

    def together(self, wanted: float, reach: Callable[[float, float], float]) -> dict[str, int | None] | None:
        """The fewest contexts where runs grow with them; None where there are no several runs."""
        if "runs" not in self.has:
            return None
        each = self.has["runs"] / self.has["contexts"]

        def enough(contexts: int) -> bool:
            return reach(*self.at(contexts=contexts, runs=max(2, math.ceil(contexts * each)))) <= wanted

        contexts = fewest(enough, 2 * self.lost)
        return {"contexts": contexts, "runs": contexts and max(2, math.ceil(contexts * each))}

    def named(self, numbers: Mapping[str, Number]) -> dict[str, Number]:
        """Numbers by names for readers."""
        return {self.unit if name == "contexts" else name: number for name, number in numbers.items()}


def needed_to_detect(
    scores: Sequence[Score], difference: float, how: Comparing, *, power: float = POWER, paired: bool = True
) -> list[Needed]:
    """What every comparison with the first system needs; of one system, what an interval of so much to either side."""
    if len({one.system for one in scores}) < 2:
        made = [replace(_for_score(one, difference, how), signature=str(one.signature)) for one in scores]
        return _planned(made)
    known = {(one.system, one.label): one for one in scores}
    return _planned(
        [
            _for_comparison(
                one, known[one.first, one.metric_label], known[one.second, one.metric_label], difference, how, power
            )
            for one in compare_systems(scores, how, paired=paired)
        ]
    )


def _planned(found: list[Needed]) -> list[Needed]:
    """The same; an error if nothing varies, so that there is no error to plan with."""
    if not any(one.needs for one in found):
        raise DataError(
            f"no value of {', '.join(dict.fromkeys(one.label for one in found))} varies between contexts, so nothing "
            "shows an error to plan with; expected a pilot with at least two contexts that differ"
        )
    return found


def needed_ratings(ratings: Ratings, half: float, how: Comparing) -> list[Needed]:
    """How many items, or ratings per item, give the mean of each question an interval of so much to either side.

    More ratings per item are those of more raters, each with as many items as before. More items have the same raters
    where these rated all items, else more of them.
    """
    found = []
    for (question,), mine in ratings.frame.sort("item", "rater", "value").group_by("question", maintain_order=True):
        units = find_units(mine["item"].to_numpy(), mine["rater"].to_numpy(), "auto")
        if units.of is None or units.name == "run":
            raise DataError(
                f"no item has two ratings of '{question}'; expected some, to see how much raters differ",
                file=ratings.origin.file,
            )
        made = _for_values((str(question), str(question)), Side(mine["value"].to_numpy(), units), half, how)
        if made.needs and len(mine.select("item", "rater").unique()) < made.has["contexts"] * mine["rater"].n_unique():
            design = _plain(made.error, int(made.has["contexts"]), "contexts")
            more = _for_interval((made.metric, made.label), made.value, design, half, how)
            made = replace(made, needs={**made.needs, **more.needs}, together=None)
        found.append(_as_ratings(made, len(mine)))
    return _planned(found)


def _as_ratings(made: Needed, ratings: int) -> Needed:
    """Contexts are items; runs are raters, who are as many times more as ratings per item are."""
    more = "runs" if "runs" in made.has else "per_context"
    items = made.has["contexts"]

    def named(needs: Mapping[str, int | None]) -> dict[str, int | None]:
        number = needs.get(more)
        each = None if number is None else math.ceil(ratings / items * number / made.has[more])
        return {"items": needs.get("contexts"), "ratings_per_item": each}

    has = {"items": items, "ratings_per_item": ratings / items}
    needs, together = (named(part) if part else part for part in (made.needs, made.together))
    return replace(made, has=has, needs=needs or {}, together=together)


def _for_score(score: Score, half: float, how: Comparing) -> Needed:
    names, left = (score.name, score.label, score.system), score.left_out
    if score.items is not None:
        side = one_side(score, how)
        return _for_values(names, side, half, how, _named_unit(side.units.name, score))
    error = math.nan if left is None else jackknife_error(score.value, left)
    return _for_interval(names, score.value, _of_corpus(error, score.n, 0 if left is None else len(left)), half, how)


def _for_values(names: tuple[str, ...], side: Side, half: float, how: Comparing, unit: str = "contexts") -> Needed:
    mean = mean_of(side.values, side.units)
    return _for_interval(names, mean.value, _design(mean.error, [side], unit), half, how)


def _for_interval(names: tuple[str, ...], value: float, design: _Design, half: float, how: Comparing) -> Needed:
    from scipy.special import stdtrit

    def reach(error: float, freedom: float) -> float:
        return float(stdtrit(freedom, (1 + how.level) / 2)) * error

    metric, label, *systems = names
    made = Needed(metric, label, tuple(systems), value, design.error, math.nan, design.named(design.has), {})
    if not _varies(design.error, value):
        return made
    needs, together = design.named(design.needs(half, reach)), design.together(half, reach)
    return replace(made, reach=reach(*design.at()), needs=needs, together=together)


def _for_comparison(
    one: Comparison, first: Score, second: Score, difference: float, how: Comparing, power: float
) -> Needed:
    units, alpha = one.evidence, one.alpha
    if one.smallest_p >= SIGNIFICANT:  # max-T shows no correction where nothing can be significant
        alpha = SIGNIFICANT / (1 if how.correction == "none" else one.family)
    design = _design_of(one, first, second, how)

    made = Needed(
        metric=one.metric,
        label=one.metric_label,
        systems=(one.first, one.second),
        value=one.difference,
        error=one.error,
        reach=math.nan,
        has=design.named(design.has),
        needs={},
        simulated=units is not None,
        paired=one.paired,
        signature=one.signature,
    )
    if not _varies(one.error, max(abs(one.first_value), abs(one.second_value))):
        return made
    pilot = design.at()[1] if units is None else spread_freedom(units.sums, units.sizes)

    def reach(error: float, freedom: float) -> float:
        return planned_difference(error, freedom, alpha, power, pilot=pilot)

    if units is None:
        found, needs = reach(*design.at()), design.needs(difference, reach)
    else:
        found = smallest_difference(units.sums, units.sizes, alpha, power=power, critical=units.critical, seed=how.seed)
        needs = design.needs(difference, lambda error, _: found * error / one.error)
        needs["contexts"] = units_needed(units.sums, units.sizes, alpha, difference, power=power, seed=how.seed)
    return replace(
        made,
        reach=found,
        needs=design.named(needs),
        together=design.together(difference, reach),
        power_range=power_range(pilot, alpha, power),
    )


def _design_of(one: Comparison, first: Score, second: Score, how: Comparing) -> _Design:
    """The numbers that a comparison comes from."""
    if one.level == "corpus":
        return _of_corpus(one.error, min(first.n, second.n), one.units)
    unit = _named_unit(one.unit, first)
    if not one.paired:
        return _design(one.error, [one_side(first, how), one_side(second, how)], unit, paired=False)
    sides = shared_sides(first, second) if one.unit.startswith("context") else None
    if sides is None:
        return _plain(one.error, one.units, unit)
    if one.evidence is None:
        return _design(one.error, sides, unit)
    design = _design(one.error, [replace(side, units=replace(side.units, runs=None)) for side in sides], unit)
    return replace(design, has={**design.has, "contexts": one.units})


def _design(error: float, sides: Sequence[Side], unit: str, *, paired: bool = True) -> _Design:
    """The numbers of sides, which share contexts where they are `paired`."""
    of = [np.arange(len(side.values)) if side.units.of is None else side.units.of for side in sides]
    runs = [np.zeros(len(side.values)) if side.units.runs is None else side.units.runs for side in sides]
    numbers = [len(np.unique(labels)) for labels in of]
    contexts, lost = (numbers[0], 1) if paired else (sum(numbers), len(sides))
    parts = error_parts([(side.values, side.units) for side in sides], paired=paired)
    if unit == "runs" or parts is None or not parts.error() > 0:
        return replace(_plain(error, contexts, unit), lost=lost)
    has: dict[str, float] = {"contexts": contexts}
    if parts.several_runs:
        has["runs"] = max(len(np.unique(labels)) for labels in runs)
    if parts.responses is not None:
        cells = sum(len(np.unique(np.stack(pair), axis=1).T) for pair in zip(of, runs, strict=True))
        has["per_context"] = sum(map(len, of)) / cells
    return _Design(error, has, parts, unit, lost=lost, sides=len(sides))


def _plain(error: float, units: int, unit: str, groups: int = 0) -> _Design:
    """An error that falls with the root of the number of units, and nothing else."""
    return _Design(error, {"contexts": units}, ErrorParts(error**2, several_runs=False), unit, groups=groups)


def _of_corpus(error: float, texts: int, groups: int) -> _Design:
    return _plain(error, texts, "texts", groups)


def _named_unit(unit: str, score: Score) -> str:
    """What units are for readers: sets are contexts where each has one of its own."""
    if unit != "set":
        return "runs" if unit == "run" else "contexts"
    contexts = None if score.items is None else score.items.contexts()
    return "contexts" if contexts is not None and len(np.unique(contexts)) == len(contexts) else "sets"


def _varies(error: float, size: float) -> bool:
    """Whether there is more of an error than rounding; false where it is not a number."""
    return error > _ROUNDING * abs(size)
