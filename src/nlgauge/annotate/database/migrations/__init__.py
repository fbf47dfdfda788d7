"""Alembic migrations of the annotation site's tables."""
