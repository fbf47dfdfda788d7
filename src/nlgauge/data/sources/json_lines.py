"""JSON lines as records: chunks are decoded as a whole; only an invalid chunk is searched for the faulty line."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import numpy as np

from nlgauge.data.sources.chunks import BLANK, MAX_LINE_BYTES, Chunk
from nlgauge.data.sources.files import STDIN, decode_utf8, display_name
from nlgauge.errors import DataError, argument

OBJECT = msgspec.json.Decoder(dict[str, Any])
BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SURROGATE_PAIR = re.compile(rb"\\\\|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]\w\w")


def decode_chunk(chunk: Chunk, name: str) -> tuple[list[dict[str, Any]], np.ndarray[Any, Any]]:
    """The records of a chunk and the line of each; `name` is the file's in messages."""
    if len(chunk.payload) > MAX_LINE_BYTES:
        _refuse_long_lines(chunk, name)
    try:
        rows = OBJECT.decode_lines(chunk.payload)
    except BAD_JSON as error:
        raise _find_bad_json(chunk, name) from error
    if chunk.payload.count(b"\n") == len(rows):
        return rows, np.arange(chunk.first_line, chunk.first_line + len(rows))
    numbered = enumerate(chunk.payload.split(b"\n"), chunk.first_line)
    lines = np.array([number for number, line in numbered if line.strip(BLANK)])
    if len(lines) != len(rows):
        raise _find_bad_json(chunk, name)
    return rows, lines


def decode_python(data: bytes) -> Any:
    """A value that Python's `json` wrote: as JSON, but NaN and Infinity are numbers; raises ValueError otherwise."""
    try:
        return msgspec.json.decode(data)
    except BAD_JSON:
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("values are nested too deeply") from error


def decode_python_line(line: bytes, number: int, name: str) -> dict[str, Any]:
    """The object on a line that Python's `json` wrote."""
    try:
        value = decode_python(line)
    except ValueError as error:
        decode_utf8(line, file=name, first_line=number)
        raise _line_error(line, number, name, error) from error
    if not isinstance(value, dict):
        raise DataError(
            f"found a JSON {type(value).__name__}; expected one JSON object per line", file=name, line=number
        )
    return value


def _refuse_long_lines(chunk: Chunk, name: str) -> None:
    for number, line in enumerate(chunk.payload.split(b"\n"), chunk.first_line):
        if len(line) > MAX_LINE_BYTES:
            raise DataError(
                f"the line has {len(line) >> 20} MB, more than {MAX_LINE_BYTES >> 20}; expected one record per line",
                file=name,
                line=number,
            )


def _find_bad_json(chunk: Chunk, name: str) -> DataError:
    for number, line in enumerate(chunk.payload.split(b"\n"), chunk.first_line):
        decode_utf8(line, file=name, first_line=number)
        if not line.strip(BLANK):
            continue
        try:
            OBJECT.decode(line)
        except BAD_JSON as error:
            return _line_error(line, number, name, error)
    raise AssertionError("every line of a bad chunk parsed")


def _line_error(line: bytes, number: int, name: str, error: Exception) -> DataError:
    """The error of a line."""
    if line.lstrip().startswith(b"["):
        advice = "found a JSON array; expected one JSON object per line"
    elif half := _SURROGATE.search(_SURROGATE_PAIR.sub(b"", line)):
        advice = f"the escape {half[0].decode()} is half of a surrogate pair, which is not text; expected both halves"
    elif isinstance(error, msgspec.ValidationError):
        advice = f'{error}; expected a JSON object such as {{"context": …, "responses": […]}}'
    else:
        hint = f" (is it CSV? {argument('input_format', 'csv')})" if number == 1 and name == display_name(STDIN) else ""
        advice = f"invalid JSON ({error}); expected one JSON object per line{hint}"
    return DataError(advice, file=name, line=number)
