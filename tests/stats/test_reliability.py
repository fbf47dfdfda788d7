"""Fleiss' kappa and intraclass correlations against statsmodels, pingouin and published examples."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nlgauge.errors import DataError, OptionError
from nlgauge.stats.ratings.reliability import FORMS, Form, are_sorted, fleiss_kappa, intraclass_correlations

NAN = float("nan")
SHROUT_FLEISS = np.array(
    [[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]], dtype=float
)  # Shrout & Fleiss (1979), Table 2: four judges, six targets
FLEISS_COUNTS = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip
PINGOUIN_NAMES = dict(zip(FORMS, ("ICC(1,1)", "ICC(A,1)", "ICC(C,1)", "ICC(1,k)", "ICC(A,k)", "ICC(C,k)"), strict=True))


def from_counts(counts: list[list[int]]) -> Any:
    """Raters x items; raters are interchangeable here."""
    return np.array([np.repeat(np.arange(len(row)), row) for row in counts], dtype=float).T


def noisy(seed: int, raters: int = 4, items: int = 40) -> Any:
    rng = np.random.default_rng(seed)
    severity = rng.normal(0, 0.5, (raters, 1))
    return np.clip(np.round(3 + rng.normal(0, 1, items) + severity + rng.normal(0, 0.7, (raters, items))), 1, 5)


def pingouin_rows(ratings: Any) -> Any:
    import pandas
    import pingouin

    raters, items = np.indices(ratings.shape)
    frame = pandas.DataFrame({"rater": raters.ravel(), "item": items.ravel(), "value": ratings.ravel()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what it calls in pandas is
        found = pingouin.intraclass_corr(frame, targets="item", raters="rater", ratings="value", nan_policy="omit")
    return found.set_index("Type")


def check_against_pingouin(ratings: Any) -> None:
    found, expected = intraclass_correlations(ratings), pingouin_rows(ratings)
    assert tuple(found) == FORMS
    for form, one in found.items():
        row = expected.loc[PINGOUIN_NAMES[form]]
        mine = [one.value, one.f, one.df1, one.df2, one.p]
        theirs = [row["ICC"], row["F"], row["df1"], row["df2"], row["pval"]]
        np.testing.assert_allclose(mine, np.array(theirs, dtype=float), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("shape", [(2, 10), (3, 25), (5, 60), (7, 8)])
def test_all_six_forms_equal_pingouin(shape: tuple[int, int]) -> None:
    check_against_pingouin(noisy(7, *shape))


def test_ratings_without_agreement_equal_pingouin_too() -> None:
    ratings = np.random.default_rng(2).normal(size=(4, 30))
    check_against_pingouin(ratings)
    assert intraclass_correlations(ratings)["ICC(1,1)"].p > 0.05


def test_the_published_example_of_shrout_and_fleiss() -> None:
    found = intraclass_correlations(SHROUT_FLEISS)
    assert {form: round(one.value, 2) for form, one in found.items()} == {
        "ICC(1,1)": 0.17, "ICC(2,1)": 0.29, "ICC(3,1)": 0.71, "ICC(1,k)": 0.44, "ICC(2,k)": 0.62, "ICC(3,k)": 0.91,
    }  # fmt: skip
    assert found["ICC(1,1)"].value == pytest.approx(0.16574, abs=5e-6)
    assert found["ICC(3,1)"].f == pytest.approx(11.02725, abs=5e-6)


def test_the_confidence_level_is_that_of_the_interval() -> None:
    wide, narrow = (intraclass_correlations(SHROUT_FLEISS, confidence=level) for level in (0.95, 0.5))
    for form in FORMS:
        low, high = narrow[form].interval
        assert wide[form].interval[0] < low < narrow[form].value < high < wide[form].interval[1]


def test_a_rater_who_is_stricter_by_a_constant_matters_to_agreement_only() -> None:
    truth = np.arange(10.0)
    found = intraclass_correlations(np.array([truth, truth - 3]))
    assert found["ICC(3,1)"].value == found["ICC(3,k)"].value == 1
    assert found["ICC(3,1)"].interval == (1, 1)
    assert found["ICC(3,1)"].f == np.inf
    assert found["ICC(3,1)"].p == 0
    low, high = found["ICC(2,1)"].interval
    assert 0 < low < found["ICC(2,1)"].value < high < 1
    tiny = np.random.default_rng(0).normal(0, 1e-7, (2, 10))
    close = intraclass_correlations(np.array([truth, truth - 3]) + tiny)["ICC(2,1)"]
    assert close.value == pytest.approx(found["ICC(2,1)"].value, abs=1e-5)
    np.testing.assert_allclose(close.interval, found["ICC(2,1)"].interval, atol=1e-5)


def test_full_agreement_is_one_in_every_form() -> None:
    ratings = np.tile([1, 2, 3, 4, 5, 5.0], (3, 1))
    for one in intraclass_correlations(ratings).values():
        assert (one.value, *one.interval, one.p) == (1, 1, 1, 0)
    kappa = fleiss_kappa(ratings)
    assert (kappa.value, kappa.interval) == (1, (1, 1))


def rated(rng: Any, items: int, raters: int, middle: float) -> Any:
    """Items, raters and what is left have variances 1, .3 and .7; answers on a scale from 1 to 5 around `middle`."""
    values = (
        rng.normal(size=items) + 0.3**0.5 * rng.normal(size=(raters, 1)) + 0.7**0.5 * rng.normal(size=(raters, items))
    )
    return np.clip(np.round(middle + values), 1, 5)


@pytest.mark.parametrize(("items", "raters", "least"), [(6, 3, 0.91), (20, 5, 0.93), (45, 3, 0.93)])
def test_intervals_cover_where_answers_are_skewed_and_raters_a_sample(items: int, raters: int, least: float) -> None:
    """Those of McGraw & Wong cover 84 to 93 % (ICC(1,1)) and 90 to 94 % (ICC(2,1)) here."""
    forms: tuple[Form, ...] = ("ICC(1,1)", "ICC(2,k)", "ICC(3,1)")
    whole = intraclass_correlations(rated(np.random.default_rng(0), 1500, 1500, 4.2))
    of_few = {"ICC(2,k)": raters * whole["ICC(2,1)"].value / (1 + (raters - 1) * whole["ICC(2,1)"].value)}
    rng, hits, times = np.random.default_rng(items), dict.fromkeys(forms, 0), 250
    for _ in range(times):
        found = intraclass_correlations(rated(rng, items, raters, 4.2))
        for form in forms:
            low, high = found[form].interval
            hits[form] += low <= of_few.get(form, whole[form].value) <= high
    assert all(count / times >= least - 2 * (0.05 * 0.95 / times) ** 0.5 for count in hits.values()), hits


@pytest.mark.parametrize("form", FORMS)
def test_intervals_depend_on_no_order(form: Form) -> None:
    rng = np.random.default_rng(8)
    ratings = noisy(5, 4, 70)
    shuffled = ratings[rng.permutation(4)][:, rng.permutation(70)]
    one, other = intraclass_correlations(ratings)[form], intraclass_correlations(shuffled)[form]
    assert one.interval == pytest.approx(other.interval, abs=1e-12)
    assert one.interval[0] < one.value < one.interval[1]


def test_with_missing_ratings_two_way_forms_take_complete_items_as_pingouin_does() -> None:
    ratings = noisy(3, 4, 40)
    ratings[0, :5] = NAN
    check_against_pingouin(ratings)
    assert {(one.items, one.raters, one.left_out) for one in intraclass_correlations(ratings).values()} == {(35, 4, 5)}


def test_raters_of_each_items_own_leave_the_one_way_forms() -> None:
    dense = noisy(4, 3, 30)
    sparse = np.full((90, 30), NAN)
    for item in range(30):
        sparse[3 * item : 3 * item + 3, item] = dense[:, item]
    found, whole = intraclass_correlations(sparse), intraclass_correlations(dense, fixed_raters=True)
    assert tuple(found) == ("ICC(1,1)", "ICC(1,k)")
    assert all(one == whole[form] for form, one in found.items())
    assert fleiss_kappa(sparse) == fleiss_kappa(dense, fixed_raters=True)


def test_kappa_of_the_published_example() -> None:
    """Ten items, fourteen raters, five categories (Fleiss 1971, as reprinted in textbooks): 0.210."""
    kappa = fleiss_kappa(from_counts(FLEISS_COUNTS))
    assert kappa.value == pytest.approx(0.20993, abs=5e-6)
    assert (kappa.ratings, kappa.items, kappa.left_out) == (14, 10, 0)
    assert kappa.interval[0] < kappa.value < kappa.interval[1]


@given(st.data())
def test_kappa_equals_statsmodels(data: st.DataObject) -> None:
    from statsmodels.stats.inter_rater import aggregate_raters
    from statsmodels.stats.inter_rater import fleiss_kappa as theirs

    raters, items = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 8))
    values = data.draw(st.lists(st.sampled_from([0.0, 1, 2.5]), min_size=raters * items, max_size=raters * items))
    ratings = np.array(values).reshape(raters, items)
    assume(np.ptp(ratings) > 0)
    counts, _ = aggregate_raters(ratings.T)
    assert fleiss_kappa(ratings, resamples=100).value == pytest.approx(theirs(counts), abs=1e-12)


def test_the_interval_of_kappa_is_that_of_drawn_items_whatever_their_order() -> None:
    ratings = noisy(5, 4, 60)
    found = fleiss_kappa(ratings, resamples=2000, fixed_raters=True)
    rng = np.random.default_rng(1)
    drawn = [fleiss_kappa(ratings[:, rng.integers(0, 60, 60)], resamples=100).value for _ in range(600)]
    np.testing.assert_allclose(found.interval, np.quantile(drawn, [0.025, 0.975]), atol=0.03)
    shuffled = ratings[rng.permutation(4)][:, rng.permutation(60)]
    assert fleiss_kappa(shuffled, resamples=2000, fixed_raters=True) == found
    assert fleiss_kappa(ratings, resamples=2000, seed=1).interval != found.interval


def test_kappa_takes_the_items_with_the_most_frequent_number_of_ratings() -> None:
    ratings = noisy(6, 4, 20)
    holes = ratings.copy()
    holes[2, :6] = NAN
    holes[1:, 6] = NAN
    found = fleiss_kappa(holes)
    assert (found.ratings, found.items, found.left_out) == (4, 13, 7)
    assert found.value == pytest.approx(fleiss_kappa(ratings[:, 7:]).value, abs=1e-12)
    holes[2, :10] = NAN
    holes[:, 10:14] = NAN
    assert (fleiss_kappa(holes).ratings, fleiss_kappa(holes).items) == (3, 9)


def test_sorted_ratings_are_recognised() -> None:
    ratings = noisy(8, 5, 50)
    assert not are_sorted(ratings)
    assert are_sorted(np.sort(ratings, axis=0))
    assert not are_sorted(np.sort(ratings, axis=0)[:, :19])
    assert not are_sorted(np.sort(ratings, axis=0)[:2])
    assert not are_sorted(np.tile(np.arange(50.0), (5, 1)))


def test_ratings_that_cannot_be_judged_are_refused() -> None:
    with pytest.raises(DataError, match="fewer than two raters on every item"):
        fleiss_kappa(np.array([[1, NAN], [NAN, 2]]))
    with pytest.raises(DataError, match="no variation: every rating is 3; kappa"):
        fleiss_kappa(np.full((2, 5), 3.0))
    with pytest.raises(DataError, match="no variation: every rating is 3; an intraclass correlation"):
        intraclass_correlations(np.full((2, 5), 3.0))
    with pytest.raises(DataError, match="1 item with 2 ratings; expected at least 2 items"):
        intraclass_correlations(np.array([[1, NAN], [2, 3]]))
    with pytest.raises(OptionError, match="a confidence level of 95"):
        intraclass_correlations(SHROUT_FLEISS, confidence=95)
