"""`nlgauge filter`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nlgauge.cli import inputs
from nlgauge.cli import study_options as options

app = typer.Typer(
    help="Filter training data.\n\nExample: nlgauge filter entropy dialogues_train.txt --side target --kept kept.jsonl",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _root() -> None:
    """Filter training data."""


@app.command("entropy")
def entropy_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Dialogs, or a table with the columns context and text.")
    ],
    side: Annotated[
        str, typer.Option(metavar="source|target|both", help="Whose entropy counts: context's, reply's, either.")
    ] = "target",
    threshold: Annotated[float, typer.Option(help="Entropy, in bits, above which a pair is dropped.")] = 1.0,
    cluster: Annotated[
        str, typer.Option(metavar="identity|kmeans|mean-shift", help="Utterances as they are, or clusters of them.")
    ] = "identity",
    clusters: Annotated[
        int, typer.Option(metavar="N", help="With kmeans: clusters a side; 0: root of the number of utterances.")
    ] = 0,
    bandwidth: Annotated[float, typer.Option(help="With mean-shift: the width of the kernel; 0: estimated.")] = 0.0,
    embedding: Annotated[
        str, typer.Option(metavar="MODEL|VECTORS", help="For clusters: sentence encoder, glove-50d or a vector file.")
    ] = "minilm",
    min_pairs: Annotated[
        int, typer.Option(metavar="N", help="Keep clusters of fewer pairs, whatever their entropy.")
    ] = 0,
    max_mean_words: Annotated[
        float, typer.Option(metavar="N", help="Keep clusters with a mean of so many words; 0: none.")
    ] = 0.0,
    max_medoid_words: Annotated[
        int, typer.Option(metavar="N", help="Keep clusters with a medoid of so many words; 0: none.")
    ] = 0,
    normalise: Annotated[
        str, typer.Option(metavar="none|space|lower", help="Ignore differences of white space, and of case.")
    ] = "lower",
    context_turns: Annotated[int, typer.Option(metavar="N", help="Of dialogs: turns of context, at most.")] = 1,
    separator: Annotated[str, typer.Option(help="What stands between them; \\n is a line break.")] = " ",
    input_format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help="dailydialog, parlai, chat, json; pairs, jsonl, csv, tsv, parquet.",
            show_default="by name and content",
        ),
    ] = "",
    kept: Annotated[Path | None, typer.Option(metavar="OUT", help="Pairs that stay: .jsonl, .csv or .parquet.")] = None,
    dropped: Annotated[Path | None, typer.Option(metavar="OUT", help="Pairs that go, with both entropies.")] = None,
    top: Annotated[int, typer.Option(metavar="N", help="Utterances of the highest entropy to print.")] = 20,
    format: options.Format = "text",
    chart: options.Chart = None,
    seed: inputs.Seed = 12345,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
) -> None:  # fmt: skip
    """Drop pairs with generic utterances: those that many different utterances follow or precede (Csaky et al. 2019).

    Paper 5 drops what exceeds 1 bit, with utterances as they are. Clusters need a higher threshold. With word vectors,
    an utterance is the mean of its words, rare ones weighing more; one without any known word stays by itself.

    Examples:

      nlgauge filter entropy dialogues_train.txt --side both --kept kept.jsonl --dropped dropped.jsonl

      nlgauge filter entropy pairs.jsonl --cluster kmeans --clusters 500 --threshold 4 --chart entropy.html

      nlgauge filter entropy pairs.jsonl --cluster mean-shift --embedding glove-50d --threshold 3 --max-mean-words 15
    """
    from nlgauge.data.dialogs import read_pairs
    from nlgauge.data.writing import write_table
    from nlgauge.errors import OptionError
    from nlgauge.studies.entropy_filter import entropy_filter

    options.check(format, chart, [file])
    outputs = [path for path in (kept, dropped) if path is not None]
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise OptionError(f"{kept}: is to hold both kept and dropped pairs; expected two names")
    for path in outputs:
        inputs.check_output(path, [file])
    inputs.use_machine(device, batch_size, threads)
    pairs = read_pairs(file, format=input_format, context_turns=context_turns, separator=separator.replace("\\n", "\n"))
    study = entropy_filter(
        pairs, side=side, threshold=threshold, cluster=cluster,  # type: ignore[arg-type]
        clusters=clusters, bandwidth=bandwidth, embedding=embedding, min_pairs=min_pairs,
        max_mean_words=max_mean_words, max_medoid_words=max_medoid_words, normalise=normalise,  # type: ignore[arg-type]
        top=top, seed=seed,
    )  # fmt: skip
    for place, rows in ((kept, study.kept), (dropped, study.dropped)):
        if place is not None:
            write_table(rows, place)
            print(f"nlgauge: wrote {place}: {len(rows):,} pairs", file=sys.stderr)
    options.show(study, format, chart)
