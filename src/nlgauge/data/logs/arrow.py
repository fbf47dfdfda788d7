"""Arrow files and folders of Hugging Face datasets, turned into JSON lines one file at a time.

A dataset saved with `save_to_disk` is a folder of Arrow streams that `state.json` lists; with several splits each is a
folder, and `dataset_dict.json` lists them. On the hub, a dataset is a folder of Parquet files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nlgauge.data.logs.answers import dig
from nlgauge.data.logs.arrow_layout import check_layout
from nlgauge.data.roles import names_shown
from nlgauge.data.sources.chunks import Chunk
from nlgauge.data.sources.files import ARROW_MAGIC, display_name, located
from nlgauge.data.sources.json_lines import decode_python
from nlgauge.data.sources.polars_files import polars_input, read_by_polars
from nlgauge.errors import DataError

_ARROW_FILE, _ARROW_STREAM = ARROW_MAGIC
_STATE, _SPLITS = "state.json", "dataset_dict.json"
_UNREADABLE = "is not a readable Arrow or Parquet file; expected a complete one: copy it again"
_SHARD = re.compile(r"(?P<split>.+)-\d+-of-\d+")


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds a dataset."""
    return (folder / _STATE).is_file() or (folder / _SPLITS).is_file() or bool(_parquet_files(folder))


def dataset_files(folder: Path) -> list[Path]:
    """The data files of a dataset of one split, in order."""
    if (folder / _SPLITS).is_file():
        return dataset_files(_only_split(folder))
    if (state := folder / _STATE).is_file():
        with located(str(state)):
            return _listed_files(state)
    files = _parquet_files(folder)
    splits = dict.fromkeys(found["split"] if (found := _SHARD.fullmatch(path.stem)) else "" for path in files)
    if len(splits) > 1 or (len(files) > 1 and "" in splits):
        raise DataError(
            f"holds {', '.join(path.name for path in files[:6])}; expected the files of one split: name one file, "
            "or a folder with one split",
            file=str(folder),
        )
    return files


def table_chunks(files: Sequence[Path], size: int, bytes_on_disk: int) -> Iterator[Chunk]:
    """The rows of Arrow or Parquet files as JSON lines, some `size` bytes at a time, without columns of bytes."""
    first_line, header, names = 1, b"", None
    for place, path in enumerate(files):
        for part, share in _parts(path, size):
            if part.columns != (names := names or part.columns):
                raise DataError(
                    f"has columns {names_shown(part.columns)}; expected those of {files[0].name} "
                    f"({names_shown(names)}): one dataset holds rows of one kind",
                    file=display_name(str(path)),
                )
            with read_by_polars(str(path), _UNREADABLE):
                payload = part.write_ndjson().encode()
            header = header or payload.partition(b"\n")[0]
            yield Chunk(payload, first_line, header, consumed=int(bytes_on_disk * (place + share) / len(files)))
            first_line += part.height


def _parts(path: Path, size: int) -> Iterator[tuple[pl.DataFrame, float]]:
    """A file's rows, some `size` bytes at a time, and the share of the file read by then."""
    frame = _frame(path)
    kept = [name for name, kind in frame.schema.items() if not _holds_bytes(kind)]
    if not kept:
        found = ", ".join(frame.columns) or "no columns"
        raise DataError(f"found {found}; expected at least one column of text or numbers", file=display_name(str(path)))
    rows = max(1, int(size * frame.height / max(1, frame.estimated_size())))
    for start in range(0, frame.height, rows):
        part = frame.slice(start, rows).select(kept)
        yield part, (start + part.height) / frame.height


def _frame(path: Path) -> pl.DataFrame:
    with read_by_polars(str(path), _UNREADABLE):
        with path.open("rb") as file:
            magic = file.read(len(_ARROW_FILE))
        source, stream = polars_input(str(path)), magic.startswith(_ARROW_STREAM)
        if not stream and magic != _ARROW_FILE:
            return pl.read_parquet(source)
        try:
            check_layout(path, stream=stream)
        except ValueError as error:
            raise DataError(f"{_UNREADABLE} ({error})", file=display_name(str(path))) from error
        return pl.read_ipc_stream(source) if stream else pl.read_ipc(source)


def _holds_bytes(kind: Any) -> bool:
    if isinstance(kind, pl.Struct):
        return any(_holds_bytes(field.dtype) for field in kind.fields)
    if isinstance(kind, pl.List | pl.Array):
        return _holds_bytes(kind.inner)
    return kind in (pl.Binary, pl.Object)


def _parquet_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet")) or sorted(folder.glob("data/*.parquet"))


def _only_split(folder: Path) -> Path:
    with located(str(folder / _SPLITS)):
        splits = _listed(folder / _SPLITS, "splits")
    if len(splits) != 1:
        ways = ", ".join(str(folder / split) for split in splits) or "none"
        raise DataError(
            f"is a dataset of {len(splits)} splits; expected one: name its folder ({ways})", file=str(folder)
        )
    return splits[0]


def _listed_files(state: Path) -> list[Path]:
    files = _listed(state, "_data_files")
    missing = next((path for path in files if not path.is_file()), None)
    if missing is not None:
        raise DataError(f"names {missing.name}, which does not exist; expected a complete dataset")
    if not files:
        raise DataError("names no data files; expected at least one")
    return files


def _listed(path: Path, key: str) -> list[Path]:
    """What a dataset's description lists: files or folders beside it."""
    try:
        value = decode_python(path.read_bytes())
    except (ValueError, OSError) as error:
        raise DataError(f"cannot be read ({error}); expected the description of a dataset") from error
    found = dig(value, key)
    entries = found if isinstance(found, list) else []
    names = [entry.get("filename") if isinstance(entry, dict) else entry for entry in entries]
    listed = [name for name in names if isinstance(name, str)]
    if not isinstance(found, list) or len(listed) < len(names):
        raise DataError(f"has no list of names '{key}'; expected the description of a dataset")
    for name in listed:
        if name in ("", ".", "..") or Path(name).name != name:
            raise DataError(f"names '{name}'; expected files beside it, by name alone")
    return [path.parent / name for name in listed]
