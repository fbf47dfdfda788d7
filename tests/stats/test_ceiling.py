"""The noise ceiling where it is known: simulated true scores, and raters whose noise is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nlgauge.stats.correlation import Kind, correlation
from nlgauge.stats.ratings.ceiling import KINDS, mean_reliability, noise_ceilings
from nlgauge.stats.ratings.reliability import intraclass_correlations

NAN = float("nan")


def rated(rng: Any, items: int, raters: int, design: str = "crossed") -> tuple[Any, Any]:
    """True scores, and ratings: raters differ in severity (variance .25) and err (variance 1)."""
    truth = rng.normal(size=items)
    if design == "crossed":
        return truth, truth + 0.5 * rng.normal(size=(raters, 1)) + rng.normal(size=(raters, items))
    ratings = truth + 0.5 * rng.normal(size=(12, 1)) + rng.normal(size=(12, items))
    return truth, np.where(np.argsort(rng.random((12, items)), axis=0) < raters, ratings, NAN)


def expected(raters: int, noise: float) -> dict[Kind, float]:
    """The correlations of normal true scores with means of so many ratings."""
    root = (1 / (1 + noise / raters)) ** 0.5
    return {"pearson": root, "spearman": 6 / np.pi * np.arcsin(root / 2), "kendall": 2 / np.pi * np.arcsin(root)}


@pytest.mark.parametrize(("design", "raters", "noise"), [("crossed", 2, 1.0), ("crossed", 5, 1.0), ("sparse", 3, 1.25)])
def test_the_ceiling_is_what_a_metric_without_error_reaches(design: str, raters: int, noise: float) -> None:
    """Severity is noise only where raters differ from item to item."""
    rng, ceilings, reached = np.random.default_rng(raters), [], []
    for seed in range(25):
        truth, ratings = rated(rng, 300, raters, design)
        found = noise_ceilings(ratings, seed=seed)
        ceilings.append([found[kind].value for kind in KINDS])
        reached.append([correlation(truth, np.nanmean(ratings, axis=0), kind) for kind in KINDS])
    known = [expected(raters, noise)[kind] for kind in KINDS]
    np.testing.assert_allclose(np.mean(ceilings, axis=0), known, atol=0.015)
    np.testing.assert_allclose(np.mean(reached, axis=0), np.mean(ceilings, axis=0), atol=0.02)


@pytest.mark.parametrize(("items", "raters"), [(20, 3), (45, 5)])
def test_intervals_of_ceilings_cover(items: int, raters: int) -> None:
    rng, hits, times = np.random.default_rng(items), dict.fromkeys(KINDS, 0), 120
    for seed in range(times):
        found = noise_ceilings(rated(rng, items, raters)[1], seed=seed)
        for kind, truth in expected(raters, 1.0).items():
            low, high = found[kind].interval
            hits[kind] += low <= truth <= high
    assert all(count / times >= 0.93 - 0.04 for count in hits.values()), hits


def test_reliability_is_the_intraclass_correlation_of_the_mean() -> None:
    _, ratings = rated(np.random.default_rng(1), 40, 4)
    found = intraclass_correlations(ratings)
    assert mean_reliability(ratings, crossed=True) == pytest.approx(found["ICC(3,k)"].value, abs=1e-12)
    assert mean_reliability(ratings, crossed=False) == pytest.approx(found["ICC(1,k)"].value, abs=1e-12)
    assert noise_ceilings(ratings)["pearson"].value == pytest.approx(found["ICC(3,k)"].value ** 0.5, abs=1e-12)


def test_inside_contexts_what_contexts_share_does_not_count() -> None:
    rng = np.random.default_rng(2)
    contexts = np.repeat(np.arange(60), 5)
    values = []
    for _ in range(10):
        _, ratings = rated(rng, 300, 3)
        shifted = ratings + 10 * rng.normal(size=60)[contexts]
        plain, moved = (noise_ceilings(one, contexts=contexts, units=contexts)["pearson"] for one in (ratings, shifted))
        assert moved.value == pytest.approx(plain.value, abs=1e-9)
        assert moved.interval[0] < moved.value < moved.interval[1]
        values.append(moved.value)
    assert np.mean(values) == pytest.approx(expected(3, 1.0)["pearson"], abs=0.015)


@pytest.mark.parametrize("design", ["crossed", "sparse"])
def test_no_order_matters(design: str) -> None:
    rng = np.random.default_rng(3)
    _, ratings = rated(rng, 50, 4, design)
    units = np.repeat(np.arange(25), 2)
    items = rng.permutation(50)
    shuffled = ratings[rng.permutation(len(ratings))][:, items]
    one, other = noise_ceilings(ratings, units=units), noise_ceilings(shuffled, units=units[items])
    for kind in KINDS:
        assert one[kind].value == pytest.approx(other[kind].value, abs=1e-12)
        assert one[kind].interval == pytest.approx(other[kind].interval, abs=1e-12)
    assert noise_ceilings(ratings, seed=1)["kendall"].value != one["kendall"].value


def test_ratings_that_show_no_noise_have_no_ceiling() -> None:
    rng = np.random.default_rng(4)
    assert noise_ceilings(rng.normal(size=(1, 30))) == {}
    own = np.full((30, 30), NAN)
    np.fill_diagonal(own, rng.normal(size=30))
    assert noise_ceilings(own) == {}
    assert noise_ceilings(np.full((3, 30), 2.0)) == {}
    assert noise_ceilings(np.full((3, 30), NAN)) == {}
    few = noise_ceilings(rng.normal(size=(3, 1)) + rng.normal(size=8))
    assert all(np.isnan(one.interval).all() for one in few.values())


def test_sorted_ratings_stand_for_no_raters() -> None:
    """Each item's ratings sorted: a column is no rater, so that columns' means are no severity."""
    _, ratings = rated(np.random.default_rng(5), 60, 3)
    found = noise_ceilings(np.sort(ratings, axis=0))["pearson"].value
    assert found == pytest.approx(mean_reliability(ratings, crossed=False) ** 0.5, abs=1e-12)
