"""Files in object stores and on web servers, read in ranges through fsspec.

Credentials come from the environment, as the store's own tools take them. Only protocols of plain stores are allowed:
fsspec also has protocols that chain, cache or execute.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, BinaryIO, cast

from nlgauge.errors import DataError, MissingExtra, OptionError

_ADDRESS = re.compile(r"(?P<protocol>[A-Za-z][A-Za-z0-9+.-]*)://")
_WEB = ("http", "https")
_S3 = ("s3", "s3a")
PROTOCOLS = (*_S3, "gs", "gcs", *_WEB, "az", "abfs", "abfss", "hf")
_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 10, 60, 3
_BLOCK = 4 << 20
_PROBE = 1 << 16
_REMEMBERED = 4096


def is_address(path: str) -> bool:
    """Whether this names an object in a store rather than a local file; other protocols raise an error."""
    found = _ADDRESS.match(path)
    if "::" in path and (found or _ADDRESS.search(path)):
        raise OptionError(f"{path}: is a chain of protocols; expected one address, as in s3://bucket/name.jsonl")
    if found is None:
        return False
    if found["protocol"].lower() not in PROTOCOLS:
        raise OptionError(
            f"{path}: protocol '{found['protocol']}'; expected one of {', '.join(PROTOCOLS)}, or a file of this machine"
        )
    return True


def stored_size(address: str) -> int | None:
    """Bytes of an object; None if unknown."""
    size = _remembered(address).get("size")
    return None if size is None else int(size)


def stored_identity(address: str) -> str:
    """The identity of the object, as the store reports it now: its size, and its tag or time."""
    with _translated(address):
        _file_system(address).invalidate_cache()
    about = _described(address)
    mark = next((about[key] for key in ("ETag", "etag", "LastModified", "mtime", "updated") if about.get(key)), "")
    return f"{about.get('size')} bytes, {str(mark).strip(chr(34)) or 'no tag'}"


def can_be_cut(address: str) -> bool:
    """Whether any range of the object can be requested."""
    return stored_size(address) is not None and (not address.startswith(_WEB) or _gives_ranges(address))


def open_stored(address: str, start: int = 0) -> BinaryIO:
    """The object from a byte on, some megabytes at a time; as one stream if the server has no range requests."""
    block = _BLOCK if can_be_cut(address) else 0
    with _translated(address):
        file = _file_system(address).open(address, "rb", block_size=block, cache_type="readahead")
        if start:
            file.seek(start)
    return cast(BinaryIO, _Translated(file, address))


def polars_options(address: str) -> dict[str, str]:
    """Options for Polars, which reads Parquet from stores itself, beyond those in the environment."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if not address.startswith(tuple(f"{name}://" for name in _S3)) or not endpoint:
        return {}
    return {"aws_endpoint_url": endpoint, "aws_allow_http": str(endpoint.startswith("http://")).lower()}


def stored_files(pattern: str) -> list[str]:
    """Addresses that match a pattern, or that are in a folder, in order."""
    with _translated(pattern):
        system = _file_system(pattern)
        found = system.glob(pattern) if any(mark in pattern for mark in "*?[") else system.ls(pattern, detail=False)
        kept = [name for name in found if system.isfile(name)] if pattern.startswith(_WEB) else found
        return sorted(system.unstrip_protocol(name) for name in kept)


@lru_cache(_REMEMBERED)
def _gives_ranges(address: str) -> bool:
    """Whether a web server gives the second byte alone; its headers are not reliable."""
    with _translated(address), _file_system(address).open(address, "rb", block_size=_PROBE, cache_type="none") as file:
        file.seek(1)
        try:
            return len(file.read(1)) == 1
        except ValueError:  # fsspec's error for an answer that is not the range
            return False


@lru_cache(_REMEMBERED)
def _remembered(address: str) -> dict[str, Any]:
    """The cached description of an object."""
    return _described(address)


def _described(address: str) -> dict[str, Any]:
    with _translated(address):
        about: dict[str, Any] = _file_system(address).info(address)
    if about.get("type") == "directory":
        raise DataError("this is a folder; expected an object, or a pattern such as folder/*.jsonl", file=address)
    return about


def is_folder(address: str) -> bool:
    """Whether there are objects below this address; web servers have no folders."""
    if address.startswith(_WEB):
        return False
    with _translated(address):
        return bool(_file_system(address).isdir(address))


def _file_system(address: str) -> Any:
    protocol = address.partition("://")[0].lower()
    limits: dict[str, Any] = {}
    try:
        import fsspec

        if protocol in _S3:
            seconds = {"connect_timeout": _CONNECT_SECONDS, "read_timeout": _READ_SECONDS}
            limits = {"config_kwargs": {**seconds, "retries": {"max_attempts": _ATTEMPTS}}}
        elif protocol in _WEB:
            from aiohttp import ClientTimeout

            timeout = ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS)
            limits = {"client_kwargs": {"timeout": timeout}}
        return fsspec.filesystem(protocol, **limits)
    except ImportError as error:
        raise MissingExtra.needs(f"reading {protocol}:// addresses ({error})", "scale") from error


class _Translated:
    """A file whose errors are translated to `DataError`."""

    def __init__(self, file: Any, address: str) -> None:
        self._file, self._address = file, address

    def read(self, size: int = -1) -> bytes:
        with _translated(self._address):
            return cast(bytes, self._file.read(size))

    def seek(self, place: int) -> int:
        return int(self._file.seek(place))

    def close(self) -> None:
        self._file.close()


@contextmanager
def _translated(address: str) -> Iterator[None]:
    """Translate a store's errors; other errors pass through."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in _LIBRARIES:
            raise
        raise DataError(_meaning(error), file=address) from error


_DENIED = (401, 403)
_LIBRARIES = ("aiohttp", "aiobotocore", "azure", "botocore", "gcsfs", "google", "requests", "urllib3")


def _meaning(error: Exception) -> str:
    """What the error of a store means, and what to do."""
    reason: BaseException = error
    if isinstance(error, FileNotFoundError):
        reason = error.__cause__ or error  # fsspec reports refused connections as missing files, too
    if isinstance(error, PermissionError) or (reason is not error and getattr(reason, "status", 0) in _DENIED):
        return f"access is denied ({_short(reason)}); expected credentials that may read it, in the environment"
    if isinstance(error, FileNotFoundError) and (reason is error or not isinstance(reason, OSError)):
        return f"no such bucket or object ({_short(error)}); check the name"
    if isinstance(error, TimeoutError):
        return "the store did not answer in time; try again, or check the network"
    advice = "check the address and the network"
    if "credentials" in str(reason).lower():
        advice = "expected credentials in the environment, as the store's own tools take them"
    return f"cannot be read ({_short(reason)}); {advice}"


def _short(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
