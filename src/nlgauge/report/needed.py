"""What an experiment needs to find a difference, and what a run costs, as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import polars as pl

from nlgauge.report.tables import Sheet, flat_frame, number, one_line
from nlgauge.schema import stamped
from nlgauge.scoring.costs import Plan
from nlgauge.scoring.detecting import Needed


def estimate_sheet(plan: Plan, workers: int) -> Sheet:
    """One line per resource."""
    header, rows = ["what", "estimate", "range"], plan.rows(workers)
    frame = pl.DataFrame(rows, schema=header, orient="row")
    return Sheet(header, rows, [], frame, stamped("estimate", plan.to_dict()))


def needed_sheet(found: Sequence[Needed], wanted: float, power: float) -> Sheet:
    """One line per comparison, per score or per question of ratings."""
    axes = list(dict.fromkeys(axis for one in found for axis in one.has))
    differences = len(found[0].systems) > 1
    sides = ["first", "second"] if differences else ["system"] if found[0].systems else []
    header = [
        "metric",
        *sides,
        *(["difference", "error", "finds"] if differences else ["value", "error", "half width"]),
    ]
    header += [*(axis.replace("_", " ") for axis in axes), *(["power"] if differences else [])]
    rows, flat = [], []
    for one in found:
        cells = [one.label, *map(one_line, one.systems), number(one.value), _known(one.error), _known(one.reach)]
        low, high = one.power_range or (None, None)
        chance = ["-" if low is None or high is None else f"{low:.0%} to {high:.0%}"] if differences else []
        rows.append([*cells, *(_cell(one, axis) for axis in axes), *chance])
        flat.append(
            {"metric": one.label, **dict(zip(sides, one.systems, strict=True))}
            | {name: one.to_dict()[name] for name in ("value", "error", "reach")}
            | {axis: one.has.get(axis) for axis in axes}
            | {f"{axis}_needed": one.needs.get(axis) for axis in axes}
            | ({"power_low": low, "power_high": high, "simulated": one.simulated} if differences else {})
        )
    notes = tuple(_notes(found, wanted, power))
    document = {"detect": wanted, "power": power, "needed": [one.to_dict() for one in found], "notes": notes}
    signatures = list(dict.fromkeys(one.signature for one in found if one.signature))
    return Sheet(header, rows, signatures, flat_frame(flat), stamped("needed", document), notes)


def _known(value: float) -> str:
    return number(value) if math.isfinite(value) else "-"


def _cell(one: Needed, axis: str) -> str:
    if axis not in one.needs:
        return "-"
    needed = one.needs[axis]
    return f"{'not alone' if needed is None else f'{needed:,}'} (now {one.has[axis]:.4g})"


def _notes(found: Sequence[Needed], wanted: float, power: float) -> Iterator[str]:
    """What the numbers mean, where a reader may take them for something else."""
    if constant := ", ".join(dict.fromkeys(one.label for one in found if not one.needs)):
        yield f"values of {constant} do not vary between contexts, so nothing shows their error"
    for one in found:
        if one.together is not None and set(one.needs.values()) == {None}:
            both = [f"{many:,} {name.replace('_', ' ')}" for name, many in one.together.items() if many]
            yield f"{one.label}: none alone is enough; {' with '.join(both)} are"
    if len(found[0].systems) < 2:
        other = "" if not found[0].systems else "; a difference needs a pilot of the other system, too"
        yield f"numbers are for an interval of {wanted:g} to either side of the mean{other}"
        return
    yield f"numbers are for finding a true difference of {wanted:g} in {power:.0%} of experiments"
    yield "power: where it really lies for four of five pilots like this one, whose spread is an estimate"
    if by_formula := ", ".join(dict.fromkeys(one.label for one in found if not one.simulated)):
        yield f"from Student's t, without simulation: {by_formula}"
    if not all(one.paired for one in found):
        yield "contexts are those of both systems together"
    if any("texts" in one.has for one in found):
        yield "measures of a whole corpus change with its size, and so may their differences"
