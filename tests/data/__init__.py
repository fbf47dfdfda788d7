"""Tests of `nlgauge.data`."""
