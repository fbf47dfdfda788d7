"""Dialog data that is wrong or awkward, through the real command: what it says, where, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nlgauge.metrics.registry import BUNDLES, measurable_metrics
from nlgauge.models.language.ngram import NgramModel
from tests.helpers import Outcome
from tests.helpers import nlgauge as command
from tests.models.test_language_models import tokenizer_in

IDK = "I don't know."
TRAINING = ["Where is the cat? It is at home.", "Where is the dog? I don't know.", "Do you like tea? Yes, I like tea."]
GOOD = {"id": "first", "text": "a cat sat", "references": ["the cat sat", "a cat"]}
WINDOW = 32


@pytest.fixture(scope="module")
def ngram(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("ngram") / "model"
    NgramModel.train(TRAINING).save(folder)
    return f"ngram:{folder}"


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A causal model of random weights that sees 32 tokens."""
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("causal")
    tokenizer_in(folder)
    library: Any = transformers
    sizes = {"vocab_size": 120, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": WINDOW}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = library.GPT2Config(**sizes, pad_token_id=0, eos_token_id=1, bos_token_id=3)
        library.GPT2LMHeadModel(config).save_pretrained(folder, safe_serialization=True)
    return str(folder)


def write(path: Path, records: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def pairs(*of: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"id": f"p{place}", "context": context, "text": text} for place, (context, text) in enumerate(of, 1)]


def run(folder: Path, *arguments: str) -> Outcome:
    return command(*arguments, cwd=folder, cache=folder / "cache")


def refused(done: Outcome, *says: str) -> None:
    """Exit code 2, nothing on standard output, and one line that says all of this."""
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("nlgauge: error: ")
    assert done.err.count("\n") == 1
    assert all(words in done.err for words in says), done.err


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({}, "line 2, column 'references': item 'second' has no reference"),
        ({"references": None}, "line 2, column 'references': item 'second' has no reference"),
        ({"references": []}, "line 2, column 'references': item 'second' has no reference"),
        ({"references": ["a", None]}, "line 2, column 'references': reference 1 is null; expected text"),
        ({"references": ["a", 5]}, "line 2, column 'references': reference 1 is int 5; expected text"),
        ({"references": [["a"]]}, "line 2, column 'references': reference 0 is list ['a']; expected text"),
    ],
)
def test_references_that_are_missing_or_nested_are_refused_with_their_place(
    tmp_path: Path, bad: dict[str, Any], says: str
) -> None:
    write(tmp_path / "out.jsonl", [GOOD, {"id": "second", "text": "a dog", **bad}])
    refused(run(tmp_path, "score", "out.jsonl", "-m", "bleu", "-m", "rouge-l"), "out.jsonl, ", says)


def test_texts_without_any_references_are_refused_by_the_name_of_the_first(tmp_path: Path) -> None:
    write(tmp_path / "out.jsonl", [{"id": "first", "text": "a cat"}, {"id": "second", "text": "a dog"}])
    refused(
        run(tmp_path, "score", "out.jsonl", "-m", "bleu"),
        "out.jsonl: item 'first' has no reference, and bleu compares every text with its own references",
    )


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (2, "references.txt: has 2 lines, fewer than out.txt has lines; expected one line for each"),
        (4, "references.txt: has more lines than out.txt has lines (3); expected one line for each"),
    ],
)
def test_ragged_or_transposed_references_beside_a_text_file_are_refused(tmp_path: Path, lines: int, says: str) -> None:
    (tmp_path / "out.txt").write_text("a cat\na dog\na bird\n")
    (tmp_path / "references.txt").write_text("the cat\n" * lines)
    refused(run(tmp_path, "score", "out.txt", "-m", "bleu", "--aligned", "references=references.txt"), says)


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        (("Who is it?", " "), "test.jsonl, column 'text': item 'p2' has no reference"),
        ((" ", "Nobody."), "test.jsonl, column 'context': item 'p2' has an empty prompt"),
    ],
)
def test_ruq_names_the_item_without_a_reference_or_a_prompt(
    ngram: str, tmp_path: Path, pair: tuple[str, str], says: str
) -> None:
    write(tmp_path / "test.jsonl", pairs(("Where is the cat?", "At home."), pair))
    refused(run(tmp_path, "study", "ruq", "--model", ngram, "--test", "test.jsonl"), says)


