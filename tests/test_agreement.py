"""Agreement of raters against a textbook version."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.stats.agreement import (
    Level,
    alpha_interval,
    krippendorff_alpha,
    rater_correlations,
    rescale,
)

NAN = float("nan")
LEVELS: list[Level] = ["nominal", "ordinal", "interval", "ratio"]
EXAMPLE = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)


def textbook_alpha(ratings: Any, level: Level) -> float:
    """Every pair of ratings of an item against every pair of ratings."""
    units = [[float(r) for r in column if not np.isnan(r)] for column in ratings.T]
    units = [unit for unit in units if len(unit) > 1]
    pool = [rating for unit in units for rating in unit]

    def distance(a: float, b: float) -> float:
        if level == "nominal":
            return float(a != b)
        if level == "interval":
            return (a - b) ** 2
        if level == "ratio":
            return ((a - b) / (a + b)) ** 2 if a + b else 0.0
        low, high = min(a, b), max(a, b)
        between = sum(low <= rating <= high for rating in pool)
        return float((between - (pool.count(low) + pool.count(high)) / 2) ** 2)

    observed = sum(sum(distance(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    expected = sum(distance(a, b) for a, b in permutations(pool, 2)) / (len(pool) - 1)
    return 1 - observed / expected


@pytest.mark.parametrize("large", [False, True])
@given(st.data())
def test_alpha_is_that_of_the_textbook(large: bool, data: st.DataObject) -> None:
    raters, items = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 6))
    rating = st.sampled_from([0.0, 1, 2, 3.5, NAN])
    ratings = np.array(data.draw(st.lists(rating, min_size=raters * items, max_size=raters * items)))
    ratings = ratings.reshape(raters, items)
    paired = ratings[:, (~np.isnan(ratings)).sum(axis=0) > 1]
    assume(paired.size and np.nanmin(paired) < np.nanmax(paired))
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr("nlgauge.stats.agreement._CELLS_AT_ONCE", 0)
        for level in LEVELS:
            assert krippendorff_alpha(ratings, level) == pytest.approx(textbook_alpha(ratings, level), abs=1e-9)


def test_alpha_of_a_published_example() -> None:
    """Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": four observers, missing data."""
    found = {level: round(krippendorff_alpha(EXAMPLE, level), 3) for level in LEVELS}
    assert found == {"nominal": 0.743, "ordinal": 0.815, "interval": 0.849, "ratio": 0.797}


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_come_from_alpha_of_drawn_items_whatever_the_order(level: Level) -> None:
    rng = np.random.default_rng(3)
    ratings = np.clip(np.round(rng.normal(3, 1, 60) + rng.normal(0, 0.7, (4, 60))), 0, 6)
    ratings[rng.random(ratings.shape) < 0.2] = NAN
    low, high = alpha_interval(ratings, level, resamples=2000)
    assert low < krippendorff_alpha(ratings, level) < high
    drawn = [krippendorff_alpha(ratings[:, rng.integers(0, 60, 60)], level) for _ in range(1000)]
    np.testing.assert_allclose([low, high], np.quantile(drawn, [0.025, 0.975]), atol=0.03)
    shuffled = ratings[rng.permutation(4)][:, rng.permutation(60)]
    assert alpha_interval(shuffled, level, resamples=2000) == (low, high)
    assert alpha_interval(ratings, level, resamples=2000, seed=1) != (low, high)
    narrow = alpha_interval(ratings, level, confidence=0.5)
    assert low < narrow[0] < narrow[1] < high


def test_many_ratings_on_a_slider_fit_in_memory() -> None:
    rng = np.random.default_rng(0)
    ratings = rng.normal(size=2000) + rng.normal(size=(3, 2000))
    assert krippendorff_alpha(ratings) == pytest.approx(0.5, abs=0.05)


def test_raters_are_held_against_the_mean_of_the_set() -> None:
    ratings = np.array([[1, 2, 3, 4], [1, 2, 3, 5], [5, 5, 5, 5], [9, 1, NAN, NAN], [4, 3, 1, 2]], dtype=float)
    whole, others = rater_correlations(ratings), rater_correlations(ratings, leave_one_out=True)
    mean = np.nanmean(ratings, axis=0)
    assert whole[0] == pytest.approx(np.corrcoef(ratings[0], mean)[0, 1])
    assert others[0] == pytest.approx(np.corrcoef(ratings[0], np.nanmean(ratings[1:], axis=0))[0, 1])
    assert np.isnan(whole[[2, 3]]).all()
    assert np.isnan(others[[2, 3]]).all()
    assert others[4] < whole[4]


def test_items_that_nobody_else_rated_do_not_count() -> None:
    ratings = np.array([[1, 2, 3, 9, 8, 7], [1, 3, 2, NAN, NAN, NAN]])
    np.testing.assert_allclose(rater_correlations(ratings, leave_one_out=True), [0.5, 0.5])
    assert np.isnan(rater_correlations(ratings[:, 2:])).all()


def test_each_rater_is_stretched_to_the_scale_and_a_constant_one_lands_in_the_middle() -> None:
    ratings = np.array([[1, 2, 3], [4, NAN, 4], [NAN, NAN, NAN], [-1, 0, NAN]])
    expected = [[0, 5, 10], [5, NAN, 5], [NAN, NAN, NAN], [0, 10, NAN]]
    np.testing.assert_array_equal(rescale(ratings), expected)
    np.testing.assert_array_equal(rescale(ratings, low=-1, high=1)[0], [-1, 0, 1])


def test_ratings_that_cannot_be_judged_are_refused() -> None:
    with pytest.raises(DataError, match="fewer than two raters on every item"):
        krippendorff_alpha(np.array([[1, NAN], [NAN, 2]]))
    with pytest.raises(DataError, match="no variation: every rating is 3"):
        krippendorff_alpha(np.array([[3, 3, 5], [3, 3, NAN]]))
    with pytest.raises(DataError, match="no variation"):
        alpha_interval(np.full((2, 5), 3.0))
    with pytest.raises(DataError, match="raters x items"):
        krippendorff_alpha(np.arange(3.0))
    with pytest.raises(DataError, match="infinite"):
        rescale(np.array([[1, np.inf]]))
    with pytest.raises(DataError, match="a rating of -1 on a ratio scale"):
        krippendorff_alpha(np.array([[-1, 2], [1, 2]]), "ratio")
    with pytest.raises(UnknownName, match="did you mean 'ordinal'"):
        krippendorff_alpha(EXAMPLE, "ordinals")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="low end"):
        rescale(EXAMPLE, low=1, high=1)
