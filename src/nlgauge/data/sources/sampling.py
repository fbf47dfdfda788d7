"""A sample of inputs that may be too large to read: pieces spread over all files, and estimates of totals from them.

Files of lines and Parquet files are sampled at positions drawn one from each of equal ranges of all bytes, so that
skew between and within files is covered. Files that can only be read from the beginning give adjacent pieces.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from nlgauge.data.reading import Source, Table
from nlgauge.data.sources.chunks import Chunk, parquet_rows
from nlgauge.data.sources.files import STDIN, file_size, open_range
from nlgauge.data.sources.parts import Part, parts_of, reads_from_anywhere, whole_files
from nlgauge.errors import DataError, OptionError

PIECE_BYTES = 512 << 10
_LARGEST_RECORD = 64 << 20


@dataclass(frozen=True, eq=False)
class Piece:
    """Some records of a file, and their size on disk in bytes."""

    source: Source
    chunk: Chunk
    bytes_on_disk: int

    def table(self) -> Table | None:
        """The records."""
        return self.source.parse(self.chunk)


@dataclass(frozen=True)
class Sample:
    """Pieces in a random order; `whole` if they cover everything."""

    pieces: tuple[Piece, ...]
    bytes_on_disk: int
    whole: bool

    def total(self, counts: Sequence[float]) -> tuple[float, float]:
        """The estimated total of a count over all inputs, and its standard error.

        A ratio estimate: per byte on disk, with the jackknife over pieces.
        """
        sizes = [piece.bytes_on_disk for piece in self.pieces]
        if self.whole or not sum(sizes):
            return sum(counts), 0.0
        if len(sizes) == 1:
            return self.bytes_on_disk * counts[0] / sizes[0], math.inf
        without = [(sum(counts) - count) / (sum(sizes) - size) for count, size in zip(counts, sizes, strict=True)]
        mean = sum(without) / len(without)
        spread = math.sqrt((len(without) - 1) / len(without) * sum((value - mean) ** 2 for value in without))
        return self.bytes_on_disk * sum(counts) / sum(sizes), self.bytes_on_disk * spread


def take_sample(sources: Sequence[Source], *, pieces: int, seed: int, piece_bytes: int = PIECE_BYTES) -> Sample:
    """Some `pieces` pieces of about `piece_bytes` each; everything if there is not much more."""
    if any(source.path == STDIN for source in sources):
        raise OptionError("standard input can be read only once; name a file to plan for")
    files = whole_files(sources)
    sizes = [max(1, file_size(file.source.path)) for file in files]
    total, order = sum(sizes), random.Random(seed)
    if total <= pieces * piece_bytes:
        found = [piece for source in sources for part in parts_of([source]) for piece in _all_of(part, piece_bytes)]
    else:
        ends = list(accumulate(sizes))
        places = [int((k + order.random()) * total / pieces) for k in range(pieces)]
        found = []
        for file, size, end in zip(files, sizes, ends, strict=True):
            inside = [place - (end - size) for place in places if end - size <= place < end]
            if inside:
                found += _pieces(replace(file, unit="bytes", stop=size), inside, piece_bytes)
    if not found:
        raise DataError("no records were found", file=sources[0].name)
    order.shuffle(found)
    return Sample(tuple(found), total, total <= pieces * piece_bytes)


def _all_of(part: Part, piece_bytes: int) -> Iterator[Piece]:
    before = 0
    for chunk in part.chunks(piece_bytes):
        yield Piece(part.source, chunk, max(1, chunk.consumed - before))
        before = chunk.consumed


def _pieces(whole: Part, places: Sequence[int], piece_bytes: int) -> Iterator[Piece]:
    """Pieces of one file, from about these bytes on."""
    source, size = whole.source, whole.stop
    if source.format == "parquet":
        rows = parquet_rows(source.path)
        wanted = max(1, rows * piece_bytes // (3 * size))
        for place in places:
            start = min(rows * place // size, max(0, rows - wanted))
            stop = min(rows, start + wanted)
            chunk = Chunk(b"", start + 1, rows=(start, stop), shard=whole.shard)
            yield Piece(source, chunk, max(1, size * (stop - start) // rows))
    elif reads_from_anywhere(source):
        for place in places:
            start = _next_line(source.path, min(place, max(0, size - piece_bytes)), size)
            stop = _next_line(source.path, min(start + piece_bytes, size), size)
            part = replace(whole, start=start, stop=_whole_sets(source, start, stop))
            for chunk in part.chunks(2 * _LARGEST_RECORD):
                yield Piece(source, chunk, part.stop - part.start)
    else:
        before = taken = 0
        chunks = source.chunks(piece_bytes // 8)
        for chunk in chunks:
            yield Piece(source, replace(chunk, shard=whole.shard), max(1, chunk.consumed - before))
            before, taken = chunk.consumed, taken + len(chunk.payload)
            if taken >= len(places) * piece_bytes:
                return


def _next_line(path: str, place: int, size: int) -> int:
    """The start of the first line after a position; 0 and the end are line starts themselves."""
    if place in (0, size):
        return place
    with open_range(path, place - 1, size, 1 << 16) as stream:
        seen = place - 1
        while block := stream.read():
            if (end := block.find(b"\n")) >= 0:
                return seen + end + 1
            seen += len(block)
    return size


def _whole_sets(source: Source, start: int, stop: int) -> int:
    """The end of the last complete set of lines before `stop`."""
    lines = source.set_size or 1
    if lines == 1 or start == stop:
        return stop
    with open_range(source.path, start, stop) as stream:
        ends = b"".join(iter(stream.read, b"")).split(b"\n")
    count = len(ends) - 1
    return start + sum(len(line) + 1 for line in ends[: count - count % lines])
