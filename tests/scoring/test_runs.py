"""Runs as a level of their own: a column names them, on whichever way values come to an interval or a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import nlgauge
from nlgauge.data.reading import Source
from nlgauge.data.tables import ResponseSets
from nlgauge.errors import DataError
from nlgauge.metrics.column import ColumnMetric
from nlgauge.metrics.score import Score
from nlgauge.report.leaderboard import leaderboard, read_results
from nlgauge.stats.units import find_units
from tests.errors import raises
from tests.helpers import nlgauge as command

CONTEXTS, RUNS, RESPONSES = 60, 4, 5
Row = dict[str, Any]


def rows(seed: int = 1, *, contexts: int = CONTEXTS, system: str = "") -> list[Row]:
    """Sets of every run on every context, whose words vary with the context, with the run and by chance."""
    rng = np.random.default_rng(seed)
    of_contexts, of_runs = rng.integers(10, 60, contexts), rng.integers(0, 40, RUNS)
    made = []
    for context in range(contexts):
        for run in range(RUNS):
            words = rng.integers(0, of_contexts[context] + of_runs[run], (RESPONSES, 60))
            texts = [" ".join(f"word{word}" for word in text) for text in words]
            made.append({"context": f"context {context}", "seed": run, "responses": texts})
    return [{**row, "system": system} for row in made] if system else made


def write(path: Path, made: list[Row]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return str(path)


def same(found: Score, expected: Score) -> bool:
    assert found.items is not None
    assert expected.items is not None
    keys = ["context_hash", "run", "value"]
    return (
        found.ci == expected.ci
        and str(found.signature) == str(expected.signature)
        and found.items.to_polars().select(keys).sort(keys).equals(expected.items.to_polars().select(keys).sort(keys))
    )


class TestReading:
    def test_runs_reach_an_interval_on_every_way(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of rows in memory, of files whole and in pieces, by workers, from the cache, and continued runs."""
        made = rows()
        path = write(tmp_path / "a.jsonl", made)
        frame = pl.DataFrame(made)
        frame.write_parquet(tmp_path / "a.parquet")
        wide = frame.with_columns(
            pl.col("responses").list.to_struct(fields=[f"resp_{i}" for i in range(RESPONSES)])
        ).unnest("responses")
        wide.write_csv(tmp_path / "a.csv")
        sets = ResponseSets.of(
            [row["responses"] for row in made],
            contexts=[row["context"] for row in made],
            runs=[row["seed"] for row in made],
        )
        (expected,) = nlgauge.score(sets, ["distinct"], confidence=True)
        assert expected.signature.facts["unit"] == "context-x-run"
        usual: dict[str, Any] = {"confidence": True, "runs": "seed"}
        pieces = {"part_mb": 0.05, "chunk_mb": 0.02}
        ways: list[tuple[Any, dict[str, Any]]] = [
            (made, usual),
            (frame, usual),
            (frame.rename({"seed": "run"}), {"confidence": True}),
            (path, {**usual, "cache": False}),
            (str(tmp_path / "a.csv"), usual),
            (str(tmp_path / "a.parquet"), usual),
            (Source(path=path, reading=nlgauge.Reading(runs="seed")), {"confidence": True}),
            (path, {**usual, **pieces, "run": tmp_path / "kept", "workers": 2}),
            (path, {**usual, **pieces, "run": tmp_path / "kept", "workers": 2}),
            (path, usual),
        ]
        for data, options in ways:
            (found,) = nlgauge.score(data, ["distinct"], **options)
            assert same(found, expected), options
        monkeypatch.setattr(Source, "parse", lambda *_: pytest.fail("read again"))
        (cached,) = nlgauge.score(path, ["distinct"], **usual)
        assert same(cached, expected)

    @pytest.mark.parametrize("missing", [None, "", " "])
    def test_a_missing_run_names_its_place(self, tmp_path: Path, missing: str | None) -> None:
        made = rows(contexts=3)
        made[4]["seed"] = missing
        path = write(tmp_path / "a.jsonl", made)
        with raises(DataError, file=path, line=5, column="seed"):
            nlgauge.score(path, ["distinct"], runs="seed")

    def test_a_missing_run_of_a_frame_names_its_row(self) -> None:
        made = pl.DataFrame(rows(contexts=3)).with_columns(seed=pl.Series([0.5, float("nan"), *range(10)]))
        with raises(DataError, column="seed") as caught:
            nlgauge.score(made, ["distinct"], runs="seed")
        assert "row 1" in caught.value.message

    def test_one_run_is_no_level(self) -> None:
        made = [{**row, "seed": "only"} for row in rows(contexts=9)]
        (found,) = nlgauge.score(made, ["distinct"], confidence=True, runs="seed")
        assert found.signature.facts["unit"] == "context"
        with raises(DataError, option="unit"):
            nlgauge.score(made, ["distinct"], confidence=True, runs="seed", unit="run")

    def test_systems_in_a_column_have_their_own_runs(self) -> None:
        made = [*rows(1, system="a"), *rows(2, system="b")]
        one, two = nlgauge.score(made, ["distinct"], confidence=True, runs="seed")
        (alone,) = nlgauge.score(rows(2), ["distinct"], confidence=True, runs="seed")
        assert same(two, alone)
        assert nlgauge.compare(one, two).unit == "context-x-run"


