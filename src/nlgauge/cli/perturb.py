"""`nlgauge perturb`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from nlgauge.cli import inputs
from nlgauge.cli.perturb_build import build_command
from nlgauge.errors import DataError, ModelError, NLGaugeError, OptionError

if TYPE_CHECKING:
    from nlgauge.perturb.base import Perturbation
    from nlgauge.perturb.pairs import Made, Original, Pair

_TRIED_FOR_EACH = 20
_ENDINGS = (".jsonl", ".csv", ".tsv", ".parquet")


class _ApplyByDefault(TyperGroup):
    """A group whose first argument may be a file: what names no command is an argument of `apply`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `apply` before what names no command and asks for no help."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["apply", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ApplyByDefault,
    help="Change texts on purpose, to make them worse or to leave their quality as it is, and look at the results.\n\n"
    "Examples: nlgauge perturb stories.jsonl --aspect typos -o pairs.jsonl  *  nlgauge perturb list  *  "
    "nlgauge perturb show pairs.jsonl --html browser.html",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Aspects = Annotated[
    list[str] | None,
    typer.Option(
        "--aspect",
        "-a",
        metavar="NAME[:OPTION=VALUE,...]",
        help="A perturbation, as `nlgauge perturb list` has them; repeat for more.",
        show_default=False,
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="Your own file that registers perturbations; it is run. Repeat for more.",
        show_default=False,
    ),
]


app.command("build")(build_command)


