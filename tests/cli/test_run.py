"""Plans: written by hand or carried by a result, checked as a whole, and the same bytes every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nlgauge.cli.run import read_plan
from nlgauge.errors import DataError, NLGaugeError, OptionError, UnknownName
from tests.helpers import Outcome, nlgauge

ROOT = Path(__file__).parents[2]
SCHEMA = 'schema = "nlgauge.plan/1"\n'
FILE = str(ROOT / "examples/system_a.jsonl")


def run(folder: Path, *arguments: str) -> Outcome:
    return nlgauge(*arguments, cwd=folder, cache=folder / "cache")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def test_a_plan_and_the_plans_of_its_results_give_the_same_bytes(folder: Path) -> None:
    written: list[list[bytes]] = []
    for plans in (["examples/plan.toml"], ["examples/plan.toml"], ["comparison.json", "content.json"]):
        for plan in plans:
            done = run(folder, "run", plan)
            assert done.code == 0, done.err
        written.append([(folder / name).read_bytes() for name in ("comparison.json", "content.json")])
    assert written[0] == written[1] == written[2]
    plan = json.loads(written[0][0])["plan"]
    assert plan["schema"] == "nlgauge.plan/1"
    assert plan["steps"][0]["seed"] == 7


def planned(folder: Path, text: str, name: str = "plan.toml") -> list[list[str]]:
    (folder / name).write_text(text)
    return read_plan(folder / name)


def test_an_unknown_command_is_named_with_its_step(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"in step 2 of .*plan\.toml") as caught:
        planned(tmp_path, f'{SCHEMA}[[steps]]\ncommand = "metrics"\n[[steps]]\ncommand = "study contend"\n')
    assert (caught.value.name, caught.value.nearest) == ("study contend", "content")


def test_steps_are_command_lines_and_share_options(tmp_path: Path) -> None:
    options = 'metrics = ["distinct", "ead"]\ncache = false\npaired = true\n'
    steps = f'[[steps]]\ncommand = "score"\nfiles = ["{FILE}"]\n{options}'
    study = f'[[steps]]\ncommand = "study content"\nfiles = ["{FILE}"]\ntasks = ["a"]\n'
    assert planned(tmp_path, f"{SCHEMA}seed = 3\nconfidence = true\n{steps}{study}") == [
        [
            "score",
            "--seed=3",
            "--confidence",
            "--metric=distinct",
            "--metric=ead",
            "--no-cache",
            "--paired",
            "--",
            FILE,
        ],
        ["study", "content", "--seed=3", "--tasks=a", "--", FILE],
    ]


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("", DataError, "no schema"),
        ('schema = "nlgauge.plan/2"\n', DataError, "newer"),
        (SCHEMA, DataError, "has no steps"),
        ("schema = ", DataError, "cannot be read"),
        (SCHEMA + '[[steps]]\ncommand = "scroe"\n', UnknownName, "did you mean 'score'"),
        (SCHEMA + '[[steps]]\ncommand = "score"\nmetric = ["distinct"]\n', UnknownName, "did you mean 'metrics'"),
        (SCHEMA + 'metric = ["distinct"]\n[[steps]]\ncommand = "score"\n', UnknownName, "did you mean 'metrics'"),
        (SCHEMA + '[[steps]]\ncommand = "score"\nfiles = ["none.jsonl"]\n', DataError, "no such file"),
        (SCHEMA + 'version = "0.0.1"\n[[steps]]\ncommand = "score"\n', OptionError, "0.0.1"),
        (SCHEMA + '[[steps]]\ncommand = "score"\nmetrics = ["distinct|n:1|v:0.0.1"]\n', OptionError, "0.0.1"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_before_any_step(
    tmp_path: Path, text: str, kind: type[NLGaugeError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        planned(tmp_path, text)


@pytest.mark.parametrize("document", [[], {"scores": []}, {"schema": "nlgauge.scores/1"}])
def test_a_file_without_a_plan_is_an_error(tmp_path: Path, document: Any) -> None:
    with pytest.raises(DataError) as caught:
        planned(tmp_path, json.dumps(document), "result.json")
    assert caught.value.file == str(tmp_path / "result.json")


def test_a_gate_that_fails_stops_a_plan(folder: Path) -> None:
    step = '[[steps]]\ncommand = "score"\nfiles = ["examples/system_a.jsonl"]\nmetrics = ["distinct"]\n'
    (folder / "plan.toml").write_text(f"{SCHEMA}{step}fail_if = ['distinct > 0']\n{step}output = 'never.json'\n")
    assert run(folder, "run", "plan.toml").code == 1
    assert not (folder / "never.json").exists()
