"""OCA on new data: no better than chance for a useless metric, with an interval that covers."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from nlgauge.stats.correlation import optimal_accuracy
from nlgauge.stats.oca import optimal_accuracy_test

TIMES = 150


@pytest.mark.parametrize("size", [20, 100])
@pytest.mark.parametrize("distance", [0.0, 1.0, 2.0])
def test_the_interval_covers_the_population_value(distance: float, size: int) -> None:
    rng, hits, rejected = np.random.default_rng([size, int(distance)]), 0, 0
    truth = NormalDist().cdf(distance / 2)
    labels = np.arange(size) % 2.0
    corrected = []
    for seed in range(TIMES):
        values = rng.normal(size=size) + distance * labels
        found = optimal_accuracy_test(values, labels, seed=seed)
        assert (found.value, found.threshold) == optimal_accuracy(values, labels)
        hits += found.ci[0] <= truth <= found.ci[1]
        rejected += found.p < 0.05
        corrected.append(found.corrected)
    assert hits / TIMES > 0.91
    assert abs(np.mean(corrected) - truth) < 0.05
    if distance == 0:
        assert rejected / TIMES <= 0.1
    elif size == 100:
        assert rejected / TIMES > 0.9


def test_contexts_are_drawn_whole_and_labels_permuted_within_them() -> None:
    rng, hits, rejected = np.random.default_rng(5), 0, 0
    groups, labels = np.repeat(np.arange(30), 6), np.tile([0.0, 0, 0, 1, 1, 1], 30)
    for seed in range(TIMES):
        values = rng.normal(size=30)[groups] + rng.normal(size=180)
        found = optimal_accuracy_test(values, labels, groups=groups, seed=seed)
        hits += found.ci[0] <= 0.5 <= found.ci[1]
        rejected += found.p < 0.05
    assert hits / TIMES > 0.91
    assert rejected / TIMES <= 0.1


def test_an_inverted_metric_is_found_in_both_directions() -> None:
    labels = np.arange(60) % 2.0
    values = -labels + 0.1 * np.random.default_rng(1).normal(size=60)
    assert optimal_accuracy_test(values, labels).corrected == 0.5
    found = optimal_accuracy_test(values, labels, directions="both")
    assert found.value == 1.0
    assert found.corrected > 0.98
    assert found.ci[0] > 0.9
