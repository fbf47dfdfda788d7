"""Rank correlation and classification accuracy against slow and obvious versions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from nlgauge.errors import DataError
from nlgauge.stats.correlation import (
    bootstrap,
    optimal_accuracy,
    spearman,
    weighted_accuracy,
    weighted_spearman,
)

values = st.lists(st.integers(-3, 3), min_size=3, max_size=12)


@given(st.data())
def test_weights_are_items_drawn_so_many_times(data: st.DataObject) -> None:
    x = np.array(data.draw(values), dtype=float)
    y = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(x), max_size=len(x))), dtype=float)
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(x), max_size=len(x))))
    if counts.sum() < 2:
        counts[:2] += 1
    drawn = np.repeat(np.arange(len(x)), counts)
    rho = weighted_spearman(x, y, counts[None].astype(float))[0]
    if len(set(x[drawn])) == 1 or len(set(y[drawn])) == 1:
        assert np.isnan(rho)
    else:
        assert rho == pytest.approx(spearmanr(x[drawn], y[drawn])[0], abs=1e-12)
    if len(set(y)) == 2:
        found = weighted_accuracy(x, y, counts[None].astype(float))[0]
        assert found == pytest.approx(best_accuracy(x[drawn], y[drawn]), abs=1e-12)


def best_accuracy(
    x: np.ndarray[tuple[int], np.dtype[np.float64]], y: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    """Try every threshold."""
    return max(float(((x > threshold) == (y == 1)).mean()) for threshold in [-np.inf, *x])


@given(st.data())
def test_the_threshold_reaches_the_accuracy(data: st.DataObject) -> None:
    x = np.array(data.draw(values), dtype=float)
    y = np.array([0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=len(x) - 2, max_size=len(x) - 2))], dtype=float)
    accuracy, threshold = optimal_accuracy(x, y)
    assert accuracy == pytest.approx(best_accuracy(x, y), abs=1e-12)
    assert ((x > threshold) == (y == 1)).mean() == pytest.approx(accuracy, abs=1e-12)


def test_an_inverted_metric_is_no_better_than_a_constant() -> None:
    labels = np.array([0, 0, 1, 1])
    assert optimal_accuracy(np.array([1.0, 2, 3, 4]), labels)[0] == 1.0
    assert optimal_accuracy(np.array([4.0, 3, 2, 1]), labels)[0] == 0.5
    assert spearman(np.array([4.0, 3, 2, 1]), np.array([1.0, 2, 3, 4])) == pytest.approx(-1)


@pytest.mark.parametrize("statistic", [weighted_spearman, weighted_accuracy])
def test_intervals_depend_on_the_seed_but_not_on_the_order(
    statistic: Callable[..., np.ndarray[tuple[int], np.dtype[np.float64]]],
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 80).astype(float)
    found = rng.normal(size=80) + labels
    low, high = bootstrap(statistic, found, labels, resamples=400)
    order = rng.permutation(80)
    assert bootstrap(statistic, found[order], labels[order], resamples=400) == (low, high)
    assert bootstrap(statistic, found, labels, resamples=400, seed=1) != (low, high)
    assert low < float(statistic(found, labels, np.ones((1, 80)))[0]) <= high


def test_intervals_of_rho_cover_the_truth_about_as_often_as_they_say() -> None:
    truth, hits = spearman(*sample(np.random.default_rng(1), 200_000)), 0
    for seed in range(200):
        low, high = bootstrap(weighted_spearman, *sample(np.random.default_rng([2, seed]), 100), resamples=300)
        hits += low <= truth <= high
    assert 0.89 <= hits / 200 <= 0.99


def sample(
    rng: np.random.Generator, size: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    labels = rng.integers(0, 2, size).astype(float)
    return rng.normal(size=size) + 1.5 * labels, labels


def test_values_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(DataError, match="two rows"):
        spearman(np.array([1.0, 2.0]), np.array([1.0]))
    with pytest.raises(DataError, match="finite"):
        spearman(np.array([1.0, np.nan]), np.array([1.0, 2.0]))
    with pytest.raises(DataError, match="3 different labels"):
        optimal_accuracy(np.array([1.0, 2, 3]), np.array([0, 1, 2]))
    assert np.isnan(spearman(np.array([1.0, 1.0]), np.array([0.0, 1.0])))