@app.command("apply")
def apply_command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Texts: JSONL, CSV, TSV, Parquet, or plain text with one a line; '-': standard input.",
        ),
    ],
    aspect: Aspects = None,
    n: Annotated[
        int, typer.Option("--n", "-n", help="Versions of each text; those that come out alike count once.")
    ] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT", help="Pairs: .jsonl, .csv, .tsv or .parquet.", show_default=False
        ),
    ] = None,
    grammar: Annotated[
        str,
        typer.Option(
            "--filter", metavar="none|link-grammar|classifier:model=NAME", help="What drops ungrammatical results."
        ),
    ] = "none",
    plugin: Plugins = None,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
    text: inputs.Text = None,
    id: inputs.Id = None,
    context: inputs.Context = None,
    aligned: inputs.Aligned = None,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Perturb texts and write pairs of original and perturbed text, with the rule and the characters that changed.

    Without --output, pairs go to standard output as JSON lines. A perturbation that this machine lacks something for
    is named and left out. The same seed gives the same pairs, whatever the order of texts.

    Examples:

      nlgauge perturb stories.jsonl --aspect typos --aspect lexical-repetition --n 2 -o pairs.jsonl

      nlgauge perturb stories.txt --aspect typos:share=0.05 -o pairs.csv

      nlgauge perturb stories.jsonl --text story --plugin mine.py --aspect my-own
    """
    from nlgauge.perturb.pairs import as_json, write_pairs

    if n < 1:
        raise OptionError(f"--n {n}; expected 1 or more versions of each text")
    if output is not None:
        if output.suffix not in _ENDINGS:
            raise OptionError(f"--output {output}; expected a name ending in {', '.join(_ENDINGS)}")
        inputs.check_output(output, files)
    use_plugins(plugin)
    perturbations = _perturbations(aspect)
    inputs.use_machine(device, batch_size, threads)
    originals = read_originals(files, input_format, {"text": text, "id": id, "context": context}, aligned)
    made = _make(originals, perturbations, n, seed, progress, grammar)
    if output is not None:
        write_pairs(made.pairs, output)
    else:
        for pair in made.pairs:
            print(as_json(pair))
    _summarise(made)
    if output is not None:
        print(f"nlgauge: wrote {output}: {len(made.pairs):,} pairs", file=sys.stderr)


@app.command("list")
def list_command(plugin: Plugins = None) -> None:
    """List perturbations: what each does, its options, and what this machine lacks for it.

    Examples:

      nlgauge perturb list

      nlgauge perturb list --plugin mine.py
    """
    from nlgauge.metrics.options import describe, option_names, show
    from nlgauge.perturb.registry import PERTURBATIONS, perturbation_names

    use_plugins(plugin)
    for name in perturbation_names():
        cls = PERTURBATIONS.find(name)
        default = cls()
        print(f"{name} ({cls.kind}): {(cls.__doc__ or '').strip().partition(chr(10))[0]}")
        for option in option_names(cls):
            print(f"    {option} = {show(getattr(default, option))}   ({describe(cls, option)})")
        try:
            default.prepare()
        except NLGaugeError as error:
            print(f"    cannot run here: {error}")


@app.command("show")
def show_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Pairs that `nlgauge perturb` wrote, a suite's folder, or texts.")
    ],
    aspect: Aspects = None,
    n: Annotated[
        int | None,
        typer.Option(
            "--n", "-n", help="Pairs of each aspect, drawn at random.", show_default="5; all of them on a page"
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="OUT.html", help="Write a page to browse, search and judge the pairs.")
    ] = None,
    plugin: Plugins = None,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
    text: inputs.Text = None,
    id: inputs.Id = None,
    context: inputs.Context = None,
    progress: inputs.Progress = True,
) -> None:
    """Show pairs before and after, what goes in red, what comes in green; or write a page to browse them.

    Examples:

      nlgauge perturb show pairs.jsonl --aspect typos --n 10

      nlgauge perturb show stories.txt --aspect punctuation

      nlgauge perturb show suite --html browser.html
    """
    if n is not None and n < 1:
        raise OptionError(f"--n {n}; expected 1 or more pairs of each aspect")
    if html is not None:
        if html.suffix != ".html":
            raise OptionError(f"--html {html}; expected a name ending in .html")
        inputs.check_output(html, [file])
    use_plugins(plugin)
    wanted = n if n is not None else None if html is not None else 5
    if _holds_pairs(file, input_format):
        pairs = _chosen(_of_aspects(file, aspect), wanted, seed)
    else:
        columns = {"text": text, "id": id, "context": context}
        pairs = _chosen(_some(file, input_format, columns, aspect, wanted, seed, progress), wanted, seed)
    if html is not None:
        from nlgauge.engine.files import write_text
        from nlgauge.report.perturbations import render_pairs

        write_text(html, render_pairs(pairs))
        print(f"nlgauge: wrote {html}: {len(pairs):,} pairs", file=sys.stderr)
        return
    from rich.console import Console

    from nlgauge.report.perturbations import print_pairs

    print_pairs(pairs, Console(highlight=False, markup=False, emoji=False))


def use_plugins(files: list[str] | None) -> None:
    """Have users' own files run, here and in worker processes, beside those that the environment names already."""
    from nlgauge.registry import PLUGINS

    if files:
        named = [part for part in os.environ.get(PLUGINS, "").split(os.pathsep) if part]
        added = [place for file in files if (place := str(Path(file).resolve())) not in named]
        os.environ[PLUGINS] = os.pathsep.join([*named, *added])


def read_originals(
    files: list[str], input_format: str, columns: dict[str, Any], aligned: list[str] | None = None
) -> list[Original]:
    """The texts of files; with several files, ids begin with the file's name."""
    from nlgauge.data.tables import Items
    from nlgauge.perturb.pairs import Original

    sources = inputs.make_sources(
        files, input_format=input_format, columns=columns, set_size=0, aligned=aligned, extras=()
    )
    found = []
    for source in sources:
        table = source.read()
        if not isinstance(table, Items):
            raise DataError(
                "holds sets of responses; expected single texts: name their column with --text", file=source.name
            )
        prefix = f"{source.name}:" if len(sources) > 1 else ""
        contexts = table.frame["context"].to_list() if "context" in table.frame.columns else [None] * len(table)
        found += [
            Original(f"{prefix}{id}", text, context)
            for id, text, context in zip(table.frame["id"].to_list(), table.texts.to_list(), contexts, strict=True)
        ]
    return found


