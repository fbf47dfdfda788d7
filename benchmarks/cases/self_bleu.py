"""Self-BLEU of many texts as one set."""

from __future__ import annotations

from collections.abc import Sequence

from bench_setup import Bench, Peer
from comparison import Report, agrees, faster, row
from corpus import texts_file
from results import Section

TEXTS = 10_000
SAMPLE = 200
FAST_BLEU = Peer(
    "fast-bleu",
    "fast_bleu_package",
    "SelfBLEU(tokens, {4: (1/4,) * 4}, smoothing_func=1).get_score()",
    "fast-bleu",
)
NLTK = Peer(
    "nltk",
    "nltk_sentence_bleu",
    "sentence_bleu(others, text, weights=(1/4,) * 4, smoothing_function=method1)",
    "nltk",
)


def measure(bench: Bench) -> Section:
    texts = bench.scaled(TEXTS, least=50)
    path = texts_file(bench.work, texts)
    ours = bench.run_ours("self-bleu", path)
    fast, nltk = bench.run_peer(FAST_BLEU, path), extrapolated(bench.run_peer(NLTK, path, str(SAMPLE)), texts)
    section = Section(f"Self-BLEU, n = 4, epsilon smoothing: {texts:,} texts as one set, lists in memory to number")
    section.rows = [
        row("NLGauge", "SelfBleu().score(ResponseSets.one_set(texts)), median of 3", ours, ours),
        row(FAST_BLEU.name, FAST_BLEU.calls, fast, ours),
        row(NLTK.name, NLTK.calls + nltk.get("extrapolated", ""), nltk, ours),
    ]
    section.remarks = [
        f"NLGauge loaded or compiled its kernels in {ours['warm_up']:.2f} s before the clock started.",
        "All compute the same quantity, text by text; NLTK's value is the mean over the texts it scored.",
    ]
    section.checks = [
        faster(FAST_BLEU.name, fast, ours, 15),
        faster(f"{NLTK.name}{nltk.get('extrapolated', '')}", nltk, ours, 5_000),
        agrees("largest difference of a text from fast-bleu", _largest(fast, range(texts), ours), 1e-9),
        agrees("largest difference of a text from nltk", _largest(nltk, nltk.get("chosen", ()), ours), 1e-9),
    ]
    return section


def extrapolated(found: Report, texts: int) -> Report:
    """The time for all texts, when only a sample was scored."""
    if "problem" in found or len(found["chosen"]) == texts:
        return found
    scored = len(found["chosen"])
    return found | {
        "seconds": found["seconds"] * texts / scored,
        "extrapolated": f" (extrapolated from {scored} of {texts:,} texts, each against all others)",
    }


def _largest(found: Report, chosen: Sequence[int], ours: Report) -> float | None:
    if "problem" in found:
        return None
    return max(abs(float(value - ours["values"][i])) for i, value in zip(chosen, found["values"], strict=True))
