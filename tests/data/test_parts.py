"""Files cut into parts give what reading them whole gives: records, ids and the places in messages."""

from __future__ import annotations

import csv
import io
import json
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlgauge.data import Items, ResponseSets, Source, read
from nlgauge.data.columns import Reading
from nlgauge.data.reading import Table, with_numbers
from nlgauge.data.sources.parts import Part, parts_of
from nlgauge.data.sources.shards import short_name
from nlgauge.errors import DataError, OptionError
from tests.data.test_logs import LOGS
from tests.errors import raises
from tests.helpers import packed

ANY_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
TEXTS = st.text(st.sampled_from("abä😀 \u2028\ufeff\x1f\x8b,'\t"), max_size=12)
PACKINGS = st.sampled_from(["", "", "", ".gz", ".zst"])
SIZES = st.integers(1, 200)


def tables_of(parts: Iterable[Part], chunk_bytes: int) -> list[Table]:
    tables = (part.source.parse(chunk) for part in parts for chunk in part.chunks(chunk_bytes))
    return [table for table in tables if table is not None]


def joined(parts: list[Part], chunk_bytes: int = 64) -> Table:
    tables = tables_of(parts, chunk_bytes)
    if isinstance(tables[0], ResponseSets):
        return ResponseSets.concat([table for table in tables if isinstance(table, ResponseSets)])
    return Items.concat([table for table in tables if isinstance(table, Items)])


def as_rows(table: Table) -> list[dict[str, Any]]:
    frame = table.to_polars() if isinstance(table, ResponseSets) else table.frame
    return with_numbers(frame).to_dicts()


def saved(folder: Path, name: str, data: bytes, packing: str = "") -> str:
    path = folder / f"{name}{packing}"
    path.write_bytes(packed(data, packing))
    return str(path)


def check(source: Source, part_bytes: int, chunk_bytes: int) -> list[Part]:
    """Parts in order, and their halves down to single records, give what the file gives."""
    parts = parts_of([source], part_bytes)
    whole = as_rows(source.read())
    assert [part.index for part in parts] == list(range(len(parts)))
    assert as_rows(joined(parts, chunk_bytes)) == whole
    singles = [single for part in parts for single in halved(part)]
    assert as_rows(joined(singles, chunk_bytes)) == whole
    assert all(sum(map(len, tables_of([single], chunk_bytes))) <= 1 for single in singles)
    return parts


def halved(part: Part) -> list[Part]:
    halves = part.halves()
    return [part] if halves is None else [*halved(halves[0]), *halved(halves[1])]