def _perturbations(aspect: list[str] | None) -> list[Perturbation]:
    from nlgauge.perturb.registry import create_perturbation, perturbation_names

    if not aspect:
        raise OptionError(f"no --aspect; expected at least one of {', '.join(perturbation_names())}")
    made = [create_perturbation(spec) for spec in aspect]
    names = [one.name for one in made]
    if twice := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"--aspect {twice[0]} was given twice; expected each once: run the command again for others")
    return made


def _make(
    originals: list[Original],
    perturbations: list[Perturbation],
    versions: int,
    seed: int,
    progress: bool,
    grammar: str = "none",
) -> Made:
    """Make pairs; say what could not run, and stop where nothing could."""
    from nlgauge.engine.progress import progress_bar
    from nlgauge.perturb.pairs import make_pairs

    with progress_bar("perturbing", len(originals) * len(perturbations), show=progress) as advance:
        made = make_pairs(originals, perturbations, versions=versions, seed=seed, grammar=grammar, advance=advance)
    if not made.tallies:
        raise ModelError("; ".join(f"{name} cannot run here: {reason}" for name, reason in made.missing.items()))
    for name, reason in made.missing.items():
        print(f"nlgauge: warning: {name} is skipped: {reason}", file=sys.stderr)
    return made


def _summarise(made: Made) -> None:
    """What became of the texts, on standard error."""
    from nlgauge.report.tables import aligned

    rows = [
        [one.aspect, f"{one.texts:,}", f"{one.perturbed:,}", f"{one.dropped:,}", f"{one.pairs:,}"]
        for one in made.tallies
    ]
    print(aligned(["aspect", "texts", "perturbed", "dropped", "pairs"], rows), file=sys.stderr)
    for one in made.tallies:
        for reason, count in sorted(one.reasons.items(), key=lambda entry: (-entry[1], entry[0])):
            print(f"{one.aspect} does not apply to {count:,}: {reason}", file=sys.stderr)
    for one in made.tallies:
        print(f"Signature: {one.signature}", file=sys.stderr)


def _holds_pairs(file: str, input_format: str) -> bool:
    from nlgauge.data.reading import Source
    from nlgauge.perturb.pairs import REQUIRED

    if file == "-":
        return False
    if Path(file).is_dir():
        return True
    source = Source(path=file, format=input_format)
    first = next((found for chunk in source.chunks() if (found := source.columns_in(chunk)) is not None), None)
    return first is not None and set(REQUIRED) <= set(first[0])


def _of_aspects(file: str, aspect: list[str] | None) -> list[Pair]:
    from nlgauge.errors import UnknownName
    from nlgauge.perturb.pairs import read_pairs, read_suite

    pairs = read_suite(Path(file)) if Path(file).is_dir() else read_pairs(file)
    known = dict.fromkeys(pair.aspect for pair in pairs)
    for name in aspect or ():
        if name not in known:
            raise UnknownName.among(f"aspect of {file}", name, known)
    return [pair for pair in pairs if not aspect or pair.aspect in aspect]


def _some(
    file: str,
    input_format: str,
    columns: dict[str, Any],
    aspect: list[str] | None,
    wanted: int | None,
    seed: int,
    progress: bool,
) -> list[Pair]:
    """Pairs of a file of texts: of as many as are likely to give the wanted number."""
    from nlgauge.perturb.base import draw_for

    perturbations = _perturbations(aspect)
    originals = read_originals([file], input_format, columns)
    if wanted is not None and len(originals) > wanted * _TRIED_FOR_EACH:
        originals = draw_for(seed, "show").sample(originals, wanted * _TRIED_FOR_EACH)
    return _make(originals, perturbations, 1, seed, progress).pairs


def _chosen(pairs: list[Pair], wanted: int | None, seed: int) -> list[Pair]:
    """So many pairs of each aspect, in their order."""
    from nlgauge.perturb.base import draw_for

    if wanted is None:
        return pairs
    found: list[Pair] = []
    for aspect in dict.fromkeys(pair.aspect for pair in pairs):
        mine = [pair for pair in pairs if pair.aspect == aspect]
        places = draw_for(seed, "show", aspect).sample(range(len(mine)), min(wanted, len(mine)))
        found += [mine[place] for place in sorted(places)]
    return found
