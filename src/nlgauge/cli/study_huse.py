"""`nlgauge study huse`, `tradeoff`, `huse-stability` and `typicality`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nlgauge.cli import inputs
from nlgauge.cli import study_options as options
from nlgauge.errors import OptionError

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="A table with a row a text, or a crowd export (Input.*, Answer.*); a system each."
    ),
]
Judgment = Annotated[str | None, typer.Option(metavar="COL", help="Column of judgments.")]
Logp = Annotated[str | None, typer.Option(metavar="COL", help="Column of log-probabilities of whole texts.")]
TokenLogprobs = Annotated[str | None, typer.Option(metavar="COL", help="List column of log-probabilities of tokens.")]
Length = Annotated[str | None, typer.Option(metavar="COL", help="Column of lengths; default: words of the text.")]
IsModel = Annotated[str | None, typer.Option(metavar="COL", help="Column that says whether a text is the model's.")]
Text = Annotated[str | None, typer.Option(metavar="COL", help="Column of texts.")]
Context = Annotated[str | None, typer.Option(metavar="COL", help="Column of contexts.")]
RatingsFile = Annotated[str | None, typer.Option(metavar="FILE", help="Single ratings: item, rater, value.")]
Question = Annotated[str | None, typer.Option(help="The question of the ratings.")]
Model = Annotated[str | None, typer.Option(help="Language model that supplies log p, where no column does.")]
Template = Annotated[
    str, typer.Option(help="With --model: what stands before a text; {context} is replaced, and \\n is a line break.")
]
Judge = Annotated[
    str,
    typer.Option(
        help="Who judged: people, a name for whatever made the column, or a scorer to run (relevance:minilm, "
        "llm:smollm2, llm-judge:model=URL#NAME). Results say so."
    ),
]
Neighbours = Annotated[int, typer.Option("-k", help="Neighbours.")]
PerToken = Annotated[bool, typer.Option("--per-token/--total", help="Divide log p by the length (paper), or not.")]
Way = Annotated[str | None, typer.Option(metavar="halves|items|errors", help="How to make intervals; default: halves.")]
Ties = Annotated[
    str,
    typer.Option(metavar="computed|equal", help="Distances that are level: as double precision has it, or exactly."),
]
Raters = Annotated[bool, typer.Option("--raters", help="Resample raters, too.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("huse")(huse_command)
    app.command("tradeoff")(tradeoff_command)
    app.command("huse-stability")(stability_command)
    app.command("typicality")(typicality_command)


def huse_command(
    files: Files,
    judgment: Judgment = None,
    logp: Logp = None,
    token_logprobs: TokenLogprobs = None,
    length: Length = None,
    is_model: IsModel = None,
    text: Text = None,
    context: Context = None,
    ratings: RatingsFile = None,
    question: Question = None,
    model: Model = None,
    template: Template = "{context}",
    judge: Judge = "people",
    k: Neighbours = 16,
    per_token: PerToken = True,
    ties: Ties = "computed",
    way: Way = None,
    over: options.Over = "auto",
    raters: Raters = False,
    by: options.By = None,
    tasks: options.Tasks = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    report: Annotated[Path | None, typer.Option(metavar="OUT.html", help="A page with errors and their texts.")] = None,
    errors: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Every text with votes and verdict: .jsonl, .csv or .parquet.")
    ] = None,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
) -> None:
    """HUSE: quality and diversity in one score, from judgments and log-probabilities.

    Examples:

      nlgauge study huse judged.csv --judgment hj --logp logp --length tokens --is-model source --chart huse.html

      nlgauge study huse crowd_export.csv --report huse.html --errors errors.csv

      nlgauge study huse texts.jsonl --model smollm2 --judge relevance:minilm --by system
    """
    from nlgauge.studies.huse import huse

    options.check(format, chart, files)
    for path in (report, errors):
        if path is not None:
            inputs.check_output(path, files)
    if report is not None and report.suffix != ".html":
        raise OptionError(f"--report {report}; expected a name ending in .html")
    inputs.use_machine(device, batch_size, threads)
    study = huse(
        files, options=_columns(judgment, logp, token_logprobs, length, is_model, text, context, ratings, question,
                                model, template, judge),
        k=k, normalise=per_token, ties=ties, way=way, over=over, raters=raters,  # type: ignore[arg-type]
        interval=options.interval(level, resamples, seed), by=by, names=options.names(tasks),
    )  # fmt: skip
    if errors is not None:
        from nlgauge.data.writing import write_table

        write_table(study.items, errors)
    if report is not None:
        from nlgauge.engine.files import write_text
        from nlgauge.report.huse_page import render_huse

        write_text(report, render_huse(study))
    options.show(study, format, chart)


def tradeoff_command(
    files: Files,
    judgment: Judgment = None,
    logp: Logp = None,
    token_logprobs: TokenLogprobs = None,
    length: Length = None,
    is_model: IsModel = None,
    text: Text = None,
    context: Context = None,
    ratings: RatingsFile = None,
    question: Question = None,
    model: Model = None,
    template: Template = "{context}",
    judge: Judge = "people",
    k: Neighbours = 16,
    per_token: PerToken = True,
    ties: Ties = "computed",
    way: Way = None,
    over: options.Over = "auto",
    by: options.By = None,
    tasks: options.Tasks = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 12345,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
) -> None:
    """Trade-off between quality and diversity: several systems or temperatures in one plane.

    Example: nlgauge study tradeoff t10.csv t07.csv --tasks 'model @1.0,model @0.7' --chart tradeoff.html
    """
    from nlgauge.studies.tradeoff import tradeoff

    options.check(format, chart, files)
    inputs.use_machine(device, batch_size, threads)
    study = tradeoff(
        files, options=_columns(judgment, logp, token_logprobs, length, is_model, text, context, ratings, question,
                                model, template, judge),
        k=k, normalise=per_token, ties=ties, way=way, over=over,
        interval=options.interval(level, resamples, seed), by=by,
        names=options.names(tasks),
    )  # fmt: skip
    options.show(study, format, chart)


def stability_command(
    files: Files,
    judgment: Judgment = None,
    logp: Logp = None,
    length: Length = None,
    is_model: IsModel = None,
    text: Text = None,
    ratings: RatingsFile = None,
    question: Question = None,
    items: Annotated[str, typer.Option(metavar="N,N", help="Numbers of texts to try.")] = "",
    raters: Annotated[str, typer.Option(metavar="N,N", help="Numbers of raters to try.")] = "",
    k: Neighbours = 16,
    per_token: PerToken = True,
    repeats: Annotated[int, typer.Option(help="Random draws of each size.")] = 50,
    tasks: options.Tasks = None,
    format: options.Format = "text",
    chart: options.Chart = None,
    seed: inputs.Seed = 12345,
) -> None:
    """HUSE by number of texts and of raters, to plan how many are enough.

    Example: nlgauge study huse-stability crowd_export.csv --raters 2,5,10,20 --chart stability.png
    """
    from nlgauge.studies.huse_stability import huse_stability

    options.check(format, chart, files)
    study = huse_stability(
        files,
        options=_columns(judgment, logp, None, length, is_model, text, None, ratings, question, None, "{context}",
                         "people"),
        items=options.whole(items, "--items"), raters=options.whole(raters, "--raters"), k=k, normalise=per_token,
        repeats=repeats, seed=seed, names=options.names(tasks),
    )  # fmt: skip
    options.show(study, format, chart)


def typicality_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Judged texts: a row each.")],
    corpus: Annotated[str, typer.Option(metavar="FILE", help="The corpus: one text a line, or any table of texts.")],
    text: Annotated[str, typer.Option(metavar="COL", help="Column of texts.")] = "text",
    judgment: Annotated[str, typer.Option(metavar="COL", help="Column of judgments.")] = "judgment",
    bins: Annotated[int, typer.Option(help="Groups of frequencies.")] = 6,
    keep_case: Annotated[bool, typer.Option("--keep-case", help="Upper and lower case differ.")] = False,
    format: options.Format = "text",
    chart: options.Chart = None,
    seed: inputs.Seed = 12345,
) -> None:
    """Does a judgment follow probability? Judgment against log-frequency in a corpus.

    Example: nlgauge study typicality judged.csv --corpus comments.txt --chart typicality.html
    """
    from nlgauge.studies.typicality import typicality

    options.check(format, chart, [file, corpus])
    study = typicality(file, corpus, text=text, judgment=judgment, bins=bins, lower=not keep_case, seed=seed)
    options.show(study, format, chart)


def _columns(
    judgment: str | None,
    logp: str | None,
    token_logprobs: str | None,
    length: str | None,
    is_model: str | None,
    text: str | None,
    context: str | None,
    ratings: str | None,
    question: str | None,
    model: str | None,
    template: str,
    judge: str,
) -> Any:
    from nlgauge.studies.huse_data import HuseOptions

    return HuseOptions(
        judgment=judgment, logp=logp, token_logprobs=token_logprobs, length=length, is_model=is_model, text=text,
        context=context, ratings=ratings, question=question, model=model, judge=judge,
        template=template.replace("\\n", "\n"),
    )  # fmt: skip
