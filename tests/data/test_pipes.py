"""Named pipes and process substitution are read from their first byte, by whatever reads files."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nlgauge import score
from nlgauge.data import read, write_table
from nlgauge.data.columns import Reading
from nlgauge.data.dialogs import read_dialogs
from nlgauge.data.human.judgments import read_judgments
from nlgauge.data.human.ratings import read_ratings
from nlgauge.data.plain_tables import read_table
from nlgauge.data.reading import read_tables
from nlgauge.data.sources.pipes import pipes_copied
from nlgauge.engine.cache import file_with_hash
from nlgauge.errors import DataError, OptionError
from nlgauge.report.leaderboard import read_results
from tests.errors import raises
from tests.helpers import COMMAND, environment

RECORDS = 500
RATINGS = "item,rater,question,value\na,r,score,1\na,s,score,2\nb,r,score,3\nb,s,score,3\n"
JUDGED = "item,rater,value,text\na,r,1,one\na,s,2,one\nb,r,3,two\n"


def sets() -> bytes:
    """Records of 128 bytes each, so that a lost block is a whole number of them."""
    rows = []
    for place in range(RECORDS):
        row = {"id": f"{place:04}", "responses": [f"a{place} b", "c d"], "pad": ""}
        rows.append(json.dumps(row | {"pad": "x" * (127 - len(json.dumps(row)))}))
    return "".join(f"{row}\n" for row in rows).encode()


@contextmanager
def pipe(path: Path, data: bytes) -> Iterator[Path]:
    """A named pipe into which the data is written once."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,), daemon=True)
    writer.start()
    yield path
    writer.join(10)
    assert not writer.is_alive()


@pytest.mark.parametrize("name", ["p.jsonl", "p", "p.csv", "p.tsv", "p.parquet", "p.arrow", "p.jsonl.gz"])
def test_every_record_of_a_pipe_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "sets.jsonl").write_bytes(sets())
    table = read(str(tmp_path / "sets.jsonl"))
    file = tmp_path / f"file-{name}"
    if name == "p.arrow":
        table.to_polars().write_ipc(file)  # type: ignore[union-attr]
    elif name.endswith(".gz"):
        file.write_bytes(subprocess.run(["gzip", "-c"], input=sets(), capture_output=True, check=True).stdout)
    elif name == "p":
        file.write_bytes(sets())
    else:
        write_table(table, file)
    with pipe(tmp_path / name, file.read_bytes()) as path:
        found = score(str(path), ["distinct"])[0]
    assert found.n == RECORDS
    assert found.value == score(str(tmp_path / "sets.jsonl"), ["distinct"])[0].value
    assert found.system == "p"


@pytest.mark.parametrize(
    ("reader", "data"),
    [
        (read_ratings, RATINGS.encode()),
        (read_table, RATINGS.encode()),
        (read_judgments, JUDGED.encode()),
        (read_dialogs, b"Hello . __eou__ Hi . __eou__\n"),
    ],
)
def test_readers_of_other_tables_read_pipes(tmp_path: Path, reader: Callable[[str], Any], data: bytes) -> None:
    with pipe(tmp_path / "p.csv", data) as path, pipes_copied():
        assert reader(str(path)) is not None


def test_a_pipe_may_be_named_twice(tmp_path: Path) -> None:
    with pipe(tmp_path / "p.jsonl", sets()) as path, pipes_copied():
        (one, first), (other, second) = read_tables([str(path), str(path)], Reading())
    assert one == other == str(path)
    assert len(first) == len(second) == RECORDS


def test_copies_are_removed_and_a_pipe_can_be_filled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("NLGAUGE_SCRATCH", str(scratch))
    with pipe(tmp_path / "p.jsonl", sets()) as path:
        assert score(str(path), ["distinct"])[0].n == RECORDS
    assert not list(scratch.iterdir())
    path.unlink()
    with pipe(path, b'{"responses": ["a b"]}\n'):
        assert score(str(path), ["distinct"])[0].n == 1


def test_errors_name_the_pipe(tmp_path: Path) -> None:
    with pipe(tmp_path / "p.jsonl", sets() + b"{\n") as path, raises(DataError, file="p.jsonl", line=RECORDS + 1):
        score(str(path), ["distinct"])
    with pipe(tmp_path / "e.jsonl", b"") as path, raises(DataError, file="e.jsonl"):
        score(str(path), ["distinct"])
    with pipe(tmp_path / "r.json", b"[]") as path, pipes_copied(), pytest.raises(DataError):
        read_results(path)


def test_a_pipe_that_a_signature_would_name_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.txt")
    with pytest.raises(OptionError, match="is a pipe"):
        file_with_hash(str(tmp_path / "p.txt"), "references")


def test_a_pipe_without_a_writer_says_that_it_waits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.jsonl"
    os.mkfifo(path)
    writer = threading.Timer(2.5, path.write_bytes, [sets()])
    writer.start()
    assert score(str(path), ["distinct"])[0].n == RECORDS
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "p.jsonl" in lines[0]


def test_process_substitution_gives_every_set(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(sets())
    pl.read_ndjson(tmp_path / "a.jsonl").write_parquet(tmp_path / "a.parquet")
    words = " ".join(COMMAND)
    done = subprocess.run(
        ["bash", "-c", f"{words} score <(cat a.jsonl) <(cat a.parquet) -m distinct --format json --no-progress"],
        cwd=tmp_path,
        env=environment(tmp_path / "cache"),
        capture_output=True,
        check=True,
    )
    assert [one["n"] for one in json.loads(done.stdout)["scores"]] == [RECORDS, RECORDS]


def test_a_run_of_a_pipe_is_resumed_with_the_same_content_only(tmp_path: Path) -> None:
    data, folder = sets(), tmp_path / "run"
    for _ in range(2):
        with pipe(tmp_path / "p.jsonl", data) as path:
            assert score(str(path), ["distinct"], run=folder)[0].n == RECORDS
        path.unlink()
    assert "nlgauge-pipe-" not in (folder / "manifest.json").read_text()
    with pipe(tmp_path / "p.jsonl", data[:-128]) as path, pytest.raises(OptionError, match="holds another run: files"):
        score(str(path), ["distinct"], run=folder)
