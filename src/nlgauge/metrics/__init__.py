"""Metrics, their scores and signatures."""

from nlgauge.metrics.registry import create_metric, metric_class, metric_names, register_metric
from nlgauge.metrics.score import Score
from nlgauge.signature import Signature
from nlgauge.stats.inference import Inference

__all__ = ["Inference", "Score", "Signature", "create_metric", "metric_class", "metric_names", "register_metric"]
