"""Tokens and n-grams."""
