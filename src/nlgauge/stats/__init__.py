"""Resampling and tests; knows nothing about text."""
