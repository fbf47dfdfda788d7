"""Pages of the annotation site, and their security."""
