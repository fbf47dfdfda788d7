"""`nlgauge perturb`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nlgauge.cli.commands import CommandGroup, argument, borrowed
from nlgauge.cli.output import PAGE, Output, Plugins, check_file, say, show_list
from nlgauge.configured import check_that, option, option_lines, required
from nlgauge.data.columns import Reading
from nlgauge.engine.running import Running
from nlgauge.errors import NLGaugeError
from nlgauge.models.runtime import Machine
from nlgauge.stats.inference import Inference

if TYPE_CHECKING:
    from nlgauge.perturb.base import Perturbation
    from nlgauge.perturb.pairs import Made, Original

_MOST_AUTOMATIC = 4
_FILES = argument("FILE...", "Texts: JSONL, CSV, TSV, Parquet, or one per line of plain text; '-': standard input.")


@dataclass(frozen=True, kw_only=True)
class Aspects(Plugins):
    """Which perturbations."""

    aspect: Sequence[str] = option(
        (),
        "A perturbation, as `nlgauge perturb list` shows them; repeat for more.",
        metavar="NAME[:OPTION=VALUE,...]",
        flags=("--aspect", "-a"),
    )

    def create(self) -> list[Perturbation]:
        """The perturbations that were named, each once."""
        from nlgauge.perturb.registry import create_perturbations

        self.use()
        return create_perturbations(self.aspect)


def apply(
    reading: Reading,
    machine: Machine,
    aspects: Aspects,
    files: Sequence[str] = _FILES,
    n: int = option(1, "Versions of each text; equal ones count once.", metavar="N", flags=("--n", "-n")),
    output: Path | None = option(
        None, "Pairs: .jsonl, .csv, .tsv or .parquet. Default: print JSON lines.", flags=("--output", "-o")
    ),
    grammar: str = option(
        "none",
        "What drops ungrammatical results.",
        metavar="none|link-grammar|classifier:model=NAME",
        flags=("--filter",),
    ),
    seed: int = borrowed(Inference, "seed"),
    progress: bool = borrowed(Running, "progress"),
) -> None:
    """Perturb texts and write pairs of original and perturbed text, with the rule and the characters that changed.

    A perturbation that this machine lacks something for is named and left out. The same seed gives the same pairs,
    whatever the order of texts.

    Examples:
      nlgauge perturb stories.jsonl --aspect typos --aspect lexical-repetition --n 2 -o pairs.jsonl
      nlgauge perturb stories.txt --aspect typos:share=0.05 -o pairs.csv
      nlgauge perturb stories.jsonl --text story --plugin mine.py --aspect my-own
    """
    from nlgauge.perturb.pairs import as_json, read_originals, write_pairs
    from nlgauge.report.perturbations import pairs_summary

    check_that(n >= 1, "n", n, "1 or more versions of each text")
    if output is not None:
        check_file("output", output, files)
    perturbations = aspects.create()
    machine.use()
    made = _make(read_originals(files, reading), perturbations, n, seed, progress, grammar)
    if output is not None:
        write_pairs(made.pairs, output)
    else:
        for pair in made.pairs:
            print(as_json(pair))
    print(pairs_summary(made), file=sys.stderr)
    if output is not None:
        say(f"wrote {output}: {len(made.pairs):,} pairs")


def list_perturbations(plugins: Plugins, output: Output) -> None:
    """List perturbations: what each does, its options, and what this machine lacks for it.

    Examples:
      nlgauge perturb list
      nlgauge perturb list --plugin mine.py
    """
    from nlgauge.perturb.registry import PERTURBATIONS, perturbation_names

    plugins.use()
    rows, lines = [], []
    for cls in PERTURBATIONS.classes(perturbation_names()):
        row = {
            "name": cls.name,
            "kind": cls.kind,
            "summary": (cls.__doc__ or "").strip().partition("\n")[0],
            "options": list(option_lines(cls)),
            "missing": "",
        }
        try:
            cls().prepare()
        except NLGaugeError as error:
            row["missing"] = str(error)
        lines += [f"{cls.name} ({cls.kind}): {row['summary']}", *(f"    {line}" for line in row["options"])]
        lines += [f"    cannot run here: {row['missing']}"] if row["missing"] else []
        rows.append(row)
    show_list("perturbations", rows, "\n".join(lines), output)


def show(
    reading: Reading,
    machine: Machine,
    aspects: Aspects,
    file: str = argument("FILE", "Pairs that `nlgauge perturb` wrote, a suite's folder, or texts."),
    n: int | None = option(
        None,
        "Pairs of each aspect, drawn at random. Default: 5; all of them on a page.",
        metavar="N",
        flags=("--n", "-n"),
    ),
    html: Path | None = option(None, "Write a page to browse, search and judge the pairs.", metavar="OUT.html"),
    seed: int = borrowed(Inference, "seed"),
    progress: bool = borrowed(Running, "progress"),
) -> None:
    """Show pairs before and after, deletions in red, insertions in green; or write a page to browse them.

    Examples:
      nlgauge perturb show pairs.jsonl --aspect typos --n 10
      nlgauge perturb show stories.txt --aspect punctuation
      nlgauge perturb show suite --html browser.html
    """
    from nlgauge.engine.files import write_text
    from nlgauge.perturb.pairs import draw_originals, draw_pairs, holds_pairs, load_pairs, read_originals
    from nlgauge.report.perturbations import print_pairs, render_pairs

    check_that(n is None or n >= 1, "n", n, "1 or more pairs of each aspect")
    if html is not None:
        check_file("html", html, [file], PAGE)
    aspects.use()
    wanted = n if n is not None else None if html is not None else 5
    if holds_pairs(file, reading.input_format):
        pairs = load_pairs(file, aspects.aspect)
    else:
        perturbations = aspects.create()
        machine.use()
        originals = draw_originals(read_originals([file], reading), wanted, seed)
        pairs = _make(originals, perturbations, 1, seed, progress).pairs
    shown = draw_pairs(pairs, wanted, seed)
    if html is None:
        print_pairs(shown)
        return
    write_text(html, render_pairs(shown))
    say(f"wrote {html}: {len(shown):,} pairs")


def _make(
    originals: list[Original],
    perturbations: list[Perturbation],
    versions: int,
    seed: int,
    progress: bool,
    grammar: str = "none",
) -> Made:
    """Make pairs, and name what could not run."""
    from nlgauge.engine.progress import progress_bar
    from nlgauge.perturb.pairs import make_pairs

    with progress_bar("perturbing", len(originals) * len(perturbations), show=progress) as advance:
        made = make_pairs(originals, perturbations, versions=versions, seed=seed, grammar=grammar, advance=advance)
    for name, reason in made.missing.items():
        say(f"warning: {name} is skipped: {reason}")
    return made


def build(
    reading: Reading,
    machine: Machine,
    aspects: Aspects,
    files: Sequence[str] = _FILES,
    output: Path = required("Folder of the suite.", metavar="FOLDER", flags=("--output", "-o")),
    conceptnet: str | None = option(None, "Triples of ConceptNet, for the aspect common-sense.", metavar="FILE"),
    grammar: str = option(
        "link-grammar",
        "What drops ungrammatical results; only changed sentences are read.",
        metavar="link-grammar|classifier:model=NAME|none",
        flags=("--filter",),
    ),
    first_sentence: bool = option(False, "The first sentence of a text is its context, and is not changed."),
    max_words: int = option(0, "Cut texts after a sentence within N words; 0: no.", metavar="N"),
    limit: int = option(0, "Only the first N texts; 0: all.", metavar="N"),
    name: str = option("", "Name of the corpus in tables. Default: that of the folder."),
    seed: int = borrowed(Inference, "seed"),
    workers: int = borrowed(Running, "workers"),
    progress: bool = borrowed(Running, "progress"),
) -> None:
    """Build a suite: coherent and incoherent texts of every aspect, and originals with harmless changes.

    Without --aspect, all perturbations are used. The folder has stories.jsonl, discrimination.jsonl, invariance.jsonl
    and manifest.json (counts of every technique, what the filter dropped, why something did not apply). The same texts,
    seed and options give the same bytes, with any number of workers (at most 4 unless more are named). Parses,
    translations and judgments of grammar are cached, so that a second run is quick.

    Examples:
      nlgauge perturb build examples/stories.jsonl -o suite
      nlgauge perturb build stories.jsonl --text story --context prompt --max-words 200 -o suite
      nlgauge perturb build stories.jsonl --first-sentence --conceptnet assertions.csv.gz -o suite
    """
    from nlgauge.engine.files import check_writable
    from nlgauge.engine.workers import available_cores
    from nlgauge.perturb.pairs import read_originals
    from nlgauge.perturb.registry import create_perturbations, perturbation_names
    from nlgauge.perturb.suite import build_suite, prepared
    from nlgauge.report.perturbations import suite_summary

    for key, value in (("limit", limit), ("max_words", max_words), ("workers", workers)):
        check_that(value >= 0, key, value, "0 or more")
    aspects.use()
    machine.use()
    check_writable(output / "manifest.json" if output.exists() else output)
    perturbations = create_perturbations(aspects.aspect or perturbation_names(), conceptnet)
    started = time.monotonic()
    originals = read_originals(files, reading)[: limit or None]
    suite = build_suite(
        prepared(originals, first_sentence=first_sentence, max_words=max_words),
        perturbations,
        grammar=grammar,
        seed=seed,
        name=name or output.name,
        progress=progress,
        workers=workers or min(_MOST_AUTOMATIC, available_cores()),
    )
    suite.write(output)
    for missing, reason in suite.skipped.items():
        say(f"warning: {missing} is left out: {reason}")
    print(suite_summary(suite))
    say(f"wrote {output} in {(time.monotonic() - started) / 60:.1f} minutes")


app = CommandGroup(
    "perturb",
    "Change texts on purpose, to make them worse or to leave their quality as it is, and look at the results.\n\n"
    "`nlgauge perturb FILE...` is `nlgauge perturb apply FILE...`.",
    {"apply": apply, "list": list_perturbations, "show": show, "build": build},
    examples=[
        "nlgauge perturb stories.jsonl --aspect typos -o pairs.jsonl",
        "nlgauge perturb list",
        "nlgauge perturb show pairs.jsonl --html browser.html",
    ],
    otherwise="apply",
)
