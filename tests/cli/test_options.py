"""One vocabulary: every command that reads has all reading options, and so on, under the names that Python uses."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import click
import pytest

import nlgauge
from nlgauge.cli.main import app
from nlgauge.cli.output import Output, Plugins
from nlgauge.configured import options_of
from nlgauge.data.columns import Reading
from nlgauge.engine.running import Running
from nlgauge.errors import UnknownName
from nlgauge.models.runtime import Machine
from nlgauge.stats.inference import Inference
from tests.helpers import nlgauge as command

GROUPS: dict[str, tuple[type[Any], ...]] = {
    "score": (Reading, Inference, Machine, Running, Output, Plugins),
    "compare": (Reading, Inference, Machine, Running, Output, Plugins),
    "plan": (Reading, Inference, Machine, Running, Output, Plugins),
    "report": (Reading, Inference, Machine, Running, Output, Plugins),
    "leaderboard": (Output,),
}
PLUGIN = """
from dataclasses import dataclass
import numpy as np
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.registry import register_metric
from nlgauge.metrics.score import Direction

@register_metric
@dataclass(frozen=True, kw_only=True)
class Sizes(SetMetric):
    '''The number of responses.'''
    name = "sizes"
    paper = "none"
    aspect = "form"
    direction = Direction.MORE_DIVERSE
    def per_set(self, batch):
        return batch.sets.sizes.astype(float)
"""


@pytest.mark.parametrize("name", GROUPS)
def test_a_command_has_all_options_of_its_groups(name: str) -> None:
    found = app.get_command(click.Context(app), name)
    assert found is not None
    flags = {param.name: param for param in found.params}
    assert {one.name for group in GROUPS[name] for one in options_of(group)} <= flags.keys()


def test_public_functions_take_the_options_of_their_groups_flat(tmp_path: Path) -> None:
    sets = [["a b", "c d"], ["a b", "a d"]]
    first, second = nlgauge.score(sets, ["distinct"]), nlgauge.score(sets, ["distinct"])
    for call in (
        lambda: nlgauge.score(sets, ["distinct"], sed=1),
        lambda: nlgauge.read("none.jsonl", sed=1),
        lambda: nlgauge.compare(*first, *second, sed=1),
        lambda: nlgauge.compare_all([*first, *second], sed=1),
        lambda: nlgauge.report(sets, ["distinct"], output=tmp_path / "report.md", sed=1),
    ):
        with pytest.raises(UnknownName):
            call()


def test_a_report_is_written_by_one_call(tmp_path: Path) -> None:
    import nlgauge.report.tables  # the room of that name does not hide the function

    card = nlgauge.report([["a b", "c d"], ["a b", "a d"]], ["distinct"], output=tmp_path / "report.md", seed=1)
    assert (tmp_path / "report.md").read_text().startswith("#")
    assert [one.name for one in card.measured] == ["distinct"]
    assert "metrics" in inspect.signature(nlgauge.report).parameters


@pytest.mark.parametrize("name", ["score", "plan", "report"])
def test_a_plugin_is_an_option(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "a.jsonl").write_text('{"responses": ["a", "b"]}\n' * 4)
    done = command(name, "a.jsonl", "--plugin", "mine.py", "-m", "sizes", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 0, done.err


def test_a_required_option_that_is_missing_is_named(tmp_path: Path) -> None:
    done = command("study", "ruq", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 2
    assert "Missing option '--model'" in done.err
