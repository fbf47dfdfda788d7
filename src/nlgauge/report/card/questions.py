"""The questions of a report card, and which of them a metric answers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

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
_TABLE = tomllib.loads((resources.files("nlgauge.report.card") / "questions.toml").read_text(encoding="utf-8"))
BY_KEY = {key: Question(key, **words) for key, words in _TABLE.items()}
QUESTIONS = tuple(BY_KEY.values())


def questions_about(aspects: Iterable[str], metrics: Sequence[Metric] = ()) -> tuple[Question, ...]:
    """All questions of the report, and after them one for each aspect that only metrics of plugins have.

    Such a question is called as its aspect, with the metrics' own words on what they look at.
    """
    own = []
    for aspect in dict.fromkeys(aspect for aspect in aspects if aspect not in BY_KEY):
        words = aspect.replace("-", " ").replace("_", " ")
        told = ((type(metric).__doc__ or "").partition("\n")[0] for metric in metrics if metric.aspect == aspect)
        means = " ".join(dict.fromkeys(told))
        title = words[:1].upper() + words[1:]
        own.append(Question(aspect, title, words, f"higher in {words}", f"lower in {words}", means, ask=""))
    return (*QUESTIONS, *own)


def encoder_of(metrics: Iterable[Metric]) -> str | None:
    """The sentence encoder of the first metric of content that has one."""
    return next((metric.encoder for metric in metrics if metric.aspect == "content" and metric.encoder), None)
