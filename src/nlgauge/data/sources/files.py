"""Opening input: plain, gzip or zstandard files, local or in a store, and standard input, as a stream of bytes."""

from __future__ import annotations

import gzip
import io
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol

from nlgauge.data.sources import object_stores as stores
from nlgauge.data.sources.pipes import name_given, on_disk, pipes_copied
from nlgauge.engine.checksums import content_words
from nlgauge.errors import DataError, argument

if TYPE_CHECKING:
    pass

STDIN = "-"
BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 1 << 16
_HEADS_KEPT = 256
_MOST_KEPT_OPEN = 64
_kept = threading.local()
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
UTF8_BOM = b"\xef\xbb\xbf"
_FOREIGN_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}
_LONGEST_BOM = max(map(len, _FOREIGN_BOMS))
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ZIP_MAGIC, PARQUET_MAGIC = b"PK\x03\x04", b"PAR1"
ARROW_MAGIC = (b"ARROW1", b"\xff\xff\xff\xff")  # a file, a stream


@contextmanager
def located(file: str | None = None, line: int | None = None, column: str | None = None) -> Iterator[None]:
    """In this block, errors of data that name no other place are about this file, line and column."""
    try:
        yield
    except DataError as error:
        error.file, error.line, error.column = error.file or file, error.line or line, error.column or column
        raise


def display_name(path: str) -> str:
    """The name of a file in messages and tables; bytes that are not UTF-8 are escaped."""
    return "standard input" if path == STDIN else name_given(path).encode("utf-8", "backslashreplace").decode()


def detect_format(path: str) -> str:
    """The format by a file's name without compression suffix, else by its content.

    Folders, logs and Arrow files, which are converted to JSON lines, are `jsonl`.
    """
    if path == STDIN or (not stores.is_address(path) and Path(path).is_dir()):
        return "jsonl"
    name = _unpacked_name(path)
    if name.suffix in _SUFFIXES:
        return _SUFFIXES[name.suffix]
    magic = first_bytes(path)
    is_json = name.suffix == ".json"
    is_object = (is_json or not name.suffix) and magic and head_of(path).text.lstrip().startswith(b"{")
    if is_object or magic.startswith((ZIP_MAGIC, *ARROW_MAGIC)):
        return "jsonl"
    if magic.startswith(PARQUET_MAGIC):
        return "parquet"
    advice = " A JSON array must be converted to one object per line (.jsonl)." if is_json else ""
    raise DataError(
        f"cannot tell the format from the name; expected one of {', '.join(_SUFFIXES)} (also .gz, .zst), or name it "
        f"with {argument('input_format')}.{advice}",
        file=display_name(path),
    )


def has_known_suffix(path: str) -> bool:
    """Whether a file's name has the suffix of a known format."""
    return _unpacked_name(path).suffix in _SUFFIXES


def _unpacked_name(path: str) -> Path:
    name = Path(path.lower())
    return name.with_suffix("") if name.suffix in {".gz", ".zst"} else name


def check_readable(path: str) -> None:
    """Fail before any work when a file is missing, a folder or empty."""
    if path == STDIN:
        return
    if stores.is_address(path):
        if stores.stored_size(path) == 0:
            raise DataError("the file is empty", file=display_name(path))
        return
    place = Path(path)
    if not place.exists():
        near = sorted(p.name for p in place.parent.glob("*") if p.is_file())[:5] if place.parent.is_dir() else []
        seen = f" That folder has: {', '.join(near)}." if near else ""
        raise DataError(f"no such file.{seen}", file=display_name(path))
    if place.is_dir():
        logs = sorted(place.glob("*.eval"))
        advice = f"; name its logs, as in {logs[0]}" if logs else ""
        raise DataError(
            f"this is a folder; expected a file, a folder of shards ({', '.join(_SUFFIXES)}, also .gz, .zst), one of "
            "lm-evaluation-harness (samples_*.jsonl) or a Hugging Face dataset (state.json, dataset_dict.json or "
            f"*.parquet){advice}",
            file=display_name(path),
        )
    if place.is_file() and place.stat().st_size == 0:
        raise DataError("the file is empty", file=display_name(path))


