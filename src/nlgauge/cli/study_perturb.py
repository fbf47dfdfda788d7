"""`nlgauge study discrimination` and `invariance`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nlgauge.cli import inputs
from nlgauge.cli import study_options as options

if TYPE_CHECKING:
    from nlgauge.studies.perturbed import PerturbedStudy

Suites = Annotated[
    list[str],
    typer.Argument(
        metavar="SUITE...",
        help="Folders that `nlgauge perturb build` wrote, or their files; several are several tasks.",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric", "-m", metavar="NAME[:OPTION=VALUE,...]", show_default=False,
        help="A metric without references, or a printed signature; repeat for more.",
    ),
]  # fmt: skip
Aspects = Annotated[
    list[str] | None,
    typer.Option("--aspect", metavar="NAME", help="Only this aspect; repeat for more. Default: all of the suite."),
]
Limit = Annotated[
    int | None,
    typer.Option(metavar="N", help="At most so many texts of each aspect, of the same random stories for all."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("discrimination")(discrimination_command)
    app.command("invariance")(invariance_command)


def discrimination_command(
    suites: Suites,
    metric: Metrics = None,
    column: options.Columns = None,
    aspect: Aspects = None,
    rules: Annotated[bool, typer.Option("--rules", help="Also a row for each technique of an aspect.")] = False,
    limit: Limit = None,
    tasks: options.Tasks = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Can a metric tell stories from those made worse in one aspect? Pearson, AUC, accuracy over pairs.

    Examples:

      nlgauge study discrimination suites/roc suites/wp -m ppl -m distinct --chart discrimination.html

      nlgauge study discrimination suites/roc -m union:model=FOLDER --aspect consistency --rules
    """
    from nlgauge.studies.discrimination import discrimination_test

    options.check(format, chart, suites)
    inputs.use_machine(device, batch_size, threads)
    study = discrimination_test(
        suites, tuple(metric or ()),
        columns=tuple(column or ()), aspects=tuple(aspect or ()), rules=rules, limit=limit,
        interval=options.interval(level, resamples, seed), names=options.names(tasks), progress=progress,
    )  # fmt: skip
    _show(study, format, chart)


def invariance_command(
    suites: Suites,
    metric: Metrics = None,
    column: options.Columns = None,
    aspect: Aspects = None,
    limit: Limit = None,
    tasks: options.Tasks = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Does a metric keep its score when a text changes in ways that do not matter? Synonyms, typos and so on.

    Example: nlgauge study invariance suites/roc suites/wp -m ppl -m distinct --chart invariance.html
    """
    from nlgauge.studies.invariance import invariance_test

    options.check(format, chart, suites)
    inputs.use_machine(device, batch_size, threads)
    study = invariance_test(
        suites, tuple(metric or ()),
        columns=tuple(column or ()), aspects=tuple(aspect or ()), limit=limit,
        interval=options.interval(level, resamples, seed), names=options.names(tasks), progress=progress,
    )  # fmt: skip
    _show(study, format, chart)


def _show(study: PerturbedStudy, format: str, chart: Path | None) -> None:
    """Print a table a corpus, as the paper does, where a person reads them, and then all rows."""
    from nlgauge.report.study_tables import render_study

    if format not in ("json", "csv"):
        for table in study.tables():
            print(f"{render_study(table, format)}\n")
    options.show(study, format, chart)
