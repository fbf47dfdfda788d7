"""MAUVE as the authors' package computes it, from histograms, from features and from files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nlgauge
from nlgauge.arrays import Array
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.reference.mauve import FeatureStats, Mauve, mauve_of_features, mauve_of_histograms
from nlgauge.metrics.registry import create_metric
from nlgauge.models.encoders.embedder import load_embedder
from tests.helpers import MB

counts = arrays(np.int64, 6, elements=st.integers(0, 50))


@given(counts, counts, st.floats(0.5, 10), st.integers(2, 40))
def test_histograms_give_what_the_package_gives(p: Array, q: Array, scaling: float, grid: int) -> None:
    from mauve.compute_mauve import get_divergence_curve_for_multinomials
    from sklearn.metrics import auc

    assume(p.sum() and q.sum() and np.abs(p / p.sum() - q / q.sum()).max() > 0.01)
    found = mauve_of_histograms(p, q, scaling=scaling, grid=grid)
    weights = np.linspace(1e-6, 1 - 1e-6, grid)
    expected = get_divergence_curve_for_multinomials(p / p.sum(), q / q.sum(), weights, scaling)
    assert np.abs(found.curve - expected).max() < 1e-12
    x, y = expected.T
    by_x, by_y = np.argsort(x), np.argsort(y)
    assert found.score == pytest.approx(0.5 * (auc(x[by_x], y[by_x]) + auc(y[by_y], x[by_y])), abs=1e-9)


@given(counts)
def test_equal_distributions_score_one_and_disjoint_ones_next_to_nothing(p: Array) -> None:
    assume(p.sum())
    assert mauve_of_histograms(p, 3 * p).score == pytest.approx(1, abs=1e-12)
    nothing = np.zeros_like(p)
    apart = mauve_of_histograms(np.concatenate([p, nothing]), np.concatenate([nothing, p]))
    assert apart.score == pytest.approx(0.00407, abs=1e-5)


@pytest.mark.parametrize(
    ("sizes", "shift", "buckets", "seed"),
    [((300, 240), 0.3, "auto", 25), ((60, 400), 1.0, 12, 3), ((120, 120), 0.0, "auto", 25), ((30, 25), 0.5, 2, 1)],
)
def test_features_give_what_the_package_gives(sizes: tuple[int, int], shift: float, buckets: str, seed: int) -> None:
    from mauve import compute_mauve

    rng = np.random.default_rng(seed)
    p, q = rng.normal(size=(sizes[0], 24)), rng.normal(size=(sizes[1], 24)) + shift * rng.normal(size=24)
    for kind in (np.float32, np.float64):
        a, b = p.astype(kind), q.astype(kind)
        found = mauve_of_features(a, b, buckets=buckets, seed=seed)  # type: ignore[arg-type]
        expected = compute_mauve(p_features=a, q_features=b, num_buckets=buckets, seed=seed)
        assert np.array_equal(found.p_histogram, expected.p_hist)
        assert np.array_equal(found.q_histogram, expected.q_hist)
        assert np.abs(found.curve - expected.divergence_curve).max() < 1e-12
        assert found.score == pytest.approx(expected.mauve, abs=1e-12)


@pytest.fixture(scope="module")
def files(minilm: str, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The first sets of the example systems: b is taken as the references of a."""
    folder = tmp_path_factory.mktemp("few")
    for name in ("system_a.jsonl", "system_b.jsonl"):
        lines = (examples / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:12]))
    return folder / "system_a.jsonl", folder / "system_b.jsonl"


def texts_in(file: Path) -> list[str]:
    return [text for line in file.read_text().splitlines() for text in json.loads(line)["responses"]]


def test_the_metric_gives_what_the_package_gives_for_the_same_embeddings(files: tuple[Path, Path]) -> None:
    from mauve import compute_mauve

    (score,) = nlgauge.score(str(files[0]), [f"mauve:against={files[1]},buckets=5,seed=4,redo=2"])
    q, p = (FeatureStats.of(texts, load_embedder("minilm").encode(texts)).in_order() for texts in map(texts_in, files))
    expected = compute_mauve(p_features=p, q_features=q, num_buckets=5, seed=4, kmeans_num_redo=2)
    assert score.value == pytest.approx(expected.mauve, abs=1e-12)
    assert score.n == len(texts_in(files[0]))


