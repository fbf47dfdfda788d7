"""Intervals, tests, correlation, agreement and their kernels. Nothing here depends on text."""
