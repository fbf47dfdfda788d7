"""What NLGauge writes it reads back, text by text, in every format, and the score is the same to the last bit.

With EXAMPLES=200 in the environment each test tries more than 10,000 texts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlgauge import score
from nlgauge.data import Items, Ratings, ResponseSets, read, write_table
from nlgauge.data.human.ratings import read_ratings

FORMULAS = ("- a", "-", "=1+1", "= a", "+5x", "+", "@x", "' a", "'=a", "''=a", "'", "\t=a", "\r@", "-5", "1e3", "'-5")
TEXT = st.one_of(
    st.sampled_from(FORMULAS),
    st.builds(
        str.__add__, st.sampled_from("=+-@'\"\t\r"), st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.text(st.sampled_from("\n\r\"',;\t\0\x0b\x1c\x1f\x7f\x85\u2028\ufeff=+-@ a|\\"), max_size=12),
)
FORMATS: dict[str, Callable[[ResponseSets | Items, Path], Any]] = {
    "jsonl": write_table,
    "csv": write_table,
    "tsv": write_table,
    "parquet": write_table,
    "arrow": lambda table, path: _frame(table).write_ipc(path),
    "arrows": lambda table, path: _frame(table).write_ipc_stream(path),
}
METRICS = ("distinct", "cos-sim", "compression:over=corpus", "distinct:over=corpus")
EXAMPLES = int(os.environ.get("EXAMPLES", "3"))
MANY = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def _frame(table: ResponseSets | Items) -> pl.DataFrame:
    return table.to_polars() if isinstance(table, ResponseSets) else table.frame


def _values(path: Path) -> list[float]:
    return [one.value for one in score(str(path), METRICS, empty_cells="keep")]


@MANY
@given(texts=st.lists(TEXT, min_size=40, max_size=120))
def test_texts_come_back_from_every_format_and_score_the_same(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    whole = [*texts, *FORMULAS, "a word"]
    rows = [[one, two, "x"] for one, two in zip(whole, reversed(whole), strict=True)]
    sets = ResponseSets.of(rows, contexts=whole, ids=[f"{text}{place}" for place, text in enumerate(whole)])
    values = []
    for format, write in FORMATS.items():
        path = folder / f"sets.{format}"
        write(sets, path)
        table = read(str(path), empty_cells="keep")
        assert isinstance(table, ResponseSets)
        assert table.texts.to_list() == sets.texts.to_list(), format
        for column in ("id", "context"):
            assert table.frame[column].to_list() == sets.frame[column].to_list(), format
        values.append(_values(path))
    assert values[1:] == values[:1] * (len(FORMATS) - 1)


@MANY
@given(texts=st.lists(TEXT, min_size=40, max_size=120))
def test_single_texts_come_back_from_every_format(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("items")
    whole = [*texts, *FORMULAS]
    items = Items.of(
        whole, ids=[f"{text}{place}" for place, text in enumerate(whole)], references=[[f"{t}."] for t in whole]
    )
    for format, write in FORMATS.items():
        path = folder / f"items.{format}"
        write(items, path)
        table = read(str(path))
        assert isinstance(table, Items)
        assert table.frame.select(items.frame.columns).equals(items.frame), format


@MANY
@given(texts=st.lists(TEXT.filter(str.strip), min_size=40, max_size=120, unique=True))
def test_ratings_come_back_with_any_ids(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("ratings")
    whole = list(dict.fromkeys([*texts, *FORMULAS]))
    frame = pl.DataFrame(
        {"item": whole, "rater": whole[::-1], "question": "q", "value": [place / 7 for place in range(len(whole))]}
    )
    for suffix in (".csv", ".tsv", ".jsonl", ".parquet"):
        write_table(Ratings(frame), folder / f"r{suffix}")
        assert read_ratings(folder / f"r{suffix}").frame.equals(frame), suffix


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_equal_words_count_once_wherever_they_stand(tmp_path: Path, suffix: str) -> None:
    """With an apostrophe before the first, `=` and `'=` would be two words."""
    write_table(ResponseSets.of([["= a", "b ="]]), tmp_path / f"a{suffix}")
    assert score(str(tmp_path / f"a{suffix}"), ["distinct:n=1"])[0].value == 0.75


@pytest.mark.parametrize("text", ["'=a", "'-5", "'", "''@"])
def test_an_apostrophe_of_somebody_elses_csv_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(f"id,text\n1,{text}\n")
    assert read(str(tmp_path / "a.csv")).texts.to_list() == [text]
