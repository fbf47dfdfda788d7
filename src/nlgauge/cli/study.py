"""`nlgauge study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nlgauge.cli import inputs, study_agreement, study_huse, study_openmeva, study_perturb, study_ruq
from nlgauge.cli import study_options as options
from nlgauge.errors import OptionError

app = typer.Typer(
    help="Gauge the gauges: studies of metrics and of raters.\n\n"
    "Example: nlgauge study content examples/content_sets.jsonl -m distinct -m cos-sim --chart content.html",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("content")
def content_command(
    files: options.Files,
    metric: inputs.Metrics = None,
    column: options.Columns = None,
    ratings: options.RatingsFile = None,
    label: options.Label = None,
    high: options.High = None,
    directions: Annotated[
        str, typer.Option(metavar="one|both", help="OCA: above the threshold is diverse (paper), or either side.")
    ] = "one",
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
    id: inputs.Id = None,
    context: inputs.Context = None,
    empty_cells: inputs.EmptyCells = "error",
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Content test: does a metric tell high content diversity from low? Spearman, Pearson, OCA with its threshold.

    Examples:

      nlgauge study content examples/content_sets.jsonl --label content_diversity -m distinct -m sent-sim

      nlgauge study content story.csv resp.csv --tasks story,resp --column 'metric_*' --format latex
    """
    from nlgauge.studies.content import content_test

    options.check(format, chart, files)
    inputs.use_machine(device, batch_size, threads)
    study = content_test(
        options.sources(files, input_format, responses, id, context, empty_cells),
        tuple(metric or ()),
        columns=tuple(column or ()), ratings=ratings, label=label, high=high, directions=directions,  # type: ignore[arg-type]
        significance=significance, permutations=permutations, interval=options.interval(level, resamples, seed), by=by,
        decimals=decimals, over=over,  # type: ignore[arg-type]
        progress=progress, names=options.names(tasks),
    )  # fmt: skip
    options.show(study, format, chart)


