"""Whether what an Arrow file says of its own buffers can be true.

A damaged size makes Polars ask for more memory than there is, which ends the process without a word. So sizes are
checked before Polars sees the file. Only metadata is read (columnar format, section "Serialization and IPC").
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

_BATCHES = {3: False, 2: True}  # kinds of messages with buffers: a batch of records, a dictionary around one
_MOST_EXPANSION = 1 << 16  # times that compressed bytes may become more
_BLOCK, _FOOTER = 24, 10  # bytes of an entry of the footer, and of what follows it


class _Bytes:
    """Numbers and tables (FlatBuffers) of a mapped file; anything outside of it is a `ValueError`."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.size = data, len(data)

    def read(self, kind: str, place: int) -> int:
        if not 0 <= place <= self.size - struct.calcsize(kind):
            raise ValueError("a place in its metadata lies outside of the file")
        return int(struct.unpack_from(f"<{kind}", self.data, place)[0])

    def follow(self, place: int) -> int:
        return place + self.read("i", place)

    def field(self, table: int, number: int) -> int | None:
        known = table - self.read("i", table)
        start = 4 + 2 * number
        offset = self.read("H", known + start) if start < self.read("H", known) else 0
        return table + offset if offset else None

    def items(self, table: int, number: int, width: int) -> range:
        found = self.field(table, number)
        if found is None:
            return range(0)
        first = self.follow(found) + 4
        return range(first, first + width * max(0, self.read("i", first - 4)), width)


def check_layout(path: Path, *, stream: bool) -> None:
    """Raise `ValueError` where a buffer does not fit into the file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        data = _Bytes(mapped)
        for message in _messages(data) if stream else _blocks(data):
            _check_message(data, message)


def _messages(data: _Bytes) -> Iterator[int]:
    place = 0
    while place + 8 <= data.size and (length := data.read("i", (message := _metadata(data, place)) - 4)) > 0:
        yield message
        body = data.field(data.follow(message), 3)
        place = message + length + (0 if body is None else max(0, data.read("q", body)))


def _blocks(data: _Bytes) -> Iterator[int]:
    footer = data.size - _FOOTER - data.read("i", data.size - _FOOTER)
    root = data.follow(footer)
    for number in (2, 3):
        for block in data.items(root, number, _BLOCK):
            yield _metadata(data, data.read("q", block))


def _metadata(data: _Bytes, place: int) -> int:
    """Where the metadata of a message begins: behind its length, before which new files have a marker."""
    return place + (8 if data.read("i", place) == -1 else 4)


def _check_message(data: _Bytes, message: int) -> None:
    root = data.follow(message)
    kind, header, length = (data.field(root, number) for number in (1, 2, 3))
    if kind is None or header is None or (found := data.read("B", kind)) not in _BATCHES:
        return
    batch = data.follow(header)
    if _BATCHES[found]:
        inner = data.field(batch, 1)
        batch = batch if inner is None else data.follow(inner)
    body = message + data.read("i", message - 4)
    size = 0 if length is None else data.read("q", length)
    if not 0 <= size <= data.size - body:
        raise ValueError(f"a batch claims {size} bytes, more than the file has")
    compressed = data.field(batch, 3) is not None
    for buffer in data.items(batch, 2, 16):
        start, claimed = data.read("q", buffer), data.read("q", buffer + 8)
        if start < 0 or claimed < 0 or start + claimed > size:
            raise ValueError(f"a buffer claims {claimed} bytes at {start} of the {size} of its batch")
        if compressed and claimed >= 8 and data.read("q", body + start) > claimed * _MOST_EXPANSION:
            raise ValueError(f"a buffer of {claimed} bytes claims to become more than {_MOST_EXPANSION} times as many")
