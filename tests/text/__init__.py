"""Tests of `nlgauge.text`."""
