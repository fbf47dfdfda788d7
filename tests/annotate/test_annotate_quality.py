"""Each quality rule finds what it should, says why with the numbers, and leaves honest work alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.annotate.quality import (
    Attention,
    CorrelationFilter,
    DuplicateText,
    KnownAnswers,
    Mans,
    MinTime,
    Qualification,
    StraightLining,
    Work,
    fingerprint,
    is_close,
)
from nlgauge.annotate.rules import RULES, parse_rules, read_rules
from nlgauge.errors import OptionError, UnknownName
from nlgauge.stats.ratings.agreement import rater_correlations
from nlgauge.text.near_copies import normalised
from tests.errors import raises


def story(human: float, negative: float) -> Work:
    answers = {("h", "quality"): human, ("n", "quality"): negative, ("s", "quality"): 1, ("h", "quality.chaos"): 0}
    return Work(answers=answers, roles={"h": "human", "n": "negative", "s": "system"}, scales=("quality",))


def reason(found: Any) -> str:
    assert found is not None
    return str(found.reason)


@pytest.mark.parametrize(
    ("human", "negative", "expected"),
    [
        (4, 2, ""),
        (5, 1, ""),
        (3, 2, "the human-written text has 3, below 4"),
        (4, 3, "the negative example has 3, above 2"),
        (2, 4, "the human-written text has 2, below 4 and the negative example has 4, above 2"),
    ],
)
def test_mans_rejects_as_section_3_1_of_paper_4_says(human: int, negative: int, expected: str) -> None:
    found = Mans().find(story(human, negative))
    assert (found.reason if found else "") == expected


def test_mans_looks_at_the_named_question_only() -> None:
    assert Mans(question="quality").find(story(1, 1)) is not None
    assert Mans(question="interest").find(story(1, 1)) is None


def gold(value: Any, *, kind: str = "normal", role: str = "gold", expected: Any = 4) -> Work:
    answers = {} if value is None else {("g", "score"): value}
    return Work(answers=answers, roles={"g": role}, expected={("g", "score"): expected}, kind=kind)


def test_gold_answers_have_a_tolerance() -> None:
    assert KnownAnswers().find(gold(4)) is None
    assert KnownAnswers(tolerance=1).find(gold(5)) is None
    assert reason(KnownAnswers(tolerance=1).find(gold(2))) == (
        "0 of 1 known answers were right, fewer than 100% ('score' of g: 2, expected 4 give or take 1)"
    )
    assert "no answer, expected 4" in reason(KnownAnswers().find(gold(None)))


def test_a_share_of_known_answers_may_be_enough() -> None:
    keys = [(f"item-{number}", "score") for number in range(10)]
    expected = dict.fromkeys(keys, 3)
    for wrong, passes in ((2, True), (3, False)):
        given_answers = {key: 5 if number < wrong else 3 for number, key in enumerate(keys)}
        work = Work(answers=given_answers, expected=expected, kind="qualification")
        assert (Qualification().find(work) is None) is passes
        assert KnownAnswers().find(work) is None
    assert reason(Qualification().find(work)).startswith("7 of 10 known answers were right, fewer than 80%")


def test_gold_and_attention_answer_for_their_own_items() -> None:
    assert KnownAnswers().find(gold(1, role="attention")) is None
    assert Attention().find(gold(1, role="attention")) is not None
    assert Attention().find(gold(1, role="gold")) is None
    assert Attention().find(gold(1, kind="attention", role="")) is not None
    assert KnownAnswers().find(gold(1, kind="gold", role="")) is not None


def test_known_answers_of_any_widget_are_compared() -> None:
    assert is_close("a", "a", 0)
    assert is_close("Blue  sky!", "blue sky", 0)
    assert not is_close("", "...", 0)
    assert is_close(["b", "a"], ("b", "a"), 0)
    assert not is_close(["a", "b"], ["b", "a"], 0)
    assert not is_close(None, 0, 5)
    assert not is_close(True, 1.5, 0)


def test_minimum_time_is_a_share_of_the_expected_time_or_seconds() -> None:
    work = Work(answers={}, seconds=20, minutes=2)
    assert reason(MinTime().find(work)) == "the work took 20.0 seconds, fewer than 24.0"
    assert MinTime(share=0.1).find(work) is None
    assert MinTime(seconds=20).find(work) is None
    assert MinTime(seconds=20.5).find(work) is not None


def rated(*scores: int, earlier: tuple[int, ...] = ()) -> Work:
    answers = {(f"item-{number}", "score"): score for number, score in enumerate(scores)}
    return Work(answers=answers, levels=("score",), earlier={"score": earlier})


def test_straight_lining_within_an_assignment_and_over_several() -> None:
    assert reason(StraightLining().find(rated(3, 3, 3, 3, 3))) == "all 5 answers to 'score' are 3"
    assert StraightLining().find(rated(3, 3, 3, 3, 2)) is None
    assert StraightLining().find(rated(3, 3, 3, 3)) is None
    assert StraightLining().find(rated(3, earlier=(3,) * 30)) is None
    many = StraightLining(run=4)
    assert reason(many.find(rated(3, earlier=(1, 3, 3, 3)))) == "the last 4 answers to 'score' are all 3"
    assert many.find(rated(3, earlier=(3, 3))) is None
    assert many.find(rated(2, earlier=(3, 3, 3))) is None


def written(*texts: str, **before: Any) -> Work:
    answers = {(f"item-{number}", "why"): text for number, text in enumerate(texts)}
    return Work(answers=answers, texts=("why",), **before)


def test_duplicate_text_is_found_wherever_it_stood_before() -> None:
    rule, text = DuplicateText(), "The end comes out of nowhere."
    assert rule.find(written(text)) is None
    same = "the END comes... out of nowhere"
    assert "occurs 2 times in this assignment" in reason(rule.find(written(text, same)))
    assert "by the same rater" in reason(rule.find(written(text, own_texts={fingerprint(same)})))
    assert "by another rater" in reason(rule.find(written(text, other_texts={fingerprint(same)})))
    assert DuplicateText(across=False).find(written(text, other_texts={fingerprint(same)})) is None
    assert rule.find(written("No idea.", "no idea")) is None
    assert DuplicateText(words=2).find(written("No idea.", "no idea")) is not None


@given(st.text(max_size=40))
def test_normalising_ignores_case_spaces_and_punctuation_and_is_final(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert normalised(f"  {text} \t!?") == once
    assert fingerprint(f"({text})") == fingerprint(text)
    assert (fingerprint(text) == "") == (once == "")


def rows(table: np.ndarray[Any, Any], question: str = "score") -> list[tuple[str, str, str, float]]:
    return [
        (str(rater), f"item-{item}", question, float(value))
        for rater, line in enumerate(table)
        for item, value in enumerate(line)
        if not np.isnan(value)
    ]


def test_the_correlation_filter_agrees_with_the_agreement_study() -> None:
    draw = np.random.default_rng(3)
    truth = draw.normal(size=12)
    table = truth + draw.normal(scale=[[0.2], [0.3], [0.3], [0.4], [2.5]], size=(5, 12))
    for leave_one_out in (False, True):
        rule = CorrelationFilter(items=5, leave_one_out=leave_one_out)
        known = rater_correlations(table, leave_one_out=leave_one_out)
        found = [rule.find(str(rater), rows(table)) for rater in range(5)]
        assert [one is not None for one in found] == [value < 0.65 for value in known]
        assert 0 < sum(one is not None for one in found) < 5
        worst = int(np.argmin(known))
        assert f"correlate {known[worst]:.2f} with" in reason(found[worst])
        assert "over 12 items, below 0.65" in reason(found[worst])


def test_the_correlation_filter_looks_within_assignments_where_numbers_compare_there_only() -> None:
    draw = np.random.default_rng(8)
    truth = draw.normal(size=(4, 10))
    offsets, spans = draw.uniform(0, 40, size=(5, 4, 1)), draw.uniform(1, 5, size=(5, 4, 1))
    honest = offsets + spans * (truth + 0.3 * draw.normal(size=(5, 4, 10)))
    table = np.concatenate([honest, draw.uniform(1, 50, size=(1, 4, 10))]).reshape(6, 40)
    within = {(f"item-{item}", "score"): item // 10 for item in range(40)}
    rule = CorrelationFilter()
    assert [rule.find(str(rater), rows(table), within=within) is not None for rater in range(6)] == [False] * 5 + [True]
    assert sum(rule.find(str(rater), rows(table)) is not None for rater in range(5)) > 2


def test_the_correlation_filter_waits_for_enough_work() -> None:
    table = np.array([[1.0, 2, 3, 4, 5], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
    assert CorrelationFilter(items=6).find("2", rows(table)) is None
    assert CorrelationFilter(items=5, raters=4).find("2", rows(table)) is None
    assert CorrelationFilter(items=5).find("2", rows(table)) is not None
    table[2] = 3
    assert CorrelationFilter(items=5).find("2", rows(table)) is None


def test_several_questions_count_by_their_mean_correlation() -> None:
    same = np.array([[1.0, 2, 3, 4, 5]] * 3)
    contrary = np.array([[1.0, 2, 3, 4, 5], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
    both = rows(same, "form") + rows(contrary, "content")
    rule = CorrelationFilter(items=5, leave_one_out=True)
    assert "correlate 0.00 with the mean of the others" in reason(rule.find("2", both))
    assert rule.find("0", both) is not None or rule.find("0", rows(same)) is None


def test_comparisons_count_in_both_directions_so_that_the_order_of_names_does_not_matter() -> None:
    draw = np.random.default_rng(5)
    truth = np.where(draw.random(20) < 0.5, 1.0, -1.0)
    table = truth * np.where(draw.random((4, 20)) < [[0.05], [0.1], [0.1], [0.5]], -1, 1)
    items = [f"item-{number}" for number in range(20)]
    rule = CorrelationFilter(leave_one_out=True, below=1.0)
    told = [reason(rule.find(str(rater), rows(table), items)) for rater in range(4)]
    for signs in (truth, np.where(draw.random(20) < 0.3, 1.0, -1.0)):
        assert [reason(rule.find(str(rater), rows(table * signs), items)) for rater in range(4)] == told
    found = [CorrelationFilter().find(str(rater), rows(table * truth), items) is not None for rater in range(4)]
    assert found == [False, False, False, True]
    assert all("over 20 items" in one for one in told)


def test_rules_are_read_with_their_options() -> None:
    rules = read_rules({"mans": {"human": 3}, "correlation": {"below": 0.5}, "straight-lining": {"run": 12}})
    assert Mans(human=3) in rules.on_assignments
    assert rules.correlation == CorrelationFilter(below=0.5)
    assert (rules.earlier_answers, rules.rater_after("gold"), rules.rater_after("mans")) == (12, 1, 0)
    assert [rule.name for rule in read_rules({}).on_assignments] == ["gold", "attention", "qualification"]
    assert [found.rule for found in rules.find(story(2, 1))] == ["mans"]


def test_units_with_known_answers_answer_for_themselves_only() -> None:
    rules = read_rules({"min-time": {"seconds": 100}})
    assert [found.rule for found in rules.find(gold(1, kind="gold"))] == ["gold"]
    assert rules.find(gold(4, kind="gold")) == []
    assert [found.rule for found in rules.find(gold(1))] == ["gold", "min-time"]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"gold": {"tolerance": -1}}, "tolerance"),
        ({"gold": {"least": 2}}, "least"),
        ({"correlation": {"items": 2}}, "items"),
        ({"min-time": {"seconds": "ten"}}, "seconds"),
        ({"mans": 4}, None),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], option: str | None) -> None:
    with pytest.raises(OptionError) as error:
        read_rules(options)
    assert error.value.option == option


def test_rules_in_text_form_are_stored_with_all_their_options_and_read_again() -> None:
    stored = parse_rules(["min-time:seconds=20", "duplicate-text:words=3,across=false", "gold:tolerance=1"])
    assert stored["min-time"] == {"share": 0.2, "seconds": 20.0}
    rules = read_rules(stored)
    assert MinTime(seconds=20) in rules.on_assignments
    assert DuplicateText(words=3, across=False) in rules.on_assignments
    assert KnownAnswers(tolerance=1) in rules.on_assignments
    for rule in rules.on_assignments:
        assert RULES.create(rule.spec) == RULES.create(str(rule.signature)) == rule
    with pytest.raises(OptionError) as error:
        parse_rules(["mans", "mans:human=3"])
    assert error.value.option == "rule"


def test_unknown_rules_and_options_suggest_the_nearest() -> None:
    with raises(UnknownName, name="golden", nearest="gold"):
        read_rules({"golden": {}})
    with raises(UnknownName, name="tolerence", nearest="tolerance"):
        read_rules({"gold": {"tolerence": 1}})
