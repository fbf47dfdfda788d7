"""`nlgauge run`: a saved plan, or the plan inside a result, step by step."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from nlgauge._version import __version__
from nlgauge.cli.commands import argument, words_of
from nlgauge.cli.output import say
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.schema import KEY, check_schema, checked_document
from nlgauge.signature import Signature

_EXPECTED = "expected a plan in TOML, or a result in JSON"
_STEPS, _VERSION, _COMMAND, _PLAN = "steps", "version", "command", "plan"


def run(
    plan: str = argument("PLAN", "A plan in TOML, or a JSON file that a command wrote with -o, which has its plan."),
) -> None:
    """Run a saved plan: commands with their options, one after the other.

    A plan has a schema, steps, and options that all steps share. A step has the name of a command, its options under
    the names that Python uses, and files. JSON that a command writes with -o carries the plan that writes it again.

    Examples:
      nlgauge run examples/plan.toml
      nlgauge run comparison.json
    """
    from nlgauge.cli.main import app

    for words in read_plan(Path(plan)):
        say(shlex.join(["nlgauge", *words]))
        stopped = app(words, prog_name="nlgauge", standalone_mode=False)
        if isinstance(stopped, int) and stopped:
            raise click.exceptions.Exit(stopped)


def read_plan(path: Path) -> list[list[str]]:
    """The command lines of a plan; all of it is checked before any step runs."""
    document = _document(path)
    check_schema(document, _PLAN, str(path))
    version = document.get(_VERSION, __version__)
    if version != __version__:
        raise OptionError(
            f"{path}: the plan is of NLGauge {version}, and this is {__version__}, which may give other numbers; "
            f"expected the same version: install nlgauge=={version}, or take '{_VERSION}' out of the plan",
            option=_VERSION,
        )
    steps = document.get(_STEPS)
    if not isinstance(steps, list) or not steps or not all(isinstance(step, dict) for step in steps):
        raise DataError(f"has no {_STEPS}; expected at least one [[{_STEPS}]] with a {_COMMAND}", file=str(path))
    shared = {key: value for key, value in document.items() if key not in (KEY, _VERSION, _STEPS)}
    known: set[str] = set()
    found: list[list[str]] = []
    for number, step in enumerate(steps, 1):
        name = str(step.get(_COMMAND, ""))
        where = f"step {number} of {path}"
        params = {param.name or "": param for param in _find(name, where).params}
        own = {key: value for key, value in step.items() if key != _COMMAND}
        for key in own:
            if key not in params:
                raise UnknownName.among(f"key of {name} in {where}:", key, params)
        given = {**{key: value for key, value in shared.items() if key in params}, **own}
        _check(given, str(path))
        known |= params.keys()
        found.append([*name.split(), *_words(params, given)])
    if unknown := shared.keys() - known:
        raise UnknownName.among(f"key in {path}:", min(unknown), known)
    return found


def _document(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        document: Any = json.loads(data) if path.suffix == ".json" else tomllib.loads(data.decode())
    except FileNotFoundError as error:
        raise DataError(f"no such file; {_EXPECTED}", file=str(path)) from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot be read ({error}); {_EXPECTED}", file=str(path)) from error
    if path.suffix == ".json" and isinstance(document, dict) and _PLAN in document:
        document = checked_document(data, str(path))[_PLAN]
    if not isinstance(document, dict):
        raise DataError(f"has no plan; {_EXPECTED}", file=str(path))
    return document


def _find(name: str, where: str) -> click.Command:
    from nlgauge.cli.main import app

    found: click.Command = app
    for word in name.split() or [""]:
        context = click.Context(found)
        inner = found.get_command(context, word) if isinstance(found, click.Group) else None
        if inner is None:
            names = found.list_commands(context) if isinstance(found, click.Group) else []
            raise UnknownName.among(f"{_COMMAND} in {where}:", name, names)
        found = inner
    return found


def _words(params: Mapping[str, click.Parameter], given: Mapping[str, Any]) -> list[str]:
    places = {key for key in given if isinstance(params[key], click.Argument)}
    options = [word for key in given if key not in places for word in words_of(params[key], given[key])]
    return [*options, "--", *(word for key in places for word in words_of(params[key], given[key]))]


def _check(given: Mapping[str, Any], file: str) -> None:
    """Refuse inputs that are not there, and signatures of another version."""
    files = given.get("files", [])
    for path in files if isinstance(files, list) else [files]:
        if not isinstance(path, str):
            raise DataError(f"files has {path!r:.60}; expected names of files", file=file, option="files")
        if path != "-" and "://" not in path and not any(sign in path for sign in "*?[{") and not Path(path).exists():
            raise DataError(f"no such file; {file} names it", file=path, option="files")
    for value in given.values():
        for text in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
            if isinstance(text, str) and "|v:" in text and (made := Signature.parse(text)).version != __version__:
                raise OptionError(
                    f"{file}: the signature '{text}' is of NLGauge {made.version}, and this is {__version__}, which "
                    f"may give other numbers; expected the same version, or {made.name} with its options alone"
                )
