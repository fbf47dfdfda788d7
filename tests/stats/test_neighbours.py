"""Leave-one-out error of nearest neighbours against exact arithmetic, the printed HUSE scores, and resamples."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from papers.huse_coverage import measure

from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.stats.kernels.neighbours import (
    Draw,
    LeaveOneOut,
    leave_one_out,
    resample_errors,
    resample_halves,
    resample_items,
)
from tests.errors import raises


def exact_votes(
    points: Sequence[Sequence[int]], is_model: Sequence[bool], k: int, weights: Sequence[int]
) -> list[tuple[int, int]]:
    """Votes for the model and all votes, by a double loop in exact arithmetic; (0, 0) for items of no weight."""
    columns = [[Fraction(value) for value in column] for column in zip(*points, strict=True)]
    variances = [sum((a - b) * (a - b) for a in column for b in column) for column in columns]

    def square(i: int, j: int) -> Fraction:
        features = zip(columns, variances, strict=True)
        return Fraction(sum((column[i] - column[j]) ** 2 / variance for column, variance in features))

    found = []
    for i in range(len(points)):
        if not weights[i]:
            found.append((0, 0))
            continue
        others = sorted((square(i, j), j) for j in range(len(points)) if j != i and weights[j])
        copies = [distance for distance, j in others for _ in range(weights[j])]
        reach = copies[min(k, len(copies)) - 1] if copies else Fraction(0)
        near = [j for distance, j in others if distance <= reach]
        found.append((sum(weights[j] for j in near if is_model[j]), sum(weights[j] for j in near)))
    return found


def exact_error(points: Sequence[Sequence[int]], is_model: Sequence[bool], k: int, weights: Sequence[int]) -> float:
    votes = exact_votes(points, is_model, k, weights)
    wrong = sum(
        weight * ((2 * for_model > of_all) != label)
        for (for_model, of_all), label, weight in zip(votes, is_model, weights, strict=True)
    )
    return wrong / sum(weights)


@st.composite
def samples(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[bool], int]:
    """Few different points, so that most distances are tied; both sides; no constant feature."""
    features, size = draw(st.integers(1, 3)), draw(st.integers(8, 40))
    value = st.integers(-3, 3) if draw(st.booleans()) else st.integers(-40, 40)
    points = draw(st.lists(st.tuples(*[value] * features), min_size=size, max_size=size))
    points[0], points[1] = (5,) * features, (-4,) * features
    is_model = [True, False, *draw(st.lists(st.booleans(), min_size=size - 2, max_size=size - 2))]
    return points, is_model, draw(st.integers(1, 7))


def clouds(size: int, seed: int = 0, shift: float = 1.0) -> tuple[Any, Any]:
    """Two normal clouds, one of them rounded along an axis as mean ratings are."""
    rng = np.random.default_rng(seed)
    is_model = np.arange(size) % 2 == 0
    points = rng.normal(size=(size, 2)) + shift * is_model[:, None]
    points[:, 1] = np.round(20 * points[:, 1]) / 20
    return points, is_model


def read_summaries(folder: Path) -> tuple[Any, Any]:
    """The features of section 3.2, log p over length and judgment, and which items are the model's."""
    with (folder / "huse" / "summary_clean.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    judgment, log_p, length = (
        np.array([float(row[name]) for row in rows])
        for name in ("HumanJudgement", "ModelProbability", "LengthOfUtterance")
    )
    return np.stack([log_p / length, judgment], axis=1), np.array([row["Label"] == "True" for row in rows])


@given(samples(), st.sampled_from([1, 20, 3]))
def test_votes_are_those_of_exact_arithmetic(sample: Any, parts: int) -> None:
    points, is_model, k = sample
    found = leave_one_out(np.array(points) / parts, np.array(is_model), k=k)
    pairs = list(zip(found.votes_model.tolist(), found.votes.tolist(), strict=True))
    assert pairs == exact_votes(points, is_model, k, [1] * len(points))
    assert found.error == exact_error(points, is_model, k, [1] * len(points))


@given(samples())
def test_computed_ties_are_those_of_a_plain_loop(sample: Any) -> None:
    points, is_model, k = np.array(sample[0]) / 20, np.array(sample[1]), sample[2]
    found = leave_one_out(points, is_model, k=k, ties="computed")
    scaled = np.stack([column / np.sort(column).std() for column in points.T], axis=1)
    for i in range(len(points)):
        squares = ((scaled - scaled[i]) ** 2).sum(axis=1)
        squares[i] = np.inf
        near = squares <= np.sort(squares)[k - 1]
        assert (found.votes[i], found.votes_model[i]) == (near.sum(), is_model[near].sum())


def test_votes_without_ties_are_those_of_the_k_nearest() -> None:
    rng = np.random.default_rng(1)
    points, is_model = rng.normal(size=(500, 2)) * [1, 100], rng.random(500) < 0.5
    found = leave_one_out(points, is_model)
    scaled = points / points.std(axis=0)
    squares = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    near = np.argsort(squares, axis=1)[:, :16]
    assert (found.votes == 16).all()
    assert (found.votes_model == is_model[near].sum(axis=1)).all()


