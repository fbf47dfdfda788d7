"""Running the real command, and packing bytes the ways that people pack files."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlgauge import zstd
from nlgauge.engine.checksums import CHECKSUM, sealed
from tests.optional import skip_by_message

MB = 1 << 20
COMMAND = (sys.executable, "-m", "nlgauge.cli.main")
PACKINGS = ("", ".gz", ".gz in members", ".zst", ".zst in frames")

# What the logs in `data/logs` ask and answer.
QUESTIONS = {
    "rain": "It has been raining all week. What shall we do on Sunday?",
    "cake": "I baked a cake for you. How do you like it?",
    "bus": "The last bus has just left. How do we get home?",
}
ANSWERS = {
    "rain": ["Let us go to the museum.", "Let us go to the library and read all day."],
    "cake": ["It is lovely, thank you!", "It is lovely, but a little sweet."],
    "bus": ["We can walk, it is not far.", "We can call a taxi."],
}


@dataclass(frozen=True)
class Outcome:
    """How a run of the command ended."""

    code: int
    out: str
    err: str


def environment(cache: Path) -> dict[str, str]:
    """The environment of a run with a cache of its own; its scratch files go beside the cache."""
    scratch = cache.parent / f"{cache.name}-scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "NLGAUGE_CACHE": str(cache), "NLGAUGE_SCRATCH": str(scratch), "PYTHONUTF8": "1"}


def nlgauge(*arguments: str, cwd: Path, cache: Path, stdin: bytes = b"") -> Outcome:
    """Run the command in a folder and wait for it."""
    done = subprocess.run([*COMMAND, *arguments], cwd=cwd, env=environment(cache), input=stdin, capture_output=True)
    if done.returncode:
        skip_by_message(done.stderr.decode())
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with the checksum that it would have had with this content."""
    path.write_text(json.dumps(sealed({name: value for name, value in document.items() if name != CHECKSUM})))


def packed(data: bytes, packing: str) -> bytes:
    """The bytes of a file, compressed whole or in several members or frames."""
    middle = len(data) // 2
    halves = (data[:middle], data[middle:])
    if packing == ".gz":
        return gzip.compress(data)
    if packing == ".gz in members":
        return b"".join(map(gzip.compress, halves))
    if packing == ".zst":
        return zstd.compress(data)
    if packing == ".zst in frames":
        return b"".join(map(zstd.compress, halves))
    return data


def write_packed(path: Path, data: bytes, packing: str) -> Path:
    """Write a file, with the suffix of its compression added to its name."""
    target = path.with_name(path.name + packing.partition(" ")[0])
    target.write_bytes(packed(data, packing))
    return target
