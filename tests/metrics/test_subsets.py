"""Sets measured at fewer responses than they have: means over subsets."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlgauge
from nlgauge.errors import OptionError
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.registry import create_metric
from nlgauge.metrics.subsets import MOST_SUBSETS, draw_subsets, first_subset

TEXTS = st.lists(st.sampled_from(["a", "b", "a b", "b c", "c d e", "a b c d", "d"]), min_size=3, max_size=6)
FREE = ("distinct", "ttr:over=set", "ead:over=set", "entropy", "self-bleu", "compression")


def value(metric: str, texts: list[str]) -> float:
    (found,) = create_metric(metric).values(Batch(nlgauge.ResponseSets.of([texts])))  # type: ignore[attr-defined]
    return float(create_metric(metric).combine(found[None, :])[0])  # type: ignore[attr-defined]


@pytest.mark.parametrize("metric", FREE)
@given(texts=TEXTS)
def test_a_set_at_a_smaller_size_is_the_mean_over_all_its_subsets(metric: str, texts: list[str]) -> None:
    columns = [
        create_metric(metric).values(Batch(nlgauge.ResponseSets.of([list(chosen)])))[0]  # type: ignore[attr-defined]
        for chosen in combinations(texts, 3)
    ]
    defined = [[one for one in column if not math.isnan(one)] for column in zip(*columns, strict=True)]
    slow = [math.fsum(column) / len(column) if column else math.nan for column in defined]
    fast = create_metric(f"{metric}{',' if ':' in metric else ':'}size=3")
    found = fast.values(Batch(nlgauge.ResponseSets.of([texts])))[0]  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, slow, rtol=0, atol=1e-12)


def test_embeddings_of_subsets_are_those_of_the_set(minilm: str) -> None:
    texts = ["yes", "no", "maybe", "yes please", "never"]
    for metric in ("vendi", "kmeans-inertia", "volume"):
        slow = np.mean([value(metric, list(chosen)) for chosen in combinations(texts, 3)])
        assert value(f"{metric}:size=3", texts) == pytest.approx(float(slow), abs=1e-6)


@pytest.mark.parametrize("metric", ["cos-sim:variant=reference", "pairs"])
@given(texts=TEXTS)
def test_a_mean_over_pairs_is_its_own_expectation_at_every_size(metric: str, texts: list[str]) -> None:
    assert not create_metric(metric).depends_on_size
    mean = math.fsum(value(metric, list(chosen)) for chosen in combinations(texts, 2)) / math.comb(len(texts), 2)
    assert value(metric, texts) == pytest.approx(mean, abs=1e-12)


def test_many_subsets_are_drawn_evenly_and_by_the_texts_alone() -> None:
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, 1 << 63, 40, dtype=np.uint64)
    (owners, positions), *_ = draw_subsets(hashes, np.array([0, 20, 40]), 5)
    assert len(owners) == 2 * MOST_SUBSETS
    counts = np.bincount(positions.ravel(), minlength=40)
    assert counts.min() >= 7
    assert all(len(set(row)) == 5 for row in positions.tolist())
    order = np.concatenate([rng.permutation(20), 20 + rng.permutation(20)])
    (_, moved), *_ = draw_subsets(hashes[order], np.array([0, 20, 40]), 5)
    assert np.array_equal(hashes[order][moved], hashes[positions])
    (_, alone), *_ = draw_subsets(hashes[20:], np.array([0, 20]), 5)
    assert np.array_equal(alone + 20, positions[owners == 1])


def test_random_subsets_estimate_the_mean_over_all() -> None:
    rng = np.random.default_rng(2)
    sets = [[" ".join(rng.choice(list("abcdefgh"), 4)) for _ in range(10)] for _ in range(150)]
    every = [np.mean([value("distinct", list(chosen)) for chosen in combinations(texts, 8)]) for texts in sets[:10]]
    some = [value("distinct:size=8", texts) for texts in sets[:10]]
    assert np.abs(np.array(every) - some).max() < 0.02
    assert abs(np.mean(every) - np.mean(some)) < 0.004


def test_equal_texts_are_drawn_as_often_as_others() -> None:
    hashes = np.tile(np.array([7, 7, 7, 7, 7, 7, 1, 2, 3, 4], dtype=np.uint64), 300)
    hashes += np.repeat(np.arange(300, dtype=np.uint64) * np.uint64(100), 10)
    rows, positions = first_subset(hashes, np.arange(0, 3001, 10), 2)
    assert rows.tolist() == list(range(300))
    pairs = (hashes[positions] % np.uint64(100)) == 7
    assert float(pairs.all(axis=1).mean()) == pytest.approx(6 * 5 / 90, abs=0.09)


def test_sets_below_the_size_have_no_value() -> None:
    (found,) = nlgauge.score([["a", "b", "c"], ["a", "b"]], ["distinct:size=3"])
    assert (found.n, found.excluded) == (1, 1)
    (pooled,) = nlgauge.score([["a", "b", "c"], ["a", "b"]], ["distinct:over=corpus,size=3"])
    assert pooled.n == 3


def test_sizes_that_mean_nothing_are_refused() -> None:
    for spec, option in (("distinct:size=0", "size"), ("self-bleu:size=1", "size"), ("distinct:sets=3", "sets")):
        with pytest.raises(OptionError) as error:
            create_metric(spec)
        assert error.value.option == option
