"""NLGauge's side of the comparisons that run a neural model: `python -m ours_models CASE FILE`."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nlgauge.models.embedder import Embedder
from nlgauge.models.language import load_language_model
from peers.reporting import report, timed

_REPEATS = 3


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def sample(vectors: Any) -> list[list[float]]:
    """A thousand rows spread evenly over all."""
    found: list[list[float]] = vectors[:: max(1, len(vectors) // 1000)][:1000].tolist()
    return found


def embedding(path: Path) -> None:
    """A list of texts to a matrix, the model loaded before."""
    texts = [text for row in read(path) for text in row["responses"]]
    embedder = Embedder("minilm")
    embedder.encode(["a text to load the model with"])
    vectors, seconds = timed(lambda: embedder.encode(texts))
    report(seconds, value=float(vectors.mean(dtype=np.float64)), sample=sample(vectors))


def logprobs(path: Path, *, together: bool) -> None:
    """Prompts and responses to log-probabilities, the model loaded before."""
    rows = read(path)
    prompts, texts = [row["prompt"] for row in rows], [row["responses"] for row in rows]
    model = load_language_model("smollm2")
    model.score(prompts[:1], [texts[0][:2]])

    def run() -> list[list[Any]]:
        if together:
            return model.score(prompts, texts)
        return [
            [model.score([prompt], [[text]])[0][0] for text in group]
            for prompt, group in zip(prompts, texts, strict=True)
        ]

    runs = [timed(run) for _ in range(_REPEATS if together else 1)]
    found = [result for group in runs[0][0] for result in group]
    report(
        statistics.median(seconds for _, seconds in runs),
        value=sum(result.total for result in found),
        tokens=[result.logprobs.tolist() for result in found],
        prompt_tokens=statistics.mean(len(result) for result in model.score([""], [prompts])[0]),
        text_tokens=statistics.mean(map(len, found)),
    )


if __name__ == "__main__":
    case, file = sys.argv[1], Path(sys.argv[2])
    {
        "embedding": lambda: embedding(file),
        "logprobs": lambda: logprobs(file, together=True),
        "logprobs-one-by-one": lambda: logprobs(file, together=False),
    }[case]()
