"""`nlgauge score` and `nlgauge compare`, and what they share with `plan` and `report`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from nlgauge.cli.commands import argument
from nlgauge.cli.output import Output, Plugins, check_file, say
from nlgauge.configured import Options, option
from nlgauge.data.columns import Reading
from nlgauge.engine.running import Running
from nlgauge.errors import DataError
from nlgauge.errors import argument as named
from nlgauge.models.runtime import Machine
from nlgauge.stats.inference import OWN, Comparing, Unit

if TYPE_CHECKING:
    from nlgauge.data.reading import Source
    from nlgauge.metrics.registry import Unmeasured
    from nlgauge.metrics.score import Score
    from nlgauge.report.tables import Sheet
    from nlgauge.scoring.compared import Comparison
    from nlgauge.scoring.gates import Gate

WHAT_FILES = (
    "JSONL, CSV, TSV, Parquet, Arrow or plain text, also .gz or .zst; logs of lm-evaluation-harness (or their folder) "
    "and of Inspect, OpenAI batch output, or the folder of a Hugging Face dataset; '-' is standard input. Several "
    "files are several systems, compared with the first."
)
FILES = argument("FILE...", WHAT_FILES)


@dataclass(frozen=True, kw_only=True)
class MetricChoice(Options):
    """The metrics of a command."""

    heading: ClassVar[str] = "Metrics"

    metrics: Sequence[str] = option(
        (),
        "A metric, or a printed signature; repeat for more. Default: distinct and cos-sim; of a report, those that the "
        "data allows.",
        metavar="NAME[:OPTION=VALUE,...]",
        flags=("--metric", "-m"),
    )
    columns: Sequence[str] = option(
        (), "Take a column of the file as one more metric.", metavar="COL", flags=("--column",)
    )

    def make(self, sketch: bool = False) -> tuple[list[Any], list[Unmeasured]]:
        """The metrics, and the parts of bundles that cannot run on this machine, which is said now."""
        from nlgauge.metrics.column import ColumnMetric
        from nlgauge.metrics.registry import measurable_metrics

        made, unmeasured = measurable_metrics(list(self.metrics or (() if self.columns else ("distinct", "cos-sim"))))
        say_unmeasured(unmeasured)
        if sketch:
            from nlgauge.metrics.diversity.ngram import sketched

            made = sketched(made)
        return [*made, *(ColumnMetric(column=name) for name in self.columns)], unmeasured


@dataclass(frozen=True)
class Job:
    """What is measured."""

    sources: list[Source]
    metrics: list[Any]
    unmeasured: list[Unmeasured]
    gates: list[Gate]


@dataclass(frozen=True)
class Measuring:
    """The options of every command that measures files: metrics, data, inference, machine, running."""

    choice: MetricChoice
    plugins: Plugins
    reading: Reading
    inference: Comparing
    machine: Machine
    running: Running

    @contextmanager
    def begun(
        self, files: Sequence[str], *, sketch: bool = False, default: bool = True, fail_if: Sequence[str] = ()
    ) -> Iterator[Job]:
        """The sources, metrics and conditions, on the chosen machine; without `default`, there may be no metrics."""
        from nlgauge.data.reading import Source
        from nlgauge.data.sources.files import kept_open
        from nlgauge.metrics.column import columns_of
        from nlgauge.metrics.registry import refuse_metrics
        from nlgauge.scoring.gates import read_gates

        self.plugins.use()
        with self.machine.used(), kept_open():
            chosen = default or self.choice.metrics or self.choice.columns
            metrics, unmeasured = self.choice.make(sketch) if chosen else ([], [])
            gates = read_gates(fail_if, metrics)
            for gate in gates:
                gate.check(self.inference.margin)
            refuse_metrics(files)
            extras = columns_of(metrics)
            sources = [Source(path=path, reading=self.reading, extras=extras) for path in files]
            yield Job(sources, metrics, unmeasured, gates)


@dataclass(frozen=True, kw_only=True)
class Outcome(Options):
    """How systems are compared, and what happens with scores and comparisons beside the output."""

    paired: bool = option(
        True,
        "Compare context by context, or, where contexts differ, as samples: a permutation test over all sets.",
        flags=("--paired/--unpaired",),
    )
    fail_if: Sequence[str] = option(
        (),
        "Exit with 1 when this is so, as in 'distinct < 0.4', 'distinct.high@b < 0.4', 'distinct.worse_p < 0.05' "
        "(worse than the first system, and not by chance) or, with a margin, 'distinct.not_worse_p >= 0.05'; repeat "
        "for more.",
        metavar="CONDITION",
    )
    log: str = option("", "Log the scores to a new run of this tracker.", metavar="mlflow|wandb")

    def check(self, output: Output, files: Sequence[str]) -> str:
        """The format of the result; fails before any work when it could not be written or logged."""
        if self.log:
            from nlgauge.interop import check_tracker

            check_tracker(self.log)
        return output.check(files)

    def conclude(
        self, sheet: Sheet, form: str, output: Output, job: Job, scores: list[Score], comparisons: list[Comparison]
    ) -> None:
        """Print or write the result, log it, and exit with 1 when a condition is met."""
        output.write(sheet, form)
        if self.log:
            from nlgauge.interop import log_scores

            log_scores(scores, sheet.document, self.log)
        say_unmeasured(job.unmeasured)
        met = [line for gate in job.gates for line in gate.met(scores, comparisons)]
        for line in met:
            say(f"failed: {line}")
        if met:
            raise click.exceptions.Exit(1)


def score(
    files: Sequence[str] = FILES,
    *,
    measuring: Measuring,
    outcome: Outcome,
    sketch: bool = option(False, "Estimate corpus-level counts in one pass and little memory."),
    confidence: bool = option(False, "Add intervals (always there when systems are compared)."),
    compare: bool = option(True, "Test every system against the first."),
    per_item: Path | None = option(None, "Write values of single sets to .jsonl, .csv or .parquet.", metavar="OUT"),
    output: Output,
) -> None:
    """Score files of response sets or texts, and compare systems.

    Prints a table with a signature for every number. With several files (or a column of system names) each system is
    compared with the first, on the same contexts: paired permutation test, interval of the difference, one correction
    for all. CSV and Parquet have scores alone; nlgauge compare -o writes differences and p-values there, too.
    JSON that is written with -o has intervals and the values of single sets, which nlgauge leaderboard reads.

    Examples:
      nlgauge score out.jsonl -m distinct -m self-bleu:n=3 --confidence
      nlgauge score a.jsonl b.jsonl -m distinct --format json
      nlgauge score corpus.txt.gz -m distinct:over=corpus --sketch
      nlgauge score replies.csv --text reply --references answers --references-separator '\\t' -m dialog
      nlgauge score out.jsonl -m distinct --fail-if 'distinct < 0.4'
      nlgauge score 'shards/*.jsonl.gz' -m distinct:over=corpus --engine ray --workers 8 --run runs/shards
    """
    from nlgauge.report import tables
    from nlgauge.scoring.scoring import score_data

    form = outcome.check(output, files)
    if per_item is not None:
        check_file("per_item", per_item, files)
    saved = form == "json" and output.output is not None
    with measuring.begun(files, sketch=sketch, fail_if=outcome.fail_if) as job:
        wanted = confidence or saved or any(gate.end for gate in job.gates)
        compared = compare and (len(files) > 1 or job.sources[0].has_systems)
        how = measuring.inference if wanted or compared else None
        sizing = measuring.inference if compare or measuring.inference.at else OWN
        with _pointing_at_scores("paired"):
            scores = score_data(
                job.sources,
                job.metrics,
                inference=how,
                sizing=sizing,
                alone=wanted,
                pairing=measuring.inference if compare and outcome.paired else None,
                running=measuring.running,
            )
    warn_about(scores, measuring.inference.unit)
    comparisons = _comparisons(scores, measuring.inference, outcome.paired) if compare else []
    if per_item is not None:
        from nlgauge.data.writing import write_table

        write_table(tables.per_item_table(scores), per_item)
    sheet = tables.score_sheet(scores, comparisons, values=saved)
    outcome.conclude(sheet, form, output, job, scores, comparisons)


def _comparisons(scores: list[Score], inference: Comparing, paired: bool) -> list[Comparison]:
    from nlgauge.scoring.comparison import compare_systems

    if len({one.system for one in scores}) < 2:
        return []
    with _pointing_at_scores():
        return compare_systems(scores, inference, paired=paired)


@contextmanager
def _pointing_at_scores(option: str | None = None) -> Iterator[None]:
    """Where systems cannot be compared, say how to have their scores; only in errors about the `option`, if there is
    one."""
    try:
        yield
    except DataError as error:
        if option not in (None, error.option):
            raise
        raise DataError(
            f"{error.message}; {named('compare', False)} prints the scores alone", option=error.option
        ) from error


def compare(files: Sequence[str] = FILES, *, measuring: Measuring, outcome: Outcome, output: Output) -> None:
    """Say whether systems differ: each against the first, metric by metric.

    Prints both values, their difference with an interval, the p-value, also corrected for all comparisons, the effect
    size (the difference in standard deviations) and a verdict in words. Systems are compared context by context; files
    with different contexts need --unpaired, which sees much less.

    Examples:
      nlgauge compare a.jsonl b.jsonl -m distinct -m self-bleu
      nlgauge compare a.jsonl other.jsonl -m distinct --unpaired
      nlgauge compare old.jsonl new.jsonl -m distinct --fail-if 'distinct.worse_p < 0.05'
      nlgauge compare old.jsonl new.jsonl -m distinct --margin 0.02 --fail-if 'distinct.not_worse_p >= 0.05'
    """
    from nlgauge.report.tables import comparison_sheet
    from nlgauge.scoring.comparison import compare_systems
    from nlgauge.scoring.scoring import score_data

    form = outcome.check(output, files)
    with measuring.begun(files, fail_if=outcome.fail_if) as job:
        how = measuring.inference
        pairing = how if outcome.paired else None
        scores = score_data(
            job.sources, job.metrics, inference=how, sizing=how, pairing=pairing, running=measuring.running
        )
    warn_about(scores, measuring.inference.unit)
    systems = list(dict.fromkeys(one.system for one in scores))
    if len(systems) < 2:
        raise DataError(
            f"one system ('{systems[0]}') in {', '.join(files)}; expected two to compare: name another file, or the "
            f"column of system names with {named('system', 'COL')}"
        )
    comparisons = compare_systems(scores, measuring.inference, paired=outcome.paired)
    sheet = comparison_sheet(scores, comparisons, values=form == "json" and output.output is not None)
    outcome.conclude(sheet, form, output, job, scores, comparisons)


def say_unmeasured(unmeasured: Sequence[Unmeasured]) -> None:
    """Say what a bundle could not measure: before the work, and once more beside its outcome."""
    for one in unmeasured:
        say(f"warning: {one}")


def warn_about(scores: Sequence[Score], unit: Unit = "auto") -> None:
    """Say what to know of scores before they are believed; `unit` is the one that was named."""
    from nlgauge.scoring.cautions import cautions

    for line in cautions(scores, unit):
        say(line)
