"""The identity of a model: a hash of every file of its folder that decides what it gives.

A file is hashed once and remembered in the cache under its path, size, inode and times; any change of these, whatever
the clock says, means that it is hashed again. What was fetched is compared with the hashes that it had then.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from nlgauge.engine.blobs import BlobStore
from nlgauge.errors import ModelError
from nlgauge.models.catalogue import CATALOGUE, ModelEntry

MANIFEST = "nlgauge-model.json"
CONVERTED = "gguf-"

_SHORT = 12
_KINDS = {".jinja", ".json", ".model", ".npy", ".parquet", ".safetensors", ".tiktoken", ".txt"}
_WEIGHTS = (".safetensors", ".npy")
_NO_PART = re.compile(
    r"\..*|(readme|licen[cs]e|notice|requirements).*|data_config\.json|nlgauge-model\.json", re.IGNORECASE
)
_NO_PART_FOLDER = re.compile(r"\..*|checkpoints?(-.*)?|onnx|openvino")
_PLACE_OF_CONVERSION = re.compile(rb'"_name_or_path": *"/[^"]*",?\s*')
_SETTLED_NS = 2_000_000_000  # a file that was changed less than two seconds ago may change again within the same time
_known: dict[bytes, str] = {}


class Fault(NamedTuple):
    """A file of a fetched model that is not as it was, and in which way."""

    file: str
    found: str

    def __str__(self) -> str:
        return f"{self.file} {self.found}"


def models_folder() -> Path:
    """Where fetched models live: `NLGAUGE_MODELS`, or the user's data folder."""
    if place := os.environ.get("NLGAUGE_MODELS"):
        return Path(place)
    from platformdirs import user_data_path

    return user_data_path("nlgauge") / "models"


def folder_identity(folder: Path) -> str:
    """A short hash of all in a folder that decides what the model gives; a fetched model is verified first.

    A model that was converted from a GGUF file has the hash of that file, which does not depend on who converted it.
    """
    found = file_digests(folder)
    if not any(name.endswith(_WEIGHTS) for name in found):
        raise ModelError(f"{folder}: no weights found; expected .safetensors files")
    if faults(folder, found):
        found = file_digests(folder, again=True)  # what was remembered of it may be damaged itself
    if wrong := faults(folder, found):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ModelError(f"{folder}: {wrong[0]} since the model was fetched{more}; {_remedy(folder)}")
    if _is_fetched(folder):
        if folder.name.startswith(CONVERTED):
            return folder.name.removeprefix(CONVERTED)
        if CATALOGUE[folder.name].converted:
            return catalogue_identity(CATALOGUE[folder.name])
    return _combined(found)


def catalogue_identity(entry: ModelEntry) -> str:
    """The identity of a model of the catalogue as its package has it."""
    return next(iter(entry.hashes.values()))[:_SHORT] if entry.converted else _combined(entry.hashes)


def check_unchanged(folder: Path, identity: str) -> None:
    """An error when a folder is not what it was when its identity was taken."""
    if (found := folder_identity(folder)) != identity:
        raise ModelError(
            f"{folder}: changed while it was in use: its hash is now {found}; expected {identity}, as when it was "
            "loaded; nothing of it was kept: run again"
        )


def faults(folder: Path, found: Mapping[str, str]) -> list[Fault]:
    """Files that differ from those that were fetched; of a user's own folder nothing is known, and none do.

    A model of the hub's own cache has its hashes in the names of the files that the cache links to.
    """
    fetched = _is_fetched(folder)
    expected = _fetched_digests(folder) if fetched else _hub_digests(folder, found)
    wrong = [
        Fault(name, f"has changed (SHA-256 {found[name]}; expected {digest})" if name in found else "is missing")
        for name, digest in expected.items()
        if found.get(name) != digest
    ]
    return wrong + [Fault(name, "was added") for name in found if fetched and name not in expected]


def has_hashes(folder: Path) -> bool:
    """Whether there is anything to verify a folder against."""
    return _is_fetched(folder) or bool(_hub_digests(folder, _deciding_files(folder)))


def file_digests(folder: Path, *, again: bool = False) -> dict[str, str]:
    """SHA-256 of every file that decides what the model of a folder gives, by its name in the folder."""
    with _reading():
        return _digests(_deciding_files(folder), again=again)


