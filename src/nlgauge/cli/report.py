"""`nlgauge report` and `nlgauge leaderboard`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from nlgauge.cli.commands import argument, borrowed, current_plan
from nlgauge.cli.output import SPREADSHEET, Output, check_output, say
from nlgauge.cli.score import FILES, Measuring, Outcome, say_unmeasured, warn_about
from nlgauge.configured import Options, option
from nlgauge.data.columns import Reading
from nlgauge.stats.inference import Comparing


@dataclass(frozen=True, kw_only=True)
class ReportOutput(Options):
    """The file of a report and its format."""

    heading: ClassVar[str] = "Output"

    format: str = option(
        "", "Default: as the output's name says.", metavar="html|md|json|pdf", flags=("--format", "-f")
    )
    output: Path | None = option(
        None, "The file to write. Default: report.html, or as --format says.", metavar="OUT", flags=("--output", "-o")
    )


def report(
    files: Sequence[str] = FILES,
    *,
    measuring: Measuring,
    paired: bool = borrowed(Outcome, "paired"),
    studies: Sequence[Path] = option(
        (), "Show a study's result, printed with --format json.", metavar="RESULT", flags=("--study",)
    ),
    output: ReportOutput,
) -> None:
    """Write a report card: one self-contained page that says what the numbers say, and how far to trust them.

    A summary in plain words, a card for each question (form, content, repetition, quality, fluency), every metric with
    its interval, comparison, signature and the tests that it passed or failed; charts, repeated phrases and examples.

    Examples:
      nlgauge report examples/system_a.jsonl examples/system_b.jsonl -o report.html
      nlgauge report out.jsonl -m distinct -m sent-sim -o report.pdf
      nlgauge report a.jsonl b.jsonl --study huse.json -o report.md
    """
    from nlgauge.report.writing import check_report, make_report, write_report

    place = output.output or Path(f"report.{output.format or 'html'}")
    form = check_report(place, output.format)
    check_output(place, files)
    with measuring.begun(files, default=False) as job:
        card = make_report(
            job.sources,
            job.metrics,
            unmeasured=job.unmeasured,
            studies=studies,
            paired=paired,
            reading=Reading(),
            inference=measuring.inference,
            running=measuring.running,
        )
    warn_about(card.run.scores, measuring.inference.unit)
    write_report(card, place, form, current_plan())
    say(f"wrote {place}")
    say_unmeasured(job.unmeasured)
    for one in card.run.missing:
        say(f"not measured: {one.what}: {one.reason}")
    if card.run.refusal:
        say(f"warning: systems were not compared: {card.run.refusal}")


def leaderboard(
    results: tuple[str, ...] = argument(
        "[DATASET=]RESULTS...",
        "JSON that nlgauge score (or compare) wrote with -o. Files about the same contexts are one dataset.",
    ),
    *,
    comparing: Comparing,
    spreadsheet: bool = option(False, SPREADSHEET),
    output: Output,
) -> None:
    """Rank systems metric by metric, from results of nlgauge score.

    Systems in one cluster do not differ significantly: paired tests between every two, corrected as one family, p <
    .05. Over several datasets, systems are ordered by their mean rank.

    Examples:
      nlgauge score a.jsonl b.jsonl c.jsonl -m distinct -o results.json
      nlgauge leaderboard results.json
      nlgauge leaderboard dialog=one.json dialog=two.json stories=three.json --format latex
    """
    from nlgauge.report.leaderboard import leaderboard as ranked
    from nlgauge.report.leaderboard import leaderboard_sheet, named_files, read_results

    files, names = named_files(results)
    form = output.check(files)
    board = ranked([read_results(file) for file in files], names, how=comparing)
    if output.output is not None or form in ("json", "csv"):
        for note in board.notes:
            say(f"warning: {note}")
    output.write(leaderboard_sheet(board), form, spreadsheet=spreadsheet)
