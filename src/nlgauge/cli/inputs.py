"""Options that every command that reads files has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, overload

import typer

from nlgauge.errors import DataError, OptionError, UnknownName

if TYPE_CHECKING:
    from nlgauge.data.reading import Source
    from nlgauge.models.runtime import Machine

_LARGEST_CHUNK_MB = 4096
_FORMAT_ENDINGS = {"md": "markdown", "tex": "latex"}

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="JSONL, CSV, TSV, Parquet, Arrow or plain text, also .gz or .zst; logs of lm-evaluation-harness (or their "
        "folder) and of Inspect, OpenAI batch output, or the folder of a Hugging Face dataset; '-' is standard input. "
        "Several files are several systems, compared with the first.",
        show_default=False,
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        metavar="NAME[:OPTION=VALUE,...]",
        help="A metric, or a printed signature; repeat for more. Default: distinct and cos-sim.",
        show_default=False,
    ),
]
ValueColumns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="COL", help="Take a column of the file as one more metric.", show_default=False),
]
InputFormat = Annotated[
    str, typer.Option(metavar="FORMAT", help="jsonl, csv, tsv, parquet or text. Default: by name.", show_default=False)
]
Responses = Annotated[
    str | None, typer.Option(metavar="COL", help="List column of responses, or prefix of resp_0, resp_1, ...")
]
Text = Annotated[str | None, typer.Option(metavar="COL", help="Column of single texts.")]
References = Annotated[
    str | None,
    typer.Option(
        metavar="COL", help="Column of references: a list, one text, or prefix of references_0, references_1, ..."
    ),
]
ReferencesSeparator = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help=r"What stands between references in one cell or line, as in '\t'.", show_default=False
    ),
]
Id = Annotated[str | None, typer.Option("--id", metavar="COL", help="Column of ids.")]
Context = Annotated[str | None, typer.Option(metavar="COL", help="Column of contexts.")]
SystemColumn = Annotated[str | None, typer.Option("--system", metavar="COL", help="Column of system names.")]
EmptyCells = Annotated[
    str, typer.Option(metavar="error|keep|drop", help="An empty cell of a wide CSV row: an empty response, or none?")
]
SetSize = Annotated[int, typer.Option(metavar="N", help="Plain text: every N lines are one set.", show_default=False)]
Aligned = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PART=FILE",
        help="Plain text: a file with the context= or references= of each line. OpenAI batch output: context=INPUT.",
        show_default=False,
    ),
]
OneSet = Annotated[bool, typer.Option("--one-set", help="Take all texts of a file as one set.")]
Seed = Annotated[int, typer.Option(help="Seed of every random step.")]
Level = Annotated[float, typer.Option(help="Confidence level of intervals.")]
Resamples = Annotated[int, typer.Option(help="Bootstrap resamples.")]
Processes = Annotated[
    int,
    typer.Option(
        "--workers", "--processes", metavar="N", help="Worker processes; 0 decides by size, or takes all cores."
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="ENGINE",
        help="Who works: local (this machine), ray (a cluster that runs, or a new one for this run), ray://HOST:PORT "
        "or HOST:PORT (a cluster elsewhere).",
    ),
]
RunFolder = Annotated[
    Path | None,
    typer.Option(
        "--run",
        metavar="FOLDER",
        help="Keep finished parts here: the same command goes on from them after an interruption, on either engine.",
    ),
]
PartMb = Annotated[
    float,
    typer.Option(
        metavar="MB",
        help="How much of the input is one part, with --run, Ray or models; 0: at most 64, less where models work.",
    ),
]
OnError = Annotated[
    str,
    typer.Option(
        metavar="stop|skip", help="A row that cannot be read or that kills a worker: stop and name it, or skip it."
    ),
]
ChunkMb = Annotated[float, typer.Option(metavar="MB", help="How much of a file to hold at a time.")]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="Where models run: cpu, cuda, cuda:1, mps.")]
BatchSize = Annotated[
    int,
    typer.Option(
        metavar="N", help="Texts that a model takes at once (more when it writes short ones); 0: its default."
    ),
]
Threads = Annotated[int, typer.Option(metavar="N", help="Threads of a model; 0: as many as torch likes.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the cache.")]
Progress = Annotated[bool, typer.Option("--progress/--no-progress", help="Progress on standard error.")]


def format_name(asked: str) -> str:
    """The output format that an option asks for, by its name or by the ending of its files; nothing stays nothing."""
    from nlgauge.report.tables import RESULT_FORMATS

    name = _FORMAT_ENDINGS.get(asked, asked)
    if name and name not in RESULT_FORMATS:
        raise UnknownName.among("format", asked, RESULT_FORMATS)
    return name


def check_output(output: Path, files: list[str]) -> None:
    """Fail before any work when the output cannot be written, or would overwrite an input."""
    from nlgauge.engine.files import check_writable

    check_writable(output)
    if output.exists() and any(Path(file).exists() and output.samefile(file) for file in files):
        raise OptionError(f"{output}: is one of the input files; choose another name for the output")


def use_machine(device: str, batch_size: int, threads: int) -> Machine:
    """Run models as the options say; what is left at its default stays as the environment has it."""
    from nlgauge.models.runtime import Machine

    if batch_size < 0 or threads < 0:
        raise OptionError(f"--batch-size {batch_size}, --threads {threads}; expected 0 (the default) or more")
    before = Machine.from_environment()
    chosen = Machine(device or before.device, batch_size or before.batch_size, threads or before.threads)
    chosen.use()
    return chosen


def chunk_bytes(megabytes: float, option: str = "--chunk-mb") -> int:
    """The size of a chunk, or of a part, in bytes."""
    if not 0 < megabytes <= _LARGEST_CHUNK_MB:
        raise OptionError(f"{option} {megabytes:g}; expected more than 0 and at most {_LARGEST_CHUNK_MB}")
    return max(1, int(megabytes * (1 << 20)))


@overload
def unescaped(typed: str) -> str: ...


@overload
def unescaped(typed: None) -> None: ...


def unescaped(typed: str | None) -> str | None:
    r"""A separator as typed, with `\t` and `\n` for a tab and a line end."""
    return None if typed is None else typed.replace(r"\t", "\t").replace(r"\n", "\n")


def make_sources(
    files: list[str],
    *,
    input_format: str,
    columns: dict[str, Any],
    set_size: int,
    aligned: list[str] | None,
    extras: tuple[str, ...] | str,
) -> list[Source]:
    """Sources from command-line options; every file is checked before any is read."""
    from nlgauge.data.columns import Columns
    from nlgauge.data.reading import Source

    if files.count("-") > 1:
        raise OptionError("standard input ('-') was named twice")
    companions: dict[str, str] = {}
    for entry in aligned or []:
        part, equals, path = entry.partition("=")
        if not equals:
            raise OptionError(f"--aligned {entry}; expected PART=FILE, as in --aligned context=contexts.txt")
        if part in companions:
            raise OptionError(
                f"--aligned {part}= was given twice ({companions[part]}, {path}); expected one file of each part: "
                "several references stand on one line, with --references-separator between them"
            )
        companions[part] = path
    options: dict[str, Any] = {
        "format": input_format,
        "columns": Columns(**columns),
        "set_size": set_size,
        "aligned": companions,
        "extras": extras,
    }
    for path in files:
        _refuse_metric(path)
    return [Source(path=path, **options) for path in files]


def _refuse_metric(path: str) -> None:
    """A metric in the place of a file: the option -m takes one name at a time."""
    from nlgauge.metrics.registry import BUNDLES, metric_names

    if path != "-" and not Path(path).exists() and path.partition(":")[0] in (*metric_names(), *BUNDLES):
        raise DataError(f"no such file (a metric needs its own -m: -m {path})", file=path)
