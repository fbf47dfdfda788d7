"""Reading files into tables: whole, or as a stream of chunks that never holds more than one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nlgauge.configured import spread
from nlgauge.data.assembling import Assembly, Extras, Lines, Table, as_one_set, refuse_bare
from nlgauge.data.columns import Reading, refuse_width
from nlgauge.data.frames import frame_table, is_frame
from nlgauge.data.logs.conversion import is_outputs_folder, record_chunks
from nlgauge.data.roles import find_column, names_shown
from nlgauge.data.sources import chunks as cutting
from nlgauge.data.sources.chunks import CHUNK_BYTES, Chunk
from nlgauge.data.sources.csv_lines import csv_records
from nlgauge.data.sources.files import (
    STDIN,
    check_readable,
    decode_utf8,
    detect_format,
    display_name,
    file_size,
    located,
)
from nlgauge.data.sources.json_lines import OBJECT, decode_chunk
from nlgauge.data.sources.object_stores import is_address
from nlgauge.data.sources.pipes import on_disk
from nlgauge.data.sources.polars_files import read_by_polars, scan_parquet
from nlgauge.data.sources.shards import shard_files
from nlgauge.data.tables import Columnar, Items, Origin, ResponseSets
from nlgauge.errors import DataError, OptionError, argument

_FIRST_BYTES = 1 << 16
__all__ = ["Source", "Table", "read", "read_items", "read_sets", "with_numbers"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """One input and how to read it; cheap to send to another process.

    `path` is a file, here or in a store (`s3://…`), or stands for several that are one system (`shards.py`): `files`
    has them all.
    Logs of other tools, Arrow files and folders of datasets are known by content and read as JSON lines (`logs.py`).
    `format` is the one that was named, or found. `extras` are the other columns to keep: all of them, or some.
    """

    path: str
    reading: Reading = field(default_factory=Reading)
    extras: Extras = "all"
    format: str = field(init=False, default="")
    files: tuple[str, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", on_disk(self.path))
        if pipes := {part: copy for part, file in self.aligned.items() if (copy := on_disk(file)) != file}:
            object.__setattr__(self, "reading", replace(self.reading, aligned={**self.aligned, **pipes}))
        outputs = is_outputs_folder(self.path)
        object.__setattr__(self, "files", (self.path,) if outputs else tuple(map(on_disk, shard_files(self.path))))
        if not outputs and not (self.is_sharded and is_address(self.path)):
            for file in self.files:
                check_readable(file)
        object.__setattr__(self, "format", self.reading.input_format or self._common_format())
        self._check_companions()
        if self.format == "parquet" and self.path == STDIN:
            raise OptionError("Parquet cannot be read from standard input; give a file name", option="input_format")
        if self.format == "text" and self.reading.references:
            raise OptionError(
                f"{self.name} is plain text, which has no column '{self.reading.references}'; expected a file of "
                f"references, line by line: {argument('aligned', 'references=FILE')}",
                option="references",
            )
        if self.format == "text" and self.reading.references_separator and "references" not in self.aligned:
            raise OptionError(
                f"{argument('references_separator')} requires {argument('references', 'COL')} or "
                f"{argument('aligned', 'references=FILE')}"
            )

    def _check_companions(self) -> None:
        if self.is_sharded and self.aligned:
            raise OptionError(
                f"{self.path} stands for several files; expected a single one with {argument('aligned', 'PART=FILE')}"
            )
        may_have_prompts = self.format == "jsonl" and not self.set_size and self.aligned.keys() <= {"context"}
        if self.format != "text" and (self.set_size or self.aligned) and not may_have_prompts:
            name = "set_size" if self.set_size else "aligned"
            raise OptionError(f"{self.name} is read as {self.format}; {argument(name)} requires plain text")

    @property
    def set_size(self) -> int:
        """How many lines of plain text are one set; 0: lines are single texts."""
        return self.reading.set_size

    @property
    def aligned(self) -> dict[str, str]:
        """Companion files by the part that they play."""
        return self.reading.companions

    def with_reading(self, **changes: Any) -> Source:
        """The same input with other columns."""
        one = copy(self)
        object.__setattr__(one, "reading", replace(self.reading, **changes))
        return one

    @property
    def name(self) -> str:
        """The file's name in messages."""
        return display_name(self.path)

    @property
    def is_sharded(self) -> bool:
        """Whether the path stands for files rather than being one."""
        return self.files != (self.path,)

    @property
    def size(self) -> int:
        """Bytes on disk; 0 where nobody can say."""
        return sum(map(file_size, self.files))

    def shard(self, number: int) -> Source:
        """The file of this number, from 1, read in the same way; a file on its own is number 0."""
        if not self.is_sharded:
            return self
        one, path = copy(self), self.files[number - 1]
        object.__setattr__(one, "path", path)
        object.__setattr__(one, "files", (path,))
        return one

    def _common_format(self) -> str:
        first = detect_format(self.files[0])
        for file in self.files[1:]:
            if (other := detect_format(file)) != first:
                raise DataError(f"is {other}, and {self.files[0]} is {first}; expected shards of one format", file=file)
        return first

    @property
    def has_systems(self) -> bool:
        """Whether records say which system they come from; assumed where it is not known before all is read."""
        if self.format == "text" or self.path == STDIN:
            return self.format != "text"
        try:
            names, given = self.first_columns, self.reading.system
            return given in names if given else find_column(names, "system", given) is not None
        except DataError:  # raised again when the file is read, which may skip such records
            return True

    @property
    def first_columns(self) -> list[str]:
        """The columns of the first chunk; none of plain text."""
        for chunk in self.chunks(_FIRST_BYTES):
            one = replace(chunk, payload=chunk.header + b"\n") if self.format == "jsonl" else chunk
            if (found := self.columns_in(one)) is not None:
                return list(found[0])
        return []

    @property
    def _assembly(self) -> Assembly:
        return Assembly(reading=self.reading, extras=self.extras, name=self.name, is_csv=self.is_csv)

    @property
    def is_csv(self) -> bool:
        """Whether cells are text between commas or tabs."""
        return self.format in ("csv", "tsv")

    @property
    def delimiter(self) -> str:
        """What stands between the fields of a CSV."""
        return "\t" if self.format == "tsv" else ","

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
        """Unparsed chunks of whole records, in order."""
        if self.is_sharded:
            return self._shard_chunks(chunk_bytes)
        if self.format == "jsonl":
            return record_chunks(self.path, chunk_bytes, self.aligned.get("context", ""))
        if self.is_csv:
            return cutting.csv_chunks(self.path, chunk_bytes, self.delimiter)
        if self.format == "parquet":
            return cutting.parquet_chunks(self.path, chunk_bytes)
        if not self.set_size and not self.aligned:
            return cutting.line_chunks(self.path, chunk_bytes)
        return cutting.text_chunks(self.path, chunk_bytes, self.set_size or 1, self.aligned)

    def parse(self, chunk: Chunk) -> Table | None:
        """The table in a chunk; None when it holds nothing but blank lines."""
        table = self.shard(chunk.shard)._parse(chunk)
        if table is None or not chunk.shard or table.explicit_ids:
            return table
        return replace(table, frame=table.frame.with_columns(id=pl.format("{}:{}", pl.lit(chunk.shard), "id")))

    def _parse(self, chunk: Chunk) -> Table | None:
        if self.format == "text":
            return self._parse_text(chunk)
        if self.format == "parquet":
            return self._assembly.frame_table(self._parquet_frame(chunk.rows), _parquet_lines(chunk))
        if self.is_csv:
            found = self._csv_columns(chunk)
            return None if found is None or self._assembly.has_no_sets(found[0]) else self._assembly.table(*found)
        rows, lines = decode_chunk(chunk, self.name)
        if not rows:
            return None
        first = OBJECT.decode(chunk.header)
        names = self._check_same_parts(first, rows, lines)
        data = _transposed(rows, names, self.name)
        return None if self._assembly.has_no_sets(data) else self._assembly.table(data, lines)

    def _shard_chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        before, expected = 0, None
        for number, path in enumerate(self.files, 1):
            shard, columns = self.shard(number), None
            for chunk in shard.chunks(chunk_bytes):
                if columns is None and (columns := shard.columns_named(chunk)) is not None:
                    expected = expected or columns
                    check_same_columns(path, columns, self.files[0], expected)
                yield replace(chunk, shard=number, consumed=before + chunk.consumed)
            before += file_size(path)

    def columns_named(self, chunk: Chunk) -> tuple[str, ...] | None:
        """What must be the same in every shard: the columns, or those of JSON lines that have a role."""
        if self.format == "text" or (self.format == "jsonl" and not chunk.header):
            return None
        if self.format == "parquet":
            return tuple(sorted(self._parquet_frame((0, 0)).columns))
        if self.format == "jsonl":
            names = list(decode_chunk(replace(chunk, payload=chunk.header + b"\n"), self.name)[0][0])
            layout = self.reading.resolve(names, self.name)
            return tuple(sorted(layout.parts.values())) + (() if self.reading.drops_cells else layout.wide)
        return tuple(sorted(self._csv_header(chunk)))

    def columns_in(self, chunk: Chunk) -> tuple[Columnar, Lines] | None:
        """All columns of a chunk as the file has them, whatever they mean, and the line of each row.

        Cells of a CSV are text. None when the chunk holds nothing but blank lines, or plain text, which has no columns.
        """
        if self.is_sharded:
            return self.shard(chunk.shard).columns_in(chunk)
        if self.format == "jsonl":
            rows, lines = decode_chunk(chunk, self.name)
            return (_transposed(rows, chain(*rows), self.name), lines) if rows else None
        if self.is_csv:
            return self._csv_columns(chunk)
        if self.format == "text":
            return None
        return self._parquet_frame(chunk.rows).to_dict(), _parquet_lines(chunk)

    def stream(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Table]:
        """Tables, one per chunk; a single one where all texts are one set."""
        if self.reading.one_set:
            yield as_one_set(_joined(list(self.with_reading(one_set=False).stream(chunk_bytes))))
            return
        empty = True
        for chunk in self.chunks(chunk_bytes):
            table = self.parse(chunk)
            if table is not None:
                empty = False
                yield table
        if empty:
            raise DataError("the file has no records", file=self.name)

    def read(self, chunk_bytes: int = CHUNK_BYTES) -> Table:
        """The whole file as one table; number-like text columns of a CSV become numbers."""
        table = _joined(list(self.stream(chunk_bytes)))
        return replace(table, frame=with_numbers(table.frame)) if self.is_csv else table

    def _check_same_parts(self, first: Mapping[str, Any], rows: list[dict[str, Any]], lines: Lines) -> list[str]:
        """The columns to keep.

        The first record decides which have a role, so that chunks of any size give the same table.
        """
        with located(self.name, int(next(iter(lines)))):
            self.reading.resolve(list(first), self.name)
        names = list(dict.fromkeys(chain(first, *rows)))
        layout = self.reading.resolve(names, self.name)
        new = layout.claimed - first.keys()
        if self.reading.drops_cells:
            new -= set(layout.wide)
        if first.keys() & set(layout.wide_references):
            new -= set(layout.wide_references)
        if new:
            line, name = next(
                (line, name) for line, row in zip(lines, rows, strict=True) for name in row if name in new
            )
            raise DataError(
                "the first record has no such column; expected the same in every record (null where there is none)",
                file=self.name,
                line=int(line),
                column=name,
            )
        if self.extras == "all" or not set(self.extras) <= set(names):
            return names
        return [name for name in names if name in layout.claimed or name in self.extras]

    def _csv_columns(self, chunk: Chunk) -> tuple[dict[str, list[str]], Lines] | None:
        header = self._csv_header(chunk)
        with located(self.name, 1):
            if not any(header):
                raise DataError("no header; expected column names on the first line")
            if len(header) == 1 and ";" in header[0] and self.format == "csv":
                raise DataError("the header has semicolons and no commas; expected commas: save it so, or replace them")
            refuse_width(len(header))
            if len(set(header)) < len(header):
                twice = (name for name, count in Counter(header).items() if count > 1)
                raise DataError("is duplicated in the header", column=min(twice))
        records = list(csv_records(chunk.payload, chunk.first_line, self.name, self.delimiter))
        for line, row in records:
            if len(row) != len(header):
                message = f"{len(row)} fields; expected {len(header)} as in the header"
                raise DataError(message, file=self.name, line=line)
        if not records:
            return None
        lines, rows = zip(*records, strict=True)
        return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True)), lines

    def _csv_header(self, chunk: Chunk) -> list[str]:
        return [name.strip() for _, row in csv_records(chunk.header, 1, self.name, self.delimiter) for name in row]

    def _parse_text(self, chunk: Chunk) -> Table:
        lines = _plain_lines(chunk.payload, self.name, chunk.first_line)
        size = self.set_size or 1
        first = (chunk.first_line - 1) // size + 1
        companion = {name: _plain_lines(data, self.aligned[name], first) for name, data in chunk.aligned.items()}
        numbers = range(chunk.first_line, chunk.first_line + len(lines), size)
        if self.set_size:
            sets = [lines[i : i + size] for i in range(0, len(lines), size)]
            return ResponseSets.of(sets, contexts=companion.get("context"), origin=Origin(self.name, numbers))
        references = None
        if "references" in companion:
            references = self._assembly.split_references(companion["references"])
            refuse_bare(references, numbers, Origin(self.aligned["references"], numbers))
        return Items.of(
            lines, contexts=companion.get("context"), references=references, origin=Origin(self.name, numbers)
        )

    def _parquet_frame(self, rows: tuple[int, int]) -> pl.DataFrame:
        start, stop = rows
        with read_by_polars(self.path, "cannot be read"), located(self.name):
            lazy = scan_parquet(self.path)
            refuse_width(len(lazy.collect_schema()))
            return lazy.slice(start, stop - start).collect()


