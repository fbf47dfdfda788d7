"""Self-BLEU of a whole corpus equals that of one large set, however the corpus is cut, merged and spilled."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlgauge
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.engine.scratch import Scratch, scratch_folder
from nlgauge.errors import DataError, OptionError, OutputError
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.overlap import SelfBleu
from nlgauge.metrics.registry import create_metric
from nlgauge.stats.inference import Inference
from nlgauge.text.matching import TextNgrams
from nlgauge.text.spilling import spill
from nlgauge.text.tokens import Tokenizer

word = st.sampled_from(["a", "b", "c", "d", "the", "a-rather-long-word"])
some_texts = st.lists(st.lists(word, max_size=9).map(" ".join), min_size=2, max_size=12)
smoothing = st.sampled_from(["epsilon", "none"])
SPACE = Tokenizer("space")


def collected(metric: SelfBleu, texts: list[str], cut: int, spill_each: bool) -> TextNgrams:
    """Statistics of texts that came in chunks."""
    chunks = [texts[i : i + cut] for i in range(0, len(texts), cut)]
    merged: TextNgrams | None = None
    for chunk in chunks:
        stats = metric.collect(Batch(ResponseSets.of([[text] for text in chunk])))
        merged = stats if merged is None else merged + stats
        merged = merged.spilled() if spill_each else merged
    assert merged is not None
    return merged


@given(some_texts, st.integers(1, 5), smoothing, st.integers(1, 5), st.booleans())
def test_a_corpus_scores_as_one_set_of_all_texts(
    texts: list[str], n: int, smooth: str, cut: int, spill_each: bool
) -> None:
    expected = SelfBleu(n=n, smooth=smooth).score([texts])  # type: ignore[arg-type]
    metric = SelfBleu(n=n, smooth=smooth, over="corpus")  # type: ignore[arg-type]
    with scratch_folder():
        found = metric.finish(collected(metric, texts, cut, spill_each))
    assert found.value == pytest.approx(expected.value, abs=1e-12)
    assert found.n == len(texts)


@given(some_texts, st.integers(1, 4), st.booleans(), st.sampled_from([0, 1, 3, 1 << 20]))
def test_matches_are_clipped_counts_however_many_are_looked_at_together(
    texts: list[str], cut: int, spill_each: bool, at_once: int
) -> None:
    from nltk.translate.bleu_score import modified_precision

    with scratch_folder():
        stats = collected(SelfBleu(n=3, over="corpus"), texts, cut, spill_each)
        slices = tuple(stats.match_slice(number, at_once) for number in range(stats.slices))
        matching = replace(stats, matched=slices)
        parts = [matching.matches(number) for number in range(len(stats.runs))]
    lengths = np.concatenate([part[0] for part in parts])
    matched = np.concatenate([part[1] for part in parts], axis=1)
    tokens = [text.split() for text in texts]
    assert lengths.tolist() == [len(one) for one in tokens]
    for i, one in enumerate(tokens):
        others = tokens[:i] + tokens[i + 1 :]
        expected = [modified_precision(others, one, n) for n in (1, 2, 3)]
        possible = [max(1, len(one) - n + 1) for n in (1, 2, 3)]
        assert matched[:, i].tolist() == [p * k for p, k in zip(expected, possible, strict=True)]


@pytest.mark.parametrize("smooth", ["epsilon", "none"])
def test_a_small_corpus_scores_as_nltk_scores_it(smooth: str) -> None:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    rng = np.random.default_rng(4)
    texts = [[f"w{i}" for i in rng.zipf(1.5, rng.integers(1, 18)) % 60] for _ in range(120)]
    method = SmoothingFunction().method1 if smooth == "epsilon" else SmoothingFunction().method0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [
            sentence_bleu(texts[:i] + texts[i + 1 :], text, smoothing_function=method) for i, text in enumerate(texts)
        ]
    lines = Items.of([" ".join(text) for text in texts])
    assert SelfBleu(over="corpus", smooth=smooth).score(lines).value == pytest.approx(  # type: ignore[arg-type]
        np.mean(expected), abs=1e-12
    )


def test_a_copy_of_a_text_is_its_reference() -> None:
    metric = SelfBleu(over="corpus")
    assert metric.score([["one two three four five"], ["six seven eight nine ten"]]).value == 0
    twice = metric.score([["one two three four five"], ["six seven eight nine ten"], ["one two three four five"]])
    assert twice.value == pytest.approx(2 / 3, abs=1e-15)


def test_an_ngram_that_is_repeated_in_one_text_is_clipped_by_the_others() -> None:
    found = SelfBleu(n=1, over="corpus").score([["a a a a"], ["a a b c"], ["b b b b"]]).value
    assert found == pytest.approx((2 / 4 + 3 / 4 + 1 / 4) / 3, abs=1e-15)


def test_many_runs_are_joined_without_changing_the_value() -> None:
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{i}" for i in row) for row in rng.zipf(1.4, (300, 8)) % 90]
    metric = SelfBleu(over="corpus")
    stats = collected(metric, texts, 1, spill_each=False)
    assert len(stats.runs) < 200
    assert metric.finish(stats).value == metric.score(Items.of(texts)).value


def test_what_is_large_travels_between_processes_as_files() -> None:
    texts = pl.Series([f"w{i} w{i + 1} w{i * 7 % 31} w{i % 3}" for i in range(20_000)])
    with scratch_folder() as scratch:
        stats = TextNgrams.of(SPACE(texts), 4)
        sent = pickle.dumps(stats)
        files = list(scratch.folder.iterdir())
        assert len(sent) < 200_000 < sum(file.stat().st_size for file in files)
        metric = SelfBleu(over="corpus")
        received = pickle.loads(sent)  # noqa: S301 - written above
        assert metric.finish(received).value == metric.finish(stats).value


def test_memory_beyond_the_budget_goes_to_disk() -> None:
    metric = SelfBleu(over="corpus")
    texts = [f"w{i % 17} w{i % 5} w{i}" for i in range(600)]
    expected = metric.score(Items.of(texts)).value
    with scratch_folder(memory_bytes=10_000) as scratch:
        stats = collected(metric, texts, 50, spill_each=False)
        assert sum(run.bytes_in_memory for run in stats.runs) <= 10_000
        assert any(scratch.folder.iterdir())
        assert metric.finish(stats).value == expected


def test_a_scratch_folder_that_cannot_be_written_is_a_clear_error() -> None:
    with scratch_folder() as scratch:
        gone = Scratch(scratch.folder / "gone")
        with pytest.raises(
            OutputError, match="gone: cannot be written: No such file or directory; set NLGAUGE_SCRATCH"
        ):
            spill(np.arange(3), gone)


def test_a_corpus_needs_two_texts_and_sets_need_not() -> None:
    assert nlgauge.score([["a b"], ["a b"]], ["self-bleu:over=corpus,n=2"])[0].value == pytest.approx(1)
    with pytest.raises(DataError, match="the corpus has 1 text; self-bleu needs at least 2"):
        nlgauge.score([["alone"]], ["self-bleu:over=corpus"])
    with pytest.raises(DataError, match="set '0' has 1 response; self-bleu needs at least 2"):
        nlgauge.score([["a b"], ["a b"]], ["self-bleu"])


def test_the_corpus_is_named_in_the_signature_and_sets_are_signed_as_ever() -> None:
    assert "over" not in create_metric("self-bleu").signature.options
    metric = create_metric("self-bleu:over=corpus,n=3")
    assert metric.label == "self-bleu:n=3,over=corpus"
    assert create_metric(str(metric.signature)) == metric
    assert metric.score([["a"], ["b"]], Inference()).ci is None
    with pytest.raises(OptionError, match="over=all; expected one of set, corpus"):
        create_metric("self-bleu:over=all")
