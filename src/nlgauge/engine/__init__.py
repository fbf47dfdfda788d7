"""Stores, cache, run folders, workers, Ray and progress. Nothing here depends on text or metrics."""
