"""`nlgauge leaderboard`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nlgauge.cli import inputs
from nlgauge.cli.score import Format, check_result
from nlgauge.errors import OptionError


def leaderboard_command(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="[DATASET=]RESULTS...",
            help="JSON that nlgauge score (or compare) wrote with -o. Files about the same contexts are one dataset.",
            show_default=False,
        ),
    ],
    format: Format = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write the result here instead of printing it.")
    ] = None,
    seed: inputs.Seed = 12345,
) -> None:
    """Rank systems metric by metric, from results of nlgauge score.

    Systems in one cluster cannot be told apart: paired tests between every two, Holm's correction, p < .05. Over
    several datasets, systems are ordered by their mean rank.

    Examples:

      nlgauge score a.jsonl b.jsonl c.jsonl -m distinct -o results.json

      nlgauge leaderboard results.json

      nlgauge leaderboard dialog=one.json dialog=two.json stories=three.json --format latex
    """
    from nlgauge.metrics.score import Interval
    from nlgauge.report.leaderboard import leaderboard, leaderboard_sheet, read_results
    from nlgauge.report.tables import render, write_sheet

    names: dict[str, str] = {}
    files: list[str] = []
    for entry in results:
        name, equals, path = entry.partition("=")
        named = bool(equals) and not Path(entry).exists()
        files.append(path if named else entry)
        if named:
            names[path] = name
    if twice := {file for file in files if files.count(file) > 1}:
        raise OptionError(f"{min(twice)} was named twice; expected every file once")
    form = check_result(format, output, "", files)
    board = leaderboard([read_results(file) for file in files], names, how=Interval(seed=seed))
    sheet = leaderboard_sheet(board)
    if output is not None or form in ("json", "csv"):
        for note in board.notes:
            print(f"nlgauge: warning: {note}", file=sys.stderr)
    if output is None:
        print(render(sheet, form))
    else:
        write_sheet(sheet, form, output)
        print(f"nlgauge: wrote {output}", file=sys.stderr)
