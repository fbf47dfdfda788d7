"""Output of other tools, converted to JSON lines."""
