"""The `nlgauge` command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from nlgauge._version import __version__
from nlgauge.cli import data, generate, metrics, models, report, score, study, train
from nlgauge.engine.messages import show_warnings_plainly
from nlgauge.errors import NLGaugeError

_INTERRUPTED = "interrupted; no output was completed, and the same command goes on from finished work"

app = typer.Typer(
    name="nlgauge",
    help="Gauge generated text, and gauge the gauges.",
    epilog="Example: nlgauge score examples/system_a.jsonl examples/system_b.jsonl -m distinct -m self-bleu",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("score")(score.score_command)
app.command("report")(report.report_command)
app.command("generate")(generate.generate_command)
app.add_typer(data.app, name="data")
app.add_typer(metrics.app, name="metrics")
app.add_typer(models.app, name="models")
app.add_typer(train.app, name="train")
app.add_typer(study.app, name="study")


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
        _fail("out of memory; try a smaller --chunk-mb, fewer --processes, or --sketch", 2)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"reading or writing failed: {error}", 2)


def _fail(message: str, code: int) -> None:
    safe = message.encode("utf-8", "backslashreplace").decode("utf-8")
    print(f"nlgauge: error: {safe}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
