"""`nlgauge study correlation`, `improvement` and `drift`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nlgauge.cli import inputs
from nlgauge.cli import study_options as options
from nlgauge.errors import OptionError

Truth = Annotated[str, typer.Option(metavar="COL", help="Column of human scores.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("correlation")(correlation_command)
    app.command("improvement")(improvement_command)
    app.command("drift")(drift_command)


def correlation_command(
    files: options.Files,
    truth: Truth,
    metric: inputs.Metrics = None,
    column: options.Columns = None,
    ratings: options.RatingsFile = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="Also the items of each value of this column; repeat for more."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE", help="Each --group with the items of this value: truth is 1 for these, 0 for the others."
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Also the mean of correlations inside each value, as in --within context."),
    ] = None,
    systems: Annotated[
        str | None, typer.Option(metavar="COL", help="Also correlations of the means of this column's systems.")
    ] = None,
    by: options.By = None,
    tasks: options.Tasks = None,
    decimals: options.Decimals = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    significance: options.Significance = True,
    permutations: options.Permutations = 1000,
    over: options.Over = "auto",
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
    empty_cells: inputs.EmptyCells = "error",
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Agreement with people: Pearson, Spearman and Kendall, marked † below p = .1 and ‡ below p = .05.

    Examples:

      nlgauge study correlation systems.csv --truth human --column distinct --column ead --by dataset

      nlgauge study correlation replies.csv --truth rating --text reply --references answer --context dialog -m dialog

      nlgauge study correlation stories.jsonl --truth human -m bleu --group error --against reasonable

      nlgauge study correlation stories.jsonl --truth human -m bleu --within context --systems model
    """
    from nlgauge.studies.correlation import correlation_study

    options.check(format, chart, files)
    inputs.use_machine(device, batch_size, threads)
    study = correlation_study(
        options.sources(
            files, input_format, responses, id, context, empty_cells,
            text=text, references=references, references_separator=references_separator,
        ),
        tuple(metric or ()),
        truth=truth, groups=tuple(group or ()), against=against, within=within, systems=systems,
        columns=tuple(column or ()), ratings=ratings, significance=significance, permutations=permutations,
        interval=options.interval(level, resamples, seed), by=by, decimals=decimals,
        over=over,  # type: ignore[arg-type]
        progress=progress, names=options.names(tasks),
    )  # fmt: skip
    options.show(study, format, chart)


def improvement_command(
    files: options.Files,
    truth: Truth,
    metric: inputs.Metrics = None,
    column: options.Columns = None,
    ratings: options.RatingsFile = None,
    size: Annotated[int, typer.Option(help="Items in a window.")] = 200,
    stride: Annotated[int, typer.Option(help="Items from one window to the next.")] = 10,
    windows: Annotated[
        str,
        typer.Option(metavar="paper|all", help="Of 1,000 items: 80 windows as the paper counts, or all 81 that fit."),
    ] = "paper",
    alpha: Annotated[float, typer.Option(help="Differences are significant below this p (t-test).")] = 0.01,
    by: options.By = None,
    tasks: options.Tasks = None,
    decimals: options.Decimals = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
    responses: inputs.Responses = None,
    text: inputs.Text = None,
    references: inputs.References = None,
    references_separator: inputs.ReferencesSeparator = "",
    id: inputs.Id = None,
    context: inputs.Context = None,
    empty_cells: inputs.EmptyCells = "error",
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Does a better metric score mean better texts? Differences between windows of items sorted by human score.

    Example: nlgauge study improvement stories.jsonl --truth human -m bleu -m rouge-l --chart improvement.html
    """
    from nlgauge.studies.improvement import improvement_study

    options.check(format, chart, files)
    inputs.use_machine(device, batch_size, threads)
    study = improvement_study(
        options.sources(
            files, input_format, responses, id, context, empty_cells,
            text=text, references=references, references_separator=references_separator,
        ),
        tuple(metric or ()),
        truth=truth, columns=tuple(column or ()), ratings=ratings, size=size, stride=stride,
        windows=windows, alpha=alpha, by=by, decimals=decimals, seed=seed,  # type: ignore[arg-type]
        progress=progress, names=options.names(tasks),
    )  # fmt: skip
    options.show(study, format, chart)


def drift_command(
    truth: Annotated[str, typer.Option(metavar="COL", help="Column of human scores, or of labels 1 and 0.")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE...", help="With --generator: texts of several generators.")
    ] = None,
    generator: Annotated[str | None, typer.Option(metavar="COL", help="Model drift: column of generators.")] = None,
    test: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="Dataset drift: a test set; at least two.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", metavar="[NAME=]SPEC",
            help="A metric; with --test, a name such as union-roc says on which test set's data it was trained.",
            show_default=False,
        ),
    ] = None,
    column: options.Columns = None,
    decimals: options.Decimals = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    over: options.Over = "auto",
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
    empty_cells: inputs.EmptyCells = "error",
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:  # fmt: skip
    """Is a metric as good on other generators (--generator), and on other data than it was trained on (--test)?

    Examples:

      nlgauge study drift stories.jsonl --truth human --generator model -m bleu -m rouge-l

      nlgauge study drift --test ROC=roc.jsonl --test WP=wp.jsonl --truth label -m union-roc=union:model=FOLDER
    """
    from nlgauge.studies.drift import dataset_drift, model_drift

    if (generator is None) == (not test) or bool(files) == bool(test):
        raise OptionError("expected files with --generator COL, or --test NAME=FILE at least twice and no other file")
    tests = _named(test or [], "--test", "ROC=roc.jsonl")
    paths = files or list(tests.values())
    options.check(format, chart, paths)
    inputs.use_machine(device, batch_size, threads)
    sources = options.sources(
        paths, input_format, responses, id, context, empty_cells,
        text=text, references=references, references_separator=references_separator,
    )  # fmt: skip
    shared: dict[str, Any] = {
        "truth": truth, "columns": tuple(column or ()), "over": over, "decimals": decimals, "progress": progress,
        "interval": options.interval(level, resamples, seed),
    }  # fmt: skip
    study: Any
    if generator is not None:
        study = model_drift(sources, tuple(metric or ()), generator=generator, **shared)
    else:
        specs = _named(metric or [], "--metric", "union-roc=union:model=FOLDER", plain=True)
        study = dataset_drift(dict(zip(tests, sources, strict=True)), specs, **shared)
    options.show(study, format, chart)


def _named(entries: list[str], option: str, example: str, *, plain: bool = False) -> dict[str, str]:
    """NAME=VALUE pairs; with `plain`, a value alone names itself. A metric's options have an = behind a colon."""
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if plain and (not equals or ":" in name):
            name, value = entry, entry
        if not name or not value:
            raise OptionError(f"{option} {entry}; expected NAME=VALUE, as in {option} {example}")
        if name in found:
            raise OptionError(f"{option} {name}= stands twice; expected a different name each")
        found[name] = value
    return found
