"""Definitions: what each metric gives on cases worked out by hand or by another program."""

from __future__ import annotations

import gzip
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import mpmath
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlgauge
from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError, PluginError, UnknownName
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.ngram import (
    Distinct,
    Entropy,
    ExpectationAdjustedDistinct,
    TypeTokenRatio,
    expected_distinct,
)
from nlgauge.metrics.diversity.overlap import CosineSimilarity
from nlgauge.metrics.diversity.reduction import PairReduction, jaccard, register_similarity
from nlgauge.metrics.registry import BUNDLES, create_metric
from nlgauge.metrics.score import Direction
from nlgauge.text.tokens import Tokenizer
from tests import slow

texts = st.lists(st.text("ab c.", max_size=12), min_size=2, max_size=5)


def value(spec: str, *sets: list[str]) -> float:
    return nlgauge.score(list(sets), [spec])[0].value


def test_yes_no_maybe_scores_a_fifth_as_in_paper_1_and_one_where_absent_orders_are_omitted() -> None:
    assert value("distinct", ["yes", "no", "maybe"]) == pytest.approx(0.20)
    assert value("distinct:absent=omit", ["yes", "no", "maybe"]) == 1.0


def test_every_order_of_distinct_weighs_a_fifth_in_every_set_as_section_6_2_says() -> None:
    for longest in range(1, 8):
        made = [" ".join(f"w{i}-{j}" for j in range(longest)) for i in range(3)]
        orders = [value(f"distinct:n={n}", made) for n in range(1, min(longest, 5) + 1)]
        assert orders == [1.0] * min(longest, 5)
        assert value("distinct", made) == pytest.approx(sum(orders) / 5)
        assert value("distinct:absent=omit", made) == 1.0


def test_the_signature_of_distinct_says_what_an_absent_order_adds() -> None:
    assert "absent:zero" in str(create_metric("distinct").signature)
    assert "absent:omit" in str(create_metric("distinct:absent=omit").signature)
    assert "absent" not in str(create_metric("distinct:n=2").signature)
    with pytest.raises(UnknownName, match="variant"):
        create_metric("distinct:variant=paper")


def test_three_times_ok_is_not_quite_similar_in_the_released_code_and_identical_in_the_paper() -> None:
    assert value("cos-sim:variant=reference", ["ok", "ok", "ok"]) == pytest.approx(-0.20)
    assert value("cos-sim", ["ok", "ok", "ok"]) == -1.0


def test_sets_of_empty_texts_are_least_diverse() -> None:
    assert value("distinct", ["", ""]) == 0.0
    assert value("cos-sim", ["", ""]) == -1.0
    assert value("entropy", ["", ""]) == 0.0
    assert value("self-bleu", ["", ""]) == 0.0


@given(texts)
def test_distinct_is_unique_over_total(responses: list[str]) -> None:
    tokens = [slow.nodot(text) for text in responses]
    parts = [len(set(grams)) / len(grams) if (grams := slow.pooled(tokens, n)) else math.nan for n in range(1, 6)]
    assert Distinct().score([responses]).value == pytest.approx(np.nan_to_num(parts).mean())
    expected = 0.0 if np.isnan(parts).all() else np.nanmean(parts)
    assert Distinct(absent="omit").score([responses]).value == pytest.approx(expected)


@given(texts)
def test_cos_sim_is_the_reduction_of_the_cosine(responses: list[str]) -> None:
    tokens = [slow.nodot(text) for text in responses]
    for variant, whole in (("paper", True), ("reference", False)):
        expected = -np.mean([slow.mean_cosine(tokens, n, whole_when_short=whole) for n in range(1, 6)])
        found = CosineSimilarity(variant=variant).score([responses]).value  # type: ignore[arg-type]
        assert found == pytest.approx(expected, abs=1e-12)


@given(st.lists(texts, min_size=1, max_size=4))
def test_corpus_distinct_pools_all_sets(sets: list[list[str]]) -> None:
    tokens = [slow.nodot(text) for responses in sets for text in responses]
    parts = [len(set(g)) / len(g) for n in range(1, 6) if (g := slow.pooled(tokens, n))]
    assert Distinct(over="corpus").score(sets).value == pytest.approx(sum(parts) / 5)
    omitted = Distinct(over="corpus", absent="omit").score(sets).value
    assert omitted == pytest.approx(np.mean(parts) if parts else 0.0)


