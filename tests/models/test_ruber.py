"""RUBER: texts that belong to their context are told from others, with ranges that training fixes."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nlgauge.data.tables import Items
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.metrics.registry import create_metric
from nlgauge.models.encoders.ruber_model import Range, load_ruber, story_pair
from nlgauge.models.training.data import PromptPair
from nlgauge.models.training.ruber import RuberRecipe, read_ruber_pairs
from nlgauge.models.training.run import TrainingCard
from tests.conftest import make_encoder
from tests.helpers import COMMAND, environment, nlgauge, write_document

TOPICS = {
    "kitchen": ("bread", "oven", "soup", "spoon", "cheese"),
    "garden": ("tree", "rose", "grass", "seed", "bee"),
    "harbour": ("ship", "sail", "wave", "anchor", "gull"),
    "school": ("teacher", "lesson", "pupil", "chalk", "desk"),
}
SETTINGS = dict[str, Any](epochs=40, batch_size=32, learning_rate=5e-3, evaluate_every=40, patience=0)


def make_pairs() -> list[PromptPair]:
    """The text has words of its context's topic; a quarter of the negatives do, too."""
    return [
        PromptPair(
            f"In the {place} I saw the {one} and the {other}.", f"The {third} was near the {fourth}. It was fine."
        )
        for place, words in TOPICS.items()
        for one, other, third, fourth in itertools.permutations(words, 4)
    ][::2]


