"""What a comparison of two systems found, by one metric."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from nlgauge.arrays import Array
from nlgauge.metrics.score import Direction, HigherIs, Level
from nlgauge.stats.components import ErrorParts

SIGNIFICANT = 0.05
_NOT_IN_JSON = ("evidence", "parts")


@dataclass(frozen=True)
class Evidence:
    """What a paired comparison adds up: the differences of each unit, and how many; units' keys are in order.

    Compared with others by max-T, also the `critical` statistic of the family.
    """

    keys: Array
    sums: Array
    sizes: Array
    critical: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Second system minus first.

    Paired, on the contexts that both answered, `p` is from a permutation test that swaps the systems unit by unit;
    unpaired, from a studentised permutation test over all units of both. Measures of a whole corpus take the jackknife,
    and systems with several runs Student's t with errors of contexts and of runs. `n` sets are compared, in `units`
    that are independent of each other: contexts where several sets share one. `p_adjusted` corrects `p` for the
    `family` of comparisons made together, and equals it for one alone; `smallest_p` is the least that so few units
    could have given, corrected likewise, and `alpha` the `p` that would be significant beside the others. `first_value`
    and `second_value` are means over the compared sets, `error` is the standard error of the difference. `effect` is
    the difference in standard deviations (Cohen's d; those of the differences when paired), None where there is no
    spread or no value of single sets. With a `margin`, `equal_p` tests whether the systems differ by as much, and
    `not_worse_p` whether the second is worse by as much. With several runs, `parts` says where the error comes from.
    Values `at_different_sizes` may differ for that reason alone.
    """

    metric: str
    metric_label: str
    first: str
    second: str
    difference: float
    ci: tuple[float, float]
    p: float
    n: int
    higher_is: HigherIs
    signature: str
    p_adjusted: float = float("nan")
    first_value: float = float("nan")
    second_value: float = float("nan")
    effect: float | None = None
    smallest_p: float = 0.0
    units: int = 0
    unit: str = "set"
    error: float = float("nan")
    alpha: float = SIGNIFICANT
    family: int = 1
    margin: float | None = None
    equal_p: float | None = None
    not_worse_p: float | None = None
    paired: bool = True
    at_different_sizes: bool = False
    level: Level = "set"
    evidence: Evidence | None = field(default=None, repr=False, compare=False)
    parts: ErrorParts | None = field(default=None, repr=False, compare=False)

    @property
    def direction(self) -> Direction:
        """What a higher value means, with its sign."""
        return Direction(self.higher_is)

    @property
    def significant(self) -> bool:
        """Whether the corrected test finds a difference."""
        return (self.p if math.isnan(self.p_adjusted) else self.p_adjusted) < SIGNIFICANT

    @property
    def is_equal(self) -> bool:
        """Whether the corrected test says that the systems differ by less than the margin."""
        return self.equal_p is not None and self.equal_p < SIGNIFICANT

    @property
    def is_not_worse(self) -> bool:
        """Whether the corrected test says that the second system is not worse by more than the margin."""
        return self.not_worse_p is not None and self.not_worse_p < SIGNIFICANT

    @property
    def verdict(self) -> str:
        """What the tests say, in words."""
        return self._found + (" (measured at different sizes)" if self.at_different_sizes else "")

    @property
    def _found(self) -> str:
        if self.significant:
            found = self.direction if self.difference > 0 else self.direction.opposite
            pooled = " over all contexts" if self.level == "corpus" else ""
            within = f", but by less than {self.margin:g}" if self.is_equal else ""
            return f"{self.second} is {found.words} than {self.first}{pooled}{within}"
        if self.is_equal:
            return f"equal within {self.margin:g}"
        if self.is_not_worse:
            worse = Direction.WORSE if not self.direction.is_about_diversity else Direction.LESS_DIVERSE
            return f"{self.second} is not {worse.words} than {self.first} by more than {self.margin:g}"
        if self.margin is not None:
            return "cannot tell"
        if self.smallest_p >= SIGNIFICANT:
            return f"too few {'sets' if self.unit == 'set' and not self.paired else 'contexts'} to tell"
        return "no significant difference"

    def to_dict(self) -> dict[str, Any]:
        """For JSON; a number that is not finite is null there."""
        found = {one.name: _finite(getattr(self, one.name)) for one in fields(self) if one.name not in _NOT_IN_JSON}
        more = {} if self.parts is None else {"error_parts": self.parts.to_dict()}
        return {**found, "ci": [_finite(end) for end in self.ci], "verdict": self.verdict, **more}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
