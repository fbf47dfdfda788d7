"""Advice from the papers that applies to these systems."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from nlgauge.metrics.score import Score
from nlgauge.report.card.lengths import FEWEST_LENGTHS, FEWEST_TEXTS, LengthGap, ead_declines
from nlgauge.report.card.summary import is_significant
from nlgauge.report.card.texts import SystemFacts
from nlgauge.report.tables import number
from nlgauge.scoring.comparison import Comparison
from nlgauge.scoring.power import POWER, power_of
from nlgauge.studies.base import Result

FEW_CONTEXTS = 30
_FALL_WITH_LENGTH = ("distinct", "ttr")
_WORDS = tomllib.loads((resources.files("nlgauge.report.card") / "advice.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Advice:
    """One piece of advice; a warning is about something that may mislead."""

    kind: Literal["warning", "note"]
    title: str
    text: str


@dataclass(frozen=True)
class Situation:
    """The facts that advice depends on."""

    scores: Sequence[Score]
    comparisons: Sequence[Comparison]
    names: Mapping[str, str]
    facts: Sequence[SystemFacts]
    gaps: Sequence[LengthGap]
    bias: Result | None
    refusal: str
    confidence: float


def advise(about: Situation) -> list[Advice]:
    """All that applies, warnings first."""
    found = [
        *_on_tests(about),
        *_on_contexts(about),
        *_on_lengths(about),
        *_on_conflict(about),
        *_on_metrics(about),
    ]
    return sorted(found, key=lambda advice: advice.kind != "warning")


def _advice(key: str, *, warns: bool = False, **facts: Any) -> Advice:
    words = _WORDS[key]
    return Advice("warning" if warns else words["kind"], words["title"].format(**facts), words["text"].format(**facts))


def _on_tests(about: Situation) -> Iterator[Advice]:
    if about.refusal:
        yield _advice("refused", refusal=about.refusal)
    if any(not comparison.paired for comparison in about.comparisons):
        yield _advice("unpaired")
    for score in about.scores:
        if score.excluded:
            sets = score.excluded + score.n
            metric = about.names[score.label]
            yield _advice("excluded", metric=metric, excluded=score.excluded, sets=sets, system=score.system)


def _on_contexts(about: Situation) -> Iterator[Advice]:
    fewest = min(facts.contexts for facts in about.facts)
    reach = [
        f"{about.names[one.metric_label]} {number(power.smallest)} (found: {number(one.difference)})"
        for one in about.comparisons
        if fewest > 1
        and not is_significant(one)
        and (power := power_of(one, about.confidence, len(about.comparisons))) is not None
    ]
    if fewest == 1:
        yield _advice("one-context")
    elif reach:
        few = fewest < FEW_CONTEXTS
        yield _advice("reach", warns=few, contexts=fewest, power=POWER, reach="; ".join(reach))
    elif fewest < FEW_CONTEXTS:
        yield _advice("few-contexts", contexts=fewest, enough=FEW_CONTEXTS)
    for facts in about.facts:
        if facts.duplicate_ids:
            yield _advice("duplicate-ids", facts=facts)


def _on_lengths(about: Situation) -> Iterator[Advice]:
    names = {score.signature.name for score in about.scores}
    key = "lengths-with-ead" if "ead" in names else "lengths-without-ead"
    for gap in about.gaps if names & set(_FALL_WITH_LENGTH) else ():
        one, two = gap.lengths
        yield _advice(key, first=gap.first, second=gap.second, one=one, two=two, longer=gap.longer)
    if "ead" not in names:
        return
    if about.bias is None:
        yield _advice("ead-unknown", lengths=FEWEST_LENGTHS, texts=FEWEST_TEXTS)
    elif (change := ead_declines(about.bias)) is not None:
        yield _advice("ead-declines", fall=-change)


def _on_conflict(about: Situation) -> Iterator[Advice]:
    """Within contexts a system may be more varied, and over all of them less, or the other way round."""
    questions = {score.label: score.aspect for score in about.scores}
    for system in dict.fromkeys(one.second for one in about.comparisons):
        mine = [one for one in about.comparisons if one.second == system and is_significant(one)]
        within, across = (
            {one.difference * one.direction.sign > 0 for one in mine if questions[one.metric_label] in aspects}
            for aspects in (("form", "content"), ("repetition",))
        )
        if len(within) == len(across) == 1 and within != across:
            less, more = ("across", "within") if within == {True} else ("within", "across")
            yield _advice("conflict", system=system, first=about.comparisons[0].first, more=more, less=less)


def _on_metrics(about: Situation) -> Iterator[Advice]:
    answered = {score.aspect for score in about.scores}
    if answered & {"form", "repetition"} and "content" not in answered:
        yield _advice("form-only")
    if any(score.signature.name == "ppl" for score in about.scores):
        yield _advice("perplexity")
    columns = [about.names[score.label] for score in about.scores if score.signature.name == "column"]
    if columns:
        yield _advice("columns", columns=", ".join(dict.fromkeys(columns)))
