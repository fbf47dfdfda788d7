"""Columns are found by name or by their usual names, with one kind of error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nlgauge
from nlgauge.data.columns import Reading
from nlgauge.data.roles import find_column, names_in, numbers_in, refuse_unused, required_column
from nlgauge.errors import DataError, OptionError
from tests.helpers import nlgauge as command

NAMES = ["id", "hj", "human"]


def test_a_named_column_comes_before_the_usual_names() -> None:
    assert find_column(NAMES, "judgment", "id") == "id"
    assert find_column(NAMES, "judgment", None, usual=("judgment", "human", "hj")) == "human"


def test_the_usual_names_of_a_role_are_tried_in_order() -> None:
    assert find_column(NAMES, "judgment") == "hj"
    assert find_column(["label", "label_value"], "label") == "label_value"


def test_the_error_suggests_the_nearest_names() -> None:
    with pytest.raises(DataError) as error:
        find_column(["judgment_mean", "judgmnt", "other"], "judgment", "judgment")
    assert "did you mean 'judgmnt'" in str(error.value)
    assert error.value.option == "judgment"


@pytest.mark.parametrize("read", [names_in, numbers_in])
@pytest.mark.parametrize("column", ["x", "lists"])
def test_a_column_of_the_wrong_kind_has_file_column_and_option(read: Any, column: str) -> None:
    with pytest.raises(DataError) as error:
        read(pl.DataFrame({"lists": [[1]]}), column, option="truth", file="a.csv")
    assert (error.value.file, error.value.column, error.value.option) == ("a.csv", column, "truth")


def test_an_option_is_a_flag_on_the_command_line_and_a_keyword_in_python(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,score\n1,a b,1\n2,b c,2\n3,c d,3\n")
    with pytest.raises(DataError) as error:
        nlgauge.DecodingTest(columns=["score"]).run(tmp_path / "a.csv")
    assert error.value.option == "parameter"
    assert "parameter=" in str(error.value)
    shown = command("study", "decoding", "a.csv", "--column", "score", cwd=tmp_path, cache=tmp_path / "cache")
    assert shown.code == 2
    assert "--parameter" in shown.err
    assert "parameter=" not in shown.err


def test_an_optional_role_may_have_no_column() -> None:
    assert find_column(NAMES, "judgment", None, usual=("judgment",)) is None
    assert find_column(NAMES, "judgment", "", usual=("human",)) is None


@pytest.mark.parametrize(
    ("find", "given", "column"),
    [(find_column, "hg", "hg"), (required_column, None, "judgment"), (required_column, "", "judgment")],
)
def test_a_missing_column_is_an_error_with_column_file_and_option(
    find: Callable[..., str | None], given: str | None, column: str
) -> None:
    with pytest.raises(DataError) as error:
        find(NAMES, "judgment", given, usual=("judged",), file="a.csv")
    assert (error.value.column, error.value.file, error.value.option) == (column, "a.csv", "judgment")
    assert "found id, hj, human" in str(error.value)


def test_a_table_without_columns_and_without_a_name_says_so() -> None:
    with pytest.raises(DataError) as error:
        required_column([], "logp", file="", advice=", or score the texts with a model")
    assert error.value.file is None
    assert "found none; name the column with logp=, or score" in str(error.value)


def test_options_that_would_be_ignored_are_refused() -> None:
    refuse_unused(Reading(text="t"), ("text",), "leave it out")
    with pytest.raises(OptionError) as error:
        refuse_unused(Reading(text="t", one_set=True), ("text",), "leave it out")
    assert error.value.option == "one_set"
