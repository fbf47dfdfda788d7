"""`nlgauge score`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nlgauge.cli import inputs
from nlgauge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nlgauge.cli.gates import Gate
    from nlgauge.metrics.comparison import Comparison
    from nlgauge.metrics.registry import Unmeasured
    from nlgauge.metrics.score import Score
    from nlgauge.report.tables import Sheet

_SKETCH = "hll-16"
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        callback=inputs.format_name,
        help="text, json, csv, markdown, latex or parquet. Default: as the output's name says, else text.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT",
        help="Write the result here instead of printing it. JSON then has intervals and the values of single sets, "
        "which nlgauge leaderboard reads.",
    ),
]
Log = Annotated[
    str,
    typer.Option(metavar="mlflow|wandb", help="Log the scores to a new run of this tracker.", show_default=False),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Exit with 1 when this is so, as in 'distinct < 0.4', 'distinct.high@b < 0.4', or "
        "'distinct.difference.high < 0' (below the first system, and not by chance); repeat for more.",
        show_default=False,
    ),
]


def score_command(
    files: inputs.Files,
    metric: inputs.Metrics = None,
    column: inputs.ValueColumns = None,
    format: Format = "",
    output: Output = None,
    confidence: Annotated[
        bool, typer.Option("--confidence", help="Add intervals (always there when systems are compared).")
    ] = False,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
    per_item: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write values of single sets to .jsonl, .csv or .parquet.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare/--no-compare", help="Paired tests between systems.")] = True,
    fail_if: FailIf = None,
    log: Log = "",
    sketch: Annotated[
        bool, typer.Option("--sketch", help="Estimate corpus-level counts in one pass and little memory.")
    ] = False,
    one_set: inputs.OneSet = False,
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
    engine: inputs.Engine = "local",
    processes: inputs.Processes = 0,
    run: inputs.RunFolder = None,
    on_error: inputs.OnError = "stop",
    part_mb: inputs.PartMb = 0.0,
    chunk_mb: inputs.ChunkMb = 2.0,
    no_cache: inputs.NoCache = False,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Score files of response sets or texts, and compare systems.

    Prints a table with a signature for every number. With several files (or a column of system names) each system is
    compared with the first, on the same contexts: paired permutation test, bootstrap interval of the difference,
    Holm's correction. CSV and Parquet have scores alone; nlgauge compare -o writes differences and p-values there, too.

    Examples:

      nlgauge score out.jsonl -m distinct -m self-bleu:n=3 --confidence

      nlgauge score a.jsonl b.jsonl -m distinct --format json

      nlgauge score corpus.txt.gz -m distinct:over=corpus --sketch

      nlgauge score replies.csv --text reply --references answers --references-separator '\\t' -m dialog

      nlgauge score out.jsonl -m distinct --fail-if 'distinct < 0.4'

      nlgauge score 'shards/*.jsonl.gz' -m distinct:over=corpus --engine ray --workers 8 --run runs/shards
    """
    from nlgauge.cli.gates import read_gates
    from nlgauge.metrics.comparison import compare_all
    from nlgauge.metrics.score import Interval
    from nlgauge.metrics.scoring import RunOptions
    from nlgauge.metrics.scoring import score as score_files
    from nlgauge.report import tables
    from nlgauge.stats.bootstrap import check_level

    form = check_result(format, output, log, files)
    if per_item is not None:
        if per_item.suffix not in (".jsonl", ".csv", ".tsv", ".parquet"):
            raise OptionError(f"--per-item {per_item}; expected a name ending in .jsonl, .csv, .tsv or .parquet")
        inputs.check_output(per_item, files)
    inputs.use_machine(device, batch_size, threads)
    made, unmeasured = make_metrics(metric, column, sketch)
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
    check_level(level, resamples)
    interval = Interval(level, resamples, seed)
    saved = form == "json" and output is not None
    wanted = confidence or saved or any(gate.end for gate in gates)
    scores = score_files(
        sources,
        made,
        interval=interval if wanted or (compare and (len(files) > 1 or sources[0].has_systems)) else None,
        interval_alone=wanted,
        run=RunOptions(
            processes=processes,
            chunk_bytes=inputs.chunk_bytes(chunk_mb),
            cache=not no_cache,
            progress=progress,
            one_set=one_set,
            engine=engine,
            folder=run,
            part_bytes=inputs.chunk_bytes(part_mb, "--part-mb") if part_mb else 0,
            on_error=on_error,
        ),
    )
    warn_about(scores)
    systems = {score.system for score in scores}
    comparisons = compare_all(scores, interval) if compare and len(systems) > 1 else []
    if per_item is not None:
        from nlgauge.data.writing import write_table

        write_table(tables.per_item_table(scores), per_item)
    conclude(tables.score_sheet(scores, comparisons, values=saved), scores, form, output, log)
    say_unmeasured(unmeasured)
    fail(gates, scores, comparisons)


