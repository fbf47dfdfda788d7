"""Reading files into tables: whole, or as a stream of chunks that never holds more than one of them."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nlgauge.data import chunks as cutting
from nlgauge.data.assembling import Assembly, Extras, Lines, Table, refuse_bare
from nlgauge.data.chunks import CHUNK_BYTES, Chunk
from nlgauge.data.columns import Columns
from nlgauge.data.files import (
    FORMATS,
    STDIN,
    check_readable,
    decode_utf8,
    detect_format,
    display_name,
    file_size,
    scan_parquet,
)
from nlgauge.data.frames import is_frame, read_frame
from nlgauge.data.json_lines import OBJECT, decode_chunk
from nlgauge.data.logs import is_outputs_folder, record_chunks
from nlgauge.data.shards import shard_files
from nlgauge.data.stores import is_address
from nlgauge.data.tables import Columnar, Items, Origin, ResponseSets
from nlgauge.errors import DataError, OptionError

__all__ = ["Source", "Table", "read", "read_items", "read_sets", "with_numbers"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """One input and how to read it; cheap to send to another process.

    `path` is a file, here or in a store (`s3://…`), or stands for several that are one system (`shards.py`): `files`
    has them all.
    Logs of other tools, Arrow files and folders of datasets are known by content and read as JSON lines (`logs.py`).
    `set_size` makes a set of every so many lines of plain text; `aligned` names companion files of plain text
    (`context` or `references`), line by line, or the input of an OpenAI batch (`context`). `extras`
    are the other columns to keep: all of them, or some.
    """

    path: str
    format: str = ""
    columns: Columns = field(default_factory=Columns)
    set_size: int = 0
    aligned: Mapping[str, str] = field(default_factory=dict)
    extras: Extras = "all"
    files: tuple[str, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        if self.format and self.format not in FORMATS:
            raise OptionError(f"input format '{self.format}'; expected one of {', '.join(FORMATS)}")
        outputs = is_outputs_folder(self.path)
        object.__setattr__(self, "files", (self.path,) if outputs else shard_files(self.path))
        if not outputs and not (self.is_sharded and is_address(self.path)):
            for file in self.files:
                check_readable(file)
        if not self.format:
            object.__setattr__(self, "format", self._common_format())
        if self.is_sharded and self.aligned:
            raise OptionError(f"{self.path} stands for several files; aligned files go with a single one")
        if self.format == "parquet" and self.path == STDIN:
            raise OptionError("Parquet cannot be read from standard input; give a file name")
        may_have_prompts = self.format == "jsonl" and not self.set_size and self.aligned.keys() <= {"context"}
        if self.format != "text" and (self.set_size or self.aligned) and not may_have_prompts:
            raise OptionError(
                f"{display_name(self.path)} is read as {self.format}; set size and aligned files go with plain text"
            )
        if unknown := set(self.aligned) - {"context", "references"}:
            raise OptionError(f"aligned file for '{min(unknown)}'; expected context or references")
        if self.set_size < 0:
            raise OptionError(f"a set size of {self.set_size}; expected a positive number of lines")
        if self.set_size and "references" in self.aligned:
            raise OptionError("references go with single texts, not with sets")
        if self.format == "text" and self.columns.references:
            raise OptionError(
                f"{self.name} is plain text, which has no column '{self.columns.references}'; expected a file of "
                "references, line by line: --aligned references=FILE"
            )
        if self.format == "text" and self.columns.references_separator and "references" not in self.aligned:
            raise OptionError("a separator of references goes with --references COL or --aligned references=FILE")

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
            first = next((found for chunk in self.chunks(1) if (found := self.columns_in(chunk)) is not None), None)
        except DataError:  # told by whoever reads the file, who may leave such records out
            return True
        return first is not None and self.columns.names_systems(list(first[0]))

    @property
    def _assembly(self) -> Assembly:
        is_csv = self.format in ("csv", "tsv")
        return Assembly(columns=self.columns, extras=self.extras, name=self.name, is_csv=is_csv)

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
        if self.format == "text" and not self.set_size and not self.aligned:
            return cutting.line_chunks(self.path, chunk_bytes)
        if self.format in ("csv", "tsv"):
            return cutting.csv_chunks(self.path, chunk_bytes, self.delimiter)
        if self.format == "text":
            return cutting.text_chunks(self.path, chunk_bytes, self.set_size or 1, self.aligned)
        return cutting.parquet_chunks(self.path, chunk_bytes)

    def parse(self, chunk: Chunk) -> Table | None:
        """The table in a chunk; None when it holds nothing but blank lines."""
        table = self.shard(chunk.shard)._parse(chunk)
        if table is None or not chunk.shard or table.explicit_ids:
            return table
        return replace(table, frame=table.frame.with_columns(id=pl.format("{}:{}", pl.lit(chunk.shard), "id")))

    def _parse(self, chunk: Chunk) -> Table | None:
        if self.format == "jsonl":
            return self._parse_json(chunk)
        if self.format in ("csv", "tsv"):
            return self._parse_csv(chunk)
        if self.format == "text":
            return self._parse_text(chunk)
        return self._parse_parquet(chunk)

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
        """What must be the same in every shard: the columns, or those of JSON lines that play a part."""
        if self.format == "text" or (self.format == "jsonl" and not chunk.header):
            return None
        if self.format == "parquet":
            return tuple(sorted(self._parquet_schema()))
        if self.format == "jsonl":
            names = list(decode_chunk(replace(chunk, payload=chunk.header + b"\n"), self.name)[0][0])
            layout = self.columns.resolve(names, self.name)
            return tuple(sorted(layout.parts.values())) + (() if layout.empty_cells == "drop" else layout.wide)
        return tuple(sorted(name.strip() for _, row in self._csv_records(chunk.header, 1) for name in row))

    def columns_in(self, chunk: Chunk) -> tuple[Columnar, Lines] | None:
        """All columns of a chunk as the file has them, whatever they mean, and the line of each row.

        Cells of a CSV are text. None when the chunk holds nothing but blank lines, or plain text, which has no columns.
        """
        if self.is_sharded:
            return self.shard(chunk.shard).columns_in(chunk)
        if self.format == "jsonl":
            found = self._json_rows(chunk)
            return None if found is None else (_transposed(found[1]), found[2])
        if self.format in ("csv", "tsv"):
            return self._csv_columns(chunk)
        if self.format == "text":
            return None
        return self._parquet_frame(chunk).to_dict(), _parquet_lines(chunk)

    def stream(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Table]:
        """Tables, one a chunk."""
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
        parts = list(self.stream(chunk_bytes))
        table: Table
        if isinstance(parts[0], ResponseSets):
            table = ResponseSets.concat([part for part in parts if isinstance(part, ResponseSets)])
        else:
            table = Items.concat([part for part in parts if isinstance(part, Items)])
        return replace(table, frame=with_numbers(table.frame)) if self.format in ("csv", "tsv") else table

    def _parse_json(self, chunk: Chunk) -> Table | None:
        found = self._json_rows(chunk)
        if found is None:
            return None
        first, rows, lines = found
        self._check_same_parts(first, rows, lines)
        return self._assembly.table(_transposed(rows, first), lines)

    def _json_rows(self, chunk: Chunk) -> tuple[dict[str, Any], list[dict[str, Any]], Lines] | None:
        """The first record of the file, the records of a chunk and their lines."""
        rows, lines = decode_chunk(chunk, self.name)
        if not rows:
            return None
        return OBJECT.decode(chunk.header), rows, lines

    def _check_same_parts(self, first: Mapping[str, Any], rows: list[dict[str, Any]], lines: Lines) -> None:
        """The first record decides which columns play a part, so that chunks of any size give the same table."""
        try:
            self.columns.resolve(list(first), self.name)
        except DataError as error:
            raise error.at(line=int(next(iter(lines)))) from error
        layout = self.columns.resolve(list(dict.fromkeys(chain(first, *rows))), self.name)
        new = layout.claimed - first.keys()
        if layout.empty_cells == "drop":
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

    def _parse_csv(self, chunk: Chunk) -> Table | None:
        found = self._csv_columns(chunk)
        return None if found is None else self._assembly.table(*found)

    def _csv_columns(self, chunk: Chunk) -> tuple[dict[str, list[str]], list[int]] | None:
        header = [name.strip() for _, row in self._csv_records(chunk.header, 1) for name in row]
        if not any(header):
            raise DataError("no header; expected column names on the first line", file=self.name, line=1)
        if len(header) == 1 and ";" in header[0] and self.format == "csv":
            raise DataError(
                "the header has semicolons and no commas; expected commas: save it so, or replace them",
                file=self.name,
                line=1,
            )
        if twice := {name for name in header if header.count(name) > 1}:
            raise DataError("stands twice in the header", file=self.name, line=1, column=min(twice))
        rows, lines = [], []
        for line, row in self._csv_records(chunk.payload, chunk.first_line):
            if len(row) != len(header):
                raise DataError(
                    f"{len(row)} fields; expected {len(header)} as in the header", file=self.name, line=line
                )
            rows.append(row)
            lines.append(line)
        if not rows:
            return None
        return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True)), lines

    def _csv_records(self, data: bytes, first_line: int) -> Iterator[tuple[int, list[str]]]:
        """Records that are not blank, each with the line where it begins; only LF (or CRLF) ends a line."""
        csv.field_size_limit(sys.maxsize)
        text = decode_utf8(data, file=self.name, first_line=first_line)
        reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=self.delimiter, strict=True)
        line = first_line
        try:
            for row in reader:
                if row:
                    yield line, row
                line = first_line + reader.line_num
        except csv.Error as error:
            reason = "a carriage return outside quotes" if "new-line character" in str(error) else str(error)
            raise DataError(
                f"bad CSV ({reason}); expected quotes around fields with line ends, and quotes inside them doubled",
                file=self.name,
                line=line,
            ) from error

    def _parse_text(self, chunk: Chunk) -> Table:
        lines = _plain_lines(chunk.payload, self.name, chunk.first_line)
        size = self.set_size or 1
        first = (chunk.first_line - 1) // size + 1
        companion = {name: _plain_lines(data, self.aligned[name], first) for name, data in chunk.aligned.items()}
        if self.set_size:
            origin = Origin(self.name, range(chunk.first_line, chunk.first_line + len(lines), size))
            sets = [lines[i : i + size] for i in range(0, len(lines), size)]
            return ResponseSets.of(sets, contexts=companion.get("context"), origin=origin)
        numbers = range(chunk.first_line, chunk.first_line + len(lines))
        references = None
        if "references" in companion:
            references = self._assembly.split_references(companion["references"])
            refuse_bare(references, numbers, Origin(self.aligned["references"], numbers))
        return Items.of(
            lines, contexts=companion.get("context"), references=references, origin=Origin(self.name, numbers)
        )

    def _parquet_schema(self) -> list[str]:
        try:
            return scan_parquet(self.path).collect_schema().names()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"cannot be read ({str(error).partition(chr(10))[0]})", file=self.name) from error

    def _parquet_frame(self, chunk: Chunk) -> pl.DataFrame:
        start, stop = chunk.rows
        try:
            return scan_parquet(self.path).slice(start, stop - start).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"cannot be read ({str(error).partition(chr(10))[0]})", file=self.name) from error

    def _parse_parquet(self, chunk: Chunk) -> Table:
        return self._assembly.frame_table(self._parquet_frame(chunk), _parquet_lines(chunk))


def read(data: Any, **options: Any) -> Table:
    """Read response sets or single texts: from a file, with options as for `Source`, or from a frame in memory.

    A frame is one of Polars, of pandas or an Arrow table; `columns` and `extras` say what its columns mean.
    """
    if is_frame(data):
        return read_frame(data, **options)
    if not isinstance(data, str | Path):
        raise DataError(
            f"found a {type(data).__module__}.{type(data).__qualname__}; expected the name of a file, or a frame of "
            "Polars, pandas or Arrow (a column alone: make a frame of it)"
        )
    return Source(path=str(data), **options).read()


def read_sets(path: str, **options: Any) -> ResponseSets:
    """Read a file that must hold response sets."""
    table = read(path, **options)
    if not isinstance(table, ResponseSets):
        raise DataError("holds single texts; expected response sets ('responses' or 'resp_0, resp_1, …')", file=path)
    return table


def read_items(path: str, **options: Any) -> Items:
    """Read a file that must hold single texts."""
    table = read(path, **options)
    if not isinstance(table, Items):
        raise DataError("holds response sets; expected single texts (a column 'text')", file=path)
    return table


def check_same_columns(file: str, found: tuple[str, ...], first: str, expected: tuple[str, ...]) -> None:
    """Shards of one system have the same columns."""
    if found != expected:
        raise DataError(
            f"has columns {', '.join(found)}; expected those of {first} ({', '.join(expected)}): shards of one system "
            "are alike",
            file=file,
        )


def _plain_lines(data: bytes, file: str, first_line: int) -> list[str]:
    text = decode_utf8(data, file=file, first_line=first_line)
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def _transposed(rows: list[dict[str, Any]], first: Iterable[str] = ()) -> dict[str, list[Any]]:
    """Records as columns, with None where a record lacks one; `first` names columns that come before the others."""
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(chain(first, *rows))}


def _parquet_lines(chunk: Chunk) -> np.ndarray[Any, Any]:
    return np.arange(chunk.rows[0] + 1, chunk.rows[1] + 1)


def with_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Turn text columns whose every value is a number into numbers, ids and texts aside."""
    reserved = {"id", "context", "text", "system", "references"}
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
