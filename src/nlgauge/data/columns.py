"""Which column of a file plays which part."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nlgauge.errors import DataError, OptionError

Kind = Literal["sets", "items"]
EmptyCells = Literal["error", "keep", "drop"]
_WIDE = re.compile(r"(?P<prefix>.*?)[_-]?(?P<number>\d+)$")
_DEFAULTS = {
    "responses": ("responses",),
    "text": ("text", "response"),
    "id": ("id", "sample_id"),
    "context": ("context", "prompt"),
    "system": ("system", "model"),
    "references": ("references", "reference"),
}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns to read; None means the usual names, and an empty name that no column plays the part.

    `responses` is a list column, or the prefix of wide columns (`resp` for `resp_0, resp_1, …`). `empty_cells`
    says what an empty cell of a wide CSV row means, since the format cannot tell an empty response from none.
    `references` is a list column, a column with one reference a row, the prefix of wide columns, or a column with
    several references a row and `references_separator` between them. Items may have different numbers of references:
    empty cells after the last one are none.
    """

    responses: str | None = None
    text: str | None = None
    id: str | None = None
    context: str | None = None
    system: str | None = None
    references: str | None = None
    references_separator: str = ""
    empty_cells: EmptyCells = "error"

    def __post_init__(self) -> None:
        if self.responses and self.text:
            raise OptionError(
                "both a responses column and a text column were named; a file holds response sets or single texts: "
                "name one of them"
            )
        if self.empty_cells not in ("error", "keep", "drop"):
            raise OptionError(f"empty cells '{self.empty_cells}'; expected error, keep or drop")

    def resolve(self, names: Sequence[str], file: str | None) -> Layout:
        """Match against the columns that a file has."""
        responses, wide = (None, ()) if self.text else self._list_or_wide("responses", "resp", names, file)
        text = None if responses or wide else self._find("text", names, file)
        if (self.references or self.references_separator) and (responses or wide):
            raise OptionError(
                f"{file or 'the data'} holds response sets ('{responses or wide[0]}'), and references go with "
                "single texts; expected a column of texts: name it with --text COL"
            )
        if not (responses or wide or text):
            raise DataError(
                f"found columns {', '.join(names) or 'none'}; expected 'responses' (a list), 'resp_0, resp_1, …' or "
                f"'text'; {_numbered(names) or 'name another column with --responses or --text'} (in Python: "
                "columns=Columns(responses=…) or Columns(text=…))",
                file=file,
            )
        references, wide_references = (
            self._references(names, file) if text else (self._find("references", names, file), ())
        )
        return Layout(
            kind="items" if text else "sets",
            responses=responses,
            wide=wide,
            text=text,
            id=self._find("id", names, file),
            context=self._find("context", names, file),
            system=self._find("system", names, file),
            references=references,
            wide_references=wide_references,
            references_separator=self.references_separator,
            empty_cells=self.empty_cells,
        )

    def names_systems(self, names: Sequence[str]) -> bool:
        """Whether one of these columns says which system a record comes from."""
        return self.system in names if self.system is not None else bool(set(_DEFAULTS["system"]) & set(names))

    def _find(self, part: str, names: Sequence[str], file: str | None) -> str | None:
        wanted: str | None = getattr(self, part)
        if wanted:
            if wanted not in names:
                raise DataError(f"no such column; found {', '.join(names)}", file=file, column=wanted)
            return wanted
        if wanted == "":
            return None
        return next((name for name in _DEFAULTS[part] if name in names), None)

    def _list_or_wide(
        self, part: str, prefix: str, names: Sequence[str], file: str | None
    ) -> tuple[str | None, tuple[str, ...]]:
        """The column that plays the part, or else wide columns with the name that was given, or the usual one."""
        wanted: str | None = getattr(self, part)
        if wanted is None or wanted in names:
            found = self._find(part, names, file)
            return (found, ()) if found else (None, wide_columns(names, prefix, file))
        wide = wide_columns(names, wanted, file) if wanted else ()
        if wanted and not wide:
            raise DataError(f"no such column; found {', '.join(names)}", file=file, column=wanted)
        return None, wide

    def _references(self, names: Sequence[str], file: str | None) -> tuple[str | None, tuple[str, ...]]:
        single, wide = self._list_or_wide("references", "references", names, file)
        if self.references_separator and not single:
            found = f"references in columns {', '.join(wide)}" if wide else f"columns {', '.join(names)}"
            raise DataError(
                f"found {found}; expected one column with a separator between references: name it with --references",
                file=file,
            )
        return single, wide


def wide_columns(names: Sequence[str], prefix: str, file: str | None) -> tuple[str, ...]:
    """The columns `prefix_0 … prefix_k` in numeric order; a gap in the numbers is an error."""
    numbered: dict[int, str] = {}
    for name in names:
        match = _WIDE.fullmatch(name)
        if match and match["prefix"] == prefix.rstrip("_-"):
            number = int(match["number"])
            if number in numbered:
                raise DataError(f"has the same number as '{numbered[number]}'", file=file, column=name)
            numbered[number] = name
    order = sorted(numbered)
    if order and order != list(range(order[0], order[0] + len(order))):
        missing = min(set(range(order[0], order[-1])) - set(order))
        raise DataError(f"wide columns have a gap: number {missing} is missing among {prefix}_*", file=file)
    return tuple(numbered[number] for number in order)


def _numbered(names: Sequence[str]) -> str:
    """Which columns look like responses, several with one prefix; nothing when none or several kinds do."""
    found: dict[str, list[str]] = {}
    for name in names:
        if (match := _WIDE.fullmatch(name)) and match["prefix"]:
            found.setdefault(match["prefix"], []).append(name)
    kinds = [(prefix, columns) for prefix, columns in found.items() if len(columns) > 1]
    if len(kinds) != 1:
        return ""
    prefix, columns = kinds[0]
    return f"columns {columns[0]} … {columns[-1]} look like responses: --responses {shlex.quote(prefix)}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of one file, found."""

    kind: Kind
    responses: str | None
    wide: tuple[str, ...]
    text: str | None
    id: str | None
    context: str | None
    system: str | None
    references: str | None
    wide_references: tuple[str, ...]
    references_separator: str
    empty_cells: EmptyCells

    @property
    def claimed(self) -> frozenset[str]:
        """Columns that play a part; the others are parameters, labels or human scores."""
        return frozenset([*self.parts.values(), *self.wide, *self.wide_references])

    @property
    def parts(self) -> dict[str, str]:
        """Parts that a column plays, by the name that the part has in a table; no other column may have that name."""
        named = {
            "responses": self.responses, "text": self.text, "id": self.id, "context": self.context,
            "system": self.system, "references": self.references,
        }  # fmt: skip
        return {part: name for part, name in named.items() if name is not None}
