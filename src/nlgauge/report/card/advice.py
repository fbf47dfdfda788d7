"""Advice from the papers that applies to these systems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

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
        *_on_ids(about),
        *_on_lengths(about),
        *_on_bias(about),
        *_on_conflict(about),
        *_on_content(about),
        *_on_perplexity(about),
        *_on_columns(about),
    ]
    return sorted(found, key=lambda advice: advice.kind != "warning")


def _on_tests(about: Situation) -> Iterator[Advice]:
    if about.refusal:
        yield Advice("warning", "No paired test was made", about.refusal)
    if any(not comparison.paired for comparison in about.comparisons):
        yield Advice(
            "note",
            "Unpaired tests",
            "The systems are compared as if each had answered different contexts. Such a test misses differences that "
            "a paired one would find, and a difference may come from the contexts.",
        )
    left_out = [score for score in about.scores if score.excluded]
    for score in left_out:
        yield Advice(
            "note",
            f"{about.names[score.label]} has no value on some sets",
            f"{score.excluded} of {score.excluded + score.n} sets of {score.system} have none; they do not count in "
            "its mean.",
        )


def _on_contexts(about: Situation) -> Iterator[Advice]:
    fewest = min(facts.contexts for facts in about.facts)
    if fewest == 1:
        yield Advice(
            "warning",
            "One context",
            "A single context shows how varied its responses are, and nothing about the system: there is no interval "
            "and no test. Expected a few dozen contexts.",
        )
        return
    unshown = [c for c in about.comparisons if not is_significant(c)]
    reach = []
    for comparison in unshown:
        power = power_of(comparison)
        if power is not None:
            reach.append(
                f"{about.names[comparison.metric_label]} {number(power.smallest)} "
                f"(found: {number(comparison.difference)})"
            )
    if reach:
        yield Advice(
            "warning" if fewest < FEW_CONTEXTS else "note",
            "What this many contexts could show",
            f"No significant difference is not the same as no difference. With {fewest} contexts, a test finds the "
            f"following differences in {POWER:.0%} of such experiments, smaller ones less often: {'; '.join(reach)}.",
        )
    elif fewest < FEW_CONTEXTS:
        yield Advice(
            "warning",
            "Few contexts",
            f"{fewest} contexts give wide intervals; {FEW_CONTEXTS} or more are a better basis for any claim.",
        )


def _on_ids(about: Situation) -> Iterator[Advice]:
    for facts in about.facts:
        if facts.duplicate_ids:
            yield Advice(
                "warning",
                "Duplicate ids",
                f"{facts.duplicate_ids} of {facts.contexts} sets of {facts.system} have an id that another set has, "
                "too. All count in the scores; examples show the first of each. Give every set a unique id.",
            )


def _on_lengths(about: Situation) -> Iterator[Advice]:
    names = {score.signature.name for score in about.scores}
    if not names & set(_FALL_WITH_LENGTH):
        return
    for gap in about.gaps:
        one, two = gap.lengths
        shown = f"{gap.second} writes {two:.1f} words per response, {gap.first} {one:.1f}."
        if "ead" in names:
            text = (
                f"{shown} Distinct falls as texts get longer, which counts against {gap.longer}. EAD, which corrects "
                "for this, is shown beside it: if the two disagree, trust EAD (paper 2, section 3)."
            )
        else:
            text = (
                f"{shown} Distinct falls as texts get longer, which counts against {gap.longer}. Add EAD, which "
                "corrects for this: -m ead (paper 2, section 3)."
            )
        yield Advice("note" if "ead" in names else "warning", "Lengths differ", text)


def _on_bias(about: Situation) -> Iterator[Advice]:
    names = {score.signature.name for score in about.scores}
    if "ead" not in names:
        return
    if about.bias is None:
        yield Advice(
            "note",
            "EAD and length",
            f"Whether EAD itself changes with length on these texts is not known: fewer than {FEWEST_LENGTHS} lengths "
            f"have {FEWEST_TEXTS} texts.",
        )
        return
    change = ead_declines(about.bias)
    if change is not None:
        yield Advice(
            "warning",
            "EAD declines with length here",
            f"On these texts EAD itself falls by {-change:.0%} of its mean from the shortest to the longest texts. "
            "Between systems that write texts of different lengths it is unfair to the one that writes longer ones "
            "(paper 2, section 4, the Twitter case).",
        )


def _on_conflict(about: Situation) -> Iterator[Advice]:
    """Within contexts a system may be more varied, and over all of them less, or the other way round."""
    questions = {score.label: score.aspect for score in about.scores}
    for system in dict.fromkeys(one.second for one in about.comparisons):
        mine = [one for one in about.comparisons if one.second == system and is_significant(one)]
        signs = {
            pooled: {
                one.difference * one.direction.sign > 0
                for one in mine
                if questions[one.metric_label] in (("repetition",) if pooled else ("form", "content"))
            }
            for pooled in (False, True)
        }
        within, across = signs[False], signs[True]
        if len(within) == len(across) == 1 and within != across:
            less, more = ("across", "within") if within == {True} else ("within", "across")
            yield Advice(
                "warning",
                "Within contexts and across them",
                f"{system} is more varied {more} contexts than {about.comparisons[0].first}, and less {less} them. "
                "Metrics across contexts pool all texts: they rise with the words of different contexts, and with "
                "punctuation that stays attached to words (`tok`). The metrics within contexts measure how varied a "
                "system is for one context.",
            )


def _on_content(about: Situation) -> Iterator[Advice]:
    answered = {score.aspect for score in about.scores}
    if answered & {"form", "repetition"} and "content" not in answered:
        yield Advice(
            "warning",
            "Form is not evidence of content",
            "Only wording was measured. Metrics of form hardly see content once wording is held fixed (paper 1, "
            "section 6.4): two systems with the same values here may differ in what they say.",
        )


def _on_perplexity(about: Situation) -> Iterator[Advice]:
    if any(score.signature.name == "ppl" for score in about.scores):
        yield Advice(
            "note",
            "Perplexity is not a measure of diversity",
            "It says how well a model predicts each text. A system that always writes the same likely sentence has the "
            "best perplexity and no diversity at all (paper 1, section 2).",
        )


def _on_columns(about: Situation) -> Iterator[Advice]:
    columns = [about.names[score.label] for score in about.scores if score.signature.name == "column"]
    if columns:
        yield Advice(
            "note",
            "Columns of the file",
            f"Higher is taken as more in {', '.join(dict.fromkeys(columns))}; whether more is better is not known.",
        )
