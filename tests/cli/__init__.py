"""Tests of `nlgauge.cli`."""
