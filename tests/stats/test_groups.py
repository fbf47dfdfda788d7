"""Items that belong together are drawn, and swapped, together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from nlgauge.errors import DataError
from nlgauge.stats.clusters import compare_metrics
from nlgauge.stats.correlation import bootstrap_intervals, correlation, resample_weights, resampled
from nlgauge.stats.dependent import permute_both

Numbers = np.ndarray[Any, Any]


def grouped_sample(rng: np.random.Generator, groups: int, each: int) -> tuple[Numbers, Numbers, Numbers]:
    """A metric and a truth that both have an effect of the group: items of a group are alike."""
    labels = np.repeat(np.arange(groups), each)
    own = rng.normal(size=(2, groups * each))
    shared = rng.normal(size=(2, groups)).repeat(each, axis=1)
    x, y = 1.5 * shared + own
    return x, y, labels


@pytest.mark.parametrize(("kind", "slow"), [("pearson", pearsonr), ("spearman", spearmanr), ("kendall", kendalltau)])
def test_drawing_groups_is_repeating_their_items(kind: Any, slow: Any) -> None:
    rng = np.random.default_rng(0)
    x, y, labels = grouped_sample(rng, 7, 3)
    x, y = np.round(x), np.round(y)
    found = resampled(x[None], y, kind, groups=labels, resamples=100, seed=5)[0]
    counts = np.concatenate(list(resample_weights(7, 100, 5)))
    for value, count in zip(found, counts, strict=True):
        drawn = np.repeat(np.arange(len(x)), count[labels].astype(int))
        expected = slow(x[drawn], y[drawn])[0]
        assert value == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_neither_the_order_of_items_nor_the_names_of_companions_matter() -> None:
    rng = np.random.default_rng(1)
    x, y, labels = grouped_sample(rng, 12, 4)
    z = x + rng.normal(size=len(x))
    names = np.array([f"context {label:02}" for label in labels])
    order = rng.permutation(len(x))
    one = bootstrap_intervals(np.stack([x, z]), y, "spearman", groups=names, resamples=200)
    other = bootstrap_intervals(z[order][None], y[order], "spearman", groups=names[order], resamples=200)
    assert other[0] == pytest.approx(one[1], abs=1e-12)
    first = permute_both(x, z, y, groups=names)
    again = permute_both(x[order], z[order], y[order], groups=names[order])
    assert first == again
    both = compare_metrics({"x": x, "z": z}, y, groups=names)
    best, rest = ("x", "z") if both.names[0] == "x" else ("z", "x")
    sides = {"x": x, "z": z}
    assert both.p[0, 1] == permute_both(sides[best], sides[rest], y, groups=names).p


def test_intervals_over_groups_cover_where_those_over_items_do_not() -> None:
    """Two unrelated sides that are alike within groups: their true correlation is 0."""
    hits = {"groups": 0, "items": 0}
    for seed in range(150):
        x, y, labels = grouped_sample(np.random.default_rng([3, seed]), 30, 6)
        for way, groups in (("groups", labels), ("items", None)):
            low, high = bootstrap_intervals(x[None], y, "spearman", groups=groups, resamples=200)[0]
            hits[way] += low <= 0 <= high
    assert hits["groups"] / 150 > 0.88
    assert hits["items"] / 150 < 0.8


def test_swapping_groups_keeps_the_level_where_swapping_items_does_not() -> None:
    below = {"groups": 0, "items": 0}
    for seed in range(200):
        rng = np.random.default_rng([4, seed])
        x, y, labels = grouped_sample(rng, 25, 6)
        z = 1.5 * rng.normal(size=25).repeat(6) + rng.normal(size=150)
        for way, groups in (("groups", labels), ("items", None)):
            p = permute_both(x, z, y, groups=groups, permutations=200).p
            below[way] += p is not None and p < 0.05
    assert below["groups"] / 200 < 0.1
    assert below["items"] / 200 > 0.15


def test_groups_that_cannot_be_drawn_are_refused() -> None:
    x = np.arange(6.0)
    with pytest.raises(DataError, match="one group"):
        resampled(x[None], x, "pearson", groups=np.zeros(6))
    with pytest.raises(DataError, match="one label per item"):
        resampled(x[None], x, "pearson", groups=np.zeros(5))
    assert correlation(x, x, "kendall") == 1
