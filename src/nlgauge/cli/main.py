"""The `nlgauge` command: commands are loaded when they are called, so that help comes in a blink."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nlgauge._version import __version__
from nlgauge.engine.messages import show_warnings_plainly
from nlgauge.errors import NLGaugeError

_INTERRUPTED = "interrupted; no output was completed, and the same command goes on from finished work"
COMMANDS = {
    "score": ("score:score_command", "Score files of response sets or texts, and compare systems."),
    "plan": ("plan:plan_command", "Estimate time, memory, disk and model calls from a sample before scoring."),
    "compare": ("compare:compare_command", "Say whether systems differ: interval, test, effect size and verdict."),
    "leaderboard": ("leaderboard:leaderboard_command", "Rank systems from results of nlgauge score, ties marked."),
    "report": ("report:report_command", "Write a report card: one self-contained HTML page with charts and examples."),
    "study": ("study:app", "Gauge the gauges: studies of metrics and of raters."),
    "annotate": ("annotate:app", "Ask people: an annotation site with quality control, and its files."),
    "generate": ("generate:generate_command", "Write response sets with a language model, a parameter being swept."),
    "filter": ("filter:app", "Filter training data."),
    "data": ("data:app", "List, locate and verify public datasets; turn dialogs into pairs."),
    "metrics": ("metrics:app", "List metrics, or show one in full."),
    "models": ("models:app", "List, fetch, locate and remove models."),
    "train": ("train:app", "Train models on your own texts."),
    "perturb": ("perturb:app", "Change texts on purpose, in known ways, and look at the results."),
}


class _LoadedOnCall(TyperGroup):
    """A group that knows its commands' names and purposes, and imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature of click
        """Names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the signature of click
        """The command of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        found = getattr(importlib.import_module(f"nlgauge.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command(cmd_name)(found)
            found = single
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature of click
        """Names and purposes, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, purpose) for name, (_, purpose) in COMMANDS.items()])


app = typer.Typer(
    name="nlgauge",
    cls=_LoadedOnCall,
    help="Gauge generated text, and gauge the gauges.",
    epilog="Example: nlgauge score examples/system_a.jsonl examples/system_b.jsonl -m distinct -m self-bleu",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nlgauge {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Gauge generated text, and gauge the gauges."""


def main() -> None:
    """Run the command; exit 0 done, 1 a finding the user asked to fail on, 2 bad usage or bad input."""
    show_warnings_plainly()
    try:
        app()
    except NLGaugeError as error:
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail(_INTERRUPTED, 130)
    except SystemExit as stop:  # what Typer makes of Ctrl-C and of a pipe closed by its reader
        if stop.code == 130:
            _fail(_INTERRUPTED, 130)
        if isinstance(stop.__context__, BrokenPipeError):
            sys.exit(141)
        raise
    except MemoryError:
        _fail("out of memory; try a smaller --chunk-mb, fewer --workers, or --sketch", 2)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"reading or writing failed: {error}", 2)


def _fail(message: str, code: int) -> None:
    safe = message.encode("utf-8", "backslashreplace").decode("utf-8")
    print(f"nlgauge: error: {safe}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
