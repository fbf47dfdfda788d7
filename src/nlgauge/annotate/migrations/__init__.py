"""Alembic's folder: how the tables of the annotation site came to be, step by step."""
