"""Tests of `nlgauge.stats`."""
