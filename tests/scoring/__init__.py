"""Tests of `nlgauge.scoring`."""
