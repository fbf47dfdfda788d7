"""`nlgauge compare`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from nlgauge.cli import inputs
from nlgauge.cli.score import (
    FailIf,
    Format,
    Log,
    Output,
    check_result,
    conclude,
    fail,
    make_metrics,
    say_unmeasured,
    warn_about,
)  # fmt: skip
from nlgauge.errors import DataError

if TYPE_CHECKING:
    from nlgauge.metrics.score import Score


def compare_command(
    files: inputs.Files,
    metric: inputs.Metrics = None,
    column: inputs.ValueColumns = None,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Files with different contexts: a permutation test over their sets.")
    ] = False,
    format: Format = "",
    output: Output = None,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
    fail_if: FailIf = None,
    log: Log = "",
    input_format: inputs.InputFormat = "",
    responses: inputs.Responses = None,
    text: inputs.Text = None,
    references: inputs.References = None,
    references_separator: inputs.ReferencesSeparator = "",
    id: inputs.Id = None,
    context: inputs.Context = None,
    system: inputs.SystemColumn = None,
    empty_cells: inputs.EmptyCells = "error",
    set_size: inputs.SetSize = 0,
    aligned: inputs.Aligned = None,
    processes: inputs.Processes = 0,
    no_cache: inputs.NoCache = False,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Say whether systems differ: each against the first, metric by metric.

    Prints both values, their difference with an interval, the p-value with Holm's correction, the effect size (the
    difference in standard deviations) and a verdict in words. Systems are compared context by context; files with
    different contexts need --unpaired, which sees much less.

    Examples:

      nlgauge compare a.jsonl b.jsonl -m distinct -m self-bleu

      nlgauge compare a.jsonl other.jsonl -m distinct --unpaired

      nlgauge compare old.jsonl new.jsonl -m distinct --fail-if 'distinct.difference.high < 0'
    """
    from nlgauge.cli.gates import read_gates
    from nlgauge.metrics.comparison import compare_all
    from nlgauge.metrics.score import Interval
    from nlgauge.metrics.scoring import RunOptions, score
    from nlgauge.report.tables import comparison_sheet

    form = check_result(format, output, log, files)
    inputs.use_machine(device, batch_size, threads)
    made, unmeasured = make_metrics(metric, column)
    gates = read_gates(fail_if or [], made)
    columns = {
        "responses": responses, "text": text, "id": id, "context": context, "system": system,
        "references": references, "references_separator": inputs.unescaped(references_separator),
        "empty_cells": empty_cells,
    }  # fmt: skip
    sources = inputs.make_sources(
        files, input_format=input_format, columns=columns, set_size=set_size, aligned=aligned,
        extras=tuple(column or ()),
    )  # fmt: skip
    interval = Interval(level, resamples, seed)
    run = RunOptions(processes=processes, cache=not no_cache, progress=progress)
    scores = score(sources, made, interval=interval, run=run)
    warn_about(scores)
    systems = list(dict.fromkeys(one.system for one in scores))
    if len(systems) < 2:
        raise DataError(
            f"one system ('{systems[0]}') in {', '.join(files)}; expected two to compare: name another file, or the "
            "column of system names with --system"
        )
    comparisons = compare_all(scores, interval, paired=not unpaired)
    if unpaired:
        _warn_about_sizes(scores)
    saved = form == "json" and output is not None
    conclude(comparison_sheet(scores, comparisons, values=saved), scores, form, output, log)
    say_unmeasured(unmeasured)
    fail(gates, scores, comparisons)


def _warn_about_sizes(scores: list[Score]) -> None:
    """Measures of a whole corpus mostly fall with its size (paper 2), which no test between corpora can take out."""
    for label in dict.fromkeys(score.label for score in scores if score.items is None):
        sizes = {score.system: score.n for score in scores if score.label == label}
        if len(set(sizes.values())) > 1:
            found = ", ".join(f"'{system}' {size:,}" for system, size in sizes.items())
            print(
                f"nlgauge: warning: {label} of a whole corpus depends on its size, and systems have different numbers "
                f"of texts ({found}); compare as many texts of each",
                file=sys.stderr,
            )
