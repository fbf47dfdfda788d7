"""The list of metrics: lazy, open to other packages, and strict about names."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from nlgauge.errors import NLGaugeError, OptionError, UnknownName

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
    "column": "nlgauge.metrics.column:ColumnMetric",
}
_registered: dict[str, type[Any]] = {}


def metric_names() -> list[str]:
    """Names of all metrics, installed packages' included."""
    return sorted({*_BUILT_IN, *_registered, *_plugins()})


def _plugins() -> dict[str, str]:
    plugins = {point.name: point.value for point in entry_points(group="nlgauge.metrics")}
    if clash := set(plugins) & set(_BUILT_IN):
        raise NLGaugeError(f"an installed package defines a metric '{min(clash)}', which NLGauge has already")
    return plugins


def register_metric(cls: type[Any]) -> type[Any]:
    """Add a metric class under its `name`; usable as a decorator. A taken name is refused."""
    name: str = cls.name
    taken = _registered.get(name)
    if name in _BUILT_IN or (taken is not None and taken is not cls):
        raise OptionError(f"a metric '{name}' exists already; choose another name")
    _registered[name] = cls
    return cls


def metric_class(name: str) -> type[Any]:
    """The class behind a name."""
    if name in _registered:
        return _registered[name]
    target = _BUILT_IN.get(name) or _plugins().get(name)
    if target is None:
        raise UnknownName.among("metric", name, metric_names(), "See `nlgauge metrics`.")
    module, _, attribute = target.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), attribute)
    return found


def create_metric(spec: str) -> Any:
    """A metric from `name`, `name:option=value,option=value`, or a printed signature."""
    from nlgauge.metrics.signature import Signature

    spec = spec.strip()
    if "|" in spec:
        parsed = Signature.parse(spec)
        return metric_class(parsed.name).from_options(parsed.options)
    name, colon, rest = spec.partition(":")
    given: dict[str, str] = {}
    for part in rest.split(",") if colon else []:
        key, equals, value = part.partition("=")
        if not equals or not value:
            raise OptionError(f"'{part}' in '{spec}'; expected option=value, as in distinct:n=2,case=lower")
        if key in given:
            raise OptionError(f"option '{key}' stands twice in '{spec}'")
        given[key] = value
    return metric_class(name).from_options(given)
