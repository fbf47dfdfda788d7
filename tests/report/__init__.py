"""Tests of `nlgauge.report`."""
