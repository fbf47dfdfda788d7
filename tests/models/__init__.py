"""Tests of `nlgauge.models`."""
