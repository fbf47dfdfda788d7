"""Training a language model: it learns, goes on where it was killed, and leaves a model like any other."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.data.columns import Reading
from nlgauge.errors import DataError, ModelError, OptionError, OutputError, UnknownName
from nlgauge.models.language.base import Sampling, load_language_model
from nlgauge.models.language.causal import CausalModel
from nlgauge.models.training.data import TrainingCorpus, read_texts
from nlgauge.models.training.language_model import Architecture, LanguageModelRecipe
from nlgauge.models.training.objectives import CausalObjective
from nlgauge.models.training.recipe import RECIPES
from nlgauge.models.training.run import TrainingCard, TrainingFolder, _load_tensors, _save_tensors
from nlgauge.models.training.settings import TrainingSettings
from nlgauge.models.training.steps import Objective, train
from tests.helpers import COMMAND, environment, nlgauge

WHO = ("Anna", "Ben", "Carla", "David", "Eve", "Frank")
DID = ("bought", "found", "lost", "sold", "painted")
WHAT = ("a red bike", "an old clock", "the blue kite", "a small boat")
WHERE = ("in the park", "at school", "near the river")
THEN = ("Everybody was happy.", "It rained all day.", "Nobody noticed it.")
TINY = dict[str, Any](layers=1, width=32, heads=2, vocabulary=340)
QUICK = dict[str, Any](epochs=3, learning_rate=5e-3, dropout=0.0)


def stories(count: int) -> list[str]:
    made = [f"{a} {b} {c} {d}. {e}" for a, b, c, d, e in itertools.product(WHO, DID, WHAT, WHERE, THEN)]
    random.Random(7).shuffle(made)
    return made[:count]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("texts") / "stories.txt"
    file.write_text("\n".join(stories(300)) + "\n\n")
    return str(file)


@pytest.fixture(scope="module")
def trained(data: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingCard]:
    out = tmp_path_factory.mktemp("models") / "tiny"
    return out, LanguageModelRecipe(data=[data], **QUICK, **TINY).run(out)


def test_training_from_scratch_learns(trained: tuple[Path, TrainingCard]) -> None:
    out, card = trained
    assert card.evaluations[0].step == 0
    assert 250 < card.perplexity_before < 450
    assert card.perplexity_after < card.perplexity_before / 20
    assert len(card.train_loss) == card.steps
    assert card.data["empty"] == 1
    assert card.data["training_texts"] + card.data["validation_texts"] == 300
    assert card.versions["torch"] == torch.__version__
    names = {path.name for path in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "training.json"} <= names
    assert "checkpoints" not in names
    assert not any(name.startswith(".") for name in names)
    assert json.loads((out / "training.json").read_text())["best_step"] == card.best_step


def test_the_outcome_is_a_model_like_any_other(trained: tuple[Path, TrainingCard], data: str) -> None:
    out, card = trained
    model = load_language_model(str(out))
    assert (model.start_context, model.end_token, model.window) == ("<|endoftext|>", "<|endoftext|>", 512)
    held_out = TrainingCorpus.split(read_texts([data])).validation
    scores = [score for group in model.score([""], [held_out], with_end=True) for score in group]
    loss = -math.fsum(score.total for score in scores) / sum(map(len, scores))
    assert math.exp(loss) == pytest.approx(card.perplexity_after, rel=1e-4)
    assert model.generate(["Anna"], Sampling(temperature=0), [0])[0]
    from safetensors import safe_open

    with safe_open(out / "model.safetensors", framework="pt") as file:
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118


def test_a_model_that_is_not_as_training_left_it_is_refused(trained: tuple[Path, TrainingCard], tmp_path: Path) -> None:
    for name in ("model.safetensors", "tokenizer.json", "training.json"):
        folder = tmp_path / name
        shutil.copytree(trained[0], folder)
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
        with pytest.raises(ModelError, match=f"{folder / name}: damaged"):
            load_language_model(str(folder))


def test_fine_tuning_starts_from_the_weights(trained: tuple[Path, TrainingCard], tmp_path: Path) -> None:
    texts = [f"{text} {text}" for text in stories(200)]
    texts[0] = " ".join(texts[:20])
    file = tmp_path / "more.txt"
    file.write_text("\n".join(texts))
    settings: dict[str, Any] = {"max_steps": 8, "learning_rate": 1e-3}
    card = LanguageModelRecipe(data=[str(file)], start=str(trained[0]), **settings, window=64).run(tmp_path / "tuned")
    model = load_language_model(str(trained[0]))
    model.window = 64
    scores = model.score([""], [TrainingCorpus.split(texts).validation], with_end=True)[0]
    loss = -math.fsum(score.total for score in scores) / sum(map(len, scores))
    assert card.evaluations[0].validation_loss == pytest.approx(loss, abs=1e-4)
    assert card.perplexity_after < card.perplexity_before
    assert card.steps == 8


def test_the_loss_is_what_scoring_gives_however_the_output_layer_is_run(
    trained: tuple[Path, TrainingCard], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer, Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel

    tokenizer: Any = AutoTokenizer.from_pretrained(trained[0])
    size: dict[str, Any] = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 0}
    sides: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 16}
    gemma: Any = Gemma2Config(
        **size, **sides, intermediate_size=64, num_key_value_heads=1, final_logit_softcapping=0.5, pad_token_id=0
    )
    gpt: Any = GPT2Config(**size, n_embd=32, n_layer=1, n_head=2, n_positions=64)
    kinds: list[tuple[Any, Any]] = [(Gemma2ForCausalLM, gemma), (GPT2LMHeadModel, gpt)]
    texts = stories(60)
    for kind, config in kinds:
        folder = tmp_path / kind.__name__
        torch.manual_seed(1)
        kind(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model = load_language_model(str(folder))
        assert isinstance(model, CausalModel)
        task = CausalObjective(model, TrainingCorpus.split(texts), dropout=0.1)
        rows = task.validation
        scores = model.score([""], [TrainingCorpus.split(texts).validation], with_end=True)[0]
        whole = task.loss(rows, 0.0)
        assert float(whole.detach()) == pytest.approx(-math.fsum(score.total for score in scores), rel=1e-5)
        whole.backward()
        gradient = model.model.get_input_embeddings().weight.grad.clone()
        model.model.zero_grad()
        task.logits_at_once = 7 * len(tokenizer)
        parts = task.loss(rows, 0.0)
        parts.backward()
        assert float(parts.detach()) == pytest.approx(float(whole.detach()), rel=1e-5)
        torch.testing.assert_close(model.model.get_input_embeddings().weight.grad, gradient, rtol=1e-3, atol=1e-4)
    encoder_decoder = tmp_path / "two-towers"
    shutil.copytree(trained[0], encoder_decoder)
    settings = json.loads((encoder_decoder / "config.json").read_text())
    (encoder_decoder / "config.json").write_text(json.dumps({**settings, "is_encoder_decoder": True}))
    (tmp_path / "a.txt").write_text("\n".join(texts))
    with pytest.raises(ModelError):
        LanguageModelRecipe(data=[str(tmp_path / "a.txt")], start=str(encoder_decoder)).run(tmp_path / "out")


def command(data: str, out: Path, *more: str) -> list[str]:
    shape = ["--layers", "1", "--width", "32", "--heads", "2", "--vocabulary", "340", "--threads", "1"]
    steps = ["--epochs", "4", "--evaluate-every", "4", "--patience", "0", "--dropout", "0.2", "--no-progress"]
    return [*COMMAND, "train", "lm", "--data", data, "--output", str(out), *shape, *steps, *more]


def test_a_killed_run_goes_on_and_ends_with_the_same_weights(data: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    settings = dict[str, Any](epochs=4, evaluate_every=4, patience=0, dropout=0.2)
    LanguageModelRecipe(data=[data], **settings, **TINY).run(whole)
    for evaluations in (2, 4):
        run = subprocess.Popen(
            command(data, killed), stderr=subprocess.PIPE, text=True, env=environment(tmp_path / "cache")
        )
        assert run.stderr is not None
        for _ in range(evaluations):
            next(line for line in run.stderr if "validation loss" in line)
        time.sleep(0.02)
        assert run.poll() is None
        run.send_signal(signal.SIGKILL)
        run.wait()
        run.stderr.close()
        assert not (killed / "model.safetensors").exists()
        with pytest.raises(ModelError):
            load_language_model(str(killed))
    said: list[str] = []
    LanguageModelRecipe(data=[data], **settings, **TINY).run(killed, say=said.append)
    assert any(line.startswith("resuming from step") for line in said)
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    cards = [json.loads((folder / "training.json").read_text()) for folder in (killed, whole)]
    assert cards[0]["train_loss"] == cards[1]["train_loss"]
    assert sorted(p.name for p in killed.iterdir()) == sorted(p.name for p in whole.iterdir())


def test_the_command_prints_one_document_and_does_nothing_twice(data: str, tmp_path: Path) -> None:
    run = [*command(data, Path("lm"), "--max-steps", "6", "--format", "json")[len(COMMAND) :]]
    first = nlgauge(*run, cwd=tmp_path, cache=tmp_path / "cache")
    assert first.code == 0, first.err
    card = json.loads(first.out)["training"]
    assert card["steps"] == 6
    assert "step 0 of 6: validation loss" in first.err
    assert "<svg" in (tmp_path / "lm" / "loss.svg").read_text()
    before = (tmp_path / "lm" / "model.safetensors").stat().st_mtime_ns
    again = nlgauge(*run, cwd=tmp_path, cache=tmp_path / "cache")
    assert json.loads(again.out)["training"] == card
    assert "finished already" in again.err
    assert (tmp_path / "lm" / "model.safetensors").stat().st_mtime_ns == before
    other = nlgauge(*run, "--seed", "1", cwd=tmp_path, cache=tmp_path / "cache")
    assert other.code == 2
    assert "seed (was 12345, is 1)" in other.err
    assert other.out == ""


def test_other_settings_or_data_are_refused_and_fresh_starts_anew(
    trained: tuple[Path, TrainingCard], data: str, tmp_path: Path
) -> None:
    out = tmp_path / "copy"
    shutil.copytree(trained[0], out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"learning_rate \(was 0.005, is 0.001\)"):
        LanguageModelRecipe(data=[data], **dict(QUICK, learning_rate=1e-3), **TINY).run(out)
    fewer = tmp_path / "fewer.txt"
    fewer.write_text("\n".join(stories(200)))
    with pytest.raises(OutputError, match="another data"):
        LanguageModelRecipe(data=[str(fewer)], **QUICK, **TINY).run(out)
    short = dict(QUICK, max_steps=2)
    card = LanguageModelRecipe(data=[str(fewer)], **short, **TINY).run(out, fresh=True)
    assert card.steps == 2
    assert (out / "notes.txt").read_text() == "mine"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.tex").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(OutputError, match="something else"):
            LanguageModelRecipe(data=[str(fewer)], **short, **TINY).run(elsewhere, fresh=fresh)
    with pytest.raises(OutputError, match="cannot be the folder"):
        LanguageModelRecipe(data=[str(fewer)], **short, **TINY).run(tmp_path / "no" / "such")
    with pytest.raises(UnknownName, match="did you mean 'smollm2'"):
        LanguageModelRecipe(data=[str(fewer)], start="smollm").run(tmp_path / "x")


def test_the_order_of_texts_does_not_matter_and_options_are_taken(tmp_path: Path) -> None:
    texts = stories(60)
    settings = dict(QUICK, max_steps=3, dropout=0.3, label_smoothing=0.1)
    weights = []
    for name, lines in (("a", texts), ("b", texts[::-1])):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
        LanguageModelRecipe(data=[str(tmp_path / f"{name}.txt")], **settings, **TINY).run(tmp_path / name)
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    low = dict(settings, dtype="bfloat16", label_smoothing=0.0, dropout=0.0)
    card = LanguageModelRecipe(data=[str(tmp_path / "a.txt")], **low, **TINY).run(tmp_path / "low")
    assert card.perplexity_after < card.perplexity_before


def test_smoothing_and_dropout_change_what_is_learnt_but_not_how_it_is_measured(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(stories(60)))
    plain = dict(QUICK, max_steps=1, dropout=0.0)
    cards = [
        LanguageModelRecipe(data=[str(tmp_path / "a.txt")], **settings, **TINY).run(tmp_path / str(i))
        for i, settings in enumerate((plain, dict(plain, label_smoothing=0.3), dict(plain, dropout=0.5)))
    ]
    assert len({card.perplexity_before for card in cards}) == 1
    assert len({card.train_loss[0] for card in cards}) == 3


def test_a_learning_rate_beyond_reason_is_reported(data: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"is (nan|inf) after \d+ steps; .* learning rate below 1e\+30"):
        LanguageModelRecipe(data=[data], **dict(QUICK, learning_rate=1e30, warmup=0.0), **TINY).run(tmp_path / "out")
    assert not (tmp_path / "out" / "model.safetensors").exists()


class Valley(Objective[float]):
    """One number that walks towards 1, while the held-out row lies at `best`; `room` is how many rows fit in memory."""

    def __init__(self, best: float = 1.0, rows: int = 8, room: int = 100) -> None:
        self.model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.model.weight)
        self.training, self.validation, self.room = [1.0] * rows, [best, best], room

    def units(self, row: float) -> int:
        return 1

    def loss(self, rows: Sequence[float], label_smoothing: float) -> Any:
        if len(rows) > self.room:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
        return sum((self.model.weight - row).square().sum() for row in rows)

    def save(self, folder: Path) -> None:
        (folder / "weights.json").write_text(json.dumps(self.model.weight.item()))


def walk(task: Valley, settings: TrainingSettings, out: Path) -> TrainingCard:
    with TrainingFolder.open(out, {"task": "valley"}) as folder:
        return train(task, settings, folder, data={}, start="nowhere")


def test_early_stopping_keeps_the_best_weights(tmp_path: Path) -> None:
    settings = TrainingSettings(
        epochs=100, batch_size=8, learning_rate=0.05, warmup=0.0, weight_decay=0.0, evaluate_every=1, patience=3
    )
    card = walk(Valley(best=0.3), settings, tmp_path / "out")
    assert card.stopped == "no better validation loss in 3 evaluations"
    assert card.steps == card.best_step + 3 < 20
    assert json.loads((tmp_path / "out" / "weights.json").read_text()) == pytest.approx(0.3, abs=0.03)


def test_a_model_that_only_gets_worse_stays_as_it_was(tmp_path: Path) -> None:
    card = walk(Valley(best=-1.0), TrainingSettings(epochs=9, learning_rate=0.1, evaluate_every=1), tmp_path / "out")
    assert card.best_step == 0
    assert card.perplexity_after == card.perplexity_before
    assert json.loads((tmp_path / "out" / "weights.json").read_text()) == 0.0


def test_out_of_memory_halves_the_pieces_and_changes_nothing_else(tmp_path: Path) -> None:
    settings = TrainingSettings(epochs=5, batch_size=8, learning_rate=0.05, patience=0)
    whole = walk(Valley(), settings, tmp_path / "whole")
    with pytest.warns(UserWarning, match="out of memory with 8 texts at once; the same batches go on in pieces"):
        pieces = walk(Valley(room=4), settings, tmp_path / "pieces")
    assert pieces.train_loss == pytest.approx(whole.train_loss, rel=1e-6)
    with (
        pytest.raises(ModelError, match="expected room for one"),
        pytest.warns(UserWarning, match="out of memory"),
    ):
        walk(Valley(room=0), settings, tmp_path / "none")


def test_a_time_limit_ends_a_run_with_what_it_has(tmp_path: Path) -> None:
    card = walk(Valley(), TrainingSettings(epochs=100_000, minutes=0.005, learning_rate=0.1), tmp_path / "out")
    assert card.stopped == "0.005 minutes are over"
    assert 0 < card.steps == card.evaluations[-1].step


def test_one_folder_is_for_one_process(tmp_path: Path) -> None:
    with (
        TrainingFolder.open(tmp_path / "out", {"task": "valley"}),
        pytest.raises(OutputError, match="another process"),
        TrainingFolder.open(tmp_path / "out", {"task": "valley"}),
    ):
        pass


def test_a_damaged_checkpoint_is_an_error_and_not_a_new_start(tmp_path: Path) -> None:
    (tmp_path / "out" / "checkpoints").mkdir(parents=True)
    (tmp_path / "out" / "checkpoints" / ".run.json.cut").write_text("a kill at the very beginning")
    with TrainingFolder.open(tmp_path / "out", {"task": "valley"}) as folder:
        (folder.checkpoints / "state.safetensors").write_bytes(b"cut short")
    with pytest.raises(ModelError, match=r"damaged checkpoint .* fresh="):
        walk(Valley(), TrainingSettings(), tmp_path / "out")


def test_a_checkpoint_with_a_flipped_bit_is_refused(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(12.0).reshape(3, 4), "b": torch.zeros((), dtype=torch.bfloat16)}
    file = tmp_path / "state.safetensors"
    _save_tensors(file, tensors, "a note")
    found, note = _load_tensors(file)
    assert note == "a note"
    assert all(torch.equal(found[name], value) for name, value in tensors.items())
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(ModelError, match=f"{file}: damaged checkpoint"):
            _load_tensors(file)


@pytest.mark.skipif(not Path("/dev/full").exists() or os.geteuid() != 0, reason="needs a small file system of its own")
def test_a_full_disk_is_an_error_of_the_output(data: str, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount a small file system")
    try:
        with pytest.raises(OutputError, match="cannot be written"):
            LanguageModelRecipe(data=[data], **QUICK, **TINY).run(small / "out")
    finally:
        subprocess.run(["umount", str(small)], check=True)


@given(st.lists(st.sampled_from(stories(80)), min_size=60), st.randoms(use_true_random=False), st.integers(0, 9))
def test_the_split_depends_on_each_text_alone(texts: list[str], shuffler: random.Random, seed: int) -> None:
    texts += stories(80)
    one = TrainingCorpus.split(texts, validation=0.3, seed=seed)
    assert not set(one.training) & set(one.validation)
    assert sorted(one.training + one.validation) == sorted(texts)
    shuffled = [f" {text.replace(' ', '  ')}\n" for text in texts]
    shuffler.shuffle(shuffled)
    spaced = TrainingCorpus.split(shuffled, validation=0.3, seed=seed)
    assert {" ".join(text.split()) for text in spaced.validation} == set(one.validation)
    alone = TrainingCorpus.split(stories(80), validation=0.3, seed=seed)
    assert set(alone.validation) == set(one.validation)
    assert (alone.found, alone.distinct, one.distinct) == (80, 80, 80)
    shuffler.shuffle(texts)
    assert TrainingCorpus.split(texts, validation=0.3, seed=seed) == one


def test_a_limit_takes_texts_by_the_seed() -> None:
    texts = stories(200)
    chosen = TrainingCorpus.split(texts, limit=100, seed=1)
    assert len(chosen.training) + len(chosen.validation) == 100
    assert TrainingCorpus.split(texts[::-1], limit=100, seed=1) == chosen
    assert set(TrainingCorpus.split(texts, limit=100, seed=2).training) != set(chosen.training)
    assert set(chosen.validation) <= set(TrainingCorpus.split(texts, seed=1).validation)


def test_texts_are_read_from_every_format(tmp_path: Path) -> None:
    texts = ["one story", "two stories", ""]
    (tmp_path / "a.txt").write_text("one story\r\ntwo stories\n\n")
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"id": i, "story": t}) + "\n" for i, t in enumerate(texts)))
    (tmp_path / "c.json").write_text(json.dumps([{"text": text} for text in texts]))
    (tmp_path / "d.json").write_text("".join(json.dumps([text]) + "\n" for text in texts))
    (tmp_path / "e.json.gz").write_bytes(gzip.compress(json.dumps(texts).encode()))
    (tmp_path / "f.csv").write_text('body,text\none story,x\ntwo stories,y\n"",z\n')
    for name in "abcde":
        path = next(tmp_path.glob(f"{name}.*"))
        assert read_texts([str(path)]) == texts, name
    assert read_texts([str(tmp_path / "f.csv")], Reading(text="body")) == texts
    assert read_texts([str(tmp_path / "a.txt"), str(tmp_path / "f.csv")]) == [*texts, "x", "y", "z"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "the file is empty"),
        ("a.txt", b"\n\n", "found 0 texts to train on and 2 empty ones; expected at least 20"),
        ("a.txt", b"caf\xe9\n", "byte 0xe9 is not UTF-8"),
        ("a.json", b'["caf\xe9"]', "byte 0xe9 is not UTF-8"),
        ("a.json", b'["a", 3]', "record 2 is int; expected text"),
        ("a.json", b'["a"]\n["b", "c"]\n', "record 2 is a list of 2; expected text"),
        ("a.json", b'["a"]\n{"b": \n', "line 2: invalid JSON"),
        ("a.json", b'[{"body": "a"}]', "record 1 has body; expected text or story; name another with text="),
        ("a.jsonl", b'{"id": 1, "body": "a"}\n', "no such column; found id, body; name the column with text="),
        ("a.jsonl", b'{"text": 1}\n', "expected text"),
        ("a.doc", b"x", "cannot tell the format"),
    ],
)
def test_bad_data_is_explained(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        LanguageModelRecipe(data=[str(tmp_path / name)]).run(tmp_path / "out")
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_options_out_of_range_are_refused(data: str, tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"epochs": 0}, {"learning_rate": 0.0}, {"dropout": 1.0}, {"seed": -1}]
    for bad in [*wrong, {"dtype": "float16"}, {"batch_size": 0}]:
        with pytest.raises(OptionError) as error:
            TrainingSettings(**bad)
        assert error.value.option == next(iter(bad))
    with pytest.raises(OptionError, match="multiple of twice the heads"):
        Architecture(width=30, heads=4)
    with pytest.raises(OptionError, match="window"):
        LanguageModelRecipe(data=[data], window=4).run(tmp_path / "out")
    with pytest.raises(OptionError, match="validation=1"):
        LanguageModelRecipe(data=[data], validation=1.0).run(tmp_path / "out")
    with pytest.raises(OptionError, match="requires start=scratch"):
        LanguageModelRecipe(data=[data], start="smollm2", **TINY).run(tmp_path / "out")


def test_a_recipe_is_made_again_from_its_signature(data: str) -> None:
    recipe = LanguageModelRecipe(data=[data], dropout=0.2, pairs=True, template="Q: {context}\nA:", **TINY)
    assert RECIPES.create(str(recipe.signature)) == recipe
    assert RECIPES.create(recipe.spec) == recipe
    assert (recipe.settings.epochs, recipe.settings.batch_size, recipe.settings.dropout) == (20, 16, 0.2)
    assert LanguageModelRecipe(data=[data], start="smollm2").settings == TrainingSettings()


def test_the_learning_rate_rises_and_falls() -> None:
    settings = TrainingSettings(learning_rate=1.0, warmup=0.25)
    rates = [settings.rate(step, 8) for step in range(8)]
    assert rates[:3] == [0.5, 1.0, 1.0]
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert 0 < rates[-1] < 0.1


def test_help_loads_no_torch() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom nlgauge.cli.main import app\n"
        "assert CliRunner().invoke(app, ['train', 'lm', '--help']).exit_code == 0\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_torch_the_extra_is_named(data: str, tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules |= dict.fromkeys(('torch', 'transformers', 'safetensors', 'tokenizers'))\n"
        "from nlgauge.cli.main import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command(data, tmp_path / "out")[len(COMMAND) :]], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install 'nlgauge[models]'" in done.stderr
