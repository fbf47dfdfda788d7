"""Tests of `nlgauge.annotate`."""
