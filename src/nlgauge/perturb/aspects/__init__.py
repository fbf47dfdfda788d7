"""Perturbations, one file per aspect."""
