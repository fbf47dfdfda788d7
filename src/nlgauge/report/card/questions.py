"""The questions of a report card, and which of them a metric answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nlgauge.metrics.base import Metric


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

    @property
    def anchor(self) -> str:
        """Its name inside a page's address."""
        return re.sub(r"\W+", "-", self.key)


STUDIES = "studies"
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
    Question(
        STUDIES,
        "What did studies find?",
        "studies",
        "better in studies",
        "worse in studies",
        "Results of studies of metrics, raters or systems that answer none of the questions above.",
        "`nlgauge study NAME … --format json > result.json`, then --study result.json",
    ),
)
BY_KEY = {question.key: question for question in QUESTIONS}


def questions_about(aspects: Iterable[str], metrics: Iterable[Metric] = ()) -> tuple[Question, ...]:
    """All questions of the report, and after them one for each aspect that only metrics of plugins have."""
    own = dict.fromkeys(aspect for aspect in aspects if aspect not in BY_KEY)
    told = {aspect: [one for one in metrics if one.aspect == aspect] for aspect in own}
    return (*QUESTIONS, *(_own_question(aspect, told[aspect]) for aspect in own))


def _own_question(aspect: str, metrics: Sequence[Metric]) -> Question:
    """A question that is called as its aspect, with the metrics' own words on what they look at."""
    words = aspect.replace("-", " ").replace("_", " ")
    summaries = dict.fromkeys((type(metric).__doc__ or "").partition("\n")[0] for metric in metrics)
    return Question(
        key=aspect,
        title=words[:1].upper() + words[1:],
        aspect=words,
        up=f"higher in {words}",
        down=f"lower in {words}",
        means=" ".join(summaries),
        ask="",
    )


def encoder_of(metrics: Iterable[Metric]) -> str | None:
    """The sentence encoder of the first metric of content that has one."""
    return next((metric.encoder for metric in metrics if metric.aspect == "content" and metric.encoder), None)