@app.command("decoding")
def decoding_command(
    files: options.Files,
    metric: inputs.Metrics = None,
    column: options.Columns = None,
    ratings: options.RatingsFile = None,
    parameter: options.Parameter = None,
    scale: options.Scale = "auto",
    subset: Annotated[
        int | None,
        typer.Option(help="Sets in each random subset; 0: all sets once. Default: 200 where there are 400 or more."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Random subsets.")] = 100,
    draw: Annotated[
        str, typer.Option(metavar="even|simple", help="Subsets: evenly over the parameter (paper), or simply random.")
    ] = "even",
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
    id: inputs.Id = None,
    context: inputs.Context = None,
    empty_cells: inputs.EmptyCells = "error",
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Decoding test: does a metric follow a parameter of the generator, or any other column?

    Examples:

      nlgauge generate examples/system_a.jsonl -o sets.jsonl --sweep temperature=0.2:1.2:30

      nlgauge study decoding sets.jsonl -m distinct -m cos-sim -m sent-sim --chart decoding.html

      nlgauge study decoding reviews.csv --parameter sentiments -m content
    """
    from nlgauge.studies.decoding import decoding_test

    options.check(format, chart, files)
    inputs.use_machine(device, batch_size, threads)
    study = decoding_test(
        options.sources(files, input_format, responses, id, context, empty_cells),
        tuple(metric or ()),
        columns=tuple(column or ()), ratings=ratings, parameter=parameter, scale=scale, subset=subset,  # type: ignore[arg-type]
        repeats=repeats, draw=draw, significance=significance, permutations=permutations,  # type: ignore[arg-type]
        interval=options.interval(level, resamples, seed), by=by, decimals=decimals,
        over=over,  # type: ignore[arg-type]
        progress=progress, names=options.names(tasks),
    )  # fmt: skip
    options.show(study, format, chart)


@app.command("ranking")
def ranking_command(
    files: options.Files,
    metric: inputs.Metrics = None,
    column: options.Columns = None,
    ratings: options.RatingsFile = None,
    comparisons: Annotated[
        str | None, typer.Option(metavar="FILE", help="Answers of people (rnkHDS): item FIRST>SECOND, value above 0.")
    ] = None,
    parameter: options.Parameter = None,
    scale: options.Scale = "auto",
    pair_by: Annotated[str, typer.Option(metavar="COL", help="Pair sets that share this column.")] = "context",
    pairs: Annotated[int, typer.Option(help="Draw at most so many pairs.")] = 1000,
    by: options.By = None,
    tasks: options.Tasks = None,
    decimals: options.Decimals = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    over: options.Over = "auto",
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
    responses: inputs.Responses = None,
    id: inputs.Id = None,
    context: inputs.Context = None,
    empty_cells: inputs.EmptyCells = "error",
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Ranking test: which of two sets was made with more diversity? A tie is a miss.

    Example: nlgauge study ranking sets.jsonl --parameter temperature -m distinct -m self-bleu
    """
    from nlgauge.studies.ranking import ranking_test

    options.check(format, chart, files)
    inputs.use_machine(device, batch_size, threads)
    study = ranking_test(
        options.sources(files, input_format, responses, id, context, empty_cells),
        tuple(metric or ()),
        columns=tuple(column or ()), ratings=ratings, comparisons=comparisons, parameter=parameter,
        scale=scale, pair_by=pair_by, pairs=pairs,  # type: ignore[arg-type]
        interval=options.interval(level, resamples, seed), by=by, decimals=decimals,
        over=over,  # type: ignore[arg-type]
        progress=progress, names=options.names(tasks),
    )  # fmt: skip
    options.show(study, format, chart)


@app.command("nuggets")
def nuggets_command(
    files: options.Files,
    metric: Annotated[str, typer.Option("--metric", "-m", help="The metric of form to neutralise.")] = "distinct",
    column: Annotated[str | None, typer.Option(metavar="COL", help="Take this column instead of a metric.")] = None,
    label: options.Label = None,
    high: options.High = None,
    group: Annotated[int, typer.Option(help="Sets in each group of similar form.")] = 40,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the kept sets: .jsonl, .csv or .parquet.")
    ] = None,
    by: options.By = None,
    tasks: options.Tasks = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
    responses: inputs.Responses = None,
    id: inputs.Id = None,
    context: inputs.Context = None,
    empty_cells: inputs.EmptyCells = "error",
    progress: inputs.Progress = True,
) -> None:
    """Build a subset in which form tells nothing about the label: sort by form, balance the classes group by group.

    Example: nlgauge study nuggets mcdiv.csv -o nuggets.jsonl --chart nuggets.html
    """
    from nlgauge.data.writing import write_table
    from nlgauge.studies.nuggets import build_nuggets

    options.check(format, chart, files)
    if output is not None:
        if len(files) > 1 or by:
            raise OptionError("--output goes with one file and no --by; run the command once for each")
        inputs.check_output(output, files)
    study = build_nuggets(
        options.sources(files, input_format, responses, id, context, empty_cells), metric,
        column=column, label=label, high=high, group=group, seed=seed, by=by,
        progress=progress, names=options.names(tasks),
    )  # fmt: skip
    if output is not None:
        write_table(next(iter(study.responses.values())), output)
    options.show(study, format, chart)


@app.command("stability")
def stability_command(
    files: options.Files,
    ratings: Annotated[
        str | None, typer.Option(metavar="FILE", help="Single ratings: item, rater, question, value.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(metavar="COL", help="Means, with standard deviations beside them (x_mean, x_std).")
    ] = None,
    ratings_a_set: Annotated[int, typer.Option(help="Ratings behind each mean of --column.")] = 10,
    truth: Annotated[str | None, typer.Option(metavar="COL", help="Column of the label or parameter.")] = None,
    sets: Annotated[str, typer.Option(metavar="N,N", help="Numbers of sets to try.")] = "",
    per_set: Annotated[str, typer.Option(metavar="N,N", help="Numbers of ratings a set to try.")] = "",
    repeats: Annotated[int, typer.Option(help="Random draws of each plan.")] = 100,
    price: Annotated[float, typer.Option(help="Cost of one answer.")] = 0.18,
    tolerance: Annotated[float, typer.Option(help="A plan is stable within this much.")] = 0.05,
    by: options.By = None,
    tasks: options.Tasks = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
) -> None:
    """Plan a budget: score of a human metric by number of sets and of ratings, and what each plan costs.

    Examples:

      nlgauge study stability sets.csv --ratings ratings.csv --price 0.18 --chart stability.html

      nlgauge study stability sets.csv --column metric_abs_hds_mean --ratings-a-set 10
    """
    from nlgauge.studies.stability import stability

    options.check(format, chart, files)
    study = stability(
        files,
        ratings=ratings, column=column, ratings_a_set=ratings_a_set, truth=truth, sets=options.whole(sets, "--sets"),
        per_set=options.whole(per_set, "--per-set"), repeats=repeats, price=price, tolerance=tolerance, seed=seed,
        by=by, names=options.names(tasks), **({"format": input_format} if input_format else {}),
    )  # fmt: skip
    options.show(study, format, chart)


@app.command("length-bias")
def length_bias_command(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...", help="Corpora: one text a line, or any table of texts or response sets."),
    ] = None,
    n: Annotated[int, typer.Option("-n", help="Order of n-grams.")] = 1,
    vocabulary: Annotated[
        str, typer.Option(metavar="V", help="As ead's option vocab: a number, bert, or corpus:FILE.")
    ] = "30522",
    set_size: Annotated[int, typer.Option(help="Texts in a set, all of one length.")] = 2000,
    sets: Annotated[int, typer.Option(help="Sets of each length.")] = 10,
    lengths: Annotated[str, typer.Option(metavar="LOW:HIGH", help="Lengths in tokens; default: all usable.")] = "",
    designated: Annotated[
        bool, typer.Option("--designated/--no-designated", help="Also the designated distribution.")
    ] = True,
    tok: Annotated[str, typer.Option(help="Tokeniser, as in `nlgauge metrics`.")] = "space",
    case: Annotated[str, typer.Option(help="keep or lower.")] = "keep",
    by: options.By = None,
    tasks: options.Tasks = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    level: inputs.Level = 0.95,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
) -> None:
    """Length bias of distinct and EAD: scores of sets of texts of one length, against that length, with slopes.

    Examples:

      nlgauge study length-bias utterances.txt --chart bias.html

      nlgauge study length-bias --lengths 5:40
    """
    from nlgauge.studies.length_bias import length_bias

    options.check(format, chart, files or [])
    between = options.ends(lengths, "--lengths")
    study = length_bias(
        files or None,
        vocabulary=vocabulary, n=n, set_size=set_size, sets=sets,
        lengths=None if between is None else (int(between[0]), int(between[1])), designated=designated, tok=tok,
        case=case, confidence=level, seed=seed, by=by, names=options.names(tasks),  # type: ignore[arg-type]
        **({"format": input_format} if input_format and files else {}),
    )  # fmt: skip
    options.show(study, format, chart)


study_agreement.register(app)
study_huse.register(app)
study_openmeva.register(app)
study_perturb.register(app)
study_ruq.register(app)
