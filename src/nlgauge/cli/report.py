"""`nlgauge report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nlgauge.cli import inputs
from nlgauge.errors import OptionError

if TYPE_CHECKING:
    from nlgauge.report.card import Card

FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".json": "json", ".pdf": "pdf"}


def report_command(
    files: inputs.Files,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write. Default: report.html, or as --format says.", show_default=False
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", "-f", metavar="html|md|json|pdf", help="Default: as the output's name says.", show_default=False
        ),
    ] = "",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME[:OPTION=VALUE,...]",
            help="A metric, or a printed signature; repeat for more. Default: those of form, those of content if "
            "their model is here, and those against references if there are any.",
            show_default=False,
        ),
    ] = None,
    column: inputs.ValueColumns = None,
    study: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RESULT",
            help="Show a result of nlgauge study huse, tradeoff or ruq, printed with --format json.",
            show_default=False,
        ),
    ] = None,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Files with different contexts: compare them as two samples.")
    ] = False,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
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
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Write a report card: one self-contained page that says what the numbers say, and how far to trust them.

    A summary in plain words, a card for each question (form, content, repetition, quality, fluency), every metric with
    its interval, comparison, signature and the tests that it passed or failed; charts, repeated phrases and examples.

    Examples:

      nlgauge report examples/system_a.jsonl examples/system_b.jsonl -o report.html

      nlgauge report out.jsonl -m distinct -m sent-sim -o report.pdf

      nlgauge report a.jsonl b.jsonl --study huse.json -o report.md
    """
    from nlgauge.cli.score import make_metrics, say_unmeasured, warn_about
    from nlgauge.metrics.score import Interval
    from nlgauge.report.card import Missing, make_card
    from nlgauge.report.measuring import default_metrics, measure
    from nlgauge.report.results import read_result
    from nlgauge.report.texts import read_texts

    output = output or Path(f"report.{format or 'html'}")
    inputs.check_output(output, files)
    form = _format(format, output)
    if form == "pdf":
        from nlgauge.report.printing import find_browser

        find_browser()
    if "-" in files:
        raise OptionError("standard input ('-'); a report reads its files twice: save the texts to a file first")
    inputs.use_machine(device, batch_size, threads)
    results = [read_result(path) for path in study or []]
    made, unmeasured = make_metrics(metric, column) if metric or column else ([], [])
    columns = {
        "responses": responses, "text": text, "id": id, "context": context, "system": system,
        "references": references, "references_separator": inputs.unescaped(references_separator),
        "empty_cells": empty_cells,
    }  # fmt: skip
    sources = inputs.make_sources(
        files, input_format=input_format, columns=columns, set_size=set_size, aligned=aligned,
        extras=tuple(column or ()),
    )  # fmt: skip
    read = read_texts(sources)
    missing = [Missing(one.metric, one.reason) for one in unmeasured]
    if not metric and not column:
        made, missing = default_metrics(read)
    run = measure(
        sources, made, read, interval=Interval(level, resamples, seed), missing=missing, results=results,
        paired=not unpaired, progress=progress,
    )  # fmt: skip
    warn_about(list(run.scores))
    _write(make_card(run), form, output)
    print(f"nlgauge: wrote {output}", file=sys.stderr)
    say_unmeasured(unmeasured)
    for one in run.missing:
        print(f"nlgauge: not measured: {one.what}: {one.reason}", file=sys.stderr)
    if run.refusal:
        print(f"nlgauge: warning: systems were not compared: {run.refusal}", file=sys.stderr)


def _format(asked: str, output: Path) -> str:
    known = sorted(set(FORMATS.values()))
    if asked and asked not in known:
        raise OptionError(f"--format {asked}; expected one of {', '.join(known)}")
    form = asked or FORMATS.get(output.suffix.lower(), "")
    if not form:
        raise OptionError(
            f"{output}: a report cannot be '{output.suffix}'; expected a name in {', '.join(FORMATS)}, or --format"
        )
    return form


def _write(card: Card, form: str, output: Path) -> None:
    from nlgauge.engine.files import atomic_path, write_text
    from nlgauge.report.documents import to_json, to_markdown
    from nlgauge.report.page import render_page

    if form == "pdf":
        from nlgauge.report.printing import print_page

        with atomic_path(output) as temporary:
            temporary.write_bytes(print_page(render_page(card)))
        return
    write_text(output, {"html": render_page, "md": to_markdown, "json": to_json}[form](card))
