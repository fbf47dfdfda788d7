"""Kernels agree with slow, obvious versions on random input."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.data.tables import ResponseSets
from nlgauge.engine.scratch import scratch_folder
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.overlap import SelfBleu
from nlgauge.text.census import Census, Sketch
from nlgauge.text.set_kernels import rank_ngrams, set_cosine, set_entropy
from nlgauge.text.sketch import relative_error
from nlgauge.text.tokens import Tokenizer
from tests import slow

word = st.sampled_from(["a", "b", "c", "d", "the", "a-rather-long-word"])
one_text = st.lists(word, max_size=9)
one_set = st.lists(one_text, min_size=1, max_size=6)
some_sets = st.lists(one_set, min_size=1, max_size=5)
SPACE = Tokenizer("space")


def batch_of(sets: list[list[list[str]]]) -> Batch:
    return Batch(ResponseSets.of([[" ".join(tokens) for tokens in texts] for texts in sets]))


@given(some_sets)
def test_ranks_are_equal_exactly_for_equal_ngrams(sets: list[list[list[str]]]) -> None:
    grams = batch_of(sets).ngrams(SPACE, 5)
    for s, texts in enumerate(sets):
        for n in range(1, 6):
            found, expected = [], slow.pooled(texts, n)
            for t in range(grams.sets[s], grams.sets[s + 1]):
                ranks = grams.ranks[n - 1, grams.texts[t] : grams.texts[t + 1]]
                assert (ranks >= 0).sum() == max(0, len(ranks) - n + 1)
                found += ranks[ranks >= 0].tolist()
            assert len(set(zip(found, expected, strict=True))) == len(set(found)) == len(set(expected))
            assert grams.different[n - 1, s] == len(set(expected))
            assert grams.total[n - 1, s] == len(expected)


@given(some_sets, st.integers(1, 5))
def test_entropy_equals_the_formula(sets: list[list[list[str]]], n: int) -> None:
    grams = batch_of(sets).ngrams(SPACE, n)
    found = set_entropy(grams.ranks, grams.different, grams.texts, grams.sets, n)
    assert found == pytest.approx([slow.entropy(texts, n) for texts in sets], abs=1e-12)


@given(st.lists(st.lists(one_text, min_size=2, max_size=6), min_size=1, max_size=4), st.integers(1, 5), st.booleans())
def test_cosine_equals_a_loop_over_pairs(sets: list[list[list[str]]], n: int, whole: bool) -> None:
    grams = batch_of(sets).ngrams(SPACE, n)
    found = set_cosine(grams.ranks, grams.different, grams.texts, grams.sets, n, whole)
    assert found == pytest.approx([slow.mean_cosine(t, n, whole_when_short=whole) for t in sets], abs=1e-12)


@given(st.lists(one_text, min_size=2, max_size=7), st.integers(1, 5), st.sampled_from(["epsilon", "none"]))
def test_self_bleu_equals_nltk_per_sentence(texts: list[list[str]], n: int, smooth: str) -> None:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction()
    method = smoothing.method1 if smooth == "epsilon" else smoothing.method0
    weights = tuple([1 / n] * n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [
            sentence_bleu(texts[:i] + texts[i + 1 :], text, weights, smoothing_function=method)
            for i, text in enumerate(texts)
        ]
    found = SelfBleu(n=n, smooth=smooth).per_text(batch_of([texts]))  # type: ignore[arg-type]
    assert found == pytest.approx(expected, abs=1e-12)


@given(one_set, st.integers(1, 4), st.booleans(), st.booleans())
def test_a_census_counts_as_a_counter_does_however_it_is_cut(
    texts: list[list[str]], cut: int, spill: bool, compact: bool
) -> None:
    orders = (1, 2, 3, 5)
    lines = pl.Series([" ".join(tokens) for tokens in texts], dtype=pl.String)
    parts = [Census.of(SPACE(lines[i : i + cut]), orders, counts=True) for i in range(0, len(lines), cut)]
    plain = [Census.of(SPACE(lines[i : i + cut]), orders) for i in range(0, len(lines), cut)]
    with scratch_folder():
        whole, unique = parts[0], plain[0]
        for part, simple in zip(parts[1:], plain[1:], strict=True):
            whole, unique = whole + part, unique + simple
            if spill:
                whole, unique = whole.spilled(), unique.spilled()
        if compact:
            whole, unique = whole.compact(), unique.compact()
            assert not spill or max(len(runs) for runs in whole.runs) == 1
        found, simple_found = whole.summarise(), unique.summarise()
    for n, summary, simple_summary in zip(orders, found, simple_found, strict=True):
        counts = Counter(slow.pooled(texts, n))
        assert (summary.total, summary.different) == (counts.total(), len(counts))
        assert (simple_summary.total, simple_summary.different) == (counts.total(), len(counts))
        assert summary.weighted == pytest.approx(sum(c * np.log2(c) for c in counts.values()), abs=1e-9)


@given(one_set, st.integers(1, 3), st.booleans())
def test_a_grouped_census_knows_what_leaving_out_a_group_does(texts: list[list[str]], cut: int, spill: bool) -> None:
    groups = np.array([i % 3 for i in range(len(texts))], np.uint8)
    lines = pl.Series([" ".join(tokens) for tokens in texts], dtype=pl.String)
    with scratch_folder():
        parts = [
            Census.of(SPACE(lines[i : i + cut]), (1, 2), text_groups=groups[i : i + cut], groups=3)
            for i in range(0, len(lines), cut)
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + part
        found = (whole.spilled().compact() if spill else whole).summarise()
    for n, summary in zip((1, 2), found, strict=True):
        for left_out in range(3):
            kept = slow.pooled([t for t, g in zip(texts, groups, strict=True) if g != left_out], n)
            assert summary.different - summary.group_only[left_out] == len(set(kept))
            assert summary.total - summary.group_total[left_out] == len(kept)


@pytest.mark.parametrize("size", [0, 3, 1000, 50_000, 400_000])
def test_the_sketch_is_as_exact_as_it_says(size: int) -> None:
    text = " ".join(f"w{i}" for i in range(size))
    sketch = Sketch.of(SPACE(pl.Series([text])), (1, 2), 14)
    for n, summary in zip((1, 2), sketch.summarise(), strict=True):
        true = max(0, size - n + 1)
        assert abs(summary.different - true) <= 4 * relative_error(14) * true + 0.5


@pytest.mark.parametrize("spill", [False, True])
def test_a_large_census_is_counted_in_more_slices_to_the_same_end(spill: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    texts = pl.Series([" ".join(f"w{i}" for i in row) for row in rng.zipf(1.3, (200, 9)) % 500])
    with scratch_folder():
        census = Census.of(SPACE(texts), (1, 2), text_groups=np.arange(200) % 3, groups=3, counts=True)
        census = census.spilled() if spill else census
        assert census.slices == 64
        few = census.summarise()
        monkeypatch.setattr("nlgauge.text.census._NGRAMS_PER_SLICE", 10)
        assert census.slices == 256
        many = census.summarise()
    for one, other in zip(few, many, strict=True):
        assert (one.total, one.different) == (other.total, other.different)
        assert other.weighted == pytest.approx(one.weighted, rel=1e-12)
        assert other.group_only.tolist() == one.group_only.tolist()


def test_the_sketch_estimates_as_well_as_datasketches() -> None:
    from datasketches import hll_sketch, tgt_hll_type

    ours, theirs = [], []
    for seed in range(20):
        size = 20_000 + 977 * seed
        words = [f"{seed}-{i}" for i in range(size)]
        found = Sketch.of(SPACE(pl.Series([" ".join(words)])), (1,), 12).summarise()[0].different
        peer = hll_sketch(12, tgt_hll_type.HLL_8)
        for w in words:
            peer.update(w)
        ours.append(found / size - 1)
        theirs.append(peer.get_estimate() / size - 1)
    limit = relative_error(12)
    assert np.sqrt(np.mean(np.square(ours))) < 1.6 * limit
    assert np.sqrt(np.mean(np.square(theirs))) < 1.6 * limit


def test_merged_sketches_equal_the_sketch_of_the_whole() -> None:
    lines = pl.Series([f"x{i} y{i % 7} z" for i in range(500)])
    whole = Sketch.of(SPACE(lines), (1, 2), 10)
    merged = Sketch.of(SPACE(lines[:123]), (1, 2), 10) + Sketch.of(SPACE(lines[123:]), (1, 2), 10)
    assert np.array_equal(whole.registers, merged.registers)
    assert np.array_equal(whole.totals, merged.totals)


def test_a_set_of_many_thousand_texts_needs_no_more_than_linear_time() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in row) for row in rng.zipf(1.3, (20_000, 12)) % 5000]
    sets = ResponseSets.one_set(texts)
    tokens = SPACE(sets.texts)
    ranks, different, _ = rank_ngrams(tokens.ids, tokens.offsets, sets.offsets, 4)
    assert ranks.shape == (4, 240_000)
    assert 0.0 < SelfBleu().score(sets).value < 1.0
    assert different[0, 0] == len({w for t in texts for w in t.split()})
