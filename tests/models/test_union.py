"""UNION: a classifier learns to tell stories from negatives, goes on where it was killed, and scores like a metric."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nlgauge
from nlgauge.data.tables import Items
from nlgauge.errors import DataError, ModelError, OptionError, OutputError
from nlgauge.metrics.registry import create_metric
from nlgauge.models.training.data import TrainingCorpus
from nlgauge.models.training.run import TrainingCard
from nlgauge.models.training.settings import TrainingSettings
from nlgauge.models.training.union import UnionObjective, UnionRecipe
from nlgauge.stats.inference import Inference
from tests.conftest import make_encoder
from tests.helpers import COMMAND, environment, write_document
from tests.helpers import nlgauge as run_nlgauge

WHO = ("Anna", "Ben", "Carla", "David", "Eve", "Frank", "Gina", "Hugo", "Iris", "Jon")
WHAT = ("kite", "clock", "bike", "boat", "chair", "lamp", "drum", "cake", "coat", "sled")
SETTINGS = dict[str, Any](epochs=30, learning_rate=5e-3, evaluate_every=20, patience=0)


def story(number: int) -> str:
    """Four sentences in an order that words give away."""
    draw = random.Random(number)
    who, what = draw.choice(WHO), draw.choice(WHAT)
    return (
        f"First {who} saw a {what} in town {number}. Then {who} could buy the {what}. "
        f"Later the {what} was lost. Finally {who} was sad."
    )


STORIES = [story(number) for number in range(240)]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_encoder(tmp_path_factory.mktemp("encoders") / "tiny", STORIES))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("texts") / "stories.jsonl"
    file.write_text("".join(json.dumps({"story": text}) + "\n" for text in [*STORIES, " "]))
    return str(file)


Trained = tuple[Path, TrainingCard]


@pytest.fixture(scope="module")
def trained(data: str, encoder: str, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    out = tmp_path_factory.mktemp("models") / "union"
    return out, UnionRecipe(data=[data], encoder=encoder, **SETTINGS, validation=0.3).run(out)


def measures(card: TrainingCard) -> dict[str, Any]:
    assert isinstance(card.measures, dict)
    return card.measures


def test_it_learns_and_the_card_says_how_well(trained: Trained) -> None:
    out, card = trained
    found = measures(card)
    assert found["accuracy"] > 0.75
    assert found["auc"] > 0.8
    assert set(found["auc_by_technique"]) == {"repetition", "substitution", "reordering", "negation"}
    assert found["auc_by_technique"]["reordering"] > 0.9
    assert card.evaluations[0].accuracy == pytest.approx(0.5, abs=0.1)
    best = next(one for one in card.evaluations if one.step == card.best_step)
    assert best.accuracy == pytest.approx(found["accuracy"], abs=1e-4)
    assert card.data["empty"] == 1
    assert (card.run["task"], card.run["seed"]) == ("union", 12345)
    assert {"config.json", "model.safetensors", "model_head.safetensors"} <= {path.name for path in out.iterdir()}


def test_scrambled_labels_teach_nothing(data: str, encoder: str, tmp_path: Path) -> None:
    settings = dict(SETTINGS, epochs=8)
    card = UnionRecipe(data=[data], encoder=encoder, **settings, validation=0.4, scramble_labels=True).run(
        tmp_path / "control"
    )
    assert [one.accuracy for one in card.evaluations] == pytest.approx([0.5] * len(card.evaluations), abs=0.15)
    assert measures(card)["accuracy"] == pytest.approx(0.5, abs=0.15)


def test_real_stories_score_above_others_and_company_does_not_matter(trained: Trained) -> None:
    metric = create_metric(f"union:model={trained[0]}")
    fresh = [story(number) for number in range(1000, 1060)]
    mixed = [". ".join(random.Random(i).sample(text.split(". "), 4)) for i, text in enumerate(fresh)]
    real, fake = (metric.score(Items.of(texts)) for texts in (fresh, mixed))
    assert real.value > fake.value + 0.2
    backwards = metric.score(Items.of(fresh[::-1]), Inference())
    assert backwards.value == real.value
    assert real.per_item is not None
    assert metric.score(Items.of(fresh[:1])).value == real.per_item["value"][0]
    assert f"model:{trained[0]}@" in str(real.signature)
    assert "long:cut" in str(real.signature)
    assert create_metric(str(real.signature)).score(Items.of(fresh)).value == real.value


def test_a_context_is_the_beginning_of_the_story(trained: Trained, tmp_path: Path) -> None:
    first, _, rest = STORIES[0].partition(". ")
    rows = [{"context": f"{first}.", "text": rest}, {"context": f"{first}.", "text": ""}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with_context, without = nlgauge.score(
        str(tmp_path / "a.jsonl"), [f"union:model={trained[0]}", f"union:model={trained[0]},context=none"]
    )
    whole = create_metric(f"union:model={trained[0]}").score(Items.of([STORIES[0]]))
    assert with_context.value == whole.value != without.value
    assert (with_context.n, with_context.excluded) == (1, 1)
    assert with_context.per_item is not None
    assert np.isnan(with_context.per_item["value"][1])


def test_ten_thousand_words_are_cut(trained: Trained, encoder: str, tmp_path: Path) -> None:
    metric = create_metric(f"union:model={trained[0]}")
    long = " ".join(STORIES * 3)
    assert len(long.split()) > 10_000
    assert metric.score(Items.of([long])).value == metric.score(Items.of([f"{long} And more."])).value
    (tmp_path / "long.txt").write_text("\n".join([long, *STORIES[:60]]))
    card = UnionRecipe(data=[str(tmp_path / "long.txt")], encoder=encoder, **dict(SETTINGS, max_steps=1)).run(
        tmp_path / "out"
    )
    assert card.steps == 1


def test_a_negative_differs_within_what_the_encoder_sees(encoder: str) -> None:
    from nlgauge.models.encoders.networks import load_encoder

    texts = [" ".join(STORIES[i : i + 6]) for i in range(60)]
    tokenizer, network = load_encoder(Path(encoder), "cpu")
    task = UnionObjective(
        tokenizer, network, TrainingCorpus.split(texts), settings=TrainingSettings(**SETTINGS), window=32
    )
    rows = task.training
    assert all(len(row.tokens["input_ids"]) <= 32 for row in rows)
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    assert all(real.real and not fake.real and fake.techniques for real, fake in pairs)
    assert all(real.tokens["input_ids"] != fake.tokens["input_ids"] for real, fake in pairs)
    assert len(rows) // 2 + len(task.validation) // 2 + task.skipped == 60


def test_reconstruction_changes_what_is_learnt_but_not_how_it_is_measured(
    data: str, encoder: str, tmp_path: Path
) -> None:
    settings = dict(SETTINGS, max_steps=30, evaluate_every=30)
    cards = [
        UnionRecipe(data=[data], encoder=encoder, **settings, reconstruction=weight).run(tmp_path / str(weight))
        for weight in (0.0, 0.5)
    ]
    assert cards[0].evaluations[0].validation_loss == cards[1].evaluations[0].validation_loss
    assert cards[1].train_loss[0] > cards[0].train_loss[0] + 0.5
    assert cards[1].train_loss[-1] < cards[1].train_loss[0] - 0.2
    assert create_metric(f"union:model={tmp_path / '0.5'}").score(Items.of(STORIES[:2])).n == 2


def test_a_killed_run_goes_on_and_ends_with_the_same_weights(data: str, encoder: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    settings = dict[str, Any](epochs=4, evaluate_every=6, patience=0, learning_rate=1e-3)
    UnionRecipe(data=[data], encoder=encoder, **settings).run(whole)
    command = [
        *COMMAND, "train", "union", "--data", data, "--output", str(killed), "--encoder", encoder, "--epochs", "4",
        "--evaluate-every", "6", "--patience", "0", "--learning-rate", "0.001", "--threads", "1", "--no-progress",
    ]  # fmt: skip
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(tmp_path / "cache"))
    assert run.stderr is not None
    for _ in range(3):
        next(line for line in run.stderr if "accuracy" in line)
    assert run.poll() is None
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stderr.close()
    with pytest.raises(ModelError, match="an unfinished training run; give its command again"):
        create_metric(f"union:model={killed}").score(Items.of(STORIES[:2]))
    said: list[str] = []
    UnionRecipe(data=[data], encoder=encoder, **settings).run(killed, say=said.append)
    assert any(line.startswith("resuming from step") for line in said)
    for name in ("model.safetensors", "model_head.safetensors"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    cards = [json.loads((folder / "training.json").read_text()) for folder in (killed, whole)]
    assert cards[0]["train_loss"] == cards[1]["train_loss"]
    assert cards[0]["measures"] == cards[1]["measures"]


def test_the_order_of_stories_does_not_matter(encoder: str, tmp_path: Path) -> None:
    weights = []
    for name, texts in (("a", STORIES[:80]), ("b", STORIES[79::-1])):
        (tmp_path / f"{name}.txt").write_text("\n".join(texts))
        UnionRecipe(data=[str(tmp_path / f"{name}.txt")], encoder=encoder, **dict(SETTINGS, max_steps=3)).run(
            tmp_path / name
        )
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_the_command_prints_what_was_learnt_and_refuses_other_settings(data: str, encoder: str, tmp_path: Path) -> None:
    run = ["train", "union", "--data", data, "--output", "u", "--encoder", encoder, "--max-steps", "4", "--no-progress"]
    first = run_nlgauge(*run, cwd=tmp_path, cache=tmp_path / "cache")
    assert first.code == 0, first.err
    assert "accuracy " in first.out
    assert "  reordering" in first.out
    assert "one negative of each" in first.err
    assert "<svg" in (tmp_path / "u" / "loss.svg").read_text()
    scored = run_nlgauge("score", data, "-m", "union:model=u", "--text", "story", cwd=tmp_path, cache=tmp_path / "c")
    assert scored.code == 0, scored.err
    assert "union" in scored.out
    other = run_nlgauge(*run, "--scramble-labels", cwd=tmp_path, cache=tmp_path / "cache")
    assert other.code == 2
    assert "scramble_labels (was False, is True)" in other.err


def test_folders_that_are_no_union_are_refused(trained: Trained, encoder: str, tmp_path: Path) -> None:
    texts = Items.of(STORIES[:2])

    def refused(folder: Path, message: str) -> None:
        with pytest.raises(ModelError, match=message):
            create_metric(f"union:model={folder}").score(texts)

    refused(tmp_path / "nowhere", "no such folder; expected a folder that `nlgauge train union` made")
    refused(Path(encoder), r"has no training.json, so it was not trained for this; .* nlgauge train union --data")
    foreign = tmp_path / "foreign"
    shutil.copytree(trained[0], foreign)
    card = json.loads((foreign / "training.json").read_text())
    write_document(foreign / "training.json", {**card, "run": {**card["run"], "task": "lm"}})
    refused(foreign, "a model of `nlgauge train lm`")
    (foreign / "training.json").write_text("{")
    refused(foreign, "damaged")
    for missing, message in (
        ("model.safetensors", "damaged"),
        ("model_head.safetensors", "has no model_head"),
    ):
        broken = tmp_path / f"without {missing}"
        shutil.copytree(trained[0], broken)
        (broken / missing).unlink()
        refused(broken, message)
    with pytest.raises(ModelError, match="different model"):
        create_metric(f"union:model={trained[0]}@0123456789ab").score(texts)
    with pytest.raises(OptionError, match="has no model; expected union:model=FOLDER"):
        create_metric("union").score(texts)


def test_bad_input_is_explained(data: str, encoder: str, tmp_path: Path) -> None:
    def fails(lines: list[str], error: type[Exception], message: str, **options: Any) -> None:
        (tmp_path / "a.txt").write_text("\n".join(lines))
        with pytest.raises(error, match=message):
            UnionRecipe(data=[str(tmp_path / "a.txt")], encoder=encoder, **options).run(tmp_path / "out")

    fails(STORIES[:5], DataError, "found 5 texts to train on and 0 empty ones; expected at least 20")
    fails(["", " "] * 20, DataError, "found 0 texts to train on and 40 empty ones")
    fails([f"x{i}" for i in range(60)], DataError, "0 stories to train on .* 60 have no negative")
    fails(STORIES, OptionError, "window=4", window=4)
    fails(STORIES, OptionError, "reconstruction=-1", reconstruction=-1.0)
    fails(STORIES, DataError, "expected word", antonyms=data)
    with pytest.raises(ModelError, match="neither in the catalogue nor a folder"):
        UnionRecipe(data=[data], encoder="no/such-model").run(tmp_path / "new")
    UnionRecipe(data=[data], encoder=encoder, max_steps=1).run(tmp_path / "w")
    with pytest.raises(OutputError, match=r"window \(was 128, is 64\)"):
        UnionRecipe(data=[data], encoder=encoder, max_steps=1, window=64).run(tmp_path / "w")