def test_all_items_level_with_the_kth_vote_however_many() -> None:
    angle = 2 * np.pi * np.arange(300) / 300
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    found = leave_one_out(np.concatenate([[[0.0, 0.0]], circle]), np.arange(301) % 3 == 0)
    assert (found.votes[0], found.votes_model[0]) == (300, 100)
    assert found.votes[1:].max() == 17 - 1


def test_many_items_on_few_spots_vote_on_their_own_spot() -> None:
    rng = np.random.default_rng(2)
    points, is_model = rng.integers(0, 20, (200_000, 2)), rng.random(200_000) < 0.5
    found = leave_one_out(points, is_model)
    spot = points @ [20, 1]
    assert (found.votes == np.bincount(spot)[spot] - 1).all()
    assert (found.votes_model == np.bincount(spot[is_model], minlength=400)[spot] - is_model).all()


def test_a_tied_vote_goes_to_human() -> None:
    found = LeaveOneOut(np.array([1, 2, 1]), np.array([2, 3, 3]), np.array([True, True, True]))
    assert found.predicted_model.tolist() == [False, True, False]
    assert found.error == 2 / 3


@pytest.mark.parametrize(("ties", "printed"), [("computed", (0.53, 0.58, 0.95)), ("equal", (0.53, 0.60, 0.93))])
def test_huse_of_the_authors_summaries(research_data: Path, ties: Any, printed: tuple[float, ...]) -> None:
    """Table 1 prints .53, .58 and .95; without its rounding of equal distances, HUSE-Q is .60."""
    features, is_model = read_summaries(research_data)
    huse, huse_q = (2 * leave_one_out(one, is_model, ties=ties).error for one in (features, features[:, 1:]))
    assert (huse, huse_q, 1 + huse - huse_q) == pytest.approx(printed, abs=1e-9)


def test_the_order_of_items_does_not_matter(research_data: Path) -> None:
    features, is_model = read_summaries(research_data)
    order = np.random.default_rng(3).permutation(len(is_model))
    for ties in ("equal", "computed"):
        found = leave_one_out(features, is_model, ties=ties)
        again = leave_one_out(features[order], is_model[order], ties=ties)
        assert (again.votes == found.votes[order]).all()
        assert (again.votes_model == found.votes_model[order]).all()


@pytest.mark.parametrize("grouped", [False, True])
def test_resamples_do_not_depend_on_the_order_of_items(grouped: bool) -> None:
    points, is_model = clouds(120)
    order = np.random.default_rng(4).permutation(120)
    groups = np.array([f"context {i // 4}" for i in range(120)]) if grouped else None
    shuffled = None if groups is None else groups[order]
    for resample in (resample_items, resample_halves):
        found = resample([points, points[:, 1:]], is_model, groups=groups, resamples=40)
        again = resample([points[order], points[order, 1:]], is_model[order], groups=shuffled, resamples=40)
        assert (found == again).all()
    errors, again = (
        resample_errors([leave_one_out(points[some], is_model[some])], groups=labels, resamples=40)
        for some, labels in ((np.arange(120), groups), (order, shuffled))
    )
    assert (errors == again).all()


@settings(max_examples=40)
@given(samples(), st.sampled_from(["copies", "halves"]), st.booleans(), st.booleans(), st.integers(0, 99))
def test_resamples_are_those_of_a_slow_loop(sample: Any, kind: Any, by_class: bool, grouped: bool, seed: int) -> None:
    points, is_model, k = sample
    whole = np.array(points)
    labels = np.array(is_model)
    groups = np.arange(len(points)) // 3 if grouped else None
    draw = Draw(kind, groups, by_class=by_class, resamples=5, seed=seed)
    maps = [whole / 20, whole[:, :1] / 20]
    order = draw.order(maps, labels)
    found = draw.errors(maps, labels, k=k)
    rows = np.concatenate(list(draw.weights(labels[order], order)))
    for b, row in enumerate(rows):
        weights = np.empty_like(row)
        weights[order] = row
        for line, used in enumerate((points, [point[:1] for point in points])):
            assert found[line, b] == exact_error(used, is_model, k, weights.tolist())


