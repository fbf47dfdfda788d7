"""Embeddings of a list of texts through sentence-transformers, as its documentation shows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from nlgauge.models.fetch import resolve_model
from ours_models import read, sample
from peers.reporting import report, timed

if __name__ == "__main__":
    texts = [text for row in read(Path(sys.argv[1])) for text in row["responses"]]
    model = SentenceTransformer(str(resolve_model("minilm")), device="cpu")
    model.encode(["a text to load the model with"])
    vectors, seconds = timed(lambda: model.encode(texts))
    report(seconds, value=float(vectors.mean(dtype=np.float64)), sample=sample(vectors))
