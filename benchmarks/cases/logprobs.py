"""Log-probabilities of several responses to each prompt."""

from __future__ import annotations

from bench_setup import Bench
from comparison import agrees, faster, largest_gap, row
from corpus import prompts_file
from results import Section

PROMPTS, RESPONSES = 30, 10


def measure(bench: Bench) -> Section:
    prompts = bench.scaled(PROMPTS, least=2)
    path = prompts_file(bench.work, prompts, RESPONSES)
    ours = bench.run_beside("ours_models", "logprobs", path)
    singly = bench.run_beside("ours_models", "logprobs-one-by-one", path)
    plain = bench.run_beside("peers.transformers_package", path)
    section = Section(f"Log-probabilities (SmolLM2-135M): {prompts} prompts x {RESPONSES} responses")
    section.rows = [
        row("NLGauge", "score(prompts, responses), median of 3", ours, ours),
        row("NLGauge, one by one", "score([prompt], [[response]]) in a loop", singly, ours),
        row("transformers", "model(prompt + response) in a loop", plain, ours),
    ]
    section.remarks = [
        f"Prompts have {ours['prompt_tokens']:.1f} tokens on average, responses {ours['text_tokens']:.1f}.",
        "The value is the sum of all log-probabilities; the difference is the largest of any one token's.",
    ]
    section.checks = [
        faster("transformers", plain, ours, 3),
        faster("NLGauge one by one", singly, ours, 3),
        agrees("difference from transformers, in nats", largest_gap(plain["tokens"], ours["tokens"]), 1e-4),
        agrees("difference from one by one, in nats", largest_gap(singly["tokens"], ours["tokens"]), 1e-4),
    ]
    return section
