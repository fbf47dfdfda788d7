"""What a study is given, as tables: files, tables, frames, and lists of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.columns import Reading
from nlgauge.data.frames import frame_table, is_frame, polars_frame, with_unique_ids
from nlgauge.data.plain_tables import read_table
from nlgauge.data.reading import Source
from nlgauge.data.roles import find_column, names_in
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.scoring.scoring import file_names
from nlgauge.studies.base import StudyData


def check_inputs(data: StudyData) -> None:
    """Refuse options that would have no effect on this data."""
    if data.reading.one_set:
        raise OptionError(f"{argument('one_set')} makes one set of all texts; a study requires several sets")
    for entry in data.entries or ([None] if data.reading.given else []):
        if isinstance(entry, str | Path):
            _refuse_text(str(entry))
        elif is_frame(entry):
            data.reading.check_frame()
        else:
            data.reading.check_in_memory()


def _refuse_text(name: str) -> None:
    """Refuse a text where a file is expected; a missing file is found when it is read."""
    try:
        if " " not in name or Path(name).suffix or Path(name).exists():
            return
    except OSError:  # too long for a name
        pass
    raise DataError(f"no file is named '{name[:60]}'; texts are given as lists, one list per set")


def load(entry: Any, reading: Reading, *, with_texts: bool) -> tuple[pl.DataFrame, ResponseSets | None]:
    """One row per set, and the sets; without texts, the rows of any table."""
    if not with_texts:
        source = Source(path=str(entry), reading=reading) if isinstance(entry, str | Path) else entry
        if isinstance(source, Source) and source.format != "text":
            return _with_ids(read_table(source.path, format=source.format), source.reading), None
        if is_frame(entry):
            return _with_ids(polars_frame(entry), reading), None
    sets = load_sets(entry, reading)
    return sets.frame, sets


def load_sets(entry: Any, reading: Reading) -> ResponseSets:
    """The sets of an input; single texts are sets of one.

    A study has no systems, so that a column called `system` or `model` keeps its name, unless it was chosen.
    """
    if isinstance(entry, str | Path):
        entry = Source(path=str(entry), reading=reading)
    if isinstance(entry, Source):
        entry = replace(entry, reading=_without_systems(entry.reading)).read()
    elif is_frame(entry):
        entry = frame_table(entry, _without_systems(reading))
    elif isinstance(entry, list | tuple):
        single = entry and all(isinstance(text, str) for text in entry)
        entry = Items.of(entry) if single else ResponseSets.of(entry)
    if isinstance(entry, Items):
        return entry.as_sets()
    if isinstance(entry, ResponseSets):
        return replace(entry, frame=with_unique_ids(entry.frame)) if entry.explicit_ids else entry
    raise DataError(f"cannot study a {type(entry).__name__}; expected a file name, a table, a frame or lists of texts")


def _without_systems(reading: Reading) -> Reading:
    return replace(reading, system="") if reading.system is None else reading


def _with_ids(frame: pl.DataFrame, columns: Reading) -> pl.DataFrame:
    if columns.context and find_column(frame.columns, "context", columns.context) != "context":
        frame = frame.rename({columns.context: "context"})
    column = find_column(frame.columns, "id", columns.id)
    if column is None:
        return frame.with_columns(pl.int_range(1, pl.len() + 1).cast(pl.String).alias("id"))
    return with_unique_ids(frame.with_columns(names_in(frame, column, option="id").fill_null("").alias("id")))


def task_names(entries: Sequence[Any], names: Sequence[str] = ()) -> list[str]:
    """What to call the tasks: the names given, or file names, or numbers."""
    if names:
        if len(names) != len(entries) or len(set(names)) < len(names):
            raise OptionError(
                f"{argument('tasks', ','.join(names))} for {len(entries)} files; expected a different name for each"
            )
        return list(names)
    paths = [entry.path if isinstance(entry, Source) else entry for entry in entries]
    if all(isinstance(path, str | Path) for path in paths):
        return file_names([str(path) for path in paths])
    return [f"task {i}" for i in range(1, len(entries) + 1)] if len(entries) > 1 else [""]


def parts_of(frame: pl.DataFrame, by: str | None) -> list[tuple[str, Array | None]]:
    """Names of the parts and their rows; one nameless part without `by`."""
    if by is None:
        return [("", None)]
    values = names_in(frame, by, option="by").fill_null("")
    return [(str(v), (values == v).arg_true().to_numpy()) for v in values.unique(maintain_order=True).to_list()]


def part_name(title: str, part: str, inputs: int) -> str:
    """What to call a part of an input: by its value alone where there is one input."""
    if not part:
        return title
    return part if inputs == 1 else f"{title}: {part}"