@pytest.mark.parametrize(
    ("contexts", "runs", "unit", "units"),
    [
        ([0, 0, 1, 1], [0, 1, 0, 1], "context-x-run", 2),
        ([0, 1, 2, 3], [0, 0, 1, 1], "run", 2),
        ([0, 0, 1, 1], [0, 1, 2, 3], "context", 2),
        ([0, 1, 2, 3], [0, 1, 2, 3], "context", 4),
    ],
)
def test_runs_are_crossed_only_where_contexts_recur(
    contexts: list[int], runs: list[int], unit: str, units: int
) -> None:
    """Counting contexts and the runs that they alone make up (or the reverse) would count one spread twice."""
    found = find_units(np.array(contexts), np.array(runs), "auto")
    assert found.name == unit
    assert found.of is not None
    assert len(set(found.of)) == units


def test_saved_runs_are_used_by_the_leaderboard(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.jsonl", rows(seed)) for seed, name in enumerate("ab")]
    place: dict[str, Any] = {"cwd": tmp_path, "cache": tmp_path / "cache"}
    compared = command("compare", *files, "-m", "distinct", "--runs", "seed", "--format", "json", **place)
    saved = command("score", *files, "-m", "distinct", "--runs", "seed", "-o", "results.json", **place)
    assert (compared.code, saved.code) == (0, 0), compared.err + saved.err
    results = read_results(tmp_path / "results.json")
    known = nlgauge.score(files, ["distinct"], confidence=True, runs="seed")
    assert all(same(one, other) for one, other in zip(results.scores, known, strict=True))
    one, two = results.scores
    again, before = nlgauge.compare(one, two), json.loads(compared.out)["comparisons"][0]
    assert (again.p, again.unit) == (before["p"], "context-x-run")
    assert leaderboard([results]).places


def test_what_to_add_next_is_said_where_runs_are_known(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.jsonl", rows(seed)) for seed, name in enumerate("ab", 1)]
    place: dict[str, Any] = {"cwd": tmp_path, "cache": tmp_path / "cache"}
    alone = command("score", files[0], "-m", "distinct", "--runs", "seed", "--confidence", **place)
    compared = command("compare", *files, "-m", "distinct", "--runs", "seed", **place)
    written = command("compare", *files, "-m", "distinct", "--runs", "seed", "--format", "json", **place)
    for shown in (alone, compared):
        assert "add runs next" in shown.out, shown.err
    (found,) = json.loads(written.out)["comparisons"]
    assert found["error_parts"]["add"] == "runs"
    assert found["error_parts"]["error"] == pytest.approx(found["error"], rel=0.05)
    assert "next" not in command("compare", *files, "-m", "distinct", "--runs", "", **place).out


def test_sets_without_a_context_are_units_of_their_own(tmp_path: Path) -> None:
    made = [{**row, "context": row["context"] if place % 3 else ""} for place, row in enumerate(rows()[::RUNS])]
    (found,) = nlgauge.score(write(tmp_path / "a.jsonl", made), ["distinct"])
    assert found.items is not None
    contexts = found.items.contexts()
    assert contexts is not None
    assert len(np.unique(contexts)) == len(made)


def test_one_context_is_said_or_refused_as_a_unit(tmp_path: Path) -> None:
    made = [{**row, "context": "the only one"} for row in rows()[::RUNS]]
    place: dict[str, Any] = {"cwd": tmp_path, "cache": tmp_path / "cache"}
    write(tmp_path / "a.jsonl", made)
    done = command("score", "a.jsonl", "-m", "distinct", "--confidence", **place)
    assert "all 60 sets of 'a' have one context" in done.err
    with raises(DataError, option="unit"):
        nlgauge.score(str(tmp_path / "a.jsonl"), ["distinct"], confidence=True, unit="context")


def test_an_infinite_value_of_a_column_is_refused() -> None:
    frame = pl.DataFrame({"id": ["1", "2", "3"], "text": ["a", "b", "c"], "rated": [1.0, float("inf"), 2.0]})
    with raises(DataError, column="rated", option="column"):
        nlgauge.score(frame, [ColumnMetric(column="rated")])