def test_type_token_ratio_is_a_plain_count() -> None:
    sets = [["the cat saw the dog.", "the dog!"], ["a cat"]]
    words = ["the", "cat", "saw", "the", "dog", ".", "the", "dog", "!", "a", "cat"]
    assert TypeTokenRatio().score(sets).value == len(set(words)) / len(words)
    assert TypeTokenRatio(n=2).score(sets).value == 7 / 8  # type: ignore[arg-type]


@given(st.lists(texts, min_size=1, max_size=4), st.integers(1, 3))
def test_type_token_ratios_are_those_of_python_sets(sets: list[list[str]], n: int) -> None:
    grams = slow.pooled([text.split() for responses in sets for text in responses], n)
    metric = nlgauge.create_metric(f"ttr:n={n},tok=space")
    if grams:
        assert metric.score(sets).value == len(set(grams)) / len(grams)
    else:
        with pytest.raises(DataError, match="the corpus has no n-gram"):
            metric.score(sets)


def test_type_token_ratios_of_dialog_outputs_are_those_of_python_sets(research_data: Path) -> None:
    lines = (research_data / "dailydialog_multiref" / "hredf.txt").read_text().removesuffix("\n").split("\n")
    table = Tokenizer("word")(pl.Series(lines))
    cuts = {"space": [line.split() for line in lines], "word": [table.tokens(row) for row in range(len(lines))]}
    for n in (1, 2, 3):
        assert f"ttr:n={n}" in BUNDLES["dialog"]
        for tok, cut in cuts.items():
            grams = slow.pooled(cut, n)
            found = nlgauge.create_metric(f"ttr:n={n},tok={tok}").score(nlgauge.Items.of(lines))
            assert found.value == len(set(grams)) / len(grams)
            print(f"{tok:6} n={n}: {len(set(grams)):6} of {len(grams):6} = {found.value:.4f}")


def test_entropy_of_a_uniform_set_is_the_logarithm_of_its_size() -> None:
    assert Entropy().score([["a b", "c d"]]).value == 2.0
    assert Entropy(over="corpus").score([["a b"], ["c d"]]).value == 2.0


def test_ead_stays_finite_and_exact_from_one_token_to_a_million_million() -> None:
    mpmath.mp.dps = 60
    for possible in (2, 50, 30522, 30522**2, 30522**5, 10**18):
        totals = np.array([1, 2, 3, 10, 1000, 10**6, 10**9, 10**12])
        found = expected_distinct(totals, float(possible))
        v = mpmath.mpf(possible)
        for total, ours in zip(totals.tolist(), found.tolist(), strict=True):
            exact = v * (1 - ((v - 1) / v) ** total)
            assert math.isfinite(ours)
            assert abs(mpmath.mpf(ours) / exact - 1) < 1e-12


def test_ead_divides_by_the_expected_number_of_words() -> None:
    found = ExpectationAdjustedDistinct(vocab="5").score([["a b a", "c"]]).value
    assert found == pytest.approx(3 / (5 * (1 - 0.8**4)))
    assert ExpectationAdjustedDistinct(vocab="1").score([["a a a"]]).value == 1.0


