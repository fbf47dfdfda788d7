"""Permutation tests reject as often as they say, and families of tests keep their level."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.stats.families import holm, max_t, paired_max_t
from nlgauge.stats.permutation import label_permutation, paired_permutation, sign_tails, unpaired_permutation

numbers = st.lists(st.integers(-50, 50), min_size=2, max_size=9)
TIMES = 400
SLACK = 3 * math.sqrt(0.05 * 0.95 / TIMES)


@given(numbers, st.integers(0, 100))
def test_the_paired_test_equals_trying_every_swap(values: list[int], shift: int) -> None:
    first = np.array(values, dtype=float)
    second = first[::-1] + shift
    differences = second - first
    sums = [abs(np.dot(signs, differences)) for signs in product([-1, 1], repeat=len(values))]
    expected = np.mean(np.array(sums) >= abs(differences.sum()) - 1e-9)
    assert paired_permutation(first, second) == pytest.approx(expected)
    assert paired_permutation(second, first) == paired_permutation(first, second)


def test_whole_contexts_are_swapped() -> None:
    """15 contexts of 6 sets with an intra-class correlation of .5, and no difference between the systems."""
    rng = np.random.default_rng(1)
    labels, below = np.repeat(np.arange(15), 6), {"contexts": 0, "sets": 0}
    for seed in range(TIMES):
        differences = rng.normal(size=15).repeat(6) + rng.normal(size=90)
        for name, groups in (("contexts", labels), ("sets", None)):
            p = paired_permutation(np.zeros(90), differences, groups=groups, resamples=500, seed=seed)
            below[name] += p < 0.05
    assert below["contexts"] / TIMES < 0.05 + SLACK
    assert below["sets"] / TIMES > 0.2


@pytest.mark.parametrize("kind", ["normal", "grid", "skewed"])
def test_the_tail_of_the_paired_test_is_near_the_exact_one(kind: str) -> None:
    rng = np.random.default_rng(3)
    draws: dict[str, Callable[[], Array]] = {
        "normal": lambda: rng.standard_normal(18),
        "grid": lambda: rng.integers(-3, 4, 18) / 10,
        "skewed": lambda: rng.lognormal(0, 1, 18) - 1.5,
    }
    draw = draws[kind]
    for shift in (0.2, 0.5, 1.0, 2.0):
        differences = draw() + shift
        units = np.sort(np.abs(differences[differences != 0]))
        signs = 1 - 2.0 * ((np.arange(1 << (len(units) - 1))[:, None] >> np.arange(len(units))) & 1)
        total = abs(differences.sum())
        exact = np.mean(np.abs(signs @ units) >= total * (1 - 1e-12))
        (tail,) = sign_tails(units[None], np.array([total]))
        assert 0.7 * exact <= tail <= 1.5 * exact


def test_a_p_value_has_no_floor_that_a_family_could_reach() -> None:
    rng = np.random.default_rng(4)
    differences = rng.normal(1, 0.1, 60)
    assert 0 < paired_permutation(np.zeros(60), differences) < 1e-12
    one, two = rng.normal(0, 0.1, 40), rng.normal(1, 0.1, 50)
    assert 0 < unpaired_permutation(one, two) < 1e-12


@pytest.mark.parametrize("least", [1.0, 1e-3, 1e-9, 1e-17])
def test_units_that_all_agree_have_nearly_the_smallest_p_value(least: float) -> None:
    """However small one of them is: near its largest possible sum, the usual approximation of a tail fails."""
    units = np.sort(0.1 + 0.001 * np.random.default_rng(5).random(40))
    units[0] *= least
    assert 2.0**-39 <= paired_permutation(np.zeros(40), units) < 3 * 2.0**-39
    at, beyond = sign_tails(np.stack([units, units]), units.sum() * np.array([1.0, 1.01]))
    assert at < 3 * 2.0**-39
    assert beyond == 0.0


def test_the_unpaired_test_equals_trying_every_partition() -> None:
    one, two = np.array([1.0, 2.5, 3.0, 3.5]), np.array([2.0, 4.0, 6.0, 7.0, 7.5])
    both = np.concatenate([one, two])

    def studentised(chosen: tuple[int, ...]) -> float:
        mine = np.isin(np.arange(9), chosen)
        a, b = both[mine], both[~mine]
        return float(abs(b.mean() - a.mean()) / math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))

    observed = studentised((0, 1, 2, 3))
    exact = np.mean([studentised(chosen) >= observed - 1e-12 for chosen in combinations(range(9), 4)])
    assert unpaired_permutation(one, two, resamples=20_000) == pytest.approx(exact, abs=0.01)
    assert unpaired_permutation(two, one) == unpaired_permutation(one, two)


def test_unequal_spreads_and_sizes_do_not_reject() -> None:
    """Raw means of 10 values with deviation 3 and of 40 with deviation 1 reject in 25 %."""
    rng = np.random.default_rng(5)
    below = [
        unpaired_permutation(rng.normal(0, 3, 10), rng.normal(0, 1, 40), resamples=300, seed=seed) < 0.05
        for seed in range(TIMES)
    ]
    assert np.mean(below) < 0.06 + SLACK


def test_unpaired_contexts_are_dealt_whole() -> None:
    rng = np.random.default_rng(6)
    labels, below = np.repeat(np.arange(12), 5), 0
    for seed in range(TIMES):
        one, two = (rng.normal(size=12).repeat(5) + rng.normal(size=60) for _ in range(2))
        below += unpaired_permutation(one, two, groups=(labels, labels), resamples=300, seed=seed) < 0.05
    assert below / TIMES < 0.06 + SLACK


@pytest.mark.parametrize("test", [paired_permutation, unpaired_permutation])
def test_one_value_is_refused(test: object) -> None:
    with pytest.raises(DataError):
        test(np.zeros(1), np.ones(1))  # type: ignore[operator]


def correlated(rng: np.random.Generator, units: int, tests: int, shift: float = 0.0) -> Array:
    found: Array = 0.9 * rng.normal(size=(units, 1)) + 0.45 * rng.normal(size=(units, tests)) + shift
    return found


@pytest.mark.parametrize("units", [10, 40])
def test_max_t_keeps_the_level_of_the_family_and_finds_more_than_holm(units: int) -> None:
    rng = np.random.default_rng(7)
    false = sum((paired_max_t(correlated(rng, units, 10), resamples=400, seed=i).p < 0.05).any() for i in range(TIMES))
    assert false / TIMES < 0.06 + SLACK
    mine = its = 0
    for seed in range(60):
        differences = correlated(rng, units, 10, shift=3.2 / math.sqrt(units))
        plain = [paired_permutation(np.zeros(units), column, resamples=400, seed=seed) for column in differences.T]
        mine += int((paired_max_t(differences, resamples=400, seed=seed).p < 0.05).sum())
        its += int((holm(np.array(plain)) < 0.05).sum())
    assert mine > its


def test_max_t_of_one_test_is_that_test() -> None:
    differences = np.random.default_rng(8).normal(0.4, 1, 12)
    family = paired_max_t(differences[:, None])
    assert family.p[0] == pytest.approx(paired_permutation(np.zeros(12), differences))
    assert family.alpha[0] <= 0.05


def test_max_t_steps_down() -> None:
    drawn = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0], [1.0, 3.0]])
    p, maxima = max_t(np.array([2.5, 1.0]), [drawn[:2], drawn[2:]], exact=True)
    assert p.tolist() == [0.25, 0.5]
    assert maxima.tolist() == [0, 1, 2, 3]


def test_a_thousand_huge_differences_are_all_found() -> None:
    differences = np.random.default_rng(9).normal(5, 0.1, (30, 1000))
    assert (paired_max_t(differences, resamples=1000).p < 0.05).all()
    plain = np.array([paired_permutation(np.zeros(30), column, resamples=500) for column in differences.T])
    assert (holm(plain) < 0.05).all()


def test_an_effect_that_is_zero_on_average_over_stories_is_no_effect() -> None:
    """Each story has an effect of its own, so that its texts cannot be exchanged one by one."""
    stories, labels = np.repeat(np.arange(20), 6), np.tile([1.0, 1, 0, 0, 0, 0], 20)
    below = 0
    for seed in range(TIMES):
        rng = np.random.default_rng(seed)
        values = (labels * 2 - 1) * rng.normal(size=20)[stories] + 0.3 * rng.normal(size=120)
        below += label_permutation(values, labels, groups=stories, resamples=300, seed=seed) < 0.05
    assert below / TIMES < 0.06 + SLACK
    assert label_permutation(4 * labels + values, labels, groups=stories, resamples=300, seed=1) < 0.05
