"""Intervals of means cover what they say; a short version of the grid in `docs/statistics.md`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.arrays import Array
from nlgauge.stats.means import Estimate, mean_interval, mean_of, share_interval
from nlgauge.stats.units import Units

TIMES = 1500
Draw = Callable[[np.random.Generator, int], Array]
POPULATIONS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, n: rng.standard_normal(n), 0.0),
    "beta": (lambda rng, n: rng.beta(0.5, 2, n), 0.2),
    "lognormal": (lambda rng, n: rng.lognormal(0, 0.5, n), float(np.exp(0.125))),
    "shares": (lambda rng, n: (rng.random(n) < 0.1).astype(float), 0.1),
}


def coverage(samples: list[Array], truth: float, units: Units = Units()) -> float:  # noqa: B008
    found = [mean_interval(one, 0.95, units) for one in samples]
    return float(np.mean([ends is not None and ends[0] <= truth <= ends[1] for ends in found]))


@pytest.mark.parametrize("size", [6, 10, 20, 45])
@pytest.mark.parametrize("name", POPULATIONS)
def test_an_interval_of_95_percent_covers_in_95_percent(name: str, size: int) -> None:
    draw, truth = POPULATIONS[name]
    rng = np.random.default_rng([size, len(name)])
    found = coverage([draw(rng, size) for _ in range(TIMES)], truth)
    low, high = (0.91, 0.99) if size < 20 else (0.93, 0.98)
    slack = 3 * np.sqrt(0.05 * 0.95 / TIMES)
    assert low - slack / 2 <= found <= high + slack / 2


@pytest.mark.parametrize("shares", [False, True])
def test_shared_contexts_count_once(shares: bool) -> None:
    """15 contexts of 6 sets with an intra-class correlation of .5, where sets are no units."""
    rng = np.random.default_rng(7)
    labels = np.repeat(np.arange(15), 6)
    samples = rng.normal(size=(TIMES, 15)).repeat(6, axis=1) + rng.normal(size=(TIMES, 90))
    if shares:
        samples = (samples > 0).astype(float)
    truth = 0.5 if shares else 0.0
    assert 0.925 <= coverage(list(samples), truth, Units(labels, name="context")) <= 0.975
    assert coverage(list(samples), truth) < 0.8


@pytest.mark.parametrize(("of_runs", "of_contexts"), [(0.0, 1.0), (0.5, 1.0), (0.5, 0.2)])
def test_runs_that_differ_widen_the_interval(of_runs: float, of_contexts: float) -> None:
    rng = np.random.default_rng(8)
    contexts, runs = np.repeat(np.arange(30), 5), np.tile(np.arange(5), 30)
    units = Units(contexts, runs, "context-x-run")
    samples = [
        of_contexts * rng.normal(size=30)[contexts] + of_runs * rng.normal(size=5)[runs] + rng.normal(size=150)
        for _ in range(TIMES)
    ]
    assert 0.92 <= coverage(samples, 0.0, units) <= 0.985
    if of_runs:
        assert coverage(samples, 0.0, Units(contexts, name="context")) < 0.9


def test_a_share_that_is_always_one_has_an_interval_with_width() -> None:
    found = mean_interval(np.ones(20), 0.95)
    assert found is not None
    assert 0.8 < found[0] < 0.9
    assert found[1] == 1.0
    grouped = mean_interval(np.ones(20), 0.95, Units(np.repeat(np.arange(5), 4), name="context"))
    assert grouped is not None
    assert grouped[0] < found[0]


def test_equal_values_that_are_no_shares_show_no_error() -> None:
    assert mean_interval(np.full(20, 0.3), 0.95) is None
    assert mean_interval(np.array([0.3]), 0.95) is None


def test_intervals_lie_within_what_is_possible() -> None:
    """Values at an end of what is possible are shares on that scale; those of no scale's end are none."""
    found = mean_interval(np.array([1.0] * 9 + [0.5]), 0.95, bounds=(0.0, 1.0))
    assert found is not None
    assert found[1] == 1.0
    lacking = share_interval(np.zeros(20), 0.95)[1]
    assert mean_interval(np.zeros(20), 0.95, bounds=(0.0, 100.0)) == pytest.approx((0.0, 100 * lacking))
    assert mean_interval(np.full(20, -1.0), 0.95, bounds=(-1.0, 0.0)) == pytest.approx((-1.0, lacking - 1))
    assert mean_interval(np.ones(20), 0.95, bounds=(1.0, np.inf)) is None


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=20), st.randoms())
def test_order_does_not_matter(values: list[float], random: object) -> None:
    rng = np.random.default_rng(len(values))
    given_values = np.array(values)
    order = rng.permutation(len(values))
    assert mean_of(given_values) == mean_of(given_values[order])


@given(st.floats(-3, 3), st.floats(0.1, 2), st.floats(-0.9, 0.9), st.integers(2, 50), st.floats(-4, 4))
def test_the_one_sided_p_value_agrees_with_the_interval(
    value: float, error: float, skewness: float, freedom: int, limit: float
) -> None:
    found = Estimate(value, error, skewness, freedom)
    p = found.p_at_most(limit)
    assert (p < 0.025) == (found.interval(0.95)[0] > limit) or abs(p - 0.025) < 1e-6
    assert found.negated().p_at_most(-limit) == pytest.approx(1 - p, abs=1e-9)
