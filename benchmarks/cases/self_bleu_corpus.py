"""Self-BLEU of a corpus that is read from a file: against peers, and how its time grows."""

from __future__ import annotations

from itertools import pairwise

from bench_setup import Bench
from cases.self_bleu import FAST_BLEU, NLTK, SAMPLE, extrapolated
from comparison import Report, agrees, difference, faster, row
from corpus import texts_file
from results import Check, Section

TEXTS = 5_000
GROWTH = (10_000, 100_000, 1_000_000)
_CALL = "score(FILE, ['self-bleu:over=corpus'])"
_SLACK = 1.15


def measure(bench: Bench) -> Section:
    texts = bench.scaled(TEXTS, least=50)
    path = texts_file(bench.work, texts)
    ours = bench.run_ours("self-bleu-corpus", path)
    fast, nltk = bench.run_peer(FAST_BLEU, path), extrapolated(bench.run_peer(NLTK, path, str(SAMPLE)), texts)
    section = Section(f"Self-BLEU of a corpus, n = 4, epsilon smoothing: {texts:,} texts, then ever more")
    section.rows = [
        row("NLGauge", f"{_CALL}, {texts:,} texts, file to number", ours, ours),
        row(FAST_BLEU.name, FAST_BLEU.calls, fast, ours),
        row(NLTK.name, NLTK.calls + nltk.get("extrapolated", ""), nltk, ours),
    ]
    section.checks = [
        faster(FAST_BLEU.name, fast, ours, 10),
        faster(f"{NLTK.name}{nltk.get('extrapolated', '')}", nltk, ours, 1_000),
        agrees("difference from fast-bleu", difference(fast, ours), 1e-9),
    ]
    section.remarks = [
        f"NLGauge loaded or compiled its kernels in {ours['warm_up']:.2f} s before the clock started.",
        "NLGauge's time includes reading the file; the peers' clocks start with texts in memory.",
        "NLTK's value is the mean over the texts it scored.",
        "In the lines of NLGauge that follow, ratios are to its first line.",
    ]
    _grow(bench, ours, section)
    return section


def _grow(bench: Bench, first: Report, section: Section) -> None:
    """Time for ten times as many texts, twice."""
    sizes = [bench.scaled(texts, least=50) for texts in GROWTH]
    found = [bench.run_ours("self-bleu-corpus", texts_file(bench.work, size)) for size in sizes]
    section.rows += [
        row("NLGauge", f"{_CALL}, {size:,} texts", one, first) for size, one in zip(sizes, found, strict=True)
    ]
    for (fewer, before), (more, after) in pairwise(zip(sizes, found, strict=True)):
        section.checks.append(
            Check(
                claim=f"time of {more:,} texts over that of {fewer:,}",
                measured=float(after["seconds"] / before["seconds"]),
                limit=_SLACK * more / fewer,
                kind="at most",
                unit="x",
            )
        )
