"""Metrics, their scores and signatures."""

from nlgauge.metrics.registry import create_metric, metric_class, metric_names, register_metric
from nlgauge.metrics.score import Interval, Score
from nlgauge.metrics.signature import Signature

__all__ = ["Interval", "Score", "Signature", "create_metric", "metric_class", "metric_names", "register_metric"]
