"""Inputs cut into parts that workers read independently, with the same ids and messages as the whole file.

Files of lines are cut at line ends and Parquet files between rows. Files that cannot be read from the middle
(compressed files, CSV with quotes, logs of other tools, files with companions, pipes) stay one part. Line numbers come
from a first pass that counts line ends, block by block, so that workers can share it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nlgauge.data.logs.conversion import is_outputs_folder, is_plain_lines
from nlgauge.data.reading import Source, check_same_columns
from nlgauge.data.sources import chunks as cutting
from nlgauge.data.sources.chunks import BLANK, CHUNK_BYTES, Chunk, Span
from nlgauge.data.sources.files import (
    UTF8_BOM,
    content_identity,
    file_identity,
    file_size,
    first_bytes,
    is_compressed,
    is_seekable,
    open_range,
)
from nlgauge.errors import DataError, OptionError

Unit = Literal["bytes", "rows", "lines"]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
PART_BYTES = 64 << 20
_TO_THE_END = 1 << 62
_HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Part:
    """A part of one input file.

    `source` is the file, `system` the index of its input in the list of inputs, `shard` the number of the file among
    those of its input (0 for a single file), `index` the number of the part among all. `start` and `stop` are counted
    in `unit`: bytes of files of lines, rows of Parquet, else lines. `first_line` is the number of the line (or row) at
    `start`. `identity` must not change while the file is read. `size` is its approximate number of bytes on disk.
    """

    source: Source
    system: int
    shard: int
    index: int = 0
    unit: Unit = "lines"
    start: int = 0
    stop: int = _TO_THE_END
    first_line: int = 1
    identity: str = ""
    size: int = 0

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
        """Chunks of this part's records, for `source.parse`."""
        return (replace(chunk, shard=self.shard) for chunk in self._chunks(chunk_bytes))

    def halves(self) -> tuple[Part, Part] | None:
        """Two parts of about equally many records; None for a single record or an input that is read only once."""
        if self.unit == "rows":
            middle = (self.start + self.stop) // 2
            return None if middle == self.start else self._cut(middle, middle + 1)
        if self.unit == "bytes":
            return self._byte_halves()
        if not is_outputs_folder(self.source.path) and not is_seekable(self.source.path):
            return None
        count = sum(1 for _ in self._records())
        middle_record = next(islice(self._records(), count // 2, None), None)
        return None if middle_record is None or count < 2 else self._cut(middle_record.line - 1, middle_record.line)

    def check_unchanged(self) -> None:
        """Raise an error if the file has changed since it was cut."""
        found = _identity(self.source)
        if found != self.identity:
            raise DataError(
                f"is now {found}; expected {self.identity}, as when the run began: restore the file, or "
                "start a new run",
                file=self.source.name,
            )

    def content(self) -> str:
        """The whole file by its content, which must be unchanged to resume a run."""
        return _identity(self.source, content_identity)

    def _chunks(self, size: int) -> Iterator[Chunk]:
        source = self.source
        if self.unit == "rows":
            return cutting.parquet_chunks(source.path, size, (self.start, self.stop))
        if self.unit == "lines":
            whole = source.chunks(size)
            return whole if (self.start, self.stop) == (0, _TO_THE_END) else self._between(whole)
        span = Span(self.start, self.stop, self.first_line)
        if source.is_csv:
            return cutting.csv_chunks(source.path, size, source.delimiter, span)
        if source.set_size:
            return cutting.text_chunks(source.path, size, source.set_size, {}, span)
        return cutting.line_chunks(source.path, size, span)

    def _between(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Records that begin after line `start` and not after line `stop`."""
        for chunk in chunks:
            if chunk.first_line > self.stop:
                return
            kept = [record for record in _records_in(chunk, self.source) if self.start < record.line <= self.stop]
            if kept:
                first, last = kept[0], kept[-1]
                yield replace(
                    chunk,
                    payload=chunk.payload[first.start : last.stop],
                    first_line=first.line,
                    aligned={
                        name: b"".join(line + b"\n" for line in data.split(b"\n")[first.number : last.number + 1])
                        for name, data in chunk.aligned.items()
                    },
                )

    def _records(self) -> Iterator[_Record]:
        """The start of each record, in bytes from the beginning of this part."""
        before = 0
        for chunk in self._chunks(CHUNK_BYTES):
            for record in _records_in(chunk, self.source):
                yield record._replace(start=before + record.start, stop=before + record.stop)
            before += len(chunk.payload)

    def _byte_halves(self) -> tuple[Part, Part] | None:
        """Cut before the first record beyond the middle, or else before the last one."""
        skipped, chosen = self._bytes_before_records(), None
        for record in islice(self._records(), 1, None):
            chosen = record
            if skipped + record.start >= (self.stop - self.start) // 2:
                break
        return None if chosen is None else self._cut(self.start + skipped + chosen.start, chosen.line)

    def _bytes_before_records(self) -> int:
        """A byte order mark and a CSV's header, which belong to no record."""
        if self.start:
            return 0
        mark = len(UTF8_BOM) if first_bytes(self.source.path).startswith(UTF8_BOM) else 0
        return mark + (len(cutting.first_line_of(self.source.path)) if self.source.is_csv else 0)

    def _cut(self, place: int, line: int) -> tuple[Part, Part]:
        return replace(self, stop=place), replace(self, start=place, first_line=line)


class _Record(NamedTuple):
    """The position of a record (a set of lines, for plain text in sets) in a chunk."""

    line: int
    start: int
    stop: int
    number: int


def _records_in(chunk: Chunk, source: Source) -> Iterator[_Record]:
    """The records of a chunk; blank lines count only in plain text."""
    place, line, number = 0, chunk.first_line, 0
    for data in _split(chunk.payload, source):
        if source.format == "text" or data.strip(BLANK):
            yield _Record(line, place, place + len(data), number)
            number += 1
        place += len(data)
        line += data.count(b"\n")


def _split(payload: bytes, source: Source) -> Iterator[bytes]:
    if source.is_csv:
        end = 0
        for found in cutting.csv_record(source.delimiter).finditer(payload):
            if found.start() != end:
                break
            end = found.end()
            yield found[0]
        if end < len(payload):
            yield payload[end:]
        return
    lines = (line + b"\n" for line in payload.removesuffix(b"\n").split(b"\n"))
    while together := b"".join(islice(lines, source.set_size or 1)):
        yield together


class _Counted(NamedTuple):
    """The line ends of a block: their number, the positions of the first ones, and whether the block has quotes."""

    lines: int
    first_ends: tuple[int, ...]
    has_quotes: bool


def parts_of(sources: Sequence[Source], part_bytes: int = PART_BYTES, map_function: Map = map) -> list[Part]:
    """Parts of some `part_bytes` (on disk) each, in the order of the inputs and of their records.

    Files are surveyed, and the line ends of large ones counted, with `map_function`, which must keep the order.
    """
    if part_bytes < 1:
        raise OptionError(f"parts of {part_bytes} bytes; expected a positive size")
    surveyed = list(map_function(partial(_survey, part_bytes=part_bytes), whole_files(sources)))
    files = [file for file, _ in surveyed]
    expected: dict[int, tuple[str, tuple[str, ...]]] = {}
    for file, columns in surveyed:
        if columns is not None:
            first, others = expected.setdefault(file.system, (file.source.path, columns))
            check_same_columns(file.source.path, columns, first, others)
    blocks = [
        replace(file, start=start, stop=min(start + part_bytes, file.size))
        for file in files
        if file.unit == "bytes" and file.size > part_bytes
        for start in range(0, file.size, part_bytes)
    ]
    counted: Iterator[_Counted] = iter(map_function(_count, blocks))
    parts: list[Part] = []
    for file in files:
        cuts = list(_cuts(file, part_bytes, counted))
        parts += (replace(cut, index=i, size=file.size // len(cuts)) for i, cut in enumerate(cuts, len(parts)))
    return parts


def whole_files(sources: Sequence[Source]) -> list[Part]:
    """Every file of every input as one part, read from its beginning to its end."""
    return [
        Part(source.shard(number), system, number if source.is_sharded else 0)
        for system, source in enumerate(sources)
        for number in range(1, len(source.files) + 1)
    ]


def _survey(file: Part, part_bytes: int) -> tuple[Part, tuple[str, ...] | None]:
    """A file with its size and whether it can be cut, and the columns of a shard."""
    source, columns = file.source, None
    identity = _identity(source)
    if file.shard:
        first = next(source.chunks(_HEAD_BYTES), None)
        columns = None if first is None else source.columns_named(first)
    size = file_size(source.path)
    if source.format == "parquet":
        unit: Unit = "rows"
    elif source.is_csv:  # without quotes, which only a large one is searched for, it can be read from any line on
        can_be_cut = size > part_bytes and is_seekable(source.path) and not is_compressed(source.path)
        unit = "bytes" if can_be_cut else "lines"
    else:
        unit = "bytes" if reads_from_anywhere(source) else "lines"
    return replace(file, unit=unit, size=size, identity=identity), columns


def reads_from_anywhere(source: Source) -> bool:
    """Whether a file can be read from any line on."""
    if source.reading.aligned or not is_seekable(source.path) or is_compressed(source.path):
        return False
    return source.format == "text" or (source.format == "jsonl" and is_plain_lines(source.path))


def _identity(source: Source, identity: Callable[[str], str] = file_identity) -> str:
    paths = [source.path, *source.reading.companions.values()]
    return "; ".join(f"{path}: {_folder_identity(Path(path), identity) or identity(path)}" for path in paths)


def _folder_identity(folder: Path, identity: Callable[[str], str]) -> str:
    if not folder.is_dir():
        return ""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    listing = "".join(f"{file.relative_to(folder)} {identity(str(file))}\n" for file in files)
    return f"{len(files)} files, {hashlib.sha256(listing.encode()).hexdigest()[:16]}"


def _count(block: Part) -> _Counted:
    lines, ends, has_quotes, place = 0, list[int](), False, block.start
    with open_range(block.source.path, block.start, block.stop) as stream:
        while data := stream.read():
            end = -1
            while len(ends) < (block.source.set_size or 1) and (end := data.find(b"\n", end + 1)) >= 0:
                ends.append(place + end + 1)
            lines += data.count(b"\n")
            has_quotes = has_quotes or b'"' in data
            place += len(data)
    return _Counted(lines, tuple(ends), has_quotes)


def _cuts(file: Part, part_bytes: int, counted: Iterator[_Counted]) -> Iterator[Part]:
    """The parts of a file."""
    number = max(1, -(-file.size // part_bytes))
    if file.unit == "rows":
        rows = cutting.parquet_rows(file.source.path)
        edges = sorted({rows * i // number for i in range(number + 1)})
        yield from (replace(file, start=a, stop=b, first_line=a + 1) for a, b in pairwise(edges))
        return
    blocks = list(islice(counted, number)) if file.unit == "bytes" and file.size > part_bytes else []
    if file.unit == "lines" or (file.source.is_csv and any(block.has_quotes for block in blocks)):
        yield replace(file, unit="lines")
        return
    cuts, before, per_set = [(0, 1)], 0, file.source.set_size or 1
    for position, block in enumerate(blocks):
        if position:
            place = -before % per_set or per_set
            if place <= len(block.first_ends) and block.first_ends[place - 1] < file.size:
                cuts.append((block.first_ends[place - 1], before + place + 1))
        before += block.lines
    for (start, line), (stop, _) in zip(cuts, [*cuts[1:], (file.size, 0)], strict=True):
        yield replace(file, start=start, stop=stop, first_line=line)