PAIRS = make_pairs()
STORIES = [f"{pair.context} {pair.text}" for pair in PAIRS]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Words of one topic lie near each other."""
    rng = np.random.default_rng(4)
    rows = {word: rng.normal(size=6) for word in ("in", "the", "i", "saw", "and", "was", "near", "it", "fine")}
    for place, words in TOPICS.items():
        centre = rng.normal(size=6) * 2
        rows |= {word: centre + rng.normal(size=6) / 2 for word in (place, *words)}
    file = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    file.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items()))
    return str(file)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    file.write_text("".join(json.dumps(pair._asdict()) + "\n" for pair in PAIRS))
    return str(file)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("stories") / "stories.jsonl"
    file.write_text("".join(json.dumps({"story": text}) + "\n" for text in [*STORIES, "One sentence.", ""]))
    return str(file)


Trained = tuple[Path, TrainingCard]


@pytest.fixture(scope="module")
def trained(data: str, vectors: str, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    out = tmp_path_factory.mktemp("models") / "ruber"
    return out, RuberRecipe(data=[data], vectors=vectors, pooling="minmax", **SETTINGS).run(out)


def measures(card: TrainingCard) -> dict[str, Any]:
    assert isinstance(card.measures, dict)
    return card.measures


def items(texts: list[str], contexts: list[str] | None = None, references: list[list[str]] | None = None) -> Items:
    return Items.of(texts, contexts=contexts, references=references)


def test_it_learns_which_texts_belong_to_a_context(trained: Trained) -> None:
    out, card = trained
    assert measures(card)["accuracy"] > 0.7
    assert card.run["contexts"] == "given"
    low, high = measures(card)["ranges"]["unreferenced"]
    assert 0 < low < 0.5 < high < 1
    assert {"training.json", "model_head.safetensors"} <= {path.name for path in out.iterdir()}
    metric = create_metric(f"ruber:model={out},part=unreferenced")
    contexts, texts = [pair.context for pair in PAIRS], [pair.text for pair in PAIRS]
    right = metric.score(items(texts, contexts))
    wrong = metric.score(items(texts[::-1], contexts))
    assert right.value > wrong.value + 0.3
    assert f"model:{out}@" in str(right.signature)
    assert create_metric(str(right.signature)).score(items(texts, contexts)).value == right.value


def test_the_parts_are_what_they_are_said_to_be(trained: Trained, vectors: str) -> None:
    from nlgauge.models.encoders.word_vectors import load_word_vectors

    table = load_word_vectors(vectors)
    text, reference, other = "The bread was near", "the oven and the soup", "a ship I saw"

    def pooled(line: str) -> Any:
        rows = np.stack([table.matrix[table.rows[word]] for word in line.lower().split() if word in table.rows])
        return np.concatenate([rows.min(axis=0), rows.max(axis=0)])

    cosines = [
        pooled(text) @ pooled(line) / np.linalg.norm(pooled(text)) / np.linalg.norm(pooled(line))
        for line in (reference, other)
    ]
    one = items([text], [PAIRS[0].context], [[other, reference]])
    parts = {
        part: create_metric(f"ruber:model={trained[0]},part={part}").score(one).value
        for part in ("referenced", "unreferenced")
    }
    assert parts["referenced"] == pytest.approx(max(cosines), rel=1e-6)
    ranges = {part: Range(*ends) for part, ends in measures(trained[1])["ranges"].items()}
    placed = [float(ranges[part].place(np.array([value]))[0]) for part, value in parts.items()]
    for blend, expected in (("mean", sum(placed) / 2), ("min", min(placed)), ("max", max(placed))):
        assert create_metric(f"ruber:model={trained[0]},blend={blend}").score(one).value == pytest.approx(expected)


def test_a_score_does_not_depend_on_its_company(trained: Trained) -> None:
    metric = create_metric(f"ruber:model={trained[0]}")
    chosen = PAIRS[:12]
    whole = metric.score(
        items([p.text for p in chosen], [p.context for p in chosen], [[q.text] for q in PAIRS[12:24]])
    ).per_item
    assert whole is not None
    for row, (pair, other) in enumerate(zip(chosen, PAIRS[12:24], strict=True)):
        alone = metric.score(items([pair.text], [pair.context], [[other.text]]))
        assert alone.value == whole["value"][row]


def test_texts_without_words_have_no_value(trained: Trained) -> None:
    metric = create_metric(f"ruber:model={trained[0]}")
    texts, references = [PAIRS[0].text, "", "zzz", PAIRS[1].text], [["bread"], ["bread"], ["bread"], ["qqq", ""]]
    score = metric.score(items(texts, [PAIRS[0].context] * 4, references))
    assert (score.n, score.excluded) == (1, 3)


def test_stories_are_cut_after_their_first_sentence(stories: str, vectors: str, tmp_path: Path) -> None:
    assert story_pair("One. Two! Three?") == PromptPair("One.", "Two! Three?")
    assert read_ruber_pairs([stories])[0] == [*PAIRS, PromptPair("One sentence.", ""), PromptPair("", "")]
    card = RuberRecipe(data=[stories], vectors=vectors, **SETTINGS).run(tmp_path / "out")
    assert card.run["contexts"] == "first sentence"
    assert card.data["empty"] == 2
    assert measures(card)["accuracy"] > 0.7
    metric = create_metric(f"ruber:model={tmp_path / 'out'},part=unreferenced")
    whole = metric.score(items([STORIES[0], "One sentence."]))
    assert whole.excluded == 1
    assert whole.value == metric.score(items([PAIRS[0].text], [PAIRS[0].context])).value


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_encoder(tmp_path_factory.mktemp("encoders") / "tiny", STORIES))


@pytest.mark.parametrize("tune", [False, True])
def test_an_encoder_reads_frozen_or_tuned(data: str, encoder: str, tmp_path: Path, tune: bool) -> None:
    settings = dict(SETTINGS, epochs=12, learning_rate=3e-3)
    card = RuberRecipe(data=[data], encoder=encoder, tune=tune, **settings).run(tmp_path / "out")
    assert card.evaluations[-1].validation_loss < card.evaluations[0].validation_loss
    assert (tmp_path / "out" / "model.safetensors").exists() == tune
    pairs = PAIRS[:6]
    score = create_metric(f"ruber:model={tmp_path / 'out'}").score(
        items([p.text for p in pairs], [p.context for p in pairs], [[p.text] for p in pairs])
    )
    assert score.n == 6
    if tune:
        before, after = (load_file(Path(place) / "model.safetensors") for place in (encoder, tmp_path / "out"))
        same = {name for name in after if torch.equal(after[name], before[name])}
        assert same == {"embeddings.word_embeddings.weight"}
    moved = tmp_path / "moved"
    shutil.copytree(tmp_path / "out", moved)
    card_file = moved / "training.json"
    write_document(card_file, json.loads(card_file.read_text().replace(encoder, "/nowhere/encoder")))
    with pytest.raises(ModelError, match=r"was trained with /nowhere/encoder@.*, which is not available"):
        create_metric(f"ruber:model={moved}").score(items(["a"], ["b"], [["c"]]))


def test_a_killed_run_ends_with_the_same_weights(data: str, vectors: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    settings = dict[str, Any](epochs=60, patience=0)
    RuberRecipe(data=[data], vectors=vectors, **settings).run(whole)
    command = [
        *COMMAND, "train", "ruber", "--data", data, "--output", str(killed), "--vectors", vectors, "--epochs", "60",
        "--patience", "0", "--threads", "1", "--no-progress",
    ]  # fmt: skip
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(tmp_path / "cache"))
    assert run.stderr is not None
    for _ in range(5):
        next(line for line in run.stderr if "accuracy" in line)
    assert run.poll() is None
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stderr.close()
    said: list[str] = []
    RuberRecipe(data=[data], vectors=vectors, **settings).run(killed, say=said.append)
    assert any(line.startswith("resuming from step") for line in said)
    name = "model_head.safetensors"
    assert (killed / name).read_bytes() == (whole / name).read_bytes()


def test_the_command_trains_and_scores(stories: str, vectors: str, tmp_path: Path) -> None:
    run = ["train", "ruber", "--data", stories, "--output", "r", "--vectors", vectors, "--max-steps", "20"]
    done = nlgauge(*run, "--no-progress", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 0, done.err
    assert "unreferenced" in done.out
    both = nlgauge(*run, "--encoder", "minilm", cwd=tmp_path, cache=tmp_path / "cache")
    assert both.code == 2
    assert "expected one of them" in both.err


def test_what_does_not_fit_is_refused(trained: Trained, data: str, stories: str, vectors: str, tmp_path: Path) -> None:
    spec = f"ruber:model={trained[0]}"
    with pytest.raises(DataError, match="has no reference"):
        create_metric(spec).score(items(["a"], ["b"]))
    with pytest.raises(DataError, match=r"has no context, and .* was trained on pairs"):
        create_metric(f"{spec},part=unreferenced").score(items(["a"]))
    with pytest.raises(OptionError, match="blend=min with part=referenced"):
        create_metric(f"{spec},part=referenced,blend=min").score(items(["a"], None, [["b"]]))
    with pytest.raises(OptionError, match="has no model; expected ruber:model=FOLDER"):
        create_metric("ruber").score(items(["a"], ["b"], [["c"]]))
    with pytest.raises(
        ModelError, match="a model of `nlgauge train ruber`; expected a folder that `nlgauge train union`"
    ):
        create_metric(f"union:model={trained[0]}").score(items(["a"]))
    with pytest.raises(ModelError, match="no such folder"):
        load_ruber(str(tmp_path / "nowhere"))
    with pytest.raises(OptionError, match="word vectors, which are not tuned"):
        RuberRecipe(data=[data], vectors=vectors, tune=True).run(tmp_path / "out")
    with pytest.raises(OptionError, match="pooling=sum"):
        RuberRecipe(data=[data], vectors=vectors, pooling="sum").run(tmp_path / "out")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"has contexts and .* has none"):
        RuberRecipe(data=[data, stories], vectors=vectors).run(tmp_path / "out")
    (tmp_path / "few.txt").write_text("A story. It ends.\n" * 5)
    with pytest.raises(DataError, match="found 5 texts to train on"):
        RuberRecipe(data=[str(tmp_path / "few.txt")], vectors=vectors).run(tmp_path / "out")
    (tmp_path / "same.jsonl").write_text(
        "".join(json.dumps({"context": "In", "text": f"saw {i}"}) + "\n" for i in range(60))
    )
    with pytest.raises(DataError):
        RuberRecipe(data=[str(tmp_path / "same.jsonl")], vectors=vectors).run(tmp_path / "out")
