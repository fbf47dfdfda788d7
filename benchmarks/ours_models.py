"""NLGauge's side of the comparisons that run a neural model: `python -m ours_models CASE FILE [OUT]`."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nlgauge.data.columns import Reading
from nlgauge.models.encoders.embedder import Embedder
from nlgauge.models.language.base import load_language_model
from nlgauge.models.shared import score_texts
from nlgauge.studies.ruq.options import GENERICS
from nlgauge.studies.ruq.score import Ruq
from nlgauge.studies.ruq.token_scores import check_split, read_prompts, write_outputs
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


def ruq(path: Path, asked: Path) -> None:
    """RUQ from a file of pairs; the model's own outputs are written before the clock starts.

    Every prompt with its texts, as the model sees them, goes to `asked` for the peer.
    """
    pairs, end = read(path), "<|endoftext|>"
    study = Ruq(model="smollm2", test=path, beam=2, max_new_tokens=20)
    split = check_split(read_prompts("test", path, Reading()), study)
    outputs, writing = timed(lambda: write_outputs("smollm2", [split], study, progress=False)["test"])
    result, seconds = timed(lambda: study.run(progress=False))
    texts = [[pair["text"], *GENERICS, output] for pair, output in zip(pairs, outputs, strict=True)]
    spaced = [[study.spaced(text) for text in group] for group in texts]
    found = [one for group in score_texts("smollm2", split.prompts, spaced, with_end=True) for one in group]
    rows = [
        {"prompt": prompt, "responses": [f"{text}{end}" for text in group]}
        for prompt, group in zip(split.prompts, spaced, strict=True)
    ]
    asked.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report(
        seconds,
        value=sum(one.total for one in found),
        tokens=[one.logprobs.tolist() for one in found],
        writing=writing,
        decoding=study.outputs_made,
        ruq={row["generic"]: row["ruq"] for row in result.rows},
    )


if __name__ == "__main__":
    case, file = sys.argv[1], Path(sys.argv[2])
    {
        "embedding": lambda: embedding(file),
        "logprobs": lambda: logprobs(file, together=True),
        "logprobs-one-by-one": lambda: logprobs(file, together=False),
        "ruq": lambda: ruq(file, Path(sys.argv[3])),
    }[case]()
