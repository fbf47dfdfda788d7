"""`nlgauge study ruq` and `sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nlgauge.cli import inputs
from nlgauge.cli import study_options as options
from nlgauge.errors import DataError, OptionError

_TABLES = (".jsonl", ".csv", ".tsv", ".parquet")
MODEL_HELP = "A catalogue name, a folder, ngram:FOLDER, or the address of an endpoint."
Train = Annotated[
    str | None, typer.Option(metavar="FILE", help="Prompts and references of its training: columns context and text.")
]
Test = Annotated[str | None, typer.Option(metavar="FILE", help="Prompts and references that it has not seen.")]
Generic = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="A generic response; repeat for more. Default: I don't know. and I don't know what to do.",
        show_default=False,
    ),
]
GenericsFile = Annotated[str | None, typer.Option("--generics", metavar="FILE", help="Generic responses, one a line.")]
FindGenerics = Annotated[
    int, typer.Option(metavar="K", help="Add the model's K most common outputs over the first file's prompts.")
]
Normalise = Annotated[
    str,
    typer.Option(
        metavar="tokens+end|tokens|characters|none",
        help="Score: mean over tokens and end, over tokens, sum by characters, or sum.",
    ),
]
End = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="What ends a response, such as \\n; default: the model's end token."),
]
Ties = Annotated[str, typer.Option(metavar="lose|win|half", help="What an equal score counts for the reference.")]
Beam = Annotated[int, typer.Option(metavar="N", help="Score the model's own output: width of the beam, 1: greedy.")]
MaxNewTokens = Annotated[int, typer.Option(help="Longest output of the model, in tokens.")]
Template = Annotated[
    str, typer.Option(help="What stands before a response; {context} is replaced, and \\n is a line break.")
]
Join = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Between prompt and response; default: a space, if the template ends in none."),
]
Limit = Annotated[int, typer.Option(metavar="N", help="Use only the first so many prompts of a file; 0: all.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("ruq")(ruq_command)
    app.command("sweep")(sweep_command)


def ruq_command(
    model: Annotated[str, typer.Option(help=MODEL_HELP)],
    train: Train = None,
    test: Test = None,
    generic: Generic = None,
    generics: GenericsFile = None,
    find_generics: FindGenerics = 0,
    normalise: Normalise = "tokens+end",
    end: End = None,
    ties: Ties = "lose",
    beam: Beam = 0,
    max_new_tokens: MaxNewTokens = 40,
    template: Template = "{context}",
    join: Join = None,
    limit: Limit = 0,
    items: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Every prompt with texts, scores and winner: .jsonl, .csv, ...")
    ] = None,
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
    """RUQ: how often does a model prefer the reference to "I don't know."?

    Examples:

      nlgauge study ruq --model smollm2 --train train.jsonl --test test.jsonl --beam 5 --chart ruq.html

      nlgauge study ruq --model smollm2 --test test.csv --template 'A: {context}\\nB:' --end '\\n' --items scores.csv
    """
    from nlgauge.studies.ruq import ruq

    splits = _splits(train, test)
    options.check(format, chart, list(splits.values()))
    if items is not None:
        inputs.check_output(items, list(splits.values()))
        if items.suffix not in _TABLES:
            raise OptionError(f"--items {items}; expected a name ending in one of {', '.join(_TABLES)}")
    inputs.use_machine(device, batch_size, threads)
    using = options.interval(level, resamples, seed)
    settings = _settings(
        generic, generics, find_generics, normalise, end, ties, beam, max_new_tokens, template, join, limit
    )
    study = ruq(model, splits, interval=using, progress=progress, **settings)
    if items is not None:
        from nlgauge.data.writing import write_table

        write_table(study.items, items)
    options.show(study, format, chart)


def sweep_command(
    model: Annotated[
        list[str] | None, typer.Option(help=f"{MODEL_HELP} Repeat for each model.", show_default=False)
    ] = None,
    train: Train = None,
    test: Test = None,
    names: Annotated[str | None, typer.Option(metavar="NAME,NAME", help="What to call the models.")] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="What a system wrote for the test prompts, one text a prompt: plain text or a table. NAME is a "
            "model's, or a system's without one. Repeat for more.",
            show_default=False,
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Models without such a file write their own, with the width --beam.")
    ] = False,
    beam: Annotated[int, typer.Option(metavar="N", help="How models write: width of the beam, 1: greedy.")] = 0,
    max_new_tokens: MaxNewTokens = 40,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME[:OPTION=VALUE,...]",
            help="What outputs are scored with, 'dialog' too; repeat for more. Default: METEOR and type/token ratios "
            "of 1-, 2- and 3-grams.",
            show_default=False,
        ),
    ] = None,
    scores: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Other scores: a column 'model' and columns of numbers.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The generic of the table, or all; default: the first.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="train|test", help="Whose RUQ the other columns are compared with.")
    ] = None,
    generic: Generic = None,
    generics: GenericsFile = None,
    find_generics: FindGenerics = 0,
    normalise: Normalise = "tokens+end",
    end: End = None,
    ties: Ties = "lose",
    template: Template = "{context}",
    join: Join = None,
    limit: Limit = 0,
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
    """Sweep: RUQ of many models side by side with scores of what they write, and how far the rankings agree.

    Examples:

      nlgauge study sweep --model base --model tuned --train train.jsonl --test test.jsonl --write --beam 5

      nlgauge study sweep --model tuned --test test.jsonl --outputs tuned=a.txt --outputs other=b.jsonl -m dialog
    """
    from nlgauge.studies.sweep import sweep

    splits = _splits(train, test)
    files = _named_files(outputs)
    options.check(format, chart, [*splits.values(), *files.values(), *([scores] if scores else [])])
    inputs.use_machine(device, batch_size, threads)
    models = model or []
    called = options.names(names) or tuple(models)
    if len(called) != len(models) or len(set(called)) < len(called):
        raise OptionError(f"names {', '.join(called)} for {len(models)} models; expected a different one each")
    study = sweep(
        dict(zip(called, models, strict=True)), splits, outputs=files, write=write, metrics=metric or (),
        scores=scores, generic=against, target=target, interval=options.interval(level, resamples, seed),
        progress=progress,
        **_settings(
            generic, generics, find_generics, normalise, end, ties, beam, max_new_tokens, template, join, limit
        ),
    )  # fmt: skip
    options.show(study, format, chart)


def _splits(train: str | None, test: str | None) -> dict[str, str]:
    found = {name: file for name, file in (("train", train), ("test", test)) if file is not None}
    if not found:
        raise OptionError("no data; expected --train FILE, --test FILE, or both")
    return found


def _named_files(outputs: list[str] | None) -> dict[str, str]:
    """Files by the names of their systems, as in `base=base.txt`."""
    found: dict[str, str] = {}
    for entry in outputs or []:
        name, equals, file = entry.partition("=")
        if not equals or not name.strip() or not file or name.strip() in found:
            raise OptionError(f"--outputs {entry}; expected NAME=FILE, a different name each, as in base=base.txt")
        found[name.strip()] = file
    return found


def _settings(
    generic: list[str] | None,
    generics: str | None,
    find_generics: int,
    normalise: str,
    end: str | None,
    ties: str,
    beam: int,
    max_new_tokens: int,
    template: str,
    join: str | None,
    limit: int,
) -> dict[str, Any]:
    from nlgauge.studies.ruq import GENERICS

    return {
        "generics": [*(generic or ()), *_lines(generics)] or GENERICS, "find_generics": find_generics,
        "normalise": normalise, "end": inputs.unescaped(end), "ties": ties, "beam": beam,
        "max_new_tokens": max_new_tokens, "template": inputs.unescaped(template), "join": inputs.unescaped(join),
        "limit": limit or None,
    }  # fmt: skip


def _lines(file: str | None) -> list[str]:
    """The texts of a file, blank lines aside."""
    if file is None:
        return []
    from nlgauge.data.reading import Source

    texts = [text.strip() for text in Source(path=file, extras=()).read().texts.to_list() if text.strip()]
    if not texts:
        raise DataError("no generic response; expected one a line", file=file)
    return texts
