"""The same numbers however the work is done."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nlgauge
from nlgauge.engine.running import Running
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.metrics.score import Score
from tests.errors import raises
from tests.helpers import MB

METRICS = [
    "distinct",
    "cos-sim",
    "self-bleu",
    "entropy",
    "compression",
    "pairs",
    "ttr:over=set",
    "ead:over=set",
    "distinct:over=corpus",
    "distinct:over=corpus,count=hll-14",
    "entropy:over=corpus,n=1-3",
    "ead:n=1-2",
]


@pytest.fixture(scope="module")
def rows() -> list[str]:
    rng = np.random.default_rng(0)
    made = []
    for i in range(1500):
        words = rng.zipf(1.4, (rng.integers(2, 7), rng.integers(1, 15))) % 900
        responses = [" ".join(f"w{w}" for w in row) for row in words]
        made.append(json.dumps({"id": f"s{i}", "context": f"context {i}", "responses": responses}))
    return made


@pytest.fixture(scope="module")
def file(rows: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("scoring") / "sets.jsonl"
    place.write_text("\n".join(rows) + "\n")
    return place


def numbers(scores: list[Score]) -> list[object]:
    return [(score.label, score.value, score.ci, score.n, dict(score.parts)) for score in scores]


@pytest.fixture(scope="module")
def expected(file: Path) -> list[object]:
    return numbers(nlgauge.score(str(file), METRICS, confidence=True, workers=1, cache=False))


@pytest.mark.parametrize(
    "how",
    [
        Running(workers=2, cache=False, chunk_mb=100_000 / MB),
        Running(workers=1, cache=False, chunk_mb=1 / MB),
        Running(workers=1, cache=False, chunk_mb=7777 / MB),
        Running(workers=1, cache=False, chunk_mb=50_000 / MB, memory_mb=10_000 / MB),
        Running(workers=2, cache=False, chunk_mb=200_000 / MB, memory_mb=10_000 / MB),
        Running(workers=1, cache=True),
        Running(workers=2, cache=True),
    ],
    ids=["two processes", "a line at a time", "small chunks", "spilling", "spilling twice", "cold cache", "warm cache"],
)
def test_numbers_do_not_depend_on_how_they_are_computed(file: Path, expected: list[object], how: Running) -> None:
    found = numbers(nlgauge.score(str(file), METRICS, confidence=True, **vars(how)))
    assert found == expected


def test_numbers_do_not_depend_on_the_order_of_the_file(
    rows: list[str], expected: list[object], tmp_path: Path
) -> None:
    shuffled = tmp_path / "shuffled.jsonl"
    order = np.random.default_rng(9).permutation(len(rows))
    shuffled.write_text("\n".join(rows[i] for i in order) + "\n")
    assert numbers(nlgauge.score(str(shuffled), METRICS, confidence=True)) == expected


def test_numbers_do_not_depend_on_what_else_is_scored(file: Path, expected: list[object]) -> None:
    for metric, both in zip(METRICS, expected, strict=True):
        assert numbers(nlgauge.score(str(file), [metric], confidence=True)) == [both]


def test_a_comparison_does_not_depend_on_the_order_of_the_files_rows(rows: list[str], tmp_path: Path) -> None:
    one, two, three = (tmp_path / f"{name}.jsonl" for name in ("one", "two", "three"))
    one.write_text("\n".join(rows[:400]) + "\n")
    changed = [row.replace("w1 ", "v1 v2 ") for row in rows[:400]]
    two.write_text("\n".join(changed) + "\n")
    three.write_text("\n".join(reversed(changed)) + "\n")
    first = nlgauge.compare_all(nlgauge.score([str(one), str(two)], ["distinct", "ead"], confidence=True))
    second = nlgauge.compare_all(nlgauge.score([str(one), str(three)], ["distinct", "ead"], confidence=True))
    for a, b in zip(first, second, strict=True):
        assert (a.difference, a.ci, a.p, a.p_adjusted) == (b.difference, b.ci, b.p, b.p_adjusted)


def test_without_ids_systems_are_paired_by_context(tmp_path: Path) -> None:
    contexts = [f"context {i}" for i in range(8)]
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    lines = [json.dumps({"context": c, "responses": [f"{c} a", "b"]}) + "\n" for c in contexts]
    one.write_text("".join(lines))
    two.write_text("".join(reversed(lines)))
    same = nlgauge.compare(*nlgauge.score([str(one), str(two)], ["distinct"]))
    assert (same.difference, same.p, same.n) == (0.0, 1.0, 8)


def test_equal_ids_with_other_contexts_are_not_paired(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for place, start in ((one, 0), (two, 5)):
        rows = [{"id": i, "context": f"c{i + start}", "responses": ["a", "b"]} for i in range(9)]
        place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with raises(DataError, option="paired"):
        nlgauge.compare(*nlgauge.score([str(one), str(two)], ["distinct"]))


def test_files_that_share_a_system_name_are_told_apart(rows: list[str], tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "out.jsonl").write_text("\n".join(rows[:5]) + "\n")
    scores = nlgauge.score([str(tmp_path / name / "out.jsonl") for name in "xy"], ["distinct"])
    assert len({score.system for score in scores}) == 2


def test_one_metric_may_stand_alone() -> None:
    sets = [["a b", "a c"], ["a d", "b d"]]
    assert nlgauge.score(sets, "distinct:n=1") == nlgauge.score(sets, ["distinct:n=1"])
    with pytest.raises(OptionError, match=r"repeat -m: -m distinct -m ead \(in Python, a list\)"):
        nlgauge.score(sets, "distinct,ead")


def test_nonsense_is_refused(file: Path) -> None:
    with raises(OptionError, option="metrics"):
        nlgauge.score(str(file), ["distinct", "distinct:n=1-5"])
    with raises(OptionError, option="metrics"):
        nlgauge.score(str(file), [])
    with pytest.raises(OptionError) as refused:
        Running(workers=-1)
    assert refused.value.option == "workers"
    for options in ({"set_size": 2}, {"text": "reply"}, {"run": "folder"}, {"level": 0.9}):
        with pytest.raises(OptionError):
            nlgauge.score([["a", "b"]], ["distinct"], **options)
    with raises(OptionError, option="text"):
        nlgauge.score(nlgauge.Source(path=str(file)), ["distinct"], text="reply")


def test_options_that_do_not_exist_are_never_swallowed() -> None:
    sets = nlgauge.ResponseSets.of([["a b", "c d"], ["a b", "a d"]])
    with raises(UnknownName, name="confidnce", nearest="confidence"):
        nlgauge.score(sets, ["distinct"], confidnce=True)
    assert nlgauge.score(sets, ["distinct"], confidence=True)[0].ci is not None
    scores = nlgauge.score(sets, ["distinct"])
    with raises(UnknownName, name="levl", nearest="level"):
        nlgauge.compare(*scores, *scores, levl=0.9)


def test_a_renamed_option_works_and_says_its_new_name() -> None:
    with pytest.warns(FutureWarning, match="processes= is called workers= now"):
        nlgauge.score([["a b", "c d"]], ["distinct"], processes=1)
