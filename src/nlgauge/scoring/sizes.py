"""The size at which systems are measured: most measures change with responses per set, or with the texts of a corpus.

What is measured as it is says what sizes there are. Where systems differ, and a metric depends on that, the input is
gone over once more: sets are measured at the number of responses of the smallest set (means over subsets), a corpus at
that number, and with as many sets as the smallest corpus has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.metrics.base import Metric, SetStats, SizedMetric, WordingMetric
from nlgauge.metrics.batch import BIN_BITS, Batch
from nlgauge.metrics.score import Direction, Level, Score
from nlgauge.scoring.collecting import Bins
from nlgauge.stats.inference import Inference, Sizing

WARNING = "warning: "
_ROUND = "at-size"
_SURVEY = "survey"


@dataclass(frozen=True)
class Collected:
    """What one system comes to: its source and its label there, its name, and statistics of each metric."""

    source: int
    label: str
    name: str
    stats: tuple[Any, ...]
    skipped: tuple[str, ...] = ()
    sizes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Surveyed:
    """How many sets there are of each number of responses, and in each bin of contexts."""

    sizes: Array
    bins: Array

    def __add__(self, other: Surveyed) -> Surveyed:
        longest = max(len(self.sizes), len(other.sizes))
        sizes = sum(np.pad(one.sizes, (0, longest - len(one.sizes))) for one in (self, other))
        return Surveyed(np.asarray(sizes), self.bins + other.bins)


@dataclass(frozen=True, kw_only=True)
class Survey(Metric):
    """The mean number of responses per set: what sizes systems have."""

    name: ClassVar[str] = "survey"
    paper: ClassVar[str] = ""
    level: ClassVar[Level] = "corpus"
    aspect: ClassVar[str] = "columns"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE

    def collect(self, batch: Batch) -> Surveyed:
        """Count sets by size and by bin."""
        return Surveyed(np.bincount(batch.sets.sizes), np.bincount(batch.bins(), minlength=1 << BIN_BITS))

    def finish(self, stats: Surveyed, interval: Inference | None = None) -> Score:  # noqa: ARG002 - there is none
        """The mean."""
        sets = int(stats.sizes.sum())
        return self.make_score(float(stats.sizes @ np.arange(len(stats.sizes))) / sets, sets)


Collect = Callable[[tuple[Metric, ...], str, Sequence[Bins]], list[Collected]]


def collect_at_size(
    collect: Collect, metrics: tuple[Metric, ...], sizing: Sizing
) -> tuple[tuple[Metric, ...], list[Collected]]:
    """What systems come to at the size that was asked for, and the metrics with that size."""
    made = metrics if sizing.at is None else tuple(_at(metric, sizing.at, None) for metric in metrics)
    bins: list[Bins] = []
    if any(isinstance(metric, WordingMetric) and metric.sets for metric in made):
        bins = _bins_by_source(collect((Survey(),), _SURVEY, ()))
    common = sizing.size == "common"
    surveyed = any(metric.depends_on_size and metric.level == "corpus" for metric in made)
    systems = collect((*made, Survey()) if surveyed else made, "", bins)
    bins = _bins_by_source(systems) if surveyed else []
    systems = [replace(one, stats=one.stats[: len(made)], sizes=_sizes_of(one.stats)) for one in systems]
    wanted = made
    if common and len(systems) > 1:
        size, sets = _common_size([one.sizes for one in systems])
        wanted = tuple(_at(metric, size, sets) for metric in made)
    again = [place for place, metric in enumerate(wanted) if metric != made[place]]
    if not again:
        return made, systems
    more = collect(tuple(wanted[place] for place in again), _ROUND, bins)
    return wanted, [
        replace(one, stats=_with(one.stats, again, other.stats)) for one, other in zip(systems, more, strict=True)
    ]


def _with(stats: tuple[Any, ...], places: Sequence[int], others: Sequence[Any]) -> tuple[Any, ...]:
    changed = dict(zip(places, others, strict=True))
    return tuple(changed.get(place, one) for place, one in enumerate(stats))


def _is_free(metric: Metric) -> bool:
    """Whether a metric can be taken at another size, and nobody has named one."""
    return isinstance(metric, SizedMetric) and metric.size is None and getattr(metric, "sets", None) is None


def _at(metric: Metric, size: int | None, sets: int | None) -> Metric:
    """A metric at a size, where it depends on that and has none of its own."""
    if not _is_free(metric) or not isinstance(metric, SizedMetric):
        return metric
    if isinstance(metric, WordingMetric) and metric.level == "corpus":
        return replace(metric, size=size, sets=sets)
    return replace(metric, size=size)


def _sizes_of(stats: Sequence[Any]) -> dict[int, int]:
    """How many sets a system has of each number of responses; nothing where no metric says it."""
    if stats and isinstance(stats[-1], Surveyed):
        counts = stats[-1].sizes
    else:
        known = (one.items.sizes() for one in stats if isinstance(one, SetStats))
        counts = np.bincount(next((sizes for sizes in known if sizes is not None), np.empty(0, np.int64)))
    return {int(size): int(counts[size]) for size in np.flatnonzero(counts)}


def _bins_by_source(systems: Sequence[Collected]) -> list[Bins]:
    found: list[dict[str, Array]] = [{} for _ in range(1 + max(one.source for one in systems))]
    for one in systems:
        found[one.source][one.label] = one.stats[-1].bins
    return list(found)


def _common_size(sizes: Sequence[Mapping[int, int]]) -> tuple[int | None, int | None]:
    """The number of responses per set, and of sets, that all systems have; None where they agree as they are."""
    if not all(sizes):
        return None, None
    counts = [sum(one.values()) for one in sizes]
    return (
        min(map(min, sizes)) if unequal(sizes) else None,
        min(counts) if len(set(counts)) > 1 else None,
    )


def unequal(sizes: Sequence[Mapping[int, int]]) -> bool:
    """Whether systems have other numbers of responses per set, or the same ones in other proportions."""
    first, *others = sizes
    total = sum(first.values())
    return any(
        {size: count * total for size, count in other.items()}
        != {size: count * sum(other.values()) for size, count in first.items()}
        for other in others
    )


def size_notes(scores: Sequence[Score]) -> Iterator[str]:
    """What to know of the sizes at which systems were measured; a warning where they differ."""
    by_label: dict[str, list[Score]] = {}
    for score in scores:
        by_label.setdefault(score.label, []).append(score)
    told: dict[tuple[str, bool], list[str]] = {}
    for label, found in by_label.items():
        if len(found) > 1 and (about := _about(found)):
            told.setdefault((about, not _differ(found)), []).append(label)
    for (about, equal), labels in told.items():
        first = by_label[labels[0]]
        if equal:
            yield f"systems have different sizes ({about}); measured at {_measured_at(first)}: {', '.join(labels)}"
        else:
            number = "" if first[0].level == "corpus" else ", or a number,"
            yield (
                f"{WARNING}{', '.join(labels)}: values depend on size, and systems have different ones ({about}), so "
                f"that they may differ for that reason alone; the size 'common'{number} measures all at one size"
            )


def at_different_sizes(first: Score, second: Score) -> bool:
    """Whether two scores were measured at different sizes that matter to their metric."""
    return _differ([first, second])


def _differ(scores: Sequence[Score]) -> bool:
    """Whether sizes are different that no option has made equal: responses per set, and sets of a corpus."""
    measured = scores[0].signature.options
    return ("size" not in measured and _responses_differ(scores)) or ("sets" not in measured and _sets_differ(scores))


def _responses_differ(scores: Sequence[Score]) -> bool:
    return all(score.sizes for score in scores) and unequal([score.sizes for score in scores])


def _sets_differ(scores: Sequence[Score]) -> bool:
    known = all(score.sizes for score in scores) and scores[0].level == "corpus"
    return known and len({sum(score.sizes.values()) for score in scores}) > 1


def _about(scores: Sequence[Score]) -> str:
    """The sizes of systems, where these are different and matter to the metric."""
    if not (_responses_differ(scores) or _sets_differ(scores)):
        return ""
    return ", ".join(f"'{score.system}' {_range(score)}" for score in scores)


def _range(score: Score) -> str:
    least, most = min(score.sizes), max(score.sizes)
    each = str(least) if least == most else f"{least} to {most}"
    several = "" if most == 1 else f"{each} response{'s' * (most != 1)} per set"
    sets = sum(score.sizes.values())
    if score.level != "corpus":
        return several or "1 response per set"
    return f"{sets:,} sets of {several.removesuffix(' per set')}" if several else f"{sets:,} texts"


def _measured_at(scores: Sequence[Score]) -> str:
    options = scores[0].signature.options
    size, sets = options.get("size"), options.get("sets")
    single = all(set(score.sizes) == {1} for score in scores)
    parts = [f"{int(sets):,} {'texts' if single else 'sets'}"] if sets else []
    if size:
        parts.append(f"{size} response{'s' * (size != '1')} per set")
    return ", ".join(parts)
