"""One system in many files: a pattern (`shards/*.jsonl.gz`), a range (`part-{00..15}.txt`) or a folder of shards.

Files are read in the order of their names. A record without an id is identified by the number of its shard and
its line, as in `3:17`: ids are unique over shards, and systems with equal shards can be compared.
"""

from __future__ import annotations

import re
from glob import glob, has_magic
from pathlib import Path

from nlgauge.data.sources import object_stores as stores
from nlgauge.data.sources.files import STDIN, display_name, has_known_suffix
from nlgauge.errors import DataError

_ENDINGS = re.compile(r"(\.(jsonl?|ndjson|csv|tsv|txt|parquet|arrow|eval))?(\.(gz|zst))?$", re.IGNORECASE)
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_MOST_IN_A_RANGE = 1_000_000


def shard_files(path: str) -> tuple[str, ...]:
    """The files of an argument, in order; the argument itself if it names a single file."""
    if path == STDIN:
        return (path,)
    if stores.is_address(path):
        return _stored(path)
    place = Path(path)
    if place.is_dir():
        return tuple(str(file) for file in sorted(place.iterdir()) if _is_shard(file)) or (path,)
    if place.exists():
        return (path,)
    if _RANGE.search(path):
        return _in_range(path)
    if not has_magic(path):
        return (path,)
    found = sorted(file for file in glob(path, recursive=True) if Path(file).is_file())  # noqa: PTH207 - as typed
    if not found:
        raise DataError("matches no file; expected at least one (quote patterns)", file=path)
    return tuple(found)


def short_name(path: str) -> str:
    """The system's name from its argument: the file's name without endings, or the folder's name for a pattern."""
    is_one = Path(path).exists() or not (has_magic(path) or _RANGE.search(path))
    path = display_name(path)
    place = Path(path)
    if is_one:
        return _ENDINGS.sub("", place.name) or path
    stem = re.split(r"[*?\[{]", _ENDINGS.sub("", place.name))[0].rstrip("-_.")
    return stem or (place.parent.name if place.parent.name and not has_magic(place.parent.name) else path)


def _stored(path: str) -> tuple[str, ...]:
    if _RANGE.search(path):
        return _in_range(path)
    if not has_magic(path) or path.startswith("http"):
        if not stores.is_folder(path):
            return (path,)
        path = path.rstrip("/") + "/"
    found = [file for file in stores.stored_files(path) if has_magic(path) or _is_shard(Path(file))]
    if not found:
        raise DataError("matches no object; expected at least one", file=path)
    return tuple(found)


def _in_range(path: str) -> tuple[str, ...]:
    """Every number of the range, zero-padded as written; each file must exist."""
    found = _RANGE.search(path)
    if found is None:
        return (path,)
    first, last = int(found[1]), int(found[2])
    if not first <= last < first + _MOST_IN_A_RANGE:
        raise DataError(f"the range {found[0]} is empty or too long; expected it to rise, as in {{00..15}}", file=path)
    width = len(found[1]) if found[1].startswith("0") else 1
    names = (f"{path[: found.start()]}{number:0{width}d}{path[found.end() :]}" for number in range(first, last + 1))
    return tuple(file for name in names for file in _in_range(name))


def _is_shard(file: Path) -> bool:
    """Whether a file of a folder is data: its name has a known format and is not hidden."""
    return not file.name.startswith((".", "_")) and has_known_suffix(file.name) and not file.is_dir()
