"""Tables of any columns, and ratings: long or wide, each rating with its place."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.data.human.ratings import read_ratings
from nlgauge.data.plain_tables import read_cells, read_table
from nlgauge.errors import DataError, OptionError
from tests.helpers import PACKINGS, write_packed

CSV = b'name, note , score,rate\n007,"a, b\nc",3, .5\nx," ""q"" ",4,1e-3\n'
LONG = "item,rater,question,value\na,w1,fluent,4\na,w2,fluent,5\nb,w1,fluent,1.5\na,w1,clear,2\n"
WIDE = "item,rating_1,rating_2,rating_10\na,4,,2\nb, 3 ,1,\n"


def save(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    return read_ratings(path, **options).frame.rows()


class TestPlainTables:
    @pytest.mark.parametrize("packing", PACKINGS)
    def test_a_csv_of_any_columns_is_read_however_it_is_packed(self, tmp_path: Path, packing: str) -> None:
        frame = read_table(write_packed(tmp_path / "a.csv", CSV, packing))
        assert frame.to_dicts() == [
            {"name": "007", "note": "a, b\nc", "score": 3, "rate": 0.5},
            {"name": "x", "note": ' "q" ', "score": 4, "rate": 0.001},
        ]
        assert frame.schema["score"] == pl.Int64

    def test_cells_of_a_csv_stay_text_when_asked_and_know_their_lines(self, tmp_path: Path) -> None:
        cells, origin = read_cells(save(tmp_path, "a.csv", "n\n007\n\n8\n"))
        assert cells["n"].to_list() == ["007", "8"]
        assert list(origin.lines if origin.lines is not None else []) == [2, 4]

    def test_a_named_format_overrides_the_name(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.txt", "x\ty\n1\ttwo\n")
        assert read_table(path, format="tsv").to_dicts() == [{"x": 1, "y": "two"}]

    def test_json_lines_keep_the_kind_of_their_values(self, tmp_path: Path) -> None:
        lines = '{"zip": "01", "n": 1, "scores": [1]}\n\n{"n": 2.5, "scores": [2, 0.5], "more": {"ok": true}}\n'
        assert read_table(save(tmp_path, "a.jsonl", lines)).to_dicts() == [
            {"zip": "01", "n": 1.0, "scores": [1.0], "more": None},
            {"zip": None, "n": 2.5, "scores": [2.0, 0.5], "more": {"ok": True}},
        ]

    @given(
        st.lists(
            st.dictionaries(
                st.sampled_from("abc"), st.none() | st.text(st.characters(exclude_categories=["Cs"])), min_size=1
            ),
            min_size=1,
        )
    )
    def test_texts_of_json_lines_come_back_as_they_were(self, rows: list[dict[str, str | None]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = save(Path(folder), "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
            read = read_table(path).to_dicts()
        assert [{k: v for k, v in row.items() if v is not None} for row in read] == [
            {k: v for k, v in row.items() if v is not None} for row in rows
        ]

    def test_parquet_keeps_its_types(self, tmp_path: Path) -> None:
        frame = pl.DataFrame({"x": [1, 2], "y": [["a"], []], "z": [True, None]})
        frame.write_parquet(tmp_path / "a.parquet")
        assert read_table(tmp_path / "a.parquet").equals(frame)

    def test_a_table_longer_than_a_chunk_is_read_whole(self, tmp_path: Path) -> None:
        many = 300_000
        path = save(tmp_path, "a.csv", "n,word\n" + "".join(f"{i},word {i}\n" for i in range(many)))
        assert path.stat().st_size > 2 << 20
        frame = read_table(path)
        assert frame["n"].to_list() == list(range(many))
        assert frame["word"][-1] == f"word {many - 1}"

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.csv", "x,y\n1,2\n1\n", "a.csv, line 3: 1 fields; expected 2 as in the header"),
            ("a.csv", "x, x\n1,2\n", "a.csv, line 1, column 'x': is duplicated in the header"),
            ("a.csv", "x\n", "a.csv: the file has no records"),
            ("a.csv", "", "a.csv: the file is empty"),
            ("a.csv", b"x\na\n\xff\n", "a.csv, line 3: byte 0xff is not UTF-8"),
            ("a.jsonl", '{"x": 1}\n{"x": \n', "a.jsonl, line 2: invalid JSON"),
            ("a.jsonl", '{"x": 1}\n{"x": "a"}\n', "a.jsonl, line 1, column 'x': int 1 stands among values of another"),
            ("a.jsonl", '{"x": "a"}\n{"x": 1}\n', "a.jsonl, line 2, column 'x': int 1 stands among values of another"),
            ("a.jsonl", '{"x": [true]}\n{"x": [2]}\n', "a.jsonl, line 1, column 'x': list [True] stands among"),
            ("a.jsonl", '{"x": [1]}\n{"x": {"a": 1}}\n', "a.jsonl, column 'x': its values do not go into one column"),
            ("a.jsonl", "{}\n", "a.jsonl: the records are empty; expected at least one column"),
            ("a.parquet", "PAR", "a.parquet: is not a readable Parquet file"),
            (
                "a.txt",
                "one\n",
                "a.txt: is plain text, which has no columns; expected a table (jsonl, csv, tsv, parquet)",
            ),
            ("a.json", "[1]", "a.json: cannot tell the format from the name"),
        ],
    )
    def test_a_bad_table_is_an_error_that_names_the_place(
        self, tmp_path: Path, name: str, content: str | bytes, message: str
    ) -> None:
        with pytest.raises(DataError) as caught:
            read_table(save(tmp_path, name, content))
        assert message in str(caught.value)

    def test_plain_text_is_no_format_of_a_table(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="format 'text'; expected one of jsonl, csv, tsv, parquet"):
            read_table(save(tmp_path, "a.csv", "x\n1\n"), format="text")

    def test_a_published_header_with_spaces_is_read(self, research_data: Path) -> None:
        frame = read_table(research_data / "huse" / "summary_clean.csv")
        assert frame.columns == ["HumanJudgement", "ModelProbability", "Label", "LengthOfUtterance"]
        assert frame.height == 200
        assert frame.schema["ModelProbability"] == pl.Float64


class TestLong:
    def test_one_row_a_rating(self, tmp_path: Path) -> None:
        assert rows_of(save(tmp_path, "a.csv", LONG), scale=(1, 5)) == [
            ("a", "w1", "fluent", 4.0),
            ("a", "w2", "fluent", 5.0),
            ("b", "w1", "fluent", 1.5),
            ("a", "w1", "clear", 2.0),
        ]

    def test_columns_go_by_the_names_that_options_give_them(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.tsv", "set_id\tworker\taspect\tscore\tnote\n1\tw\tform\t3\tx\n")
        assert rows_of(path, item="set_id", rater="worker", question="aspect", value="score") == [
            ("1", "w", "form", 3.0)
        ]

    def test_without_a_question_column_the_question_is_the_value_column(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "item,rater,overall\na,w,3\n")
        assert rows_of(path, value="overall") == [("a", "w", "overall", 3.0)]

    def test_names_keep_their_leading_zeros(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "item,rater,value\n007,01,3\n7,1,4\n")
        assert [row[:2] for row in rows_of(path)] == [("007", "01"), ("7", "1")]

    def test_pair_and_time_are_kept_and_other_columns_are_not(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "pair,time,item,rater,value,note\n0-2,12,a,w,3,x\n1-2,,a,w,4,y\n")
        frame = read_ratings(path).frame
        assert frame.columns == ["item", "rater", "question", "value", "pair", "time"]
        assert frame.select("pair", "time").rows() == [("0-2", "12"), ("1-2", None)]

    def test_json_and_parquet_give_the_same_as_csv(self, tmp_path: Path) -> None:
        expected = read_ratings(save(tmp_path, "a.csv", LONG)).frame
        expected.write_ndjson(tmp_path / "a.jsonl")
        expected.write_parquet(tmp_path / "a.parquet")
        assert read_ratings(tmp_path / "a.jsonl").frame.equals(expected)
        assert read_ratings(tmp_path / "a.parquet").frame.equals(expected)

    def test_numbers_are_names_too(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.jsonl", '{"item": 7, "rater": 1, "value": 3}\n')
        assert rows_of(path) == [("7", "1", "value", 3.0)]


class TestWide:
    def test_each_column_is_a_rater_and_an_empty_cell_is_no_rating(self, tmp_path: Path) -> None:
        assert rows_of(save(tmp_path, "a.csv", WIDE), value="rating_*", scale=(1, 5)) == [
            ("a", "rating_1", "rating", 4.0),
            ("a", "rating_10", "rating", 2.0),
            ("b", "rating_1", "rating", 3.0),
            ("b", "rating_2", "rating", 1.0),
        ]

    def test_null_is_no_rating_either(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.jsonl", '{"item": "a", "r1": 4, "r2": null}\n{"item": "b", "r1": null, "r2": 2}\n')
        assert rows_of(path, value="r?") == [("a", "r1", "r", 4.0), ("b", "r2", "r", 2.0)]

    def test_question_and_pair_columns_go_along(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "item,pair,question,w1,w2\na,0-1,form,1,2\na,0-1,content,3,4\na,0-2,form,5,6\n")
        frame = read_ratings(path, value="w*").frame
        assert frame.select("rater", "question", "value", "pair").rows() == [
            ("w1", "form", 1.0, "0-1"), ("w2", "form", 2.0, "0-1"), ("w1", "content", 3.0, "0-1"),
            ("w2", "content", 4.0, "0-1"), ("w1", "form", 5.0, "0-2"), ("w2", "form", 6.0, "0-2"),
        ]  # fmt: skip

    def test_columns_that_play_another_part_are_not_raters(self, tmp_path: Path) -> None:
        path = save(tmp_path, "a.csv", "item,pair,time,x\na,0-1,9,3\n")
        assert read_ratings(path, value="*").frame["rater"].to_list() == ["x"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (LONG, {"scale": (2, 5)}, "line 4, column 'value': the rating 1.5 is outside the scale; expected 2 to 5"),
        (WIDE, {"value": "rating_*", "scale": (2, 5)}, "line 3, column 'rating_2': the rating 1 is outside the scale"),
        (LONG.replace("1.5", "good"), {}, "line 4, column 'value': 'good'; expected a number"),
        (LONG.replace("1.5", "nan"), {}, "line 4, column 'value': 'nan'; expected a number"),
        (LONG.replace("1.5", "inf"), {}, "line 4, column 'value': 'inf'; expected a number"),
        (LONG.replace("1.5", " "), {}, "line 4, column 'value': the cell is empty; expected a number"),
        (WIDE.replace("3", "x"), {"value": "rating_*"}, "line 3, column 'rating_1': 'x'; expected a number"),
        (LONG.replace("b,", " ,"), {}, "line 4, column 'item': the cell is empty; expected the name of the item"),
        (LONG.replace("w2", ""), {}, "line 3, column 'rater': the cell is empty; expected the name of the rater"),
        (
            LONG + "a,w2,fluent,3\n",
            {},
            "line 6: rater 'w2' rated item 'a', question 'fluent' twice: 5 on line 3 and 3 on line 6; expected one",
        ),
        (
            "item,rater,value,pair\na,w,1,0-1\na,w,2,0-2\na,w,3,0-1\n",
            {},
            "line 4: rater 'w' rated item 'a', pair '0-1', question 'value' twice: 1 on line 2 and 3 on line 4",
        ),
        (WIDE + "a,1,1,1\n", {"value": "rating_*"}, "line 4: rater 'rating_1' rated item 'a', question 'rating' twice"),
        ("item,rater,score\na,w,1\n", {}, "column 'value': no such column; found item, rater, score; name the"),
        ("item,value\na,1\n", {}, "column 'rater': no such column; found item, value; name the column with"),
        ("rater,value\na,1\n", {}, "column 'item': no such column"),
        (LONG, {"question": "aspect"}, "column 'aspect': no such column"),
        (WIDE, {"value": "score_*"}, "column 'score_*': no such column; found item, rating_1, rating_2, rating_10"),
        ("item,rater,v1,v2\na,w,1,2\n", {"value": "v*"}, "column 'rater': this column has the raters, so 'v*'"),
        ("item,v1,v2\na,,\n", {"value": "v*"}, "column 'v*': every cell is empty; expected ratings"),
    ],
)  # fmt: skip
def test_wrong_ratings_are_errors_that_name_the_place(
    tmp_path: Path, content: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        read_ratings(save(tmp_path, "ratings.csv", content), **options)
    assert "ratings.csv" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"item": "a", "rater": "w", "value": true}', "line 1, column 'value': 'True'; expected a number"),
        ('{"item": "a", "rater": "w", "value": null}', "line 1, column 'value': the cell is empty; expected a number"),
        ('{"item": "a", "rater": "w", "value": [1]}', "column 'value': holds List(Int64); expected one number per row"),
        ('{"item": null, "rater": "w", "value": 1}', "line 1, column 'item': null; expected text"),
        ('{"item": ["a"], "rater": "w", "value": 1}', "column 'item': holds List(String); expected text per row"),
    ],
)
def test_values_of_json_that_are_no_ratings_are_errors(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_ratings(save(tmp_path, "a.jsonl", line + "\n"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"item": "x", "rater": "x"}, "the column 'x' has two roles"),
        ({"scale": (5, 1)}, "a scale from 5 to 1; expected the lowest and the highest rating"),
        ({"scale": (1, math.inf)}, "a scale from 1 to inf"),
        ({"format": "text"}, "format 'text'"),
    ],
)
def test_options_that_make_no_sense_are_errors(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_ratings(save(tmp_path, "a.csv", LONG), **options)
    assert message in str(caught.value)
