"""Compare NLGauge with what one would use instead, in one run: ratios, peak memory, targets. See README.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from bench_setup import Bench
from cases import cosine, distinct, embedding, large, logprobs, neighbours, resampling, ruq, self_bleu, self_bleu_corpus
from programs import ProgramError
from results import Section

CASES: dict[str, Callable[[Bench], Section]] = {
    "distinct": distinct.measure,
    "cosine": cosine.measure,
    "self-bleu": self_bleu.measure,
    "self-bleu-corpus": self_bleu_corpus.measure,
    "embedding": embedding.measure,
    "logprobs": logprobs.measure,
    "ruq": ruq.measure,
    "resampling": resampling.measure,
    "neighbours": neighbours.measure,
    "large": large.measure,
}


def main() -> int:
    options = _parse()
    bench = Bench(options.work.resolve(), options.scale)
    full_scale = bench.scale >= 1
    about = {
        "nlgauge": version("nlgauge"),
        "scale": bench.scale,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    print("# Benchmark: " + ", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
    sections = []
    for name in options.only or CASES:
        print(f"{name}:", file=sys.stderr, flush=True)
        sections.append(_measure(name, bench))
        print(f"\n{sections[-1].markdown(full_scale=full_scale)}", flush=True)
    if options.json:
        document = about | {"sections": [asdict(section) for section in sections]}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    verdicts = Counter(verdict for section in sections for verdict in section.verdicts(full_scale=full_scale))
    print("\nChecks: " + "; ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return 1 if verdicts["FAIL"] else 0


def _measure(name: str, bench: Bench) -> Section:
    try:
        return CASES[name](bench)
    except ProgramError as error:
        return Section(name, problems=[str(error)])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=_scale, default=1.0, help="fraction of the full sizes (default: %(default)s)")
    parser.add_argument("--only", action="append", choices=list(CASES), help="run only this case; may be repeated")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(__file__).parent.parent / "bench",
        help="folder for generated files and the peers (default: bench/ beside benchmarks/)",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write all results to this file")
    return parser.parse_args()


def _scale(text: str) -> float:
    scale = float(text)
    if not scale > 0:
        raise argparse.ArgumentTypeError(f"{text}; expected a positive number")
    return scale


if __name__ == "__main__":
    sys.exit(main())
