"""The tester writes the same sets whatever happens to it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlgauge
from nlgauge.data.reading import read_sets
from nlgauge.errors import DataError, OptionError, OutputError
from nlgauge.models.language import Sampling, load_language_model
from nlgauge.models.ngram import NgramModel
from nlgauge.models.tester import GenerationPlan, Sweep, generate_sets, read_contexts
from tests.helpers import nlgauge as command_line


@pytest.fixture(scope="module")
def model(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = [text for name in "ab" for text in read_sets(str(examples / f"system_{name}.jsonl")).texts]
    folder = tmp_path_factory.mktemp("ngram") / "model"
    NgramModel.train(texts, order=3).save(folder)
    return f"ngram:{folder}"


def command(examples: Path, model: str, output: Path, *more: str) -> list[str]:
    program = [
        sys.executable,
        "-m",
        "nlgauge.cli.main",
        "generate",
        str(examples / "system_a.jsonl"),
        "-o",
        str(output),
    ]
    sweep = ["--sweep", "temperature=0.2:1.6:20", "--responses", "5", "--limit", "10", "--no-progress"]
    return [*program, "--model", model, *sweep, *more]


@pytest.fixture(scope="module")
def undisturbed(examples: Path, model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("sets") / "sets.jsonl"
    subprocess.run(command(examples, model, output), check=True, capture_output=True)
    return output


def test_a_killed_run_goes_on_and_gives_the_same_file(
    examples: Path, model: str, undisturbed: Path, tmp_path: Path
) -> None:
    output = tmp_path / "sets.jsonl"
    journal = tmp_path / ".sets.jsonl.journal"
    running = subprocess.Popen(command(examples, model, output), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 60):
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert not output.exists()
    with journal.open("ab") as file:
        file.write(b'{"id": "cut short')
    done_before = journal.read_bytes().count(b"\n")
    subprocess.run(command(examples, model, output), check=True, capture_output=True)
    assert 60 < done_before < 201
    assert output.read_bytes() == undisturbed.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sets.jsonl"]


def test_metrics_rise_with_temperature(undisturbed: Path) -> None:
    sets = read_sets(str(undisturbed))
    assert len(sets) == 200
    assert set(sets.sizes.tolist()) == {5}
    score = nlgauge.score(sets, ["distinct"])[0]
    assert score.per_item is not None
    table = pl.DataFrame({"value": score.per_item["value"], "temperature": sets.frame["temperature"]})
    rho = table.select(pl.corr("value", "temperature", method="spearman")).item()
    assert rho > 0.5


def test_a_response_depends_on_its_own_context_and_value_only(model: str, tmp_path: Path) -> None:
    loaded = load_language_model(model)
    contexts = [("one", "I like to"), ("two", "She went to")]
    plan = GenerationPlan(
        model="ngram",
        sweep=Sweep("temperature", (0.5, 1.0)),
        sampling=Sampling(max_new_tokens=8),
        responses=3,
        seed=1,
    )
    both = generate_sets(loaded, contexts, plan, tmp_path / "both.jsonl")
    single = replace(plan, sweep=Sweep("temperature", (1.0,)))
    alone = generate_sets(loaded, contexts[1:], single, tmp_path / "x.jsonl")
    wanted = both.filter((pl.col("context_id") == "two") & (pl.col("temperature") == 1.0))
    assert wanted["responses"].to_list() == alone["responses"].to_list()


class Watched(NgramModel):
    """A model that counts the rows of each call."""

    def generate(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[str]:
        self.calls = [*getattr(self, "calls", []), len(prompts)]
        return super().generate(prompts, sampling, seeds)


SMALL_PLAN = GenerationPlan(
    model="ngram", sweep=Sweep("temperature", (0.5, 1.0)), sampling=Sampling(max_new_tokens=5), responses=50, seed=1
)
SMALL_CONTEXTS = [(str(i), f"the {animal}") for i, animal in enumerate(("cat", "dog", "bird", "fish", "cow"))]


def test_sets_of_one_value_are_written_several_a_call(tmp_path: Path) -> None:
    watched = Watched.train(["the cat sat on the mat", "the dog saw the cat"], order=2)
    assert isinstance(watched, Watched)
    generate_sets(watched, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "sets.jsonl")
    assert watched.calls == [100, 100, 50] * 2


def test_a_batch_that_was_kept_in_part_is_computed_again_as_a_whole(tmp_path: Path) -> None:
    watched = Watched.train(["the cat sat on the mat", "the dog saw the cat"], order=2)
    assert isinstance(watched, Watched)
    whole = generate_sets(watched, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "whole.jsonl")
    kept = [{"id": row["id"], "responses": row["responses"]} for row in whole.head(3).to_dicts()]
    lines = [{"run": SMALL_PLAN.digest(SMALL_CONTEXTS)}, *kept]
    (tmp_path / ".cut.jsonl.journal").write_text("".join(json.dumps(line) + "\n" for line in lines))
    watched.calls = []
    generate_sets(watched, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "cut.jsonl")
    assert watched.calls == [100, 50, 100, 100, 50]
    assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_run_from_before_decoding_changed_is_not_resumed(model: str, tmp_path: Path) -> None:
    about = json.dumps([asdict(SMALL_PLAN), SMALL_CONTEXTS], ensure_ascii=False, default=str)
    before = hashlib.blake2b(about.encode("utf-8"), digest_size=16).hexdigest()
    (tmp_path / ".out.jsonl.journal").write_text(json.dumps({"run": before}) + "\n")
    with pytest.raises(OutputError, match="other settings or contexts"):
        generate_sets(load_language_model(model), SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "out.jsonl")


def test_another_run_is_not_resumed(model: str, tmp_path: Path) -> None:
    (tmp_path / ".out.jsonl.journal").write_text('{"run": "another"}\n')
    plan = GenerationPlan(model="ngram", sweep=Sweep("temperature", (1.0,)), sampling=Sampling(), responses=1, seed=1)
    with pytest.raises(OutputError, match="other settings or contexts"):
        generate_sets(load_language_model(model), [("a", "b")], plan, tmp_path / "out.jsonl")


def test_smollm2_is_a_tester(smollm2: str, tmp_path: Path) -> None:
    contexts = tmp_path / "contexts.txt"
    contexts.write_text("On my way home I\n")
    output = tmp_path / "sets.csv"
    arguments = ["--sweep", "top_p=0.5,1.0", "--responses", "2", "--max-new-tokens", "8", "--no-progress"]
    program = [sys.executable, "-m", "nlgauge.cli.main", "generate", str(contexts), "-o", str(output)]
    subprocess.run([*program, "--model", smollm2, *arguments], check=True, capture_output=True, env=dict(os.environ))
    sets = read_sets(str(output), columns=nlgauge.Columns(empty_cells="keep"))
    assert sets.frame["top_p"].to_list() == [0.5, 1.0]
    assert sets.sizes.tolist() == [2, 2]


def test_a_model_that_begins_with_a_line_break_writes_the_line_after_it(smollm2: str) -> None:
    import torch

    threads = torch.get_num_threads()
    model = load_language_model(smollm2, threads=1)
    prompts = ["Do you want to go for a swim this afternoon?", "I just failed my driving test.", "What did you think?"]
    try:
        (breaks,) = model.score(prompts[:1], [["\n"]])[0]
        assert np.exp(breaks.total) > 0.3
        for sampling in (Sampling(temperature=0, max_new_tokens=12), Sampling(beams=2, max_new_tokens=8)):
            alone = model.generate(prompts[:1], sampling, [0])
            assert len(alone[0]) > 10
            assert "\n" not in alone[0]
            assert model.generate(prompts, sampling, [0, 0, 0])[:1] == alone
        drawn = model.generate(prompts[:1] * 20, Sampling(temperature=0.7, max_new_tokens=12), range(20))
        assert sum(not text for text in drawn) <= 4
        assert not any("\n" in text for text in drawn)
        assert model.generate(prompts[:1], Sampling(temperature=0, max_new_tokens=1), [0]) == [""]
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("text", "stop", "left"),
    [
        ("\n\n Yes. \nNo.", ("\n",), "Yes."),
        (" \n\t", ("\n",), ""),
        ("\nYes.", (), "Yes."),
        (" a dog. A cat", ("cat", "."), "a dog"),
        ("\n\ndog", ("dog",), ""),
        ("\nQ: Why?\nQ: How?", ("\nQ:",), "Q: Why?"),
        ("\u3000\u2028so\n", ("\n",), "so"),
    ],
)
def test_white_space_at_the_beginning_does_not_stop_a_continuation(text: str, stop: tuple[str, ...], left: str) -> None:
    sampling = Sampling(stop=stop)
    assert sampling.cut(text) == left
    assert sampling.stops(text) == any(part in text.lstrip() for part in stop)


@given(st.text("\n ab", max_size=12), st.text("\n ab", min_size=1, max_size=3))
def test_stopping_while_writing_and_cutting_afterwards_agree(text: str, stop: str) -> None:
    sampling = Sampling(stop=(stop,))
    written = next((text[:end] for end in range(len(text) + 1) if sampling.stops(text[:end])), text)
    assert sampling.cut(written) == sampling.cut(text)


def test_sweeps_are_linear_or_logarithmic() -> None:
    assert Sweep.parse("temperature=0.2:1.0:5").values == (0.2, 0.4, 0.6, 0.8, 1.0)
    assert Sweep.parse("top-k=1:1000:4").values == (1.0, 10.0, 100.0, 1000.0)
    assert np.isclose(Sweep.parse("top_p=0.3,0.9").values, (0.3, 0.9)).all()


@pytest.mark.parametrize("bad", ["warmth=1:2:3", "temperature", "temperature=a:b:c", "temperature=1:2", "top_p=x"])
def test_a_bad_sweep_is_a_clear_error(bad: str) -> None:
    with pytest.raises(OptionError, match="expected"):
        Sweep.parse(bad)


@pytest.mark.parametrize(("sweep", "responses"), [("top_p=1.5", 1), ("temperature=1", 0)])
def test_a_bad_plan_is_refused_before_any_work(sweep: str, responses: int) -> None:
    with pytest.raises(OptionError, match="expected"):
        GenerationPlan(model="m", sweep=Sweep.parse(sweep), sampling=Sampling(), responses=responses, seed=1)


@pytest.mark.parametrize("column", ["context", "prompt"])
def test_a_table_of_prompts_alone_is_enough(tmp_path: Path, column: str) -> None:
    file = tmp_path / "prompts.csv"
    file.write_text(f"id,{column}\n7,Where to?\n8,What now?\n9,Where to?\n")
    assert read_contexts(str(file)) == [("7", "Where to?"), ("8", "What now?")]


def test_a_file_without_contexts_is_a_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "sets.jsonl"
    file.write_text('{"responses": ["a", "b"]}\n')
    with pytest.raises(DataError, match="contexts are missing"):
        read_contexts(str(file))


def test_empty_responses_are_told_and_a_template_may_break_lines(tmp_path: Path) -> None:
    NgramModel.train(["well, yes", "oh, yes", "no"], order=2).save(tmp_path / "terse")
    (tmp_path / "contexts.txt").write_text("oh, yes\n")
    arguments = ["contexts.txt", "--model", "ngram:terse", "--sweep", "temperature=0", "--responses", "2"]
    folders: dict[str, Any] = {"cwd": tmp_path, "cache": tmp_path / "cache"}
    run = command_line("generate", "-o", "a.jsonl", *arguments, "--no-progress", **folders)
    assert run.code == 0, run.err
    assert "2 of 2 responses are empty: the model ended there" in run.err
    assert "a template such as" in run.err
    lines = ["--template", r"{context}\nno, well,"]
    run = command_line("generate", "-o", "b.jsonl", *arguments, *lines, "--no-progress", **folders)
    assert "empty" not in run.err
    assert read_sets(str(tmp_path / "b.jsonl")).texts.to_list() == ["yes", "yes"]
