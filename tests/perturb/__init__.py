"""Tests of `nlgauge.perturb`."""
