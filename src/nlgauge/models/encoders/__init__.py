"""Encoders: sentence and token embeddings, pair scorers, classifiers, word vectors."""