def first_bytes(path: str) -> bytes:
    """The first bytes of a regular file; empty for a pipe or standard input, which can be read only once."""
    if path == STDIN or not (stores.is_address(path) or Path(path).is_file()):
        return b""
    return head_of(path).raw[:8]


class Head(NamedTuple):
    """How a file begins: its first bytes, these decompressed and without a byte order mark, and whether that is all."""

    raw: bytes
    text: bytes
    is_whole: bool

    def first_line(self) -> bytes | None:
        """The first line with its line end; None where it is longer than the head."""
        line, end, _ = self.text.partition(b"\n")
        return line + b"\n" if end or self.is_whole else None


def head_of(path: str) -> Head:
    """The beginning of a regular file or of an object, read once for all that the format is recognised by."""
    return _read_head(path, str(file_size(path)) if stores.is_address(path) else file_identity(path))


@lru_cache(maxsize=_HEADS_KEPT)
def _read_head(path: str, identity: str) -> Head:
    del identity  # a part of the key: a changed file is read again
    with _raw(path) as file:
        raw = file.read(_HEAD_BYTES)
    text = b""  # of a damaged file or a foreign encoding, of which the reader of the whole file complains
    with suppress(DataError):
        text = ByteStream(io.BytesIO(raw), path, _HEAD_BYTES).read()
    return Head(raw, text, len(raw) < _HEAD_BYTES and not raw.startswith((_GZIP, _ZSTD)))


def file_size(path: str) -> int:
    """Bytes on disk; 0 for a pipe, standard input and other inputs of unknown size."""
    if path == STDIN:
        return 0
    if stores.is_address(path):
        return stores.stored_size(path) or 0
    return Path(path).stat().st_size


def file_identity(path: str) -> str:
    """The identity of a file: its size and modification time, or a store's tag."""
    check_readable(path)
    if path == STDIN:
        return "standard input"
    if stores.is_address(path):
        return stores.stored_identity(path)
    about = Path(path).stat()
    return f"{about.st_size} bytes, {about.st_mtime_ns}"


def content_identity(path: str) -> str:
    """The identity of a file's content: its size and hash; of a store's object, as `file_identity`."""
    if path == STDIN or stores.is_address(path) or not Path(path).is_file():
        return file_identity(path)
    try:
        return content_words(path)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error


def is_seekable(path: str) -> bool:
    """Whether reading may begin anywhere: a regular file, or a store that gives ranges."""
    return path != STDIN and (stores.can_be_cut(path) if stores.is_address(path) else Path(path).is_file())


@contextmanager
def kept_open() -> Iterator[None]:
    """Files that are read in this block, in this thread, are opened once, however often and wherever they are read."""
    if getattr(_kept, "files", None) is not None:
        yield
        return
    _kept.files = {}
    try:
        with pipes_copied():
            yield
    finally:
        for file in _kept.files.values():
            file.close()
        _kept.files = None


class Readable(Protocol):
    """Whatever gives its next bytes."""

    def read(self, size: int, /) -> bytes:
        """As many bytes, or fewer at the end."""


class _Shared:
    """A reader of a file that others read, too: it goes back to its own place before it reads."""

    def __init__(self, path: str, start: int) -> None:
        self._path, self._place = path, start

    def read(self, size: int) -> bytes:
        """The next bytes."""
        raw = _handle(self._path)
        raw.seek(self._place)
        block = raw.read(size)
        self._place += len(block)
        return block


@contextmanager
def _raw(path: str, start: int = 0) -> Iterator[Readable]:
    """A file or an object, undecoded, from a byte on; one that is kept open stays open for the next reader."""
    if getattr(_kept, "files", None) is not None and is_seekable(path):
        _handle(path)
        yield _Shared(path, start)
    else:
        with closing(_opened(path, start)) as file:
            yield file


def _handle(path: str) -> IO[bytes]:
    """The one open file of a path."""
    files: dict[str, IO[bytes]] = _kept.files
    if path not in files:
        if len(files) >= _MOST_KEPT_OPEN:
            files.pop(next(iter(files))).close()
        files[path] = _opened(path, 0)
    return files[path]


