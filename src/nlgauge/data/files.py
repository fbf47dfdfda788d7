"""Opening input: plain, gzip or zstandard files and standard input, as one stream of decompressed bytes."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from nlgauge.errors import DataError

STDIN = "-"
BLOCK_BYTES = 1 << 20
_ZSTD_STEP = 256
_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".txt": "text",
    ".text": "text",
}
FORMATS = tuple(dict.fromkeys(_SUFFIXES.values()))
_UTF8_BOM = b"\xef\xbb\xbf"
_FOREIGN_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}
_LONGEST_BOM = max(map(len, _FOREIGN_BOMS))
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ZIP_MAGIC, PARQUET_MAGIC = b"PK\x03\x04", b"PAR1"
ARROW_MAGIC = (b"ARROW1", b"\xff\xff\xff\xff")  # a file, a stream


def display_name(path: str) -> str:
    """How a file is called in messages."""
    return "standard input" if path == STDIN else path


def detect_format(path: str) -> str:
    """The format that a file's name announces, compression suffix aside, or else its content.

    Folders, logs and Arrow files, which are turned into JSON lines, are called `jsonl`.
    """
    if path == STDIN or Path(path).is_dir():
        return "jsonl"
    name = Path(path.lower())
    if name.suffix in {".gz", ".zst"}:
        name = name.with_suffix("")
    if name.suffix in _SUFFIXES:
        return _SUFFIXES[name.suffix]
    magic = first_bytes(path)
    if magic.startswith((ZIP_MAGIC, *ARROW_MAGIC)) or (name.suffix == ".json" and _begins_an_object(path)):
        return "jsonl"
    if magic.startswith(PARQUET_MAGIC):
        return "parquet"
    known = ", ".join(_SUFFIXES)
    advice = " A JSON array must be turned into one object a line (.jsonl)." if name.suffix == ".json" else ""
    raise DataError(
        f"cannot tell the format from the name; expected one of {known} (also .gz, .zst), or name it with "
        f"--input-format.{advice}",
        file=path,
    )


def check_readable(path: str) -> None:
    """Fail before any work when a file is missing, a folder or empty."""
    if path == STDIN:
        return
    place = Path(path)
    if not place.exists():
        near = sorted(p.name for p in place.parent.glob("*") if p.is_file())[:5] if place.parent.is_dir() else []
        seen = f" That folder has: {', '.join(near)}." if near else ""
        raise DataError(f"no such file.{seen}", file=path)
    if place.is_dir():
        logs = sorted(place.glob("*.eval"))
        advice = f"; name its logs, as in {logs[0]}" if logs else ""
        raise DataError(
            "this is a folder; expected a file, a folder of lm-evaluation-harness (samples_*.jsonl) or a Hugging Face "
            f"dataset (state.json, dataset_dict.json or *.parquet){advice}",
            file=path,
        )
    if place.is_file() and place.stat().st_size == 0:
        raise DataError("the file is empty", file=path)


def first_bytes(path: str) -> bytes:
    """How a regular file begins; nothing for a pipe or standard input, whose bytes come only once."""
    if path == STDIN or not Path(path).is_file():
        return b""
    try:
        with Path(path).open("rb") as file:
            return file.read(8)
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror}", file=path) from error


def is_compressed(path: str) -> bool:
    """Whether a file is gzip or zstandard, whatever its name."""
    return first_bytes(path).startswith((_GZIP, _ZSTD))


class ByteStream:
    """Decompressed bytes of a file, with the position in the compressed file for a progress bar.

    It reads `block` bytes of the file at a time.
    """

    def __init__(self, raw: BinaryIO, name: str, block: int = BLOCK_BYTES) -> None:
        self._raw, self._name = raw, name
        self._blocks = self._decompressed(max(block, len(_ZSTD)))
        self._first = True
        self.consumed = 0

    def read(self) -> bytes:
        """The next block; empty at the end."""
        block = self._next()
        if self._first:
            self._first = False
            if not block and self._name == display_name(STDIN):
                raise DataError("is empty; expected data, as in: nlgauge score - < FILE", file=self._name)
            while len(block) < _LONGEST_BOM and (more := self._next()):
                block += more
            for mark, encoding in _FOREIGN_BOMS.items():
                if block.startswith(mark):
                    raise DataError(f"looks like {encoding}; expected UTF-8 (convert it first)", file=self._name)
            block = block.removeprefix(_UTF8_BOM) or self._next()
        return block

    def _next(self) -> bytes:
        try:
            return next(self._blocks, b"")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"the gzip data is truncated or damaged ({error})", file=self._name) from error
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", file=self._name) from error

    def _decompressed(self, size: int) -> Iterator[bytes]:
        head = self._raw.read(size)
        if head.startswith(_GZIP):
            yield from self._inflate(head, size)
        elif head.startswith(_ZSTD):
            yield from self._unzstd(head, size)
        else:
            while head:
                self.consumed += len(head)
                yield head
                head = self._raw.read(size)

    def _inflate(self, block: bytes, size: int) -> Iterator[bytes]:
        member = zlib.decompressobj(wbits=31)
        while block:
            self.consumed += len(block)
            while block:
                if member.eof:
                    block = block.lstrip(b"\0")
                    member = zlib.decompressobj(wbits=31) if block else member
                    continue
                if out := member.decompress(block, size):
                    yield out
                block = member.unused_data if member.eof else member.unconsumed_tail
            block = self._raw.read(size)
        if not member.eof:
            raise EOFError("the end-of-stream marker is missing")

    def _unzstd(self, block: bytes, size: int) -> Iterator[bytes]:
        """In small steps, since a few bytes may stand for very many."""
        import zstandard

        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            while block:
                self.consumed += len(block)
                for start in range(0, len(block), _ZSTD_STEP):
                    step = block[start : start + _ZSTD_STEP]
                    while step:
                        if frame.eof:
                            frame = zstandard.ZstdDecompressor().decompressobj()
                        if out := frame.decompress(step):
                            yield out
                        step = frame.unused_data if frame.eof else b""
                block = self._raw.read(size)
        except zstandard.ZstdError as error:
            raise DataError(f"the zstandard data is damaged ({error})", file=self._name) from error
        if not frame.eof:
            raise DataError("the zstandard data is truncated", file=self._name)


@contextmanager
def open_bytes(path: str, block: int = BLOCK_BYTES) -> Iterator[ByteStream]:
    """Open a file, or standard input for `-`, whatever its compression."""
    check_readable(path)
    name = display_name(path)
    if path == STDIN:
        if sys.stdin is None:
            raise DataError("is closed; expected data, as in: nlgauge score - < FILE", file=name)
        yield ByteStream(cast(BinaryIO, sys.stdin.buffer), name, block)
        return
    try:
        raw: IO[bytes] = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror}", file=path) from error
    with raw:
        yield ByteStream(cast(BinaryIO, raw), name, block)


def _begins_an_object(path: str) -> bool:
    """Whether a file begins as a JSON object does."""
    if not Path(path).is_file():
        return False
    with open_bytes(path) as stream:
        return stream.read().lstrip().startswith(b"{")


def decode_utf8(data: bytes, *, file: str, first_line: int) -> str:
    """Text of a block of lines; bad UTF-8 is reported with its line."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise DataError(
            f"byte 0x{data[error.start]:02x} is not UTF-8; expected UTF-8 text (convert the file first)",
            file=file,
            line=line,
        ) from error
