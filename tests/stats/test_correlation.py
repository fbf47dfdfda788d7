"""Correlation and classification accuracy against slow and obvious versions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr, spearmanr

from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.stats.correlation import (
    Correlation,
    Directions,
    Kind,
    Weighted,
    bootstrap,
    bootstrap_intervals,
    correlation,
    correlation_test,
    optimal_accuracy,
    resampled,
    spearman,
    weighted_accuracy,
    weighted_correlation,
    weighted_kendall,
    weighted_pearson,
    weighted_spearman,
)
from tests.errors import raises

SCIPY: dict[Kind, Any] = {"pearson": pearsonr, "spearman": spearmanr, "kendall": kendalltau}
KINDS: list[Kind] = list(SCIPY)
STATISTICS: dict[Kind, Weighted] = {
    "pearson": weighted_pearson,
    "spearman": weighted_spearman,
    "kendall": weighted_kendall,
}
values = st.lists(st.integers(-3, 3), min_size=3, max_size=12)
directions: st.SearchStrategy[Directions] = st.sampled_from(("one", "both"))


@given(st.data())
def test_weights_are_items_drawn_so_many_times(data: st.DataObject) -> None:
    x = np.array(data.draw(values), dtype=float)
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(x), max_size=len(x))), dtype=float)
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(x), max_size=len(x))))
    if counts.sum() < 2:
        counts[:2] += 1
    drawn = np.repeat(np.arange(len(x)), counts)
    weights = counts[None].astype(float)
    for kind, peer in SCIPY.items():
        found = weighted_correlation(x, y, weights, kind)[0]
        if len(set(x[drawn])) == 1 or len(set(y[drawn])) == 1:
            assert np.isnan(found)
        else:
            assert found == pytest.approx(peer(x[drawn], y[drawn])[0], abs=1e-12)
    labels = (y > 0).astype(float)
    if len(set(labels)) == 2:
        which: Directions = data.draw(directions)
        accuracy = weighted_accuracy(x, labels, weights, directions=which)[0]
        assert accuracy == pytest.approx(best_accuracy(x[drawn], labels[drawn], which), abs=1e-12)


def best_accuracy(x: Any, y: Any, which: Directions = "one") -> float:
    """Try every threshold."""
    found = [float(((x > threshold) == (y == 1)).mean()) for threshold in [-np.inf, *x]]
    return max(found + ([1 - accuracy for accuracy in found] if which == "both" else []))


@given(st.data())
def test_the_threshold_reaches_the_accuracy(data: st.DataObject) -> None:
    x = np.array(data.draw(values), dtype=float)
    y = np.array([0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=len(x) - 2, max_size=len(x) - 2))], dtype=float)
    which: Directions = data.draw(directions)
    accuracy, threshold = optimal_accuracy(x, y, directions=which)
    assert accuracy == pytest.approx(best_accuracy(x, y, which), abs=1e-12)
    above = float(((x > threshold) == (y == 1)).mean())
    assert accuracy == pytest.approx(above if which == "one" else max(above, 1 - above), abs=1e-12)
    assert accuracy == weighted_accuracy(x, y, np.ones((1, len(x))), directions=which)[0]


def test_thresholds_lie_midway_and_may_lie_beyond_all_values() -> None:
    assert optimal_accuracy(np.array([1.0, 2, 4]), np.array([0, 0, 1])) == (1.0, 3.0)
    assert optimal_accuracy(np.array([4.0, 2, 1]), np.array([0, 0, 1])) == (2 / 3, np.inf)
    assert optimal_accuracy(np.array([4.0, 2, 1]), np.array([0, 1, 1])) == (2 / 3, -np.inf)
    assert optimal_accuracy(np.array([4.0, 2, 1]), np.array([0, 0, 1]), directions="both") == (1.0, 1.5)
    near = np.nextafter(1.0, 2)
    assert optimal_accuracy(np.array([1.0, near]), np.array([0, 1])) == (1.0, 1.0)
    assert optimal_accuracy(np.array([1.5e308, 1.7e308]), np.array([0, 1]))[1] == pytest.approx(1.6e308)


def test_an_inverted_metric_is_no_better_than_a_constant_unless_both_directions_count() -> None:
    labels, inverted = np.array([0, 0, 1, 1]), np.array([4.0, 3, 2, 1])
    assert optimal_accuracy(np.array([1.0, 2, 3, 4]), labels)[0] == 1.0
    assert optimal_accuracy(inverted, labels)[0] == 0.5
    assert optimal_accuracy(inverted, labels, directions="both") == (1.0, 2.5)
    assert spearman(inverted, np.array([1.0, 2, 3, 4])) == pytest.approx(-1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("size", [3, 20, 150])
def test_p_values_are_those_of_scipy(kind: Kind, tied: bool, size: int) -> None:
    x, y = np.random.default_rng(size).normal(size=(2, size))
    if tied and size > 3:
        x, y = np.round(x), np.round(x + y)
    peer = SCIPY[kind](x, y)
    found = correlation_test(x, y, kind)
    assert found.value == correlation(x, y, kind) == pytest.approx(peer[0], abs=1e-12)
    assert found.p == pytest.approx(peer[1], rel=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_values_whose_squares_vanish_or_overflow_correlate_all_the_same(scale: float) -> None:
    x, y = np.random.default_rng(2).normal(size=(2, 30))
    assert correlation(scale * x, y, "pearson") == pytest.approx(pearsonr(x, y)[0], abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_has_no_correlation_and_says_so_quietly(kind: Kind) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in (([0.1] * 5, range(5)), (range(5), [7] * 5)):
            found = correlation_test(np.array(x), np.array(y), kind)
            assert isinstance(found, Correlation)
            assert np.isnan([found.value, found.p]).all()
    with pytest.raises(DataError, match="2 items; expected at least 3"):
        correlation_test(np.array([1.0, 2]), np.array([1.0, 2]), kind)


@pytest.mark.parametrize("weighted", [*STATISTICS.values(), weighted_accuracy])
def test_intervals_depend_on_the_seed_but_not_on_the_order(weighted: Weighted) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 80).astype(float)
    found = rng.normal(size=80) + labels
    low, high = bootstrap(weighted, found, labels, resamples=400)
    order = rng.permutation(80)
    assert bootstrap(weighted, found[order], labels[order], resamples=400) == (low, high)
    assert bootstrap(weighted, found, labels, resamples=400, seed=1) != (low, high)
    assert low < float(weighted(found, labels, np.ones((1, 80)))[0]) <= high


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("levels", [2, 4])
def test_many_metrics_at_once_get_what_each_gets_alone(statistic: Kind, levels: int) -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, levels, 90).astype(float)
    metrics = rng.normal(size=(6, 90)) + truth
    metrics[1], metrics[2], metrics[3] = np.round(metrics[1]), 1e6 + 1e-3 * metrics[2], 0.0
    found = bootstrap_intervals(metrics, truth, statistic, resamples=300, seed=9)
    alone = [bootstrap_intervals(row[None], truth, statistic, resamples=300, seed=9)[0] for row in metrics]
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-12)
    order = rng.permutation(90)
    some = resampled(metrics[[4, 1]][:, order], truth[order], statistic, resamples=300, seed=9)
    np.testing.assert_allclose(
        some, resampled(metrics, truth, statistic, resamples=300, seed=9)[[4, 1]], rtol=0, atol=1e-12
    )
    assert np.isnan(found[3]).all()


def test_blocks_of_resamples_do_not_change_them(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, truth = np.random.default_rng(1).normal(size=(3, 50)), np.arange(50.0)
    whole = resampled(metrics, truth, "kendall", resamples=101)
    monkeypatch.setattr("nlgauge.stats.correlation._WEIGHTS_AT_ONCE", 400)
    assert (resampled(metrics, truth, "kendall", resamples=101) == whole).all()


def test_intervals_of_rho_cover_the_truth_about_as_often_as_they_say() -> None:
    truth, hits = spearman(*sample(np.random.default_rng(1), 200_000)), 0
    for seed in range(200):
        low, high = bootstrap(weighted_spearman, *sample(np.random.default_rng([2, seed]), 100), resamples=300)
        hits += low <= truth <= high
    assert 0.89 <= hits / 200 <= 0.99


def sample(rng: np.random.Generator, size: int) -> tuple[Any, Any]:
    labels = rng.integers(0, 2, size).astype(float)
    return rng.normal(size=size) + 1.5 * labels, labels


@pytest.mark.parametrize("kind", ["pearson", "spearman", "kendall"])
def test_perfect_order_has_an_interval_with_width(kind: Kind) -> None:
    items = np.arange(10.0)
    for sign in (1, -1):
        ((low, high),) = bootstrap_intervals(sign * items[None], items, kind, resamples=100)
        assert sorted(np.abs([low, high])) == pytest.approx([0.44, 1.0], abs=0.01)
        assert np.sign([low, high]).tolist() == [sign, sign]


def test_values_that_cannot_be_compared_are_refused() -> None:
    one, two, three = np.array([1.0]), np.array([1.0, 2]), np.array([1.0, 2, 3])
    with pytest.raises(DataError, match="two rows"):
        spearman(two, one)
    with pytest.raises(DataError, match="finite"):
        spearman(np.array([1.0, np.nan]), two)
    with pytest.raises(DataError, match="3 different labels"):
        optimal_accuracy(three, np.array([0, 1, 2]))
    with pytest.raises(DataError, match="one class only"):
        optimal_accuracy(three, np.array([1, 1, 1]))
    with pytest.raises(DataError, match="one class only"):
        weighted_accuracy(three, np.array([1, 1, 1]), np.ones((1, 3)))
    with pytest.raises(DataError, match="one row per metric"):
        resampled(three, three, "pearson")
    with pytest.raises(DataError, match="finite"):
        resampled(np.array([[1.0, np.inf]]), two, "pearson")
    with raises(UnknownName, name="pearsons", nearest="pearson"):
        resampled(three[None], three, "pearsons")  # type: ignore[arg-type]
    with raises(UnknownName, name="any"):
        optimal_accuracy(two, two, directions="any")  # type: ignore[arg-type]
    with raises(OptionError, option="resamples"):
        bootstrap_intervals(three[None], three, "pearson", resamples=10)
    assert np.isnan(spearman(np.array([1.0, 1.0]), np.array([0.0, 1.0])))
