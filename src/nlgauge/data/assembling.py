"""From columns to tables: which column is the text, which are the references, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from nlgauge.data.columns import Layout, Reading
from nlgauge.data.roles import no_such_column
from nlgauge.data.tables import Items, Origin, ResponseSets, require_texts
from nlgauge.errors import argument

Table = ResponseSets | Items
Lines = Sequence[int] | np.ndarray[Any, Any]
Extras = Literal["all"] | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """What columns mean, and the name of their file for messages.

    `extras` are the columns to keep beside those that have a role. `is_csv`: cells are text, and an empty one may be
    none.
    """

    reading: Reading
    extras: Extras = "all"
    name: str | None = None
    is_csv: bool = False

    def frame_table(self, frame: pl.DataFrame, lines: Lines | None) -> Table:
        """A frame as a table; a list column of texts stays as it is."""
        layout = self.reading.resolve(frame.columns, self.name)
        if layout.responses and frame[layout.responses].dtype == pl.List(pl.String):
            parts = {old: new for new, old in layout.parts.items() if new != "references"}
            kept = [name for name in frame.columns if name in parts or self._keeps(name, layout)]
            return ResponseSets.from_polars(
                frame.select(kept).rename(parts), origin=Origin(self.name, lines, layout.parts)
            )
        return self.table({name: frame[name].to_list() for name in frame.columns}, lines)

    def table(self, data: Mapping[str, list[Any]], lines: Lines | None) -> Table:
        """Columns as a table; `lines` has the place of each row in its file."""
        layout = self.reading.resolve(list(data), self.name)
        ids: Sequence[Any] | None = data[layout.id] if layout.id else None
        if layout.wide and self.reading.empty_cells == "drop-set":
            kept: np.ndarray[Any, Any] = np.flatnonzero(self._have_cells(data, layout.wide))
            data = {name: [values[row] for row in kept] for name, values in data.items()}
            ids = data[layout.id] if layout.id else kept.tolist() if lines is None else None
            lines = None if lines is None else np.asarray(lines)[kept]
        origin = Origin(self.name, lines, layout.parts)
        for name in () if self.extras == "all" else self.extras:
            if name not in data:
                raise no_such_column(name, data, file=self.name, option="column")
        common: dict[str, Any] = {
            "ids": ids,
            "contexts": data[layout.context] if layout.context else None,
            "systems": data[layout.system] if layout.system else None,
            "runs": data[layout.runs] if layout.runs else None,
            "columns": {name: values for name, values in data.items() if self._keeps(name, layout)},
            "origin": origin,
        }
        if layout.text:
            references = self._references(data, layout, origin)
            return Items.of(data[layout.text], references=references, column=layout.text, **common)
        if layout.responses:
            return ResponseSets.of(data[layout.responses], column=layout.responses, **common)
        return ResponseSets.of(self._gather_wide(data, layout.wide, origin), column=layout.wide[0], **common)

    def has_no_sets(self, data: Mapping[str, list[Any]]) -> bool:
        """Whether every row is left out, since it has no response."""
        if self.reading.empty_cells != "drop-set":
            return False
        wide = self.reading.resolve(list(data), self.name).wide
        return bool(wide) and not any(self._have_cells(data, wide))

    def _have_cells(self, data: Mapping[str, list[Any]], wide: Sequence[str]) -> list[bool]:
        """Whether each row has a response."""
        empty = "" if self.is_csv else None
        return [any(cell != empty for cell in row) for row in zip(*(data[name] for name in wide), strict=True)]

    def split_references(self, values: Iterable[str | None]) -> list[list[str]]:
        """One reference per value, or several with the separator between them."""
        separator = self.reading.references_separator
        texts = (value or "" for value in values)
        return [_without_empty_end(text.split(separator) if separator else [text], "") for text in texts]

    def _keeps(self, name: str, layout: Layout) -> bool:
        if name in layout.claimed or name in layout.parts or name == "id":
            return False
        return self.extras == "all" or name in self.extras

    def _references(self, data: Mapping[str, list[Any]], layout: Layout, origin: Origin) -> list[list[Any]] | None:
        """The references of each row, at least one."""
        if layout.wide_references:
            for name in layout.wide_references:
                require_texts(data[name], origin, name, allow_null=True)
            rows = zip(*(data[name] for name in layout.wide_references), strict=True)
            found: list[list[Any]] = [_without_empty_end(row, "" if self.is_csv else None) for row in rows]
        elif layout.references is None:
            return None
        elif self.is_csv or self.reading.references_separator:
            require_texts(data[layout.references], origin, "references", allow_null=True)
            found = self.split_references(data[layout.references])
        else:
            values = data[layout.references]
            found = [value if isinstance(value, list) else [] if value is None else [value] for value in values]
        ids = data[layout.id] if layout.id else range(len(found)) if origin.lines is None else origin.lines
        refuse_bare(found, ids, origin, layout.references or layout.wide_references[0])
        return found

    def _gather_wide(self, data: Mapping[str, list[Any]], wide: Sequence[str], origin: Origin) -> list[list[Any]]:
        if not self.is_csv:
            for name in wide:
                require_texts(data[name], origin, name, allow_null=True)
        sets = [list(row) for row in zip(*(data[name] for name in wide), strict=True)]
        empty, meaning = "" if self.is_csv else None, self.reading.empty_cells
        if self.is_csv and meaning == "keep":
            return sets
        if self.reading.drops_cells:
            return [[response for response in responses if response != empty] for responses in sets]
        bad = next((row for row, responses in enumerate(sets) if empty in responses), None)
        if bad is None:
            return sets
        drop = argument("empty_cells", "drop")
        message = f"ragged row: this response is missing; expected {len(wide)} (or {drop})"
        if self.is_csv:
            keep = argument("empty_cells", "keep")
            message = f"the cell is empty, which may be an empty response or none; say which with {keep} or {drop}"
        raise origin.error(bad, message, wide[sets[bad].index(empty)])


def by_system(sets: ResponseSets) -> dict[str, ResponseSets]:
    """The sets of each system, in the order of the table; the name is empty where no column has it."""
    if "system" not in sets.frame.columns:
        return {"": sets}
    labels = sets.frame["system"].fill_null("")
    names = labels.unique(maintain_order=True).to_list()
    if len(names) == 1:
        return {names[0]: sets}
    return {name: sets.select((labels == name).arg_true().to_numpy()) for name in names}


def as_one_set(table: Table) -> ResponseSets:
    """All texts of each system as one set."""
    sets = table.as_sets() if isinstance(table, Items) else table
    return ResponseSets.concat(
        [
            replace(ResponseSets.one_set(part.texts), frame=pl.DataFrame({"id": ["all"], "system": [system]}))
            for system, part in by_system(sets).items()
        ]
    )


def refuse_bare(references: list[list[Any]], ids: Any, origin: Origin, column: str | None = None) -> None:
    """An item without a reference is an error that names it."""
    bare = next((row for row, some in enumerate(references) if not some), None)
    if bare is not None:
        way_out = f"; to read the file without references: {argument('references', repr(''))}" if column else ""
        raise origin.error(bare, f"item '{ids[bare]}' has no reference; expected at least one{way_out}", column)


def _without_empty_end(cells: Sequence[Any], empty: str | None) -> list[Any]:
    """The cells up to the last that is not empty."""
    last = next((place for place in range(len(cells), 0, -1) if cells[place - 1] != empty), 0)
    return list(cells[:last])
