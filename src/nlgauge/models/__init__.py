"""Models: where they come from, and what they do (embed, compare, score, generate)."""
