"""RUQ of a model on prompts of a dialog: reference, two generics and the model's own output under every prompt."""

from __future__ import annotations

from bench_setup import Bench
from comparison import agrees, faster, largest_gap, row
from corpus import pairs_file
from results import Section

PROMPTS = 1000


def measure(bench: Bench) -> Section:
    prompts = bench.scaled(PROMPTS, least=10)
    path = pairs_file(bench.work, prompts)
    asked = path.with_name(f"{path.stem}-asked.jsonl")
    ours = bench.run_beside("ours_models", "ruq", path, asked, fresh_memory=True)
    plain = bench.run_beside("peers.transformers_package", asked)
    section = Section(f"RUQ (SmolLM2-135M): {prompts:,} prompts x (reference, 2 generics, output)")
    section.rows = [
        row("NLGauge", "Ruq(model=..., test=pairs, beam=2).run(), outputs written before", ours, ours),
        row("transformers", "model(prompt + text) in a loop", plain, ours),
    ]
    shares = ", ".join(f"{share:.3f} against {generic}" for generic, share in ours["ruq"].items())
    section.remarks = [
        f"Prompts: {path.name}. RUQ is {shares}.",
        f"NLGauge wrote the outputs ({ours['decoding']}) in {ours['writing']:.1f} s, outside the comparison.",
        "The value is the sum of all log-probabilities, ends included; the difference is the largest of any token's.",
    ]
    section.checks = [
        faster("transformers", plain, ours, 2),
        agrees("difference from transformers, in nats", largest_gap(plain["tokens"], ours["tokens"]), 1e-4),
    ]
    return section
