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
    up: list[str] = []
    down: list[str] = []
    none: list[str] = []
    few: list[str] = []
    for comparison in comparisons:
        sign = comparison.difference * comparison.direction.sign
        open_list = few if comparison.smallest_p >= SIGNIFICANT else none
        (open_list if not is_significant(comparison) else up if sign > 0 else down).append(
            names[comparison.metric_label]
        )
    details = [f"no significant difference by {_listed(none)}"] if none and (up or down) else []
    details += [f"too few contexts to tell by {_listed(few)}"] if few and (up or down or none) else []
    detail = "; ".join(details)
    if up and down:
        sentence = (
            f"The metrics disagree: {second} is {question.up} than {first} by {_listed(up)}, and {question.down} by "
            f"{_listed(down)}."
        )
        return Verdict(question.key, "mixed", sentence, detail)
    if up:
        return Verdict(question.key, "up", f"{second} is {question.up} than {first} by {_listed(up)}.", detail)
    if down:
        return Verdict(question.key, "down", f"{second} is {question.down} than {first} by {_listed(down)}.", detail)
    if few and not none:
        sentence = (
            f"Too few contexts to distinguish {second} and {first} in {question.aspect} by {_listed(few)}: with "
            f"{comparisons[0].units} of them no difference can be significant."
        )
        return Verdict(question.key, "none", sentence, detail)
    sentence = f"No significant difference in {question.aspect} between {second} and {first} by {_listed(none)}."
    return Verdict(question.key, "none", sentence, detail)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
