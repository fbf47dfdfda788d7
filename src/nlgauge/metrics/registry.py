"""The list of metrics: lazy, open to other packages, and strict about names."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nlgauge.configured import option_lines, options_of
from nlgauge.errors import DataError, MissingExtra, ModelError, OptionError
from nlgauge.registry import Registry

if TYPE_CHECKING:
    from nlgauge.metrics.base import Metric

M = TypeVar("M", bound="Metric")

_BUILT_IN = {
    "distinct": "nlgauge.metrics.diversity.ngram:Distinct",
    "ead": "nlgauge.metrics.diversity.ngram:ExpectationAdjustedDistinct",
    "ttr": "nlgauge.metrics.diversity.ngram:TypeTokenRatio",
    "entropy": "nlgauge.metrics.diversity.ngram:Entropy",
    "cos-sim": "nlgauge.metrics.diversity.overlap:CosineSimilarity",
    "self-bleu": "nlgauge.metrics.diversity.overlap:SelfBleu",
    "compression": "nlgauge.metrics.diversity.compression:Compression",
    "pairs": "nlgauge.metrics.diversity.reduction:PairReduction",
    "bertscore-div": "nlgauge.metrics.reference.bertscore:BertScoreDiversity",
    "sts-div": "nlgauge.metrics.reference.cross_encoders:StsDiversity",
    "sent-sim": "nlgauge.metrics.diversity.embedding:SentenceSimilarity",
    "content": "nlgauge.metrics.diversity.content:Content",
    "vendi": "nlgauge.metrics.diversity.embedding:Vendi",
    "kmeans-inertia": "nlgauge.metrics.diversity.embedding:KMeansInertia",
    "volume": "nlgauge.metrics.diversity.embedding:Volume",
    "mauve": "nlgauge.metrics.reference.mauve:Mauve",
    "ppl": "nlgauge.metrics.learned.fluency:Perplexity",
    "bleu": "nlgauge.metrics.reference.overlap:Bleu",
    "rouge-l": "nlgauge.metrics.reference.overlap:RougeL",
    "meteor": "nlgauge.metrics.reference.meteor:Meteor",
    "meteor-nltk": "nlgauge.metrics.reference.meteor:MeteorNltk",
    "embed-average": "nlgauge.metrics.reference.vectors:EmbeddingAverage",
    "vector-extrema": "nlgauge.metrics.reference.vectors:VectorExtrema",
    "greedy": "nlgauge.metrics.reference.vectors:GreedyMatching",
    "sent-cos": "nlgauge.metrics.reference.vectors:SentenceCosine",
    "bertscore": "nlgauge.metrics.reference.bertscore:BertScore",
    "moverscore": "nlgauge.metrics.reference.moverscore:MoverScore",
    "bleurt": "nlgauge.metrics.reference.cross_encoders:Bleurt",
    "union": "nlgauge.metrics.learned.trained:Union",
    "ruber": "nlgauge.metrics.learned.trained:Ruber",
    "relatedness": "nlgauge.metrics.learned.fluency:Relatedness",
    "llm-judge": "nlgauge.metrics.learned.llm_judge:LlmJudge",
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
        *(f"ttr:n={n}" for n in range(1, 4)),
    ),
}
METRICS: Registry[Metric] = Registry(
    "metric", "nlgauge.metrics", _BUILT_IN, "distinct:n=2,case=lower", "See `nlgauge metrics`."
)


def metric_names() -> list[str]:
    """Names of all metrics, installed packages' included."""
    return METRICS.names()


def register_metric(cls: type[M]) -> type[M]:
    """Add a metric class under its `name`; usable as a decorator. A taken name is refused."""
    METRICS.register(cls)
    return cls


def metric_class(name: str) -> type[Metric]:
    """The class behind a name."""
    if name in BUNDLES and name not in METRICS.names():
        raise OptionError(f"'{name}' stands for several metrics; expected one of them: {', '.join(BUNDLES[name])}")
    return METRICS.find(name)


def create_metric(spec: str) -> Metric:
    """A metric from `name`, `name:option=value,option=value`, or a printed signature."""
    if "|" in spec:
        return METRICS.create(spec)
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


def create_metrics(specs: str | Iterable[str | Metric]) -> list[Metric]:
    """Metrics from specs, or from one (made ones stay as they are); a bundle, such as `dialog`, stands for its parts.

    A part of a bundle that lacks something on this machine is left out with a warning that says what.
    """
    made, unmeasured = measurable_metrics(specs)
    for one in unmeasured:
        warnings.warn(str(one), stacklevel=2)
    return made


def measurable_metrics(specs: str | Iterable[str | Metric]) -> tuple[list[Metric], list[Unmeasured]]:
    """As `create_metrics`, with the parts of bundles that are left out in place of warnings."""
    specs = [specs] if isinstance(specs, str) else specs
    made: list[Metric] = []
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


def refuse_metrics(files: Sequence[str]) -> None:
    """Refuse a metric in the place of a file (the option -m takes one name at a time), and two standard inputs."""
    if list(files).count("-") > 1:
        raise OptionError("duplicate file '-' (standard input); expected it once")
    for path in files:
        if path != "-" and not Path(path).exists() and path.partition(":")[0] in (*metric_names(), *BUNDLES):
            raise DataError(f"no such file (a metric needs its own -m: -m {path})", file=path)


def describe_metric(name: str) -> Iterator[str]:
    """A metric's definition, paper, options and an example, one line each."""
    cls = metric_class(name)
    default = cls()
    yield from (f"{cls.name}: {inspect.cleandoc(cls.__doc__ or '')}", "")
    yield f"paper       {cls.paper}"
    yield f"higher is   {default.direction.words}"
    yield f"level       {default.level}"
    yield f"aspect      {default.aspect}"
    yield f"needs       {default.needs} response{'s' * (default.needs > 1)} per set"
    yield f"signature   {default.signature}"
    yield from ("", "options", *(f"  {line}" for line in option_lines(cls)))
    has_case = any(one.name == "case" for one in options_of(cls))
    example = default.example or (f"{cls.name}:case=lower" if has_case else cls.name)
    yield from ("", "example", f"  nlgauge score examples/system_a.jsonl -m {example} --confidence")
