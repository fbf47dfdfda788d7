"""Every measure of a whole corpus gives the same number however the corpus is cut, shuffled and kept."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import nlgauge
from nlgauge.engine.running import Running
from nlgauge.errors import DataError
from nlgauge.metrics.registry import METRICS, create_metric
from nlgauge.metrics.score import Score
from tests.helpers import MB

SPECS = [
    "distinct:over=corpus",
    "distinct:over=corpus,count=hll-12",
    "ead:n=1-2",
    "ttr:n=2",
    "entropy:over=corpus,n=1-3",
    "self-bleu:over=corpus",
    "self-bleu:over=corpus,n=2,smooth=none,tok=word",
    "compression:over=corpus",
    "compression:over=corpus,by=zstd,blocks=7",
    "bleu:over=corpus",
]
JAVA = "meteor:over=corpus"
HOWS = {
    "a text at a time": Running(workers=1, cache=False, chunk_mb=1 / MB),
    "many chunks": Running(workers=1, cache=False, chunk_mb=3000 / MB),
    "little memory": Running(workers=1, cache=False, chunk_mb=3000 / MB, memory_mb=1000 / MB),
    "little memory for a text at a time": Running(workers=1, cache=False, chunk_mb=1 / MB, memory_mb=50_000 / MB),
    "two processes": Running(workers=2, cache=False, chunk_mb=10_000 / MB),
    "two processes with little memory": Running(workers=2, cache=False, chunk_mb=10_000 / MB, memory_mb=1000 / MB),
}


@pytest.fixture(scope="module")
def rows() -> list[str]:
    rng = np.random.default_rng(7)

    def text() -> str:
        return " ".join(f"w{w}" for w in rng.zipf(1.4, rng.integers(1, 16)) % 400)

    texts = [text() for _ in range(400)]
    texts += texts[:30]
    return [
        json.dumps({"id": f"s{i}", "text": texts[i], "references": [text(), texts[i - 1]]}) for i in range(len(texts))
    ]


@pytest.fixture(scope="module")
def file(rows: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("corpus") / "texts.jsonl"
    place.write_text("".join(f"{row}\n" for row in rows))
    return place


def numbers(file: Path, run: Running | None = None) -> list[object]:
    def of(score: Score) -> object:
        return score.label, score.value, score.ci, score.n, dict(score.parts)

    specs = [*SPECS, *([JAVA] if shutil.which("java") else [])]
    return [of(score) for score in nlgauge.score(str(file), specs, confidence=True, **vars(run or Running()))]


@pytest.fixture(scope="module")
def expected(file: Path) -> list[object]:
    return numbers(file, Running(workers=1, cache=False))


def test_every_metric_that_pools_a_corpus_is_here() -> None:
    pooling = {
        name
        for name in METRICS.names()
        if "over" in {field.name for field in dataclasses.fields(METRICS.find(name))}
        and METRICS.find(name).__module__.startswith("nlgauge.")
    }
    refusing = set()
    for name in pooling:
        try:
            create_metric(f"{name}:over=corpus")
        except nlgauge.NLGaugeError:
            refusing.add(name)
    assert pooling - refusing == {spec.partition(":")[0] for spec in [*SPECS, JAVA]}


@pytest.mark.parametrize("how", HOWS)
def test_numbers_of_a_corpus_do_not_depend_on_how_it_is_read(file: Path, expected: list[object], how: str) -> None:
    assert numbers(file, HOWS[how]) == expected


@pytest.mark.parametrize("seed", [0, 1])
def test_numbers_of_a_corpus_do_not_depend_on_the_order_of_texts(
    rows: list[str], expected: list[object], tmp_path: Path, seed: int
) -> None:
    shuffled = tmp_path / "shuffled.jsonl"
    order = np.random.default_rng(seed).permutation(len(rows))
    shuffled.write_text("".join(f"{rows[i]}\n" for i in order))
    assert numbers(shuffled) == expected
    assert numbers(shuffled, HOWS["little memory"]) == expected


def test_sets_and_single_texts_are_the_same_corpus(rows: list[str], tmp_path: Path) -> None:
    texts = [json.loads(row)["text"] for row in rows]
    lines, sets = tmp_path / "texts.txt", tmp_path / "sets.jsonl"
    lines.write_text("".join(f"{text}\n" for text in texts))
    sets.write_text("".join(json.dumps({"responses": texts[i : i + 3]}) + "\n" for i in range(0, len(texts), 3)))
    specs = [spec for spec in SPECS if not spec.startswith("bleu")]
    one, other = (nlgauge.score(str(file), specs) for file in (lines, sets))
    assert [(score.value, score.n) for score in one] == [(score.value, score.n) for score in other]


def test_a_corpus_measure_has_no_values_of_single_sets(file: Path) -> None:
    for score in nlgauge.score(str(file), ["self-bleu:over=corpus", "compression:over=corpus"], confidence=True):
        assert score.per_item is None
        assert (score.ci, score.left_out) == (None, None)
    with pytest.raises(DataError, match="single texts"):
        nlgauge.score(str(file), ["self-bleu"])
