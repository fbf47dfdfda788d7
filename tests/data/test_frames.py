"""Datasets of Hugging Face, Arrow files and frames in memory are read as other files are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nlgauge.data import Items, ResponseSets, read
from nlgauge.data.frames import with_unique_ids
from nlgauge.errors import DataError, OptionError
from nlgauge.scoring.scoring import score
from tests.errors import raises
from tests.helpers import ANSWERS, QUESTIONS

FRAME = pl.DataFrame(
    {
        "id": list(QUESTIONS),
        "prompt": list(QUESTIONS.values()),
        "responses": list(ANSWERS.values()),
        "score": [1.5, None, 2.0],
    }
)


def responses_of(table: Any) -> dict[str, list[str]]:
    assert isinstance(table, ResponseSets)
    return dict(zip(table.ids, table.to_polars()["responses"].to_list(), strict=True))


def dataset(folder: Path, parts: Sequence[pl.DataFrame], **state: Any) -> Path:
    """A folder as `datasets.Dataset.save_to_disk` writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{i:05}-of-{len(parts):05}.arrow" for i in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        part.write_ipc_stream(folder / name)
    listed = {"_data_files": [{"filename": name} for name in names], "_split": "train", **state}
    (folder / "state.json").write_text(json.dumps(listed))
    (folder / "dataset_info.json").write_text("{}")
    return folder


