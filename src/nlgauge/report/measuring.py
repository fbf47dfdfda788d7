"""Measuring for a report: what files allow is measured, and what cannot be measured is named with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nlgauge.data.reading import Source
from nlgauge.errors import DataError, MissingExtra, ModelError, NLGaugeError
from nlgauge.metrics.comparison import Comparison, compare
from nlgauge.metrics.registry import create_metric
from nlgauge.metrics.score import Interval, Score
from nlgauge.metrics.scoring import RunOptions, score
from nlgauge.report.card import Missing, Run
from nlgauge.report.questions import question_of_metric
from nlgauge.report.results import Result
from nlgauge.report.texts import Read
from nlgauge.stats.paired import holm

OF_SETS = ("distinct", "ead:over=set", "cos-sim", "self-bleu", "entropy", "compression", "ead", "ttr")
OF_CONTENT = ("sent-sim", "content", "vendi")
OF_TEXTS = ("distinct:over=corpus", "ead", "ttr")
OF_REFERENCES = ("bleu", "rouge-l")
UNPAIRED = "; nlgauge report --unpaired compares them as two samples"


def default_metrics(read: Read) -> tuple[list[Any], list[Missing]]:
    """The metrics that go with these files, and those that would but for what is missing here."""
    of_texts = (*OF_TEXTS, *OF_REFERENCES) if read.references else OF_TEXTS
    wanted = (*OF_SETS, *OF_CONTENT) if read.sets else of_texts
    made: list[Any] = []
    missing: list[Missing] = []
    for spec in wanted:
        metric = create_metric(spec)
        if metric.needs > read.smallest and getattr(metric, "over", "") != "corpus":
            reason = f"needs {metric.needs} responses a set, and some set has {read.smallest}"
            missing.append(Missing(spec, reason, question_of_metric(metric)))
            continue
        try:
            metric.prepare()
        except (MissingExtra, ModelError) as error:
            missing.append(Missing(spec, str(error), question_of_metric(metric)))
        else:
            made.append(metric)
    return made, missing


def measure(
    sources: Sequence[Source],
    metrics: Sequence[Any],
    read: Read,
    *,
    interval: Interval,
    missing: Sequence[Missing] = (),
    results: Sequence[Result] = (),
    paired: bool = True,
    progress: bool = False,
) -> Run:
    """Score every system by every metric that works on it, and compare the systems with the first."""
    scores, failed = _scores(list(sources), metrics, interval, RunOptions(progress=progress))
    failed_names = {one.what for one in failed}
    systems = list(dict.fromkeys(one.system for one in scores))
    comparisons, refused = _comparisons(scores, interval, paired=paired)
    refusal = ""
    if refused and not comparisons:
        refusal, refused = refused[0].reason, []
    return Run(
        scores=scores,
        comparisons=comparisons,
        metrics=[metric for metric in metrics if metric.label not in failed_names],
        texts=read.named(systems),
        files=[source.name for source in sources],
        interval=interval,
        refusal=refusal,
        missing=[*missing, *failed, *refused],
        results=results,
    )


def _scores(
    sources: list[Source], metrics: Sequence[Any], interval: Interval, run: RunOptions
) -> tuple[list[Score], list[Missing]]:
    """All scores; where they cannot be had at once, those of the metrics that work alone."""
    try:
        return score(sources, metrics, interval=interval, run=run), []
    except (DataError, MissingExtra, ModelError) as error:
        if len(metrics) < 2:
            raise
        first = error
    found: list[Score] = []
    failed: list[Missing] = []
    for metric in metrics:
        try:
            found += score(sources, [metric], interval=interval, run=run)
        except (DataError, MissingExtra, ModelError) as error:
            failed.append(Missing(metric.label, str(error), question_of_metric(metric)))
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
    scores: Sequence[Score], interval: Interval, *, paired: bool
) -> tuple[list[Comparison], list[Missing]]:
    """Every later system against the first by every metric, Holm's correction over all; and what was refused."""
    systems = list(dict.fromkeys(one.system for one in scores))
    made: list[Comparison] = []
    refused: list[Missing] = []
    for base in (one for one in scores if one.system == systems[0]):
        for other in (one for one in scores if one.system != systems[0] and one.label == base.label):
            try:
                made.append(compare(base, other, interval=interval, paired=paired))
            except NLGaugeError as error:
                offer = UNPAIRED if paired and base.n > 1 and other.n > 1 else ""
                refused.append(Missing(f"comparison of {other.system} by {base.label}", f"{error}{offer}"))
    if not made:
        return [], refused
    adjusted = holm(np.array([one.p for one in made]))
    return [replace(one, p_holm=float(p)) for one, p in zip(made, adjusted, strict=True)], refused
