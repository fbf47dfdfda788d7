"""How often does a report find a difference where there is none?

Deals the responses of each context of one file into two systems at random, again and again, and reports on the two as
`nlgauge report` does with its default metrics. Both halves come from one system, so every difference that is called
significant is a false alarm: each metric should raise one in 20 times before correction, and a whole report, whose
tests are corrected (Holm), at most so often.

    python benchmarks/self_comparison.py sets.jsonl --splits 200
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from nlgauge.data.reading import Source, read_sets
from nlgauge.engine.progress import progress_bar
from nlgauge.report.card.measuring import default_metrics, measure
from nlgauge.report.card.summary import is_significant
from nlgauge.report.card.texts import read_texts
from nlgauge.scoring.compared import SIGNIFICANT
from nlgauge.stats.inference import Comparing


def deal(sets: list[tuple[str, str, list[str]]], rng: np.random.Generator, folder: Path) -> list[str]:
    """Two files, each with half of the responses of every context."""
    paths = [folder / "a.jsonl", folder / "b.jsonl"]
    lines: list[list[str]] = [[], []]
    for id, context, texts in sets:
        dealt = rng.permutation(len(texts))[: len(texts) // 2 * 2]
        for side in (0, 1):
            half = [texts[i] for i in dealt[side::2]]
            lines[side].append(json.dumps({"id": id, "context": context, "responses": half}) + "\n")
    for path, written in zip(paths, lines, strict=True):
        path.write_text("".join(written), encoding="utf-8")
    return [str(path) for path in paths]


def main() -> None:
    """Print the rate of false alarms of every metric, and of whole reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    table = read_sets(options.file)
    texts, contexts = table.texts.to_list(), table.frame["context"].to_list()
    sets = [
        (str(i), contexts[i], texts[a:b])
        for i, (a, b) in enumerate(zip(table.offsets[:-1], table.offsets[1:], strict=True))
    ]
    rng = np.random.default_rng(options.seed)
    alarms: Counter[str] = Counter()
    reports = 0
    with tempfile.TemporaryDirectory() as folder, progress_bar("comparing", options.splits, show=True) as advance:
        for seed in range(options.splits):
            sources = [Source(path=path) for path in deal(sets, rng, Path(folder))]
            read = read_texts(sources)
            metrics, missing = default_metrics(read)
            run = measure(sources, metrics, read, inference=Comparing(resamples=100, seed=seed), missing=missing)
            alarms.update({one.metric_label: int(one.p < SIGNIFICANT) for one in run.comparisons})
            reports += any(map(is_significant, run.comparisons))
            advance(seed + 1)
    print(f"{options.splits} reports on {len(sets)} contexts, a system against itself")
    for name, count in alarms.items():
        print(f"  {name:<14} p < {SIGNIFICANT:g}, uncorrected: {count:>3} ({count / options.splits:.1%})")
    print(f"  reports that name any difference: {reports} ({reports / options.splits:.1%})")


if __name__ == "__main__":
    main()
