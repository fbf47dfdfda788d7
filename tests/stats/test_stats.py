"""Intervals cover, tests keep their level."""

from __future__ import annotations

import numpy as np
import pytest

from nlgauge.data.tables import ResponseSets
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.diversity.ngram import Distinct
from nlgauge.stats.families import holm
from nlgauge.stats.inference import Inference
from nlgauge.stats.jackknife import LeftOut, jackknife_error
from nlgauge.stats.means import mean_interval
from nlgauge.stats.permutation import paired_permutation


@pytest.mark.parametrize("level", [0.2, 1.0, 95.0])
def test_meaningless_levels_are_refused(level: float) -> None:
    with pytest.raises(OptionError):
        mean_interval(np.arange(5.0), level)
    with pytest.raises(OptionError):
        Inference(resamples=10)


def test_p_values_are_uniform_when_there_is_no_difference() -> None:
    rng = np.random.default_rng(11)
    p = np.array([paired_permutation(*rng.random((2, 40)), resamples=999, seed=i) for i in range(500)])
    for level in (0.05, 0.25, 0.5, 0.75):
        assert abs(np.mean(p <= level) - level) < 4 * np.sqrt(level * (1 - level) / 500)


def test_a_sampled_permutation_test_is_close_to_the_exact_one() -> None:
    rng = np.random.default_rng(2)
    first = rng.random(16)
    second = first + rng.normal(0.05, 0.12, 16)
    exact = paired_permutation(first, second)
    doubled = paired_permutation(np.append(first, [0.0]), np.append(second, [0.0]))
    padded = paired_permutation(np.append(first, [0.0]), np.append(second, [1e-9]), resamples=20_000)
    assert doubled == exact
    assert padded == pytest.approx(exact, abs=0.02)


def test_identical_systems_differ_by_nothing() -> None:
    same = np.random.default_rng(0).random(30)
    assert paired_permutation(same, same) == 1.0


def test_unequal_or_lonely_pairs_are_refused() -> None:
    with pytest.raises(DataError, match="same items"):
        paired_permutation(np.arange(3.0), np.arange(4.0))
    with pytest.raises(DataError, match="at least 2"):
        paired_permutation(np.arange(1.0), np.arange(1.0))


def test_holm_steps_down() -> None:
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1.0, 1.0])
    assert len(holm(np.array([]))) == 0


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.random.default_rng(1).random(50)
    left_out = np.array([np.delete(values, i).mean() for i in range(50)])
    error = jackknife_error(float(values.mean()), LeftOut(left_out, np.ones(50)))
    assert error == pytest.approx(values.std(ddof=1) / np.sqrt(50))


def test_the_jackknife_interval_of_corpus_distinct_covers_its_expectation() -> None:
    rng = np.random.default_rng(8)
    weights = 1 / np.arange(1, 2001)
    weights /= weights.sum()
    metric = Distinct(n="1", over="corpus")  # type: ignore[arg-type]

    def corpus() -> ResponseSets:
        words = rng.choice(2000, (300, 10), p=weights)
        return ResponseSets.of([[" ".join(map(str, row))] for row in words], ids=range(300))

    scores = [metric.score(corpus(), Inference(level=0.9)) for _ in range(250)]
    truth = np.mean([score.value for score in scores])
    hits = [score.ci[0] <= truth <= score.ci[1] for score in scores if score.ci]
    assert len(hits) == 250
    assert 0.84 <= np.mean(hits) <= 0.96
