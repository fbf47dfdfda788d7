"""Training on prompts and responses: only responses are learnt, by models with and without an encoder."""

from __future__ import annotations

import itertools
import json
import math
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.models.language.base import Sampling, load_language_model
from nlgauge.models.language.prompting import Prompting
from nlgauge.models.language.seq2seq import Seq2SeqModel
from nlgauge.models.training.data import PromptPair, TrainingCorpus, read_training_pairs
from nlgauge.models.training.language_model import LanguageModelRecipe, Seq2SeqRecipe
from nlgauge.models.training.objectives import Seq2SeqObjective
from nlgauge.models.training.recipe import RECIPES
from nlgauge.models.training.run import TrainingCard
from nlgauge.studies.ruq.score import Ruq
from tests.helpers import COMMAND, environment, nlgauge

ANIMALS = ("cat", "dog", "fish", "bird", "horse", "mouse", "sheep", "goat")
SOUNDS = ("mews", "barks", "is silent", "sings", "neighs", "squeaks", "bleats", "cries")
ASKED = ("What does a {} do?", "Tell me about the {}.", "And the {}?", "My {} is ill.", "Where is the {} now?")
PLACES = ("in town", "at home", "by the sea", "on the hill", "far away", "at noon")
TINY = dict[str, Any](layers=1, width=32, heads=2, vocabulary=320)
PAIRS: dict[str, Any] = {"pairs": True}
SETTINGS = dict[str, Any](epochs=30, learning_rate=1e-2, dropout=0.0, batch_size=16)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def dialog_pairs() -> list[PromptPair]:
    """The reply depends on the animal alone, which stands in the prompt alone."""
    return [
        PromptPair(f"{form.format(animal)} {place}", f"It {sound}.")
        for (animal, sound), form, place in itertools.product(zip(ANIMALS, SOUNDS, strict=True), ASKED, PLACES)
    ]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    path.write_text("".join(json.dumps({"context": p.context, "text": p.text}) + "\n" for p in dialog_pairs()))
    return str(path)


Trained = dict[str, tuple[Path, TrainingCard]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, file: str) -> Trained:
    place = tmp_path_factory.mktemp("models")
    kinds = ("lm", "seq2seq")
    return {
        kind: (
            place / kind,
            RECIPES.find(kind)(data=[file], **PAIRS, **SETTINGS, **TINY).run(place / kind),
        )
        for kind in kinds
    }


def held_out(file: str) -> Sequence[PromptPair]:
    return TrainingCorpus.split(read_training_pairs([file])).validation


@pytest.mark.parametrize("kind", ["lm", "seq2seq"])
def test_a_model_learns_to_answer_prompts_that_it_has_not_seen(trained: Trained, file: str, kind: str) -> None:
    out, card = trained[kind]
    assert card.run["task"] == kind
    assert card.perplexity_after < 2 < 100 < card.perplexity_before
    model = load_language_model(str(out))
    pairs = held_out(file)
    answers = model.generate([pair.context for pair in pairs], Sampling(temperature=0), [0] * len(pairs))
    right = [answer.strip() == pair.text for answer, pair in zip(answers, pairs, strict=True)]
    assert sum(right) / len(right) > 0.6


@pytest.mark.parametrize("kind", ["lm", "seq2seq"])
def test_the_loss_is_that_of_responses_alone(trained: Trained, file: str, kind: str) -> None:
    out, card = trained[kind]
    pairs = held_out(file)
    scores = load_language_model(str(out)).score(
        [pair.context for pair in pairs], [[f" {pair.text}"] for pair in pairs], with_end=True
    )
    loss = -math.fsum(group[0].total for group in scores) / sum(len(group[0]) for group in scores)
    assert card.perplexity_after == pytest.approx(math.exp(loss), rel=1e-4)
    assert card.data["validation_units"] == sum(len(group[0]) for group in scores)


@pytest.mark.parametrize("kind", ["lm", "seq2seq"])
def test_the_window_of_the_training_is_that_of_the_model(file: str, tmp_path: Path, kind: str) -> None:
    settings = dict(SETTINGS, max_steps=2)
    RECIPES.find(kind)(data=[file], **PAIRS, **settings, **TINY, window=24).run(tmp_path / "out")
    assert load_language_model(str(tmp_path / "out")).window == 24


def test_such_a_model_has_a_ruq(trained: Trained, file: str) -> None:
    found = Ruq(model=str(trained["seq2seq"][0]), train=file, generics=["I don't know."], limit=40).run()
    assert found.rows[0]["ruq"] == 1.0
    assert found.rows[0]["n"] == 40


def test_a_template_is_learnt_and_stands_in_the_card(file: str, tmp_path: Path) -> None:
    how = Prompting("Q: {context}\nA:")
    settings = dict(SETTINGS, epochs=2)
    card = LanguageModelRecipe(data=[file], pairs=True, template="Q: {context}\nA:", **settings, **TINY).run(
        tmp_path / "lm"
    )
    assert (card.run["template"], card.run["join"]) == ("Q: {context}\nA:", " ")
    pairs = held_out(file)
    scores = load_language_model(str(tmp_path / "lm")).score(
        [how.prompt(pair.context) for pair in pairs], [[how.text(pair.text)] for pair in pairs], with_end=True
    )
    loss = -math.fsum(group[0].total for group in scores) / sum(len(group[0]) for group in scores)
    assert card.perplexity_after == pytest.approx(math.exp(loss), rel=1e-4)
    assert Prompting("{context}\n").between == ""
    with pytest.raises(OptionError):
        Prompting("Q: A:")


