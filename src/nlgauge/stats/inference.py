"""How intervals and tests are made: one group of options for everything that prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlgauge.configured import Options, check_that, option


@dataclass(frozen=True, kw_only=True)
class Inference(Options):
    """The level of intervals, the number of resamples and the seed."""

    heading: ClassVar[str] = "Inference"

    level: float = option(0.95, "Confidence level of intervals.", metavar="X")
    resamples: int = option(1000, "Bootstrap resamples.", metavar="N")
    seed: int = option(12345, "Seed of every random step.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_level(self.level, self.resamples)
        check_that(self.seed >= 0, "seed", self.seed, "0 or more")


def check_level(level: float, resamples: int) -> None:
    """Refuse levels and numbers of resamples that give no interval."""
    check_that(0.5 <= level < 1, "level", level, "at least 0.5 and less than 1, such as 0.95")
    check_that(resamples >= 100, "resamples", resamples, "at least 100")
