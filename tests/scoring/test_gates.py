"""Conditions that make a run fail: met, not met, and wrong before any work."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import nlgauge
from nlgauge.arrays import Array
from nlgauge.errors import DataError, NLGaugeError, OptionError, UnknownName
from nlgauge.metrics.column import ColumnMetric
from nlgauge.metrics.registry import create_metrics
from nlgauge.metrics.score import ItemValues, RowKeys, Score, is_skewed
from nlgauge.scoring.compared import Comparison
from nlgauge.scoring.comparison import compare_all
from nlgauge.scoring.gates import Gate, read_gates
from nlgauge.signature import Signature
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


def compared(first: Array, second: Array, margin: float | None = None) -> list[Comparison]:
    """Two systems with these values on the same contexts."""
    contexts = np.arange(len(first), dtype=np.uint64)
    keys = RowKeys(pl.Series("id", contexts.astype(str).tolist()), contexts)
    scores = [
        Score(
            "distinct",
            "distinct:n=1",
            float(values.mean()),
            len(values),
            Signature("distinct", {"n": "1"}),
            "more diverse",
            items=ItemValues((keys,), (values,)),
            system=system,
        )
        for system, values in (("a", first), ("b", second))
    ]
    return compare_all(scores, margin=margin)


@pytest.mark.parametrize("units", [6, 20])
def test_gates_on_differences_seldom_fire_where_there_is_none(units: int) -> None:
    """Percentile intervals of 6 contexts fired in 7 % of such runs; a one-sided test at .025 may in 2.5 %."""
    rng = np.random.default_rng(units)
    gates = [gate(f"distinct.{condition}") for condition in ("difference.high < 0", "worse_p < 0.05")]
    limit = gate("distinct.not_worse_p < 0.05")
    times, fired = 600, np.zeros(3)
    for _ in range(times):
        first, second = rng.lognormal(0, 0.5, (2, units))
        found = compared(first, second)
        fired[:2] += [bool(one.met([], found)) for one in gates]
        fired[2] += bool(limit.met([], compared(first, second - 0.3, margin=0.3)))
    assert (fired[:2] / times < 0.025 + 2.5 * math.sqrt(0.025 * 0.975 / times)).all()
    assert fired[2] / times < 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / times)


def test_gates_on_a_margin_say_what_a_build_needs_to_know() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0.5, 0.1, 40)
    noise = rng.normal(0, 0.02, 40)
    noise -= noise.mean()
    for shift, worse, not_worse, equal in ((-0.1, 1, 0, 0), (-0.02, 1, 1, 1), (0.0, 0, 1, 1), (0.1, 0, 1, 0)):
        found = compared(base, base + noise + shift, margin=0.05)
        met = [gate(f"distinct.{end} < 0.05").met([], found) for end in ("worse_p", "not_worse_p", "equal_p")]
        assert [len(lines) for lines in met] == [worse, not_worse, equal], shift
        failed = gate("distinct.not_worse_p@b >= 0.05").met([], found)
        assert len(failed) == 1 - not_worse
    unclear = compared(base[:6], base[:6] + rng.normal(0, 0.5, 6), margin=0.05)
    assert gate("distinct.not_worse_p >= 0.05").met([], unclear)
    assert "not a number" in gate("distinct.not_worse_p >= 2").met([], compared(base, base + noise))[0]


def test_a_gate_on_a_margin_without_one_fails_before_any_work(tmp_path: Path) -> None:
    arguments = ["score", "no-such-file.jsonl", "nor-this.jsonl", "-m", "distinct", "--fail-if", "distinct.equal_p > 0"]
    done = helpers.nlgauge(*arguments, cwd=tmp_path, cache=tmp_path)
    assert done.code == 2
    assert "--fail-if 'distinct.equal_p > 0' is about a margin; expected one, as in --margin 0.02" in done.err


@pytest.mark.parametrize("margin", ["0", "-0.1", "nan"])
@pytest.mark.parametrize("command", ["score", "compare", "report"])
def test_a_margin_is_a_number_above_0(command: str, margin: str, tmp_path: Path) -> None:
    done = helpers.nlgauge(command, "a.jsonl", "b.jsonl", f"--margin={margin}", cwd=tmp_path, cache=tmp_path)
    assert done.code == 2
    assert "expected a number above 0" in done.err


@pytest.mark.parametrize("command", ["score", "compare"])
def test_scores_and_comparisons_show_the_tests_of_a_margin(command: str, examples: Path, tmp_path: Path) -> None:
    files = [str(examples / f"system_{name}.jsonl") for name in "ab"]

    def printed(*options: str) -> str:
        return helpers.nlgauge(command, *files, "-m", "distinct", *options, cwd=tmp_path, cache=tmp_path).out

    table = printed("--margin", "0.5")
    assert "p (equal)  p (not worse)" in table
    assert "b is more diverse than a, but by less than 0.5" in table
    (found,) = json.loads(printed("--margin", "0.5", "--format", "json"))["comparisons"]
    assert 0 < found["equal_p"] < 0.05 > found["not_worse_p"] > 0
    assert "equal" not in printed()


def test_the_warning_about_skewed_values_is_about_the_units_that_were_used() -> None:
    rng = np.random.default_rng(3)
    rows = [
        {"id": f"{context}-{i}", "context": f"c{context}", "text": "a", "x": float(value)}
        for context, value in enumerate(rng.lognormal(0, 1, 8))
        for i in range(40)
    ]
    skewed = {
        unit: is_skewed(nlgauge.score(pl.DataFrame(rows), [ColumnMetric(column="x")], confidence=True, unit=unit)[0])
        for unit in ("auto", "context", "set")
    }
    assert skewed == {"auto": True, "context": True, "set": False}
