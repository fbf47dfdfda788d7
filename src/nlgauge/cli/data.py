"""`nlgauge data`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from nlgauge.cli.commands import CommandGroup, argument
from nlgauge.cli.output import Output, check_file, columns, say, show_list
from nlgauge.configured import Options, check_that, option, required
from nlgauge.data.columns import Reading
from nlgauge.errors import OptionError

_FORM = "set-diversity"
_TABLE = "Written here: .jsonl, .csv, .tsv or .parquet."


@dataclass(frozen=True, kw_only=True)
class DataFolder(Options):
    """Where the datasets are."""

    heading: ClassVar[str] = "Data"

    data_dir: str = option("", "The folder of the datasets. Default: NLGAUGE_DATA.", metavar="FOLDER")


def list_datasets(folder: DataFolder, output: Output) -> None:
    """List the datasets, and which of them are here.

    Example: nlgauge data list --format json
    """
    from dataclasses import asdict

    from nlgauge.data.datasets import VARIABLE, catalogue, data_dir

    place = data_dir(folder.data_dir) if folder.data_dir or os.environ.get(VARIABLE) else None
    datasets = list(catalogue().values())
    rows = [{**asdict(one), "files_here": one.present(place) if place else 0} for one in datasets]
    lines = [("name", "here", "licence", "summary")]
    lines += [(one.name, one.present_in(place), one.licence, one.summary) for one in datasets]
    show_list("datasets", rows, columns(lines), output)
    if place is None:
        say(f"no data folder; name it with --data-dir or set {VARIABLE}")


def show_path(
    folder: DataFolder,
    name: str = argument("NAME", "A dataset."),
    file: str = argument("FILE", "One of its files, by relative path or base name.", ""),
) -> None:
    """Print the folder of a dataset, or the path of a file.

    Example: nlgauge data path huse summary_clean.csv
    """
    from nlgauge.data.datasets import dataset_path

    print(dataset_path(name, folder.data_dir, file=file))


def verify_datasets(
    folder: DataFolder, names: Sequence[str] = argument("NAME...", "Datasets; all of them when none is named.", ())
) -> None:
    """Compare files with the catalogue's; exit 1 when one is missing or changed.

    Example: nlgauge data verify mans
    """
    from nlgauge.data.datasets import catalogue, data_dir, find_dataset, verify

    datasets = [find_dataset(name) for name in dict.fromkeys(names or catalogue())]
    place = data_dir(folder.data_dir)
    wrong = []
    for dataset in datasets:
        checks = verify(dataset, place)
        for check in checks:
            print(f"{check.state:7}  {dataset.name}  {check.file.path}  {check}")
        if any(check.state != "ok" for check in checks):
            wrong.append(dataset)
    for dataset in wrong:
        say(f"{dataset.name}: {dataset.advice}")
    if wrong:
        raise click.exceptions.Exit(1)


def write_dialog_pairs(
    file: str = argument("FILE", "Dialogs; also .gz or .zst, and '-' is standard input."),
    output: Path = required(f"Pairs. {_TABLE}", metavar="OUT", flags=("--output", "-o")),
    context_turns: int = option(1, "Turns before the reply, at most.", metavar="N"),
    separator: str = option(" ", r"Text between them; \n is a line break.", escapes=True),
    speaker_marks: bool = option(False, "Name speakers in the context."),
    input_format: str = option("", "dailydialog, parlai, chat or json. Default: by content.", metavar="FORMAT"),
    limit: int = option(0, "Write only the first N pairs; 0: all.", metavar="N"),
) -> None:
    """Turn dialogs into pairs of context and reply (id, context, text and, where there are any, references).

    Example: nlgauge data pairs dialogues_train.txt -o pairs.jsonl --context-turns 2
    """
    from nlgauge.data.dialogs import read_dialogs, turn_pairs
    from nlgauge.data.writing import write_table

    check_that(limit >= 0, "limit", limit, "0 (all) or more")
    check_file("output", output, [file])
    dialogs = read_dialogs(file, format=input_format)
    pairs = turn_pairs(dialogs, context_turns=context_turns, separator=separator, speaker_marks=speaker_marks)
    frame = pairs.frame.head(limit) if limit else pairs.frame
    write_table(frame, output)
    say(f"wrote {output}: {frame.height:,} of {len(pairs):,} pairs from {len(dialogs):,} dialogs ({dialogs.format})")


def write_judgments(
    file: str = argument("FILE", "Released judgments; also .gz or .zst."),
    output: Path = required(f"Items. {_TABLE}", metavar="OUT", flags=("--output", "-o")),
    ratings: Path | None = option(None, f"Single ratings. {_TABLE}", metavar="OUT"),
    input_format: str = option("", "mans, usr, summeval, hanna or table. Default: by content.", metavar="FORMAT"),
) -> None:
    """Turn released human judgments into items (with mean ratings) and single ratings, which every study reads.

    Example: nlgauge data judgments mans_roc.json -o items.jsonl --ratings ratings.csv
    """
    from nlgauge.data.human.judgments import read_judgments
    from nlgauge.data.writing import write_table

    check_file("output", output, [file])
    if ratings is not None:
        check_file("ratings", ratings, [file])
        if ratings.resolve() == output.resolve():
            raise OptionError(f"{ratings}: is named for items and for ratings; expected two names", option="ratings")
    found = read_judgments(file, input_format)
    write_table(found.items, output)
    if ratings is not None:
        write_table(found.ratings, ratings)
    for note in found.notes:
        say(f"note: {note}")
    scores = ", ".join(name for name in found.items.frame.columns if name == "human" or name.startswith("human_"))
    written = "" if ratings is None else f"; {ratings}: {len(found.ratings):,} ratings"
    say(f"wrote {output}: {len(found.items):,} items ({found.format}) with {scores}{written}")


def sample_sets(
    reading: Reading,
    files: Sequence[str] = argument("FILE...", "Outputs of systems: a file each, or with a column of systems."),
    output: Path = required(f"Response sets. {_TABLE}", metavar="OUT", flags=("--output", "-o")),
    subsets: int = option(100, "Random subsets of the queries.", metavar="N"),
    responses_per_set: int = option(15, "Queries in a subset, and so responses of a system in a set.", metavar="N"),
    seed: int = option(12345, "Seed of every random step.", metavar="N"),
) -> None:
    """Draw sets of responses of every system to the same queries, for the form set-diversity (paper 2, section 3.2.4).

    Queries are contexts, or ids where there is none; of several responses to a query one is drawn.

    Example: nlgauge data sample-sets method_*.jsonl -o sets.jsonl
    """
    from nlgauge.data.human.evaluation_sets import evaluation_sets, systems_of_files
    from nlgauge.data.human.forms import load_form
    from nlgauge.data.writing import write_table
    from nlgauge.scoring.scoring import file_names

    check_that(subsets >= 1, "subsets", subsets, "1 or more")
    check_that(responses_per_set >= 2, "responses_per_set", responses_per_set, "2 or more")
    check_file("output", output, files)
    systems = systems_of_files(files, file_names(list(files)), reading)
    found = evaluation_sets(systems, subsets=subsets, responses=responses_per_set, seed=seed)
    write_table(found, output)
    usual = load_form(_FORM).unit.size
    size = "" if len(systems) == usual else f" --per-unit {len(systems)}"
    say(
        f"wrote {output}: {len(found):,} sets of {responses_per_set} responses, {len(systems)} systems on {subsets:,} "
        f"subsets of queries; next: nlgauge annotate new STUDY --form {_FORM} --data {output}{size}"
    )


app = CommandGroup(
    "data",
    "List, locate and verify public datasets of the papers; make pairs of dialogs, tables of human judgments and sets "
    "for raters.\n\n"
    "Nothing is downloaded: `list --format json` says where each dataset comes from.",
    {
        "list": list_datasets,
        "path": show_path,
        "verify": verify_datasets,
        "pairs": write_dialog_pairs,
        "judgments": write_judgments,
        "sample-sets": sample_sets,
    },
    examples=["nlgauge data verify mans huse --data-dir ~/research"],
)
