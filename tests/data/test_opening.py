"""Inputs are opened once while they are kept open, at most twice by a command, and read as if they were opened anew."""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nlgauge.cli.main import app
from nlgauge.data.sources import files
from nlgauge.data.sources.chunks import first_line_of, first_record, line_chunks
from nlgauge.data.sources.files import head_of, kept_open, open_bytes, open_range
from nlgauge.errors import DataError
from nlgauge.models.language.ngram import NgramModel
from nlgauge.studies.registry import _BUILT_IN
from tests.studies.test_discrimination import write_suite
from tests.studies.test_invariance import made_pairs

_counting: list[Counter[str]] = []


def _count(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _counting and isinstance(arguments[0], str):
        _counting[-1][arguments[0]] += 1


sys.addaudithook(_count)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How often each file is opened in this block."""
    _counting.append(Counter())
    try:
        yield _counting[-1]
    finally:
        _counting.pop()


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"".join(b"line %d\n" % i for i in range(1000)))
    return path


def test_a_file_kept_open_is_opened_once(lines: Path) -> None:
    with counted() as opened, kept_open():
        for _ in range(3):
            assert b"".join(chunk.payload for chunk in line_chunks(str(lines), 100)) == lines.read_bytes()
        with open_range(str(lines), 7, 14) as stream:
            assert stream.read() == b"line 1\n"
    assert opened[str(lines)] == 1 + 3  # once here, three times by the test


def test_two_readers_of_one_file_do_not_disturb_each_other(lines: Path) -> None:
    with kept_open():
        pairs = zip(line_chunks(str(lines), 64), line_chunks(str(lines), 64), strict=True)
        assert all(one.payload == other.payload for one, other in pairs)


def test_more_files_than_are_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_KEPT_OPEN", 2)
    paths = [tmp_path / f"{i}.txt" for i in range(4)]
    for path in paths:
        path.write_text(f"{path.name}\n" * 50)
    with kept_open():
        readers = [line_chunks(str(path), 40) for path in paths]
        found = [b"".join(chunk.payload for chunk in reader) for reader in readers]
    assert found == [path.read_bytes() for path in paths]


def test_the_head_of_a_file_is_read_once_and_again_when_it_changes(lines: Path) -> None:
    with counted() as opened:
        assert head_of(str(lines)).first_line() == b"line 0\n"
        assert first_record(str(lines)) == b"line 0"
        assert first_line_of(str(lines)) == b"line 0\n"
    assert opened[str(lines)] == 1
    lines.write_text("other\n" * 3)
    assert first_record(str(lines)) == b"other"


def test_heads_of_compressed_and_damaged_files(tmp_path: Path) -> None:
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbfone\ntwo\n"))
    assert head_of(str(packed)).first_line() == b"one\n"
    packed.write_bytes(gzip.compress(b"one\ntwo\n" * 100)[:-20])
    head_of(str(packed))
    with open_bytes(str(packed)) as stream, pytest.raises(DataError):
        list(iter(stream.read, b""))


def sets_of(name: str) -> list[dict[str, object]]:
    """Sets of a system: half of them vary more, at a higher temperature."""
    words = ("sun", "rain", "wind", "snow", "fog", "hail", "storm", "frost", name)
    return [
        {
            "id": f"s{i}",
            "context": f"How is the weather on day {i}?",
            "responses": [f"{words[(i * j * (1 + i % 2)) % 9]} and {words[(i + j) % 9]}" for j in range(4)],
            "label": i % 2,
            "day": f"d{i // 4}",
            "temperature": 0.5 + i % 4 / 10,
            "human": (i * 7) % 5,
            "human_std": 1.0,
            "metric_a": i % 7,
        }
        for i in range(24)
    ]


def write_lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def systems(tmp_path: Path) -> list[Path]:
    """Two systems, each in a file, and as shards in a folder."""
    for name in ("a", "b"):
        rows = sets_of(name)
        write_lines(tmp_path / f"{name}.jsonl", rows)
        for shard in range(3):
            write_lines(tmp_path / name / f"{shard}.jsonl", rows[shard::3])
    return [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]


@pytest.mark.parametrize("metrics", [("distinct",), ("distinct", "sent-sim")], ids=["words", "model"])
@pytest.mark.parametrize("form", ["file", "pattern"])
@pytest.mark.parametrize(
    "command", [("score",), ("compare",), ("report", "-o", "card.html"), ("plan", "--seconds", "1")], ids=lambda c: c[0]
)
def test_a_command_opens_an_input_at_most_twice(
    command: tuple[str, ...],
    form: str,
    metrics: tuple[str, ...],
    systems: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))
    names = [str(path) if form == "file" else f"{path.with_suffix('')}/*.jsonl" for path in systems]
    options = [word for metric in metrics for word in ("-m", metric)]
    with counted() as opened:
        app([*command, *names, *options], standalone_mode=False)
    times = {name: count for name, count in opened.items() if name.endswith(".jsonl")}
    assert len(times) == (2 if form == "file" else 6)
    assert max(times.values()) <= 2, times


SETS = "s.jsonl"
STUDIES = {
    "content": [SETS, "--label", "label", "-m", "distinct"],
    "decoding": [SETS, "--parameter", "temperature", "-m", "distinct"],
    "ranking": [SETS, "--parameter", "temperature", "--pair-by", "day", "-m", "distinct"],
    "nuggets": [SETS, "--label", "label", "--group-size", "8"],
    "stability": [SETS, "--column", "human", "--truth", "temperature", "--repeats", "10"],
    "length-bias": ["texts.txt", "--texts-per-set", "5", "--sets", "2"],
    "huse": ["judged.jsonl", "-k", "3"],
    "tradeoff": ["judged.jsonl", "-k", "3", "--by", "system"],
    "huse-stability": ["judged.jsonl", "-k", "3", "--items", "10", "--repeats", "2"],
    "typicality": ["judged.jsonl", "--corpus", "texts.txt"],
    "correlation": [SETS, "--truth", "human", "-m", "distinct"],
    "improvement": [SETS, "--truth", "human", "-m", "distinct", "--window", "6", "--stride", "3"],
    "drift": [SETS, "--truth", "human", "--generator", "label", "-m", "distinct"],
    "discrimination": ["suite", "--column", "good"],
    "invariance": ["suite", "--column", "moody"],
    "agreement": ["ratings.csv"],
    "ruq": ["--model", "ngram:model", "--test", "pairs.jsonl"],
    "sweep": ["--model", "ngram:model", "--test", "pairs.jsonl", "--outputs", "other=texts.txt"],
}


@pytest.fixture
def study_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data for every study."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))
    write_lines(tmp_path / SETS, sets_of("s"))
    texts = [f"the {word} of day {i}{' again' * (i % 2)}" for i in range(6) for word in ("sun", "rain", "wind", "snow")]
    Path("texts.txt").write_text("\n".join(texts) + "\n")
    judged = [
        {
            "id": f"t{i}",
            "text": text,
            "judgment": i * 5 % 7,
            "logp": -1.0 - i % 6,
            "length": 5,
            "is_model": i % 2,
            "system": "ab"[i // 12],
        }
        for i, text in enumerate(texts)
    ]
    write_lines(tmp_path / "judged.jsonl", judged)
    write_lines(tmp_path / "pairs.jsonl", [{"context": f"day {i}", "text": text} for i, text in enumerate(texts)])
    ratings = [f"s{i},r{j},fluency,{(i + j) % 5}" for i in range(6) for j in range(3)]
    Path("ratings.csv").write_text("\n".join(["item,rater,question,value", *ratings]) + "\n")
    write_suite(tmp_path / "suite", invariance=made_pairs())
    NgramModel.train(texts).save(tmp_path / "model")
    return tmp_path


def test_every_study_is_tried() -> None:
    assert STUDIES.keys() == _BUILT_IN.keys()


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_opens_an_input_at_most_twice(name: str, study_files: Path) -> None:
    inputs = {path.name for path in (*study_files.iterdir(), *(study_files / "suite").iterdir())} - {"model", "suite"}
    with counted() as opened:
        app(["study", name, *STUDIES[name], "--no-progress"], standalone_mode=False)
    times = {path: count for path, count in opened.items() if Path(path).name in inputs}
    assert times
    assert max(times.values()) <= 2, times
