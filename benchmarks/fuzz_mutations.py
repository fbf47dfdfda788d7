"""How the fuzzer damages a file: by bytes, and by structure where the file is JSON, JSON lines or CSV."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

_SNIPPETS = (
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'"',
    b"\r",
    b"\r\n",
    b"\n\n",
    b",",
    b"\t",
    b"{}",
    b"[]",
    b"null",
    b"NaN",
    b"1e999",
    b"-",
    b"=1+1",
    b"'@x",
    b"\\ud800",
    b"\xe2\x80\xa8",
    b"<script>|</b>",
    b"9" * 400,
    b"[" * 10_000,
    b'{"a":' * 10_000,
    b"PAR1",
    b"ARROW1",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"x" * 100_000,
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**30,
    1e308,
    float("nan"),
    "",
    " ",
    "a\u0000b",
    "\ud800",
    "=1",
    "'",
    "<b>|`x`</b>",
    "x" * 10_000,
    [],
    [[]],
    ["a"],
    [1],
    [None],
    {},
    {"a": 1},
    {"a": {"b": []}},
)
_NAMES = (
    "id",
    "text",
    "responses",
    "resp_0",
    "resp_20241118",
    "context",
    "system",
    "references",
    "run",
    "label",
    "",
    "é\n",
)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The data after a few mutations; one time in twenty unchanged, now and then empty or without records."""
    kind = draw.random()
    if kind < 0.05:
        return data
    if kind < 0.07:
        return draw.choice((b"", b"\n", data.partition(b"\n")[0], data.partition(b"\n")[0] + b"\n"))
    changes: tuple[Callable[[bytes, random.Random], bytes], ...] = (_bytes_changed, _structure_changed)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        data = draw.choice(changes)(data, draw)
    return data


def _bytes_changed(data: bytes, draw: random.Random) -> bytes:
    at, other = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    kind = draw.choice(("flip", "delete", "duplicate", "splice", "truncate", "insert", "insert"))
    if kind == "flip" and data:
        at = draw.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if kind == "delete":
        return data[:at] + data[min(other, at + draw.choice((1, 8, 64))) :]
    if kind == "duplicate":
        return data[:other] + data[at:other] + data[other:]
    if kind == "splice":
        return data[:at] + data[other:] + data[at:other]
    if kind == "truncate":
        return data[:at]
    return data[:at] + draw.choice(_SNIPPETS) + data[at:]


def _structure_changed(data: bytes, draw: random.Random) -> bytes:
    try:
        if data.lstrip().startswith(b"{"):
            return _json_changed(data, draw)
        lines = data.decode().split("\n")
    except (ValueError, RecursionError):
        return _bytes_changed(data, draw)
    return _cells_changed(lines, draw).encode("utf-8", "surrogatepass")


def _json_changed(data: bytes, draw: random.Random) -> bytes:
    """One value somewhere in a document, or in the records of JSON lines, is changed."""
    try:
        records = [json.loads(data)]
    except json.JSONDecodeError:
        records = [json.loads(line) for line in data.decode().split("\n") if line.strip()]
    chosen = [draw.choice(records)] if draw.random() < 0.7 else records
    for record in chosen:
        _value_changed(record, draw)
    return "\n".join(map(json.dumps, records)).encode() + b"\n"


def _value_changed(value: Any, draw: random.Random) -> None:
    """Change, rename, remove or add one member of an object or a list, at any depth."""
    while isinstance(value, dict | list) and value:
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        place = draw.choice(places)
        if isinstance(value[place], dict | list) and value[place] and draw.random() < 0.7:
            value = value[place]
            continue
        kind = draw.choice(("change", "change", "remove", "rename", "deepen", "swell"))
        if kind == "remove":
            del value[place]
        elif kind == "rename" and isinstance(value, dict):
            value[draw.choice(_NAMES)] = value.pop(place)
        elif kind == "deepen":
            value[place] = [value[place]]
        elif kind == "swell" and isinstance(value, dict):
            value.update({f"{draw.choice(_NAMES)}{i}": draw.choice(_VALUES) for i in range(draw.choice((3, 300)))})
        else:
            value[place] = draw.choice(_VALUES)
        return


def _cells_changed(lines: list[str], draw: random.Random) -> str:
    """One cell, column or line of a table is changed."""
    mark = "\t" if "\t" in lines[0] else ","
    rows = [line.split(mark) for line in lines]
    row = draw.choice(rows)
    place = draw.randrange(len(row))
    kind = draw.choice(("change", "change", "name", "column", "line", "longer"))
    if kind == "change":
        row[place] = str(draw.choice(_VALUES))
    elif kind == "name":
        rows[0][draw.randrange(len(rows[0]))] = draw.choice(_NAMES)
    elif kind == "column":
        value = str(draw.choice(_VALUES))
        for other in rows[1:]:
            if place < len(other):
                other[place] = value
    elif kind == "line":
        rows.insert(draw.randrange(len(rows)), list(draw.choice(rows)))
    else:
        row.append("extra")
    return "\n".join(map(mark.join, rows))
