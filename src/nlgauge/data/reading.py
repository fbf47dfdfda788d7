"""Reading files into tables: whole, or as a stream of chunks that never holds more than one of them."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl

from nlgauge.data import chunks as cutting
from nlgauge.data.chunks import BLANK, CHUNK_BYTES, MAX_LINE_BYTES, Chunk
from nlgauge.data.columns import Columns, Layout
from nlgauge.data.files import FORMATS, STDIN, check_readable, decode_utf8, detect_format, display_name
from nlgauge.data.tables import Columnar, Items, Origin, ResponseSets, require_texts
from nlgauge.errors import DataError, OptionError

Table = ResponseSets | Items
Lines = Sequence[int] | np.ndarray[Any, Any]
_JSON_LINES = msgspec.json.Decoder(dict[str, Any])
_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SURROGATE_PAIR = re.compile(rb"\\\\|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]\w\w")


@dataclass(frozen=True, kw_only=True)
class Source:
    """One input file and how to read it; cheap to send to another process.

    `set_size` makes a set of every so many lines of plain text; `aligned` names companion files of plain text
    (`context` or `references`), line by line. `extras` are the other columns to keep: all of them, or some.
    """

    path: str
    format: str = ""
    columns: Columns = field(default_factory=Columns)
    set_size: int = 0
    aligned: Mapping[str, str] = field(default_factory=dict)
    extras: Literal["all"] | tuple[str, ...] = "all"

    def __post_init__(self) -> None:
        if self.format and self.format not in FORMATS:
            raise OptionError(f"input format '{self.format}'; expected one of {', '.join(FORMATS)}")
        check_readable(self.path)
        if not self.format:
            object.__setattr__(self, "format", detect_format(self.path))
        if self.format == "parquet" and self.path == STDIN:
            raise OptionError("Parquet cannot be read from standard input; give a file name")
        if self.format != "text" and (self.set_size or self.aligned):
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
    def _delimiter(self) -> str:
        return "\t" if self.format == "tsv" else ","

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
        """Unparsed chunks of whole records, in order."""
        if self.format == "jsonl" or (self.format == "text" and not self.set_size and not self.aligned):
            return cutting.line_chunks(self.path, chunk_bytes)
        if self.format in ("csv", "tsv"):
            return cutting.csv_chunks(self.path, chunk_bytes, self._delimiter)
        if self.format == "text":
            return cutting.text_chunks(self.path, chunk_bytes, self.set_size or 1, self.aligned)
        return cutting.parquet_chunks(self.path, chunk_bytes)

    def parse(self, chunk: Chunk) -> Table | None:
        """The table in a chunk; None when it holds nothing but blank lines."""
        if self.format == "jsonl":
            return self._parse_json(chunk)
        if self.format in ("csv", "tsv"):
            return self._parse_csv(chunk)
        if self.format == "text":
            return self._parse_text(chunk)
        return self._parse_parquet(chunk)

    def columns_in(self, chunk: Chunk) -> tuple[Columnar, Lines] | None:
        """All columns of a chunk as the file has them, whatever they mean, and the line of each row.

        Cells of a CSV are text. None when the chunk holds nothing but blank lines, or plain text, which has no columns.
        """
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
        return self._table(_transposed(rows, first), lines)

    def _json_rows(self, chunk: Chunk) -> tuple[dict[str, Any], list[dict[str, Any]], Lines] | None:
        """The first record of the file, the records of a chunk and their lines."""
        if len(chunk.payload) > MAX_LINE_BYTES:
            self._refuse_long_lines(chunk)
        try:
            rows = _JSON_LINES.decode_lines(chunk.payload)
            first = _JSON_LINES.decode(chunk.header) if rows else {}
        except _BAD_JSON as error:
            raise self._find_bad_json(chunk) from error
        if not rows:
            return None
        lines = _record_lines(chunk, len(rows))
        if len(lines) != len(rows):
            raise self._find_bad_json(chunk)
        return first, rows, lines

    def _refuse_long_lines(self, chunk: Chunk) -> None:
        for number, line in enumerate(chunk.payload.split(b"\n"), chunk.first_line):
            if len(line) > MAX_LINE_BYTES:
                raise DataError(
                    f"the line has {len(line) >> 20} MB, more than {MAX_LINE_BYTES >> 20}; expected one record a line",
                    file=self.name,
                    line=number,
                )

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

    def _find_bad_json(self, chunk: Chunk) -> DataError:
        for number, line in enumerate(chunk.payload.split(b"\n"), chunk.first_line):
            decode_utf8(line, file=self.name, first_line=number)
            if not line.strip(BLANK):
                continue
            try:
                _JSON_LINES.decode(line)
            except _BAD_JSON as error:
                if line.lstrip().startswith(b"["):
                    advice = "found a JSON array; expected one JSON object a line"
                elif half := _lone_surrogate(line):
                    advice = f"the escape {half} is half of a surrogate pair, which is not text; expected both halves"
                elif isinstance(error, msgspec.ValidationError):
                    advice = f'{error}; expected a JSON object such as {{"context": …, "responses": […]}}'
                else:
                    advice = f"invalid JSON ({error}); expected one JSON object a line"
                return DataError(advice, file=self.name, line=number)
        raise AssertionError("every line of a bad chunk parsed")

    def _parse_csv(self, chunk: Chunk) -> Table | None:
        found = self._csv_columns(chunk)
        return None if found is None else self._table(*found)

    def _csv_columns(self, chunk: Chunk) -> tuple[dict[str, list[str]], list[int]] | None:
        header = [name.strip() for _, row in self._csv_records(chunk.header, 1) for name in row]
        if not any(header):
            raise DataError("no header; expected column names on the first line", file=self.name, line=1)
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
        reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=self._delimiter, strict=True)
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
            references = self._split_references(companion["references"])
            _refuse_bare(references, numbers, Origin(self.aligned["references"], numbers))
        return Items.of(
            lines, contexts=companion.get("context"), references=references, origin=Origin(self.name, numbers)
        )

    def _parquet_frame(self, chunk: Chunk) -> pl.DataFrame:
        start, stop = chunk.rows
        try:
            return pl.scan_parquet(self.path).slice(start, stop - start).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"cannot be read ({str(error).partition(chr(10))[0]})", file=self.name) from error

    def _parse_parquet(self, chunk: Chunk) -> Table:
        frame, lines = self._parquet_frame(chunk), _parquet_lines(chunk)
        layout = self.columns.resolve(frame.columns, self.name)
        if layout.responses and frame[layout.responses].dtype == pl.List(pl.String):
            parts = {old: new for new, old in layout.parts.items() if new != "references"}
            kept = [name for name in frame.columns if name in parts or self._keeps(name, layout)]
            return ResponseSets.from_polars(
                frame.select(kept).rename(parts), origin=Origin(self.name, lines, layout.parts)
            )
        return self._table({name: frame[name].to_list() for name in frame.columns}, lines)

    def _keeps(self, name: str, layout: Layout) -> bool:
        if name in layout.claimed or name in layout.parts or name == "id":
            return False
        return self.extras == "all" or name in self.extras

    def _table(self, data: Mapping[str, list[Any]], lines: Lines) -> Table:
        layout = self.columns.resolve(list(data), self.name)
        origin = Origin(self.name, lines, layout.parts)
        if self.extras != "all":
            for name in self.extras:
                if name not in data:
                    raise DataError(f"no such column; found {', '.join(data)}", file=self.name, column=name)
        common: dict[str, Any] = {
            "ids": data[layout.id] if layout.id else None,
            "contexts": data[layout.context] if layout.context else None,
            "systems": data[layout.system] if layout.system else None,
            "columns": {name: values for name, values in data.items() if self._keeps(name, layout)},
            "origin": origin,
        }
        if layout.text:
            references = self._references(data, layout, origin)
            return Items.of(data[layout.text], references=references, column=layout.text, **common)
        if layout.responses:
            return ResponseSets.of(data[layout.responses], column=layout.responses, **common)
        sets = _gather_wide(data, layout, origin, self.format in ("csv", "tsv"))
        return ResponseSets.of(sets, column=layout.wide[0], **common)

    def _references(self, data: Mapping[str, list[Any]], layout: Layout, origin: Origin) -> list[list[Any]] | None:
        """The references of each row, at least one."""
        is_csv = self.format in ("csv", "tsv")
        if layout.wide_references:
            for name in layout.wide_references:
                require_texts(data[name], origin, name, allow_null=True)
            rows = zip(*(data[name] for name in layout.wide_references), strict=True)
            found: list[list[Any]] = [_without_empty_end(row, "" if is_csv else None) for row in rows]
        elif layout.references is None:
            return None
        elif is_csv or layout.references_separator:
            require_texts(data[layout.references], origin, "references", allow_null=True)
            found = self._split_references(data[layout.references])
        else:
            values = data[layout.references]
            found = [value if isinstance(value, list) else [] if value is None else [value] for value in values]
        ids = data[layout.id] if layout.id else origin.lines
        _refuse_bare(found, ids, origin, layout.references or layout.wide_references[0])
        return found

    def _split_references(self, values: Iterable[str | None]) -> list[list[str]]:
        """One reference a value, or several with the separator between them."""
        separator = self.columns.references_separator
        texts = (value or "" for value in values)
        return [_without_empty_end(text.split(separator) if separator else [text], "") for text in texts]


def read(path: str, **options: Any) -> Table:
    """Read a file of response sets or of single texts; options as for `Source`."""
    return Source(path=path, **options).read()


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


def _plain_lines(data: bytes, file: str, first_line: int) -> list[str]:
    text = decode_utf8(data, file=file, first_line=first_line)
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def _lone_surrogate(line: bytes) -> str | None:
    """The first escape of half a surrogate pair in a line of JSON."""
    found = _SURROGATE.search(_SURROGATE_PAIR.sub(b"", line))
    return found[0].decode() if found else None


def _transposed(rows: list[dict[str, Any]], first: Iterable[str] = ()) -> dict[str, list[Any]]:
    """Records as columns, with None where a record lacks one; `first` names columns that come before the others."""
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(chain(first, *rows))}


def _parquet_lines(chunk: Chunk) -> np.ndarray[Any, Any]:
    return np.arange(chunk.rows[0] + 1, chunk.rows[1] + 1)


def _record_lines(chunk: Chunk, records: int) -> np.ndarray[Any, Any]:
    count = chunk.payload.count(b"\n")
    if count == records:
        return np.arange(chunk.first_line, chunk.first_line + count)
    lines = chunk.payload.split(b"\n")
    return np.array([number for number, line in enumerate(lines, chunk.first_line) if line.strip(BLANK)])


def _gather_wide(data: Mapping[str, list[Any]], layout: Layout, origin: Origin, is_csv: bool) -> list[list[Any]]:
    columns = [data[name] for name in layout.wide]
    if not is_csv:
        for name in layout.wide:
            require_texts(data[name], origin, name, allow_null=True)
    sets = [list(row) for row in zip(*columns, strict=True)]
    empty = "" if is_csv else None
    for row, responses in enumerate(sets):
        if empty not in responses:
            continue
        if is_csv and layout.empty_cells == "keep":
            continue
        if layout.empty_cells == "drop":
            sets[row] = [response for response in responses if response != empty]
            continue
        column = layout.wide[responses.index(empty)]
        if is_csv:
            message = (
                "the cell is empty, which may be an empty response or none; say which with --empty-cells keep or "
                "--empty-cells drop"
            )
        else:
            message = f"ragged row: this response is missing; expected {len(columns)} (or --empty-cells drop)"
        raise origin.error(row, message, column)
    return sets


def _without_empty_end(cells: Sequence[Any], empty: str | None) -> list[Any]:
    """The cells up to the last that is not empty."""
    last = next((place for place in range(len(cells), 0, -1) if cells[place - 1] != empty), 0)
    return list(cells[:last])


def _refuse_bare(references: list[list[Any]], ids: Any, origin: Origin, column: str | None = None) -> None:
    """An item without a reference is an error that names it."""
    bare = next((row for row, some in enumerate(references) if not some), None)
    if bare is not None:
        way_out = "; to read the file without references: --references ''" if column else ""
        raise origin.error(bare, f"item '{ids[bare]}' has no reference; expected at least one{way_out}", column)


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
