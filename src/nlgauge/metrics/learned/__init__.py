"""Metrics from language models, trained networks and judges."""
