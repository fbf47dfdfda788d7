"""`nlgauge generate`."""

from __future__ import annotations

from pathlib import Path

from nlgauge.cli.commands import argument
from nlgauge.cli.output import check_file, say
from nlgauge.configured import option, required
from nlgauge.data.columns import Reading
from nlgauge.engine.running import Running
from nlgauge.models.language.tester import GenerationPlan
from nlgauge.models.runtime import Machine


def generate(
    plan: GenerationPlan,
    reading: Reading,
    machine: Machine,
    running: Running,
    contexts: str = argument("CONTEXTS", "A file with contexts; plain text has one per line."),
    output: Path = required(
        "Response sets go here: .jsonl, .csv or .parquet.", metavar="OUT", flags=("--output", "-o")
    ),
    limit: int = option(0, "Use only the first N contexts; 0: all.", metavar="N"),
) -> None:
    """Write response sets with a language model while a decoding parameter is swept.

    A response is the first line that the model writes; line breaks before it are ignored. Every response has a seed of
    its own, made from the context, the value and its place; a killed run resumes and gives the same file.
    Finished sets are kept as Parquet in the folder of the run, by default a hidden one beside the output, removed at
    the end. Several workers have one model each.

    Example: nlgauge generate examples/system_a.jsonl -o sets.jsonl --sweep temperature=0.2:1.2:20 --limit 3
    """
    from nlgauge.models.language.tester import generate_with_workers, read_contexts

    check_file("output", output, [contexts])
    machine.use()
    frame = generate_with_workers(read_contexts(contexts, reading)[: limit or None], plan, output, running)
    texts = frame["responses"].explode()
    if empty := int((texts == "").sum()):
        say(
            f"warning: {empty} of {len(texts)} responses are empty: the model ended there, wrote only white space, or "
            "found nothing; a template such as --template 'A: {context}\\nB:' may help"
        )
    say(f"wrote {len(frame)} sets to {output}")
