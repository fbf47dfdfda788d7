"""How intervals and tests are made: one group of options for everything that prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from nlgauge.configured import Options, check_that, option

Unit = Literal["auto", "context", "run", "set"]
Correction = Literal["max-t", "holm", "none"]
CORRECTIONS = (
    "Correction for several comparisons: max-t (Westfall & Young, from the same swaps of all), Holm's, or none."
)


@dataclass(frozen=True, kw_only=True)
class Intervals(Options):
    """The level of intervals, the number of resamples, and the seed."""

    heading: ClassVar[str] = "Inference"

    level: float = option(0.95, "Confidence level of intervals.", metavar="X")
    resamples: int = option(1000, "Bootstrap resamples.", metavar="N")
    seed: int = option(12345, "Seed of every random step.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_level(self.level, self.resamples)
        check_that(self.seed >= 0, "seed", self.seed, "0 or more")


@dataclass(frozen=True, kw_only=True)
class Inference(Intervals):
    """Intervals and tests, and what is independent of what."""

    unit: Unit = option(
        "auto",
        "What is independent; auto: contexts where sets share them, crossed with runs where there are several, else "
        "sets (or items).",
    )


@dataclass(frozen=True, kw_only=True)
class Sizing(Options):
    """At which size systems are measured, since most measures of diversity change with it."""

    heading: ClassVar[str] = "Inference"

    size: str = option(
        "common",
        "Responses per set, and texts of a corpus, at which systems are measured: common (those of the smallest "
        "system), own (whatever each system has), or a number of responses.",
        metavar="common|own|N",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", str(self.size))
        super().__post_init__()
        known = self.size in ("common", "own") or self.at is not None
        check_that(known, "size", self.size, "common, own, or a number of responses, 1 or more")

    @property
    def at(self) -> int | None:
        """The number of responses, where one is named."""
        return int(self.size) if self.size.isdecimal() and int(self.size) else None


OWN = Sizing(size="own")


@dataclass(frozen=True, kw_only=True)
class Comparing(Inference, Sizing):
    """How systems are compared."""

    correction: Correction = option("max-t", CORRECTIONS)
    margin: float | None = option(
        None, "A difference that does not matter: adds tests of equivalence and of non-inferiority.", metavar="X"
    )

    common: bool = option(False, "Compare on the contexts that systems share, where some have more.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.margin is not None:
            check_that(0 < self.margin < float("inf"), "margin", self.margin, "a number above 0")


def check_level(level: float, resamples: int = 1000) -> None:
    """Refuse levels and numbers of resamples that give no interval."""
    check_that(0.5 <= level < 1, "level", level, "at least 0.5 and less than 1, such as 0.95")
    check_that(resamples >= 100, "resamples", resamples, "at least 100")
