"""`nlgauge plan`."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

from nlgauge.cli.commands import argument
from nlgauge.cli.output import Output, say
from nlgauge.cli.score import WHAT_FILES, Measuring, warn_about
from nlgauge.configured import Options, check_that, option
from nlgauge.engine.running import LOCAL
from nlgauge.errors import OptionError
from nlgauge.errors import argument as named

if TYPE_CHECKING:
    from nlgauge.scoring.detecting import Needed


@dataclass(frozen=True, kw_only=True)
class Detecting(Options):
    """A difference, and how often it is to be found."""

    heading: ClassVar[str] = "Power"

    detect: float | None = option(
        None,
        "Say how many contexts, runs and responses find a true difference of X between the first file and the others; "
        "of one system, or of ratings, how many give an interval of X to either side.",
        metavar="X",
    )
    power: float = option(0.8, "The share of experiments that find the difference.", metavar="X")
    ratings: Path | None = option(
        None, "Plan ratings like these: item, rater, question, value; instead of files.", metavar="FILE"
    )
    paired: bool = option(
        True, "Plan a comparison on the same contexts, or on different ones.", flags=("--paired/--unpaired",)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.detect is not None:
            check_that(0 < self.detect < math.inf, "detect", self.detect, "a number above 0")
        check_that(0.5 <= self.power < 1, "power", self.power, "at least 0.5 and less than 1, such as 0.8")


def plan(
    files: Sequence[str] = argument("FILE...", WHAT_FILES, ()),
    *,
    measuring: Measuring,
    detecting: Detecting,
    sketch: bool = option(False, "Plan for estimated corpus-level counts."),
    confidence: bool = option(False, "Plan for intervals, too."),
    seconds: float = option(10.0, "How long to try the metrics on the sample.", metavar="S"),
    memory_gb: float = option(0.0, "Memory of the machine that will run it; 0: of this one.", metavar="GB"),
    disk_gb: float = option(0.0, "Its free scratch space; 0: that of this machine.", metavar="GB"),
    output: Output,
) -> None:
    """Estimate time, memory and model calls of a run, or how many contexts show a difference.

    Reads pieces from places spread over the files, tries the metrics on them, and prints what `nlgauge score` with the
    same options will take: time, memory, disk and model calls. Exits with 1, and advice, when that is more than there
    is.

    With --detect, the files are a pilot instead, and what is planned is its size. Experiments are drawn from the pilot
    and tested as nlgauge compare would test them, correction included; where that test takes no differences of contexts
    (several runs, whole corpora, unpaired samples, intervals), Student's t decides.

    Examples:
      nlgauge plan 'shards/*.jsonl.gz' -m distinct:over=corpus --workers 8
      nlgauge plan s3://bucket/corpus.jsonl -m sent-bert --engine ray --workers 16 --format json
      nlgauge plan a.jsonl b.jsonl -m distinct --detect 0.02 --power 0.9
      nlgauge plan --ratings ratings.csv --detect 0.1
    """
    form = output.check([*files, *([] if detecting.ratings is None else [str(detecting.ratings)])])
    if bool(files) == (detecting.ratings is not None):
        raise OptionError(f"expected FILE..., or ratings to plan ({named('ratings')}): one of them", option="ratings")
    if detecting.detect is not None:
        from nlgauge.report.needed import needed_sheet

        found = _needed(files, measuring, detecting, detecting.detect, sketch=sketch)
        output.write(needed_sheet(found, detecting.detect, detecting.power), form)
        return
    if detecting.ratings is not None:
        raise OptionError(f"{named('ratings')} requires {named('detect', 'X')}", option="detect")
    from nlgauge.report.needed import estimate_sheet
    from nlgauge.scoring.costs import Room
    from nlgauge.scoring.planning import PlanOptions
    from nlgauge.scoring.planning import plan as estimated

    running = measuring.running
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
    output.write(estimate_sheet(made, workers), form)
    for note in made.notes:
        say(f"warning: {note}")
    for refusal in made.refusals:
        say(f"will not fit: {refusal}")
    if made.refusals:
        raise click.exceptions.Exit(1)


def _needed(
    files: Sequence[str], measuring: Measuring, detecting: Detecting, wanted: float, *, sketch: bool
) -> list[Needed]:
    """What the pilot says."""
    from nlgauge.scoring.detecting import needed_ratings, needed_to_detect

    how = measuring.inference
    if detecting.ratings is not None:
        from nlgauge.data.human.ratings import read_ratings

        return needed_ratings(read_ratings(detecting.ratings), wanted, how)
    from nlgauge.scoring.scoring import score_data

    with measuring.begun(files, sketch=sketch) as job:
        scores = score_data(job.sources, job.metrics, inference=how, sizing=how, running=measuring.running)
    warn_about(scores, how.unit)
    return needed_to_detect(scores, wanted, how, power=detecting.power, paired=detecting.paired)
