"""Cross-encoders and the diversity metric built on them, with a tiny model in place of a large one."""

from __future__ import annotations

import json
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nlgauge
from nlgauge.arrays import Array
from nlgauge.errors import DataError, ModelError, OptionError, UnknownName
from nlgauge.models.encoders.pair_scorer import PairScorer, TextPair
from tests.conftest import make_cross_encoder

TEXTS = ["a man eats", "a man eats bread!", "the girl carries a baby", "", "naïve 日本 😀", "abc " * 60]
PAIRS = [(one, other) for one in TEXTS for other in TEXTS]
NLI = ("contradiction", "entailment", "neutral")


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def nli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("nli") / "nli", NLI)


def package_scores(folder: Path, pairs: list[TextPair], **options: Any) -> Array:
    """What sentence-transformers gives."""
    from sentence_transformers import CrossEncoder

    scores: Array = CrossEncoder(str(folder), device="cpu").predict(pairs, show_progress_bar=False, **options)
    return scores


def test_one_output_equals_sentence_transformers(cross_encoder: Path, own_store: None) -> None:
    import torch

    auto, sigmoid, raw = (
        PairScorer(str(cross_encoder), output=output).score(PAIRS) for output in ("auto", "sigmoid", "raw")
    )
    assert np.abs(auto - package_scores(cross_encoder, PAIRS)).max() < 1e-5
    assert np.abs(raw - package_scores(cross_encoder, PAIRS, activation_fn=torch.nn.Identity())).max() < 1e-5
    assert np.array_equal(auto, sigmoid)
    assert auto.std() > 0.01


@pytest.mark.parametrize("label", NLI)
def test_several_outputs_equal_sentence_transformers(nli: Path, own_store: None, label: str) -> None:
    place = NLI.index(label)
    found = PairScorer(str(nli), label=label.upper()).score(PAIRS)
    assert np.abs(found - package_scores(nli, PAIRS, apply_softmax=True)[:, place]).max() < 1e-5
    raw = PairScorer(str(nli), label=label, output="raw").score(PAIRS)
    assert np.abs(raw - package_scores(nli, PAIRS)[:, place]).max() < 1e-5


@pytest.mark.parametrize(
    ("settings", "output"),
    [
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, "raw"),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"}, "sigmoid"),
    ],
)
def test_a_models_own_activation_is_used(
    cross_encoder: Path, own_store: None, tmp_path: Path, settings: dict[str, Any], output: str
) -> None:
    folder = with_settings(cross_encoder, tmp_path / "model", settings)
    auto, named = (PairScorer(str(folder), output=name).score(PAIRS) for name in ("auto", output))  # type: ignore[arg-type]
    assert np.array_equal(auto, named)
    assert np.abs(auto - package_scores(folder, PAIRS)).max() < 1e-5


def with_settings(folder: Path, target: Path, settings: dict[str, Any]) -> Path:
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, **settings}))
    return target


def test_an_activation_that_is_not_known_is_never_imported(cross_encoder: Path, tmp_path: Path) -> None:
    folder = with_settings(cross_encoder, tmp_path / "m", {"sentence_transformers": {"activation_fn": "os.abort"}})
    with pytest.raises(ModelError, match=r"activation os\.abort"):
        PairScorer(str(folder)).score([("a", "b")])


def test_scores_do_not_depend_on_batches_repeats_or_order(
    cross_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "one"))
    whole = PairScorer(str(cross_encoder)).score([*PAIRS, *PAIRS])
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "two"))
    single = PairScorer(str(cross_encoder), batch_size=1).score(PAIRS[::-1])[::-1]
    assert np.array_equal(whole[: len(PAIRS)], whole[len(PAIRS) :])
    assert np.abs(whole[: len(PAIRS)] - single).max() < 1e-5


def test_the_order_within_a_pair_matters(cross_encoder: Path, own_store: None) -> None:
    one, other = PairScorer(str(cross_encoder)).score([("a man eats", "a girl"), ("a girl", "a man eats")])
    assert abs(one - other) > 1e-4


def test_scores_are_remembered_exactly_and_serve_every_output(nli: Path, own_store: None) -> None:
    first = PairScorer(str(nli), label="neutral").score(PAIRS)
    again = PairScorer(str(nli), label="neutral")
    assert np.array_equal(again.score(PAIRS[::-1])[::-1], first)
    assert "_loaded" not in vars(again)
    sums = sum(PairScorer(str(nli), label=label).score(PAIRS) for label in NLI)
    assert sums == pytest.approx(1)
    assert again.score([]).shape == (0,)


def test_another_dtype_is_another_model(cross_encoder: Path, own_store: None) -> None:
    usual, half = (PairScorer(str(cross_encoder), dtype=dtype) for dtype in ("float32", "bfloat16"))
    assert half.identity == f"{usual.identity}-bfloat16"
    difference = np.abs(usual.score(PAIRS) - half.score(PAIRS)).max()
    assert 0 < difference < 0.2


def test_a_head_that_was_never_trained_is_refused(cross_encoder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "no-head"
    shutil.copytree(cross_encoder, folder)
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("classifier")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"2 weights are missing \(classifier.bias, …\).*random"):
        PairScorer(str(folder)).score([("a", "b")])


def test_pickled_weights_and_folders_that_are_no_model_are_refused(cross_encoder: Path, tmp_path: Path) -> None:
    pickled = tmp_path / "pickled"
    shutil.copytree(cross_encoder, pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickled"):
        PairScorer(str(pickled))
    broken = tmp_path / "broken"
    shutil.copytree(cross_encoder, broken)
    (broken / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"cannot be loaded as a sequence classifier: "):
        PairScorer(str(broken)).score([("a", "b")])


def test_options_that_make_no_sense_say_what_to_do(cross_encoder: Path, nli: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'entailment'"):
        PairScorer(str(nli), label="entailmant").score([("a", "b")])
    with pytest.raises(OptionError, match=r"3 labels \(contradiction, entailment, neutral\); name the one"):
        PairScorer(str(nli)).score([("a", "b")])
    with pytest.raises(OptionError, match="one number and has no label 'neutral'"):
        PairScorer(str(cross_encoder), label="neutral").score([("a", "b")])
    with pytest.raises(OptionError, match="softmax is always 1"):
        PairScorer(str(cross_encoder), output="softmax").score([("a", "b")])
    with pytest.raises(OptionError, match="expected one of auto, raw"):
        PairScorer(str(cross_encoder), output="tanh")  # type: ignore[arg-type]


def test_sts_div_is_minus_the_mean_over_pairs_and_both_orders(nli: Path, own_store: None) -> None:
    (score,) = nlgauge.score([TEXTS], [f"sts-div:model={nli},outcome=entailment"])
    scorer = PairScorer(str(nli), label="entailment")
    means = [scorer.score([(a, b), (b, a)]).mean() for a, b in combinations(TEXTS, 2)]
    assert score.value == pytest.approx(-np.mean(means), abs=1e-12)
    assert "|output:auto|outcome:entailment|" in str(score.signature)


def test_sts_div_without_a_model_says_how_to_name_one() -> None:
    with pytest.raises(OptionError, match=r"none comes with NLGauge; name a folder, as in sts-div:model=FOLDER"):
        nlgauge.score([["a", "b"]], ["sts-div"])
    with pytest.raises(DataError, match="needs at least 2"):
        nlgauge.score([["a"]], ["sts-div"])
