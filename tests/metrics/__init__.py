"""Tests of `nlgauge.metrics`."""