def test_label_smoothing_flattens_what_a_model_says(file: str, tmp_path: Path) -> None:
    means = {}
    for smoothing in (0.0, 0.4):
        out = tmp_path / str(smoothing)
        settings = dict(SETTINGS, epochs=12, label_smoothing=smoothing)
        Seq2SeqRecipe(data=[file], **settings, **TINY).run(out)
        pairs = read_training_pairs([file])[:60]
        scores = load_language_model(str(out)).score(
            [pair.context for pair in pairs], [[f" {pair.text}"] for pair in pairs], with_end=True
        )
        means[smoothing] = sum(group[0].total for group in scores) / sum(len(group[0]) for group in scores)
    # 320 tokens: the best that can be said of a token under smoothing .4 is a probability of about .6
    assert means[0.4] < math.log(0.7) < means[0.0]


def test_dropout_reaches_every_place_of_an_encoder_and_decoder(trained: Trained, file: str) -> None:
    model = load_language_model(str(trained["seq2seq"][0]))
    assert isinstance(model, Seq2SeqModel)
    task = Seq2SeqObjective(model, TrainingCorpus.split(read_training_pairs([file])), dropout=0.4)
    shares = [m.p for m in task.model.modules() if isinstance(m, torch.nn.Dropout)]
    attention = [m.dropout for m in task.model.modules() if isinstance(getattr(m, "dropout", None), float)]
    assert set(shares) == {0.4}
    assert attention == [0.4] * 3
    task.model.train()
    torch.manual_seed(1)
    first = float(task.loss(task.validation, 0.0).detach())
    assert float(task.loss(task.validation, 0.0).detach()) != first
    task.model.eval()
    assert float(task.loss(task.validation, 0.0).detach()) < first


def test_a_killed_run_ends_with_the_same_weights(file: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    settings = dict[str, Any](epochs=6, evaluate_every=4, patience=0, dropout=0.2, label_smoothing=0.1)
    Seq2SeqRecipe(data=[file], **settings, **TINY).run(whole)
    command = [
        *COMMAND, "train", "seq2seq", "--data", file, "--output", str(killed), "--layers", "1", "--width", "32",
        "--heads", "2", "--vocabulary", "320", "--threads", "1", "--epochs", "6", "--evaluate-every", "4",
        "--patience", "0", "--dropout", "0.2", "--label-smoothing", "0.1", "--no-progress",
    ]  # fmt: skip
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(tmp_path / "cache"))
    assert run.stderr is not None
    for _ in range(3):
        next(line for line in run.stderr if "validation loss" in line)
    assert run.poll() is None
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stderr.close()
    said: list[str] = []
    Seq2SeqRecipe(data=[file], **settings, **TINY).run(killed, say=said.append)
    assert any(line.startswith("resuming from step") for line in said)
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_pairs_of_one_context_are_never_on_both_sides() -> None:
    pairs = [PromptPair(f"prompt {i % 40}", f"reply {i}") for i in range(200)]
    corpus = TrainingCorpus.split(pairs, validation=0.3)
    assert not {p.context for p in corpus.training} & {p.context for p in corpus.validation}
    assert corpus.distinct == len(pairs)
    assert TrainingCorpus.split(pairs[::-1], validation=0.3) == corpus


def test_examples_to_hold_out_can_be_given_and_are_not_trained_on(file: str) -> None:
    pairs = read_training_pairs([file])
    other = [PromptPair("Who is it?", "It is me."), PromptPair("Who is that?", "A friend."), pairs[0]]
    corpus = TrainingCorpus.split(pairs, held_out=other)
    assert set(corpus.training) == set(pairs)
    assert set(corpus.validation) == set(other[:2])
    assert corpus.digest != TrainingCorpus.split(pairs).digest
    with pytest.raises(DataError, match="1 of 2 texts to hold out are neither empty nor trained on"):
        TrainingCorpus.split(pairs, held_out=[pairs[0], other[0]])


def test_dialogs_are_read_as_pairs(tmp_path: Path) -> None:
    file = tmp_path / "dialogs.txt"
    file.write_text("Hi . __eou__ Hello . __eou__ Bye . __eou__\nSo ? __eou__ Well . __eou__\n")
    assert read_training_pairs([str(file)]) == [
        PromptPair("Hi .", "Hello ."),
        PromptPair("Hello .", "Bye ."),
        PromptPair("So ?", "Well ."),
    ]
    assert read_training_pairs([str(file)], context_turns=2)[1] == PromptPair("Hi . Hello .", "Bye .")


def test_what_does_not_fit_is_refused(trained: Trained, file: str, tmp_path: Path) -> None:
    new = tmp_path / "new"
    wrong: list[tuple[str, Any]] = [("template", "{context}"), ("join", ""), ("context_turns", 2)]
    for name, value in wrong:
        with pytest.raises(OptionError, match="requires pairs=") as error:
            LanguageModelRecipe(data=[file], **{name: value})
        assert error.value.option == name
    with pytest.raises(DataError) as found:
        Seq2SeqRecipe(data=[file]).run(new, text="story")
    assert found.value.column == "story"
    with pytest.raises(ModelError, match="expected one to train on pairs"):
        Seq2SeqRecipe(data=[file], start=str(trained["lm"][0])).run(new)
    refused = nlgauge("train", "lm", "--data", file, "--output", "x", "--template", "{context}\\n", cwd=tmp_path,
                      cache=tmp_path / "cache")  # fmt: skip
    assert refused.code == 2
    assert "--template requires --pairs" in refused.err
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(f"a text {i}" for i in range(30)))
    no_context = nlgauge(
        "train", "seq2seq", "--data", "texts.csv", "--output", "y", cwd=tmp_path, cache=tmp_path / "cache"
    )
    assert no_context.code == 2
    assert "context" in no_context.err
