"""Reading: every format, compressed or not, gives the same table for any chunk size, and holds one chunk at a time."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlgauge.data import (
    Items,
    Ratings,
    Reading,
    ResponseSets,
    Source,
    TokenScores,
    read,
    read_items,
    read_sets,
    write_table,
)
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.scoring.scoring import score
from tests.errors import raises
from tests.helpers import PACKINGS, nlgauge, packed, write_packed

IDS = ["first", "second", "third"]
CONTEXTS = ["How are you?", "Où ça ?", "שלום"]
SETS = [["fine, thanks", 'he said "hi"'], ["ici\nou là", "là-bas"], ["טוב", "👩‍🚀 e\u0301"]]
FIVE: Any = 5
NOTHING: Any = None
TEXTS = ["one", "two, three", "four  five", "", "sechs"]


def json_lines(rows: Sequence[dict[str, Any]], *, ascii_only: bool = False) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows).encode()


def wide_csv(
    ids: Sequence[str],
    contexts: Sequence[str],
    sets: Sequence[Sequence[str]],
    *,
    delimiter: str = ",",
    end: str = "\r\n",
    quoting: Any = csv.QUOTE_ALL,
) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(["id", "context", *(f"resp_{i}" for i in range(len(sets[0])))])
    writer.writerows([id, context, *responses] for id, context, responses in zip(ids, contexts, sets, strict=True))
    return text.getvalue().encode()


def parquet(ids: Sequence[str], contexts: Sequence[str], sets: Sequence[Sequence[str]]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(
        {"id": ids, "context": contexts, "responses": sets},
        schema={"id": pl.String, "context": pl.String, "responses": pl.List(pl.String)},
    ).write_parquet(buffer)
    return buffer.getvalue()


def jsonl_sets(ids: Sequence[str], contexts: Sequence[str], sets: Sequence[Sequence[str]]) -> bytes:
    rows = zip(ids, contexts, sets, strict=True)
    return json_lines([{"id": id, "context": context, "responses": list(texts)} for id, context, texts in rows])


def responses_of(table: Any) -> list[list[str]]:
    assert isinstance(table, ResponseSets)
    return table.to_polars()["responses"].to_list()


def save(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


class TestFormats:
    @pytest.mark.parametrize("packing", PACKINGS)
    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("sets.jsonl", jsonl_sets(IDS, CONTEXTS, SETS)),
            ("sets.ndjson", jsonl_sets(IDS, CONTEXTS, SETS)),
            ("sets.csv", wide_csv(IDS, CONTEXTS, SETS)),
            ("sets.tsv", wide_csv(IDS, CONTEXTS, SETS, delimiter="\t", end="\n")),
        ],
    )
    def test_tables_read_the_same_from_every_format_and_compression(
        self, tmp_path: Path, name: str, data: bytes, packing: str
    ) -> None:
        table = read_sets(str(write_packed(tmp_path / name, data, packing)))
        assert table.ids.to_list() == IDS
        assert table.frame["context"].to_list() == CONTEXTS
        assert responses_of(table) == SETS
        assert table.explicit_ids

    @pytest.mark.parametrize("packing", PACKINGS)
    def test_plain_text_reads_the_same_from_every_compression(self, tmp_path: Path, packing: str) -> None:
        path = write_packed(tmp_path / "texts.txt", "\n".join(TEXTS).encode(), packing)
        items = read_items(str(path))
        assert items.texts.to_list() == TEXTS
        assert items.frame["id"].to_list() == ["1", "2", "3", "4", "5"]
        assert not items.explicit_ids

    def test_parquet_reads_the_same_as_the_others(self, tmp_path: Path) -> None:
        table = read_sets(save(tmp_path, "sets.parquet", parquet(IDS, CONTEXTS, SETS)))
        assert (table.ids.to_list(), responses_of(table)) == (IDS, SETS)
        assert table.frame["context"].to_list() == CONTEXTS

    @pytest.mark.parametrize("packing", PACKINGS[1:])
    def test_a_compressed_parquet_file_must_be_unpacked_first(self, tmp_path: Path, packing: str) -> None:
        path = write_packed(tmp_path / "sets.parquet", parquet(IDS, CONTEXTS, SETS), packing)
        with pytest.raises(DataError, match=r"sets\.parquet\.\w+: is a compressed Parquet file; .* unpack it first"):
            read(str(path))

    def test_compression_is_told_from_the_content_not_from_the_name(self, tmp_path: Path) -> None:
        path = save(tmp_path, "sets.jsonl", packed(jsonl_sets(IDS, CONTEXTS, SETS), ".zst"))
        assert responses_of(read(path)) == SETS

    def test_an_explicit_format_overrides_the_name(self, tmp_path: Path) -> None:
        path = save(tmp_path, "sets.dat", jsonl_sets(IDS, CONTEXTS, SETS))
        assert responses_of(read(path, input_format="jsonl")) == SETS

    def test_zero_padding_after_a_gzip_member_is_not_data(self, tmp_path: Path) -> None:
        padded = packed(b"one\n", ".gz") + b"\0" * 512 + packed(b"two\n", ".gz") + b"\0" * 512
        path = save(tmp_path, "texts.txt.gz", padded)
        for size in (4, 1 << 20):
            parts = [part for part in Source(path=path).stream(size) if isinstance(part, Items)]
            assert Items.concat(parts).texts.to_list() == ["one", "two"]

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    def test_line_ends_and_a_byte_order_mark_are_not_part_of_the_data(
        self, tmp_path: Path, end: str, mark: str
    ) -> None:
        lines = {
            "a.jsonl": ['{"responses": ["x", "y"]}', '{"responses": ["z", "w"]}'],
            "a.csv": ["resp_0,resp_1", "x,y", "z,w"],
            "a.tsv": ["resp_0\tresp_1", "x\ty", "z\tw"],
        }
        for name, content in lines.items():
            path = save(tmp_path, name, mark + end.join(content) + end)
            for size in (1, 1 << 20):
                assert responses_of(Source(path=path).read(size)) == [["x", "y"], ["z", "w"]]
        path = save(tmp_path, "a.txt", mark + end.join(["x", "y", "z", "w"]))
        assert responses_of(read(path, set_size=2)) == [["x", "y"], ["z", "w"]]

    def test_the_byte_order_mark_of_a_compressed_file_is_dropped_too(self, tmp_path: Path) -> None:
        halves = ("\ufeff"[:1].encode()[:1], "\ufeffone\n".encode()[1:])
        path = save(tmp_path, "texts.txt.gz", b"".join(packed(half, ".gz") for half in halves))
        assert read_items(path).texts.to_list() == ["one"]


class TestStandardInput:
    @pytest.mark.parametrize(
        ("name", "data", "options", "packing"),
        [
            ("sets.jsonl", jsonl_sets(IDS, CONTEXTS, SETS), (), ""),
            ("sets.csv", wide_csv(IDS, CONTEXTS, SETS), ("--input-format", "csv"), ".gz"),
        ],
        ids=["json lines unless told otherwise", "compressed csv"],
    )
    def test_scores_of_standard_input_equal_those_of_the_file(
        self, tmp_path: Path, name: str, data: bytes, options: tuple[str, ...], packing: str
    ) -> None:
        arguments = ("score", "-", "-m", "distinct", "--format", "json", "--no-progress", *options)
        run = nlgauge(*arguments, cwd=tmp_path, cache=tmp_path / "cache", stdin=packed(data, packing))
        assert (run.code, run.err) == (0, "")
        expected = score(save(tmp_path, name, data), ["distinct"])[0].to_dict()
        assert json.loads(run.out)["scores"] == [expected | {"system": "stdin"}]


class TestColumns:
    def test_wide_columns_go_in_numeric_order(self, tmp_path: Path) -> None:
        order = [10, 2, 0, 1, 9, 3, 8, 4, 7, 5, 6]
        content = ",".join(f"resp_{i}" for i in order) + "\n" + ",".join(f"text {i}" for i in order) + "\n"
        assert responses_of(read(save(tmp_path, "a.csv", content))) == [[f"text {i}" for i in range(11)]]

    def test_wide_columns_may_count_from_one_and_go_without_a_dash(self, tmp_path: Path) -> None:
        assert responses_of(read(save(tmp_path, "a.csv", "resp1,resp2\na,b\n"))) == [["a", "b"]]

    def test_wide_columns_are_found_in_json_and_parquet_too(self, tmp_path: Path) -> None:
        rows = [{"resp_0": "a", "resp_1": "b"}, {"resp_0": "c", "resp_1": "d"}]
        pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
        for path in (save(tmp_path, "a.jsonl", json_lines(rows)), str(tmp_path / "a.parquet")):
            assert responses_of(read(path)) == [["a", "b"], ["c", "d"]]

    def test_a_gap_in_the_numbers_is_an_error(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "resp_0,resp_2\na,b\n")
        with raises(DataError, file="a.csv"):
            read(path)

    def test_two_columns_with_one_number_are_an_error(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "resp_0,resp_1,resp1\na,b,c\n")
        with raises(DataError, file="a.csv", column="resp1"):
            read(path)

    @pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
    def test_columns_go_by_the_names_that_options_give_them(self, tmp_path: Path, name: str) -> None:
        frame = pl.DataFrame(
            {
                "key": ["k1"],
                "question": ["q"],
                "bot": ["b"],
                "answers": [["x", "y"]],
                "id": ["other id"],
                "context": ["other context"],
                "score": [0.5],
            }
        )
        path = tmp_path / name
        frame.write_ndjson(path) if name.endswith("jsonl") else frame.write_parquet(path)
        columns = Reading(responses="answers", id="key", context="question", system="bot")
        table = read_sets(str(path), **vars(columns))
        assert table.frame.to_dicts() == [{"id": "k1", "context": "q", "system": "b", "score": 0.5}]
        assert responses_of(table) == [["x", "y"]]

    def test_rows_may_be_numbered_although_there_is_a_column_of_ids(self, tmp_path: Path) -> None:
        rows = [{"id": "same", "responses": ["a", "b"], "note": n} for n in "xy"]
        table = read_sets(save(tmp_path, "a.jsonl", json_lines(rows)), id="")
        assert table.frame["id"].to_list() == ["1", "2"]
        assert table.frame["note"].to_list() == ["x", "y"]

    def test_a_prefix_names_wide_columns(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "out_0,out_1,resp_0\na,b,c\n")
        table = read_sets(path, responses="out")
        assert responses_of(table) == [["a", "b"]]
        assert table.frame["resp_0"].to_list() == ["c"]

    def test_common_other_names_are_understood(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.jsonl", '{"sample_id": 7, "prompt": "p", "model": "m", "responses": ["x"]}\n')
        assert read_sets(path).frame.to_dicts() == [{"id": "7", "context": "p", "system": "m"}]

    def test_single_texts_carry_their_references(self, tmp_path: Path) -> None:
        rows: list[dict[str, Any]] = [{"text": "a", "references": ["b", "c"]}, {"text": "d", "references": "e"}]
        items = read_items(save(tmp_path, "a.jsonl", json_lines(rows)))
        assert items.frame["references"].to_list() == [["b", "c"], ["e"]]

    def test_a_header_may_have_spaces_after_its_commas(self, tmp_path: Path) -> None:
        table = read_sets(save(tmp_path, "a.csv", "id, resp_0, resp_1 \n1,x,y\n"))
        assert (table.ids.to_list(), responses_of(table)) == (["1"], [["x", "y"]])

    @pytest.mark.parametrize(("choice", "expected"), [("keep", [["a", ""], ["b", "c"]]), ("drop", [["a"], ["b", "c"]])])
    def test_an_empty_cell_is_what_the_option_says(self, tmp_path: Path, choice: Any, expected: list[Any]) -> None:
        path = save(tmp_path, "a.csv", "resp_0,resp_1\na,\nb,c\n")
        assert responses_of(read(path, empty_cells=choice)) == expected

    def test_a_set_whose_cells_are_all_empty_is_left_out_when_asked(self, tmp_path: Path) -> None:
        text = "id,label,resp_0,resp_1\na,1,x,\nb,0,,\nc,0,,y\nd,1,,\n"
        rows: list[dict[str, Any]] = [
            {"id": "a", "resp_0": "x"},
            {"id": "b", "resp_0": None, "resp_1": None},
            {"id": "c", "resp_1": "y"},
        ]
        for path in (save(tmp_path, "a.csv", text), save(tmp_path, "a.jsonl", json_lines(rows))):
            source = Source(path=path, reading=Reading(empty_cells="drop-set"))
            for size in (1, 1 << 20):
                table = source.read(size)
                assert (table.frame["id"].to_list(), responses_of(table)) == (["a", "c"], [["x"], ["y"]])
            with raises(DataError, file=path, column="resp_0"):
                replace(source, reading=Reading(empty_cells="drop")).read()
        frame = pl.DataFrame({"resp_0": ["x", None, None], "resp_1": [None, None, "y"]})
        assert read(frame, empty_cells="drop-set").frame["id"].to_list() == ["0", "2"]
        nothing = save(tmp_path, "none.csv", "id,resp_0,resp_1\na,,\n")
        with raises(DataError, file=nothing):
            read(nothing, empty_cells="drop-set")

    def test_a_missing_response_of_a_json_row_may_be_dropped(self, tmp_path: Path) -> None:
        rows: list[dict[str, Any]] = [{"resp_0": "a"}, {"resp_0": "b", "resp_1": "c"}, {"resp_0": None, "resp_1": ""}]
        source = Source(path=save(tmp_path, "a.jsonl", json_lines(rows)), reading=Reading(empty_cells="drop"))
        for size in (1, 1 << 20):
            assert responses_of(source.read(size)) == [["a"], ["b", "c"], [""]]

    def test_number_like_columns_of_a_csv_become_numbers(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "id,text,count,rate,label\n1,2, 3,.5,x\n2,3,4,1e-3,5\n")
        frame = read_items(path).frame
        assert frame.schema["count"] == pl.Int64
        assert frame["rate"].to_list() == [0.5, 0.001]
        assert frame["label"].to_list() == ["x", "5"]
        assert (frame["id"].to_list(), frame["text"].to_list()) == (["1", "2"], ["2", "3"])

    def test_texts_of_a_json_column_stay_text_even_when_they_look_like_numbers(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.jsonl", '{"text": "a", "zip": "01234"}\n')
        assert read_items(path).frame["zip"].to_list() == ["01234"]

    def test_extras_limit_which_other_columns_are_kept(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "text,x,y\na,1,2\n")
        assert read(path, extras=("y",)).frame.columns == ["id", "y", "text"]

    def test_a_missing_extra_is_an_error(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "text,x\na,1\n")
        with raises(DataError, file="a.csv", column="z"):
            read(path, extras=("z",))

    def test_a_column_that_only_some_records_have_is_null_elsewhere(self, tmp_path: Path) -> None:
        rows: list[dict[str, Any]] = [{"text": "a"}, {"text": "b", "score": 2}, {"text": "c"}]
        source = Source(path=save(tmp_path, "a.jsonl", json_lines(rows)))
        for size in (1, 1 << 20):
            assert source.read(size).frame["score"].to_list() == [None, 2, None]

    def test_reading_sets_as_items_or_items_as_sets_is_an_error(self, tmp_path: Path) -> None:
        sets = save(tmp_path, "sets.jsonl", '{"responses": ["a"]}\n')
        texts = save(tmp_path, "texts.txt", "a\n")
        with raises(DataError, file="sets.jsonl"):
            read_items(sets)
        with raises(DataError, file="texts.txt"):
            read_sets(texts)


class TestPlainText:
    def test_every_n_lines_are_a_set(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.txt", "a\nb\nc\nd\ne\nf\n")
        source = Source(path=path, reading=Reading(set_size=3))
        for size in (1, 5, 1 << 20):
            table = source.read(size)
            assert responses_of(table) == [["a", "b", "c"], ["d", "e", "f"]]
            assert table.frame["id"].to_list() == ["1", "4"]

    def test_lines_that_do_not_fill_a_set_are_an_error(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.txt", "a\nb\nc\nd\ne\n")
        for size in (1, 1 << 20):
            with raises(DataError, file="a.txt", line=4):
                Source(path=path, reading=Reading(set_size=3)).read(size)

    @pytest.mark.parametrize("packing", PACKINGS)
    def test_aligned_files_go_along_line_by_line(self, tmp_path: Path, packing: str) -> None:
        texts = save(tmp_path, "texts.txt", "a\r\nb\r\nc\r\n")
        contexts = write_packed(tmp_path / "contexts.txt", b"p\nq\nr\n", packing)
        references = save(tmp_path, "refs.txt", "x\ny\nz")
        source = Source(path=texts, reading=Reading(aligned={"context": str(contexts), "references": references}))
        for size in (1, 1 << 20):
            frame = source.read(size).frame
            assert frame["context"].to_list() == ["p", "q", "r"]
            assert frame["references"].to_list() == [["x"], ["y"], ["z"]]

    def test_contexts_of_sets_are_one_a_set(self, tmp_path: Path) -> None:
        texts = save(tmp_path, "texts.txt", "a\nb\nc\nd\n")
        contexts = save(tmp_path, "contexts.txt", "p\nq\n")
        table = read_sets(texts, set_size=2, aligned={"context": contexts})
        assert table.frame["context"].to_list() == ["p", "q"]

    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            ("p\n", r"contexts\.txt: has 1 lines, fewer than .*texts\.txt has lines; expected one line for each"),
            ("p\nq\nr\n", r"contexts\.txt: has more lines than .*texts\.txt"),
            (b"p\n\xff\n", r"contexts\.txt, line 2: byte 0xff is not UTF-8"),
        ],
    )
    def test_an_aligned_file_that_does_not_fit_is_an_error_that_names_it(
        self, tmp_path: Path, lines: str | bytes, message: str
    ) -> None:
        texts = save(tmp_path, "texts.txt", "a\nb\n")
        contexts = save(tmp_path, "contexts.txt", lines)
        for size in (1, 1 << 20):
            with pytest.raises(DataError, match=message):
                Source(path=texts, reading=Reading(aligned={"context": contexts})).read(size)

    @pytest.mark.parametrize(
        ("options", "about"),
        [
            ({"aligned": {"label": "x.txt"}}, "aligned"),
            ({"aligned": "context"}, "aligned"),
            ({"aligned": ["context=a.txt", "context=b.txt"]}, "aligned"),
            ({"set_size": -1}, "set_size"),
            ({"set_size": 2, "aligned": {"references": "x.txt"}}, "set_size"),
            ({"input_format": "csv", "set_size": 2}, "set_size"),
            ({"input_format": "csv", "aligned": {"context": "x.txt"}}, "aligned"),
            ({"input_format": "xml"}, "input_format"),
        ],
    )
    def test_options_that_clash_are_errors(self, tmp_path: Path, options: dict[str, Any], about: str) -> None:
        path = save(tmp_path, "a.txt", "a\n")
        with pytest.raises(OptionError) as caught:
            Source(path=path, reading=Reading(**options))
        assert caught.value.option == about

    def test_an_unknown_option_is_an_error_with_the_nearest_name(self) -> None:
        for function in (read, read_items, read_sets, score):
            with raises(UnknownName, name="input_fromat", nearest="input_format"):
                function("a.jsonl", input_fromat="csv")

    def test_all_texts_of_a_file_are_one_set_when_asked(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.jsonl", json_lines([{"text": "a", "system": s} for s in ("x", "x", "y")]))
        table = read_sets(path, one_set=True)
        assert table.frame["system"].to_list() == ["x", "y"]
        assert table.sizes.tolist() == [2, 1]
        assert responses_of(read(pl.DataFrame({"text": ["a", "b"]}), one_set=True)) == [["a", "b"]]


class TestPlaces:
    """Errors and ids name the right line, whatever the chunk size."""

    @pytest.mark.parametrize("size", [1, 20, 1 << 20])
    def test_blank_lines_of_json_do_not_shift_line_numbers(self, tmp_path: Path, size: int) -> None:
        content = '\n{"text": "a"}\n \t\r\n\n{"text": "b"}\n{"text": "c"}\n\n'
        source = Source(path=save(tmp_path, "a.jsonl", content))
        assert source.read(size).frame["id"].to_list() == ["2", "5", "6"]
        Path(source.path).write_text(content.replace('"c"', "7"))
        with raises(DataError, file="a.jsonl", line=6, column="text"):
            source.read(size)

    @pytest.mark.parametrize("size", [1, 20, 1 << 20])
    def test_a_csv_record_is_named_by_the_line_where_it_begins(self, tmp_path: Path, size: int) -> None:
        content = 'text,n\n"a\nb\rc",1\n\nd,2\n"e\r\n\r\nf",3\ng,4\n'
        source = Source(path=save(tmp_path, "a.csv", content))
        assert source.read(size).frame["id"].to_list() == ["2", "5", "6", "9"]
        Path(source.path).write_bytes(content.replace("g,4", "g,4,5").encode())
        with raises(DataError, file="a.csv", line=9):
            source.read(size)

    @pytest.mark.parametrize("size", [1, 1 << 20])
    def test_errors_name_the_column_as_the_file_does(self, tmp_path: Path, size: int) -> None:
        rows = {"prompt": '{"prompt": 5, "text": "b"}', "sample_id": '{"sample_id": null, "text": "b"}'}
        for column, bad in rows.items():
            good = json.dumps({column: "c", "text": "a"})
            source = Source(path=save(tmp_path, "a.jsonl", f"{good}\n{bad}\n"))
            with raises(DataError, file="a.jsonl", line=2, column=column):
                source.read(size)

    def test_errors_in_parquet_name_row_and_column(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        pl.DataFrame({"answers": [["a"], ["b", None]]}).write_parquet(path)
        for size in (1, 1 << 20):
            with raises(DataError, file="a.parquet", line=2, column="answers"):
                Source(path=str(path), reading=Reading(responses="answers")).read(size)

    def test_the_wide_column_at_fault_is_named(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.jsonl", '{"resp_0": "a", "resp_1": 5}\n')
        with raises(DataError, file="a.jsonl", line=1, column="resp_1"):
            read(path)

    @pytest.mark.parametrize("size", [1, 1 << 20])
    @pytest.mark.parametrize(
        ("first", "second", "message"),
        [
            ({"resp_0": "a"}, {"resp_0": "b", "resp_1": "c"}, r"line 2, column 'resp_1': the first record has no such"),
            ({"resp_0": "a", "resp_1": "b"}, {"resp_0": "c"}, r"line 2, column 'resp_1': ragged row"),
            ({"text": "a"}, {"text": "b", "id": 1}, r"line 2, column 'id': the first record has no such column"),
            ({"text": "a", "id": 1}, {"text": "b"}, r"line 2, column 'id': the id is null"),
            ({"text": "a"}, {"responses": ["b"]}, r"line 2, column 'responses': the first record has no such column"),
            ({"responses": ["a"]}, {"text": "b"}, r"line 2, column 'responses': null; expected a list of texts"),
        ],
    )
    def test_records_of_different_shapes_are_an_error_for_any_chunk_size(
        self, tmp_path: Path, first: dict[str, Any], second: dict[str, Any], message: str, size: int
    ) -> None:
        source = Source(path=save(tmp_path, "a.jsonl", json_lines([first, second])))
        with pytest.raises(DataError, match=message):
            source.read(size)

    @pytest.mark.parametrize("size", [1, 1 << 20])
    @pytest.mark.parametrize(
        "content", ['{"text": "a"} {"text": "b"}\n', '{"text":\n"a"}\n', '{"text": "a"}\n\f\n', '[{"text": "a"}]\n']
    )
    def test_anything_but_one_object_a_line_is_an_error(self, tmp_path: Path, content: str, size: int) -> None:
        source = Source(path=save(tmp_path, "a.jsonl", content))
        with raises(DataError, file="a.jsonl"):
            source.read(size)

    def test_json_nested_too_deeply_is_an_error(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.jsonl", '{"text": "a", "x": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
        with raises(DataError, file="a.jsonl", line=1):
            read(path)

    def test_columns_of_different_kinds_in_one_file_are_an_error_that_names_the_column(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.jsonl", '{"text": "a", "x": {"y": 1}}\n{"text": "b", "x": [1]}\n')
        with raises(DataError, column="x"):
            Source(path=path).read(1)

    @pytest.mark.parametrize("content", ["a,b\rc,d\n1,2\n", 'a,b\n1,"2\n', 'a,b\n1,"2" 3\n'])
    def test_bad_quoting_is_an_error(self, tmp_path: Path, content: str) -> None:
        path = save(tmp_path, "a.csv", content)
        with raises(DataError, file="a.csv"):
            read(path, text="b")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("\n\na,b\n", "line 1: no header"),
            ("text,text\na,b\n", "line 1, column 'text': is duplicated in the header"),
            ("text\n", "the file has no records"),
            ("name\na\n", r"found columns name; expected 'responses' \(a list\)"),
        ],
    )
    def test_a_csv_needs_a_header_and_a_record(self, tmp_path: Path, content: str, message: str) -> None:
        with pytest.raises(DataError, match=message):
            read(save(tmp_path, "a.csv", content))


HOSTILE = "\n\r\"',;\t\0\u0085\u2028\u2029\x0b\x0c\x1c\ufeff\u200d\u202e\u0301=+-@\\{}[] א🙂👩🚀"
CHARACTERS = st.one_of(st.sampled_from(HOSTILE), st.characters(exclude_categories=["Cs"]))
HOSTILE_TEXT = st.text(CHARACTERS, max_size=12)
CHUNK_SIZES = st.one_of(st.integers(1, 64), st.sampled_from([100, 1000, 1 << 20]))
ANY_FOLDER = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def tables(draw: st.DrawFn, text: st.SearchStrategy[str] = HOSTILE_TEXT) -> tuple[list[str], list[str], list[Any]]:
    """Ids, contexts and sets of one size."""
    rows, size = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    column = st.lists(text, min_size=rows, max_size=rows)
    sets = st.lists(st.lists(text, min_size=size, max_size=size), min_size=rows, max_size=rows)
    return draw(column), draw(column), draw(sets)


def write_rows(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Rows in any format, by other people's writers; every row has the columns of the first, a cell may be None."""
    path = folder / name
    if name.endswith(".parquet"):
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    elif name.endswith(".jsonl"):
        path.write_bytes(json_lines(rows))
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if name.endswith("tsv") else ",")
            writer.writeheader()
            writer.writerows(rows)
    return str(path)


