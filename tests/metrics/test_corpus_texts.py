"""Measures that look at all texts of a corpus in sorted order: compression, and the sample of MAUVE."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlgauge
from nlgauge.data.tables import Items
from nlgauge.engine.scratch import scratch_folder
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.diversity.compression import Compression
from nlgauge.metrics.registry import create_metric
from nlgauge.stats.inference import Inference
from nlgauge.text.sorted_texts import SortedTexts
from tests.helpers import MB

some_texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=30)


def collected(texts: list[str], blocks: int, cut: int, spill_each: bool = False) -> SortedTexts:
    merged = SortedTexts(blocks, ())
    for i in range(0, len(texts), cut):
        merged += SortedTexts.of(pl.Series(texts[i : i + cut], dtype=pl.String), blocks)
        merged = merged.spilled() if spill_each else merged
    return merged


@given(some_texts, st.integers(1, 5), st.integers(1, 7), st.booleans())
def test_blocks_hold_all_texts_sorted_however_they_came(
    texts: list[str], blocks: int, cut: int, spill_each: bool
) -> None:
    with scratch_folder():
        stats = collected(texts, blocks, cut, spill_each)
        found = [[text.decode() for text in stats.block(number)] for number in range(blocks)]
        sizes = [stats.size(number) for number in range(blocks)]
    assert all(block == sorted(block) for block in found)
    assert Counter(text for block in found for text in block) == Counter(texts)
    assert sizes == [(len(block), len("".join(block).encode())) for block in found]
    for text in texts:
        assert sum(text in block for block in found) == 1
    whole = collected(texts[::-1], blocks, len(texts))
    assert found == [[text.decode() for text in whole.block(number)] for number in range(blocks)]


def test_sorted_texts_are_read_in_pieces() -> None:
    texts = [f"{i * 7919 % 5000:05d} {'x' * (i % 40)}" for i in range(5000)]
    with scratch_folder():
        stats = collected(texts, 3, 1000, spill_each=True)
        assert len(stats) == 5000
        for number in range(3):
            whole = list(stats.block(number))
            for run in stats.runs:
                assert list(run.block(number, 50)) == list(run.block(number, 1 << 20))
            assert whole == sorted(whole)


@pytest.mark.parametrize("by", ["gzip", "bz2", "xz", "zstd"])
def test_one_block_compresses_as_one_set_does(by: str) -> None:
    rng = np.random.default_rng(2)
    texts = [" ".join(f"w{i}" for i in row) for row in rng.zipf(1.4, (20_000, 10)) % 3000]
    metric = Compression(by=by, over="corpus")  # type: ignore[arg-type]
    expected = Compression(by=by).score([texts]).value  # type: ignore[arg-type]
    assert metric.score(Items.of(texts)).value == expected
    with scratch_folder(memory_bytes=200_000):
        assert metric.finish(collected(texts, 1, 3000)).value == expected


@given(some_texts, st.integers(1, 3))
def test_any_texts_compress_as_one_set_does(texts: list[str], cut: int) -> None:
    metric = Compression(over="corpus")
    assert metric.finish(collected(texts, 1, cut)).value == Compression().score([texts]).value


def test_blocks_are_compressed_apart_and_bytes_are_added() -> None:
    texts = [f"text {i % 700} and more of {i % 41}" for i in range(4000)]
    metric = Compression(over="corpus", blocks=5)
    stats = collected(texts, 5, 4000)
    apart = [Compression().score([[text.decode() for text in stats.block(i)]]).value for i in range(5)]
    before = [sum(len(text) + 1 for text in stats.block(i)) - 1 for i in range(5)]
    expected = sum(before) / sum(b / ratio for b, ratio in zip(before, apart, strict=True))
    assert metric.score(Items.of(texts)).value == pytest.approx(expected, rel=1e-12)
    assert metric.score(Items.of(texts)).value < Compression(over="corpus").score(Items.of(texts)).value


def test_more_blocks_than_texts_are_no_trouble() -> None:
    assert Compression(over="corpus", blocks=64).score([["a b", "c d"]]).value > 0
    with pytest.raises(ValueError, match="different numbers of blocks"):
        _ = collected(["a"], 1, 1) + collected(["a"], 2, 1)


def test_options_of_compression_are_checked_and_signed() -> None:
    assert str(create_metric("compression").signature).startswith("compression|by:gzip|v:")
    metric = create_metric("compression:over=corpus,blocks=8")
    assert metric.label == "compression:over=corpus,blocks=8"
    assert create_metric(str(metric.signature)) == metric
    score = metric.score([["a", "b"], ["c"]], Inference())
    assert (score.ci, score.n) == (None, 3)
    for blocks in (0, -1, 5000):
        with pytest.raises(OptionError) as error:
            create_metric(f"compression:over=corpus,blocks={blocks}")
        assert error.value.option == "blocks"
    with pytest.raises(OptionError) as error:
        create_metric("compression:blocks=2")
    assert error.value.option == "blocks"


def test_large_texts_travel_between_processes_as_files() -> None:
    texts = [f"{i} {'long ' * 40}" for i in range(10_000)]
    with scratch_folder():
        stats = collected(texts, 2, 2500)
        sent = pickle.dumps(stats)
        assert len(sent) < 10_000
        received = pickle.loads(sent)  # noqa: S301 - written above
        assert list(received.block(1)) == list(stats.block(1))


@given(some_texts, st.integers(1, 12), st.integers(1, 5), st.booleans())
def test_a_sample_does_not_depend_on_order_or_chunks(texts: list[str], size: int, cut: int, spill_each: bool) -> None:
    expected = collected(texts, 1, len(texts)).sample(size, 25)
    with scratch_folder():
        assert collected(texts[::-1], 1, cut, spill_each).sample(size, 25) == expected
    assert len(expected) == min(size, len(texts))
    assert not Counter(expected) - Counter(texts)
    larger = collected(texts, 1, cut).sample(size + 1, 25)
    assert not Counter(expected) - Counter(larger)


def test_a_sample_has_every_kind_of_text_in_its_share_and_copies_too() -> None:
    """Shares of a long, a short and a repeated text over 300 seeds, within four standard errors of a simple draw."""
    texts = ["I do not know"] * 200 + [f"long {i} " + "word " * 30 for i in range(300)] + [f"s{i}" for i in range(500)]
    stats = collected(texts, 1, len(texts))
    seeds, size = 300, 50
    shares = np.array(
        [
            [
                sum(text == "I do not know" for text in drawn),
                sum(text.startswith("long") for text in drawn),
                sum(text.startswith("s") for text in drawn),
            ]
            for drawn in (stats.sample(size, seed) for seed in range(seeds))
        ]
    )
    expected = np.array([0.2, 0.3, 0.5])
    spread = np.sqrt(size * expected * (1 - expected) * (1 - size / len(texts)))
    assert np.abs(shares.mean(axis=0) - size * expected).max() < 4 * (spread / np.sqrt(seeds)).max()
    assert np.abs(shares.std(axis=0) / spread - 1).max() < 0.2


@pytest.fixture(scope="module")
def files(minilm: str, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("few")
    for name in ("system_a.jsonl", "system_b.jsonl"):
        (folder / name).write_text("".join((examples / name).read_text().splitlines(keepends=True)[:12]))
    return folder / "system_a.jsonl", folder / "system_b.jsonl"


@pytest.mark.filterwarnings("ignore:MAUVE of")
def test_mauve_of_a_sample_that_has_all_texts_is_mauve(files: tuple[Path, Path]) -> None:
    metric = f"mauve:against={files[1]}"
    (whole,) = nlgauge.score(str(files[0]), [metric])
    (sampled,) = nlgauge.score(str(files[0]), [f"{metric},sample=100000"])
    assert (sampled.value, sampled.n) == (whole.value, whole.n)
    assert "sample" not in whole.signature.options
    assert sampled.signature.options["sample"] == "100000"
    assert create_metric(str(sampled.signature)).relevant_options()["sample"] == 100000


@pytest.mark.filterwarnings("ignore:MAUVE of")
def test_mauve_of_a_sample_is_mauve_of_the_texts_drawn(files: tuple[Path, Path], tmp_path: Path) -> None:
    drawn = []
    for file in files:
        texts = nlgauge.read(str(file)).texts
        place = tmp_path / f"{file.stem}.txt"
        place.write_text("".join(f"{text}\n" for text in SortedTexts.of(texts).sample(25, 3)))
        drawn.append(place)
    (expected,) = nlgauge.score(str(drawn[0]), [f"mauve:against={drawn[1]},seed=3"])
    for options in ({}, {"chunk_mb": 500 / MB, "memory_mb": 1000 / MB}, {"one_set": True}):
        (found,) = nlgauge.score(str(files[0]), [f"mauve:against={files[1]},seed=3,sample=25"], **options)
        assert (found.value, found.n) == (expected.value, 25)
        assert int(found.signature.facts["of"]) == len(nlgauge.read(str(files[0])).texts)


def test_a_sample_of_nothing_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="mauve:sample=0; expected a number of texts"):
        create_metric("mauve:sample=0")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(DataError, match="file of references has no records"):
        nlgauge.score(str(files[0]), [f"mauve:against={empty},sample=5"])


def test_a_corpus_without_texts_has_no_compression() -> None:
    with pytest.raises(DataError):
        nlgauge.score(nlgauge.ResponseSets.of([[], []]), ["compression:over=corpus"])
