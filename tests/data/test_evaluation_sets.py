"""Sets of responses of every system to the same queries, from outputs of systems to units of the site."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nlgauge.annotate.units import make_units
from nlgauge.data import ResponseSets, read_sets
from nlgauge.data.human.evaluation_sets import evaluation_sets
from nlgauge.data.human.forms import load_form
from nlgauge.errors import DataError
from tests.helpers import nlgauge

QUERIES = [f"query {number}" for number in range(40)]


def outputs(system: int, queries: list[str], each: int = 1) -> ResponseSets:
    return ResponseSets.of(
        [[f"{system} to {query}, {one}" for one in range(each)] for query in queries], contexts=queries
    )


def queries_of(responses: list[str]) -> list[str]:
    return [text.partition(" to ")[2].partition(",")[0] for text in responses]


def test_every_system_answers_the_same_queries_and_the_form_takes_the_sets_as_they_are() -> None:
    systems = {f"system {number}": outputs(number, QUERIES, each=1 + number % 3) for number in range(10)}
    found = evaluation_sets(systems, subsets=100, responses=15, seed=1)
    frame = found.to_polars()
    assert (len(frame), frame["id"].n_unique()) == (1000, 1000)
    for _, subset in frame.group_by("context"):
        asked = [queries_of(responses) for responses in subset["responses"]]
        assert len(asked) == 10
        assert all(one == asked[0] for one in asked)
        assert len(set(asked[0])) == 15
    units = make_units(load_form("set-diversity"), found, seed=1)
    assert len(units) == 100
    for unit in units:
        assert len({item.system for item in unit.items}) == len(unit.items) == 10
        assert len({tuple(queries_of(list(item.texts))) for item in unit.items}) == 1
    used = {query for responses in frame["responses"] for query in queries_of(responses)}
    assert used == set(QUERIES)


def test_neither_the_order_of_rows_nor_that_of_systems_matters_and_a_seed_does() -> None:
    systems = {name: outputs(number, QUERIES, 3) for number, name in enumerate("ab")}
    turned = {name: outputs(number, QUERIES[::-1], 3) for number, name in reversed(list(enumerate("ab")))}
    one, other = (
        evaluation_sets(given, subsets=5, responses=8, seed=3).to_polars().sort("id") for given in (systems, turned)
    )
    assert one.equals(other.select(one.columns))
    assert not evaluation_sets(systems, subsets=5, responses=8, seed=4).to_polars().sort("id").equals(one)


def test_only_queries_that_all_systems_answer_are_drawn() -> None:
    systems = {"a": outputs(1, QUERIES[:30]), "b": outputs(2, QUERIES[10:])}
    found = evaluation_sets(systems, subsets=20, responses=15, seed=1)
    asked = {query for responses in found.to_polars()["responses"] for query in queries_of(responses)}
    assert asked <= set(QUERIES[10:30])
    with pytest.raises(DataError, match="20 queries that all systems answer, of 'a' 30, 'b' 30; expected at least 21"):
        evaluation_sets(systems, subsets=1, responses=21, seed=1)


def test_the_command_writes_what_annotate_new_reads(tmp_path: Path) -> None:
    for number in range(3):
        rows = [{"context": query, "text": f"{number} to {query}"} for query in QUERIES]
        (tmp_path / f"m{number}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = [f"m{number}.jsonl" for number in range(3)]
    done = nlgauge("data", "sample-sets", *files, "-o", "sets.csv", "--subsets", "4", cwd=tmp_path, cache=tmp_path)
    assert done.code == 0, done.err
    assert "12 sets of 15 responses, 3 systems on 4 subsets" in done.err
    assert "--form set-diversity --data sets.csv --per-unit 3" in done.err
    assert sorted(set(read_sets(str(tmp_path / "sets.csv")).frame["system"])) == ["m0", "m1", "m2"]
    made = nlgauge(
        "annotate",
        "new",
        "ead",
        "--form",
        "set-diversity",
        "--data",
        "sets.csv",
        "--per-unit",
        "3",
        cwd=tmp_path,
        cache=tmp_path,
    )
    assert (made.code, made.out.partition("\n")[0]) == (
        0, "study 'ead': 4 units, 3 ratings each; next: nlgauge annotate serve",
    )  # fmt: skip
