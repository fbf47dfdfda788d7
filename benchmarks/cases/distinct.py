"""Distinct-n of a whole corpus, from file to number."""

from __future__ import annotations

from bench_setup import Bench, Peer
from comparison import agrees, difference, faster, row, smaller
from corpus import TOKENS_PER_TEXT, sets_file, texts_file
from results import Section

TEXTS = 1_000_000
_OURS = 'score(FILE, ["distinct:over=corpus,tok=space"])'
_TUPLES = Peer("set of tuples", "set_of_tuples", "plain Python: set() of token tuples, one per order")
_DIVERSITY = Peer(
    "diversity",
    "diversity_package",
    "ngram_diversity_score(texts, num_n=5)",
    "diversity",
)
_TARGETS = {_TUPLES: 25, _DIVERSITY: 12}
_ROUNDING = 0.000501  # half of the last place that `diversity` returns


def measure(bench: Bench) -> Section:
    texts = bench.scaled(TEXTS, least=100, multiple=10)
    plain, sets = texts_file(bench.work, texts), sets_file(bench.work, texts)
    ours = bench.run_ours("distinct", plain)
    default, from_sets = bench.run_ours("distinct-default", plain), bench.run_ours("distinct", sets)
    joined = bench.run_ours("distinct-joined", plain)
    found = {peer: bench.run_peer(peer, plain) for peer in _TARGETS}
    section = Section(f"distinct-n, n = 1-5: {texts:,} texts of {TOKENS_PER_TEXT} tokens, file to number")
    section.rows = [
        row("NLGauge, plain text, 1 process", f"{_OURS}, processes=1", ours, ours),
        row("NLGauge, JSON lines, 1 process", f"{_OURS}, processes=1", from_sets, ours),
        row("NLGauge, plain text, default processes", _OURS, default | {"peak_mb": default["tree_mb"]}, ours),
        *(row(peer.name, peer.calls, found[peer], ours) for peer in _TARGETS),
    ]
    orders = ", ".join(f"{name}: {value:.4f}" for name, value in ours["parts"].items())
    section.remarks = [
        f"NLGauge loaded or compiled its kernels in {ours['warm_up']:.2f} s before the clock started.",
        f"The corpus by order: {orders}.",
        "With default processes, peak MB is the sum over processes.",
        "The set of tuples computes the same quantity. `diversity` does not: it joins all texts into one, so that "
        "n-grams run across their ends, adds the orders up instead of averaging, and rounds to three places. Its "
        "value is compared with NLGauge's on the joined texts.",
    ]
    section.checks = [
        *(faster(peer.name, found[peer], ours, limit) for peer, limit in _TARGETS.items()),
        *(smaller(peer.name, found[peer], ours, 2) for peer in _TARGETS),
        agrees("difference from NLGauge on JSON lines", difference(from_sets, ours), 0),
        agrees("difference from NLGauge with default processes", difference(default, ours), 0),
        agrees("difference from the set of tuples", difference(found[_TUPLES], ours), 1e-12),
        agrees("difference from diversity, on joined texts", difference(found[_DIVERSITY], joined), _ROUNDING),
    ]
    return section
