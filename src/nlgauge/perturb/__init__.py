"""Texts made worse on purpose, in ways that are known."""
