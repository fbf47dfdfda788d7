"""Wide tables cost time in proportion to their columns, or are refused at once with a reason."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import pytest

from nlgauge.data import read
from nlgauge.data.columns import numbered, wide_columns
from nlgauge.data.reading import Source
from nlgauge.errors import DataError
from tests.errors import raises

COLUMNS = 30_000


def test_a_date_in_a_name_is_no_number_of_columns_to_look_through() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="number 1 is missing"):
        wide_columns(["resp_0", "resp_20241118", "resp_999999999"], "resp", None)
    assert wide_columns(["resp_20241118"], "resp", None) == ("resp_20241118",)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resp_0", ("resp", 0)),
        ("resp-07", ("resp", 7)),
        ("resp3", ("resp", 3)),
        ("a_1_2", ("a_1", 2)),
        ("5", ("", 5)),
        ("resp_", None),
        ("resp", None),
        ("resp_" + "1" * 5_000, None),
        ("1" * 200_000 + "x", None),
    ],
)
def test_a_numbered_name_has_a_prefix_and_a_number(name: str, expected: tuple[str, int] | None) -> None:
    assert numbered(name) == expected


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize("name", ["resp_{}", "c{}"])
def test_many_columns_are_read_in_linear_time(tmp_path: Path, suffix: str, name: str) -> None:
    row = {"id": "a", **({} if name.startswith("resp") else {"text": "x"})}
    row |= {name.format(place): "x y" for place in range(COLUMNS)}
    header, cells = ",".join(row), ",".join(row.values())
    path = tmp_path / f"a{suffix}"
    path.write_text(json.dumps(row) + "\n" if suffix == ".jsonl" else f"{header}\n{cells}\n")
    start = time.process_time()
    assert len(read(str(path))) == 1
    assert time.process_time() - start < 8


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_too_many_columns_are_refused(tmp_path: Path, suffix: str) -> None:
    names = [*(f"c{place}" for place in range(150_000)), "text"]
    path = tmp_path / f"a{suffix}"
    line = ",".join(names)
    path.write_text(json.dumps(dict.fromkeys(names, "x")) if suffix == ".jsonl" else f"{line}\n{line}\n")
    start = time.process_time()
    with raises(DataError, file=path.name, line=None if suffix == ".jsonl" else 1):
        read(str(path))
    assert time.process_time() - start < 3


def test_a_name_of_its_own_in_every_record_is_refused_unless_nobody_asks_for_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "x y", "k{place}": 1}}\n' for place in range(8_000)))
    assert len(Source(path=str(path), extras=()).read()) == 8_000
    assert Source(path=str(path), extras=("k7",)).read().frame["k7"].sum() == 1
    with raises(DataError, file="a.jsonl"):
        read(str(path))
