"""`nlgauge data`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nlgauge.data.datasets import Dataset

app = typer.Typer(
    help="List, locate and verify the public datasets of the papers; make pairs of dialogs and tables of human "
    "judgments. Nothing is downloaded: `list --format json` says where each dataset comes from.\n\n"
    "Example: nlgauge data verify mans huse --data-dir ~/research",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
DataDir = Annotated[
    str, typer.Option("--data-dir", help="The folder below which the datasets lie; by default what NLGAUGE_DATA names.")
]


@app.command("list")
def list_command(
    format: Annotated[str, typer.Option("--format", "-f", help="text or json.")] = "text", data_dir: DataDir = ""
) -> None:
    """List the datasets and which are here. Example: nlgauge data list --format json"""
    from nlgauge.data.datasets import VARIABLE, catalogue
    from nlgauge.data.datasets import data_dir as find_data_dir
    from nlgauge.errors import OptionError

    if format not in ("text", "json"):
        raise OptionError(f"--format {format}; expected text or json")
    folder = find_data_dir(data_dir) if data_dir or os.environ.get(VARIABLE) else None
    datasets = list(catalogue().values())
    if format == "json":
        print(_as_json(datasets, folder))
        return
    rows = [("name", "here", "licence", "summary")]
    rows += [(dataset.name, _state(dataset, folder), dataset.licence, dataset.summary) for dataset in datasets]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
    if folder is None:
        print(f"nlgauge: no data folder; name it with --data-dir or set {VARIABLE}", file=sys.stderr)


@app.command("path")
def path_command(
    name: Annotated[str, typer.Argument(help="Name of a dataset.")],
    file: Annotated[str, typer.Argument(help="One of its files, by relative path or base name.")] = "",
    data_dir: DataDir = "",
) -> None:
    """Print the folder of a dataset, or the path of a file. Example: nlgauge data path huse summary_clean.csv"""
    from nlgauge.data.datasets import dataset_path

    print(dataset_path(name, data_dir, file=file))


@app.command("verify")
def verify_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Datasets; all of them when none is named.")
    ] = None,
    data_dir: DataDir = "",
) -> None:
    """Compare files with the catalogue's; exit 1 when one is missing or changed. Example: nlgauge data verify mans"""
    from nlgauge.data.datasets import catalogue, find_dataset, verify
    from nlgauge.data.datasets import data_dir as find_data_dir

    datasets = [find_dataset(name) for name in dict.fromkeys(names or catalogue())]
    folder = find_data_dir(data_dir)
    wrong = []
    for dataset in datasets:
        checks = verify(dataset, folder)
        for check in checks:
            print(f"{check.state:7}  {dataset.name}  {check.file.path}  {check}")
        if any(check.state != "ok" for check in checks):
            wrong.append(dataset)
    for dataset in wrong:
        print(f"nlgauge: {dataset.name}: {dataset.advice}", file=sys.stderr)
    if wrong:
        raise typer.Exit(1)


@app.command("pairs")
def pairs_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Dialogs; also .gz or .zst, and '-' is standard input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Pairs go here: .jsonl, .csv, .tsv or .parquet.")],
    context_turns: Annotated[int, typer.Option(metavar="N", help="Turns before the reply, at most.")] = 1,
    separator: Annotated[str, typer.Option(help="What stands between them; \\n is a line break.")] = " ",
    speaker_marks: Annotated[bool, typer.Option("--speaker-marks", help="Name speakers in the context.")] = False,
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="dailydialog, parlai, chat or json.",
                          show_default="by content")
    ] = "",
    limit: Annotated[int, typer.Option(metavar="N", help="Write only the first so many pairs; 0 for all.")] = 0,
) -> None:  # fmt: skip
    """Turn dialogs into pairs of context and reply (id, context, text and, where there are any, references).

    Example: nlgauge data pairs dialogues_train.txt -o pairs.jsonl --context-turns 2
    """
    from nlgauge.cli.inputs import check_output
    from nlgauge.data.dialogs import read_dialogs, turn_pairs
    from nlgauge.data.writing import write_table
    from nlgauge.errors import OptionError

    if limit < 0:
        raise OptionError(f"--limit {limit}; expected 0 (all) or more")
    check_output(output, [file])
    dialogs = read_dialogs(file, format=format)
    pairs = turn_pairs(
        dialogs, context_turns=context_turns, separator=separator.replace("\\n", "\n"), speaker_marks=speaker_marks
    )
    frame = pairs.frame.head(limit) if limit else pairs.frame
    write_table(frame, output)
    print(
        f"nlgauge: wrote {output}: {frame.height:,} of {len(pairs):,} pairs from {len(dialogs):,} dialogs "
        f"({dialogs.format})",
        file=sys.stderr,
    )


@app.command("judgments")
def judgments_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Released judgments; also .gz or .zst.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Items go here: .jsonl, .csv, .tsv or .parquet.")],
    ratings: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Single ratings go here: .jsonl, .csv, .tsv or .parquet.")
    ] = None,
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="mans, usr, summeval, hanna or table.",
                          show_default="by content")
    ] = "",
) -> None:  # fmt: skip
    """Turn released human judgments into items (with mean ratings) and single ratings, which every study reads.

    Example: nlgauge data judgments mans_roc.json -o items.jsonl --ratings ratings.csv
    """
    from nlgauge.cli.inputs import check_output
    from nlgauge.data.judgments import read_judgments
    from nlgauge.data.writing import write_table
    from nlgauge.errors import OptionError

    for path in (output, ratings):
        if path is not None:
            check_output(path, [file])
    if ratings is not None and ratings.resolve() == output.resolve():
        raise OptionError(f"{ratings}: items and ratings are to go to one file; expected two names")
    found = read_judgments(file, format)
    write_table(found.items, output)
    if ratings is not None:
        write_table(found.ratings, ratings)
    for note in found.notes:
        print(f"nlgauge: note: {note}", file=sys.stderr)
    scores = ", ".join(name for name in found.items.frame.columns if name == "human" or name.startswith("human_"))
    print(
        f"nlgauge: wrote {output}: {len(found.items):,} items ({found.format}) with {scores}"
        + ("" if ratings is None else f"; {ratings}: {len(found.ratings):,} ratings"),
        file=sys.stderr,
    )


def _state(dataset: Dataset, folder: Path | None) -> str:
    present = dataset.present(folder) if folder else 0
    if present == len(dataset.files):
        return "yes"
    return f"{present} of {len(dataset.files)}" if present else "-"


def _as_json(datasets: list[Dataset], folder: Path | None) -> str:
    import json
    from dataclasses import asdict

    entries = [{**asdict(dataset), "files_here": dataset.present(folder) if folder else 0} for dataset in datasets]
    return json.dumps({"datasets": entries}, ensure_ascii=False, indent=2)
