"""Writing: tables come back as they were, whole or not at all, and safe to open in a spreadsheet."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlgauge.data import Items, Ratings, ResponseSets, TokenScores, read, write_table
from nlgauge.engine.files import atomic_path, check_writable, write_text
from nlgauge.errors import DataError, OptionError, OutputError
from tests.errors import raises

SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet")
SETS = ResponseSets.of(
    [["a, b", 'say "hi"'], ["c\nd", "👩‍🚀 e\u0301"], ["שלום", "tab\there"]],
    ids=["1", "2", "3"],
    contexts=["x", "y,\r\nz", "\u2028"],
    systems=["s", "s", "t"],
    columns={"score": [0.5, 1.5, -2.0], "n": [1, 2, 3]},
)
ITEMS = Items.of(["a", "b"], ids=["1", "2"], references=[["r", "s"], ["t", "u"]], columns={"score": [1.5, 2.0]})
RATINGS = Ratings(pl.DataFrame({"item": ["1"], "rater": ["w"], "question": ["how?"], "value": [4.0]}))
TOKENS = TokenScores(
    pl.DataFrame({"prompt": ["p"], "text": ["t"], "kind": ["human"], "token_logprobs": [[-1.25, -2.0]]})
)
HOSTILE = st.text(
    st.one_of(st.sampled_from("\n\r\"',\t\0\u0085\u2028\ufeff=+-@ 5"), st.characters(exclude_categories=["Cs"])),
    max_size=8,
)


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """As on a full disk, nothing in this process can write a file beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestRoundTrips:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_sets_come_back_from_every_format(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"sets{suffix}"
        write_table(SETS, path)
        table = read(str(path))
        assert isinstance(table, ResponseSets)
        assert table.to_polars().equals(SETS.to_polars())
        assert table.explicit_ids

    @pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
    def test_items_come_back_with_their_references(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"items{suffix}"
        write_table(ITEMS, path)
        table = read(str(path))
        assert isinstance(table, Items)
        assert table.frame.select(ITEMS.frame.columns).equals(ITEMS.frame)

    @pytest.mark.parametrize("suffix", [".csv", ".tsv"])
    def test_list_columns_are_spread_in_csv(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"items{suffix}"
        write_table(ITEMS, path)
        frame = pl.read_csv(path, separator="\t" if suffix == ".tsv" else ",")
        assert frame.columns == ["id", "score", "text", "references_0", "references_1"]
        assert frame["references_1"].to_list() == ["s", "u"]

    def test_sets_of_different_sizes_leave_empty_cells_in_csv(self, tmp_path: Path) -> None:
        path = tmp_path / "sets.csv"
        write_table(ResponseSets.of([["a"], ["b", "c"]], ids=["1", "2"]), path)
        assert path.read_text() == "id,resp_0,resp_1\n1,a,\n2,b,c\n"
        table = read(str(path), empty_cells="drop")
        assert isinstance(table, ResponseSets)
        assert table.to_polars()["responses"].to_list() == [["a"], ["b", "c"]]

    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_ratings_and_plain_frames_come_back_from_every_format(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"ratings{suffix}"
        readers: dict[str, Any] = {
            ".jsonl": pl.read_ndjson,
            ".csv": pl.read_csv,
            ".tsv": lambda place: pl.read_csv(place, separator="\t"),
            ".parquet": pl.read_parquet,
        }
        for table, frame in ((RATINGS, RATINGS.frame), (RATINGS.frame, RATINGS.frame)):
            write_table(table, path)
            assert Ratings(readers[suffix](path)).frame.equals(frame)

    @pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
    def test_token_scores_come_back(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"tokens{suffix}"
        write_table(TOKENS, path)
        frame = pl.read_ndjson(path) if suffix == ".jsonl" else pl.read_parquet(path)
        assert TokenScores(frame).frame.equals(TOKENS.frame)

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        rows=st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE), min_size=1, max_size=5),
        suffix=st.sampled_from(SUFFIXES),
    )
    def test_hostile_texts_come_back(self, tmp_path: Path, rows: list[tuple[str, str, str]], suffix: str) -> None:
        sets = ResponseSets.of(
            [[one, two] for _, one, two in rows], ids=[f"i{i}" for i in range(len(rows))], contexts=[r[0] for r in rows]
        )
        path = tmp_path / f"a{suffix}"
        write_table(sets, path)
        table = read(str(path), empty_cells="keep")
        assert isinstance(table, ResponseSets)
        assert [*table.texts, *table.frame["context"]] == [*sets.texts, *sets.frame["context"]]


class TestFormulaGuard:
    @pytest.mark.parametrize("suffix", [".csv", ".tsv"])
    @pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
    def test_a_text_that_would_run_as_a_formula_gets_an_apostrophe(
        self, tmp_path: Path, start: str, suffix: str
    ) -> None:
        text = f"{start}cmd|' /C calc'!A0"
        path = tmp_path / f"a{suffix}"
        write_table(Items.of([text], ids=["1"], contexts=[text]), path, spreadsheet=True)
        frame = read(str(path)).frame
        assert frame["text"].to_list() == ["'" + text]
        assert frame["context"].to_list() == ["'" + text]

    @pytest.mark.parametrize("number", ["-5", "+5", "-0.25", "-1e-3"])
    def test_a_negative_number_written_as_text_stays(self, tmp_path: Path, number: str) -> None:
        write_table(pl.DataFrame({"a": [number]}), tmp_path / "a.csv", spreadsheet=True)
        assert (tmp_path / "a.csv").read_text() == f"a\n{number}\n"

    def test_numbers_nulls_and_harmless_texts_stay(self, tmp_path: Path) -> None:
        write_table(
            pl.DataFrame({"a": [-1.5, None], "b": ["a=b", None], "c": ["", "'quoted'"]}),
            tmp_path / "a.csv",
            spreadsheet=True,
        )
        assert (tmp_path / "a.csv").read_text() == "a,b,c\n-1.5,a=b,\"\"\n,,'quoted'\n"

    def test_a_column_name_that_would_run_as_a_formula_gets_an_apostrophe(self, tmp_path: Path) -> None:
        write_table(pl.DataFrame({"=1+1": [1], "plain": [2]}), tmp_path / "a.csv", spreadsheet=True)
        assert (tmp_path / "a.csv").read_text() == "'=1+1,plain\n1,2\n"

    @pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
    def test_formats_that_spreadsheets_do_not_run_are_left_alone(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"a{suffix}"
        write_table(Items.of(["=1+1"], ids=["1"]), path)
        assert read(str(path)).frame["text"].to_list() == ["=1+1"]


class TestWholeOrNotAtAll:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_a_failing_write_leaves_the_old_file_and_no_temporary(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"a{suffix}"
        path.write_text("what was there before")
        large = pl.DataFrame({"id": [f"{i * 2654435761 % 2**32:x}" for i in range(20_000)]})
        with files_limited_to(16_384), pytest.raises(OutputError, match=rf"a\{suffix}: cannot be written: .*too large"):
            write_table(large, path)
        assert path.read_text() == "what was there before"
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
    def test_an_interrupted_write_leaves_the_old_file_and_no_temporary(
        self, tmp_path: Path, failure: type[BaseException]
    ) -> None:
        path = tmp_path / "a.txt"
        write_text(path, "old")

        def write_half() -> None:
            with atomic_path(path) as temporary:
                temporary.write_text("half of the n")
                raise failure

        with pytest.raises(failure):
            write_half()
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_finished_write_replaces_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        write_text(path, "old")
        write_text(path, "new é")
        assert path.read_text(encoding="utf-8") == "new é"
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
    def test_permissions_are_those_of_any_new_file(self, tmp_path: Path, umask: int, mode: int) -> None:
        before = os.umask(umask)
        try:
            write_table(SETS, tmp_path / "a.jsonl")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "a.jsonl").stat().st_mode) == mode

    def test_checking_that_a_place_is_writable_leaves_nothing_behind(self, tmp_path: Path) -> None:
        check_writable(tmp_path / "a.csv")
        assert list(tmp_path.iterdir()) == []


class TestRefusals:
    def test_an_unknown_suffix_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match=r"cannot write '\.xlsx'; expected \.jsonl, \.csv, \.tsv or \.parquet"):
            write_table(SETS, tmp_path / "a.xlsx")

    @pytest.mark.parametrize("value", [{"x": 1}, [["x"]], [{"x": 1}]])
    def test_nested_values_are_an_error_in_csv_that_names_the_column(self, tmp_path: Path, value: Any) -> None:
        with raises(DataError, file="a.csv", column="meta"):
            write_table(pl.DataFrame({"meta": [value]}), tmp_path / "a.csv")
        assert list(tmp_path.iterdir()) == []

    def test_spreading_a_list_never_overwrites_another_column(self, tmp_path: Path) -> None:
        sets = ResponseSets.of([["a", "b"]], columns={"resp_1": ["c"]})
        with raises(DataError, file="a.csv", column="resp_1"):
            write_table(sets, tmp_path / "a.csv")

    def test_a_folder_that_is_missing_or_no_folder_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        (tmp_path / "a.csv").mkdir()
        for place, message in (
            ("none/a.csv", "the folder '.*none' does not exist; create it first"),
            ("file/a.csv", "the folder '.*file' is not a folder; choose another"),
            ("a.csv", "is a folder; expected the name of a file"),
        ):
            with pytest.raises(OutputError, match=message):
                write_table(SETS, tmp_path / place)

    def test_a_folder_that_takes_no_files_is_an_error_even_for_the_superuser(self) -> None:
        with pytest.raises(OutputError, match=r"/proc/a\.csv: the folder '/proc' is not writable \(.*\); choose"):
            check_writable(Path("/proc/a.csv"))