def _joined(parts: Sequence[Table]) -> Table:
    if isinstance(parts[0], ResponseSets):
        return ResponseSets.concat([part for part in parts if isinstance(part, ResponseSets)])
    return Items.concat([part for part in parts if isinstance(part, Items)])


def read(data: Any, *, extras: Extras = "all", **options: Any) -> Table:
    """Read response sets or single texts: from a file, or from a frame in memory, with the options of `Reading`.

    A frame is one of Polars, of pandas, an Arrow table or a list of dictionaries. `extras` are the columns to keep
    beside those that have a role: all of them, or some.
    """
    (reading,) = spread(options, Reading)
    if is_frame(data):
        return frame_table(data, reading, extras)
    if not isinstance(data, str | Path):
        raise DataError(
            f"found a {type(data).__module__}.{type(data).__qualname__}; expected the name of a file, or a frame of "
            "Polars, pandas or Arrow (a column alone: make a frame of it)"
        )
    return Source(path=str(data), reading=reading, extras=extras).read()


def read_tables(files: Sequence[str], reading: Reading, extras: Extras = "all") -> Iterator[tuple[str, Table]]:
    """Names of files and their tables; every file is checked before any is read."""
    if list(files).count(STDIN) > 1:
        raise OptionError("standard input ('-') is named more than once")
    for source in [Source(path=path, reading=reading, extras=extras) for path in files]:
        yield source.name, source.read()


