"""The questions of a report card, and which of them a metric answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nlgauge.metrics.base import Metric
from nlgauge.metrics.score import Score


@dataclass(frozen=True)
class Question:
    """A question about a system.

    `aspect` is how a sentence names it, `up` and `down` what a system is by it, `means` what its metrics look at, `ask`
    how to have it measured.
    """

    key: str
    title: str
    aspect: str
    up: str
    down: str
    means: str
    ask: str


QUESTIONS = (
    Question(
        "form",
        "Is the wording varied?",
        "form",
        "more varied in form",
        "less varied in form",
        "These metrics count words, n-grams or bytes that the responses to one context share. They see wording only: "
        "two answers that say the same in other words count as different.",
        "-m distinct",
    ),
    Question(
        "content",
        "Do the responses say different things?",
        "content",
        "more varied in content",
        "less varied in content",
        "These metrics compare what the responses to one context mean, in the eyes of a sentence encoder.",
        "-m sent-sim -m content (after `nlgauge models fetch minilm`)",
    ),
    Question(
        "repetition",
        "Does it repeat itself from context to context?",
        "wording across contexts",
        "less repetitive across contexts",
        "more repetitive across contexts",
        "These metrics pool the texts of all contexts, so that a phrase that comes back everywhere counts against a "
        "system.",
        "-m ead -m distinct:over=corpus",
    ),
    Question(
        "quality",
        "Is it as good as the references?",
        "quality",
        "better in quality",
        "worse in quality",
        "These metrics compare texts with references, or with what a trained judge has learnt.",
        "-m bleu -m rouge-l, with single texts and their references",
    ),
    Question(
        "fluency",
        "Is it fluent and coherent?",
        "fluency",
        "more fluent",
        "less fluent",
        "These metrics ask how well a model predicts a text, or how its sentences hang together.",
        "-m ppl (after `nlgauge models fetch smollm2`)",
    ),
    Question(
        "generic",
        "Are the replies generic?",
        "generic replies",
        "less generic",
        "more generic",
        "A reply that comes back for many contexts fits all of them and says little about any. RUQ asks a model "
        "whether it prefers such replies to the reference.",
        "`nlgauge study ruq … --format json > ruq.json`, then --study ruq.json",
    ),
    Question(
        "people",
        "Can people and the model's own probabilities tell it from people?",
        "HUSE",
        "better by HUSE",
        "worse by HUSE",
        "HUSE joins people's judgments and the model's probabilities; it splits into quality and diversity.",
        "`nlgauge study huse … --format json > huse.json`, then --study huse.json",
    ),
    Question(
        "columns",
        "What do the file's own columns say?",
        "the file's own columns",
        "higher in the file's own columns",
        "lower in the file's own columns",
        "Values that came with the data, taken as they are: NLGauge does not know what they mean.",
        "--column NAME",
    ),
)
BY_KEY = {question.key: question for question in QUESTIONS}
_CONTENT = {"sent-sim", "content", "vendi", "kmeans-inertia", "volume", "bertscore-div", "sts-div"}
_FLUENCY = {"ppl", "relatedness", "union"}
_DIVERSITY = ("more diverse", "less diverse")


def question_of(score: Score) -> str:
    """The key of the question that a score answers."""
    return _question(score.signature.name, score.higher_is, score.signature.options)


def question_of_metric(metric: Metric) -> str:
    """The key of the question that a metric would answer."""
    options = {name: str(getattr(metric, name, "")) for name in ("over", "form", "question")}
    return _question(metric.name, metric.higher_is, options)


def _question(name: str, higher_is: str, options: Mapping[str, str]) -> str:
    if name == "column":
        return "columns"
    if name in _FLUENCY:
        return "fluency"
    if higher_is not in _DIVERSITY:
        return "quality"
    if options.get("over") == "corpus":
        return "repetition"
    if name == "llm-judge":
        wording = options["question"] == "form" or options["form"].startswith("set-diversity")
        return "form" if wording else "content"
    return "content" if name in _CONTENT else "form"


def encoder_of(metrics: Sequence[Any]) -> str | None:
    """The sentence encoder of the first metric of content that has one."""
    return next((str(metric.model) for metric in metrics if metric.name in _CONTENT and hasattr(metric, "model")), None)


def direction(higher_is: str) -> int:
    """1 where higher values are better or more diverse, -1 where lower ones are."""
    return 1 if higher_is in ("more diverse", "better") else -1
