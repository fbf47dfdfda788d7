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
    texts: Path | None = option(
        None,
        "One text per row, responses and references of the contexts, each with log p: what nlgauge study huse takes.",
        metavar="OUT",
    ),
) -> None:
    """Write response sets with a language model while a decoding parameter is swept.

    A response is the first line that the model writes; line breaks before it are ignored. Every response has a seed of
    its own, made from the context, the value and its place; a killed run resumes and gives the same file. Beside each
    response stand its log-probability under the distribution that it was drawn from and its number of tokens.
    Finished sets are kept as Parquet in the folder of the run, by default a hidden one beside the output, removed at
    the end. Several workers have one model each.

    Example: nlgauge generate examples/system_a.jsonl -o sets.jsonl --sweep temperature=0.2:1.2:20 --limit 3
    """
    from nlgauge.data.writing import write_table
    from nlgauge.models.language.tester import generate_with_workers, read_with_references
    from nlgauge.studies.huse.written import check_references, texts_for_huse

    check_file("output", output, [contexts])
    if texts is not None:
        check_file("texts", texts, [contexts, str(output)])
    machine.use()
    found, references = read_with_references(contexts, reading)
    if texts is not None:
        check_references(found[: limit or None], references)
    frame = generate_with_workers(found[: limit or None], plan, output, running)
    responses = frame["responses"].explode()
    if empty := int((responses == "").sum()):
        say(
            f"warning: {empty} of {len(responses)} responses are empty: the model ended there, wrote only white space, "
            "or found nothing; a template such as --template 'A: {context}\\nB:' may help"
        )
    say(f"wrote {len(frame)} sets to {output}")
    if texts is not None:
        rows = texts_for_huse(frame, plan, references)
        write_table(rows, texts)
        say(f"wrote {len(rows)} texts to {texts}")
