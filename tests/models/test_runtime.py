"""Where models run."""

from __future__ import annotations

from pathlib import Path

import pytest

from nlgauge.errors import OptionError
from nlgauge.models.runtime import Machine, out_of_memory
from tests.helpers import nlgauge


def test_a_machine_travels_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NLGAUGE_DEVICE", "NLGAUGE_BATCH_SIZE", "NLGAUGE_THREADS"):
        monkeypatch.setenv(variable, "")
    assert Machine.from_environment() == Machine(device="cpu")
    assert Machine().options == {}
    Machine(device="cuda:1", batch_size=8, threads=2).use()
    assert Machine.from_environment().options == {"device": "cuda:1", "batch_size": 8, "threads": 2}
    monkeypatch.setenv("NLGAUGE_THREADS", "many")
    with pytest.raises(OptionError, match="NLGAUGE_THREADS is 'many'"):
        Machine.from_environment()


def test_memory_that_ran_out_is_told_from_other_failures() -> None:
    assert out_of_memory(MemoryError())
    assert out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert not out_of_memory(RuntimeError("shapes do not match"))


def test_batch_size_and_threads_change_no_number(minilm: str, examples: Path, tmp_path: Path) -> None:
    file = tmp_path / "few.jsonl"
    file.write_text("\n".join((examples / "system_a.jsonl").read_text().splitlines()[:3]))
    arguments = ["score", str(file), "-m", "sent-sim", "--format", "csv"]
    plain = nlgauge(*arguments, cwd=tmp_path, cache=tmp_path / "one").out
    other = nlgauge(*arguments, "--batch-size", "2", "--threads", "1", cwd=tmp_path, cache=tmp_path / "two").out
    one, two = (float(text.splitlines()[1].split(",")[2]) for text in (plain, other))
    assert one == pytest.approx(two, abs=1e-6)


def test_a_device_that_does_not_exist_is_an_error(minilm: str, examples: Path, tmp_path: Path) -> None:
    run = nlgauge(
        "score", str(examples / "system_a.jsonl"), "-m", "sent-sim", "--device", "nowhere", cwd=tmp_path, cache=tmp_path
    )
    assert run.code == 2
    assert "nowhere" in run.err
    assert "Traceback" not in run.err
    run = nlgauge(
        "score", str(examples / "system_a.jsonl"), "-m", "sent-sim", "--threads", "-1", cwd=tmp_path, cache=tmp_path
    )
    assert run.code == 2
    assert "--threads -1; expected 0 (the default) or more" in run.err
