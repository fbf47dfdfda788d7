"""Systems with different numbers of responses, or of texts, are compared at one size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nlgauge
from nlgauge.errors import OptionError
from nlgauge.scoring.sizes import size_notes, unequal
from tests import helpers

WORDS = np.array([f"w{i}" for i in range(300)])
WEIGHTS = 1 / np.arange(1, 301)
OF_SETS = ["distinct", "entropy", "self-bleu", "compression"]
OF_CORPORA = ["ead", "ttr", "distinct:over=corpus"]


def texts(count: int, rng: np.random.Generator) -> list[str]:
    lengths = rng.integers(4, 10, count)
    drawn = rng.choice(WORDS, int(lengths.sum()), p=WEIGHTS / WEIGHTS.sum())
    return [" ".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]


def sets(system: str, contexts: int, size: int, rng: np.random.Generator, first: int = 0) -> nlgauge.ResponseSets:
    named = [f"context {number}" for number in range(first, first + contexts)]
    return nlgauge.ResponseSets.of(
        [texts(size, rng) for _ in named], contexts=named, ids=named, systems=[system] * contexts
    )


def both(rng: np.random.Generator, contexts: tuple[int, int], sizes: tuple[int, int]) -> nlgauge.ResponseSets:
    """One generator, called `a` and `b`; contexts are shared where there are as many."""
    second = 0 if contexts[0] == contexts[1] else 1000
    return nlgauge.ResponseSets.concat(
        [sets("a", contexts[0], sizes[0], rng), sets("b", contexts[1], sizes[1], rng, second)]
    )


def false_alarms(
    metrics: list[str], contexts: tuple[int, int], sizes: tuple[int, int], *, size: str, tries: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    found = np.zeros(len(metrics))
    for seed in range(tries):
        data = both(np.random.default_rng([seed, *contexts, *sizes]), contexts, sizes)
        scores = nlgauge.score(data, metrics, confidence=True, size=size)
        made = nlgauge.compare_all(scores, paired=contexts[0] == contexts[1], correction="none")
        found += [one.p < 0.05 for one in made]
    return found / tries


@pytest.mark.parametrize("sizes", [(3, 10), (5, 3)])
def test_one_generator_with_more_responses_differs_no_more_often_than_chance(sizes: tuple[int, int]) -> None:
    found = false_alarms([*OF_SETS, "ead"], (50, 50), sizes, size="common", tries=60)
    assert found.max() <= 0.15
    assert found.mean() <= 0.085


def test_taken_as_they_are_such_systems_nearly_always_differ() -> None:
    found = false_alarms([*OF_SETS, "ead"], (50, 50), (3, 10), size="own", tries=5)
    assert found.min() == 1


def test_corpora_are_compared_with_as_many_texts() -> None:
    assert false_alarms(OF_CORPORA, (200, 600), (1, 1), size="own", tries=5).min() == 1
    found = false_alarms(OF_CORPORA, (200, 600), (1, 1), size="common", tries=60)
    assert found.max() <= 0.15


def test_signatures_make_the_sized_numbers_again() -> None:
    data = both(np.random.default_rng(5), (30, 40), (3, 10))
    for score in nlgauge.score(data, [*OF_SETS, *OF_CORPORA]):
        own = data.select(np.flatnonzero((data.frame["system"] == score.system).to_numpy()))
        (again,) = nlgauge.score(own, [str(score.signature)])
        assert (again.value, again.n) == (score.value, score.n)
        assert score.signature.options["size"] == "3"
        if score.level == "corpus":
            assert score.signature.options["sets"] == "30"
            assert score.n == 90


def test_systems_of_one_size_are_left_as_they_are() -> None:
    data = both(np.random.default_rng(6), (20, 20), (4, 4))
    scores = nlgauge.score(data, [*OF_SETS, *OF_CORPORA])
    assert not list(size_notes(scores))
    assert all("size" not in score.signature.options for score in scores)
    assert not unequal([{3: 10, 5: 20}, {3: 1, 5: 2}])
    assert unequal([{3: 10, 5: 20}, {3: 2, 5: 1}])


def test_a_number_is_taken_by_every_metric_that_depends_on_size() -> None:
    data = sets("a", 10, 6, np.random.default_rng(7))
    found = nlgauge.score(data, ["distinct", "distinct:size=2", "cos-sim", "ead"], size=4)
    assert [score.signature.options.get("size") for score in found] == ["4", "2", None, "4"]


def test_what_was_measured_at_different_sizes_is_said_in_every_verdict(tmp_path: Path) -> None:
    first, second = (
        nlgauge.score(sets(name, 20, size, np.random.default_rng(8)), ["distinct", "ead"], confidence=True)
        for name, size in (("a", 3), ("b", 9))
    )
    for one, two in zip(first, second, strict=True):
        assert nlgauge.compare(one, two).verdict.endswith("(measured at different sizes)")
    assert "'a' 3 responses per set, 'b' 9 responses per set" in next(size_notes([*first, *second]))


@pytest.mark.parametrize("size", ["own", "3"])
def test_corpora_of_different_sizes_are_said_where_nothing_makes_them_equal(size: str) -> None:
    """A number is one of responses per set: as many sets as the smallest corpus has are taken at `common` alone."""
    data = both(np.random.default_rng(11), (40, 60), (3, 3))
    for metric in OF_CORPORA:
        taken = nlgauge.score(data, [metric], confidence=True, size=size)
        assert "'a' 40 sets of 3 responses, 'b' 60 sets of 3 responses" in next(size_notes(taken))
        assert nlgauge.compare(*taken, paired=False).verdict.endswith("(measured at different sizes)")
        assert not nlgauge.compare(*nlgauge.score(data, [metric], confidence=True), paired=False).at_different_sizes


def write(data: nlgauge.ResponseSets, place: Path) -> str:
    rows = data.to_polars().to_dicts()
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(place)


def test_every_way_of_running_gives_the_sized_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    files = [write(sets("", 40, 3, rng), tmp_path / "a.jsonl"), write(sets("", 60, 8, rng, 500), tmp_path / "b.jsonl")]
    metrics = ["distinct", "entropy:over=corpus", "ead"]
    plain = [(one.value, one.n, str(one.signature)) for one in nlgauge.score(files, metrics)]
    for more in ({"workers": 2}, {"run": tmp_path / "run"}, {"run": tmp_path / "run"}):
        assert [(one.value, one.n, str(one.signature)) for one in nlgauge.score(files, metrics, **more)] == plain


def run(folder: Path, *arguments: str) -> helpers.Outcome:
    return helpers.nlgauge(*arguments, cwd=folder, cache=folder / "cache")


def test_commands_say_the_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    files = [write(sets("", 30, 3, rng), tmp_path / "a.jsonl"), write(sets("", 30, 8, rng), tmp_path / "b.jsonl")]
    done = run(tmp_path, "compare", *files, "-m", "distinct", "-m", "cos-sim")
    assert "|size:3|" in done.out
    assert "measured at 3 responses per set: distinct" in done.err
    own = run(tmp_path, "compare", *files, "-m", "distinct", "--size", "own")
    assert "(measured at different sizes)" in own.out
    assert "warning: distinct" in own.err
    assert run(tmp_path, "compare", *files, "-m", "distinct", "--size", "0").code == 2
    saved = tmp_path / "own.json"
    assert run(tmp_path, "score", *files, "-m", "distinct", "--size", "own", "-o", str(saved)).code == 0
    assert "warning: distinct" in run(tmp_path, "leaderboard", str(saved)).out


def test_a_unit_that_a_corpus_cannot_have_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    files = [write(sets("", 30, 3, rng), tmp_path / f"{name}.jsonl") for name in "ab"]
    done = run(tmp_path, "compare", *files, "-m", "distinct", "-m", "ead", "--unit", "set")
    assert "warning: ead: intervals of a whole corpus leave out groups of contexts" in done.err
    assert "|unit:set|" in done.out
    assert "|unit:group|" in done.out
    assert "groups" not in run(tmp_path, "compare", *files, "-m", "distinct", "-m", "ead", "--unit", "context").err


def test_standard_input_of_unequal_systems_cannot_be_read_again(tmp_path: Path) -> None:
    lines = [
        {"context": "c", "system": "a", "responses": ["x", "y"]},
        {"context": "c", "system": "b", "responses": ["x"]},
    ]
    stdin = "".join(json.dumps(line) + "\n" for line in lines * 3).encode()
    done = helpers.nlgauge("score", "-", "-m", "distinct", cwd=tmp_path, cache=tmp_path / "cache", stdin=stdin)
    assert done.code == 2
    assert "--size own" in done.err


def test_a_size_is_a_word_or_a_number() -> None:
    with pytest.raises(OptionError) as error:
        nlgauge.score([["a", "b"]], ["distinct"], size="half")
    assert error.value.option == "size"
