"""The command line as a user meets it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import nlgauge
from nlgauge.cli.main import COMMANDS
from nlgauge.metrics.registry import metric_names

FRAME_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": pl.read_csv,
    ".jsonl": pl.read_ndjson,
    ".parquet": pl.read_parquet,
}


def run(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "nlgauge.cli.main", *arguments], capture_output=True, input=stdin, check=False
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def fastest(command: list[str]) -> float:
    """Seconds of processor time, which do not count what else the machine is doing."""
    times = []
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_help_answers_within_ten_times_a_bare_python() -> None:
    nlgauge_command = str(Path(sys.executable).parent / "nlgauge")
    bare = fastest([sys.executable, "-c", "pass"])
    assert fastest([nlgauge_command, "--help"]) <= 10 * bare
    assert fastest([nlgauge_command, "score", "--help"]) <= 20 * bare


@pytest.mark.parametrize("arguments", [("--help",), ("score", "-h"), ("report", "-h"), ("metrics", "show", "-h")])
def test_help_has_an_example(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 0
    assert "xample" in done.stdout
    assert "nlgauge " in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_help_lists_is_there(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0
    assert f"{name} [OPTIONS]" in done.stdout
    assert "completion" not in done.stdout


def test_version() -> None:
    assert run("--version").stdout.strip() == f"nlgauge {nlgauge.__version__}"


def test_json_is_one_document_and_nothing_else(examples: Path) -> None:
    files = [str(examples / f"system_{name}.jsonl") for name in "ab"]
    done = run("score", *files, "-m", "distinct", "-m", "ead", "--format", "json", "--seed", "7")
    document = json.loads(done.stdout)
    assert [(s["system"], s["name"]) for s in document["scores"]] == [
        ("a", "distinct"), ("a", "ead"), ("b", "distinct"), ("b", "ead"),
    ]  # fmt: skip
    assert {"value", "ci", "n", "signature"} <= set(document["scores"][0])
    first = document["comparisons"][0]
    assert (first["metric"], first["first"], first["second"], first["n"]) == ("distinct", "a", "b", 45)
    assert first["difference"] == pytest.approx(document["scores"][2]["value"] - document["scores"][0]["value"])
    assert "seed:7" in first["signature"]


def test_the_printed_signature_reproduces_the_score_in_a_new_process(examples: Path) -> None:
    file = str(examples / "system_b.jsonl")
    specs = ["distinct:n=1+3,case=lower,tok=word", "ead:over=set,vocab=800", "self-bleu:n=2", "compression:by=bz2"]
    arguments = [part for spec in specs for part in ("-m", spec)]
    first = json.loads(run("score", file, *arguments, "--confidence", "--format", "json").stdout)["scores"]
    again = [part for score in first for part in ("-m", score["signature"])]
    second = json.loads(run("score", file, *again, "--confidence", "--format", "json").stdout)["scores"]
    assert first == second


def test_per_item_writes_ids_and_one_column_a_metric(examples: Path, tmp_path: Path) -> None:
    file = str(examples / "content_sets.jsonl")
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        place = tmp_path / name
        arguments = ["-m", "distinct", "-m", "cos-sim:n=1", "-m", "cos-sim:n=2", "--column", "content_diversity"]
        assert run("score", file, *arguments, "--per-item", str(place)).returncode == 0
        frame = FRAME_READERS[place.suffix](place)
        assert frame.columns == ["id", "distinct", "cos-sim:n=1", "cos-sim:n=2", "content_diversity"]
        assert len(frame) == 90
        assert frame["content_diversity"].sum() == 45
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "out.jsonl", "out.parquet"]


def test_a_column_can_be_named_by_its_metric_and_by_its_signature(tmp_path: Path) -> None:
    file = tmp_path / "rated.jsonl"
    file.write_text('{"text": "a", "stars": 1}\n{"text": "b", "stars": 3}\n')
    printed = run("score", str(file), "--column", "stars", "-f", "csv").stdout
    for named in ("column:column=stars", printed.strip().rpartition(",")[2]):
        assert run("score", str(file), "-m", named, "-f", "csv").stdout == printed


def test_a_system_column_makes_systems(tmp_path: Path) -> None:
    file = tmp_path / "both.jsonl"
    rows = [
        {"id": i, "context": f"c{i}", "model": model, "responses": [f"{model} {i}", second.format(i)]}
        for i in range(6)
        for model, second in (("m1", "x y"), ("m2", "{} z"))
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ("score", str(file), "-m", "distinct:n=1", "-m", "distinct:over=corpus", "--format", "json")
    document = json.loads(run(*arguments).stdout)
    assert [score["system"] for score in document["scores"]] == ["m1", "m1", "m2", "m2"]
    assert [comparison["n"] for comparison in document["comparisons"]] == [6, 6]
    # All sets of m2 have one value, which shows no error; those of m1 are all 1, a share.
    assert [bool(score["ci"]) for score in document["scores"]] == [True, True, False, True]
    alone = json.loads(run(*arguments, "--no-compare").stdout)
    assert [score["ci"] for score in alone["scores"]] == [None] * 4


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv"])
def test_every_format_has_values_and_signatures(form: str, examples: Path) -> None:
    files = [str(examples / f"system_{name}.jsonl") for name in "ab"]
    printed = run("score", *files, "-m", "distinct", "--format", form).stdout
    assert "0.714" in printed
    assert "distinct|n:1-5" in printed
    if form == "latex":
        assert r"\begin{tabular}" in printed


def test_metrics_lists_and_shows_every_metric() -> None:
    listed = run("metrics").stdout
    for name in metric_names():
        assert f"\n{name} " in "\n" + listed
    for name in ("ead", "column", "pairs"):
        shown = run("metrics", "show", name).stdout
        assert all(word in shown for word in ("paper", "options", "signature", "example"))
    unknown = run("metrics", "show", "self-blue")
    assert unknown.returncode == 2
    assert "did you mean 'self-bleu'" in unknown.stderr


def test_a_metric_in_the_place_of_a_command_is_shown() -> None:
    assert run("metrics", "distinct").stdout == run("metrics", "show", "distinct").stdout
    assert run("metrics").stdout == run("metrics", "list").stdout
    assert "did you mean 'distinct'" in run("metrics", "distinkt").stderr


@pytest.mark.parametrize("form", ["json", "csv", "markdown", "latex"])
def test_lists_are_printed_in_every_format(form: str) -> None:
    for group in ("models", "data"):
        printed = run(group, "list", "--format", form)
        assert printed.returncode == 0, printed.stderr
        assert form != "json" or json.loads(printed.stdout)["schema"] == "nlgauge.list/1"


def test_formats_go_by_the_endings_of_their_files_too(examples: Path) -> None:
    file, sets = str(examples / "system_a.jsonl"), str(examples / "content_sets.jsonl")
    assert run("score", file, "-m", "distinct", "-f", "md").stdout.startswith("| metric | value |")
    assert r"\begin{tabular}" in run("score", file, "-m", "distinct", "-f", "tex").stdout
    study = run("study", "content", sets, "-m", "distinct", "--resamples", "100", "--no-significance", "-f", "tex")
    assert r"\begin{tabular}" in study.stdout


def test_csv_on_standard_input_is_suspected(tmp_path: Path) -> None:
    table = b"resp_0,resp_1\na b,c d\n"
    done = run("score", "-", "-m", "distinct", stdin=table)
    assert done.returncode == 2
    assert "standard input, line 1: invalid JSON" in done.stderr
    assert "(is it CSV? --input-format csv)" in done.stderr
    assert run("score", "-", "-m", "distinct", "--input-format", "csv", stdin=table).returncode == 0
    (tmp_path / "bad.jsonl").write_bytes(table)
    assert "is it CSV" not in run("score", str(tmp_path / "bad.jsonl"), "-m", "distinct").stderr


def test_standard_input_and_plain_text(tmp_path: Path) -> None:
    lines = b"a b\nc d\na b\na b\n"
    done = run(
        "score", "-", "--input-format", "text", "--set-size", "2", "-m", "distinct:n=1", "-f", "json", stdin=lines
    )
    assert json.loads(done.stdout)["scores"][0]["value"] == 0.75
    done = run("score", "-", "--input-format", "text", "-m", "ttr", "-f", "json", stdin=lines)
    assert json.loads(done.stdout)["scores"][0]["value"] == 0.5
    done = run("score", "-", "--input-format", "text", "-m", "self-bleu", "--one-set", "-f", "json", stdin=lines)
    assert json.loads(done.stdout)["scores"][0]["n"] == 1


def test_set_metrics_on_single_texts_say_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("one\ntwo\n")
    for metric, advice in (("distinct", "distinct:over=corpus"), ("self-bleu", "--one-set")):
        done = run("score", str(file), "-m", metric)
        assert done.returncode == 2
        assert advice in done.stderr


def test_systems_with_other_contexts_are_not_compared(examples: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text("".join(f'{{"id": "{i}", "context": "c", "responses": ["a", "b"]}}\n' for i in range(5)))
    files = [str(examples / "system_a.jsonl"), str(other)]
    done = run("score", *files, "-m", "distinct")
    assert done.returncode == 2
    assert "cannot be paired: 45 and 5 sets, 0 ids in common, 0 contexts in common" in done.stderr
    assert "--no-compare" in done.stderr
    assert run("score", *files, "-m", "distinct", "--no-compare").returncode == 0


@pytest.mark.parametrize("arguments", ["score {file} --format json", "metrics show distinct"])
def test_a_closed_pipe_is_neither_a_traceback_nor_a_finding(examples: Path, arguments: str) -> None:
    called = arguments.format(file=examples / "system_a.jsonl")
    command = f"{sys.executable} -m nlgauge.cli.main {called} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (done.returncode, done.stderr) == (141, "")
