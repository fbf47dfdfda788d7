"""`nlgauge generate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nlgauge.cli import inputs

MODEL_HELP = "Catalogue name, folder, hub name, ngram:FOLDER, bm25:FILE (retrieval) or http://host/v1#name."

RunFolder = Annotated[
    Path | None,
    typer.Option(
        "--run",
        metavar="FOLDER",
        help="Keep finished sets here as Parquet: the same command goes on from them after an interruption, on either "
        "engine. Default: a hidden folder beside the output, removed at the end.",
        show_default=False,
    ),
]


def generate_command(
    contexts: Annotated[str, typer.Argument(metavar="CONTEXTS", help="A file with contexts, or one a line.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Response sets go here: .jsonl, .csv or .parquet.")],
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = "smollm2",
    sweep: Annotated[
        str, typer.Option(help="PARAMETER=LOW:HIGH:COUNT or a list; temperature, top_p or top_k (log).")
    ] = "temperature=0.2:1.2:100",
    responses: Annotated[int, typer.Option(help="Responses a set.")] = 10,
    temperature: Annotated[float, typer.Option(help="When another parameter is swept.")] = 1.0,
    max_new_tokens: Annotated[int, typer.Option(help="Longest response, in tokens.")] = 40,
    template: Annotated[
        str, typer.Option(help="The prompt; {context} is replaced, and \\n is a line break.")
    ] = "{context}",
    limit: Annotated[int, typer.Option(help="Use only the first so many contexts; 0 for all.")] = 0,
    seed: inputs.Seed = 12345,
    engine: inputs.Engine = "local",
    workers: Annotated[int, typer.Option(metavar="N", help="Workers, each with the model; 0 takes all cores.")] = 1,
    run: RunFolder = None,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
    progress: inputs.Progress = True,
) -> None:
    """Write response sets with a language model while a decoding parameter is swept.

    A response is the first line that the model writes; line breaks before it are ignored. Every response has a seed of
    its own, made from the context, the value and its place; a killed run goes on where it was and gives the same file.

    Example: nlgauge generate examples/system_a.jsonl -o sets.jsonl --sweep temperature=0.2:1.2:20 --limit 3
    """
    from nlgauge.engine.opening import LOCAL, check_engine, open_pool
    from nlgauge.models.language import Sampling, load_language_model
    from nlgauge.models.tester import GenerationPlan, Sweep, folder_of_run, generate_sets, read_contexts

    inputs.check_output(output, [contexts])
    check_engine(engine)
    machine = inputs.use_machine(device, batch_size, threads)
    plan = GenerationPlan(
        model=model,
        sweep=Sweep.parse(sweep),
        sampling=Sampling(temperature=temperature, max_new_tokens=max_new_tokens),
        responses=responses,
        seed=seed,
        template=template.replace("\\n", "\n"),
    )
    found = read_contexts(contexts)
    found = found[:limit] if limit else found
    if engine == LOCAL and workers == 1:
        loaded = load_language_model(model, **machine.options)
        frame = generate_sets(loaded, found, plan, output, folder=run, progress=progress)
    else:
        space = folder_of_run(output, run).scratch()
        with open_pool(engine, workers, space, isolated=True) as pool:
            frame = generate_sets(pool, found, plan, output, folder=run, progress=progress)
    texts = frame["responses"].explode()
    if empty := int((texts == "").sum()):
        print(
            f"nlgauge: warning: {empty} of {len(texts)} responses are empty: the model ended there, wrote only white "
            "space, or found nothing; a template such as --template 'A: {context}\\nB:' may help",
            file=sys.stderr,
        )
    print(f"nlgauge: wrote {len(frame)} sets to {output}", file=sys.stderr)
