"""NLGauge gauges generated text, and gauges the gauges."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nlgauge._version import __version__

if TYPE_CHECKING:
    from nlgauge.data.columns import Reading
    from nlgauge.data.dialogs import read_dialogs
    from nlgauge.data.human.judgments import read_judgments
    from nlgauge.data.human.ratings import read_ratings
    from nlgauge.data.reading import Source, read
    from nlgauge.data.tables import Items, Ratings, ResponseSets, TokenScores
    from nlgauge.drawing import save_chart
    from nlgauge.engine.running import Running
    from nlgauge.errors import (
        DataError,
        MissingExtra,
        ModelError,
        NLGaugeError,
        OptionError,
        OutputError,
        PluginError,
        UnknownName,
    )
    from nlgauge.interop import as_scorer, load
    from nlgauge.metrics.diversity.reduction import register_similarity
    from nlgauge.metrics.registry import create_metric, metric_names, register_metric
    from nlgauge.metrics.score import Score
    from nlgauge.models.runtime import Machine
    from nlgauge.report.writing import report
    from nlgauge.scoring.comparison import Comparison, compare, compare_all
    from nlgauge.scoring.scoring import score
    from nlgauge.signature import Signature
    from nlgauge.stats.inference import Inference
    from nlgauge.studies.base import Result, Study
    from nlgauge.studies.diversity.content import ContentTest
    from nlgauge.studies.diversity.decoding import DecodingTest
    from nlgauge.studies.diversity.length_bias import LengthBias
    from nlgauge.studies.diversity.nuggets import Nuggets
    from nlgauge.studies.diversity.ranking import RankingTest
    from nlgauge.studies.diversity.stability import Stability
    from nlgauge.studies.huse.score import Huse
    from nlgauge.studies.huse.stability import HuseStability
    from nlgauge.studies.huse.tradeoff import Tradeoff
    from nlgauge.studies.huse.typicality import Typicality
    from nlgauge.studies.ruq.entropy_filter import EntropyFilter
    from nlgauge.studies.ruq.score import Ruq
    from nlgauge.studies.ruq.sweep import Sweep
    from nlgauge.studies.story.agreement import AgreementStudy
    from nlgauge.studies.story.correlation import CorrelationStudy
    from nlgauge.studies.story.discrimination import DiscriminationTest
    from nlgauge.studies.story.drift import Drift
    from nlgauge.studies.story.improvement import ImprovementStudy
    from nlgauge.studies.story.invariance import InvarianceTest

_PUBLIC = {
    "AgreementStudy": "nlgauge.studies.story.agreement",
    "Comparison": "nlgauge.scoring.comparison",
    "ContentTest": "nlgauge.studies.diversity.content",
    "CorrelationStudy": "nlgauge.studies.story.correlation",
    "DataError": "nlgauge.errors",
    "DecodingTest": "nlgauge.studies.diversity.decoding",
    "DiscriminationTest": "nlgauge.studies.story.discrimination",
    "Drift": "nlgauge.studies.story.drift",
    "EntropyFilter": "nlgauge.studies.ruq.entropy_filter",
    "Huse": "nlgauge.studies.huse.score",
    "HuseStability": "nlgauge.studies.huse.stability",
    "ImprovementStudy": "nlgauge.studies.story.improvement",
    "Inference": "nlgauge.stats.inference",
    "InvarianceTest": "nlgauge.studies.story.invariance",
    "Items": "nlgauge.data.tables",
    "LengthBias": "nlgauge.studies.diversity.length_bias",
    "Machine": "nlgauge.models.runtime",
    "MissingExtra": "nlgauge.errors",
    "ModelError": "nlgauge.errors",
    "NLGaugeError": "nlgauge.errors",
    "Nuggets": "nlgauge.studies.diversity.nuggets",
    "OptionError": "nlgauge.errors",
    "OutputError": "nlgauge.errors",
    "PluginError": "nlgauge.errors",
    "RankingTest": "nlgauge.studies.diversity.ranking",
    "Ratings": "nlgauge.data.tables",
    "Reading": "nlgauge.data.columns",
    "ResponseSets": "nlgauge.data.tables",
    "Result": "nlgauge.studies.base",
    "Running": "nlgauge.engine.running",
    "Ruq": "nlgauge.studies.ruq.score",
    "Score": "nlgauge.metrics.score",
    "Signature": "nlgauge.signature",
    "Source": "nlgauge.data.reading",
    "Stability": "nlgauge.studies.diversity.stability",
    "Study": "nlgauge.studies.base",
    "Sweep": "nlgauge.studies.ruq.sweep",
    "TokenScores": "nlgauge.data.tables",
    "Tradeoff": "nlgauge.studies.huse.tradeoff",
    "Typicality": "nlgauge.studies.huse.typicality",
    "UnknownName": "nlgauge.errors",
    "as_scorer": "nlgauge.interop",
    "compare": "nlgauge.scoring.comparison",
    "compare_all": "nlgauge.scoring.comparison",
    "create_metric": "nlgauge.metrics.registry",
    "load": "nlgauge.interop",
    "metric_names": "nlgauge.metrics.registry",
    "read": "nlgauge.data.reading",
    "read_dialogs": "nlgauge.data.dialogs",
    "read_judgments": "nlgauge.data.human.judgments",
    "read_ratings": "nlgauge.data.human.ratings",
    "register_metric": "nlgauge.metrics.registry",
    "register_similarity": "nlgauge.metrics.diversity.reduction",
    "report": "nlgauge.report.writing",
    "save_chart": "nlgauge.drawing",
    "score": "nlgauge.scoring.scoring",
}

__all__ = [
    "AgreementStudy",
    "Comparison",
    "ContentTest",
    "CorrelationStudy",
    "DataError",
    "DecodingTest",
    "DiscriminationTest",
    "Drift",
    "EntropyFilter",
    "Huse",
    "HuseStability",
    "ImprovementStudy",
    "Inference",
    "InvarianceTest",
    "Items",
    "LengthBias",
    "Machine",
    "MissingExtra",
    "ModelError",
    "NLGaugeError",
    "Nuggets",
    "OptionError",
    "OutputError",
    "PluginError",
    "RankingTest",
    "Ratings",
    "Reading",
    "ResponseSets",
    "Result",
    "Running",
    "Ruq",
    "Score",
    "Signature",
    "Source",
    "Stability",
    "Study",
    "Sweep",
    "TokenScores",
    "Tradeoff",
    "Typicality",
    "UnknownName",
    "__version__",
    "as_scorer",
    "compare",
    "compare_all",
    "create_metric",
    "load",
    "metric_names",
    "read",
    "read_dialogs",
    "read_judgments",
    "read_ratings",
    "register_metric",
    "register_similarity",
    "report",
    "save_chart",
    "score",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import nlgauge` stays quick."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'nlgauge' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__
