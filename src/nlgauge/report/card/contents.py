"""The report card: the content shared by its page, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nlgauge.metrics.base import Metric
from nlgauge.metrics.score import Score
from nlgauge.report.card.advice import Advice, advise
from nlgauge.report.card.examples import Examples, examples_of
from nlgauge.report.card.lengths import own_length_bias
from nlgauge.report.card.meanings import Meanings, meanings_of
from nlgauge.report.card.questions import QUESTIONS, STUDIES, Question, encoder_of, questions_about
from nlgauge.report.card.repeats import Repeats, repeats_of
from nlgauge.report.card.summary import Verdict, summarise
from nlgauge.report.card.texts import SystemFacts, Texts, facts_of
from nlgauge.report.evidence import Evidence, evidence_for
from nlgauge.report.results import StudyTable
from nlgauge.report.tables import unique_names
from nlgauge.scoring.compared import Comparison
from nlgauge.scoring.comparison import family_in_words
from nlgauge.scoring.power import Power, power_of
from nlgauge.stats.inference import Comparing
from nlgauge.studies.base import Result as StudyResult

_STUDIES = {"generic": "RUQ", "people": "HUSE"}


@dataclass(frozen=True)
class Measured:
    """A metric with its score for each system, in their order, its comparisons and the evidence about it."""

    name: str
    question: str
    scores: tuple[Score, ...]
    comparisons: tuple[tuple[Comparison, Power | None], ...]
    evidence: tuple[Evidence, ...]

    @property
    def signatures(self) -> list[str]:
        """The signatures that reproduce the numbers."""
        return list(dict.fromkeys(str(score.signature) for score in self.scores))


@dataclass(frozen=True)
class Missing:
    """A metric or question that was not measured, the reason, and the question that it answers, if any."""

    what: str
    reason: str
    question: str = ""


@dataclass(frozen=True)
class Run:
    """The measurements of `nlgauge report`.

    `refusal` says why systems were not compared, `missing` what could not be measured; `results` are those of earlier
    studies.
    """

    scores: Sequence[Score]
    comparisons: Sequence[Comparison]
    metrics: Sequence[Metric]
    texts: Texts
    files: Sequence[str]
    interval: Comparing
    refusal: str = ""
    missing: Sequence[Missing] = ()
    results: Sequence[StudyTable] = ()

    @property
    def family(self) -> str:
        """Which tests are a family, and what corrects them, in words."""
        return family_in_words(self.comparisons)


@dataclass(frozen=True)
class Card:
    """The card of one or several systems."""

    run: Run
    systems: tuple[str, ...]
    questions: tuple[Question, ...]
    measured: tuple[Measured, ...]
    verdicts: tuple[Verdict, ...]
    advice: tuple[Advice, ...]
    missing: tuple[Missing, ...]
    facts: tuple[SystemFacts, ...]
    repeats: Repeats
    meanings: Meanings | None
    bias: StudyResult | None
    examples: Examples | None

    def of(self, question: Question) -> list[Measured]:
        """The metrics that answer a question."""
        return [one for one in self.measured if one.question == question.key]

    def results_of(self, question: Question) -> list[StudyTable]:
        """The results of studies that answer a question."""
        return [one for one in self.run.results if one.question == question.key]


def make_card(run: Run) -> Card:
    """The card of a run."""
    names = unique_names(run.scores)
    systems = tuple(dict.fromkeys(score.system for score in run.scores))
    questions = {score.label: score.aspect for score in run.scores}
    facts = tuple(facts_of(run.texts))
    encoder = encoder_of(run.metrics)
    meanings = meanings_of(run.texts, encoder) if encoder and run.texts.sets else None
    bias = own_length_bias(run.texts, run.interval.seed)
    return Card(
        run=run,
        systems=systems,
        questions=questions_about([*questions.values(), *(one.question for one in run.results)], run.metrics),
        measured=tuple(_measured(run, names, questions, systems)),
        verdicts=tuple(summarise(run.comparisons, questions, names, systems)),
        advice=tuple(advise(run, names, facts, bias)),
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
                (one, power_of(one, run.interval.seed)) for one in run.comparisons if one.metric_label == label
            ),
            evidence=tuple(evidence_for(found[label, systems[0]].signature)),
        )
        for label, name in names.items()
    ]


def _unanswered(answered: set[str], run: Run) -> list[Missing]:
    """Questions without a metric or a study, and how to answer them."""
    known = answered | {result.question for result in run.results} | {missing.question for missing in run.missing}
    skipped = {"columns", STUDIES, *(() if run.texts.sets else ("content", "form"))}
    return [
        Missing(_STUDIES.get(question.key, question.aspect), f"not requested: {question.ask}", question.key)
        for question in QUESTIONS
        if question.key not in known | skipped
    ]
