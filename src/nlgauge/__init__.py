"""NLGauge gauges generated text, and gauges the gauges."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nlgauge._version import __version__

if TYPE_CHECKING:
    from nlgauge.data.columns import Columns
    from nlgauge.data.dialogs import read_dialogs
    from nlgauge.data.judgments import read_judgments
    from nlgauge.data.ratings import read_ratings
    from nlgauge.data.reading import Source, read
    from nlgauge.data.tables import Items, Ratings, ResponseSets, TokenScores
    from nlgauge.drawing import save_chart
    from nlgauge.interop import as_scorer, load
    from nlgauge.metrics.comparison import Comparison, compare, compare_all
    from nlgauge.metrics.reduction import register_similarity
    from nlgauge.metrics.registry import create_metric, metric_names, register_metric
    from nlgauge.metrics.score import Interval, Score
    from nlgauge.metrics.scoring import RunOptions, score
    from nlgauge.metrics.signature import Signature
    from nlgauge.studies.agreement import agreement_study
    from nlgauge.studies.base import Study
    from nlgauge.studies.content import content_test
    from nlgauge.studies.correlation import correlation_study
    from nlgauge.studies.decoding import decoding_test
    from nlgauge.studies.discrimination import discrimination_test
    from nlgauge.studies.drift import dataset_drift, model_drift
    from nlgauge.studies.entropy_filter import entropy_filter
    from nlgauge.studies.huse import huse
    from nlgauge.studies.huse_data import HuseOptions
    from nlgauge.studies.huse_stability import huse_stability
    from nlgauge.studies.improvement import improvement_study
    from nlgauge.studies.invariance import invariance_test
    from nlgauge.studies.length_bias import length_bias
    from nlgauge.studies.nuggets import build_nuggets
    from nlgauge.studies.ranking import ranking_test
    from nlgauge.studies.ruq import ruq
    from nlgauge.studies.stability import stability
    from nlgauge.studies.sweep import sweep
    from nlgauge.studies.tradeoff import tradeoff
    from nlgauge.studies.typicality import typicality

_PUBLIC = {
    "Columns": "nlgauge.data.columns",
    "Comparison": "nlgauge.metrics.comparison",
    "HuseOptions": "nlgauge.studies.huse_data",
    "Interval": "nlgauge.metrics.score",
    "Items": "nlgauge.data.tables",
    "Ratings": "nlgauge.data.tables",
    "ResponseSets": "nlgauge.data.tables",
    "RunOptions": "nlgauge.metrics.scoring",
    "Score": "nlgauge.metrics.score",
    "Signature": "nlgauge.metrics.signature",
    "Source": "nlgauge.data.reading",
    "Study": "nlgauge.studies.base",
    "TokenScores": "nlgauge.data.tables",
    "agreement_study": "nlgauge.studies.agreement",
    "as_scorer": "nlgauge.interop",
    "build_nuggets": "nlgauge.studies.nuggets",
    "compare": "nlgauge.metrics.comparison",
    "compare_all": "nlgauge.metrics.comparison",
    "content_test": "nlgauge.studies.content",
    "correlation_study": "nlgauge.studies.correlation",
    "create_metric": "nlgauge.metrics.registry",
    "dataset_drift": "nlgauge.studies.drift",
    "decoding_test": "nlgauge.studies.decoding",
    "discrimination_test": "nlgauge.studies.discrimination",
    "entropy_filter": "nlgauge.studies.entropy_filter",
    "huse": "nlgauge.studies.huse",
    "huse_stability": "nlgauge.studies.huse_stability",
    "improvement_study": "nlgauge.studies.improvement",
    "invariance_test": "nlgauge.studies.invariance",
    "length_bias": "nlgauge.studies.length_bias",
    "load": "nlgauge.interop",
    "metric_names": "nlgauge.metrics.registry",
    "model_drift": "nlgauge.studies.drift",
    "ranking_test": "nlgauge.studies.ranking",
    "read": "nlgauge.data.reading",
    "read_dialogs": "nlgauge.data.dialogs",
    "read_judgments": "nlgauge.data.judgments",
    "read_ratings": "nlgauge.data.ratings",
    "register_metric": "nlgauge.metrics.registry",
    "register_similarity": "nlgauge.metrics.reduction",
    "ruq": "nlgauge.studies.ruq",
    "save_chart": "nlgauge.drawing",
    "score": "nlgauge.metrics.scoring",
    "stability": "nlgauge.studies.stability",
    "sweep": "nlgauge.studies.sweep",
    "tradeoff": "nlgauge.studies.tradeoff",
    "typicality": "nlgauge.studies.typicality",
}

__all__ = [
    "Columns",
    "Comparison",
    "HuseOptions",
    "Interval",
    "Items",
    "Ratings",
    "ResponseSets",
    "RunOptions",
    "Score",
    "Signature",
    "Source",
    "Study",
    "TokenScores",
    "__version__",
    "agreement_study",
    "as_scorer",
    "build_nuggets",
    "compare",
    "compare_all",
    "content_test",
    "correlation_study",
    "create_metric",
    "dataset_drift",
    "decoding_test",
    "discrimination_test",
    "entropy_filter",
    "huse",
    "huse_stability",
    "improvement_study",
    "invariance_test",
    "length_bias",
    "load",
    "metric_names",
    "model_drift",
    "ranking_test",
    "read",
    "read_dialogs",
    "read_judgments",
    "read_ratings",
    "register_metric",
    "register_similarity",
    "ruq",
    "save_chart",
    "score",
    "stability",
    "sweep",
    "tradeoff",
    "typicality",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import nlgauge` stays quick."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'nlgauge' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__
