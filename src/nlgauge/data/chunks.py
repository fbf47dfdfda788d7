"""Cutting a file into chunks of whole records without parsing them: cheap, serial, never the whole file in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice

from nlgauge.data.files import ByteStream, display_name, open_bytes
from nlgauge.errors import DataError

CHUNK_BYTES = 8 << 20
MAX_LINE_BYTES = 64 << 20


@dataclass(frozen=True)
class Chunk:
    """Whole records of one file, unparsed.

    `payload` holds the bytes of the records (empty for Parquet, which is read by row range), `header` the CSV header,
    `aligned` the same lines of line-aligned companion files, `rows` a Parquet row range. `consumed` is how far into
    the file (in bytes on disk) the chunk ends.
    """

    payload: bytes = field(repr=False)
    first_line: int = 1
    header: bytes = b""
    aligned: Mapping[str, bytes] = field(default_factory=dict)
    rows: tuple[int, int] = (0, 0)
    consumed: int = 0


def line_chunks(path: str, size: int) -> Iterator[Chunk]:
    """Chunks that end at line ends (JSON lines)."""
    with open_bytes(path) as stream:
        first_line = 1
        for block in _whole_lines(stream, path, size):
            yield Chunk(block, first_line, consumed=stream.consumed)
            first_line += block.count(b"\n")


def csv_chunks(path: str, size: int) -> Iterator[Chunk]:
    """Chunks that end at record ends: a line end inside quotes does not count."""
    with open_bytes(path) as stream:
        header, pending, first_line = b"", b"", 1
        for block in _whole_lines(stream, path, size):
            pending += block
            _check_length(pending, size + MAX_LINE_BYTES, path, first_line, "a quoted field is never closed")
            if not header:
                cut = _record_end(pending, first=True)
                if cut == 0:
                    continue
                header, pending = pending[:cut], pending[cut:]
                first_line += header.count(b"\n")
            cut = _record_end(pending)
            if cut:
                records, pending = pending[:cut], pending[cut:]
                yield Chunk(records, first_line, header, consumed=stream.consumed)
                first_line += records.count(b"\n")
        if pending.strip() or not header:
            yield Chunk(pending, first_line, header, consumed=stream.consumed)


def text_chunks(path: str, size: int, lines_a_set: int, aligned: Mapping[str, str]) -> Iterator[Chunk]:
    """Chunks of plain lines, a multiple of `lines_a_set` each, with the matching lines of companion files."""
    with ExitStack() as stack:
        stream = stack.enter_context(open_bytes(path))
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
                raise DataError(f"has more lines than {display_name(path)}", file=aligned[name])


def parquet_chunks(path: str, rows_a_chunk: int) -> Iterator[Chunk]:
    """Row ranges of a Parquet file."""
    import polars as pl

    from nlgauge.data.files import check_readable

    check_readable(path)
    try:
        total = pl.scan_parquet(path).select(pl.len()).collect().item()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"is not a readable Parquet file ({error})", file=path) from error
    if total == 0:
        raise DataError("the table has no rows", file=path)
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
            if cut == 0:
                _check_length(parts, MAX_LINE_BYTES + size, path, line, "expected one record a line")
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


def _check_length(parts: bytes | list[bytes], limit: int, path: str, line: int, advice: str) -> None:
    length = len(parts) if isinstance(parts, bytes) else sum(map(len, parts))
    if length > limit:
        raise DataError(
            f"a record is longer than {MAX_LINE_BYTES >> 20} MB; {advice} (a JSON array must be split into lines)",
            file=display_name(path),
            line=line,
        )


def _record_end(data: bytes, *, first: bool = False) -> int:
    """Where the last (or the first) complete CSV record ends: at a line end with an even number of quotes before it."""
    if first:
        end = data.find(b"\n") + 1
        while end and data.count(b'"', 0, end) % 2:
            end = data.find(b"\n", end) + 1
        return end
    end = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, end)
    while end and quotes % 2:
        before = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(b'"', before, end)
        end = before
    return end