def _opened(path: str, start: int) -> IO[bytes]:
    if stores.is_address(path):
        return stores.open_stored(path, start)
    try:
        raw = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror}", file=display_name(path)) from error
    if start:
        raw.seek(start)
    return raw


def is_compressed(path: str) -> bool:
    """Whether a file is gzip or zstandard, whatever its name."""
    return first_bytes(path).startswith((_GZIP, _ZSTD))


class ByteStream:
    """Decompressed bytes of a file, with the position in the compressed file for a progress bar.

    It reads `block` bytes of the file at a time. A range that begins at `start` is read unchanged: byte order marks
    and compression are detected at the beginning of a file.
    """

    def __init__(self, raw: Readable, name: str, block: int = BLOCK_BYTES, start: int = 0) -> None:
        self._raw, self._name = raw, name
        size = max(block, len(_ZSTD))
        self._blocks = self._plain(size) if start else self._decompressed(size)
        self._first = not start
        self.consumed = start

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
            block = block.removeprefix(UTF8_BOM) or self._next()
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
            yield from self._plain(size, head)

    def _plain(self, size: int, head: bytes = b"") -> Iterator[bytes]:
        while block := head or self._raw.read(size):
            head = b""
            self.consumed += len(block)
            yield block

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
        from nlgauge.zstd import ZstdDecompressor, ZstdError

        frame = ZstdDecompressor()
        try:
            while block:
                self.consumed += len(block)
                while block or not (frame.eof or frame.needs_input):
                    frame = ZstdDecompressor() if frame.eof else frame
                    if out := frame.decompress(block, size):
                        yield out
                    block = frame.unused_data if frame.eof else b""
                block = self._raw.read(size)
        except ZstdError as error:
            raise DataError(f"the zstandard data is damaged ({error})", file=self._name) from error
        if not frame.eof:
            raise DataError("the zstandard data is truncated", file=self._name)


@contextmanager
def open_bytes(path: str, block: int = BLOCK_BYTES) -> Iterator[ByteStream]:
    """Open a file, or standard input for `-`, with any compression."""
    path = on_disk(path)
    check_readable(path)
    if path == STDIN:
        if sys.stdin is None:
            raise DataError("is closed; expected data, as in: nlgauge score - < FILE", file=display_name(path))
        yield ByteStream(sys.stdin.buffer, display_name(path), block)
        return
    with _raw(path) as raw:
        yield ByteStream(raw, display_name(path), block)


def read_bytes(path: str) -> bytes:
    """All bytes of a file, decompressed."""
    with open_bytes(path) as stream:
        return b"".join(iter(stream.read, b""))


@contextmanager
def open_range(path: str, start: int, stop: int, block: int = BLOCK_BYTES) -> Iterator[ByteStream]:
    """Bytes start..stop-1 of an uncompressed file; raises an error if it is shorter."""
    check_readable(path)
    with _raw(path, start) as raw:
        yield ByteStream(_Range(raw, display_name(path), start, stop), display_name(path), block, start)


class _Range:
    """The bytes of an open file up to `stop`."""

    def __init__(self, raw: Readable, name: str, start: int, stop: int) -> None:
        self._raw, self._name, self._place, self._stop = raw, name, start, stop

    def read(self, size: int) -> bytes:
        block = self._raw.read(min(size, self._stop - self._place))
        self._place += len(block)
        if not block and self._place < self._stop:
            raise DataError(
                f"ends at byte {self._place}; expected {self._stop} bytes or more, as before: it was cut short, or is "
                "still being written",
                file=self._name,
            )
        return block


def decode_utf8(data: bytes, *, file: str, first_line: int) -> str:
    """Text of a block of lines; bad UTF-8 is reported with its line."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"byte 0x{data[error.start]:02x} is not UTF-8; expected UTF-8 text (convert the file first)"
        raise DataError(message, file=file, line=first_line + data.count(b"\n", 0, error.start)) from error
