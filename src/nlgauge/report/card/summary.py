"""The comparisons in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nlgauge.report.card.questions import Question, questions_about
from nlgauge.scoring.comparison import SIGNIFICANT, Comparison


@dataclass(frozen=True)
class Verdict:
    """One sentence about one question, and the kind of answer."""

    question: str
    kind: Literal["up", "down", "none", "mixed"]
    sentence: str
    detail: str


def summarise(
    comparisons: Sequence[Comparison],
    questions: Mapping[str, str],
    names: Mapping[str, str],
    systems: Sequence[str],
) -> list[Verdict]:
    """A verdict for each question and each later system against the first.

    `questions` and `names` map a metric's label to its question and its name.
    """
    return [
        _verdict(question, mine, names, systems[0], other)
        for question in questions_about(questions.values())
        for other in systems[1:]
        if (mine := [c for c in comparisons if c.second == other and questions[c.metric_label] == question.key])
    ]


def is_significant(comparison: Comparison) -> bool:
    """Whether the difference is significant after correction for the number of tests."""
    return comparison.significant


def _verdict(
    question: Question, comparisons: Sequence[Comparison], names: Mapping[str, str], first: str, second: str
) -> Verdict:
    up, down, none, few = (
        [names[one.metric_label] for one in comparisons if _outcome(one) == kind]
        for kind in ("up", "down", "none", "few")
    )
    details = [f"no significant difference by {_listed(none)}"] if none and (up or down) else []
    details += [f"too few contexts to tell by {_listed(few)}"] if few and (up or down or none) else []
    kind: Literal["up", "down", "none", "mixed"] = "none"
    if up and down:
        kind = "mixed"
        sentence = (
            f"The metrics disagree: {second} is {question.up} than {first} by {_listed(up)}, and {question.down} by "
            f"{_listed(down)}."
        )
    elif up or down:
        kind = "up" if up else "down"
        sentence = f"{second} is {getattr(question, kind)} than {first} by {_listed(up or down)}."
    elif few and not none:
        sentence = (
            f"Too few contexts to distinguish {second} and {first} in {question.aspect} by {_listed(few)}: with "
            f"{comparisons[0].units} of them no difference can be significant."
        )
    else:
        sentence = f"No significant difference in {question.aspect} between {second} and {first} by {_listed(none)}."
    return Verdict(question.key, kind, sentence, "; ".join(details))


def _outcome(comparison: Comparison) -> Literal["up", "down", "none", "few"]:
    if is_significant(comparison):
        return "up" if comparison.difference * comparison.direction.sign > 0 else "down"
    return "few" if comparison.smallest_p >= SIGNIFICANT else "none"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
