"""Every study takes what `score` takes, and finds the same in it: files, frames, records and tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import polars as pl
import pytest

import nlgauge
from nlgauge.cli.main import app
from nlgauge.data.frames import polars_frame
from nlgauge.data.tables import Ratings
from nlgauge.errors import DataError
from nlgauge.studies.base import Study
from tests.errors import raises

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "seven",
    "grey",
    "cats",
    "sleep",
    "near",
    "old",
    "warm",
    "stones",
]
Rows = list[dict[str, Any]]
SETS: Rows = [
    {
        "id": f"s{i}",
        "context": f"context {i}",
        "responses": [" ".join(WORDS[(i * k + j) % len(WORDS)] for j in range(6)) for k in range(1, 4)],
        "label": i % 2,
        "temperature": 0.1 * (i + 1),
        "human": float((i * 7) % 5),
        "human_std": 1.0,
        "other": float((i * 3) % 4),
        "generator": "ab"[i % 2],
    }
    for i in range(12)
]
TEXTS: Rows = [
    {
        "id": f"t{i}",
        "context": f"context {i % 6}",
        "text": " ".join(WORDS[(i + j) % len(WORDS)] for j in range(5 + i % 2)),
        "judgment": float((i * 5) % 7),
        "logp": -10.0 - i,
        "is_model": i % 2 == 0,
        "generator": "ab"[i // 2 % 2],
    }
    for i in range(24)
]
RATINGS: Rows = [
    {"item": f"i{i}", "rater": f"r{r}", "question": "q", "value": float((i + r * (i % 3)) % 5)}
    for i in range(8)
    for r in range(3)
]
SUITE: Rows = [
    {
        "id": f"p{i}",
        "aspect": "order",
        "story": f"s{i // 2}",
        "label": i % 2,
        "text": " ".join(WORDS[: 4 + i]),
        "words": 4.0 + i,
    }
    for i in range(8)
]
PAIRS: Rows = [{**row, "source": "human", "pair": row["story"]} for row in SUITE]
CASES: dict[str, tuple[Study, Rows, Callable[..., Any] | None]] = {
    "content": (nlgauge.ContentTest(metrics=["distinct"]), SETS, nlgauge.read),
    "decoding": (nlgauge.DecodingTest(metrics=["distinct"]), SETS, nlgauge.read),
    "ranking": (nlgauge.RankingTest(metrics=["distinct"]), SETS, nlgauge.read),
    "stability": (nlgauge.Stability(column="human", truth="temperature", repeats=10), SETS, nlgauge.read),
    "length-bias": (nlgauge.LengthBias(texts_per_set=2, sets=3, lengths=(5, 6)), TEXTS, nlgauge.read),
    "correlation": (nlgauge.CorrelationStudy(metrics=["distinct"], truth="human"), SETS, nlgauge.read),
    "improvement": (
        nlgauge.ImprovementStudy(columns=["other", "temperature"], truth="human", window=4, stride=2),
        SETS,
        nlgauge.read,
    ),
    "drift": (nlgauge.Drift(metrics=["distinct"], truth="human", generator="generator"), SETS, nlgauge.read),
    "huse": (nlgauge.Huse(), TEXTS, nlgauge.read),
    "tradeoff": (nlgauge.Tradeoff(by="generator", k=5), TEXTS, nlgauge.read),
    "typicality": (nlgauge.Typicality(corpus=[row["text"] for row in TEXTS]), TEXTS, nlgauge.read),
    "entropy-filter": (nlgauge.EntropyFilter(), TEXTS, nlgauge.read),
    "agreement": (nlgauge.AgreementStudy(), RATINGS, lambda rows: Ratings(polars_frame(rows))),
    "discrimination": (nlgauge.DiscriminationTest(columns=["words"]), SUITE, None),
    "invariance": (nlgauge.InvarianceTest(columns=["words"]), PAIRS, None),
}


def found(study: Study, data: Any) -> list[dict[str, Any]]:
    """The rows without the names that only files have."""
    return [
        {key: value for key, value in row.items() if key not in ("task", "system", "corpus", "group")}
        for row in study.run(data).rows
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_study_takes_files_frames_records_and_tables(tmp_path: Path, name: str) -> None:
    study, rows, table = CASES[name]
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = found(study, path)
    assert expected
    given = [str(path), [path], pl.DataFrame(rows), pandas.DataFrame(rows), rows]
    for data in [*given, *([table(rows)] if table else [])]:
        assert found(study, data) == expected, type(data)


def test_score_takes_records() -> None:
    sets = [row["responses"] for row in SETS]
    scored = nlgauge.score(SETS, "distinct")
    assert [one.value for one in scored] == [one.value for one in nlgauge.score(sets, "distinct")]


@pytest.mark.parametrize(
    "words",
    [
        "content -m distinct --by label",
        "content -m distinct --label label --high x",
        "decoding -m distinct --parameter n --by label",
        "correlation -m distinct --truth n --by label",
        "ranking -m distinct --parameter n --pair-by label",
        "length -m distinct --by label",
        "huse --is-model label --judgment n --logp n",
    ],
)
def test_lists_in_the_place_of_names_are_named(tmp_path: Path, words: str) -> None:
    rows = [{"id": f"{i}", "responses": ["a b", f"c {i}"], "label": ["x"], "n": i} for i in range(12)]
    (tmp_path / "sets.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with raises(DataError, column="label") as caught:
        app(["study", words.split()[0], str(tmp_path / "sets.jsonl"), *words.split()[1:]], standalone_mode=False)
    assert "sets" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "column"),
    [
        ("content {} -m distinct", "label"),
        ("content {} -m distinct --label part --by part", "part"),
        ("decoding {} {} -m distinct --tasks a,b --parameter part", "part"),
        ("ranking {} -m distinct --parameter part", "part"),
        ("huse {}", None),
    ],
)
def test_errors_about_a_task_name_its_file(tmp_path: Path, words: str, column: str | None) -> None:
    rows = [{"id": f"{i}", "responses": ["a b", f"c {i}"], "part": "u"} for i in range(6)]
    path = tmp_path / "one.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "two.jsonl").write_text(path.read_text())
    first, *others = words.split("{}")
    given = (
        first.split() + [str(path)] + ([str(tmp_path / "two.jsonl")] if len(others) > 1 else []) + others[-1].split()
    )
    with raises(DataError, file=str(path), column=column):
        app(["study", *given], standalone_mode=False)
