"""Accuracy over pairs against slow versions and by hand."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.errors import DataError, OptionError
from nlgauge.stats.pairwise import PairwiseAccuracy, calibrate_ties, pairwise_accuracy, soft_pairwise_accuracy

items = st.lists(
    st.tuples(st.sampled_from([-1.5, 0.0, 0.1, 0.2, 0.3, 2.0]), st.integers(0, 2), st.integers(0, 2)),
    min_size=2,
    max_size=12,
)


def slow_accuracy(rows: list[tuple[float, float, int]], epsilon: float, *, grouped: bool) -> tuple[float, int]:
    """Look at every pair; the mean over groups."""
    right: dict[int, list[bool]] = {}
    for (x, y, group), (other_x, other_y, other_group) in combinations(rows, 2):
        if grouped and group != other_group:
            continue
        called = 0 if abs(x - other_x) <= epsilon else np.sign(x - other_x)
        right.setdefault(group if grouped else 0, []).append(called == np.sign(y - other_y))
    means = [float(np.mean(one)) for one in right.values()]
    return float(np.mean(means or [np.nan])), sum(map(len, right.values()))


def columns(rows: list[tuple[float, float, int]], *, grouped: bool) -> tuple[Any, Any, Any]:
    metric, truth, groups = (np.array(column) for column in zip(*rows, strict=True))
    return metric, truth, groups if grouped else None


@given(items, st.sampled_from([0.0, 0.1, 0.15, 3.0]), st.booleans())
def test_accuracy_is_that_of_a_loop_over_pairs(
    rows: list[tuple[float, float, int]], epsilon: float, grouped: bool
) -> None:
    metric, truth, groups = columns(rows, grouped=grouped)
    value, pairs = slow_accuracy(rows, epsilon, grouped=grouped)
    if not pairs:
        with pytest.raises(DataError, match="no two items in any one group"):
            pairwise_accuracy(metric, truth, groups=groups)
        return
    found = pairwise_accuracy(metric, truth, groups=groups, epsilon=epsilon)
    assert found.value == pytest.approx(value)
    assert (found.epsilon, found.pairs) == (epsilon, pairs)


@given(items, st.booleans())
def test_calibration_finds_the_smallest_of_the_best_epsilons(
    rows: list[tuple[float, float, int]], grouped: bool
) -> None:
    metric, truth, groups = columns(rows, grouped=grouped)
    if not slow_accuracy(rows, 0, grouped=grouped)[1]:
        return
    epsilons = sorted({0.0} | {abs(a[0] - b[0]) for a, b in combinations(rows, 2) if not grouped or a[2] == b[2]})
    tried = [slow_accuracy(rows, epsilon, grouped=grouped)[0] for epsilon in epsilons]
    found = calibrate_ties(metric, truth, groups)
    assert found.value == pytest.approx(max(tried))
    assert found.epsilon == epsilons[int(np.argmax(np.array(tried) >= max(tried) - 1e-9))]
    assert found == pairwise_accuracy(metric, truth, groups=groups, epsilon=None)
    assert found == pairwise_accuracy(metric, truth, groups=groups, epsilon=found.epsilon)


def test_ties_by_hand() -> None:
    """Pairs: 1-2 tied in truth and near; 1-3 and 2-3 in order. Only a small epsilon gets all three right."""
    metric, truth = np.array([1.0, 1.25, 3.0]), np.array([5, 5, 6])
    assert pairwise_accuracy(metric, truth) == PairwiseAccuracy(2 / 3, 0.0, 3)
    assert calibrate_ties(metric, truth) == PairwiseAccuracy(1.0, 0.25, 3)
    assert pairwise_accuracy(metric, truth, epsilon=2) == PairwiseAccuracy(1 / 3, 2.0, 3)
    assert pairwise_accuracy(metric, truth, groups=np.array(["a", "b", "b"])) == PairwiseAccuracy(1.0, 0.0, 1)


def ties_matter(metric: Any, human: Any, epsilon: float) -> float:
    """acc_eq by its published definition, (C + T_hm) / (C + D + T_h + T_m + T_hm), the mean over source segments.

    Tables of systems x segments; a NaN is a segment that the metric did not score.
    """
    found = []
    for segment in range(metric.shape[1]):
        counts = dict.fromkeys(("concordant", "discordant", "human", "metric", "both"), 0)
        for i, j in combinations(range(len(metric)), 2):
            m, h = metric[i, segment] - metric[j, segment], human[i, segment] - human[j, segment]
            if np.isnan(m):
                continue
            if abs(m) <= epsilon:
                counts["both" if h == 0 else "metric"] += 1
            else:
                counts["human" if h == 0 else "concordant" if (m > 0) == (h > 0) else "discordant"] += 1
        if total := sum(counts.values()):
            found.append((counts["concordant"] + counts["both"]) / total)
    return sum(found) / len(found)


@pytest.mark.parametrize("seed", range(60))
def test_accuracy_and_calibration_are_those_of_the_published_definition(seed: int) -> None:
    """Human scores that tie in whole segments, metrics that tie, and metrics without a value, as WMT groups them."""
    rng = np.random.default_rng(seed)
    systems, segments = int(rng.integers(3, 7)), int(rng.integers(3, 12))
    human = rng.integers(0, 4, (systems, segments)).astype(float)
    human[:, rng.random(segments) < 0.4] = 2.0
    metric = human + rng.normal(size=human.shape)
    if seed % 2:
        metric = np.round(metric, 1)
    if seed % 3 == 0:
        metric[rng.random(human.shape) < 0.2] = np.nan
    given_values = np.isfinite(metric)
    rows = metric[given_values], human[given_values]
    groups = np.broadcast_to(np.arange(segments), human.shape)[given_values]
    distances = {abs(a - b) for column in metric.T for a, b in combinations(column[np.isfinite(column)], 2)}
    tried = {epsilon: ties_matter(metric, human, epsilon) for epsilon in sorted({0.0} | distances)}
    best = min(epsilon for epsilon, value in tried.items() if value >= max(tried.values()) - 1e-12)
    found = calibrate_ties(*rows, groups)
    assert found.epsilon == pytest.approx(best, abs=1e-12)
    assert found.value == pytest.approx(tried[best], abs=1e-12)
    assert pairwise_accuracy(*rows, groups=groups).value == pytest.approx(tried[0.0], abs=1e-12)


def test_segments_of_equal_human_scores_count() -> None:
    """A metric that calls their ties is right there, one that does not is wrong."""
    human, groups = np.array([1.0, 1, 1, 2]), np.array([0, 0, 1, 1])
    assert pairwise_accuracy(np.array([5.0, 5, 1, 2]), human, groups=groups).value == 1.0
    assert pairwise_accuracy(np.array([5.0, 6, 1, 2]), human, groups=groups).value == 0.5


def slow_soft_accuracy(metric: Any, truth: Any) -> float:
    """All flips of all items, each pair of systems by itself."""
    distances = []
    for i, j in combinations(range(len(metric)), 2):
        p = []
        for values in (truth, metric):
            difference = values[i] - values[j]
            null = [np.dot(signs, difference) for signs in product((-1, 1), repeat=len(difference))]
            found = difference.sum()
            p.append(np.mean([1.0 if d > found + 1e-9 else 0.5 if d > found - 1e-9 else 0.0 for d in null]))
        distances.append(abs(p[0] - p[1]))
    return float(1 - np.mean(distances))


def published_soft_accuracy(metric: Any, human: Any) -> float:
    """SPA as published: p is the share of all swaps whose difference is at least the one found."""
    swaps = np.array(list(product((-1, 1), repeat=metric.shape[1])))
    gaps = []
    for i, j in combinations(range(len(metric)), 2):
        p = [np.mean(swaps @ (side[i] - side[j]) >= (side[i] - side[j]).sum() - 1e-9) for side in (human, metric)]
        gaps.append(abs(p[0] - p[1]))
    return float(1 - np.mean(gaps))


@pytest.mark.parametrize("seed", range(60))
def test_soft_accuracy_nears_that_of_the_published_definition(seed: int) -> None:
    """Within four standard errors of 10,000 swaps; some segments have equal human scores for all systems."""
    rng = np.random.default_rng(seed)
    systems = int(rng.integers(2, 6))
    human = rng.normal(size=(systems, 10)) + 0.4 * np.arange(systems)[:, None]
    human[:, : rng.integers(0, 4)] = 0.0
    metric = human + rng.normal(size=human.shape) * rng.uniform(0, 3)
    found = soft_pairwise_accuracy(metric, human, permutations=10_000)
    assert found == pytest.approx(published_soft_accuracy(metric, human), abs=4 * 0.5 / 100)


def test_soft_accuracy_nears_that_of_all_permutations() -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 4, (5, 9)) + np.arange(5)[:, None] * 0.3
    metric = truth + rng.normal(size=(5, 9))
    found = soft_pairwise_accuracy(metric, truth, permutations=40_000)
    assert found == pytest.approx(slow_soft_accuracy(metric, truth), abs=0.005)


def test_soft_accuracy_by_hand() -> None:
    """One system always better: p is about 0; a metric that sees no difference has p = 1/2, an inverted one 1."""
    truth = np.array([np.full(30, 2.0), np.full(30, 1.0)])
    assert soft_pairwise_accuracy(truth * 7, truth) == 1.0
    assert soft_pairwise_accuracy(truth[[0, 0]], truth) == pytest.approx(0.5, abs=0.001)
    assert soft_pairwise_accuracy(truth[::-1], truth) == pytest.approx(0.0, abs=0.001)


def test_soft_accuracy_depends_on_the_seed_but_on_no_order() -> None:
    rng = np.random.default_rng(6)
    truth = rng.integers(0, 3, (6, 40)).astype(float)
    metric = truth + rng.normal(size=(6, 40))
    found = soft_pairwise_accuracy(metric, truth, permutations=200)
    for _ in range(5):
        systems, order = rng.permutation(6), rng.permutation(40)
        shuffled = metric[systems][:, order], truth[systems][:, order]
        assert soft_pairwise_accuracy(*shuffled, permutations=200) == found
    assert soft_pairwise_accuracy(metric, truth, permutations=200, seed=1) != found


def test_values_that_cannot_be_compared_are_refused() -> None:
    row = np.arange(4.0)
    with pytest.raises(DataError, match="two rows"):
        pairwise_accuracy(row, row[:3])
    with pytest.raises(DataError, match="finite"):
        calibrate_ties(row, row * np.nan)
    with pytest.raises(DataError, match="one label per item"):
        pairwise_accuracy(row, row, groups=np.arange(3))
    with pytest.raises(DataError, match="no two items to compare"):
        pairwise_accuracy(row[:1], row[:1])
    with pytest.raises(OptionError, match="at least 0"):
        pairwise_accuracy(row, row, epsilon=-1)
    with pytest.raises(DataError, match="systems x items"):
        soft_pairwise_accuracy(row, row)
    with pytest.raises(DataError, match="finite"):
        soft_pairwise_accuracy(row.reshape(2, 2), np.full((2, 2), np.nan))
    with pytest.raises(OptionError, match="at least 100"):
        soft_pairwise_accuracy(row.reshape(2, 2), row.reshape(2, 2), permutations=10)
