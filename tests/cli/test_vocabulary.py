"""One vocabulary: the same option has the same name, default and help in every command, and groups are complete."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from scripts.vocabulary import vocabulary_page

from nlgauge.cli.commands import Command
from nlgauge.cli.main import app
from nlgauge.cli.output import Output
from nlgauge.configured import options_of
from nlgauge.data.columns import Reading
from nlgauge.engine.running import Running, Workers
from nlgauge.models.runtime import Machine
from nlgauge.stats.inference import Comparing
from tests.conftest import ROOT
from tests.helpers import nlgauge

TWO_MEANINGS = {"--from"}  # a platform of ratings (annotate import), a model to tune (train lm)
GROUPS = (Reading, Comparing, Machine, Running, Output)
SHARED = {one.name for group in GROUPS for one in options_of(group)} - {"format", "output", "batch_size"}
A, B, CONTENT = (str(ROOT / "examples" / f"{name}.jsonl") for name in ("system_a", "system_b", "content_sets"))


def walked(command: click.Command, path: str, context: click.Context | None = None) -> Iterator[tuple[str, Command]]:
    """All commands below one, with what to type."""
    if isinstance(command, click.Group):
        here = click.Context(command, info_name=path, parent=context)
        for name in command.list_commands(here):
            below = command.get_command(here, name)
            assert below is not None
            yield from walked(below, f"{path} {name}", here)
    elif isinstance(command, Command):
        yield path, command


COMMANDS = dict(walked(app, "nlgauge"))


def flags(command: click.Command) -> dict[str, tuple[str, ...]]:
    return {param.name or "": tuple(param.opts) for param in command.params if isinstance(param, click.Option)}


@pytest.mark.parametrize("path", COMMANDS)
def test_an_option_of_a_group_has_the_names_of_the_group(path: str) -> None:
    for group in GROUPS:
        for one in options_of(group):
            expected = one.about.flags or (f"--{one.name.replace('_', '-')}",)
            found = flags(COMMANDS[path]).get(one.name)
            assert found is None or set(expected) <= set(found), (path, one.name, found)


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_with_one_option_of_a_group_has_them_all(path: str) -> None:
    named = set(flags(COMMANDS[path]))
    for group, marks in (
        (Reading, {"responses", "references", "set_size", "aligned"}),
        (Machine, {"device", "batch_size"}),
        (Workers, {"engine"}),
        (Running, {"part_mb"}),
        (Output, {"format"}),
    ):
        if named & marks:
            assert not {one.name for one in options_of(group)} - named, (path, group.__name__)


def test_no_two_commands_use_one_flag_for_two_options() -> None:
    seen: dict[str, str] = {}
    for path, command in COMMANDS.items():
        for name, names in flags(command).items():
            for flag in names:
                if flag.startswith("--") and flag not in TWO_MEANINGS:
                    assert seen.setdefault(flag, name.rstrip("s")) == name.rstrip("s"), (path, flag)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_shows_every_option_with_its_purpose(path: str) -> None:
    command = COMMANDS[path]
    context = click.Context(command, info_name=path)
    text = command.get_help(context)
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.opts[0] in text
            assert param.help, (path, param.name)
    assert "{FILE...}" not in text


def test_the_same_option_has_the_same_default_everywhere() -> None:
    seen: dict[str, str] = {}
    for path, command in COMMANDS.items():
        for param in command.params:
            if isinstance(param, click.Option) and param.name in SHARED:
                default = (param.help or "").partition("[default: ")[2]
                assert seen.setdefault(param.name, default) == default, (path, param.name)


REQUESTED = (
    "nlgauge study content --text",
    "nlgauge study huse-stability --judge",
    "nlgauge study content -o",
    "nlgauge study huse -o",
    "nlgauge report --workers",
    "nlgauge compare --engine",
    "nlgauge score --plugin",
)


@pytest.mark.parametrize("line", REQUESTED)
def test_options_that_were_missing_are_there(line: str) -> None:
    path, _, flag = line.rpartition(" ")
    assert flag in {one for names in flags(COMMANDS[path]).values() for one in names}


@pytest.mark.parametrize(
    "words",
    [
        ("score", A, "-m", "distinct", "--plugin", "own.py"),
        ("compare", A, B, "-m", "distinct", "--engine", "local"),
        ("report", A, "-m", "distinct", "--workers", "2", "-o", "card.md"),
        ("study", "content", CONTENT, "-m", "distinct", "--responses", "responses", "-o", "content.json"),
    ],
)
def test_options_that_were_missing_work(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("")
    done = nlgauge(*words, cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 0, done.err
    if "-o" in words:
        assert (tmp_path / words[-1]).stat().st_size


def test_the_table_in_the_docs_has_every_option_of_the_groups() -> None:
    text = (ROOT / "docs" / "vocabulary.md").read_text(encoding="utf-8")
    assert text == vocabulary_page(GROUPS)
