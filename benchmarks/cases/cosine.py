"""Mean pairwise cosine of n-gram counts in each set."""

from __future__ import annotations

from bench_setup import Bench, Peer
from comparison import agrees, difference, faster, row
from corpus import TEXTS_PER_SET, sets_file
from results import Section

SETS = 6_000
_PAIRS = Peer("pair loop", "counter_pairs", "plain Python: a Counter a text and order, cosine of every pair")


def measure(bench: Bench) -> Section:
    sets = bench.scaled(SETS, least=10)
    path = sets_file(bench.work, sets * TEXTS_PER_SET)
    ours, pairs = bench.run_ours("cosine", path), bench.run_peer(_PAIRS, path)
    section = Section(f"cos-sim, n = 1-5: {sets:,} sets of {TEXTS_PER_SET} texts, lists in memory to number")
    section.rows = [
        row("NLGauge", 'CosineSimilarity(tok="space").score(sets), median of 3', ours, ours),
        row(_PAIRS.name, _PAIRS.calls, pairs, ours),
    ]
    section.remarks = [
        f"NLGauge loaded or compiled its kernels in {ours['warm_up']:.2f} s before the clock started.",
        "Both compute the same quantity.",
    ]
    section.checks = [
        faster(_PAIRS.name, pairs, ours, 40),
        agrees("difference from the pair loop", difference(pairs, ours), 1e-12),
    ]
    return section
