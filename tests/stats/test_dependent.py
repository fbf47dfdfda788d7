"""Tests between two metrics on the same items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau, kstest, pearsonr, rankdata, spearmanr

from nlgauge.errors import DataError
from nlgauge.stats.correlation import Kind, correlation, weighted_pearson
from nlgauge.stats.dependent import bootstrap_difference, permute_both, williams

SCIPY: dict[Kind, Any] = {"pearson": pearsonr, "spearman": spearmanr, "kendall": kendalltau}


def sample(seed: int | list[int], size: int, one: float, other: float) -> tuple[Any, Any, Any]:
    """Two metrics that share part of their noise."""
    rng = np.random.default_rng(seed)
    truth, shared = rng.normal(size=(2, size))
    first, second = (strength * truth + shared + rng.normal(size=size) for strength in (one, other))
    return first, second, truth


def test_weighted_pearson_is_pearson_of_drawn_items() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 40))
    weights = rng.multinomial(40, np.full(40, 1 / 40), size=30).astype(float)
    for row, found in zip(weights, weighted_pearson(x, y, weights), strict=True):
        drawn = np.repeat(np.arange(40), row.astype(int))
        assert found == pytest.approx(np.corrcoef(x[drawn], y[drawn])[0, 1], abs=1e-12)
    assert np.isnan(weighted_pearson(np.ones(40), y, weights)).all()


@pytest.mark.parametrize("kind", ["pearson", "spearman", "kendall"])
def test_a_clearly_better_metric_is_found_and_the_sign_follows(kind: Kind) -> None:
    first, second, truth = sample(1, 300, 2.0, 0.5)
    for found in (williams(first, second, truth, kind), permute_both(first, second, truth, kind)):
        assert found.value > 0
        assert found.p is not None
        assert found.p < 0.01
    interval = bootstrap_difference(first, second, truth, kind)
    assert interval.ci is not None
    assert 0 < interval.ci[0] < interval.value < interval.ci[1]
    assert williams(second, first, truth, kind).value == -williams(first, second, truth, kind).value


@pytest.mark.parametrize("test", [williams, permute_both])
def test_p_values_are_uniform_when_both_are_equally_good(test: Any) -> None:
    options = {} if test is williams else {"permutations": 199}
    found = [test(*sample([7, seed], 80, 1.0, 1.0), kind="pearson", **options).p for seed in range(300)]
    assert kstest(found, "uniform").pvalue > 0.001


@pytest.mark.parametrize("kind", SCIPY)
@pytest.mark.parametrize("rounded", [False, True])
def test_permutations_are_those_of_a_loop_over_swaps(kind: Kind, rounded: bool) -> None:
    first, second, truth = sample([8, rounded], 30, 1.0, 0.6)
    if rounded:
        first, second, truth = np.round(first), np.round(second, 1), np.round(truth)
    order = np.lexsort((second, first, truth))
    first, second, truth = first[order], second[order], truth[order]
    one, other = (
        (side - side.mean()) / side.std() if kind == "pearson" else rankdata(side) for side in (first, second)
    )
    observed, reached = SCIPY[kind](first, truth)[0] - SCIPY[kind](second, truth)[0], 1
    for swap in np.random.default_rng(3).integers(0, 2, (150, 30)):
        pair = np.where(swap, other, one), np.where(swap, one, other)
        found = SCIPY[kind](pair[0], truth)[0] - SCIPY[kind](pair[1], truth)[0]
        reached += abs(found) >= abs(observed) - 1e-12
    permuted = permute_both(first, second, truth, kind, permutations=150, seed=3)
    assert permuted.value == pytest.approx(observed, abs=1e-12)
    assert permuted.p == reached / 151


def test_blocks_of_swaps_do_not_change_the_p_value(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = sample(9, 40, 1.0, 0.8)
    whole = permute_both(*metrics, permutations=333)
    monkeypatch.setattr("nlgauge.stats.dependent._SWAPS_AT_ONCE", 500)
    assert permute_both(*metrics, permutations=333) == whole


def test_williams_on_a_worked_example() -> None:
    """t = 1.5... from the formula by hand, for r = .6, .4 and .5 on 53 items."""
    a, b, c, n = 0.6, 0.4, 0.5, 53
    rng = np.random.default_rng(3)
    raw = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, 3))]))[0][:, 1:]
    mixed = raw @ np.linalg.cholesky(np.array([[1, a, b], [a, 1, c], [b, c, 1]])).T
    truth, first, second = mixed.T
    assert correlation(first, truth, "pearson") == pytest.approx(a)
    assert correlation(first, second, "pearson") == pytest.approx(c)
    rest = 1 - a**2 - b**2 - c**2 + 2 * a * b * c
    t = (a - b) * np.sqrt((n - 1) * (1 + c) / (2 * rest * (n - 1) / (n - 3) + ((a + b) / 2) ** 2 * (1 - c) ** 3))
    from scipy.stats import t as student

    assert williams(first, second, truth).p == pytest.approx(2 * student.sf(t, n - 3))


def test_order_does_not_matter_and_bad_input_is_refused() -> None:
    first, second, truth = sample(2, 60, 1.0, 0.3)
    order = np.random.default_rng(0).permutation(60)
    shuffled = (first[order], second[order], truth[order])
    for kind in SCIPY:
        assert permute_both(first, second, truth, kind) == permute_both(*shuffled, kind)
    assert bootstrap_difference(first, second, truth).ci == bootstrap_difference(*shuffled).ci
    assert williams(first, first, truth).p == 1.0
    with pytest.raises(DataError, match="at least 4"):
        williams(first[:3], second[:3], truth[:3])
    for kind in SCIPY:
        with pytest.raises(DataError, match="a metric that is constant"):
            permute_both(np.ones(60), second, truth, kind)
        with pytest.raises(DataError, match="a truth that is constant"):
            permute_both(first, second, np.ones(60), kind)
    with pytest.raises(DataError, match="three rows"):
        permute_both(first[:9], second, truth)
    with pytest.raises(DataError, match="finite"):
        permute_both(first * np.nan, second, truth)
