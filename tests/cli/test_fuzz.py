"""A short, fixed run of the fuzzer; `make fuzz` runs as many cases as asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CASES = 80


def test_damaged_input_ends_in_a_result_or_an_error(tmp_path: Path) -> None:
    words = [sys.executable, str(BENCHMARKS / "fuzz.py"), "--cases", str(CASES), "--seed", "3"]
    done = subprocess.run(
        [*words, "--failures", str(tmp_path / "failures")],
        env={**os.environ, "NLGAUGE_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} cases" in done.stdout
    assert not list(tmp_path.glob("failures/*"))


def test_the_slow_reader_of_the_fuzzer_counts_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from fuzz import slow_scores

    lines = b'{"responses": ["a b", "a."]}\n\n{"responses": ["c"]}\n'
    assert slow_scores(lines, "a.jsonl") == {"": ((2 / 3 + 1) / 2, 2)}
    assert slow_scores(b'system,resp_1,resp_0\nx,"a\nb c",c\n', "a.csv") == {"x": (2 / 3, 1)}
