"""Advice from the papers that applies to these systems."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from nlgauge.metrics.score import is_skewed
from nlgauge.report.card.lengths import (
    FEWEST_LENGTHS,
    FEWEST_TEXTS,
    LengthGap,
    MeasuredSlopes,
    ead_declines,
    length_gaps,
    measured_slopes,
)
from nlgauge.report.card.summary import is_significant
from nlgauge.report.card.texts import SystemFacts
from nlgauge.report.tables import number
from nlgauge.scoring.power import POWER, power_of
from nlgauge.scoring.sizes import WARNING, size_notes
from nlgauge.studies.base import Result
from nlgauge.studies.diversity.cut_lengths import FEWEST_LENGTHS as FEWEST_CUTS
from nlgauge.studies.diversity.cut_lengths import in_percent

if TYPE_CHECKING:
    from nlgauge.report.card.contents import Run

FEW_CONTEXTS = 30
_CHANGE_WITH_LENGTH = ("distinct", "ttr")
_WORDS = tomllib.loads((resources.files("nlgauge.report.card") / "advice.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Advice:
    """One piece of advice; a warning is about something that may mislead."""

    kind: Literal["warning", "note"]
    title: str
    text: str


def advise(run: Run, names: Mapping[str, str], facts: Sequence[SystemFacts], bias: Result | None) -> list[Advice]:
    """All that applies, warnings first; `bias` is the study of length on these texts."""
    found = [
        *_on_tests(run, names),
        *_on_contexts(run, names, facts),
        *_on_sizes(run),
        *_on_lengths(run, bias),
        *_on_conflict(run),
        *_on_metrics(run, names),
    ]
    return sorted(found, key=lambda advice: advice.kind != "warning")


def _advice(key: str, *, warns: bool = False, **facts: Any) -> Advice:
    words = _WORDS[key]
    return Advice("warning" if warns else words["kind"], words["title"].format(**facts), words["text"].format(**facts))


def _on_tests(run: Run, names: Mapping[str, str]) -> Iterator[Advice]:
    if run.refusal:
        yield _advice("refused", refusal=run.refusal)
    if any(not comparison.paired for comparison in run.comparisons):
        yield _advice("unpaired")
    for score in run.scores:
        if score.excluded:
            sets = score.excluded + score.n
            metric = names[score.label]
            yield _advice("excluded", metric=metric, excluded=score.excluded, sets=sets, system=score.system)
    skewed: dict[str, list[str]] = {}
    for score in run.scores:
        if score.ci is not None and is_skewed(score):
            skewed.setdefault(names[score.label], []).append(score.system)
    for metric, systems in skewed.items():
        yield _advice("skewed", metric=metric, systems=", ".join(systems))


def _on_sizes(run: Run) -> Iterator[Advice]:
    for note in size_notes(run.scores):
        told = note.removeprefix(WARNING)
        yield _advice("sizes", warns=told != note, told=told)


def _on_contexts(run: Run, names: Mapping[str, str], facts: Sequence[SystemFacts]) -> Iterator[Advice]:
    fewest = min(one.contexts for one in facts)
    reach = [
        f"{names[one.metric_label]} {number(power.smallest)} (found: {number(one.difference)})"
        for one in run.comparisons
        if fewest > 1 and not is_significant(one) and (power := power_of(one, run.interval.seed)) is not None
    ]
    if fewest == 1:
        yield _advice("one-context")
    elif reach:
        few = fewest < FEW_CONTEXTS
        yield _advice("reach", warns=few, contexts=fewest, power=POWER, reach="; ".join(reach))
    elif fewest < FEW_CONTEXTS:
        yield _advice("few-contexts", contexts=fewest, enough=FEW_CONTEXTS)
    for one in facts:
        if one.duplicate_ids:
            yield _advice("duplicate-ids", facts=one)


def _on_lengths(run: Run, bias: Result | None) -> Iterator[Advice]:
    measured = {score.signature.name for score in run.scores}
    gaps = length_gaps(run.texts) if measured & set(_CHANGE_WITH_LENGTH) else []
    slopes = measured_slopes(run.metrics, _CHANGE_WITH_LENGTH, run.texts, level=run.interval.level) if gaps else None
    if slopes is not None:
        yield from (_on_gap(gap, slopes) for gap in gaps)
    if "ead" not in measured:
        return
    if bias is None:
        yield _advice("ead-unknown", lengths=FEWEST_LENGTHS, texts=FEWEST_TEXTS)
    elif (change := ead_declines(bias)) is not None:
        yield _advice("ead-declines", fall=-change)


def _on_gap(gap: LengthGap, slopes: MeasuredSlopes) -> Advice:
    one, two = gap.lengths
    facts: dict[str, Any] = {"first": gap.first, "second": gap.second, "one": one, "two": two, "name": slopes.name}
    if (found := slopes.found) is None:
        return _advice("lengths-unknown", **facts, lengths=FEWEST_CUTS)
    fall, rest = map(in_percent, found.slopes)
    facts |= {"fall": fall, "rest": rest, "low": found.lengths[0], "high": found.lengths[-1], "other": "EAD"}
    warns = not slopes.has_ead and found.flatter == 1
    return _advice("lengths", warns=warns, **facts, meaning=slopes.meaning)


def _on_conflict(run: Run) -> Iterator[Advice]:
    """Within contexts a system may be more varied, and over all of them less, or the other way round."""
    questions = {score.label: score.aspect for score in run.scores}
    for system in dict.fromkeys(one.second for one in run.comparisons):
        mine = [one for one in run.comparisons if one.second == system and is_significant(one)]
        within, across = (
            {one.difference * one.direction.sign > 0 for one in mine if questions[one.metric_label] in aspects}
            for aspects in (("form", "content"), ("repetition",))
        )
        if len(within) == len(across) == 1 and within != across:
            less, more = ("across", "within") if within == {True} else ("within", "across")
            yield _advice("conflict", system=system, first=run.comparisons[0].first, more=more, less=less)


def _on_metrics(run: Run, names: Mapping[str, str]) -> Iterator[Advice]:
    answered = {score.aspect for score in run.scores}
    if answered & {"form", "repetition"} and "content" not in answered:
        yield _advice("form-only")
    if any(score.signature.name == "ppl" for score in run.scores):
        yield _advice("perplexity")
    columns = [names[score.label] for score in run.scores if score.signature.name == "column"]
    if columns:
        yield _advice("columns", columns=", ".join(dict.fromkeys(columns)))