def test_a_reference_that_is_the_generic_is_a_tie_and_said_so(ngram: str, tmp_path: Path) -> None:
    write(tmp_path / "test.jsonl", pairs(("Where is the dog?", "i  DON'T know."), ("Do you like tea?", "I like tea.")))
    arguments = ["study", "ruq", "--model", ngram, "--test", "test.jsonl", "--generic", IDK]
    done = run(tmp_path, *arguments)
    assert done.code == 0, done.err
    assert f'1 of 2 references of test are "{IDK}": ties, counted as lost' in done.out
    values = {}
    for ties in ("lose", "half", "win"):
        document = json.loads(run(tmp_path, *arguments, "--ties", ties, "--format", "json").out)
        values[ties] = document["rows"][0]["ruq"]
        assert document["rows"][0]["ties"] == 1
    assert values["half"] - values["lose"] == values["win"] - values["half"] == 0.25


def test_a_prompt_beyond_the_models_window_is_said(causal: str, tmp_path: Path) -> None:
    write(tmp_path / "long.jsonl", pairs(("a", "b"), ("one long prompt " * WINDOW, "b"), ("c", "d")))
    write(tmp_path / "short.jsonl", pairs(("a", "b"), ("c", "d")))
    arguments = ["study", "ruq", "--model", causal, "--generic", "e", "--threads", "1"]
    long, short = (run(tmp_path, *arguments, "--test", name) for name in ("long.jsonl", "short.jsonl"))
    assert (long.code, short.code) == (0, 0), long.err + short.err
    assert "1 of 3 prompts of test are beyond the model's window: cut from the left" in long.out
    assert "window" not in short.out


def test_a_dialog_of_one_turn_gives_no_pair_and_is_counted(ngram: str, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("Hello . __eou__\n")
    (tmp_path / "some.txt").write_text(
        "Hello . __eou__\nHi . __eou__ Who is it ? __eou__\nYes ? __eou__ No . __eou__\n"
    )
    says = "all 1 dialogs have one turn only; expected at least one reply"
    for arguments in (["filter", "entropy", "one.txt"], ["data", "pairs", "one.txt", "-o", "pairs.jsonl"]):
        refused(run(tmp_path, *arguments), "one.txt", says)
    assert not (tmp_path / "pairs.jsonl").exists()
    done = run(tmp_path, "filter", "entropy", "some.txt", "--kept", "kept.jsonl")
    assert done.code == 0, done.err
    assert "nlgauge: warning: some.txt: 1 of 3 dialogs have one turn only and give no pair" in done.err
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 2


def test_without_java_meteor_is_refused_before_anything_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write(tmp_path / "out.jsonl", [GOOD])
    done = run(tmp_path, "score", "out.jsonl", "-m", "bleu", "-m", "meteor", "--per-item", "values.csv")
    refused(done, "no 'java' was found on the PATH; install a Java runtime, version 17", "apt install openjdk-17")
    assert not (tmp_path / "values.csv").exists()


def test_without_java_the_dialog_metrics_run_but_for_meteor_which_is_named_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path / "no-models"))
    write(tmp_path / "out.jsonl", [GOOD])
    done = run(tmp_path, "score", "out.jsonl", "-m", "dialog", "--format", "json", "--no-progress")
    first = done.err.splitlines()[0]
    assert "dialog: meteor:over=corpus is skipped: meteor is a Java program, and no 'java' was found" in first
    named = [score["label"] for score in json.loads(done.out)["scores"]]
    assert {"bleu", "rouge-l"} <= {label.partition(":")[0] for label in named}
    assert {"ttr", "ttr:n=2", "ttr:n=3"} <= set(named)
    assert not any(label.startswith("meteor") for label in named)


def test_parts_that_cannot_be_measured_come_with_their_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path))
    made, unmeasured = measurable_metrics(["dialog", "distinct"])
    assert [one.metric for one in unmeasured] == [
        "meteor:over=corpus", "embed-average", "vector-extrema", "greedy", "sent-cos",
    ]  # fmt: skip
    assert {one.bundle for one in unmeasured} == {"dialog"}
    assert "install a Java runtime" in unmeasured[0].reason
    assert len(made) == len(BUNDLES["dialog"]) + 1 - len(unmeasured)
