"""Tests of `nlgauge.engine`."""