class TestParts:
    @ANY_FOLDER
    @given(
        texts=st.lists(TEXTS, min_size=1, max_size=12),
        end=st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"]),
        last=st.booleans(),
        mark=st.booleans(),
        packing=PACKINGS,
        part_bytes=SIZES,
        chunk_bytes=SIZES,
    )
    def test_json_lines(
        self, tmp_path: Path, texts: list[str], end: str, last: bool, mark: bool, packing: str, part_bytes: int,
        chunk_bytes: int,
    ) -> None:  # fmt: skip
        lines = end.join(json.dumps({"text": text, "n": n}, ensure_ascii=False) for n, text in enumerate(texts))
        data = ("\ufeff" * mark + lines + end * last).encode()
        check(Source(path=saved(tmp_path, "a.jsonl", data, packing)), part_bytes, chunk_bytes)

    @ANY_FOLDER
    @given(
        texts=st.lists(TEXTS, min_size=1, max_size=12),
        set_size=st.integers(0, 3),
        end=st.sampled_from(["\n", "\r\n"]),
        last=st.booleans(),
        mark=st.booleans(),
        packing=PACKINGS,
        part_bytes=SIZES,
        chunk_bytes=SIZES,
    )
    def test_plain_text(
        self, tmp_path: Path, texts: list[str], set_size: int, end: str, last: bool, mark: bool, packing: str,
        part_bytes: int, chunk_bytes: int,
    ) -> None:  # fmt: skip
        lines = [*texts, "end"] * (set_size or 1)
        data = ("\ufeff" * mark + end.join(lines) + end * last).encode()
        source = Source(path=saved(tmp_path, "a.txt", data, packing), reading=Reading(set_size=set_size))
        check(source, part_bytes, chunk_bytes)

    @ANY_FOLDER
    @given(
        texts=st.lists(TEXTS, min_size=1, max_size=12),
        quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
        end=st.sampled_from(["\n", "\r\n", "\n\n"]),
        mark=st.booleans(),
        packing=PACKINGS,
        part_bytes=SIZES,
        chunk_bytes=SIZES,
    )
    def test_csv(
        self, tmp_path: Path, texts: list[str], quoting: Any, end: str, mark: bool, packing: str, part_bytes: int,
        chunk_bytes: int,
    ) -> None:  # fmt: skip
        out = io.StringIO()
        writer = csv.writer(out, lineterminator=end, quoting=quoting)
        writer.writerows([["text", "n"], *([text + "\n" * (quoting == csv.QUOTE_ALL), 1] for text in texts)])
        data = ("\ufeff" * mark + out.getvalue()).encode()
        parts = check(Source(path=saved(tmp_path, "a.csv", data, packing)), part_bytes, chunk_bytes)
        assert quoting == csv.QUOTE_MINIMAL or len(parts) == 1

    @ANY_FOLDER
    @given(rows=st.integers(1, 30), part_bytes=st.sampled_from([1, 300, 1 << 20]), chunk_bytes=SIZES)
    def test_parquet(self, tmp_path: Path, rows: int, part_bytes: int, chunk_bytes: int) -> None:
        path = tmp_path / "a.parquet"
        pl.DataFrame({"responses": [[f"text {i}", "x"] for i in range(rows)]}).write_parquet(path)
        parts = check(Source(path=str(path)), part_bytes, chunk_bytes)
        assert len(parts) == {1: rows, 1 << 20: 1}.get(part_bytes, len(parts))

    @pytest.mark.parametrize("set_size", [0, 2])
    def test_files_with_companions_stay_whole(self, tmp_path: Path, set_size: int) -> None:
        text = saved(tmp_path, "a.txt", b"".join(b"text %d\n" % i for i in range(12)))
        contexts = saved(tmp_path, "c.txt", b"".join(b"context %d\n" % i for i in range(12 // (set_size or 1))))
        source = Source(path=text, reading=Reading(set_size=set_size, aligned={"context": contexts}))
        assert len(check(source, 10, 10)) == 1

    @pytest.mark.parametrize("log", ["batch_output.jsonl", "lm_eval/*/samples_*.jsonl", "*.eval"])
    def test_logs_of_other_tools_stay_whole(self, log: str) -> None:
        for path in LOGS.glob(log):
            assert len(check(Source(path=str(path)), 100, 100)) == 1

    def test_a_giant_file_is_cut_and_tiny_ones_are_not(self, tmp_path: Path) -> None:
        giant = saved(tmp_path, "giant.txt", b"".join(b"%06d\n" % i for i in range(10_000)))
        tiny = [saved(tmp_path, f"{i}.txt", b"one\ntwo\n") for i in range(3)]
        parts = parts_of([Source(path=path) for path in [tiny[0], giant, *tiny[1:]]], 7_000)
        assert [part.system for part in parts] == [0, *[1] * 10, 2, 3]
        assert all(part.stop - part.start <= 7_007 for part in parts)
        assert [part.first_line for part in parts if part.system == 1] == [
            1 + part.start // 7 for part in parts if part.system == 1
        ]

    def test_line_ends_are_counted_through_the_map_that_is_given(self, tmp_path: Path) -> None:
        path, calls = saved(tmp_path, "a.txt", b"line\n" * 1000), []

        def counting_map(function: Any, values: Iterable[Any]) -> list[Any]:
            calls.append(len(listed := list(values)))
            return [function(value) for value in listed]

        assert len(parts_of([Source(path=path)], 500, counting_map)) == 10
        assert calls == [1, 10]

    def test_a_size_that_is_none_is_refused(self) -> None:
        with pytest.raises(OptionError, match="parts of 0 bytes"):
            parts_of([], 0)

    def test_a_bad_record_is_told_by_its_place_in_the_file(self, tmp_path: Path) -> None:
        lines = [b'{"text": "good %d"}\n' % i for i in range(1000)]
        lines[876] = b'{"text": bad}\n'
        parts = parts_of([Source(path=saved(tmp_path, "a.jsonl", b"".join(lines)))], 1000)
        assert len(parts) > 10
        with raises(DataError, file="a.jsonl", line=877):
            tables_of(parts, 300)


class TestChanges:
    @pytest.fixture
    def part(self, tmp_path: Path) -> Part:
        return parts_of([Source(path=saved(tmp_path, "a.txt", b"some words\n" * 100))], 300)[-1]

    def test_an_unchanged_file_passes(self, part: Part) -> None:
        part.check_unchanged()

    def test_a_file_that_is_gone(self, part: Part) -> None:
        Path(part.source.path).unlink()
        with raises(DataError, file="a.txt"):
            part.check_unchanged()
        with raises(DataError, file="a.txt"):
            list(part.chunks())

    def test_a_file_that_was_cut_short(self, part: Part) -> None:
        with Path(part.source.path).open("r+b") as file:
            file.truncate(1050)
        with raises(DataError, file="a.txt"):
            part.check_unchanged()
        with raises(DataError, file="a.txt"):
            list(part.chunks())

    def test_a_file_that_was_written_anew(self, part: Part) -> None:
        path = Path(part.source.path)
        path.write_bytes(b"other word\n" * 100)
        os.utime(path, ns=(1, 1))
        with raises(DataError, file="a.txt"):
            part.check_unchanged()

    def test_a_parquet_file_with_fewer_rows(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        pl.DataFrame({"text": ["a", "b", "c"]}).write_parquet(path)
        part = parts_of([Source(path=str(path))], 1)[-1]
        pl.DataFrame({"text": ["a", "b"]}).write_parquet(path)
        with raises(DataError, file="a.parquet"):
            list(part.chunks())


class TestShards:
    """A pattern, a range or a folder is one system."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        texts = [f"text {i}" for i in range(30)]
        for shard in range(3):
            lines = "".join(f"{text}\n" for text in texts[10 * shard : 10 * shard + 10])
            saved(tmp_path, f"part-{shard:02}.txt", lines.encode(), ".gz" if shard == 1 else "")
        return tmp_path

    @pytest.mark.parametrize("pattern", ["*.txt*", "", "part-??.txt*", "**/part-*"])
    def test_files_are_read_in_order_and_ids_do_not_collide(self, folder: Path, pattern: str) -> None:
        source = Source(path=str(folder / pattern), reading=Reading(input_format="text"))
        table = source.read()
        assert table.texts.to_list() == [f"text {i}" for i in range(30)]
        assert table.frame["id"].to_list() == [f"{shard}:{line}" for shard in (1, 2, 3) for line in range(1, 11)]
        check(source, 25, 10)

    def test_a_range_names_every_file_that_must_be_there(self, folder: Path) -> None:
        (folder / "part-01.txt.gz").rename(folder / "part-01.txt")
        assert len(read(str(folder / "part-{00..02}.txt"))) == 30
        with raises(DataError, file="part-03.txt"):
            read(str(folder / "part-{00..03}.txt"))
        with raises(DataError, file="part-{02..01}.txt"):
            read(str(folder / "part-{02..01}.txt"))

    def test_a_file_whose_name_looks_like_a_pattern_is_a_file(self, tmp_path: Path) -> None:
        assert read(saved(tmp_path, "a[1].txt", b"one\n")).frame["id"].to_list() == ["1"]

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("runs/model-a.v2.jsonl", "model-a.v2"),
            ("runs/_a_.jsonl", "_a_"),
            ("runs/model-a/*.jsonl.gz", "model-a"),
            ("runs/part-{00..15}.txt", "part"),
            ("s3://bucket/model-a/", "model-a"),
            ("*.jsonl", "*.jsonl"),
        ],
    )
    def test_a_system_is_called_by_its_argument(self, path: str, name: str) -> None:
        assert short_name(path) == name

    def test_a_pattern_without_files(self, tmp_path: Path) -> None:
        with raises(DataError, file="*.jsonl"):
            Source(path=str(tmp_path / "*.jsonl"))

    def test_hidden_files_and_marks_in_a_folder_are_no_shards(self, folder: Path) -> None:
        for name in ("_SUCCESS", ".part-00.txt.crc", ".hidden.txt", "notes.md"):
            (folder / name).write_text("no text of a system")
        assert len(read(str(folder))) == 30

    @pytest.mark.parametrize(
        ("name", "first", "second"),
        [
            ("csv", b"text,n\na,1\n", b"text,m\na,1\n"),
            ("jsonl", b'{"text": "a", "id": 1}\n', b'{"text": "a"}\n'),
            ("jsonl", b'{"text": "a"}\n', b'{"responses": ["a"]}\n'),
        ],
    )
    def test_shards_with_different_columns(self, tmp_path: Path, name: str, first: bytes, second: bytes) -> None:
        one, other = saved(tmp_path, f"a1.{name}", first), saved(tmp_path, f"a2.{name}", second)
        source = Source(path=str(tmp_path / f"*.{name}"))
        for reading in (source.read, lambda: parts_of([source])):
            with pytest.raises(DataError) as caught:
                reading()
            assert str(caught.value).startswith(f"{other}: has columns ")
            assert f"expected those of {one}" in str(caught.value)

    def test_parquet_shards_with_different_columns(self, tmp_path: Path) -> None:
        pl.DataFrame({"text": ["a"], "n": [1]}).write_parquet(tmp_path / "a1.parquet")
        pl.DataFrame({"text": ["a"], "m": [1]}).write_parquet(tmp_path / "a2.parquet")
        with raises(DataError, file="a2.parquet"):
            read(str(tmp_path / "a?.parquet"))

    def test_shards_of_different_formats(self, tmp_path: Path) -> None:
        saved(tmp_path, "a.jsonl", b'{"text": "a"}\n')
        saved(tmp_path, "b.csv", b"text\na\n")
        with raises(DataError, file="b.csv"):
            Source(path=str(tmp_path))

    def test_ids_of_their_own_stay(self, tmp_path: Path) -> None:
        for shard in range(2):
            saved(tmp_path, f"{shard}.jsonl", b'{"text": "a", "id": "s%d"}\n' % shard)
        assert read(str(tmp_path / "*.jsonl")).frame["id"].to_list() == ["s0", "s1"]

    def test_messages_name_the_shard(self, folder: Path) -> None:
        (folder / "part-02.txt").write_bytes(b"good\n\xff\n")
        with raises(DataError, file="part-02.txt", line=2):
            read(str(folder))

    def test_aligned_files_are_refused(self, folder: Path) -> None:
        with pytest.raises(OptionError) as refused:
            Source(path=str(folder), reading=Reading(aligned={"context": "c.txt"}))
        assert refused.value.option == "aligned"

    @ANY_FOLDER
    @given(seed=st.integers(0, 1 << 30), part_bytes=SIZES)
    def test_parts_of_shards_give_what_reading_gives(self, tmp_path: Path, seed: int, part_bytes: int) -> None:
        random_numbers = random.Random(seed)
        for shard in range(3):
            texts = [" ".join(random_numbers.choices("abc", k=3)) for _ in range(random_numbers.randint(1, 9))]
            lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
            saved(tmp_path, f"s{shard}.jsonl", lines.encode())
        check(Source(path=str(tmp_path / "s*.jsonl"), reading=Reading(text="text")), part_bytes, 50)
