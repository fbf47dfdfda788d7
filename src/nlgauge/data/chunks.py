"""Cutting a file into chunks of whole records without parsing them: cheap, serial, never the whole file in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from nlgauge.data.files import BLOCK_BYTES, ByteStream, check_readable, display_name, is_compressed, open_bytes
from nlgauge.errors import DataError

CHUNK_BYTES = 2 << 20
MAX_LINE_BYTES = 64 << 20
_PARQUET_UNPACKED = 3  # text takes about three times its compressed size
BLANK = b" \t\r\n"
_CSV_RECORD = rb"""(?x: (?: [^"\n]++  |  (?<![^D\n]) " [^"]*+ (?:""[^"]*+)*+ "  |  (?<=[^D\n]) " )*+ \n)"""


@dataclass(frozen=True)
class Chunk:
    """Whole records of one file, unparsed.

    `payload` holds the bytes of the records (empty for Parquet, which is read by row range), `header` the CSV header or
    the first record of JSON lines (which decides what columns there are), `aligned` the same lines of line-aligned
    companion files, `rows` a Parquet row range. `consumed` is how far into the file (in bytes on disk) the chunk ends.
    """

    payload: bytes = field(repr=False)
    first_line: int = 1
    header: bytes = b""
    aligned: Mapping[str, bytes] = field(default_factory=dict)
    rows: tuple[int, int] = (0, 0)
    consumed: int = 0


def line_chunks(path: str, size: int) -> Iterator[Chunk]:
    """Chunks that end at line ends (JSON lines)."""
    with open_bytes(path, min(size, BLOCK_BYTES)) as stream:
        header, first_line = b"", 1
        for block in _whole_lines(stream, path, size):
            header = header or block.lstrip(BLANK).partition(b"\n")[0]
            yield Chunk(block, first_line, header, consumed=stream.consumed)
            first_line += block.count(b"\n")


def csv_chunks(path: str, size: int, delimiter: str) -> Iterator[Chunk]:
    """Chunks that end at record ends.

    A line end inside quotes does not count; a quote inside an unquoted field (5" tall) is a character like any other.
    """
    record = _CSV_RECORD.replace(b"D", re.escape(delimiter.encode()))
    first_record, records_to_the_last = re.compile(record), re.compile(b"(?:%b)*+" % record)
    with open_bytes(path, min(size, BLOCK_BYTES)) as stream:
        header, pending, first_line = b"", b"", 1
        for block in _whole_lines(stream, path, size):
            pending += block
            if len(pending) > MAX_LINE_BYTES + size:
                raise _too_long(path, first_line, "expected the quotes of every field to be closed")
            if not header:
                if not (found := first_record.match(pending)):
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


def text_chunks(path: str, size: int, lines_a_set: int, aligned: Mapping[str, str]) -> Iterator[Chunk]:
    """Chunks of plain lines, a multiple of `lines_a_set` each, with the matching lines of companion files."""
    with ExitStack() as stack:
        stream = stack.enter_context(open_bytes(path, min(size, BLOCK_BYTES)))
        companions = {name: _lines(stack.enter_context(open_bytes(p)), p) for name, p in aligned.items()}
        pending: list[bytes] = []
        first_line = 1

        def cut(count: int) -> Chunk:
            records, sets = pending[:count], -(-count // lines_a_set)
            del pending[:count]
            matching = {name: list(islice(rows, sets)) for name, rows in companions.items()}
            for name, rows in matching.items():
                if len(rows) < sets:
                    raise DataError(
                        f"has {(first_line - 1) // lines_a_set + len(rows)} lines, fewer than {display_name(path)} "
                        f"has {'sets' if lines_a_set > 1 else 'lines'}; expected one line for each",
                        file=aligned[name],
                    )
            joined = {name: b"".join(line + b"\n" for line in rows) for name, rows in matching.items()}
            payload = b"".join(line + b"\n" for line in records)
            return Chunk(payload, first_line, aligned=joined, consumed=stream.consumed)

        for block in _whole_lines(stream, path, size):
            pending += block.removesuffix(b"\n").split(b"\n")
            ready = len(pending) - len(pending) % lines_a_set
            if ready:
                yield cut(ready)
                first_line += ready
        if pending:
            raise DataError(
                f"ends in the middle of a set: {len(pending)} lines are left over; expected a multiple of "
                f"{lines_a_set} lines",
                file=display_name(path),
                line=first_line,
            )
        for name, rows in companions.items():
            if next(rows, None) is not None:
                unit = "sets" if lines_a_set > 1 else "lines"
                raise DataError(
                    f"has more lines than {display_name(path)} has {unit} ({(first_line - 1) // lines_a_set}); "
                    "expected one line for each",
                    file=aligned[name],
                )


def parquet_chunks(path: str, size: int) -> Iterator[Chunk]:
    """Row ranges of a Parquet file that take about `size` bytes when unpacked."""
    import polars as pl

    check_readable(path)
    if is_compressed(path):
        raise DataError("is a compressed Parquet file; Parquet is compressed by itself: unpack it first", file=path)
    try:
        total = pl.scan_parquet(path).select(pl.len()).collect().item()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"is not a readable Parquet file ({str(error).partition(chr(10))[0]})", file=path) from error
    if total == 0:
        raise DataError("the table has no rows", file=path)
    bytes_a_row = _PARQUET_UNPACKED * Path(path).stat().st_size / total
    rows_a_chunk = max(1, int(size / bytes_a_row))
    for start in range(0, total, rows_a_chunk):
        stop = min(start + rows_a_chunk, total)
        yield Chunk(b"", start + 1, rows=(start, stop), consumed=stop)


def _whole_lines(stream: ByteStream, path: str, size: int) -> Iterator[bytes]:
    parts: list[bytes] = []
    held, line = 0, 1
    while block := stream.read():
        cut = block.rfind(b"\n") + 1
        if cut == 0 or held + len(block) < size:
            parts.append(block)
            held += len(block)
            if cut == 0 and held > MAX_LINE_BYTES + size:
                line += sum(part.count(b"\n") for part in parts)
                raise _too_long(path, line, "expected one record a line (a JSON array must be split into lines)")
            continue
        whole = b"".join([*parts, block[:cut]])
        yield whole
        line += whole.count(b"\n")
        rest = block[cut:]
        parts, held = ([rest], len(rest)) if rest else ([], 0)
    if held:
        whole = b"".join(parts)
        yield whole if whole.endswith(b"\n") else whole + b"\n"


def _lines(stream: ByteStream, path: str) -> Iterator[bytes]:
    for block in _whole_lines(stream, path, 1 << 20):
        yield from block.removesuffix(b"\n").split(b"\n")


def _too_long(path: str, line: int, advice: str) -> DataError:
    return DataError(f"a record is longer than {MAX_LINE_BYTES >> 20} MB; {advice}", file=display_name(path), line=line)
