"""Records of CSV and TSV, each with the line where it begins."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator

from nlgauge.data.sources.files import decode_utf8
from nlgauge.errors import DataError


def csv_records(data: bytes, first_line: int, name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Records that are not blank; only LF (or CRLF) ends a line. `name` is the file's in messages."""
    csv.field_size_limit(sys.maxsize)
    text = decode_utf8(data, file=name, first_line=first_line)
    reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter, strict=True)
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
            file=name,
            line=line,
        ) from error