def read_sets(path: str, *, extras: Extras = "all", **options: Any) -> ResponseSets:
    """Read a file that must hold response sets, with the options of `Reading`."""
    table = read(path, extras=extras, **options)
    if not isinstance(table, ResponseSets):
        raise DataError("holds single texts; expected response sets ('responses' or 'resp_0, resp_1, …')", file=path)
    return table


def read_items(path: str, *, extras: Extras = "all", **options: Any) -> Items:
    """Read a file that must hold single texts, with the options of `Reading`."""
    table = read(path, extras=extras, **options)
    if not isinstance(table, Items):
        raise DataError("holds response sets; expected single texts (a column 'text')", file=path)
    return table


def check_same_columns(file: str, found: tuple[str, ...], first: str, expected: tuple[str, ...]) -> None:
    """Shards of one system have the same columns."""
    if found != expected:
        raise DataError(
            f"has columns {names_shown(found)}; expected those of {first} ({names_shown(expected)}): shards of one "
            "system are alike",
            file=file,
        )


def _plain_lines(data: bytes, file: str, first_line: int) -> list[str]:
    text = decode_utf8(data, file=file, first_line=first_line)
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def _transposed(rows: list[dict[str, Any]], names: Iterable[str], file: str) -> dict[str, list[Any]]:
    """The columns of these names, with None where a record lacks one."""
    kept = dict.fromkeys(names)
    with located(file):
        refuse_width(len(kept), len(rows))
    return {name: [row.get(name) for row in rows] for name in kept}


def _parquet_lines(chunk: Chunk) -> np.ndarray[Any, Any]:
    return np.arange(chunk.rows[0] + 1, chunk.rows[1] + 1)


def with_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Turn text columns whose every value is a number into numbers, ids and texts aside."""
    reserved = {"id", "context", "text", "system", "runs", "references"}
    casts = []
    for name, dtype in frame.schema.items():
        if name in reserved or dtype != pl.String:
            continue
        trimmed = frame[name].str.strip_chars()
        for target in (pl.Int64, pl.Float64):
            cast = trimmed.cast(target, strict=False)
            if cast.null_count() == trimmed.null_count():
                casts.append(cast.alias(name))
                break
    return frame.with_columns(casts)