def test_ead_says_its_vocabulary_in_the_signature(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one two three\nthree four\n")
    metric = ExpectationAdjustedDistinct(vocab=f"corpus:{corpus}", n="1-2")  # type: ignore[arg-type]
    score = metric.score([["one two", "four four"]])
    assert score.signature.facts["V"] == "4+3"
    assert score.parts["n=1"] == pytest.approx(3 / (4 * (1 - 0.75**4)))
    assert metric.signature.options["vocab"].startswith(f"corpus:{corpus}@")
    corpus.write_text("changed\n")
    with pytest.raises(OptionError, match="another corpus"):
        nlgauge.create_metric(str(metric.signature))


@pytest.mark.parametrize("bad", ["0", "-3", "many", "1.5", "corpus:nowhere.txt"])
def test_ead_refuses_a_vocabulary_that_is_none(bad: str) -> None:
    with pytest.raises((OptionError, DataError)):
        ExpectationAdjustedDistinct(vocab=bad)


def test_compression_is_the_ratio_of_bytes_and_ignores_order() -> None:
    responses = ["the same words again", "and other words", "the same words again"]
    data = "\n".join(sorted(responses)).encode()
    assert value("compression", responses) == pytest.approx(len(data) / len(gzip.compress(data)), rel=0.02)
    assert value("compression", responses) == value("compression", responses[::-1])
    for by in ("bz2", "xz", "zstd"):
        assert value(f"compression:by={by}", ["abc " * 500, "abc " * 500]) > 10


def test_any_similarity_becomes_a_diversity_metric() -> None:
    assert value("pairs", ["a b", "a b", "c d"]) == pytest.approx(-1 / 3)
    register_similarity("as-long", lambda one, other: float(len(one) == len(other)))
    assert value("pairs:similarity=as-long", ["ab", "cd", "e"]) == pytest.approx(-1 / 3)
    with pytest.raises(OptionError):
        register_similarity("jaccard", lambda _one, _other: 0.0)
    assert PairReduction(similarity="nlgauge.metrics.diversity.reduction:jaccard").function() is jaccard
    with pytest.raises(UnknownName, match="did you mean 'jaccard'"):
        PairReduction(similarity="jacard")


def test_a_score_without_a_value_is_counted_and_left_out() -> None:
    score = nlgauge.score([["one two", "three"], ["single"]], ["distinct:n=2"])[0]
    assert (score.value, score.n, score.excluded) == (1.0, 1, 1)
    with pytest.raises(DataError, match="no value on any"):
        nlgauge.score([["single"]], ["distinct:n=2"])


def test_a_metric_of_ones_own_works_like_the_others() -> None:
    @nlgauge.register_metric
    @dataclass(frozen=True, kw_only=True)
    class MeanLength(SetMetric):
        """Mean number of characters."""

        name: ClassVar[str] = "mean-length"
        aspect: ClassVar[str] = "quality"
        direction: ClassVar[Direction] = Direction.BETTER
        paper: ClassVar[str] = "none"
        scale: float = 1.0

        def per_set(self, batch: Batch) -> Array:
            lengths = batch.sets.texts.str.len_chars().to_numpy()
            return self.scale * np.add.reduceat(lengths, batch.sets.offsets[:-1]) / batch.sets.sizes

    score = nlgauge.score([["ab", "abcd"], ["é"]], ["mean-length:scale=2.0"])[0]
    assert score.value == 4.0
    assert nlgauge.create_metric(str(score.signature)) == MeanLength(scale=2.0)
    assert "mean-length" in nlgauge.metric_names()
    with pytest.raises(PluginError):
        nlgauge.register_metric(type("Distinct", (MeanLength,), {"name": "distinct"}))


def test_v_and_tokens_of_ead_belong_to_one_tokeniser(minilm: str, tmp_path: Path) -> None:
    fitting = ExpectationAdjustedDistinct(tok=f"wordpiece:{minilm}")
    assert fitting == nlgauge.create_metric("ead:tok=wordpiece")
    fitting.prepare()
    assert fitting.misfit() == ""
    score = fitting.score([["unbelievably good, unbelievably bad"]])
    tokens, different = 13, 8
    assert fitting.tokenizer.vocabulary_size == 30522
    lists = fitting.tokenizer(pl.Series(["unbelievably good, unbelievably bad"])).tokens(0)
    assert (len(lists), len(set(lists))) == (tokens, different)
    assert score.value == pytest.approx(different / (30522 * (1 - (30521 / 30522) ** tokens)))
    signature = str(score.signature)
    assert re.search(r"\|tok:wordpiece:minilm@[0-9a-f]{12}\|", signature)
    assert f"{score.signature}".endswith("|#|V:30522")
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[UNK]\na\nb\n")
    for text in ("ead:tok=word", "ead:vocab=30522", f"ead:tok=wordpiece:{vocabulary}", "ead:tok=wordpiece,vocab=100"):
        with pytest.warns(UserWarning, match="V = "):
            nlgauge.create_metric(text).prepare()
    for text in ("ead", "ead:tok=word,vocab=5000", f"ead:tok=wordpiece:{vocabulary},vocab=3"):
        nlgauge.create_metric(text).prepare()
