"""Scoring of data with metrics: parts, runs, comparison, planning, gates. Definitions of metrics never live here."""
