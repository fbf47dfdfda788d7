"""The leaderboard: what result files hold, who is ranked where, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import nlgauge
from nlgauge.data.tables import ResponseSets
from nlgauge.engine.checksums import sealed
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.score import Score
from nlgauge.report.leaderboard import Leaderboard, leaderboard, leaderboard_sheet, read_results
from nlgauge.report.tables import FORMATS, render, results_document
from nlgauge.stats.inference import Comparing
from tests import helpers
from tests.errors import raises

CONTEXTS = 24


def scored(
    words: int, system: str, specs: Sequence[str], dataset: str = "talk", contexts: int = CONTEXTS
) -> list[Score]:
    """Scores of a system that draws its words from so many."""
    rng = np.random.default_rng([words, len(system), len(dataset)])
    drawn = rng.integers(0, words, (contexts, 4, 6))
    sets = ResponseSets.of(
        [[" ".join(f"w{w}" for w in text) for text in texts] for texts in drawn],
        contexts=[f"{dataset} {i}" for i in range(contexts)],
        ids=range(contexts),
    )
    return [replace(score, system=system) for score in nlgauge.score(sets, specs, confidence=True)]


def saved(place: Path, *scores: Score, **changes: str) -> str:
    """A result file; `changes` are made to the signatures."""
    document = results_document(scores, values=True)
    text = json.dumps(document)
    for old, new in changes.items():
        text = text.replace(old.replace("__", ":"), new)
    helpers.write_document(place, json.loads(text))
    return str(place)


def ranks(board: Leaderboard, label: str, dataset: str) -> list[tuple[str, float, int | None]]:
    return [
        (place.score.system, place.rank, place.cluster)
        for place in board.places
        if (place.score.label, place.dataset) == (label, dataset)
    ]


def test_a_result_file_gives_back_what_was_measured(tmp_path: Path) -> None:
    scores = [*scored(9, "a", ["distinct", "ead"]), *scored(90, "b", ["distinct", "ead"])]
    again = read_results(saved(tmp_path / "r.json", *scores)).scores
    assert [(s.label, s.system, s.value, s.ci, s.n, s.signature) for s in again] == [
        (s.label, s.system, s.value, s.ci, s.n, s.signature) for s in scores
    ]
    for one, two in ((0, 2), (1, 3)):
        assert nlgauge.compare(again[one], again[two]) == nlgauge.compare(scores[one], scores[two])


def test_systems_that_cannot_be_told_apart_share_a_cluster(tmp_path: Path) -> None:
    specs = ["distinct", "self-bleu", "ead"]
    by_words = {"poor": 6, "rich": 30_000, "plain": 300, "plainer": 300}
    files = [saved(tmp_path / f"{name}.json", *scored(words, name, specs)) for name, words in by_words.items()]
    board = leaderboard([read_results(file) for file in files])
    assert (board.datasets, board.notes) == (("poor",), ())
    for label in specs:
        found = ranks(board, label, "poor")
        assert [rank for _, rank, _ in found] == [1, 2, 3, 4]
        assert [cluster for *_, cluster in found] == [1, 2, 2, 3]
        assert (found[0][0], found[3][0]) == ("rich", "poor")
    words = "6 tests are one family, corrected by"
    *_, of_sets, of_corpora = render(leaderboard_sheet(board), "text").splitlines()
    assert of_sets.startswith(f"note: clusters by distinct, self-bleu: {words} max-T:")
    assert of_corpora.startswith(f"note: clusters by ead: {words} Holm's method:")
    values = [place.score.value for place in board.places if place.score.label == "self-bleu"]
    assert values == sorted(values)


def test_a_margin_has_no_place_in_a_leaderboard(tmp_path: Path) -> None:
    results = read_results(saved(tmp_path / "one.json", *scored(9, "a", ["distinct"]), *scored(90, "b", ["distinct"])))
    with raises(OptionError, option="margin"):
        leaderboard([results], how=Comparing(margin=0.1))


def test_equal_values_share_their_rank(tmp_path: Path) -> None:
    one = scored(30, "a", ["distinct"])[0]
    board = leaderboard([read_results(saved(tmp_path / "r.json", one, replace(one, system="b")))])
    assert ranks(board, "distinct", "r") == [("a", 1.5, 1), ("b", 1.5, 1)]


def test_several_datasets_have_mean_ranks(tmp_path: Path) -> None:
    talk = saved(tmp_path / "talk.json", *scored(10, "a", ["distinct"]), *scored(300, "b", ["distinct"]))
    tales = [*scored(300, "a", ["distinct"], "tales"), *scored(10, "b", ["distinct"], "tales")]
    third = saved(tmp_path / "tales.json", *tales, *scored(40, "c", ["distinct"], "tales"))
    board = leaderboard([read_results(talk), read_results(third)])
    assert board.datasets == ("talk", "tales")
    assert {(p.score.system, p.mean_rank) for p in board.places} == {("a", 1.5), ("b", 2.0), ("c", None)}
    assert board.notes == ("'c' has distinct on 1 of 2 datasets: no mean rank",)
    lines = render(leaderboard_sheet(board), "text").splitlines()
    assert lines[0].split("  ")[0] == "metric"
    assert [line.split()[1:3] for line in lines[2:5]] == [["1.50", "a"], ["2.00", "b"], ["-", "c"]]


def test_files_with_the_same_contexts_are_one_dataset_unless_named(tmp_path: Path) -> None:
    specs = ["distinct"]
    one = saved(tmp_path / "one.json", *scored(10, "a", specs), *scored(99, "b", specs))
    two = saved(tmp_path / "two.json", *scored(20, "a", specs), *scored(50, "b", specs))
    results = [read_results(one), read_results(two)]
    with pytest.raises(DataError, match=r"both have distinct of 'a' on the same contexts \(one\).*NAME="):
        leaderboard(results)
    assert leaderboard(results, {two: "later"}).datasets == ("one", "later")
    apart = saved(tmp_path / "apart.json", *scored(20, "c", specs, "other", 9))
    with pytest.raises(DataError, match="no metric was measured of two systems on the same contexts"):
        leaderboard([read_results(saved(tmp_path / "a.json", *scored(10, "a", specs))), read_results(apart)])
    with raises(DataError, option="paired"):
        leaderboard([results[0], read_results(apart)], {one: "all", apart: "all"})


def test_another_signature_is_refused_and_named(tmp_path: Path) -> None:
    one = saved(tmp_path / "one.json", *scored(10, "a", ["distinct", "ead"]))
    two = saved(tmp_path / "two.json", *scored(10, "b", ["distinct:n=1-2,case=lower", "ead"]))
    with pytest.raises(DataError, match="distinct was not measured in the same way") as raised:
        leaderboard([read_results(one), read_results(two)])
    assert f"n:1-5, case:keep in {one}; n:1-2, case:lower in {two}" in str(raised.value)
    assert "tok:" not in str(raised.value)
    three = saved(tmp_path / "three.json", *scored(10, "b", ["distinct:n=2", "distinct"]))
    board = leaderboard([read_results(one), read_results(three)])
    assert {place.score.label for place in board.places} == {"distinct"}
    assert "distinct:n=2 is left out: only some of the systems have it" in board.notes


def test_another_version_is_a_warning_that_names_both(tmp_path: Path) -> None:
    current = f"v__{nlgauge.__version__}"
    one = saved(tmp_path / "one.json", *scored(10, "a", ["distinct"]), **{current: "v:0.0.7"})
    two = saved(tmp_path / "two.json", *scored(60, "b", ["distinct"]))
    board = leaderboard([read_results(one), read_results(two)])
    assert len(board.places) == 2
    assert f"0.0.7 ({one}), {nlgauge.__version__} ({two})" in board.notes[0]


def test_a_metric_without_an_interval_is_ranked_without_a_test(tmp_path: Path) -> None:
    spec = "distinct:over=corpus,count=hll-12"
    file = saved(tmp_path / "r.json", *scored(10, "a", [spec]), *scored(90, "b", [spec]))
    board = leaderboard([read_results(file)])
    assert ranks(board, spec, "r") == [("b", 1, None), ("a", 2, None)]
    assert "its ranks come without a test" in board.notes[0]
    assert leaderboard_sheet(board).frame["cluster"].to_list() == [None, None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a result of NLGauge, but empty;"),
        ("[1]", "is not a result of NLGauge, but a JSON list;"),
        ('{"scores": [{"name": 3}]}', "is not a result of NLGauge, but a JSON document with scores of another form;"),
        ('{"a": 1, "b": 2}', "is not a result of NLGauge, but a JSON document with a, b;"),
        ('{"id": 1}\n{"id": 2}\n', "is not a result of NLGauge, but JSON lines, such as nlgauge score reads;"),
        (json.dumps(sealed({"schema": "nlgauge.scores/1", "scores": [], "sets": {}})), "has no scores"),
        ("\x00\ud7ff", "is not a result of NLGauge, but not a JSON document;"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(DataError, match=rf"r\.json: {message}.*nlgauge score FILE"):
        read_results(tmp_path / "r.json")
    with raises(DataError, file="none.json"):
        read_results(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("schema", "message"),
    [("nlgauge.scores/2", "newer than nlgauge.scores/1"), ("nlgauge.study/1", "expected nlgauge.scores/1")],
)
def test_results_of_another_schema_are_refused(tmp_path: Path, schema: str, message: str) -> None:
    (tmp_path / "r.json").write_text(f'{{"schema": "{schema}", "scores": 3}}')
    with pytest.raises(DataError, match=message) as caught:
        read_results(tmp_path / "r.json")
    assert caught.value.file == str(tmp_path / "r.json")


def test_results_with_holes_are_refused(tmp_path: Path) -> None:
    document = results_document(scored(10, "a", ["distinct"]), values=True)

    def refused(message: str, **changes: Any) -> None:
        broken = json.loads(json.dumps(document))
        broken["scores"][0] |= changes.pop("score", {})
        broken |= changes
        helpers.write_document(tmp_path / "r.json", broken)
        with pytest.raises(DataError, match=message):
            read_results(tmp_path / "r.json")

    refused("has no values of single sets", sets=None)
    refused("has values that do not match the ids", sets={})
    refused("has values that do not match the ids", score={"values": [0.5]})
    refused(r"r\.json: distinct of 'a': 'over' in the signature", score={"signature": "distinct|over"})
    refused("has no numeric value", score={"value": None})
    refused("that is not a hash", sets={"a": {**document["sets"]["a"], "context": ["x"] * CONTEXTS}})
    refused("has values that do not match the ids", sets={"a": {**document["sets"]["a"], "context": []}})
    refused("2 values of parts and 1 sizes", score={"left_out": {"values": [1, 2], "sizes": [1]}})


def test_every_format_has_ranks_and_clusters(tmp_path: Path) -> None:
    file = saved(tmp_path / "r.json", *scored(10, "=a", ["distinct"]), *scored(90, "b_1", ["distinct"]))
    sheet = leaderboard_sheet(leaderboard([read_results(file)]))
    shown = {form: render(sheet, form) for form in FORMATS}
    assert json.loads(shown["json"])["leaderboard"][0]["system"] == "b_1"
    assert ",=a,2.0,2," in shown["csv"]
    assert ",'=a,2.0,2," in render(sheet, "csv", spreadsheet=True)
    assert r"distinct & 1 & 1 & b\_1 &" in shown["latex"]
    assert "| distinct | 2 | 2 | =a |" in shown["markdown"]
    assert all("distinct|n:1-5" in text for text in shown.values())


def test_the_command_reads_what_score_writes(examples: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> helpers.Outcome:
        return helpers.nlgauge(*arguments, cwd=tmp_path, cache=tmp_path / "cache")

    for name in "ab":
        done = run("score", str(examples / f"system_{name}.jsonl"), "-m", "distinct", "-m", "ead", "-o", f"{name}.json")
        assert (done.code, done.out) == (0, "")
    done = run("leaderboard", "talk=a.json", "talk=b.json", "-o", "board.parquet")
    assert done.code == 0, done.err
    frame = pl.read_parquet(tmp_path / "board.parquet")
    assert frame.select("dataset", "metric", "system", "rank", "cluster").rows() == [
        ("talk", "distinct", "b", 1.0, 1),
        ("talk", "distinct", "a", 2.0, 2),
        ("talk", "ead", "b", 1.0, 1),
        ("talk", "ead", "a", 2.0, 2),
    ]
    twice = run("leaderboard", "a.json", "a.json")
    assert twice.code == 2
    assert "duplicate file" in twice.err
