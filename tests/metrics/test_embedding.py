"""Embeddings and the metrics built on them, with a real model."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nlgauge.arrays import Array
from nlgauge.errors import ModelError, OptionError
from nlgauge.metrics.diversity.embedding import KMeansInertia, SentenceSimilarity, Vendi, Volume
from nlgauge.models.encoders.embedder import Embedder

TEXTS = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.", ""]
vectors = arrays(np.float64, st.tuples(st.integers(2, 8), st.just(5)), elements=st.floats(-2, 2, width=32))


@pytest.fixture(scope="module")
def embedder(minilm: str) -> Embedder:
    return Embedder(minilm)


def cosine(one: Array, other: Array) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def test_minilm_gives_its_published_similarities(embedder: Embedder) -> None:
    food, bread, girl, _ = embedder.encode(TEXTS)
    assert cosine(food, bread) == pytest.approx(0.755, abs=0.002)
    assert cosine(food, girl) == pytest.approx(-0.105, abs=0.002)


def test_embeddings_do_not_depend_on_batches_repeats_or_order(minilm: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ["one", "two", "red", "blue", "house", "tree", "runs", "slowly", "never"]
    texts = [" ".join(rng.choice(words, rng.integers(1, 20))) for _ in range(40)]
    os.environ["NLGAUGE_CACHE"], before = str(tmp_path / "one"), os.environ["NLGAUGE_CACHE"]
    try:
        whole = Embedder(minilm, batch_size=64).encode([*texts, *texts])
        os.environ["NLGAUGE_CACHE"] = str(tmp_path / "two")
        single = Embedder(minilm, batch_size=1).encode(texts[::-1])[::-1]
    finally:
        os.environ["NLGAUGE_CACHE"] = before
    assert np.array_equal(whole[:40], whole[40:])
    assert np.abs(whole[:40] - single).max() < 1e-5


def test_embeddings_are_remembered_exactly(minilm: str) -> None:
    first = Embedder(minilm).encode(["remember this text", "and this one"])
    again = Embedder(minilm)
    assert np.array_equal(again.encode(["and this one", "remember this text"])[::-1], first)
    assert "_model" not in vars(again)


def test_token_embeddings_have_a_row_a_token(embedder: Embedder) -> None:
    one, empty = embedder.token_embeddings(["A man is eating food.", ""])
    assert one.shape == (6, 384)
    assert empty.shape == (0, 384)


def test_a_folder_that_is_no_model_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no weights found"):
        Embedder(str(tmp_path))


@given(vectors)
def test_sentence_similarity_equals_a_loop_over_pairs(rows: Array) -> None:
    rows = rows + 0.01
    expected = -np.mean([cosine(a, b) for a, b in combinations(rows, 2)])
    assert SentenceSimilarity().of_vectors(rows) == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning")
@given(vectors, st.sampled_from([0.5, 1.0, 2.0, float("inf")]))
def test_vendi_equals_the_vendi_score_package(rows: Array, q: float) -> None:
    from vendi_score import vendi

    units = (rows + 0.01) / np.linalg.norm(rows + 0.01, axis=1, keepdims=True)
    expected = vendi.score_K(units @ units.T, q="inf" if np.isinf(q) else q)
    assert Vendi(q=q).of_vectors(rows + 0.01) == pytest.approx(expected, rel=1e-5)


def test_vendi_counts_different_texts() -> None:
    assert Vendi().of_vectors(np.ones((5, 3))) == pytest.approx(1.0)
    assert Vendi().of_vectors(np.eye(4)) == pytest.approx(4.0)
    with pytest.raises(OptionError, match="positive"):
        Vendi(q=0.0)


def test_inertia_is_the_spread_around_centres() -> None:
    two_heaps = np.array([[0.0, 0.0], [0.0, 1.0], [10.0, 0.0], [10.0, 1.0]])
    assert KMeansInertia(k=2).of_vectors(two_heaps) == pytest.approx(0.25)
    assert KMeansInertia(k=1).of_vectors(two_heaps) == pytest.approx(25.25)
    assert KMeansInertia(k=4).of_vectors(two_heaps) == 0.0


def test_volume_is_the_geometric_mean_of_standard_deviations() -> None:
    box = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 8.0], [2.0, 8.0]])
    assert Volume().of_vectors(box) == pytest.approx(2.0)
    assert Volume().of_vectors(np.ones((3, 2))) == 0.0


def test_models_work_with_every_socket_blocked(minilm: str, smollm2: str, examples: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join((examples / "system_b.jsonl").read_text().splitlines(keepends=True)[:3]))
    code = f"""
import socket
def refuse(*arguments, **options): raise AssertionError("a socket was opened")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import nlgauge
for score in nlgauge.score({str(few)!r}, ["sent-sim", "content", "vendi", "ppl"]): print(score.name, score.n)
"""
    environment = {**os.environ, "NLGAUGE_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "sent-sim 3\ncontent 3\nvendi 3\nppl 3\n", done.stderr
