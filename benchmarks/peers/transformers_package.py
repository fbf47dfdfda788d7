"""Log-probabilities of responses as people write it: one row at a time through the model, log-softmax, look up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from nlgauge.models.fetch import resolve_model
from ours_models import read
from peers.reporting import report, timed

if __name__ == "__main__":
    rows = read(Path(sys.argv[1]))
    folder = resolve_model("smollm2")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def score(prompt: str, response: str) -> list[float]:
        before = tokenizer(f"<|endoftext|>{prompt}")["input_ids"]
        after = tokenizer(response)["input_ids"]
        with torch.inference_mode():
            scores = model(torch.tensor([before + after])).logits[0].log_softmax(-1)
        return [float(scores[len(before) + i - 1, token]) for i, token in enumerate(after)]

    score(rows[0]["prompt"], rows[0]["responses"][0])
    found, seconds = timed(lambda: [score(row["prompt"], text) for row in rows for text in row["responses"]])
    report(seconds, value=sum(map(sum, found)), tokens=found)