def fail(gates: Sequence[Gate], scores: Sequence[Score], comparisons: Sequence[Comparison]) -> None:
    """Exit with 1 when a condition is met, and say which."""
    met = [line for gate in gates for line in gate.met(scores, comparisons)]
    for line in met:
        print(f"nlgauge: failed: {line}", file=sys.stderr)
    if met:
        raise typer.Exit(1)


def check_result(format: str, output: Path | None, log: str, files: list[str]) -> str:
    """The format of the result; fails before any work when it could not be written or logged."""
    from nlgauge.report.tables import choose_format

    if output is not None and not format and output.suffix.lower() in (".pdf", ".html", ".htm"):
        raise OptionError(
            f"{output}: a table cannot be '{output.suffix}'; expected .txt, .json, .csv, .md, .tex or .parquet; "
            "nlgauge report writes PDF and HTML"
        )
    form = choose_format(format, output)
    if output is not None:
        inputs.check_output(output, files)
    if log:
        from nlgauge.interop import check_tracker

        check_tracker(log)
    return form


def conclude(sheet: Sheet, scores: list[Score], form: str, output: Path | None, log: str) -> None:
    """Print the result or write it, and log it where asked."""
    from nlgauge.report.tables import render, write_sheet

    if output is None:
        print(render(sheet, form))
    else:
        write_sheet(sheet, form, output)
        print(f"nlgauge: wrote {output}", file=sys.stderr)
    if log:
        from nlgauge.interop import log_scores

        log_scores(scores, sheet.document, log)


def make_metrics(
    metric: list[str] | None, column: list[str] | None, sketch: bool = False
) -> tuple[list[Any], list[Unmeasured]]:
    """Metrics from command-line options, and the parts of bundles that this machine lacks something for: said now."""
    from nlgauge.metrics.column import ColumnMetric
    from nlgauge.metrics.registry import measurable_metrics

    specs = metric or ([] if column else ["distinct", "cos-sim"])
    made, unmeasured = measurable_metrics(specs)
    say_unmeasured(unmeasured)
    if sketch:
        sketched = [getattr(m, "over", "") == "corpus" and hasattr(m, "count") and m.name != "entropy" for m in made]
        if not any(sketched):
            raise OptionError("--sketch goes with a corpus-level count, as in -m distinct:over=corpus")
        made = [dataclasses.replace(m, count=_SKETCH) if s else m for m, s in zip(made, sketched, strict=True)]
    return [*made, *(ColumnMetric(column=name) for name in column or [])], unmeasured


def say_unmeasured(unmeasured: list[Unmeasured]) -> None:
    """Say what a bundle could not measure: before the work, and once more beside its outcome."""
    for one in unmeasured:
        print(f"nlgauge: warning: {one}", file=sys.stderr)


def warn_about(scores: list[Score]) -> None:
    """Say which scores leave sets out."""
    for score in scores:
        if score.excluded:
            print(
                f"nlgauge: warning: {score.label} has no value on {score.excluded} of {score.excluded + score.n} sets "
                f"of '{score.system}'; they do not count in its mean",
                file=sys.stderr,
            )
