"""The catalogue of datasets: what it says holds for the files that a user has, and nothing is needed to read it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nlgauge.data.datasets import (
    DataFile,
    Dataset,
    catalogue,
    count_records,
    data_dir,
    dataset_path,
    find_dataset,
    verify,
)
from nlgauge.errors import DataError, UnknownName
from tests.errors import raises

CSV = b'id, text\n1,"two\nlines"\n2,"a, b"\n\n3,c\n'
LINES = b"one\n\n  \ntwo\r\nthree"
JSON = b'{"a": [1, 2], "b": []}'


def data_file(path: str, content: bytes, **more: object) -> DataFile:
    expected = {"path": path, "sha256": hashlib.sha256(content).hexdigest()}
    return DataFile(**expected, **more)  # type: ignore[arg-type]


SMALL = Dataset(
    name="small",
    summary="Three files",
    papers=("Somebody 2020",),
    url="https://example.org/small",
    licence="MIT",
    folder="small",
    files=(
        data_file("small/table.csv", CSV, records=3, counted="csv"),
        data_file("small/deep/lines.txt", LINES, records=3, counted="lines", original="raw/lines.txt"),
        data_file("small/entries.json", JSON, records=2, counted="json"),
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small" / "deep").mkdir(parents=True)
    for file, content in zip(SMALL.files, (CSV, LINES, JSON), strict=True):
        (tmp_path / file.path).write_bytes(content)
    return tmp_path


def run(*arguments: str, data: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "NLGAUGE_DATA"}
    if data is not None:
        environment["NLGAUGE_DATA"] = data
    command = [sys.executable, "-m", "nlgauge.cli.main", "data", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def place_file(folder: Path, path: str, content: bytes = b"x\n") -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(content)


class TestCatalogue:
    def test_every_dataset_says_what_it_is_and_where_to_get_it(self) -> None:
        for name, dataset in catalogue().items():
            assert dataset.name == name
            assert dataset.url.startswith(("https://", "http://"))
            assert all((dataset.summary, dataset.papers, dataset.licence, dataset.files))

    def test_every_file_has_records_a_hash_and_a_name_of_its_own(self) -> None:
        for dataset in catalogue().values():
            assert len({file.name for file in dataset.files}) == len(dataset.files)
            for file in dataset.files:
                assert file.path.startswith(dataset.folder + "/")
                assert file.records > 0
                assert len(bytes.fromhex(file.sha256)) == 32

    def test_an_unknown_name_is_answered_with_the_nearest(self) -> None:
        with raises(UnknownName, name="mcdiv-nugets", nearest="mcdiv-nuggets"):
            find_dataset("mcdiv-nugets")


class TestVerify:
    def test_files_as_expected_are_ok(self, folder: Path) -> None:
        checks = verify(SMALL, folder)
        assert [(check.state, check.records) for check in checks] == [("ok", 3), ("ok", 3), ("ok", 2)]
        assert [check.sha256 for check in checks] == [file.sha256 for file in SMALL.files]
        assert str(checks[0]) == "3 records"

    def test_a_missing_file_is_told_with_its_name_at_the_source(self, folder: Path) -> None:
        (folder / "small/deep/lines.txt").unlink()
        check = verify(SMALL, folder)[1]
        assert (check.state, check.records, check.sha256) == ("missing", None, None)
        assert str(check) == "expected 3 records; found no file (at the source: raw/lines.txt)"
        assert SMALL.present(folder) == 2

    def test_a_changed_file_is_told_with_both_counts_and_hashes(self, folder: Path) -> None:
        changed = CSV + b"4,d\n"
        (folder / "small/table.csv").write_bytes(changed)
        check = verify(SMALL, folder)[0]
        found = hashlib.sha256(changed).hexdigest()
        assert (check.state, check.records, check.sha256) == ("changed", 4, found)
        assert f"expected 3 records with SHA-256 {SMALL.files[0].sha256}; found 4 records" in str(check)
        assert found in str(check)

    def test_line_ends_of_another_system_are_a_change_with_the_same_records(self, folder: Path) -> None:
        (folder / "small/table.csv").write_bytes(CSV.replace(b"\n", b"\r\n"))
        check = verify(SMALL, folder)[0]
        assert (check.state, check.records) == ("changed", 3)

    @pytest.mark.parametrize(
        ("file", "content"),
        [(0, b'a,b\n1,"open\n'), (0, b"a\n\xff\n"), (2, b"{"), (2, b"5"), (2, b"\xff"), (2, b"[" * 100_000)],
    )
    def test_a_damaged_file_is_changed_without_a_count(self, folder: Path, file: int, content: bytes) -> None:
        (folder / SMALL.files[file].path).write_bytes(content)
        check = verify(SMALL, folder)[file]
        assert (check.state, check.records) == ("changed", None)
        assert "found records that cannot be counted" in str(check)

    def test_a_folder_in_place_of_a_file_is_a_missing_file(self, folder: Path) -> None:
        (folder / "small/entries.json").unlink()
        (folder / "small/entries.json").mkdir()
        assert verify(SMALL, folder)[2].state == "missing"

    def test_advice_says_where_from_and_where_to(self) -> None:
        advice = replace(SMALL, note="unpack it first").advice
        assert advice.startswith(
            "get it from https://example.org/small (unpack it first) and put its files into 'small'"
        )


class TestPlaces:
    def test_the_given_folder_comes_before_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = tmp_path / "other"
        other.mkdir()
        monkeypatch.setenv("NLGAUGE_DATA", str(tmp_path))
        assert data_dir(None) == tmp_path
        assert data_dir(str(other)) == other

    def test_without_a_folder_the_error_says_what_to_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NLGAUGE_DATA", "")
        with raises(DataError, option="data_dir"):
            data_dir(None)

    def test_a_folder_that_is_none_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_text("x")
        with raises(DataError, option="data_dir", file="file"):
            data_dir(tmp_path / "file")
        monkeypatch.setenv("NLGAUGE_DATA", str(tmp_path / "none"))
        with raises(DataError, option="data_dir", file="none"):
            data_dir()

    def test_a_dataset_is_found_by_name_and_a_file_by_path_or_base_name(self, tmp_path: Path) -> None:
        path = "diversity_eval/conTest/con_test_200_with_hds_resp_gen.csv"
        place_file(tmp_path, path)
        assert dataset_path("con-test", tmp_path) == tmp_path / "diversity_eval" / "conTest"
        for name in (path, Path(path).name):
            assert dataset_path("con-test", tmp_path, file=name) == tmp_path / path

    def test_a_dataset_that_is_not_there_says_where_to_get_it(self, tmp_path: Path) -> None:
        with raises(DataError, file="huse"):
            dataset_path("huse", tmp_path)
        with raises(DataError, file="summary_clean.csv"):
            dataset_path("huse", tmp_path, file="summary_clean.csv")
        with raises(UnknownName, name="summary.csv", nearest="summary_clean.csv"):
            dataset_path("huse", tmp_path, file="summary.csv")


class TestCommand:
    @pytest.mark.parametrize("command", [(), ("list",), ("path",), ("verify",)])
    def test_help_has_an_example(self, command: tuple[str, ...]) -> None:
        assert "Example:\n\n    nlgauge data" in run(*command, "--help").stdout

    def test_list_shows_every_dataset_and_which_are_here(self, tmp_path: Path) -> None:
        place_file(tmp_path, "usr/pc_usr_data.json")
        place_file(tmp_path, "huse/summary_clean.csv")
        done = run("list", "--data-dir", str(tmp_path))
        states = {line.split("  ")[0]: line.split()[1:4] for line in done.stdout.splitlines()}
        assert states.keys() - {"name"} == catalogue().keys()
        assert states["usr-personachat"][0] == "yes"
        assert states["huse"] == ["1", "of", "3"]
        assert states["mans"][0] == "-"
        assert (done.returncode, done.stderr) == (0, "")

    def test_list_needs_no_data_folder(self) -> None:
        done = run("list")
        assert done.returncode == 0
        assert "no data folder; name it with --data-dir or set NLGAUGE_DATA" in done.stderr

    def test_list_as_json_has_everything(self, tmp_path: Path) -> None:
        place_file(tmp_path, "huse/summary_clean.csv")
        document = json.loads(run("list", "--format", "json", data=str(tmp_path)).stdout)
        entries = {entry["name"]: entry for entry in document["datasets"]}
        assert entries.keys() == catalogue().keys()
        assert (entries["huse"]["files_here"], entries["mans"]["files_here"]) == (1, 0)
        assert entries["huse"]["url"] == "https://github.com/hughbzhang/HUSE"
        assert {file["path"]: file["records"] for file in entries["huse"]["files"]}["huse/summary_clean.csv"] == 200

    def test_list_in_another_format_is_an_error(self) -> None:
        done = run("list", "--format", "xml")
        assert done.returncode == 2
        assert "unknown format 'xml'" in done.stderr

    def test_path_prints_the_folder_or_the_file(self, tmp_path: Path) -> None:
        place_file(tmp_path, "huse/summary_clean.csv")
        assert run("path", "huse", data=str(tmp_path)).stdout == f"{tmp_path / 'huse'}\n"
        printed = run("path", "huse", "summary_clean.csv", "--data-dir", str(tmp_path)).stdout
        assert printed == f"{tmp_path / 'huse' / 'summary_clean.csv'}\n"

    def test_path_of_what_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        for arguments, message in (
            (("hues",), "did you mean 'huse'"),
            (("huse",), "get it from https://github.com/hughbzhang/HUSE"),
        ):
            done = run("path", *arguments, data=str(tmp_path))
            assert (done.returncode, done.stdout) == (2, "")
            assert message in done.stderr

    def test_verify_prints_a_line_a_file_and_fails_on_a_finding(self, tmp_path: Path) -> None:
        place_file(tmp_path, "huse/summary_clean.csv", b"HumanJudgement\n4\n5\n")
        done = run("verify", "huse", "huse", "usr-personachat", "--data-dir", str(tmp_path))
        assert done.returncode == 1
        lines = done.stdout.splitlines()
        assert [line.split()[0] for line in lines] == ["missing", "missing", "changed", "missing"]
        assert "huse/summary_clean.csv  expected 200 records with SHA-256" in lines[2]
        assert "found 2 records" in lines[2]
        assert "nlgauge: huse: get it from https://github.com/hughbzhang/HUSE" in done.stderr

    def test_verify_of_an_unknown_name_checks_nothing(self, tmp_path: Path) -> None:
        done = run("verify", "huse", "mens", "--data-dir", str(tmp_path))
        assert (done.returncode, done.stdout) == (2, "")
        assert "did you mean 'mans'" in done.stderr


class TestResearchData:
    def test_every_file_of_every_dataset_verifies(self, research_data: Path) -> None:
        done = run("verify", data=str(research_data))
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) == sum(len(dataset.files) for dataset in catalogue().values())

    def test_every_file_has_as_many_records_as_the_catalogue_says(self, research_data: Path) -> None:
        for dataset in catalogue().values():
            for file in dataset.files:
                assert count_records(research_data / file.path, file.counted) == file.records, file.path
