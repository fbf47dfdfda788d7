"""The report card: everything that its page, its Markdown and its JSON show, found once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nlgauge.metrics.comparison import Comparison
from nlgauge.metrics.power import Power, power_of
from nlgauge.metrics.score import Interval, Score
from nlgauge.report.advice import Advice, Situation, advise
from nlgauge.report.evidence import Evidence, evidence_for
from nlgauge.report.examples import Examples, examples_of
from nlgauge.report.lengths import length_gaps, own_length_bias
from nlgauge.report.meanings import Meanings, meanings_of
from nlgauge.report.questions import QUESTIONS, Question, encoder_of, question_of
from nlgauge.report.repeats import Repeats, repeats_of
from nlgauge.report.results import Result
from nlgauge.report.summary import Verdict, summarise
from nlgauge.report.tables import unique_names
from nlgauge.report.texts import SystemFacts, Texts, facts_of
from nlgauge.studies.length_bias import LengthBias

_STUDIES = {"generic": "RUQ", "people": "HUSE"}


@dataclass(frozen=True)
class Measured:
    """A metric with its score for each system, in their order, its comparisons and what is known about it."""

    name: str
    question: str
    scores: tuple[Score, ...]
    comparisons: tuple[tuple[Comparison, Power | None], ...]
    evidence: tuple[Evidence, ...]

    @property
    def signatures(self) -> list[str]:
        """How to make the numbers again."""
        return list(dict.fromkeys(str(score.signature) for score in self.scores))


@dataclass(frozen=True)
class Missing:
    """Something that could not be measured, why, and the question that it would have answered, if there is one."""

    what: str
    reason: str
    question: str = ""


@dataclass(frozen=True)
class Run:
    """What `nlgauge report` measured, before anything is made of it.

    `refusal` says why systems were not compared, `missing` what could not be measured; `results` are those of studies
    that were made before.
    """

    scores: Sequence[Score]
    comparisons: Sequence[Comparison]
    metrics: Sequence[Any]
    texts: Texts
    files: Sequence[str]
    interval: Interval
    refusal: str = ""
    missing: Sequence[Missing] = ()
    results: Sequence[Result] = ()


@dataclass(frozen=True)
class Card:
    """The card of one or several systems."""

    run: Run
    systems: tuple[str, ...]
    measured: tuple[Measured, ...]
    verdicts: tuple[Verdict, ...]
    advice: tuple[Advice, ...]
    missing: tuple[Missing, ...]
    facts: tuple[SystemFacts, ...]
    repeats: Repeats
    meanings: Meanings | None
    bias: LengthBias | None
    examples: Examples | None

    def of(self, question: Question) -> list[Measured]:
        """The metrics that answer a question."""
        return [one for one in self.measured if one.question == question.key]

    def results_of(self, question: Question) -> list[Result]:
        """The results of studies that answer a question."""
        return [one for one in self.run.results if one.question == question.key]


def make_card(run: Run) -> Card:
    """Everything that can be said about a run."""
    names = unique_names(run.scores)
    systems = tuple(dict.fromkeys(score.system for score in run.scores))
    questions = {score.label: question_of(score) for score in run.scores}
    facts = tuple(facts_of(run.texts))
    encoder = encoder_of(run.metrics)
    meanings = meanings_of(run.texts, encoder) if encoder and run.texts.sets else None
    bias = own_length_bias(run.texts, run.interval.seed)
    situation = Situation(
        scores=run.scores,
        comparisons=run.comparisons,
        names=names,
        facts=facts,
        gaps=length_gaps(run.texts),
        bias=bias,
        refusal=run.refusal,
        confidence=run.interval.confidence,
    )
    return Card(
        run=run,
        systems=systems,
        measured=tuple(_measured(run, names, questions, systems)),
        verdicts=tuple(summarise(run.comparisons, questions, names, systems)),
        advice=tuple(advise(situation)),
        missing=(*run.missing, *_unanswered(set(questions.values()), run)),
        facts=facts,
        repeats=repeats_of(run.texts),
        meanings=meanings,
        bias=bias,
        examples=examples_of(run.scores, names, run.texts, meanings),
    )


def _measured(
    run: Run, names: Mapping[str, str], questions: Mapping[str, str], systems: Sequence[str]
) -> list[Measured]:
    found = {(score.label, score.system): score for score in run.scores}
    return [
        Measured(
            name=name,
            question=questions[label],
            scores=tuple(found[label, system] for system in systems),
            comparisons=tuple(
                (one, power_of(one, run.interval.confidence, len(run.comparisons)))
                for one in run.comparisons
                if one.metric_label == label
            ),
            evidence=tuple(evidence_for(found[label, systems[0]].signature)),
        )
        for label, name in names.items()
    ]


def _unanswered(answered: set[str], run: Run) -> list[Missing]:
    """Questions without a metric or a study, and how to have them answered."""
    known = answered | {result.question for result in run.results} | {missing.question for missing in run.missing}
    skipped = {"columns", *(() if run.texts.sets else ("content", "form"))}
    return [
        Missing(_STUDIES.get(question.key, question.aspect), f"not asked for: {question.ask}", question.key)
        for question in QUESTIONS
        if question.key not in known | skipped
    ]