def file_digest(file: Path) -> str:
    """SHA-256 of one file, remembered."""
    with _reading():
        return _digests({file.name: file})[file.name]


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Write what is known of a model that was fetched, with the hashes of its files."""
    (folder / MANIFEST).write_text(json.dumps({**about, "files": file_digests(folder)}))


def _is_fetched(folder: Path) -> bool:
    known = folder.name in CATALOGUE or folder.name.startswith(CONVERTED)
    return known and folder.absolute().parent == models_folder().absolute() and (folder / MANIFEST).is_file()


def _fetched_digests(folder: Path) -> dict[str, str]:
    """From the manifest, or the catalogue's where an older version wrote it or it is damaged."""
    entry = CATALOGUE.get(folder.name)
    kept = {} if entry is None else entry.converted or entry.hashes
    try:
        files: dict[str, str] = json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("files", {})
        return {**files, **({} if entry is None or entry.converted else kept)} if files else kept
    except (OSError, ValueError, AttributeError, TypeError) as error:
        if kept:
            return kept
        raise ModelError(f"{folder / MANIFEST}: damaged ({error}); delete the folder, and it is made again") from error


def _hub_digests(folder: Path, names: Mapping[str, Any]) -> dict[str, str]:
    real = {name: (folder / name).resolve() for name in names}
    return {name: file.name for name, file in real.items() if file.parent.name == "blobs" and len(file.name) == 64}


def _remedy(folder: Path) -> str:
    if folder.name.startswith(CONVERTED):
        return "delete the folder, and it is converted again"
    hub = folder.parent.parent.name  # models--ORG--MODEL/snapshots/REVISION
    name = folder.name if _is_fetched(folder) else hub.removeprefix("models--").replace("--", "/", 1)
    return f"run: nlgauge models fetch {name}, which replaces what is damaged"


def _deciding_files(folder: Path) -> dict[str, Path]:
    """Weights, tokeniser, settings, templates and modules, in the folder and in folders inside, linked ones too."""
    found = {}
    for pattern in ("*", "*/*", "*/*/*"):
        for file in folder.glob(pattern):
            place = file.relative_to(folder)
            if any(_NO_PART_FOLDER.fullmatch(part) for part in place.parts[:-1]) or _NO_PART.fullmatch(file.name):
                continue
            module = file.suffix == ".bin" and len(place.parts) > 1  # modules may have pickled weights of their own
            if (file.suffix in _KINDS or module) and file.is_file():
                found[place.as_posix()] = file
    return dict(sorted(found.items()))


def _digests(files: Mapping[str, Path], *, again: bool = False) -> dict[str, str]:
    store = BlobStore("file-digests")
    states = {name: _state(file) for name, file in files.items()}
    if not again and (unknown := [key for key, _ in states.values() if key not in _known]):
        _known.update({key: value.hex() for key, value in store.get_many(unknown).items()})
    found, fresh = {}, {}
    for name, (key, settled) in states.items():
        if not again and key in _known:
            found[name] = _known[key]
            continue
        found[name] = _digest(files[name])
        if _state(files[name])[0] != key:
            raise ModelError(f"{files[name]}: changed while it was read; wait until it is written, then run again")
        if settled and _known.get(key) != found[name]:
            fresh[key] = _known[key] = found[name]
    if fresh:
        store.put_many((key, bytes.fromhex(value)) for key, value in fresh.items())
    return found


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _state(file: Path) -> tuple[bytes, bool]:
    """All by which a change of a file shows, and whether it has been as it is for a while."""
    stat = file.stat()
    about = (str(file.absolute()), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    settled = time.time_ns() - stat.st_ctime_ns > _SETTLED_NS
    return hashlib.blake2b(repr(about).encode("utf-8", "surrogateescape"), digest_size=16).digest(), settled


def _digest(file: Path) -> str:
    """SHA-256 of what decides: not where a model was converted, nor how long its training took."""
    if file.name == "config.json":
        return hashlib.sha256(_PLACE_OF_CONVERSION.sub(b"", file.read_bytes())).hexdigest()
    if file.name == "training.json":
        return hashlib.sha256(_what_was_learnt(file.read_bytes())).hexdigest()
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _what_was_learnt(card: bytes) -> bytes:
    try:
        found = json.loads(card)
        return json.dumps([found["run"], found.get("measures")], sort_keys=True).encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        return card


def _combined(digests: Mapping[str, str]) -> str:
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()[:_SHORT]
