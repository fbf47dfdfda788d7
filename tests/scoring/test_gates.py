"""Conditions that make a run fail: met, not met, and wrong before any work."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

import nlgauge
from nlgauge.errors import DataError, NLGaugeError, OptionError, UnknownName
from nlgauge.metrics.registry import create_metrics
from nlgauge.metrics.score import Score
from nlgauge.scoring.gates import Gate, read_gates
from tests import helpers
from tests.errors import raises

SETS = [["a b c", "a b d"], ["e f", "e f"], ["g", "h"]]


@pytest.fixture(scope="module")
def score() -> Score:
    """Distinct-1 of some sets, a value between its interval's ends."""
    return replace(nlgauge.score(SETS, ["distinct:n=1"], confidence=True)[0], system="a")


def gate(condition: str, *specs: str) -> Gate:
    return read_gates([condition], create_metrics(specs or ["distinct:n=1"]))[0]


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("distinct < 0.4", False),
        ("distinct > 0.4", True),
        ("distinct:n=1>=.7222", True),
        ("distinct <= 7.23e-1", True),
        ("distinct > -1", True),
        ("distinct.low < 0.6", True),
        ("distinct.low@a > 0.6", False),
        ("distinct:n=1.high@a >= 1", True),
        ("  distinct@a   <  1 ", True),
    ],
)
def test_a_condition_is_met_when_it_holds(score: Score, condition: str, met: bool) -> None:
    assert score.value == pytest.approx((4 / 6 + 0.5 + 1) / 3)
    assert score.ci is not None
    assert 0.3 < score.ci[0] < 0.5
    assert score.ci[1] == 1.0
    found = gate(condition).met([score])
    assert bool(found) is met
    if met:
        assert found[0].startswith(f"{condition.strip()}: distinct:n=1")


def test_a_condition_about_a_system_leaves_the_others_alone(score: Score) -> None:
    both = [score, replace(score, system="b@2", value=0.1)]
    assert gate("distinct < 0.4").met(both) == ["distinct < 0.4: distinct:n=1 of 'b@2' is 0.1"]
    assert gate("distinct@a < 0.4").met(both) == []
    assert gate("distinct@b@2 < 0.4").met(both) == ["distinct@b@2 < 0.4: distinct:n=1 of 'b@2' is 0.1"]
    with raises(UnknownName, option="fail_if", name="c"):
        gate("distinct@c < 0.4").met(both)


@pytest.mark.parametrize("condition", ["distinct < 0.4", "distinct > 0.4", "distinct.low >= 0", "distinct.high <= 9"])
def test_a_value_that_is_no_number_meets_every_condition(score: Score, condition: str) -> None:
    nothing = replace(score, value=math.nan, ci=(math.nan, math.nan))
    assert "is not a number, which meets every condition" in gate(condition).met([nothing])[0]


def test_a_metric_without_an_interval_has_no_ends(score: Score) -> None:
    with raises(DataError, option="fail_if"):
        gate("distinct.low < 1").met([replace(score, ci=None)])


@pytest.mark.parametrize(
    ("condition", "kind", "message"),
    [
        ("distinct", OptionError, "is no condition; expected METRIC"),
        ("distinct = 0.4", OptionError, "is no condition; expected METRIC"),
        ("distinct < much", OptionError, "'much' is no number"),
        ("distinct < nan", OptionError, "'nan' is no number"),
        ("distinct < 40%", OptionError, "'40%' is no number"),
        ("< 0.4", OptionError, "is no condition"),
        ("distnct < 0.4", UnknownName, "did you mean 'distinct"),
        ("self-bleu > 0.4", UnknownName, "add it with -m"),
        ("distinct.middle < 0.4", UnknownName, "unknown metric"),
    ],
)
def test_what_is_no_condition_says_what_was_expected(condition: str, kind: type[NLGaugeError], message: str) -> None:
    with pytest.raises(kind, match=message):
        gate(condition)


def test_a_name_that_stands_for_several_metrics_is_refused() -> None:
    with raises(OptionError, option="fail_if"):
        gate("distinct < 0.4", "distinct:n=1", "distinct:n=2")
    assert gate("distinct < 0.4", "distinct", "distinct:n=2").label == "distinct"
    assert gate("distinct:n=2.low < 0.4", "distinct:n=1", "distinct:n=2").label == "distinct:n=2"


def test_the_command_exits_with_1_and_says_why_after_the_scores(tmp_path: Path, examples: Path) -> None:
    files = [str(examples / f"system_{name}.jsonl") for name in "ab"]
    arguments = ["score", *files, "-m", "distinct", "-f", "json", "--fail-if"]
    done = helpers.nlgauge(*arguments, "distinct < 0.8", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 1
    assert len(json.loads(done.out)["scores"]) == 2
    assert "nlgauge: failed: distinct < 0.8: distinct of 'a' is 0.714" in done.err
    assert "of 'b'" not in done.err
    done = helpers.nlgauge(*arguments, "distinct < 0.4", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 0
    assert "failed" not in done.err


def test_a_condition_may_be_about_the_difference_from_the_first_system(tmp_path: Path, examples: Path) -> None:
    files = [str(examples / f"system_{name}.jsonl") for name in "ba"]
    for command in ("score", "compare"):
        arguments = [command, *files, "-m", "distinct", "--fail-if"]
        done = helpers.nlgauge(*arguments, "distinct.difference.high < 0", cwd=tmp_path, cache=tmp_path / "cache")
        assert done.code == 1
        assert "failed: distinct.difference.high < 0: distinct.difference.high of 'a' is -0.05" in done.err
        for unmet in ("distinct.difference.low > 0", "distinct.p > 0.05", "distinct.difference@a > 0"):
            done = helpers.nlgauge(*arguments, unmet, cwd=tmp_path, cache=tmp_path / "cache")
            assert (done.code, "failed" in done.err) == (0, False), (unmet, done.err)
    alone = ["score", files[0], "-m", "distinct", "--fail-if", "distinct.p < 0.05"]
    done = helpers.nlgauge(*alone, cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 2
    assert "no systems were compared; expected several files" in done.err


def test_a_wrong_condition_ends_the_command_before_anything_is_read(tmp_path: Path) -> None:
    arguments = ["score", "no-such-file.jsonl", "-m", "distinct", "--fail-if", "self-bleu > 0.4"]
    done = helpers.nlgauge(*arguments, cwd=tmp_path, cache=tmp_path / "cache")
    assert (done.code, done.out) == (2, "")
    assert "unknown metric in --fail-if 'self-bleu > 0.4'" in done.err


def test_a_condition_on_an_interval_brings_the_interval(tmp_path: Path, examples: Path) -> None:
    arguments = ["score", str(examples / "system_a.jsonl"), "-m", "distinct", "--fail-if", "distinct.high < 0.76"]
    done = helpers.nlgauge(*arguments, cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 1
    assert "distinct.high of 'a' is 0.75" in done.err
    assert "  [0.67" in done.out
