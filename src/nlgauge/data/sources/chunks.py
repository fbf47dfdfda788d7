"""Cutting a file into chunks of complete records without parsing or holding all of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from itertools import islice

from nlgauge.data.sources import files
from nlgauge.errors import DataError

CHUNK_BYTES = 2 << 20
MAX_LINE_BYTES = 64 << 20
_PARQUET_UNPACKED = 3  # text takes about three times its compressed size
BLANK = b" \t\r\n"
_CSV_RECORD = rb"""(?x: (?: [^"\n]++  |  (?<![^D\n]) " [^"]*+ (?:""[^"]*+)*+ "  |  (?<=[^D\n]) " )*+ \n)"""


@dataclass(frozen=True)
class Chunk:
    """Complete records of one file, unparsed.

    `payload` holds the bytes of the records (empty for Parquet, which is read by row range), `header` the CSV header or
    the first record of JSON lines (which decides the columns), `aligned` the same lines of line-aligned
    companion files, `rows` a Parquet row range. `consumed` is how far into the file (in bytes on disk) the chunk ends.
    `shard` is the number of the file among those of its source, from 1; 0 for a single file.
    """

    payload: bytes = field(repr=False)
    first_line: int = 1
    header: bytes = b""
    aligned: Mapping[str, bytes] = field(default_factory=dict)
    rows: tuple[int, int] = (0, 0)
    consumed: int = 0
    shard: int = 0


@dataclass(frozen=True)
class Span:
    """A range of an uncompressed file that begins and ends at line ends, and the number of its first line."""

    start: int
    stop: int
    first_line: int


def line_chunks(path: str, size: int, span: Span | None = None) -> Iterator[Chunk]:
    """Chunks that end at line ends (JSON lines)."""
    header, first_line = (first_record(path), span.first_line) if span and span.start else (b"", 1)
    with _opened(path, size, span) as stream:
        for block in _whole_lines(stream, path, size, first_line):
            header = header or block.lstrip(BLANK).partition(b"\n")[0]
            yield Chunk(block, first_line, header, consumed=stream.consumed)
            first_line += block.count(b"\n")


def first_record(path: str) -> bytes:
    """The first line of a file that is not blank."""
    if files.is_seekable(path):
        lines = files.head_of(path).text.split(b"\n")[:-1]
        if found := next((line for line in lines if line.strip(BLANK)), None):
            return found.lstrip(BLANK)
    return next((chunk.header for chunk in line_chunks(path, 1 << 16) if chunk.header), b"")


def _opened(path: str, size: int, span: Span | None) -> AbstractContextManager[files.ByteStream]:
    block = min(size, files.BLOCK_BYTES)
    return files.open_bytes(path, block) if span is None else files.open_range(path, span.start, span.stop, block)


def csv_record(delimiter: str) -> re.Pattern[bytes]:
    """The pattern of one CSV record, up to its line end."""
    return re.compile(_CSV_RECORD.replace(b"D", re.escape(delimiter.encode())))


def csv_chunks(path: str, size: int, delimiter: str, span: Span | None = None) -> Iterator[Chunk]:
    """Chunks that end at record ends.

    A line end inside quotes does not count; a quote inside an unquoted field (5" tall) is a normal character.
    A span requires a file without quotes, whose header is its first line.
    """
    one_record = csv_record(delimiter)
    records_to_the_last = re.compile(b"(?:%b)*+" % one_record.pattern)
    header, first_line = (first_line_of(path), span.first_line) if span and span.start else (b"", 1)
    with _opened(path, size, span) as stream:
        pending = b""
        for block in _whole_lines(stream, path, size, first_line):
            pending += block
            if len(pending) > MAX_LINE_BYTES + size:
                raise _too_long(path, first_line, "expected the quotes of every field to be closed")
            if not header:
                if not (found := one_record.match(pending)):
                    continue
                header, pending = pending[: found.end()], pending[found.end() :]
                first_line += header.count(b"\n")
            found = records_to_the_last.match(pending) if b'"' in pending else None
            cut = found.end() if found else len(pending)
            if cut:
                records, pending = pending[:cut], pending[cut:]
                yield Chunk(records, first_line, header, consumed=stream.consumed)
                first_line += records.count(b"\n")
        if pending.strip() or not header:
            yield Chunk(pending, first_line, header, consumed=stream.consumed)


def first_line_of(path: str) -> bytes:
    """The first line of a file, with its line end."""
    if files.is_seekable(path) and (known := files.head_of(path).first_line()) is not None:
        return known
    with files.open_bytes(path, files.BLOCK_BYTES) as stream:
        return next(_whole_lines(stream, path, 1 << 16), b"").partition(b"\n")[0] + b"\n"


def text_chunks(
    path: str, size: int, lines_per_set: int, aligned: Mapping[str, str], span: Span | None = None
) -> Iterator[Chunk]:
    """Chunks of plain lines, a multiple of `lines_per_set` each, with the matching lines of companion files.

    A span begins and ends at the ends of sets, and excludes companions.
    """
    name, unit = files.display_name(path), "sets" if lines_per_set > 1 else "lines"
    with ExitStack() as stack:
        stream = stack.enter_context(_opened(path, size, span))
        companions = {part: _lines(stack.enter_context(files.open_bytes(file)), file) for part, file in aligned.items()}
        pending: list[bytes] = []
        first_line = span.first_line if span else 1
        for block in _whole_lines(stream, path, size, first_line):
            pending += block.removesuffix(b"\n").split(b"\n")
            sets, before = len(pending) // lines_per_set, (first_line - 1) // lines_per_set
            if not sets:
                continue
            matching = {part: list(islice(rows, sets)) for part, rows in companions.items()}
            for part, found in matching.items():
                if len(found) < sets:
                    raise DataError(
                        f"has {before + len(found)} lines, fewer than {name} has {unit}; expected one line for each",
                        file=aligned[part],
                    )
            joined = {part: _joined(found) for part, found in matching.items()}
            ready = sets * lines_per_set
            yield Chunk(_joined(pending[:ready]), first_line, aligned=joined, consumed=stream.consumed)
            del pending[:ready]
            first_line += ready
        if pending:
            raise DataError(
                f"ends in the middle of a set: {len(pending)} lines are left over; expected a multiple of "
                f"{lines_per_set} lines",
                file=name,
                line=first_line,
            )
        for part, rows in companions.items():
            if next(rows, None) is not None:
                message = f"has more lines than {name} has {unit} ({(first_line - 1) // lines_per_set})"
                raise DataError(f"{message}; expected one line for each", file=aligned[part])


def parquet_rows(path: str) -> int:
    """How many rows a Parquet file has."""
    import polars as pl

    files.check_readable(path)
    name = files.display_name(path)
    if files.is_compressed(path):
        raise DataError(
            "is a compressed Parquet file; Parquet is compressed by itself: unpack it first",
            file=name,
        )
    from nlgauge.data.sources.polars_files import read_by_polars, scan_parquet

    with read_by_polars(path, "is not a readable Parquet file"):
        total: int = scan_parquet(path).select(pl.len()).collect().item()
    if total == 0:
        raise DataError("the table has no rows", file=name)
    return total


def parquet_chunks(path: str, size: int, rows: tuple[int, int] | None = None) -> Iterator[Chunk]:
    """Row ranges of a Parquet file, or of some of its rows, that take about `size` bytes when unpacked."""
    total = parquet_rows(path)
    first, last = rows or (0, total)
    if last > total:
        name = files.display_name(path)
        raise DataError(f"has {total} rows; expected {last}, as before: the file was cut short", file=name)
    bytes_per_row = _PARQUET_UNPACKED * files.file_size(path) / total
    rows_per_chunk = max(1, int(size / bytes_per_row))
    for start in range(first, last, rows_per_chunk):
        stop = min(start + rows_per_chunk, last)
        yield Chunk(b"", start + 1, rows=(start, stop), consumed=stop)


def _whole_lines(stream: files.ByteStream, path: str, size: int, line: int = 1) -> Iterator[bytes]:
    parts: list[bytes] = []
    held = 0
    while block := stream.read():
        cut = block.rfind(b"\n") + 1
        if cut == 0 or held + len(block) < size:
            parts.append(block)
            held += len(block)
            if cut == 0 and held > MAX_LINE_BYTES + size:
                line += sum(part.count(b"\n") for part in parts)
                raise _too_long(path, line, "expected one record per line (a JSON array must be split into lines)")
            continue
        whole = b"".join([*parts, block[:cut]])
        yield whole
        line += whole.count(b"\n")
        rest = block[cut:]
        parts, held = ([rest], len(rest)) if rest else ([], 0)
    if held:
        whole = b"".join(parts)
        yield whole if whole.endswith(b"\n") else whole + b"\n"


def _lines(stream: files.ByteStream, path: str) -> Iterator[bytes]:
    for block in _whole_lines(stream, path, 1 << 20):
        yield from block.removesuffix(b"\n").split(b"\n")


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _too_long(path: str, line: int, advice: str) -> DataError:
    return DataError(
        f"a record is longer than {MAX_LINE_BYTES >> 20} MB; {advice}", file=files.display_name(path), line=line
    )
