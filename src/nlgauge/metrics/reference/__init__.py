"""Metrics that compare texts with references, and what they share."""
