"""Measuring for a report: the metrics that the files allow; others are listed with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from nlgauge.data.reading import Source, Table
from nlgauge.engine.running import Running
from nlgauge.errors import DataError, MissingExtra, ModelError, NLGaugeError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.registry import create_metric
from nlgauge.metrics.score import Score
from nlgauge.report.card.contents import Missing, Run
from nlgauge.report.card.texts import Read
from nlgauge.report.results import StudyTable
from nlgauge.scoring.compared import Comparison
from nlgauge.scoring.comparison import compare_scores, corrected
from nlgauge.scoring.scoring import score_data
from nlgauge.stats.inference import Comparing

OF_SETS = ("distinct", "ead:over=set", "cos-sim", "self-bleu", "entropy", "compression", "ead", "ttr")
OF_CONTENT = ("sent-sim", "content", "vendi")
OF_TEXTS = ("distinct:over=corpus", "ead", "ttr")
OF_REFERENCES = ("bleu", "rouge-l")


def default_metrics(read: Read) -> tuple[list[Metric], list[Missing]]:
    """The default metrics of these files, and those that need something that is missing here."""
    of_texts = (*OF_TEXTS, *OF_REFERENCES) if read.references else OF_TEXTS
    wanted = (*OF_SETS, *OF_CONTENT) if read.sets else of_texts
    made: list[Metric] = []
    missing: list[Missing] = []
    for spec in wanted:
        metric = create_metric(spec)
        if metric.needs > read.smallest and metric.level != "corpus":
            reason = f"needs {metric.needs} responses per set, and some set has {read.smallest}"
            missing.append(Missing(spec, reason, metric.aspect))
            continue
        try:
            metric.prepare()
        except (MissingExtra, ModelError) as error:
            missing.append(Missing(spec, str(error), metric.aspect))
        else:
            made.append(metric)
    return made, missing


def measure(
    inputs: Sequence[Source] | Table,
    metrics: Sequence[Metric],
    read: Read,
    *,
    inference: Comparing,
    missing: Sequence[Missing] = (),
    results: Sequence[StudyTable] = (),
    paired: bool = True,
    running: Running | None = None,
) -> Run:
    """Score every system by every metric that works on it, and compare the systems with the first."""
    scores, failed = _scores(inputs, metrics, inference, running or Running(progress=False))
    failed_names = {one.what for one in failed}
    systems = list(dict.fromkeys(one.system for one in scores))
    comparisons, refused = _comparisons(scores, inference, paired=paired)
    refusal = ""
    if refused and not comparisons:
        refusal, refused = refused[0].reason, []
    return Run(
        scores=scores,
        comparisons=comparisons,
        metrics=[metric for metric in metrics if metric.label not in failed_names],
        texts=read.named(systems),
        files=["data in memory"] if isinstance(inputs, Table) else [source.name for source in inputs],
        interval=inference,
        refusal=refusal,
        missing=[*missing, *failed, *refused],
        results=results,
    )


def _scores(
    inputs: Sequence[Source] | Table, metrics: Sequence[Metric], inference: Comparing, running: Running
) -> tuple[list[Score], list[Missing]]:
    """All scores; if they cannot be computed together, those of the metrics that work alone."""
    try:
        return score_data(inputs, metrics, inference=inference, sizing=inference, running=running), []
    except (DataError, MissingExtra, ModelError) as error:
        if len(metrics) < 2:
            raise
        first = error
    found: list[Score] = []
    failed: list[Missing] = []
    for metric in metrics:
        try:
            found += score_data(inputs, [metric], inference=inference, sizing=inference, running=running)
        except (DataError, MissingExtra, ModelError) as error:
            failed.append(Missing(metric.label, str(error), metric.aspect))
    if not found:
        reasons = {one.reason for one in failed}
        if len(reasons) == 1:
            raise first
        raise DataError(
            "none of the metrics can be computed: " + "; ".join(f"{one.what}: {one.reason}" for one in failed)
        )
    systems = list(dict.fromkeys(one.system for one in found))
    return sorted(found, key=lambda one: systems.index(one.system)), failed


def _comparisons(
    scores: Sequence[Score], inference: Comparing, *, paired: bool
) -> tuple[list[Comparison], list[Missing]]:
    """Every later system against the first by every metric, corrected as one family; and refused comparisons."""
    systems = list(dict.fromkeys(one.system for one in scores))
    made: list[Comparison] = []
    refused: list[Missing] = []
    for base in (one for one in scores if one.system == systems[0]):
        for other in (one for one in scores if one.system != systems[0] and one.label == base.label):
            try:
                made.append(compare_scores(base, other, inference, paired=paired))
            except NLGaugeError as error:
                refused.append(Missing(f"comparison of {other.system} by {base.label}", str(error)))
    return corrected(made, inference), refused
