"""Metrics, their scores and signatures."""
