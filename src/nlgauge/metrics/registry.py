"""The list of metrics: lazy, open to other packages, and strict about names."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nlgauge.errors import MissingExtra, ModelError, OptionError
from nlgauge.registry import Registry

_BUILT_IN = {
    "distinct": "nlgauge.metrics.ngram:Distinct",
    "ead": "nlgauge.metrics.ngram:ExpectationAdjustedDistinct",
    "ttr": "nlgauge.metrics.ngram:TypeTokenRatio",
    "entropy": "nlgauge.metrics.ngram:Entropy",
    "cos-sim": "nlgauge.metrics.cosine:CosineSimilarity",
    "self-bleu": "nlgauge.metrics.self_bleu:SelfBleu",
    "compression": "nlgauge.metrics.compression:Compression",
    "pairs": "nlgauge.metrics.reduction:PairReduction",
    "bertscore-div": "nlgauge.metrics.bertscore:BertScoreDiversity",
    "sts-div": "nlgauge.metrics.sts:StsDiversity",
    "sent-sim": "nlgauge.metrics.embedding:SentenceSimilarity",
    "content": "nlgauge.metrics.content:Content",
    "vendi": "nlgauge.metrics.embedding:Vendi",
    "kmeans-inertia": "nlgauge.metrics.embedding:KMeansInertia",
    "volume": "nlgauge.metrics.embedding:Volume",
    "mauve": "nlgauge.metrics.mauve:Mauve",
    "ppl": "nlgauge.metrics.perplexity:Perplexity",
    "bleu": "nlgauge.metrics.bleu:Bleu",
    "rouge-l": "nlgauge.metrics.rouge:RougeL",
    "meteor": "nlgauge.metrics.meteor:Meteor",
    "meteor-nltk": "nlgauge.metrics.meteor_nltk:MeteorNltk",
    "embed-average": "nlgauge.metrics.word_vectors:EmbeddingAverage",
    "vector-extrema": "nlgauge.metrics.word_vectors:VectorExtrema",
    "greedy": "nlgauge.metrics.word_vectors:GreedyMatching",
    "sent-cos": "nlgauge.metrics.sentence_cosine:SentenceCosine",
    "bertscore": "nlgauge.metrics.bertscore:BertScore",
    "moverscore": "nlgauge.metrics.moverscore:MoverScore",
    "bleurt": "nlgauge.metrics.bleurt:Bleurt",
    "union": "nlgauge.metrics.union:Union",
    "ruber": "nlgauge.metrics.ruber:Ruber",
    "relatedness": "nlgauge.metrics.relatedness:Relatedness",
    "llm-judge": "nlgauge.metrics.llm_judge:LlmJudge",
    "column": "nlgauge.metrics.column:ColumnMetric",
}
_DIALOG_BLEU = tuple(f"bleu:n={n},case=lower" for n in range(1, 5))
BUNDLES = {
    "dialog": (
        *_DIALOG_BLEU,
        *(f"{spec},over=corpus,variant=nlg-eval" for spec in _DIALOG_BLEU),
        "meteor:over=corpus",
        "rouge-l:case=lower",
        "embed-average",
        "vector-extrema",
        "greedy",
        "sent-cos",
        "ttr:n=1",
        "ttr:n=2",
        "ttr:n=3",
    ),
}
METRICS = Registry("metric", "nlgauge.metrics", _BUILT_IN, "distinct:n=2,case=lower", "See `nlgauge metrics`.")


def metric_names() -> list[str]:
    """Names of all metrics, installed packages' included."""
    return METRICS.names()


def register_metric(cls: type[Any]) -> type[Any]:
    """Add a metric class under its `name`; usable as a decorator. A taken name is refused."""
    return METRICS.register(cls)


def metric_class(name: str) -> type[Any]:
    """The class behind a name."""
    if name in BUNDLES and name not in METRICS.names():
        raise OptionError(f"'{name}' stands for several metrics; expected one of them: {', '.join(BUNDLES[name])}")
    return METRICS.find(name)


def create_metric(spec: str) -> Any:
    """A metric from `name`, `name:option=value,option=value`, or a printed signature."""
    from nlgauge.metrics.signature import Signature

    if "|" in spec:
        parsed = Signature.parse(spec)
        return metric_class(parsed.name).from_options(parsed.options)
    if "," in spec.partition(":")[0]:
        each = " ".join(f"-m {name.strip()}" for name in spec.split(","))
        raise OptionError(f"'{spec}' names several metrics; expected one: repeat -m: {each} (in Python, a list)")
    name, given = METRICS.parse(spec)
    return metric_class(name).from_options(given)


@dataclass(frozen=True)
class Unmeasured:
    """A part of a bundle that cannot run on this machine, and what it lacks."""

    bundle: str
    metric: str
    reason: str

    def __str__(self) -> str:
        return f"{self.bundle}: {self.metric} is skipped: {self.reason}"


def create_metrics(specs: str | Iterable[Any]) -> list[Any]:
    """Metrics from specs, or from one (made ones stay as they are); a bundle, such as `dialog`, stands for its parts.

    A part of a bundle that lacks something on this machine is left out with a warning that says what.
    """
    made, unmeasured = measurable_metrics(specs)
    for one in unmeasured:
        warnings.warn(str(one), stacklevel=2)
    return made


def measurable_metrics(specs: str | Iterable[Any]) -> tuple[list[Any], list[Unmeasured]]:
    """As `create_metrics`, with the parts of bundles that are left out in place of warnings."""
    specs = [specs] if isinstance(specs, str) else specs
    made: list[Any] = []
    unmeasured: list[Unmeasured] = []
    for spec in specs:
        if not isinstance(spec, str) or spec.strip() not in BUNDLES:
            made.append(create_metric(spec) if isinstance(spec, str) else spec)
            continue
        for part in map(create_metric, BUNDLES[spec.strip()]):
            try:
                part.prepare()
            except (MissingExtra, ModelError) as error:
                unmeasured.append(Unmeasured(spec.strip(), part.label, str(error)))
            else:
                made.append(part)
    return made, unmeasured
