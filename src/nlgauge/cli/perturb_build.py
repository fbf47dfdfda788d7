"""`nlgauge perturb build`: a suite for the discrimination and invariance studies."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nlgauge.cli import inputs
from nlgauge.errors import OptionError

if TYPE_CHECKING:
    from nlgauge.perturb.suite import Suite

_MOST_AUTOMATIC = 4


def build_command(
    files: inputs.Files,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the suite.")],
    aspect: Annotated[
        list[str] | None,
        typer.Option(
            "--aspect", metavar="NAME[:OPTION=VALUE,...]", help="Only these perturbations; repeat. Default: all."
        ),
    ] = None,
    conceptnet: Annotated[
        str | None, typer.Option(metavar="FILE", help="Triples of ConceptNet for common-sense; see `perturb list`.")
    ] = None,
    grammar: Annotated[
        str,
        typer.Option(
            "--filter", metavar="link-grammar|classifier:model=NAME|none",
            help="What drops ungrammatical results; only changed sentences are read.",
        ),
    ] = "link-grammar",
    first_sentence: Annotated[
        bool, typer.Option("--first-sentence", help="The first sentence of a text is its context, and is not changed.")
    ] = False,
    max_words: Annotated[int, typer.Option(metavar="N", help="Cut texts after a sentence within N words; 0: no.")] = 0,
    limit: Annotated[int, typer.Option(metavar="N", help="Only the first N texts; 0: all.")] = 0,
    name: Annotated[str, typer.Option(help="Name of the corpus in tables. Default: the folder's.")] = "",
    seed: inputs.Seed = 12345,
    processes: Annotated[int, typer.Option(metavar="N", help="Worker processes; 0: one a core, up to 4.")] = 0,
    plugin: Annotated[
        list[str] | None, typer.Option(metavar="FILE.py", help="Python file with perturbations of your own; repeat.")
    ] = None,
    input_format: inputs.InputFormat = "",
    text: inputs.Text = None,
    id: inputs.Id = None,
    context: inputs.Context = None,
    progress: inputs.Progress = True,
) -> None:  # fmt: skip
    """Build a suite: coherent and incoherent texts of every aspect, and originals with harmless changes.

    The folder has stories.jsonl, discrimination.jsonl, invariance.jsonl and manifest.json (counts of every technique,
    what the filter dropped, why something did not apply). The same texts, seed and options give the same bytes, in any
    number of processes. Parses, translations and judgments of grammar are remembered, so that a second run is quick.

    Examples:

      nlgauge perturb build examples/stories.jsonl -o suite

      nlgauge perturb build stories.jsonl --text story --context prompt --max-words 200 -o suite

      nlgauge perturb build stories.jsonl --first-sentence --conceptnet assertions.csv.gz -o suite
    """
    from nlgauge.cli.perturb import read_originals, use_plugins
    from nlgauge.engine.files import check_writable
    from nlgauge.engine.workers import available_cores
    from nlgauge.perturb.registry import create_perturbation, perturbation_names
    from nlgauge.perturb.suite import build_suite, prepared

    if limit < 0 or max_words < 0 or processes < 0:
        raise OptionError(f"--limit {limit}, --max-words {max_words}, --processes {processes}; expected 0 or more")
    use_plugins(plugin)
    check_writable(output / "manifest.json") if output.exists() else check_writable(output)
    specs = list(aspect or perturbation_names())
    if conceptnet:
        specs = [f"{one}:conceptnet={conceptnet}" if one == "common-sense" else one for one in specs]
    perturbations = [create_perturbation(spec) for spec in specs]
    started = time.monotonic()
    columns = {"text": text, "id": id, "context": context}
    originals = read_originals(files, input_format, columns)[: limit or None]
    stories = prepared(originals, first_sentence=first_sentence, max_words=max_words)
    suite = build_suite(
        stories, perturbations, grammar=grammar, seed=seed, name=name or output.name, progress=progress,
        processes=processes or min(_MOST_AUTOMATIC, available_cores()),
    )  # fmt: skip
    suite.write(output)
    for missing, reason in suite.skipped.items():
        print(f"nlgauge: warning: {missing} is left out: {reason}", file=sys.stderr)
    _show(suite)
    print(f"nlgauge: wrote {output} in {(time.monotonic() - started) / 60:.1f} minutes", file=sys.stderr)


def _show(suite: Suite) -> None:
    """Counts of every aspect, on standard output."""
    from nlgauge.report.tables import aligned

    head = ["aspect", "coherent", "made", "dropped", "share", "kept", "techniques (made/dropped)"]
    rows = []
    for test in ("discrimination", "invariance"):
        for aspect, row in suite.manifest[test].items():
            made, dropped = row["made"], row["dropped_by_grammar"]
            rules = ", ".join(f"{rule} {one['made']}/{one['dropped']}" for rule, one in row["rules"].items())
            share = f"{dropped / made:.0%}" if made else "-"
            rows.append(
                [aspect, str(row.get("coherent", "-")), str(made), str(dropped), share, str(row["kept"]), rules or "-"]
            )
    print(aligned(head, rows))
    print(f"Signature: {suite.manifest['signature']}")
