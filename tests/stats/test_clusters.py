"""Many metrics compared on the same items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.stats.clusters import compare_metrics
from nlgauge.stats.correlation import Kind, correlation
from nlgauge.stats.dependent import permute_both
from nlgauge.stats.families import holm
from tests.errors import raises

KINDS: list[Kind] = ["pearson", "spearman", "kendall"]


def sample(seed: int, size: int, strengths: dict[str, float]) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=size)
    return {name: strength * truth + rng.normal(size=size) for name, strength in strengths.items()}, truth


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_p_values_of_unrelated_metrics_are_about_uniform_on_shuffled_labels(kind: Kind) -> None:
    rng = np.random.default_rng(11)
    first, second = rng.normal(size=(2, 30))
    labels = np.repeat([0.0, 1.0], 15)
    found = [
        compare_metrics({"a": first, "b": second}, rng.permutation(labels), kind=kind, permutations=199, seed=seed).p[
            0, 1
        ]
        for seed in range(400)
    ]
    assert kstest(found, "uniform").pvalue > 0.01
    assert 0.02 <= np.mean(np.array(found) < 0.05) <= 0.09


@pytest.mark.parametrize("kind", KINDS)
def test_a_better_metric_is_found_most_of_the_time(kind: Kind) -> None:
    hits = 0
    for seed in range(40):
        values, truth = sample(seed, 100, {"good": 2.0, "poor": 0.5})
        found = compare_metrics(values, truth, kind=kind, permutations=199)
        hits += found.names == ["good", "poor"] and found.clusters == [1, 2]
    assert hits >= 36


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_the_same_alone_among_others_and_in_any_order(kind: Kind) -> None:
    values, truth = sample(1, 60, {"c": 0.4, "a": 1.0, "d": 0.6, "b": 0.8})
    truth = np.round(truth)
    how: dict[str, Any] = {"kind": kind, "permutations": 300, "seed": 5, "correct": "none"}
    whole = compare_metrics(values, truth, **how)
    assert whole.correlations == sorted(whole.correlations, reverse=True)
    assert (whole.p == whole.p.T).all()
    order = np.random.default_rng(0).permutation(60)
    again = compare_metrics({name: values[name][order] for name in reversed(values)}, truth[order], **how)
    assert again.names == whole.names
    assert again.correlations == whole.correlations
    assert (again.p == whole.p).all()
    for i, better in enumerate(whole.names):
        assert whole.correlations[i] == pytest.approx(correlation(values[better], truth, kind), abs=1e-12)
        for j, worse in enumerate(whole.names[i + 1 :], start=i + 1):
            alone = compare_metrics({n: values[n] for n in (worse, better)}, truth, **how)
            single = permute_both(values[better], values[worse], truth, kind, permutations=300, seed=5)
            assert whole.p[i, j] == alone.p[0, 1] == single.p


def test_clusters_and_ties_follow_from_the_p_values() -> None:
    strengths = {f"m{i}": strength for i, strength in enumerate([0.1, 0.3, 0.5, 0.7, 0.9, 1.2, 1.5])}
    values, truth = sample(2, 150, strengths)
    found = compare_metrics(values, truth)
    differ = found.p < 0.05
    assert found.clusters[0] == 1
    assert max(found.clusters) > 2
    for i, number in enumerate(found.clusters[1:], start=1):
        current = [j for j in range(i) if found.clusters[j] == found.clusters[i - 1]]
        assert number == found.clusters[i - 1] + bool(differ[i, current].any())
    for i, name in enumerate(found.names):
        same = [j for j in range(len(found.names)) if found.clusters[j] == found.clusters[i]]
        assert not differ[i, same].any()
        assert found.ties(name) == [other for j, other in enumerate(found.names) if j != i and not differ[i, j]]
    with raises(UnknownName, name="m33", nearest="m3"):
        found.ties("m33")


def test_holm_corrects_over_all_pairs() -> None:
    values, truth = sample(3, 80, {"a": 1.0, "b": 0.6, "c": 0.2, "d": 0.0})
    plain, corrected = (compare_metrics(values, truth, correct=way) for way in ("none", "holm"))
    upper = np.triu_indices(4, 1)
    np.testing.assert_array_equal(corrected.p[upper], holm(plain.p[upper]))
    assert (corrected.p == corrected.p.T).all()
    assert len(corrected.ties(corrected.names[0])) >= len(plain.ties(plain.names[0]))


def test_equal_metrics_tie_and_stand_in_the_order_of_their_names() -> None:
    values, truth = sample(4, 40, {"z": 1.0, "a": 0.1})
    found = compare_metrics({"z": values["z"], "y": 2 * values["z"], "a": values["a"]}, truth)
    assert found.names == ["y", "z", "a"]
    assert found.p[0, 1] == 1.0


def test_what_cannot_be_compared_is_refused() -> None:
    values, truth = sample(5, 20, {"a": 1.0, "b": 1.0})
    for kind in KINDS:
        with pytest.raises(DataError, match="metric 'flat' is constant"):
            compare_metrics({**values, "flat": np.full(20, 0.1)}, truth, kind=kind)
    with pytest.raises(DataError, match="truth that is constant"):
        compare_metrics(values, np.ones(20))
    with pytest.raises(DataError, match="1 metric"):
        compare_metrics({"a": values["a"]}, truth)
    with pytest.raises(DataError, match="metric 'b' has values of shape"):
        compare_metrics({"a": values["a"], "b": values["b"][:5]}, truth)
    with pytest.raises(DataError, match="metric 'b' has values that are not finite"):
        compare_metrics({"a": values["a"], "b": values["b"] * np.nan}, truth)
    with pytest.raises(DataError, match="at least 3"):
        compare_metrics(values, truth[:2])
    with raises(UnknownName, name="tau"):
        compare_metrics(values, truth, kind="tau")  # type: ignore[arg-type]
    with raises(UnknownName, name="bonferroni"):
        compare_metrics(values, truth, correct="bonferroni")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="alpha"):
        compare_metrics(values, truth, alpha=5)
    with pytest.raises(OptionError, match="permutations"):
        compare_metrics(values, truth, permutations=10)


@pytest.mark.parametrize(("metrics", "kind"), [(3, "spearman"), (6, "spearman"), (12, "pearson")])
def test_equally_good_metrics_are_one_cluster(metrics: int, kind: Kind) -> None:
    """Uncorrected, 3, 6 and 12 metrics were split in 10, 31 and 72 %."""
    rng, split, times = np.random.default_rng(metrics), 0, 120
    for seed in range(times):
        truth, common = rng.normal(size=60), rng.normal(size=60)
        values = {f"m{i}": 0.5 * truth + common + rng.normal(size=60) for i in range(metrics)}
        split += max(compare_metrics(values, truth, kind=kind, permutations=300, seed=seed).clusters) > 1
    assert split / times <= 0.05 + 3 * (0.05 * 0.95 / times) ** 0.5
