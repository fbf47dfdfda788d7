"""Metrics of diversity: n-grams, similarities and embeddings of response sets."""
