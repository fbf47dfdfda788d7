"""Values of dataclasses go to Parquet and come back as they were."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nlgauge.engine import saving
from nlgauge.engine.checksums import Damaged
from nlgauge.errors import DataError, NLGaugeError, OptionError
from tests.errors import raises
from tests.helpers import write_document


@dataclass(frozen=True)
class Inner:
    values: np.ndarray[Any, Any]
    names: pl.Series
    file: Path | None = None


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    number: float
    text: str
    nothing: None
    whole: np.int64
    table: pl.DataFrame


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    spill = tmp_path / "spilled"
    spill.write_bytes(b"abc")
    names = pl.Series("id", ["a", "ç", None])
    arrays = [
        rng.integers(0, 2**64, (3, 2), dtype=np.uint64),
        np.array([np.nan, np.inf, -0.0]),
        np.zeros((0, 4), np.int64),
        np.array([True, False]),
        np.arange(6, dtype=np.float32).reshape(1, 2, 3),
    ]
    inner = (*(Inner(array, names) for array in arrays), Inner(arrays[0], names, spill))
    table = pl.DataFrame({"id": ["a", "b"], "responses": [["x", "y"], []]})
    value = Outer(inner, 0.1 + 0.2, 'a "text"\n', None, np.int64(7), table)
    (tmp_path / "place").mkdir()
    saving.save(value, tmp_path / "place")
    (tmp_path / "place").rename(tmp_path / "moved")
    found = saving.load(tmp_path / "moved")
    assert (found.number, found.text, found.nothing, found.whole) == (0.1 + 0.2, 'a "text"\n', None, 7)
    for before, after in zip(inner, found.inner, strict=True):
        assert (before.values.dtype, before.values.shape) == (after.values.dtype, after.values.shape)
        np.testing.assert_array_equal(before.values, after.values)
        assert after.names.equals(names, check_names=True, null_equal=True)
    assert found.inner[0].names is found.inner[1].names
    assert found.inner[-1].file.read_bytes() == b"abc"
    assert found.table.equals(table)
    assert [pl.read_parquet(file).equals(table) for file in (tmp_path / "moved").glob("table-*")] == [True]
    assert not any(file.read_bytes().startswith(b"\x80") for file in (tmp_path / "moved").iterdir())  # no pickle


@pytest.mark.parametrize("name", ["rows-1000.parquet", "value.json", "0.data"])
def test_a_changed_file_is_noticed(tmp_path: Path, name: str) -> None:
    (tmp_path / "spilled").write_bytes(b"abc")
    (tmp_path / "place").mkdir()
    saving.save((np.arange(1000), tmp_path / "spilled"), tmp_path / "place")
    saving.check(tmp_path / "place")
    file = tmp_path / "place" / name
    content = file.read_bytes()
    for damaged in (content[:-2], content[:-2] + b"x" + content[-1:], None):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        with pytest.raises(Damaged, match=re.escape(name)):
            saving.check(tmp_path / "place")
        if name != "0.data":  # what stays on disk is checked before a run continues, not at each reading
            with raises(DataError, file=str(tmp_path / "place")):
                saving.load(tmp_path / "place")


@pytest.mark.parametrize("value", [{1, 2}, object(), np.array([object()]), {1: 2}])
def test_what_cannot_be_written_says_what_to_implement(value: object, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected frozen dataclasses of NumPy arrays"):
        saving.save((value,), tmp_path)


def test_a_class_that_nobody_has_loaded_is_not_imported(tmp_path: Path) -> None:
    write_document(tmp_path / "value.json", {"value": {"class": "antigravity:X", "fields": {}}, "files": {}})
    with pytest.raises(NLGaugeError, match="not loaded"):
        saving.load(tmp_path)
    assert "antigravity" not in sys.modules
