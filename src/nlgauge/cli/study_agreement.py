"""`nlgauge study agreement`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nlgauge.cli import inputs
from nlgauge.cli import study_options as options


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("agreement")(agreement_command)


def agreement_command(
    files: Annotated[list[str], typer.Argument(metavar="RATINGS...", help="Files of ratings.")],
    level_of: Annotated[
        str, typer.Option("--level-of-measurement", help="nominal, ordinal, interval or ratio.")
    ] = "interval",
    scale: Annotated[str, typer.Option(metavar="LOW:HIGH", help="Refuse ratings outside, as in 1:5.")] = "",
    drop_below: Annotated[
        float | None, typer.Option(help="Leave out raters who correlate less with the mean; the EAD paper: 0.65.")
    ] = None,
    leave_one_out: Annotated[
        bool, typer.Option("--leave-one-out", help="Compare each rater with the mean of the others.")
    ] = False,
    rescale: Annotated[
        str, typer.Option(metavar="LOW:HIGH", help="Map each rater's range to this one; the EAD paper: 0:10.")
    ] = "",
    measures: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="alpha (always), kappa (Fleiss') and icc (all six forms).")
    ] = "alpha",
    by: Annotated[
        str | None, typer.Option(metavar="COL", help="With --chart: a box of item means for each value of this column.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the mean of every item: .jsonl, .csv or .parquet.")
    ] = None,
    item: Annotated[str, typer.Option(metavar="COL", help="Column of items.")] = "item",
    rater: Annotated[str, typer.Option(metavar="COL", help="Column of raters.")] = "rater",
    question: Annotated[str, typer.Option(metavar="COL", help="Column of questions.")] = "question",
    value: Annotated[str, typer.Option(metavar="COL", help="Column of ratings; 'rating_*': one column a rater.")] = (
        "value"
    ),
    tasks: options.Tasks = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
) -> None:
    """Agreement of raters: Krippendorff's alpha, after a filter of raters and rescaling if asked for; kappa and ICC.

    Examples:

      nlgauge study agreement ratings.csv --scale 1:50 --drop-below 0.65 --rescale 0:10 -o scores.csv

      nlgauge study agreement ratings.csv --measures alpha,kappa,icc --by system --chart systems.html
    """
    from nlgauge.data.writing import write_table
    from nlgauge.studies.agreement import agreement_study

    options.check(format, chart, files)
    if output is not None:
        inputs.check_output(output, files)
    study = agreement_study(
        files, level=level_of, scale=options.ends(scale, "--scale"), drop_below=drop_below,  # type: ignore[arg-type]
        leave_one_out=leave_one_out, rescale_to=options.ends(rescale, "--rescale"),
        measures=options.names(measures), by=by,  # type: ignore[arg-type]
        interval=options.interval(level, resamples, seed), names=options.names(tasks), item=item, rater=rater,
        question=question, value=value,
    )  # fmt: skip
    if output is not None:
        write_table(study.scores, output)
    options.show(study, format, chart)