def test_nothing_about_reading_matters(files: tuple[Path, Path], tmp_path: Path) -> None:
    metric = f"mauve:against={files[1]}"
    whole, *others = (
        nlgauge.score(str(files[0]), [metric], **options)[0].value
        for options in ({}, {"chunk_mb": 2000 / MB}, {"one_set": True})
    )
    (tmp_path / "turned.jsonl").write_text("\n".join(files[0].read_text().splitlines()[::-1]))
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts_in(files[0])))
    for name in ("turned.jsonl", "texts.txt"):
        others.append(nlgauge.score(str(tmp_path / name), [metric])[0].value)
    assert others == [whole] * 4
    assert 0 < whole < 1


def test_several_processes_give_the_same_number(files: tuple[Path, Path]) -> None:
    metric = f"mauve:against={files[1]}"
    one, two = (nlgauge.score(str(files[0]), [metric], workers=count, chunk_mb=4000 / MB)[0].value for count in (1, 2))
    assert one == two


def test_a_system_against_itself_scores_one_and_has_no_interval(files: tuple[Path, Path]) -> None:
    (score,) = nlgauge.score(str(files[0]), [f"mauve:against={files[0]}"], confidence=True)
    assert score.value == pytest.approx(1, abs=1e-9)
    assert score.ci is None
    assert "ci" not in score.signature.facts


def test_other_references_under_the_same_signature_are_an_error(minilm: str, tmp_path: Path) -> None:
    file = tmp_path / "we@home.txt"
    file.write_text("one\ntwo\nthree\n" * 5)
    metric = create_metric(f"mauve:against={file}")
    signature = str(metric.signature)
    assert create_metric(signature).signature == metric.signature
    file.write_text("one\ntwo\nfour\n" * 5)
    with pytest.raises(OptionError, match=r"has hash .*; expected .*: these are (other|different) references"):
        create_metric(signature)
    with pytest.raises(OptionError, match="different references"):
        metric.score([["a", "b", "c", "d"]] * 4)


def test_errors_say_what_to_do(minilm: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"mauve:against=human\.jsonl"):
        nlgauge.score([["a", "b"]], ["mauve"])
    with pytest.raises(DataError, match=r"no-such-file.*cannot be read"):
        create_metric(f"mauve:against={tmp_path / 'no-such-file'}")
    for option, value in (("buckets", "1"), ("buckets", "many"), ("scaling", "0"), ("grid", "0"), ("redo", "0")):
        with pytest.raises(OptionError, match=f"mauve:{option}={value}; expected"):
            create_metric(f"mauve:{option}={value}")
    with pytest.raises(DataError, match="2 and 3 texts in 8 clusters; expected at least as many texts"):
        mauve_of_features(np.ones((2, 4)), np.ones((3, 4)), buckets=8)
    with pytest.raises(DataError, match="4 and 5 dimensions"):
        mauve_of_features(np.ones((2, 4)), np.ones((3, 5)))
    with pytest.raises(DataError, match="not finite"):
        mauve_of_features(np.ones((2, 4)), np.full((3, 4), np.nan))
    with pytest.raises(DataError, match="expected one row per text"):
        mauve_of_features(np.ones((0, 4)), np.ones((3, 4)))
    with pytest.raises(DataError, match="expected the same buckets"):
        mauve_of_histograms(np.ones(2), np.ones(3))
    with pytest.raises(DataError, match="histogram"):
        mauve_of_histograms(np.zeros(2), np.ones(2))


def test_too_few_texts_are_said_to_be_too_few() -> None:
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="6 and 9 texts in 2 clusters says little"):
        mauve_of_features(rng.normal(size=(6, 4)), rng.normal(size=(9, 4)))


def test_texts_that_are_all_alike_score_one(minilm: str, tmp_path: Path) -> None:
    (tmp_path / "same.txt").write_text("the same\n" * 20)
    score = Mauve(against=str(tmp_path / "same.txt")).score([["the same"] * 10] * 2)
    assert score.value == pytest.approx(1, abs=1e-12)