def test_draws_are_what_they_say() -> None:
    labels = np.arange(31) >= 10
    order = np.arange(31)
    for rows in Draw("copies", None, by_class=True, resamples=50, seed=1).weights(labels, order):
        assert (rows[:, :10].sum(axis=1) == 10).all()
        assert (rows[:, 10:].sum(axis=1) == 21).all()
        assert rows.max() > 1
    for rows in Draw("copies", None, by_class=False, resamples=50, seed=1).weights(labels, order):
        assert (rows.sum(axis=1) == 31).all()
        assert len(set(rows[:, :10].sum(axis=1))) > 1
    (rows,) = Draw("halves", None, by_class=True, resamples=5000, seed=1).weights(labels, order)
    assert (rows[:, :10].sum(axis=1) == 5).all()
    assert rows[:, 10:].sum(axis=1).tolist() == [10, 11] * 2500
    assert rows.mean(axis=0) == pytest.approx(0.5, abs=0.04)
    (rows,) = Draw("copies", np.arange(31) // 2, by_class=True, resamples=50, seed=1).weights(labels, order)
    assert (rows[:, 0:30:2] == rows[:, 1:30:2]).all()


def test_many_resamples_are_the_same_whatever_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    points, is_model = clouds(100)
    found = [resample([points], is_model, resamples=50) for resample in (resample_items, resample_halves)]
    monkeypatch.setattr("nlgauge.stats.kernels.neighbours._WEIGHTS_AT_ONCE", 700)
    again = [resample([points], is_model, resamples=50) for resample in (resample_items, resample_halves)]
    assert np.array_equal(found, again)


def test_resampled_errors_have_the_spread_of_independent_errors() -> None:
    points, is_model = clouds(400)
    found = [leave_one_out(one, is_model) for one in (points, points[:, 1:])]
    wrong = np.stack([one.wrong for one in found])
    expected = 4 * np.cov(wrong, bias=True) / 400
    for options in ({"by_class": False}, {"groups": np.arange(400)}):
        drawn = resample_errors(found, resamples=20_000, **options)
        assert drawn.mean(axis=1) == pytest.approx(2 * wrong.mean(axis=1), abs=0.002)
        assert np.cov(drawn) == pytest.approx(expected, abs=1e-4)
    within = (4 * np.cov(wrong[:, side], bias=True) / 800 for side in (is_model, ~is_model))
    assert np.cov(resample_errors(found, resamples=20_000)) == pytest.approx(sum(within), abs=1e-4)


def test_the_mean_of_halves_is_the_score() -> None:
    points, is_model = clouds(200)
    halves = resample_halves([points, points[:, 1:]], is_model, resamples=100)
    scores = [2 * leave_one_out(one, is_model).error for one in (points, points[:, 1:])]
    assert halves.mean(axis=1) == pytest.approx(scores, abs=1e-12)


def test_intervals_from_halves_cover_and_those_from_errors_are_too_narrow() -> None:
    """A short version of `papers/huse_coverage.py`, where all ways are compared."""
    rows = {(row.score, row.way): row for row in measure(200, 0.8, repetitions=60, resamples=100)}
    halves, errors = rows["HUSE", "halves"], rows["HUSE", "errors"]
    assert halves.covers_expected >= 0.85
    assert errors.width / 3.92 < 0.85 * errors.deviation
    assert errors.covers_expected < halves.covers_expected
    assert halves.mean - halves.truth == pytest.approx(0.08, abs=0.05)


@pytest.mark.parametrize(
    ("features", "is_model", "says"),
    [
        (np.zeros((20, 2)), np.arange(20) < 9, "feature 0 is 0 for every item"),
        (np.stack([np.arange(20), np.full(20, 0.1)], axis=1), np.arange(20) < 9, "feature 1 is 0.1 for every item"),
        (np.arange(16.0)[:, None], np.arange(16) < 9, "16 items; expected at least 17"),
        (np.arange(20.0), np.arange(20) < 9, "features of shape"),
        (np.arange(20.0)[:, None], np.arange(19) < 9, "labels of shape"),
        (np.arange(20.0)[:, None], np.arange(20) % 2, "labels of type int64"),
        (np.arange(20.0)[:, None], np.arange(20) < 0, "one side only"),
        (np.where(np.arange(20) == 3, np.nan, np.arange(20.0))[:, None], np.arange(20) < 9, "not finite"),
        (np.linspace(0, 1e300, 20)[:, None], np.arange(20) < 9, "standard deviation of inf"),
    ],
)
def test_bad_items_are_refused_with_advice(features: Any, is_model: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        leave_one_out(features, is_model)


def test_bad_options_are_refused_with_advice() -> None:
    points, is_model = clouds(40)
    found = leave_one_out(points, is_model)
    with pytest.raises(OptionError, match="k = 0"):
        leave_one_out(points, is_model, k=0)
    with raises(UnknownName, name="equals", nearest="equal"):
        leave_one_out(points, is_model, ties="equals")  # type: ignore[arg-type]
    for resample in (resample_items, resample_halves):
        with pytest.raises(OptionError, match="0 resamples"):
            resample([points], is_model, resamples=0)
        with pytest.raises(DataError, match="no feature maps"):
            resample([], is_model)
        with pytest.raises(DataError, match="one label per item"):
            resample([points], is_model, groups=np.arange(3))
    with pytest.raises(DataError, match="at least 34"):
        resample_halves([points[:30]], is_model[:30])
    with pytest.raises(OptionError, match="0 resamples"):
        resample_errors([found], resamples=0)
    with pytest.raises(DataError, match="no results"):
        resample_errors([])
    with pytest.raises(DataError, match="different items"):
        resample_errors([found, leave_one_out(points, ~is_model)])
