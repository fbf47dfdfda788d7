"""NLGauge gauges generated text, and gauges the gauges."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nlgauge._version import __version__

if TYPE_CHECKING:
    from nlgauge.data.columns import Columns
    from nlgauge.data.reading import Source, read
    from nlgauge.data.tables import Items, Ratings, ResponseSets, TokenScores
    from nlgauge.metrics.comparison import Comparison, compare, compare_all
    from nlgauge.metrics.reduction import register_similarity
    from nlgauge.metrics.registry import create_metric, metric_names, register_metric
    from nlgauge.metrics.score import Interval, Score
    from nlgauge.metrics.scoring import RunOptions, score
    from nlgauge.metrics.signature import Signature

_PUBLIC = {
    "Columns": "nlgauge.data.columns",
    "Comparison": "nlgauge.metrics.comparison",
    "Interval": "nlgauge.metrics.score",
    "Items": "nlgauge.data.tables",
    "Ratings": "nlgauge.data.tables",
    "ResponseSets": "nlgauge.data.tables",
    "RunOptions": "nlgauge.metrics.scoring",
    "Score": "nlgauge.metrics.score",
    "Signature": "nlgauge.metrics.signature",
    "Source": "nlgauge.data.reading",
    "TokenScores": "nlgauge.data.tables",
    "compare": "nlgauge.metrics.comparison",
    "compare_all": "nlgauge.metrics.comparison",
    "create_metric": "nlgauge.metrics.registry",
    "metric_names": "nlgauge.metrics.registry",
    "read": "nlgauge.data.reading",
    "register_metric": "nlgauge.metrics.registry",
    "register_similarity": "nlgauge.metrics.reduction",
    "score": "nlgauge.metrics.scoring",
}

__all__ = [
    "Columns",
    "Comparison",
    "Interval",
    "Items",
    "Ratings",
    "ResponseSets",
    "RunOptions",
    "Score",
    "Signature",
    "Source",
    "TokenScores",
    "__version__",
    "compare",
    "compare_all",
    "create_metric",
    "metric_names",
    "read",
    "register_metric",
    "register_similarity",
    "score",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import nlgauge` stays quick."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'nlgauge' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__
