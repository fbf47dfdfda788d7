"""Sentence embeddings of response sets in which texts recur."""

from __future__ import annotations

from bench_setup import Bench
from comparison import agrees, faster, row
from corpus import TEXTS_PER_SET, repeated_sets_file
from results import Section

SETS = 6_000
REPEATED = 0.6


def measure(bench: Bench) -> Section:
    sets = bench.scaled(SETS, least=20)
    path = repeated_sets_file(bench.work, sets * TEXTS_PER_SET, REPEATED)
    plain = bench.run_beside("peers.sentence_transformers_package", path)
    ours = bench.run_beside("ours_models", "embedding", path, fresh_memory=True)
    section = Section(f"Embeddings (MiniLM): {sets:,} sets of {TEXTS_PER_SET} texts, {REPEATED:.0%} of them repeats")
    section.rows = [
        row("NLGauge", "Embedder.encode(texts), nothing remembered from before", ours, ours),
        row("sentence-transformers", "SentenceTransformer.encode(texts), its default batches", plain, ours),
    ]
    section.remarks = [
        "The value is the mean of all numbers. The difference is the largest of any number in 1,000 embeddings, "
        "spread evenly over the list.",
    ]
    gap = max(
        abs(a - b) for x, y in zip(ours["sample"], plain["sample"], strict=True) for a, b in zip(x, y, strict=True)
    )
    section.checks = [
        faster("sentence-transformers", plain, ours, 1.8),
        agrees("difference from sentence-transformers", gap, 1e-5),
    ]
    return section
