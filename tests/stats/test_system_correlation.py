"""Intervals of correlations over systems whose means have errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nlgauge.stats.correlation import Kind, correlation
from nlgauge.stats.inference import Inference
from nlgauge.stats.system_correlation import mean_correlation_intervals

HOW = Inference(resamples=100)


def totals(levels: Any) -> Any:
    """Sums of units from values of both sides (2 x systems x units)."""
    return np.stack([np.ones(levels.shape[:0:-1]), *levels.transpose(0, 2, 1)])


@pytest.mark.parametrize(("kind", "least"), [("pearson", 0.93), ("spearman", 0.89)])
def test_the_correlation_over_endless_contexts_is_covered(kind: Kind, least: float) -> None:
    """Of 12 systems on 20 contexts; intervals around the value that was found cover 77 % (Pearson's) here."""
    rng, covered, around = np.random.default_rng(1), 0, 0
    for seed in range(150):
        human = rng.normal(size=12)
        metric = 0.7 * human + 0.51**0.5 * rng.normal(size=12)
        levels = np.stack([metric, human])[:, :, None] + 2 * rng.normal(size=(2, 12, 20))
        found = mean_correlation_intervals(totals(levels), Inference(resamples=100, seed=seed))[kind]
        assert found is not None
        covered += found[0] <= correlation(metric, human, kind) <= found[1]
        around += found[0] <= correlation(levels[0].mean(axis=1), levels[1].mean(axis=1), kind) <= found[1]
    assert covered / 150 >= least - 2 * (0.05 * 0.95 / 150) ** 0.5
    assert around == 150


def test_means_without_errors_have_narrow_intervals() -> None:
    rng = np.random.default_rng(2)
    levels = rng.normal(size=(2, 8, 1)) + 1e-3 * rng.normal(size=(2, 8, 30))
    found = mean_correlation_intervals(totals(levels), HOW)["pearson"]
    assert found is not None
    assert 0 < found[1] - found[0] < 0.01
    assert found[0] <= correlation(levels[0].mean(axis=1), levels[1].mean(axis=1), "pearson") <= found[1]


def test_a_system_that_is_seen_in_two_units_alone_has_no_interval() -> None:
    sums = totals(np.random.default_rng(3).normal(size=(2, 4, 25)))
    sums[:, 2:, 0] = 0.0
    assert mean_correlation_intervals(sums, HOW)["pearson"] is None
