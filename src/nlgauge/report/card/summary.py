"""The comparisons in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nlgauge.report.card.questions import Question, questions_about
from nlgauge.scoring.compared import SIGNIFICANT, Comparison


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
    up, down, equal, not_worse, none, few = (
        [names[one.metric_label] for one in comparisons if _outcome(one) == kind]
        for kind in ("up", "down", "equal", "not worse", "none", "few")
    )
    margin = comparisons[0].margin
    about = f"{second} is not {question.down} than {first} by more than {margin} by {_listed(not_worse)}"
    within = f"{second} and {first} are equal within {margin} in {question.aspect} by {_listed(equal)}"
    unknown = "no significant difference" if margin is None else "cannot tell"
    details = [about] if not_worse and (up or down or equal) else []
    details += [within] if equal and (up or down) else []
    details += [f"{unknown} by {_listed(none)}"] if none and (up or down or equal or not_worse) else []
    details += [f"too few contexts to tell by {_listed(few)}"] if few and (up or down or none) else []
    small = [names[one.metric_label] for one in comparisons if one.significant and one.is_equal]
    details += [f"the difference is less than {margin} by {_listed(small)}"] if small else []
    unequal = [names[one.metric_label] for one in comparisons if one.at_different_sizes]
    details += [f"measured at different sizes by {_listed(unequal)}"] if unequal else []
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
    elif equal or not_worse:
        sentence = f"{within if equal else about}."
    elif margin is not None:
        sentence = (
            f"Cannot tell whether {second} and {first} differ by more than {margin} in {question.aspect} by "
            f"{_listed(none)}."
        )
    elif few and not none:
        sentence = (
            f"Too few contexts to distinguish {second} and {first} in {question.aspect} by {_listed(few)}: with "
            f"{comparisons[0].units} of them no difference can be significant."
        )
    else:
        sentence = f"No significant difference in {question.aspect} between {second} and {first} by {_listed(none)}."
    return Verdict(question.key, kind, sentence, "; ".join(details))


def _outcome(comparison: Comparison) -> Literal["up", "down", "equal", "not worse", "none", "few"]:
    if is_significant(comparison):
        return "up" if comparison.difference * comparison.direction.sign > 0 else "down"
    if comparison.is_equal:
        return "equal"
    if comparison.is_not_worse:
        return "not worse"
    return "few" if comparison.margin is None and comparison.smallest_p >= SIGNIFICANT else "none"


def _listed(names: Sequence[str]) -> str:
    return "".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"
