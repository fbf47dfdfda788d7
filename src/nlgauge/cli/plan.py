"""`nlgauge plan`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from nlgauge.cli.output import Output, say
from nlgauge.cli.score import FILES, Measuring
from nlgauge.configured import check_that, option
from nlgauge.engine.running import LOCAL


def plan(
    files: Sequence[str] = FILES,
    *,
    measuring: Measuring,
    sketch: bool = option(False, "Plan for estimated corpus-level counts."),
    confidence: bool = option(False, "Plan for intervals, too."),
    seconds: float = option(10.0, "How long to try the metrics on the sample.", metavar="S"),
    memory_gb: float = option(0.0, "Memory of the machine that will run it; 0: of this one.", metavar="GB"),
    disk_gb: float = option(0.0, "Its free scratch space; 0: that of this machine.", metavar="GB"),
    output: Output,
) -> None:
    """Estimate time, memory, disk and model calls from a sample before scoring.

    Reads pieces from places spread over the files, tries the metrics on them, and prints what `nlgauge score` with the
    same options will take. Exits with 1, and advice, when that is more than there is.

    Examples:
      nlgauge plan 'shards/*.jsonl.gz' -m distinct:over=corpus --workers 8
      nlgauge plan s3://bucket/corpus.jsonl -m sent-bert --engine ray --workers 16 --format json
    """
    import polars as pl

    from nlgauge.report.tables import Sheet
    from nlgauge.schema import stamped
    from nlgauge.scoring.costs import Room
    from nlgauge.scoring.planning import PlanOptions
    from nlgauge.scoring.planning import plan as estimated

    form, running = output.check(files), measuring.running
    check_that(
        not measuring.reading.one_set, "one_set", True, "sets that are in the files: a plan tries pieces of them"
    )
    room = Room.here(memory_gb=memory_gb, disk_gb=disk_gb)
    workers = running.workers or (room.cores if running.by_parts else 1)
    with measuring.begun(files, sketch=sketch) as job:
        options = PlanOptions(
            workers=workers,
            elsewhere=running.engine != LOCAL,
            by_parts=running.by_parts,
            interval=measuring.inference if confidence or len(files) > 1 else None,
            memory_bytes=running.memory_bytes,
            part_bytes=running.part_bytes,
            chunk_bytes=running.chunk_bytes,
            room=room,
            seed=measuring.inference.seed,
            seconds=seconds,
            started=time.process_time(),
        )
        made = estimated(job.sources, job.metrics, options)
    header, rows = ["what", "estimate", "range"], made.rows(workers)
    frame = pl.DataFrame(rows, schema=header, orient="row")
    output.write(Sheet(header, rows, [], frame, stamped("estimate", made.to_dict())), form)
    for note in made.notes:
        say(f"warning: {note}")
    for refusal in made.refusals:
        say(f"will not fit: {refusal}")
    if made.refusals:
        raise click.exceptions.Exit(1)
