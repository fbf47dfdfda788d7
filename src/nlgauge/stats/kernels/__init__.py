"""Kernels of statistics: neighbours, resamples of ranks, transport, exact sums. No words about what they mean."""
