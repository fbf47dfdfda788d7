"""A cache on disk, keyed by content: safe for parallel runs, never stale, never pickled."""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
import tempfile
import warnings
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import polars as pl

from nlgauge.engine.checksums import CHECKSUM_BYTES, checksum, file_checksum
from nlgauge.errors import DataError, OptionError

_COMPUTING = ("data", "engine", "metrics", "models", "perturb", "scoring", "stats", "studies", "text")
_LIBRARIES = {
    *("faiss_cpu", "lemminflect", "nltk", "numba", "numpy", "polars", "pot", "rouge_score", "sacrebleu"),
    *("scikit_learn", "scipy", "sentence_transformers", "spacy", "tokenizers", "torch", "transformers"),
}
_WITH_HASH = re.compile(r"(.+)@([0-9a-f]{12})")


@lru_cache(maxsize=1)
def code_digest() -> str:
    """A hash of NLGauge's own code and of the versions of the libraries that compute for it.

    With another version of either, or with edited code, nothing that was kept before is used.
    """
    package = Path(__file__).parent.parent
    digest = hashlib.blake2b(" ".join(_libraries()).encode(), digest_size=8)
    for room in _COMPUTING:
        for file in sorted((package / room).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _libraries() -> list[str]:
    """Names and versions of libraries that are installed, without loading what reads all about packages."""
    found = {}
    for place in reversed(sys.path):
        for about in Path(place).glob("*.dist-info"):
            name, _, version = about.stem.lower().partition("-")
            if name in _LIBRARIES:
                found[name] = version
    return [f"{name} {version}" for name, version in sorted(found.items())]


@lru_cache(maxsize=64)
def _digest_of(path: str, *_state: int) -> str:
    return file_checksum(path)


def file_digest(path: str) -> str:
    """SHA-256 of a file's content, read again when anything about the file has changed."""
    try:
        stat = Path(path).stat()
        return _digest_of(path, stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error


def split_hash(spec: str) -> tuple[str, str]:
    """A file and the hash that a signature claims for it, as in `stop.txt@0123456789ab`; empty where there is none."""
    claim = _WITH_HASH.fullmatch(spec)
    return (claim[1], claim[2]) if claim else (spec, "")


def file_with_hash(spec: str, what: str) -> str:
    """`file@hash`, checked against the file if there is a hash already; `what` names its content for the error."""
    path, claimed = split_hash(spec)
    if Path(path).is_fifo():
        raise OptionError(f"{path}: is a pipe, which a signature cannot name; expected a file of {what}")
    digest = file_digest(path)[:12]
    if claimed and claimed != digest:
        raise OptionError(f"{path}: has hash {digest}; expected {claimed}: these are different {what}")
    return f"{path}@{digest}"


def cache_folder() -> Path:
    """Where cached results live: `NLGAUGE_CACHE`, or the user's cache folder."""
    if place := os.environ.get("NLGAUGE_CACHE"):
        return Path(place)
    from platformdirs import user_cache_path

    return user_cache_path("nlgauge")


class Cache:
    """Small tables under keys that are hashes of everything they depend on.

    An entry is written beside its place and moved there in one step, so that readers in other processes see all of it
    or nothing. It begins with a checksum; a damaged entry is removed with a warning and counts as absent.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder or cache_folder()) / "results"

    @staticmethod
    def key(*parts: str | bytes) -> str:
        """A key from everything that the entry depends on; NLGauge's own code is always part of it."""
        digest = hashlib.blake2b(code_digest().encode(), digest_size=20)
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.hexdigest()

    def _place(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.entry"

    def get(self, key: str) -> pl.DataFrame | None:
        """The entry, or None."""
        place = self._place(key)
        try:
            entry = place.read_bytes()
        except OSError:
            return None
        check, data = entry[:CHECKSUM_BYTES], entry[CHECKSUM_BYTES:]
        if check == checksum(key.encode(), data):
            return pl.read_ipc(data)
        warnings.warn(f"cache entry {place}: damaged; it is left out and computed again", stacklevel=1)
        with suppress(OSError):
            place.unlink()
        return None

    def put(self, key: str, frame: pl.DataFrame) -> None:
        """Keep an entry; a full or read-only disk means a warning, since the result itself is not lost."""
        place = self._place(key)
        temporary = None
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            buffer = io.BytesIO()
            frame.write_ipc(buffer)
            handle, temporary = tempfile.mkstemp(dir=place.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(checksum(key.encode(), buffer.getbuffer()))
                file.write(buffer.getbuffer())
            Path(temporary).replace(place)
        except OSError as error:
            warnings.warn(f"cache {self._folder}: cannot be written: {error.strerror or error}", stacklevel=1)
        finally:
            if temporary is not None:
                with suppress(OSError):
                    Path(temporary).unlink(missing_ok=True)
