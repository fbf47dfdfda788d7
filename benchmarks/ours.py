"""NLGauge's side of every comparison: `python -m ours CASE FILE` measures in a process of its own, like the peers."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from nlgauge.data.tables import ResponseSets
from nlgauge.engine.running import Running
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.overlap import CosineSimilarity, SelfBleu
from nlgauge.scoring.scoring import score
from peers.reporting import report, timed

DISTINCT = "distinct:over=corpus,tok=space"
CORPUS_SELF_BLEU = "self-bleu:over=corpus"
_TINY = ["a tiny text to warm up with", "another tiny text"]
_REPEATS = 3


def distinct(path: Path, run: Running) -> None:
    """File to number."""
    _, warm_up = timed(lambda: score([_TINY], [DISTINCT]))
    scores, seconds = timed(lambda: score(str(path), [DISTINCT], **vars(run)))
    report(seconds, value=scores[0].value, parts=dict(scores[0].parts), warm_up=warm_up)


def distinct_joined(path: Path) -> None:
    """All texts as one long text, so that n-grams run across their ends: what `diversity` counts."""
    joined = " ".join(path.read_text(encoding="utf-8").splitlines())
    scores, seconds = timed(lambda: score([[joined]], [DISTINCT]))
    report(seconds, value=sum(scores[0].parts.values()))


def cosine(path: Path) -> None:
    """Sets in memory to number."""
    metric = CosineSimilarity(tok="space")
    _, warm_up = timed(lambda: metric.score([_TINY]))
    with path.open(encoding="utf-8") as lines:
        sets = [json.loads(line)["responses"] for line in lines]
    value, seconds = _median_time(lambda: metric.score(sets).value)
    report(seconds, value=value, warm_up=warm_up)


def self_bleu(path: Path) -> None:
    """Texts in memory to number; the values of single texts, for comparison, are taken afterwards."""
    metric = SelfBleu()
    _, warm_up = timed(lambda: metric.score([_TINY]))
    texts = path.read_text(encoding="utf-8").splitlines()
    value, seconds = _median_time(lambda: metric.score(ResponseSets.one_set(texts)).value)
    values = metric.per_text(Batch(ResponseSets.one_set(texts))).tolist()
    report(seconds, value=value, values=values, warm_up=warm_up)


def self_bleu_corpus(path: Path) -> None:
    """File to number, every text against all others, with the default budget of memory."""
    _, warm_up = timed(lambda: score([_TINY], [CORPUS_SELF_BLEU]))
    run = Running(workers=1, cache=False)
    value, seconds = _median_time(lambda: score(str(path), [CORPUS_SELF_BLEU], **vars(run))[0].value)
    report(seconds, value=value, warm_up=warm_up)


def _median_time(function: Callable[[], float]) -> tuple[float, float]:
    runs = [timed(function) for _ in range(_REPEATS)]
    return runs[0][0], statistics.median(seconds for _, seconds in runs)


if __name__ == "__main__":
    case, file = sys.argv[1], Path(sys.argv[2])
    {
        "distinct": lambda: distinct(file, Running(workers=1, cache=False)),
        "distinct-default": lambda: distinct(file, Running(cache=False)),
        "distinct-joined": lambda: distinct_joined(file),
        "cosine": lambda: cosine(file),
        "self-bleu": lambda: self_bleu(file),
        "self-bleu-corpus": lambda: self_bleu_corpus(file),
    }[case]()
