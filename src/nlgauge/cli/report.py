"""`nlgauge report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nlgauge.cli import inputs

DEFAULT_METRICS = ("distinct", "cos-sim", "self-bleu", "entropy", "compression", "ead", "ttr")


def report_command(
    files: inputs.Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    metric: inputs.Metrics = None,
    column: inputs.ValueColumns = None,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
    responses: inputs.Responses = None,
    id: inputs.Id = None,
    context: inputs.Context = None,
    system: inputs.SystemColumn = None,
    empty_cells: inputs.EmptyCells = "error",
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Write a report card: one self-contained HTML page with charts, intervals, comparisons and signatures.

    Example: nlgauge report examples/system_a.jsonl examples/system_b.jsonl -o report.html
    """
    from nlgauge.cli.score import make_metrics, say_unmeasured, warn_about
    from nlgauge.engine.files import write_text
    from nlgauge.metrics.comparison import compare_all
    from nlgauge.metrics.score import Interval
    from nlgauge.metrics.scoring import RunOptions, score
    from nlgauge.report.card import render_card

    inputs.check_output(output, files)
    inputs.use_machine(device, batch_size, threads)
    made, unmeasured = make_metrics(metric or (None if column else list(DEFAULT_METRICS)), column)
    columns = {
        "responses": responses, "text": None, "id": id, "context": context, "system": system,
        "empty_cells": empty_cells,
    }  # fmt: skip
    sources = inputs.make_sources(
        files, input_format=input_format, columns=columns, set_size=0, aligned=None, extras=tuple(column or ())
    )
    interval = Interval(level, resamples, seed)
    scores = score(sources, made, interval=interval, run=RunOptions(progress=progress))
    warn_about(scores)
    comparisons = compare_all(scores, interval) if len({s.system for s in scores}) > 1 else []
    write_text(output, render_card(scores, comparisons, sources, interval))
    print(f"nlgauge: wrote {output}", file=sys.stderr)
    say_unmeasured(unmeasured)
