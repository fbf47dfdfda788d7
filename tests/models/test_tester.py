"""The tester writes the same sets whatever happens to it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlgauge
from nlgauge.data.reading import read_sets
from nlgauge.engine.run_folder import RunFolder
from nlgauge.errors import DataError, ModelError, OptionError, OutputError
from nlgauge.models.language.base import Continuation, Sampling, load_language_model
from nlgauge.models.language.ngram import NgramModel
from nlgauge.models.language.tester import (
    GenerationBatch,
    GenerationPlan,
    ParameterSweep,
    WriteSets,
    generate_sets,
    read_contexts,
)
from tests.helpers import nlgauge as command_line
from tests.helpers import write_document

SMALL_PLAN = GenerationPlan(
    model="ngram", sweep=ParameterSweep("temperature=0.5,1.0"), max_new_tokens=5, responses_per_set=50, seed=1
)
SMALL_CONTEXTS = [(str(i), f"the {animal}") for i, animal in enumerate(("cat", "dog", "bird", "fish", "cow"))]


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
    sweep = ["--sweep", "temperature=0.2:1.6:40", "--responses-per-set", "5", "--limit", "10", "--no-progress"]
    return [*program, "--model", model, *sweep, *more]


@pytest.fixture(scope="module")
def undisturbed(examples: Path, model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("sets") / "sets.jsonl"
    subprocess.run(command(examples, model, output), check=True, capture_output=True)
    return output


def stopped_in_the_middle(arguments: list[str], run: Path, how: signal.Signals) -> tuple[int, dict[str, int]]:
    """The exit code of a run that got a signal after some pieces, and when each piece that it left was written."""
    running = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(run.glob("pieces/0*"))) < 8:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.send_signal(how)
    code = running.wait()
    return code, written_when(run)


def written_when(run: Path) -> dict[str, int]:
    return {place.name: place.stat().st_mtime_ns for place in run.glob("pieces/0*")}


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_a_stopped_run_goes_on_and_gives_the_same_file(
    examples: Path, model: str, undisturbed: Path, tmp_path: Path, how: signal.Signals, code: int
) -> None:
    output = tmp_path / "sets.jsonl"
    found, kept = stopped_in_the_middle(command(examples, model, output), tmp_path / ".sets.jsonl.run", how)
    assert (found, output.exists()) == (code, False)
    assert 8 <= len(kept) < 40
    subprocess.run(command(examples, model, output), check=True, capture_output=True)
    assert output.read_bytes() == undisturbed.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sets.jsonl"]


@pytest.mark.parametrize(("before", "after"), [("2", "1"), ("1", "2")])
def test_a_killed_run_goes_on_with_another_number_of_workers(
    examples: Path, model: str, undisturbed: Path, tmp_path: Path, before: str, after: str
) -> None:
    output, run = tmp_path / "sets.jsonl", tmp_path / "run"
    first = command(examples, model, output, "--run", str(run), "--workers", before)
    _, kept = stopped_in_the_middle(first, run, signal.SIGKILL)
    assert not output.exists()
    assert 8 <= len(kept) < 40
    second = command(examples, model, output, "--run", str(run), "--workers", after)
    subprocess.run(second, check=True, capture_output=True)
    assert output.read_bytes() == undisturbed.read_bytes()
    now = written_when(run)
    assert len(now) == 40
    assert {name: now[name] for name in kept} == kept


def test_pieces_of_a_run_are_scored_like_its_output(model: str, tmp_path: Path) -> None:
    output, run = tmp_path / "sets.jsonl", tmp_path / "run"
    written = generate_sets(load_language_model(model), SMALL_CONTEXTS, SMALL_PLAN, output, folder=run)
    pieces = str(run / "pieces" / "*" / "*.parquet")
    assert read_sets(pieces).to_polars().select(written.columns).equals(written)
    scores = {
        file: nlgauge.score(file, ["distinct", "self-bleu", "distinct:over=corpus"]) for file in (str(output), pieces)
    }
    ours, theirs = ([(score.label, score.value, score.n) for score in found] for found in scores.values())
    assert ours == theirs


def test_metrics_rise_with_temperature(undisturbed: Path) -> None:
    sets = read_sets(str(undisturbed))
    assert len(sets) == 400
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
        sweep=ParameterSweep("temperature=0.5,1.0"),
        max_new_tokens=8,
        responses_per_set=3,
        seed=1,
    )
    both = generate_sets(loaded, contexts, plan, tmp_path / "both.jsonl")
    single = replace(plan, sweep=ParameterSweep("temperature=1.0"))
    alone = generate_sets(loaded, contexts[1:], single, tmp_path / "x.jsonl")
    wanted = both.filter((pl.col("context_id") == "two") & (pl.col("temperature") == 1.0))
    assert wanted["responses"].to_list() == alone["responses"].to_list()


class Watched(NgramModel):
    """A model that counts the rows of each call."""

    def sample(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[Continuation]:
        self.calls = [*getattr(self, "calls", []), len(prompts)]
        return super().sample(prompts, sampling, seeds)


def test_sets_of_one_value_are_written_several_a_call(tmp_path: Path) -> None:
    watched = Watched.train(["the cat sat on the mat", "the dog saw the cat"], order=2)
    assert isinstance(watched, Watched)
    generate_sets(watched, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "sets.jsonl")
    assert watched.calls == [100, 100, 50] * 2


@pytest.mark.parametrize("harm", ["cut short", "gone"])
def test_a_damaged_piece_is_written_again(tmp_path: Path, harm: str) -> None:
    watched = Watched.train(["the cat sat on the mat", "the dog saw the cat"], order=2)
    assert isinstance(watched, Watched)
    output, run = tmp_path / "sets.jsonl", tmp_path / "run"
    generate_sets(watched, SMALL_CONTEXTS, SMALL_PLAN, output, folder=run)
    whole = output.read_bytes()
    (damaged,) = (run / "pieces" / "000002").glob("*.parquet")
    if harm == "gone":
        damaged.unlink()
    else:
        damaged.write_bytes(damaged.read_bytes()[:-10])
    output.unlink()
    watched.calls = []
    with pytest.warns(UserWarning, match=f"000002: damaged: {damaged.name}"):
        generate_sets(watched, SMALL_CONTEXTS, SMALL_PLAN, output, folder=run)
    assert watched.calls == [50]
    assert output.read_bytes() == whole


@pytest.mark.parametrize(
    ("other", "contexts", "difference"),
    [
        ({"seed": 2}, SMALL_CONTEXTS, "seed was 1, now 2;"),
        ({"sweep": ParameterSweep("temperature=0.5,0.9")}, SMALL_CONTEXTS, "temperature had 1.0, now 0.9;"),
        ({"sweep": ParameterSweep("top_p=0.5,1.0")}, SMALL_CONTEXTS, r"top_p was 1.0, now \[0.5, 1.0\];"),
        ({"max_new_tokens": 6}, SMALL_CONTEXTS, "max_new_tokens was 5, now 6;"),
        ({}, SMALL_CONTEXTS[1:], "contexts was 5, now 4; digest of contexts was"),
        ({}, [*SMALL_CONTEXTS[1:], ("4", "the ox")], ": digest of contexts was"),
    ],
)
def test_another_run_is_not_resumed(
    tmp_path: Path, other: dict[str, Any], contexts: list[tuple[str, str]], difference: str
) -> None:
    small = NgramModel.train(["the cat sat on the mat", "the dog saw the cat"], order=2)
    generate_sets(small, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "out.jsonl", folder=tmp_path / "run")
    before = (tmp_path / "out.jsonl").read_bytes()
    with pytest.raises(OptionError, match=f"holds another run.*{difference}"):
        generate_sets(small, contexts, replace(SMALL_PLAN, **other), tmp_path / "out.jsonl", folder=tmp_path / "run")
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_a_run_of_another_model_under_the_same_name_is_not_resumed(tmp_path: Path) -> None:
    before, after = (NgramModel.train(texts, order=2) for texts in (["the cat sat"], ["the cat ran"]))
    generate_sets(before, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "out.jsonl", folder=tmp_path / "run")
    with pytest.raises(OptionError, match=f"weights was {before.fingerprint}, now {after.fingerprint};"):
        generate_sets(after, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "out.jsonl", folder=tmp_path / "run")


def test_a_run_from_before_decoding_changed_is_not_resumed(model: str, tmp_path: Path) -> None:
    loaded, run = load_language_model(model), tmp_path / "run"
    generate_sets(loaded, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "out.jsonl", folder=run)
    manifest = run / "manifest.json"
    write_document(manifest, {**json.loads(manifest.read_text()), "decoding": 1})
    with pytest.raises(OptionError, match="holds another run: decoding was 1, now 2;"):
        generate_sets(loaded, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "out.jsonl", folder=run)


def test_a_worker_with_other_weights_is_refused(model: str, tmp_path: Path) -> None:
    work = WriteSets(RunFolder(tmp_path / "run"), replace(SMALL_PLAN, model=model), "0123456789ab")
    with pytest.raises(ModelError, match="expected 0123456789ab, as where the run began: put the same model"):
        work(GenerationBatch("000000", SMALL_CONTEXTS, 0.5))


def test_two_runs_on_one_output_are_refused(examples: Path, model: str, tmp_path: Path) -> None:
    with RunFolder(tmp_path / ".sets.jsonl.run").held():
        second = subprocess.run(command(examples, model, tmp_path / "sets.jsonl"), capture_output=True, text=True)
    assert second.returncode == 2
    assert f"process {os.getpid()} on " in second.stderr
    assert "expected one run at a time" in second.stderr
    assert not (tmp_path / "sets.jsonl").exists()


def test_a_full_disk_says_so_and_the_run_goes_on_later(tmp_path: Path) -> None:
    small = NgramModel.train(["the cat sat on the mat", "the dog saw the cat"], order=2)
    whole = generate_sets(small, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "whole.jsonl")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(OutputError, match=r"File too large.*finished pieces are kept: free some space"):
            generate_sets(small, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "sets.jsonl")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "sets.jsonl").exists()
    assert generate_sets(small, SMALL_CONTEXTS, SMALL_PLAN, tmp_path / "sets.jsonl").equals(whole)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sets.jsonl", "whole.jsonl"]


def test_no_contexts_are_a_clear_error(model: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found no contexts; expected at least one"):
        generate_sets(load_language_model(model), [], SMALL_PLAN, tmp_path / "out.jsonl")


def test_smollm2_is_a_tester(smollm2: str, tmp_path: Path) -> None:
    contexts = tmp_path / "contexts.txt"
    contexts.write_text("On my way home I\n")
    output = tmp_path / "sets.csv"
    arguments = ["--sweep", "top_p=0.5,1.0", "--responses-per-set", "2", "--max-new-tokens", "8", "--no-progress"]
    program = [sys.executable, "-m", "nlgauge.cli.main", "generate", str(contexts), "-o", str(output)]
    subprocess.run([*program, "--model", smollm2, *arguments], check=True, capture_output=True, env=dict(os.environ))
    sets = read_sets(str(output), empty_cells="keep")
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
    assert ParameterSweep("temperature=0.2:1.0:5").values == (0.2, 0.4, 0.6, 0.8, 1.0)
    assert ParameterSweep("top-k=1:1000:4").values == (1.0, 10.0, 100.0, 1000.0)
    assert ParameterSweep("top-k=1000:1:4").values == (1000.0, 100.0, 10.0, 1.0)
    assert np.isclose(ParameterSweep("top_p=0.3,0.9").values, (0.3, 0.9)).all()


@given(st.integers(1, 40), st.integers(1, 400), st.data())
def test_a_logarithmic_sweep_has_as_many_values_as_asked(low: int, width: int, data: st.DataObject) -> None:
    high = low + width
    count = data.draw(st.integers(2, width + 1))
    values = ParameterSweep(f"top_k={low}:{high}:{count}").values
    assert len(values) == count
    assert (values[0], values[-1]) == (low, high)
    assert all(a < b and a.is_integer() for a, b in pairwise(values))
    with pytest.raises(OptionError, match=f"there are {width + 1} whole numbers"):
        ParameterSweep(f"top_k={low}:{high}:{width + 2}")


def test_the_sweep_of_the_paper_has_a_hundred_values_of_k() -> None:
    assert len(ParameterSweep("top_k=1:30000:100").values) == 100


@pytest.mark.parametrize(
    "bad",
    [
        "temperature=1:1:2",
        "top_p=0.5:1:0",
        "warmth=1:2:3",
        "temperature",
        "temperature=a:b:c",
        "temperature=1:2",
        "top_p=x",
    ],
)
def test_a_bad_sweep_is_a_clear_error(bad: str) -> None:
    with pytest.raises(OptionError, match="expected"):
        ParameterSweep(bad)


@pytest.mark.parametrize(("sweep", "responses"), [("top_p=1.5", 1), ("temperature=1", 0)])
def test_a_bad_plan_is_refused_before_any_work(sweep: str, responses: int) -> None:
    with pytest.raises(OptionError, match="expected"):
        GenerationPlan(model="m", sweep=ParameterSweep(sweep), responses_per_set=responses, seed=1)


def test_a_plan_is_made_again_from_its_signature() -> None:
    assert GenerationPlan.from_options(SMALL_PLAN.signature.options) == SMALL_PLAN
    assert SMALL_PLAN.spec.startswith("generate:model=ngram,sweep=temperature=0.5%2C1.0,")


@pytest.mark.parametrize("column", ["context", "prompt"])
def test_a_table_of_prompts_alone_is_enough(tmp_path: Path, column: str) -> None:
    file = tmp_path / "prompts.csv"
    file.write_text(f"id,{column}\n7,Where to?\n8,What now?\n9,Where to?\n7,Where to?\n")
    assert read_contexts(str(file)) == [("7", "Where to?"), ("8", "What now?"), ("9", "Where to?")]
    file.write_text(f"id,{column}\n7,Where to?\n7,What now?\n")
    with pytest.raises(DataError, match="the id '7' has several contexts"):
        read_contexts(str(file))


def test_contexts_of_equal_text_are_answered_apart(model: str, tmp_path: Path) -> None:
    loaded = load_language_model(model)
    plan = replace(SMALL_PLAN, responses_per_set=5, max_new_tokens=12)
    contexts = [("a", "I like to"), ("b", "We went"), ("c", "I like to")]
    sets = generate_sets(loaded, contexts, plan, tmp_path / "sets.jsonl")
    assert sets["context_id"].to_list() == ["a", "b", "c"] * 2
    responses = dict(zip(sets["id"], sets["responses"].to_list(), strict=True))
    assert responses["a@1"] != responses["c@1"]
    alone = generate_sets(loaded, contexts[:2], plan, tmp_path / "two.jsonl")
    assert sets.filter(pl.col("context_id") != "c").equals(alone)


def test_each_context_has_one_value_that_is_drawn(model: str, tmp_path: Path) -> None:
    plan = GenerationPlan(
        model="ngram",
        sweep=ParameterSweep("temperature=0.5:1.5:5"),
        design="one-value-per-context",
        responses_per_set=2,
    )
    contexts = [(f"c{i}", f"the {i}") for i in range(17)]
    loaded = load_language_model(model)
    sets = generate_sets(loaded, contexts, plan, tmp_path / "sets.jsonl")
    assert sorted(sets["id"]) == sorted(id for id, _ in contexts)
    counts = sets.group_by("temperature").len()["len"].to_list()
    assert sorted(counts) == [3, 3, 3, 4, 4]
    value_of = dict(zip(sets["context_id"], sets["temperature"], strict=True))
    assert [value_of[id] for id, _ in contexts] != sorted(value_of.values())
    other = replace(plan, seed=2)
    again = generate_sets(loaded, contexts, other, tmp_path / "again.jsonl")
    assert dict(zip(again["context_id"], again["temperature"], strict=True)) != value_of
    with pytest.raises(OptionError, match="4 contexts for 5 values") as error:
        generate_sets(loaded, contexts[:4], plan, tmp_path / "few.jsonl")
    assert error.value.option == "design"
    crossed = replace(plan, design="crossed")
    generate_sets(loaded, contexts, plan, tmp_path / "x.jsonl", folder=tmp_path / "run")
    with pytest.raises(OptionError, match="holds another run: design was"):
        generate_sets(loaded, contexts, crossed, tmp_path / "x.jsonl", folder=tmp_path / "run")


def test_log_probabilities_stand_beside_responses(model: str, tmp_path: Path) -> None:
    loaded = load_language_model(model)
    plan = replace(SMALL_PLAN, responses_per_set=4, max_new_tokens=6)
    for name in ("sets.jsonl", "sets.csv", "sets.parquet"):
        generate_sets(loaded, SMALL_CONTEXTS, plan, tmp_path / name)
        assert set(read_sets(str(tmp_path / name), empty_cells="keep").sizes.tolist()) == {4}
    sets = read_sets(str(tmp_path / "sets.jsonl")).to_polars()
    for row in sets.iter_rows(named=True):
        sampling = plan.sweep.apply(plan.sampling, row["temperature"])
        (scored,) = loaded.score_sampled([row["context"]], [row["responses"]], sampling)
        assert row["logprobs"] == pytest.approx([one.total for one in scored], abs=1e-9)
        assert row["tokens"] == [len(one) for one in scored]
        assert row["truncated"] == [one.tokens[-1:] != ("</s>",) for one in scored]
    assert len({tuple(row) for row in sets["logprobs"].to_list()}) > 5


def test_a_file_without_contexts_is_a_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "sets.jsonl"
    file.write_text('{"responses": ["a", "b"]}\n')
    with pytest.raises(DataError, match="contexts are missing"):
        read_contexts(str(file))


def test_empty_responses_are_told_and_a_template_may_break_lines(tmp_path: Path) -> None:
    NgramModel.train(["well, yes", "oh, yes", "no"], order=2).save(tmp_path / "terse")
    (tmp_path / "contexts.txt").write_text("oh, yes\n")
    arguments = ["contexts.txt", "--model", "ngram:terse", "--sweep", "temperature=0", "--responses-per-set", "2"]
    folders: dict[str, Any] = {"cwd": tmp_path, "cache": tmp_path / "cache"}
    run = command_line("generate", "-o", "a.jsonl", *arguments, "--no-progress", **folders)
    assert run.code == 0, run.err
    assert "2 of 2 responses are empty: the model ended there" in run.err
    assert "a template such as" in run.err
    lines = ["--template", r"{context}\nno, well,"]
    run = command_line("generate", "-o", "b.jsonl", *arguments, *lines, "--no-progress", **folders)
    assert "empty" not in run.err
    assert read_sets(str(tmp_path / "b.jsonl")).texts.to_list() == ["yes", "yes"]
