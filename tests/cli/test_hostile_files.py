"""Damaged and hostile files end in one line that names the file, never in a trace."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from nlgauge import score
from nlgauge.cli.run import read_plan
from nlgauge.data import ResponseSets, read, write_table
from nlgauge.data.human.forms import load_form
from nlgauge.data.logs.arrow_layout import check_layout
from nlgauge.data.sources.shards import short_name
from nlgauge.errors import DataError, NLGaugeError
from nlgauge.report.leaderboard import read_results
from nlgauge.report.results import read_result
from nlgauge.report.tables import FORMATS, render, score_sheet
from tests.errors import raises
from tests.helpers import nlgauge

DEEP = 10_000
FRAME = pl.DataFrame({"id": [f"i{place}" for place in range(50)], "text": [f"a b {place}" for place in range(50)]})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.parquet", FRAME.write_parquet),
        ("a.arrow", FRAME.write_ipc),
        ("stream.arrow", FRAME.write_ipc_stream),
    ],
)
def test_a_flipped_bit_is_read_or_named_and_no_panic_is_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, write: Callable[[Path], object]
) -> None:
    write(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    named = set()
    for seed in range(300):
        draw = random.Random(seed)
        damaged = bytearray(data)
        damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (tmp_path / name).write_bytes(damaged)
        try:
            read(str(tmp_path / name))
        except DataError as error:
            named.add(Path(error.file or "").name)
    assert named == {name}
    assert not capfd.readouterr().err


@pytest.mark.parametrize(
    ("write", "stream"), [(FRAME.write_ipc, False), (FRAME.write_ipc_stream, True)], ids=["file", "stream"]
)
@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_a_size_that_does_not_fit_is_named_before_memory_is_asked_for(
    tmp_path: Path, write: Callable[..., object], stream: bool, compression: str
) -> None:
    """Polars would end the process, without a word."""
    path = tmp_path / "a.arrow"
    write(path, compression=compression)
    data, found = path.read_bytes(), 0
    check_layout(path, stream=stream)
    for place in range(0, len(data) - 8, 8):
        path.write_bytes(data[:place] + (2**61 - 11).to_bytes(8, "little") + data[place + 8 :])
        try:
            check_layout(path, stream=stream)
        except ValueError:
            found += 1
            with raises(DataError, file=str(path)):
                read(str(path))
    assert found > 4


@pytest.mark.parametrize("value", [1e308, float("inf")])
def test_values_whose_squares_are_no_numbers_are_refused(value: float) -> None:
    sets = pl.DataFrame({"responses": [["a", "b"]] * 9, "human": [0.0] * 5 + [value] * 4})
    with raises(DataError, column="human", option="column"):
        score(sets, ["column:column=human"])


@pytest.mark.parametrize("reader", [read_results, read_result, read_plan, read])
@pytest.mark.parametrize("opened", ["[", '{"a":', '{"schema": "nlgauge.plan/1", "steps": ['])
def test_json_that_is_nested_deeply_is_named(tmp_path: Path, reader: Callable[[Path], object], opened: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(opened * DEEP)
    with raises(DataError, file="a.json"):
        reader(path)


@pytest.mark.parametrize("reader", [read_plan, lambda path: load_form(str(path))])
def test_toml_that_is_nested_deeply_is_named(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f"a = {'[' * DEEP}{']' * DEEP}")
    with raises(DataError, file="a.toml"):
        reader(path)


@pytest.mark.parametrize("files", [5, [["a"]], [None], {"a": 1}])
def test_a_plan_whose_files_are_no_names_is_refused(tmp_path: Path, files: object) -> None:
    (tmp_path / "plan.json").write_text(
        json.dumps({"schema": "nlgauge.plan/1", "steps": [{"command": "score", "files": files}]})
    )
    with raises(DataError, file="plan.json", option="files"):
        read_plan(tmp_path / "plan.json")


def test_values_of_several_kinds_in_one_column_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": [1]}\n{"text": "b", "label": {"x": 1}}\n')
    with raises(DataError, file="a.jsonl", column="label"):
        read(str(path))


@pytest.mark.skipif(sys.platform == "darwin", reason="names are UTF-8 there")
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "arrow"])
def test_names_that_are_not_utf8_are_escaped(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / os.fsdecode(b"bad\xff." + suffix.encode())
    plain = tmp_path / f"a.{suffix}"
    getattr(FRAME, {"jsonl": "write_ndjson", "arrow": "write_ipc"}.get(suffix, f"write_{suffix}"))(plain)
    plain.rename(path)
    scores = score(str(path), ["distinct:over=corpus"])
    assert scores[0].system == short_name(str(path)) == r"bad\udcff"
    for form in FORMATS:
        assert render(score_sheet(scores, []), form).encode()


@pytest.mark.skipif(sys.platform == "darwin", reason="names are UTF-8 there")
@pytest.mark.parametrize("metric", ["distinct", "distinct:over=corpus"])
def test_a_run_folder_whose_name_is_not_utf8_is_resumed(tmp_path: Path, metric: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"responses": ["a b", "a c"]}\n' * 5)
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run\xe9"))
    found = [score(str(tmp_path / "a.jsonl"), [metric], run=folder)[0].value for _ in range(2)]
    assert found == [score(str(tmp_path / "a.jsonl"), [metric])[0].value] * 2
    assert list((folder / "pieces").iterdir())


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_table_is_written_under_a_name_that_is_not_utf8(tmp_path: Path, suffix: str) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/t\xe9" + suffix.encode()))
    table = ResponseSets.of([["a b", "a c"]])
    write_table(table, path)
    assert read(str(path)).texts.to_list() == table.texts.to_list()


def test_a_result_about_a_name_that_is_not_utf8_is_read_again(tmp_path: Path) -> None:
    name, sets = os.fsdecode(b"bad\xff.jsonl"), [{"id": f"{i}", "responses": ["a b", f"c {i}"]} for i in range(8)]
    for file in (name, "a.jsonl"):
        (tmp_path / file).write_text("".join(f"{json.dumps(row)}\n" for row in sets))
    done = nlgauge("score", name, "a.jsonl", "-m", "distinct", "-o", "r.json", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 0, done.err
    assert [one.system for one in read_results(tmp_path / "r.json").scores] == [r"bad\udcff", "a"]


def test_html_in_the_name_of_a_system_is_text_in_markdown() -> None:
    names = ["<b>x|</b>\n&", "b"]
    sets = {"id": ["1", "1"], "system": names, "responses": [["a b", "c"], ["a", "b"]]}
    sheet = score_sheet(score(pl.DataFrame(sets), ["distinct"]), [])
    shown = render(sheet, "markdown")
    assert "<b>" not in shown
    assert r"&lt;b&gt;x\|&lt;/b&gt; &amp;" in shown


def test_a_long_message_is_shortened(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"x" * 100_000: 1, **{f"{'y' * 500}{i}": 1 for i in range(99)}}))
    done = nlgauge("score", "a.jsonl", "-m", "distinct", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 2
    assert len(done.err) < 5_000
    with pytest.raises(NLGaugeError):
        read(str(tmp_path / "a.jsonl"))