class TestDatasets:
    def test_a_saved_dataset_is_read_in_the_order_of_its_shards(self, tmp_path: Path) -> None:
        folder = dataset(tmp_path / "saved", [FRAME[:2], FRAME[2:]])
        table = read(folder)
        assert responses_of(table) == ANSWERS
        assert table.frame["context"].to_list() == list(QUESTIONS.values())
        assert table.frame["score"].to_list() == FRAME["score"].to_list()
        without_ids = dataset(tmp_path / "bare", [FRAME[:2].drop("id"), FRAME[2:].drop("id")])
        assert read(without_ids).frame["id"].to_list() == ["1", "2", "3"]

    @pytest.mark.parametrize("write", ["write_ipc", "write_ipc_stream", "write_parquet"])
    def test_arrow_and_parquet_files_are_known_by_their_content(self, tmp_path: Path, write: str) -> None:
        getattr(FRAME, write)(tmp_path / "table.bin")
        assert responses_of(read(tmp_path / "table.bin")) == ANSWERS

    def test_columns_of_bytes_do_no_harm(self, tmp_path: Path) -> None:
        pictures = pl.Series("image", [{"bytes": b"\xff", "path": "a"}] * 3)
        frame = FRAME.with_columns(pictures, pl.Series("raw", [b"\x00"] * 3))
        table = read(dataset(tmp_path, [frame]))
        assert responses_of(table) == ANSWERS
        assert {"image", "raw"}.isdisjoint(table.frame.columns)

    def test_a_folder_of_parquet_files_of_one_split(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        for place, part in enumerate([FRAME[:1], FRAME[1:]]):
            part.write_parquet(tmp_path / "data" / f"train-0000{place}-of-00002.parquet")
        assert responses_of(read(tmp_path)) == ANSWERS
        FRAME.write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet")
        with pytest.raises(DataError, match=r"holds test-.*; expected the files of one split"):
            read(tmp_path)

    def test_one_split_is_taken_and_several_are_named(self, tmp_path: Path) -> None:
        for split in ("test", "train"):
            dataset(tmp_path / split, [FRAME])
        (tmp_path / "dataset_dict.json").write_text('{"splits": ["test"]}')
        assert responses_of(read(tmp_path)) == ANSWERS
        (tmp_path / "dataset_dict.json").write_text('{"splits": ["test", "train"]}')
        with pytest.raises(DataError, match=r"is a dataset of 2 splits; expected one: name its folder \(.*test, .*n\)"):
            read(tmp_path)
        assert responses_of(read(tmp_path / "train")) == ANSWERS

    @pytest.mark.parametrize(
        ("state", "says"),
        [
            ({"_data_files": [{"filename": "../secret.arrow"}]}, "names '../secret.arrow'; expected files beside it"),
            ({"_data_files": [{"filename": "/etc/passwd"}]}, "expected files beside it, by name alone"),
            ({"_data_files": [{"filename": "gone.arrow"}]}, "names gone.arrow, which does not exist"),
            ({"_data_files": []}, "names no data files"),
            ({"_data_files": 3}, "has no list of names '_data_files'"),
        ],
    )
    def test_a_bad_description_is_explained(self, tmp_path: Path, state: dict[str, Any], says: str) -> None:
        folder = dataset(tmp_path / "saved", [FRAME], **state)
        FRAME.write_ipc_stream(tmp_path / "secret.arrow")
        with pytest.raises(DataError) as raised:
            read(folder)
        assert says in str(raised.value)

    def test_shards_with_other_columns_are_not_mixed(self, tmp_path: Path) -> None:
        other = pl.DataFrame({"id": ["x"], "text": ["One."]})
        with raises(DataError, file="data-00001-of-00002.arrow"):
            read(dataset(tmp_path, [FRAME, other]))

    @pytest.mark.parametrize("write", ["write_ipc", "write_ipc_stream"])
    def test_a_truncated_file_is_an_error(self, tmp_path: Path, write: str) -> None:
        path = tmp_path / "table.arrow"
        getattr(FRAME, write)(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with raises(DataError, file="table.arrow"):
            read(path)

    def test_a_table_without_rows(self, tmp_path: Path) -> None:
        FRAME.clear().write_ipc_stream(tmp_path / "table.arrow")
        with raises(DataError, file="table.arrow"):
            read(tmp_path / "table.arrow")


class Arrow:
    """What any Arrow library offers: named columns behind the stream interface."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.column_names = frame.columns
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


class TestFrames:
    @pytest.mark.parametrize("make", [pl.DataFrame, pl.LazyFrame, Arrow])
    def test_frames_read_as_files_do(self, make: Callable[[pl.DataFrame], Any], tmp_path: Path) -> None:
        FRAME.write_parquet(tmp_path / "table.parquet")
        frame = make(FRAME) if make is not pl.LazyFrame else FRAME.lazy()
        table, expected = read(frame), read(tmp_path / "table.parquet")
        assert responses_of(table) == ANSWERS
        assert table.frame.equals(expected.frame)

    def test_pandas_frames_read_as_files_do(self) -> None:
        pandas = pytest.importorskip("pandas")
        numpy = pytest.importorskip("numpy")
        frame = pandas.DataFrame({name: FRAME[name].to_list() for name in FRAME.columns})
        assert responses_of(read(frame)) == ANSWERS
        assert read(frame).frame["score"].to_list() == [1.5, None, 2.0]
        frame["responses"] = [numpy.array(texts, dtype=object) for texts in ANSWERS.values()]
        assert responses_of(read(frame, extras=())) == ANSWERS

    def test_single_texts_wide_columns_and_named_columns(self) -> None:
        pandas = pytest.importorskip("pandas")
        items = read(pandas.DataFrame({"reply": ["One.", "Two."]}), text="reply")
        assert isinstance(items, Items)
        assert items.frame["id"].to_list() == ["0", "1"]
        wide = pl.DataFrame({"resp_0": ["a", "b"], "resp_1": ["c", "d"]})
        assert list(responses_of(read(wide)).values()) == [["a", "c"], ["b", "d"]]

    def test_missing_texts_and_other_objects_are_explained(self) -> None:
        pandas = pytest.importorskip("pandas")
        for missing in (None, float("nan"), pandas.NA):
            with raises(DataError, column="text"):
                read(pandas.DataFrame({"text": ["One.", missing]}))
        with raises(DataError, option="references", column="references"):
            read(pl.DataFrame({"text": ["a", "b"], "references": [["x"], None]}))
        for column in (FRAME["prompt"], pandas.Series(["One."])):
            with pytest.raises(DataError, match="expected the name of a file, or a frame"):
                read(column)
        with raises(DataError, option="responses"):
            read(pl.DataFrame({"a": [1]}))
        for options in ({"input_format": "csv"}, {"set_size": 2}, {"aligned": {"context": "a.txt"}}):
            with pytest.raises(OptionError) as refused:
                read(FRAME, **options)
            assert refused.value.option in options
        with pytest.raises(DataError) as duplicate:
            read(pandas.DataFrame([["a", "b"]], columns=["text", "text"]))
        assert duplicate.value.column == "text"

    def test_scores_are_those_of_the_texts_themselves(self, tmp_path: Path) -> None:
        metrics = ["distinct", "self-bleu"]
        expected = [one.value for one in score(list(ANSWERS.values()), metrics)]
        folder = dataset(tmp_path, [FRAME[:2], FRAME[2:]])
        assert [one.value for one in score(str(folder), metrics)] == expected
        assert [one.value for one in score(read(FRAME), metrics)] == expected


def test_equal_ids_of_high_and_low_sets_become_different_ones() -> None:
    frame = pl.DataFrame({"id": ["a", "a", "b", "c", "c", "c"], "label_value": [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]})
    assert with_unique_ids(frame)["id"].to_list() == ["a/1", "a/0", "b", "c/1", "c/0", "c/0/2"]
    by_system = frame.drop("label_value").with_columns(system=pl.Series(["x", "y", "x", "x", "y", "z"]))
    assert with_unique_ids(by_system)["id"].to_list() == ["a/x", "a/y", "b", "c/x", "c/y", "c/z"]
    for left in (
        frame.drop("label_value"),
        frame.with_columns(label_value=pl.Series([1, 1, 1, 1, 0, 0])),
        frame.filter(pl.col("id") == "b"),
    ):
        assert with_unique_ids(left)["id"].to_list() == left["id"].to_list()
