"""The `nlgauge` command: commands are loaded when they are called, so that help comes at once."""

from __future__ import annotations

import io
import os
import sys

import click

from nlgauge._version import __version__
from nlgauge.cli.commands import UNREAD, CommandGroup, Lazy, worded
from nlgauge.data.sources.pipes import pipes_copied
from nlgauge.engine.messages import show_warnings_plainly
from nlgauge.errors import NLGaugeError

_INTERRUPTED = "interrupted; no output was completed; the same command resumes from finished work"
COMMANDS = {
    "score": ("score:score", "Score files of response sets or texts, and compare systems."),
    "plan": ("plan:plan", "Estimate time, memory and model calls of a run, or how many contexts show a difference."),
    "compare": ("score:compare", "Say whether systems differ: interval, test, effect size and verdict."),
    "run": ("run:run", "Run a saved plan, or the plan of a result again."),
    "leaderboard": ("report:leaderboard", "Rank systems from results of nlgauge score, ties marked."),
    "report": ("report:report", "Write a report card: one self-contained HTML page with charts and examples."),
    "study": ("study:app", "Gauge the gauges: studies of metrics and of raters."),
    "annotate": ("annotate:app", "Ask people: an annotation site with quality control, and its files."),
    "generate": ("generate:generate", "Write response sets with a language model, a parameter being swept."),
    "content-test": ("content_test:content_test", "Build a content test on your own contexts, and test metrics on it."),
    "filter": ("study:filters", "Filter training data."),
    "data": ("data:app", "List, locate and verify public datasets; turn dialogs into pairs."),
    "metrics": ("metrics:app", "List metrics, or show one in full."),
    "models": ("models:app", "List, fetch, verify, locate and remove models."),
    "train": ("train:app", "Train models on your own texts."),
    "perturb": ("perturb:app", "Change texts on purpose, in known ways, and look at the results."),
}
_LONGEST, _HALF = 4_000, 1_500
app = CommandGroup(
    "nlgauge",
    "Gauge generated text, and gauge the gauges.",
    {name: Lazy(purpose, f"nlgauge.cli.{place}") for name, (place, purpose) in COMMANDS.items()},
    examples=["nlgauge score examples/system_a.jsonl examples/system_b.jsonl -m distinct -m self-bleu"],
)
click.version_option(__version__, "--version", prog_name="nlgauge", message="%(prog)s %(version)s")(app)


def main() -> None:
    """Run the command; exit 0 done, 1 a finding the user asked to fail on, 2 bad usage or bad input."""
    show_warnings_plainly()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with pipes_copied():
            stopped = app(prog_name="nlgauge", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(stopped if isinstance(stopped, int) else 0)
    except NLGaugeError as error:
        _fail(worded(error), 2)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.exceptions.Abort):
        _fail(_INTERRUPTED, 130)
    except BrokenPipeError:
        _silence()
        sys.exit(UNREAD)
    except MemoryError:
        _fail("out of memory; try a smaller --chunk-mb, fewer --workers, or --sketch", 2)
    except OSError as error:
        _silence()
        _fail(f"reading or writing failed: {error}", 2)


def _silence() -> None:
    """Nothing more goes to standard output, which nobody reads any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> None:
    if len(message) > _LONGEST:
        message = f"{message[:_HALF]} […] {message[-_HALF:]}"
    safe = message.encode("utf-8", "backslashreplace").decode("utf-8")
    print(f"nlgauge: error: {safe}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
