"""Tests of `nlgauge.studies`."""
