"""Improvements of metrics and of human scores: windows, their pairs, and what the table says about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, ttest_ind

import nlgauge
from nlgauge.errors import DataError, OptionError
from nlgauge.studies.story.improvement import ImprovementStudy, compare_windows, number_of_windows
from tests.errors import raises
from tests.helpers import nlgauge as command

SHARES = ("both", "human_only", "metric_only", "neither")


def made_table(count: int = 120, seed: int = 0) -> pl.DataFrame:
    """Human scores in steps of a fifth, as means of five ratings are; one metric follows them and one does not."""
    rng = np.random.default_rng(seed)
    human = np.round(np.clip(rng.normal(3, 1, count), 1, 5) * 5) / 5
    return pl.DataFrame(
        {
            "id": [f"story {i}" for i in range(count)], "human": human, "good": human + rng.normal(size=count),
            "noise": rng.normal(size=count), "same": [1.0] * count,
        }
    )  # fmt: skip


def study_of(frame: pl.DataFrame, **options: Any) -> nlgauge.Result:
    given_options = {"truth": "human", "columns": ["good", "noise"], "window": 40, "stride": 5, **options}
    return ImprovementStudy(**given_options).run(frame)


def slow_pairs(human: Any, metric: Any, size: int, stride: int, count: int) -> list[tuple[float, float, bool, bool]]:
    """Every ordered pair of windows by the book: two differences, and whether SciPy calls each significant at .01."""
    starts = [i * stride for i in range(count)]
    found = []
    for i in starts:
        for j in starts:
            one, other = (human[i : i + size], metric[i : i + size]), (human[j : j + size], metric[j : j + size])
            p = [ttest_ind(a, b).pvalue for a, b in zip(one, other, strict=True)]
            difference = [float(np.mean(a) - np.mean(b)) for a, b in zip(one, other, strict=True)]
            found.append((difference[0], difference[1], bool(p[0] < 0.01), bool(p[1] < 0.01)))
    return found


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 6), st.integers(3, 6), st.floats(0, 3))
@settings(max_examples=25, deadline=None)
def test_windows_equal_a_slow_and_obvious_version(seed: int, size: int, stride: int, count: int, pull: float) -> None:
    rng = np.random.default_rng(seed)
    items = size + stride * count
    human = np.sort(rng.normal(size=items))
    metric = pull * human + rng.normal(size=items)
    found = compare_windows(human, metric, size=size, stride=stride, count=count)
    slow = slow_pairs(human, metric, size, stride, count)
    expected = np.array([pair[:2] for pair in slow])
    assert found.human_differences.ravel() == pytest.approx(expected[:, 0], abs=1e-12)
    assert found.metric_differences.ravel() == pytest.approx(expected[:, 1], abs=1e-12)
    assert (found.human_p < 0.01).ravel().tolist() == [pair[2] for pair in slow]
    assert (found.metric_p < 0.01).ravel().tolist() == [pair[3] for pair in slow]


def test_the_row_says_what_the_pairs_say() -> None:
    frame = made_table().with_columns(human=pl.Series(np.random.default_rng(1).normal(size=120)))
    frame = frame.with_columns(good=pl.col("human") + pl.col("good"))
    ordered = frame.sort("human")
    slow = slow_pairs(ordered["human"].to_numpy(), ordered["good"].to_numpy(), 40, 5, 16)
    row = study_of(frame).row("good")
    assert (row["n"], row["windows"], row["pairs"]) == (120, 16, 256)
    people, metric = ([pair[side] for pair in slow] for side in (0, 1))
    assert row["r2"] == pytest.approx(pearsonr(people, metric).statistic ** 2)
    assert row["slope"] == pytest.approx(np.polyfit(people, metric, 1)[0])
    classes = [(a, b) for _, _, a, b in slow]
    expected = [classes.count(kind) / 256 for kind in ((True, True), (True, False), (False, True), (False, False))]
    assert [row[name] for name in SHARES] == pytest.approx(expected)
    assert sum(expected[:2]) > 0.3
    assert row["opposed"] == pytest.approx(np.mean([a and b and x * y < 0 for x, y, a, b in slow]))
    assert row["r2_ties"] is None


def test_a_metric_that_falls_where_people_rise_is_opposed_and_said() -> None:
    frame = made_table().with_columns(inverted=-pl.col("human"))
    study = study_of(frame, columns=["inverted"])
    row = study.row("inverted")
    assert row["r2"] == pytest.approx(1)
    assert row["slope"] == pytest.approx(-1)
    assert row["opposed"] == row["both"] > 0.3
    assert any("inverted falls where human scores rise" in note for note in study.notes)


def test_the_paper_counts_80_windows_of_1000_items_and_81_fit() -> None:
    assert number_of_windows(1000, 200, 10, "paper") == 80
    assert number_of_windows(1000, 200, 10, "all") == 81
    assert number_of_windows(199, 200, 10, "all") == 0
    frame = made_table(1000)
    paper, every = (ImprovementStudy(truth="human", columns=["good"], windows=w).run(frame) for w in ("paper", "all"))
    assert (paper.rows[0]["windows"], paper.rows[0]["pairs"]) == (80, 6400)
    assert (every.rows[0]["windows"], every.rows[0]["pairs"]) == (81, 6561)


def test_the_order_of_items_does_not_matter_though_most_are_tied() -> None:
    frame = made_table()
    shuffled = frame.sample(fraction=1, shuffle=True, seed=4)
    assert frame["id"].to_list() != shuffled["id"].to_list()
    one, other = study_of(frame), study_of(shuffled)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a == b
    assert one.notes == other.notes


def test_items_of_one_id_are_told_apart_by_their_cells() -> None:
    frame = made_table().with_columns(id=pl.lit("the same"))
    assert list(study_of(frame).rows) == list(study_of(frame.reverse()).rows)


def test_ties_are_counted_and_their_order_is_judged() -> None:
    study = study_of(made_table())
    row = study.row("noise")
    assert row["r2_ties"][0] < row["r2_ties"][1]
    assert any("items share their score with others" in note for note in study.notes)
    assert not any("place in the file" in note for note in study.notes)
    assert study_of(made_table(), seed=1).row("noise")["r2"] != row["r2"]
    nameless = study_of(made_table().drop("id"))
    assert any("named by their place in the file" in note for note in nameless.notes)


def test_items_without_a_value_are_left_out_and_counted() -> None:
    frame = made_table().with_columns(good=pl.when(pl.col("id") != "story 7").then(pl.col("good")))
    study = study_of(frame)
    assert (study.row("good")["n"], study.row("noise")["n"]) == (119, 120)
    assert "good has no value on 1 of 120 sets; they are left out" in study.notes


def test_a_constant_metric_has_no_r2_and_is_never_significant() -> None:
    study = study_of(made_table(), columns=["same"])
    row = study.row("same")
    assert (row["r2"], row["slope"], row["both"], row["metric_only"]) == (None, None, 0, 0)
    assert any("same is the same in all windows" in note for note in study.notes)
    study.chart().to_dict()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"window": 110}, DataError, "120 items with good make 2 windows of 110 items, 5 apart"),
        ({"window": 200}, DataError, "make 0 windows"),
        ({"window": 1}, OptionError, "window=1; expected at least 2"),
        ({"stride": 0}, OptionError, "stride=0; expected at least 1"),
        ({"alpha": 1.0}, OptionError, "alpha=1.0; expected a p between 0 and 1"),
        ({"windows": "some"}, OptionError, "windows=some; expected one of paper, all"),
        ({"truth": "same"}, DataError, "all items have 1"),
        ({"truth": "nothing"}, DataError, "no such column"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        study_of(made_table(), **options)


def test_too_many_windows_are_refused() -> None:
    with raises(OptionError, option="stride"):
        study_of(made_table(2100), stride=1)


def test_the_chart_shows_pairs_with_no_negative_human_difference() -> None:
    study = study_of(made_table())
    points = study.tables["points"]
    assert points.filter(pl.col("metric") == "good").height == 16 * 17 // 2
    assert (points["human"] >= 0).all()
    assert set(points["class"]) <= {
        "human (s), metric (s)", "human (s), metric (ns)", "human (ns), metric (s)", "human (ns), metric (ns)"
    }  # fmt: skip


def test_the_command_prints_and_draws(tmp_path: Path) -> None:
    made_table().write_csv(tmp_path / "stories.csv")
    arguments = ("study", "improvement", "stories.csv", "--truth", "human", "--column", "good", "--window", "40")
    done = command(*arguments, "-f", "json", "--chart", "chart.png", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["rows"][0]["windows"] == 8
    assert "|window:40|stride:10|windows:paper|alpha:0.01|seed:12345|" in document["signature"]
    assert (tmp_path / "chart.png").stat().st_size > 1000
    refused = command(*arguments, "--windows", "some", cwd=tmp_path, cache=tmp_path / "cache")
    assert (refused.code, refused.out) == (2, "")
    assert "expected one of paper, all" in refused.err