class TestReferences:
    TEXTS: ClassVar[list[str]] = ["a cat", "a dog", "it rains"]
    REFERENCES: ClassVar[list[list[str]]] = [["the cat", "one, cat"], ["the dog"], ["rain", "it pours", "wet"]]

    @pytest.mark.parametrize("size", [1, 1 << 20])
    @pytest.mark.parametrize(
        ("way", "ending"),
        [
            *product(["wide", "named wide", "separator"], ["csv", "tsv", "jsonl", "parquet"]),
            *product(["list"], ["jsonl", "parquet"]),
        ],
    )
    def test_every_way_to_write_them_reads_the_same(self, tmp_path: Path, way: str, ending: str, size: int) -> None:
        columns = {
            "wide": Reading(text="reply"),
            "named wide": Reading(text="reply", references="gold"),
            "separator": Reading(text="reply", references="answers", references_separator="\t"),
            "list": Reading(text="reply", references="answers"),
        }[way]
        rows: list[dict[str, Any]] = []
        for text, references in zip(self.TEXTS, self.REFERENCES, strict=True):
            prefix = "references" if way == "wide" else "gold"
            padded = [*references, None, None, None][:3]
            wide = {f"{prefix}_{i}": reference for i, reference in enumerate(padded)}
            cell = {"answers": references if way == "list" else "\t".join(references)}
            rows.append({"reply": text, "score": "7", **(wide if "wide" in way else cell)})
        source = Source(path=write_rows(tmp_path, f"a.{ending}", rows), reading=columns)
        table = source.read(size)
        assert isinstance(table, Items)
        assert table.frame.columns == ["id", "score", "text", "references"]
        assert table.frame["text"].to_list() == self.TEXTS
        assert table.frame["references"].to_list() == self.REFERENCES

    @pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
    def test_a_column_of_texts_has_one_reference_each(self, tmp_path: Path, ending: str) -> None:
        rows = [{"text": "a", "gold": "x\ty"}, {"text": "b", "gold": "5"}]
        items = read_items(write_rows(tmp_path, f"a.{ending}", rows), references="gold")
        assert items.frame["references"].to_list() == [["x\ty"], ["5"]]

    def test_records_of_json_may_have_more_wide_references_than_the_first(self, tmp_path: Path) -> None:
        rows = [{"text": "a", "references_0": "x"}, {"text": "b", "references_0": "y", "references_1": "z"}]
        for size in (1, 1 << 20):
            table = Source(path=save(tmp_path, "a.jsonl", json_lines(rows))).read(size)
            assert table.frame["references"].to_list() == [["x"], ["y", "z"]]
            bare_first = Source(path=save(tmp_path, "b.jsonl", json_lines([{"text": "c"}, *rows])))
            with raises(DataError, file="b.jsonl", line=2, column="references_0"):
                bare_first.read(size)

    def test_only_empty_cells_at_the_end_are_no_reference(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "text,references_1,references_2,references_3\na,,x,\nb,y,,\n")
        assert read_items(path).frame["references"].to_list() == [["", "x"], ["y"]]
        path = save(tmp_path, "b.csv", "text,references\na,||x||\nb,y\n")
        items = read_items(path, references_separator="||")
        assert items.frame["references"].to_list() == [["", "x"], ["y"]]

    @pytest.mark.parametrize(
        ("name", "content", "columns", "message"),
        [
            ("a.csv", "text,references_0,references_2\na,x,y\n", {}, "gap: number 1 is missing among references_"),
            ("a.csv", "text,gold\na,x\nb,\n", {"references": "gold"}, "line 3, column 'gold': item '3' has no refer"),
            ("a.csv", "id,text,reference\np,a,x\nq,b,\n", {}, "line 3, column 'reference': item 'q' has no reference"),
            ("a.csv", "id,text,references_0,references_1\np,a,,\n", {}, "line 2, column 'references_0': item 'p'"),
            ("a.jsonl", '{"text": "a", "references": null}', {}, "line 1, column 'references': item '1' has no refer"),
            ("a.jsonl", '{"text": "a", "references": []}', {}, "line 1, column 'references': item '1' has no"),
            ("a.jsonl", '{"text": "a", "references": ["x", 5]}', {}, "line 1, column 'references': reference 1 is"),
            ("a.jsonl", '{"text": "a", "references_0": 5}', {}, "line 1, column 'references_0': int 5; expected text"),
            ("a.jsonl", '{"text": "a", "r_0": null, "r_1": "x"}', {"references": "r"}, "reference 0 is null"),
            ("a.jsonl", '{"text": "a", "references": ["x"]}', {"references_separator": ";"}, "expected text"),
            ("a.csv", "text,x\na,b\n", {"references": "gold"}, "column 'gold': no such column; found text, x"),
            ("a.csv", "text,x\na,b\n", {"references_separator": ";"}, "found columns text, x; expected one column"),
            ("a.csv", "text,references_0\na,b\n", {"references_separator": ";"}, "found references in columns"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_a_reference_is_an_error_that_says_where(
        self, tmp_path: Path, name: str, content: str, columns: dict[str, Any], message: str
    ) -> None:
        path = save(tmp_path, name, content)
        for size in (1, 1 << 20):
            with pytest.raises(DataError) as caught:
                Source(path=path, reading=Reading(**columns)).read(size)
            assert message in str(caught.value)

    def test_a_file_can_be_read_without_its_references(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "text,reference,model\na,,m\nb,x,n\n")
        frame = read_items(path, references="", system="").frame
        assert frame.columns == ["id", "reference", "model", "text"]

    def test_aligned_references_are_split_and_an_empty_line_is_an_error_in_their_file(self, tmp_path: Path) -> None:
        texts = save(tmp_path, "texts.txt", "a\nb\n")
        aligned = {"references": save(tmp_path, "refs.txt", "x\ty\nz\n")}
        for size in (1, 1 << 20):
            reading = Reading(references_separator="\t", aligned=aligned)
            table = Source(path=texts, reading=reading).read(size)
            assert table.frame["references"].to_list() == [["x", "y"], ["z"]]
        save(tmp_path, "refs.txt", "x\ty\n\n")
        with raises(DataError, file="refs.txt", line=2):
            read(texts, aligned=aligned)

    def test_an_aligned_file_with_more_lines_is_an_error_with_the_number_of_texts(self, tmp_path: Path) -> None:
        texts, references = save(tmp_path, "texts.txt", "a\nb\n"), save(tmp_path, "refs.txt", "x\ny\nz\n")
        for size in (1, 1 << 20):
            with raises(DataError, file="refs.txt"):
                Source(path=texts, reading=Reading(aligned={"references": references})).read(size)

    def test_options_about_references_are_never_ignored(self, tmp_path: Path) -> None:
        texts = save(tmp_path, "texts.txt", "a\n")
        for name, value in (("references", "gold"), ("references_separator", ";")):
            given: dict[str, Any] = {name: value}
            with pytest.raises(OptionError) as caught:
                Source(path=texts, reading=Reading(**given))
            assert caught.value.option == name
            with pytest.raises(OptionError, match=r"a\.csv holds response sets \(.resp_0.\)") as caught:
                read(save(tmp_path, "a.csv", "resp_0,gold\na,b\n"), **given)
            assert caught.value.option == name
        twice = ("--aligned", "references=texts.txt", "--aligned", "references=texts.txt")
        done = nlgauge("score", "texts.txt", *twice, "-m", "bleu", cwd=tmp_path, cache=tmp_path / "cache")
        assert done.code == 2
        assert "--aligned references=texts.txt references=texts.txt; expected one file per part" in done.err

    @ANY_FOLDER
    @given(
        rows=st.lists(
            st.tuples(HOSTILE_TEXT, st.lists(HOSTILE_TEXT, max_size=3), HOSTILE_TEXT), min_size=1, max_size=4
        ),
        suffix=st.sampled_from([".csv", ".tsv", ".jsonl", ".parquet"]),
    )
    def test_what_is_written_comes_back(
        self, tmp_path: Path, rows: list[tuple[str, list[str], str]], suffix: str
    ) -> None:
        references = [[*some, last or "."] for _, some, last in rows]
        items = Items.of([text for text, *_ in rows], ids=[f"i{i}" for i in range(len(rows))], references=references)
        path = tmp_path / f"a{suffix}"
        write_table(items, path)
        found = read_items(str(path)).frame["references"]
        assert found.to_list() == references

    @pytest.mark.parametrize("suffix", [".csv", ".tsv"])
    def test_an_empty_last_reference_is_not_written_where_it_would_get_lost(self, tmp_path: Path, suffix: str) -> None:
        items = Items.of(["a", "b"], references=[["x"], ["y", ""]])
        with raises(DataError, column="references"):
            write_table(items, tmp_path / f"a{suffix}")
        assert not list(tmp_path.iterdir())


class TestAnyChunkSize:
    """Hostile texts written by other people's writers come back as they were, however the file is cut."""

    def check(self, path: str, table: tuple[list[str], list[str], list[Any]], size: int, **options: Any) -> None:
        ids, contexts, sets = table
        found = Source(path=path, **options).read(size)
        assert found.frame["id"].to_list() == ids
        assert found.frame["context"].to_list() == contexts
        assert responses_of(found) == sets

    @ANY_FOLDER
    @given(table=tables(), size=CHUNK_SIZES, ascii_only=st.booleans(), packing=st.sampled_from(PACKINGS))
    def test_json_lines(self, tmp_path: Path, table: Any, size: int, ascii_only: bool, packing: str) -> None:
        rows = [{"id": id, "context": context, "responses": texts} for id, context, texts in zip(*table, strict=True)]
        path = write_packed(tmp_path / "a.jsonl", json_lines(rows, ascii_only=ascii_only), packing)
        self.check(str(path), table, size)

    @ANY_FOLDER
    @given(
        table=tables(),
        size=CHUNK_SIZES,
        form=st.sampled_from([("\n", csv.QUOTE_ALL), ("\r\n", csv.QUOTE_ALL), ("\r\n", csv.QUOTE_MINIMAL)]),
        kind=st.sampled_from([("a.csv", ","), ("a.tsv", "\t")]),
        packing=st.sampled_from(PACKINGS),
    )
    def test_csv(self, tmp_path: Path, table: Any, size: int, form: Any, kind: Any, packing: str) -> None:
        (end, quoting), (name, delimiter) = form, kind
        data = wide_csv(*table, delimiter=delimiter, end=end, quoting=quoting)
        path = write_packed(tmp_path / name, data, packing)
        self.check(str(path), table, size, reading=Reading(empty_cells="keep"))

    @ANY_FOLDER
    @given(table=tables(), size=st.sampled_from([1, 1024, 2048, 1 << 20]))
    def test_parquet(self, tmp_path: Path, table: Any, size: int) -> None:
        self.check(save(tmp_path, "a.parquet", parquet(*table)), table, size)

    @ANY_FOLDER
    @given(
        texts=st.lists(HOSTILE_TEXT.map(lambda text: text.replace("\n", "").replace("\r", "")), min_size=1, max_size=9),
        size=CHUNK_SIZES,
        packing=st.sampled_from(PACKINGS),
    )
    def test_plain_text(self, tmp_path: Path, texts: list[str], size: int, packing: str) -> None:
        path = write_packed(tmp_path / "a.txt", ("\ufeff" + "\n".join([*texts, "end"])).encode(), packing)
        assert Source(path=str(path)).read(size).frame["text"].to_list() == [*texts, "end"]

    @ANY_FOLDER
    @given(
        fields=st.lists(st.text('ab "\n,', max_size=6), min_size=1, max_size=8),
        quoted=st.lists(st.booleans(), min_size=8, max_size=8),
        size=CHUNK_SIZES,
    )
    def test_a_quote_inside_an_unquoted_field_is_a_character_like_any_other(
        self, tmp_path: Path, fields: list[str], quoted: list[bool], size: int
    ) -> None:
        cells = [
            '"' + field.replace('"', '""') + '"' if quote else "x" + field.replace("\n", "").replace(",", "")
            for field, quote in zip(fields, quoted, strict=False)
        ]
        path = save(tmp_path, "a.csv", "n,text\n" + "".join(f"1,{cell}\n" for cell in cells))
        expected = [row[1] for row in csv.reader(io.StringIO("".join(f"1,{cell}\n" for cell in cells), newline=""))]
        assert Source(path=path).read(size).frame["text"].to_list() == expected


class TestMemory:
    """Streaming a file of some 50 MB grows a fresh process by a fraction of it; what is loaded once does not count."""

    CHUNK, FILE = 1 << 20, 50 << 20

    @pytest.mark.parametrize(
        ("name", "packing", "header", "record"),
        [
            ("a.jsonl", "", b"", b'{"context": "what now", "responses": ["%s", "short"]}\n' % (b"some words " * 40)),
            ("a.csv", ".gz", b"context,resp_0,resp_1\n", b'what now,"%s\n",short\n' % (b"some, words " * 40)),
            ("a.txt", ".zst", b"", b"some words " * 40 + b"\n"),
        ],
        ids=["jsonl", "csv.gz", "txt.zst"],
    )
    def test_streaming_holds_one_chunk(
        self, tmp_path: Path, name: str, packing: str, header: bytes, record: bytes
    ) -> None:
        rows = math.ceil(self.FILE / len(record))
        path = write_packed(tmp_path / name, header + record * rows, packing)
        code = f"""
import psutil
from nlgauge.data.reading import Source
source, process = Source(path={str(path)!r}), psutil.Process()
next(source.stream({self.CHUNK}))
before, peak, rows = process.memory_info().rss, 0, 0
for table in source.stream({self.CHUNK}):
    rows += len(table)
    peak = max(peak, process.memory_info().rss)
print(rows, peak - before)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        read_rows, growth = map(int, done.stdout.split())
        assert read_rows == rows
        assert growth < self.FILE / 2


class TestTables:
    def test_sets_hold_texts_in_one_column_with_offsets(self) -> None:
        sets = ResponseSets.of([["a", "b"], ("c",)], contexts=["x", "y"], ids=[1, "two"], columns={"score": [1, 2.5]})
        assert sets.texts.to_list() == ["a", "b", "c"]
        assert sets.offsets.tolist() == [0, 2, 3]
        assert sets.sizes.tolist() == [2, 1]
        assert sets.frame.to_dicts() == [
            {"id": "1", "context": "x", "score": 1.0},
            {"id": "two", "context": "y", "score": 2.5},
        ]

    def test_ids_are_row_numbers_when_none_are_given(self) -> None:
        sets = ResponseSets.of([["a"], ["b"]])
        assert sets.ids.to_list() == ["0", "1"]
        assert not sets.explicit_ids

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: ResponseSets.of([]), "the table has no rows"),
            (lambda: ResponseSets.of([["a"], []]), "row 1: the set of responses is empty"),
            (lambda: ResponseSets.of(["abc"]), "row 0: 'abc'; expected a list of texts"),
            (lambda: ResponseSets.of([["a", FIVE]]), "row 0: response 1 is int 5; expected text"),
            (lambda: ResponseSets.of([["a", NOTHING]]), "row 0: response 1 is null; expected text"),
            (lambda: ResponseSets.of([["a\ud800"]]), "response 0 is text with a lone surrogate"),
            (lambda: ResponseSets.of([["a"]], ids=["1", "2"]), "2 ids for 1 rows; expected one per row"),
            (lambda: ResponseSets.of([["a"]], ids=[None]), "row 0: the id is null"),
            (lambda: ResponseSets.of([["a"]], ids=["\ud800"]), "column 'id': row 0: text with a lone surrogate"),
            (lambda: ResponseSets.of([["a"]], contexts=["x", "y"]), "column 'context': 2 values for 1 rows"),
            (lambda: ResponseSets.of([["a"]], contexts=[FIVE]), "column 'context': row 0: int 5; expected text"),
            (lambda: ResponseSets.of([["a"]], systems=[FIVE]), "column 'system': row 0: int 5; expected text"),
            (lambda: ResponseSets.of([["a"]], columns={"x": []}), "column 'x': 0 values for 1 rows"),
            (lambda: ResponseSets.of([["a"]], columns={"id": [1]}), "column 'id': duplicate"),
            (lambda: ResponseSets.of([["a"]], columns={"x": ["\ud800"]}), "column 'x': holds a lone surrogate"),
            (lambda: ResponseSets.from_polars(pl.DataFrame({"x": [1]})), "column 'responses': no such column; found x"),
            (lambda: ResponseSets.from_polars(pl.DataFrame({"responses": [["a"], []]})), "row 1: the set of responses"),
            (lambda: ResponseSets.from_polars(pl.DataFrame({"responses": [[1]]})), "response 0 is int 1"),
            (lambda: Items.of([]), "the table has no rows"),
            (lambda: Items.of(["a", NOTHING]), "column 'text': row 1: null; expected text"),
            (lambda: Items.of(["a", "b"], references=[["x"]]), "1 lists of references for 2 texts; expected one list"),
            (lambda: Items.of(["a"], references=["x"]), "column 'references': row 0: 'x'; expected a list of texts"),
            (lambda: Items.of(["a"], references=[[]]), "column 'references': row 0: the set of references is empty"),
            (lambda: Items.of(["a"], references=[["x", NOTHING]]), "row 0: reference 1 is null; expected text"),
        ],
    )
    def test_wrong_values_are_errors_that_say_where(self, make: Callable[[], object], message: str) -> None:
        with pytest.raises(DataError) as caught:
            make()
        assert message in str(caught.value)

    def test_items_keep_references_beside_their_text(self) -> None:
        items = Items.of(["a", "b"], references=[["x"], ["y", "z"]], systems=["s", "t"])
        assert items.frame["references"].to_list() == [["x"], ["y", "z"]]
        assert items.as_sets().sizes.tolist() == [1, 1]
        assert items.as_sets().frame.columns == ["id", "system"]
        assert responses_of(items.as_one_set()) == [["a", "b"]]

    def test_sets_come_from_a_polars_frame_and_go_back(self) -> None:
        frame = pl.DataFrame({"id": ["1", "2"], "score": [1, 2], "responses": [["a"], ["b", "c"]]})
        assert ResponseSets.from_polars(frame).to_polars().equals(frame)

    def test_select_takes_sets_by_row_in_the_order_asked(self) -> None:
        sets = ResponseSets.of([["a", "b"], ["c"], ["d", "e", "f"]], ids=["x", "y", "z"])
        chosen = sets.select(np.array([2, 0, 2]))
        assert chosen.ids.to_list() == ["z", "x", "z"]
        assert responses_of(chosen) == [["d", "e", "f"], ["a", "b"], ["d", "e", "f"]]
        assert len(sets.select(np.array([], dtype=np.int64))) == 0

    def test_concat_joins_tables_in_order_and_fills_missing_columns_with_null(self) -> None:
        one = ResponseSets.of([["a"]], ids=["1"], columns={"score": [1]})
        two = ResponseSets.of([["b", "c"], ["d"]], ids=["2", "3"], contexts=["x", "y"])
        joined = ResponseSets.concat([one, two])
        assert responses_of(joined) == [["a"], ["b", "c"], ["d"]]
        assert joined.frame["score"].to_list() == [1, None, None]
        assert joined.frame["context"].to_list() == [None, "x", "y"]
        assert joined.explicit_ids

    @ANY_FOLDER
    @given(sets=st.lists(st.lists(HOSTILE_TEXT, min_size=1, max_size=3), min_size=1, max_size=6), data=st.data())
    def test_selecting_the_parts_and_joining_them_gives_the_whole(
        self, sets: list[list[str]], data: st.DataObject
    ) -> None:
        table = ResponseSets.of(sets)
        cut = data.draw(st.integers(1, len(sets)))
        parts = [table.select(np.arange(cut))] + ([table.select(np.arange(cut, len(sets)))] if cut < len(sets) else [])
        assert responses_of(ResponseSets.concat(parts)) == sets

    def test_columns_named_for_both_sets_and_texts_are_an_error(self) -> None:
        with raises(OptionError, option="responses"):
            Reading(responses="a", text="b")
        with raises(OptionError, option="empty_cells"):
            Reading(empty_cells="skip")  # type: ignore[arg-type]


RATING: dict[str, Any] = {"item": ["a"], "rater": [7], "question": ["q"], "value": ["4.5"]}
TOKENS: dict[str, Any] = {"prompt": ["p"], "text": ["t"], "kind": ["human"], "token_logprobs": [[-1, -2]]}


class TestPlainTables:
    def test_ratings_take_numbers_and_names_as_they_come(self) -> None:
        ratings = Ratings(pl.DataFrame(RATING | {"time": [3]}))
        assert ratings.frame.to_dicts() == [{"item": "a", "rater": "7", "question": "q", "value": 4.5, "time": 3}]
        assert len(ratings) == 1

    def test_token_scores_take_lists_of_numbers(self) -> None:
        assert TokenScores(pl.DataFrame(TOKENS)).frame["token_logprobs"].to_list() == [[-1.0, -2.0]]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"value": ["many"]}, "column 'value': row 0: 'many'; expected a number"),
            ({"value": [None]}, "column 'value': row 0: null; expected a number"),
            ({"value": [math.nan]}, "column 'value': row 0: float nan; expected a number"),
            ({"value": [[1.0]]}, "column 'value': holds List(Float64); expected a number per row"),
            ({"value": [{"a": 1}]}, "column 'value': holds Struct"),
            ({"item": [["a"]]}, "column 'item': holds List(String); expected text per row"),
            ({"item": [None]}, "column 'item': row 0: null; expected text"),
        ],
    )
    def test_wrong_ratings_are_errors(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(DataError) as caught:
            Ratings(pl.DataFrame(RATING | change))
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"token_logprobs": ["x"]}, "column 'token_logprobs': holds String; expected a list of numbers per row"),
            ({"token_logprobs": [-1.0]}, "column 'token_logprobs': holds Float64; expected a list of numbers per row"),
            ({"token_logprobs": [[None]]}, "row 0: a log-probability is null or NaN; expected numbers"),
            ({"token_logprobs": [[math.nan]]}, "row 0: a log-probability is null or NaN; expected numbers"),
            ({"token_logprobs": [None]}, "column 'token_logprobs': row 0: null; expected a list of numbers"),
        ],
    )
    def test_wrong_token_scores_are_errors(self, change: dict[str, Any], message: str) -> None:
        frame = pl.DataFrame(TOKENS | change)
        if frame.schema["token_logprobs"] == pl.Null:
            frame = frame.cast({"token_logprobs": pl.List(pl.Float64)})
        with pytest.raises(DataError) as caught:
            TokenScores(frame)
        assert message in str(caught.value)

    def test_missing_columns_and_empty_tables_are_errors(self) -> None:
        with raises(DataError, column="rater"):
            Ratings(pl.DataFrame({"item": ["a"]}))
        with pytest.raises(DataError, match="the table has no rows"):
            Ratings(pl.DataFrame(RATING).clear())
