"""`nlgauge plan`."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from nlgauge.cli import inputs
from nlgauge.cli.score import make_metrics
from nlgauge.errors import OptionError

if TYPE_CHECKING:
    from nlgauge.metrics.costs import Estimate, Plan, Room

_GIGABYTE = 10**9


def plan_command(
    files: inputs.Files,
    metric: inputs.Metrics = None,
    column: inputs.ValueColumns = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    confidence: Annotated[bool, typer.Option("--confidence", help="Plan for intervals, too.")] = False,
    sketch: Annotated[bool, typer.Option("--sketch", help="Plan for estimated corpus-level counts.")] = False,
    engine: inputs.Engine = "local",
    processes: inputs.Processes = 0,
    run: inputs.RunFolder = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="How long to try the metrics on the sample.")] = 10.0,
    memory_gb: Annotated[
        float, typer.Option(metavar="GB", help="Memory of the machine that will run it. Default: of this one.")
    ] = 0.0,
    disk_gb: Annotated[
        float, typer.Option(metavar="GB", help="Its free scratch space. Default: that of this machine.")
    ] = 0.0,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
    responses: inputs.Responses = None,
    text: inputs.Text = None,
    references: inputs.References = None,
    references_separator: inputs.ReferencesSeparator = "",
    id: inputs.Id = None,
    context: inputs.Context = None,
    system: inputs.SystemColumn = None,
    empty_cells: inputs.EmptyCells = "error",
    set_size: inputs.SetSize = 0,
    aligned: inputs.Aligned = None,
    device: inputs.Device = "",
    batch_size: inputs.BatchSize = 0,
    threads: inputs.Threads = 0,
) -> None:
    """Estimate time, memory, disk and model calls from a sample before scoring.

    Reads pieces from places spread over the files, tries the metrics on them, and prints what `nlgauge score` with the
    same options will take. Exits with 1, and advice, when that is more than there is.

    Examples:

      nlgauge plan 'shards/*.jsonl.gz' -m distinct:over=corpus --workers 8

      nlgauge plan s3://bucket/corpus.jsonl -m sent-bert --engine ray --workers 16 --json
    """
    from nlgauge.engine.opening import LOCAL, check_engine
    from nlgauge.metrics.planning import PlanOptions, plan
    from nlgauge.metrics.score import Interval

    check_engine(engine)
    if processes < 0:
        raise OptionError(f"{processes} workers; expected 0 (automatic) or more")
    inputs.use_machine(device, batch_size, threads)
    metrics, _ = make_metrics(metric, column, sketch)
    columns = {
        "responses": responses, "text": text, "id": id, "context": context, "system": system,
        "references": references, "references_separator": inputs.unescaped(references_separator),
        "empty_cells": empty_cells,
    }  # fmt: skip
    sources = inputs.make_sources(
        files, input_format=input_format, columns=columns, set_size=set_size, aligned=aligned,
        extras=tuple(column or ()),
    )  # fmt: skip
    room = _room(memory_gb, disk_gb)
    by_parts = engine != LOCAL or run is not None
    workers = processes or (room.cores if by_parts else 1)
    options = PlanOptions(
        workers=workers,
        elsewhere=engine != LOCAL,
        by_parts=by_parts,
        interval=Interval(seed=seed) if confidence or len(files) > 1 else None,
        room=room,
        seed=seed,
        seconds=seconds,
        started=time.process_time(),
    )
    made = plan(sources, metrics, options)
    print(json.dumps(made.to_dict(), indent=2) if as_json else _table(made, workers))
    for note in made.notes:
        print(f"nlgauge: warning: {note}", file=sys.stderr)
    for refusal in made.refusals:
        print(f"nlgauge: will not fit: {refusal}", file=sys.stderr)
    if made.refusals:
        raise typer.Exit(1)


def _room(memory_gb: float, disk_gb: float) -> Room:
    from nlgauge.metrics.costs import Room

    if memory_gb < 0 or disk_gb < 0:
        raise OptionError(f"--memory-gb {memory_gb:g}, --disk-gb {disk_gb:g}; expected 0 (this machine's) or more")
    here = Room.here()
    memory, disk = int(memory_gb * _GIGABYTE), int(disk_gb * _GIGABYTE)
    return Room(memory or here.memory_bytes, disk or here.disk_bytes, here.cores)


def _table(made: Plan, workers: int) -> str:
    from nlgauge.metrics.costs import show_bytes
    from nlgauge.report.tables import aligned

    how = "counted" if made.counted else f"estimated from {made.sampled_texts:,}"
    rows = [["texts", f"{made.texts.value:,.0f}", "counted" if made.counted else f"{_span(made.texts)}; {how}"]]
    rows.append(["bytes", show_bytes(made.bytes_on_disk), "on disk"])
    for number, spent in made.seconds.items():
        noun = "1 worker" if number == 1 else f"{number} workers"
        mark = ", as asked" if number == workers else ""
        rows.append([f"time, {noun}", show_seconds(spent.value), f"{_seconds_span(spent)}{mark}"])
    rows.append(["memory", show_bytes(made.memory_bytes), f"of {show_bytes(made.room.memory_bytes)}"])
    rows.append(["scratch disk", show_bytes(made.scratch_bytes), f"of {show_bytes(made.room.disk_bytes)} free"])
    for name, calls in made.calls.items():
        rows.append([f"model: {name}", f"{calls.value:,.0f}", "at most; repeats are worked out once"])
    if made.calls:
        rows.append(["model: words", f"{made.words.value:,.0f}", "models may make more tokens of them"])
    return aligned(["what", "estimate", "range"], rows)


def _span(number: Estimate) -> str:
    return f"{number.low:,.0f} to {number.high:,.0f}"


def _seconds_span(number: Estimate) -> str:
    return f"{show_seconds(number.low)} to {show_seconds(number.high)}"


def show_seconds(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
