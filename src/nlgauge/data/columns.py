"""Which column of a file plays which part."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from nlgauge.configured import Options, check_that, option, options_of
from nlgauge.data.roles import find_column, names_shown, no_such_column
from nlgauge.data.sources.files import FORMATS
from nlgauge.errors import DataError, OptionError, argument

EmptyCells = Literal["error", "keep", "drop", "drop-set"]
_MOST_COLUMNS = 100_000
_MOST_CELLS = 50_000_000  # of one chunk, whose text is much smaller
_DIGITS, _MOST_DIGITS = "0123456789", 9
_ROLES = ("responses", "text", "id", "context", "system", "runs", "references")
_COMPANIONS = ("context", "references")


@dataclass(frozen=True, kw_only=True)
class Reading(Options):
    """How data is read: the format of files, which column plays which part, and what makes a set.

    Of a column's name, None means the usual names, and an empty one that no column plays the part. `responses` is a
    list column, or the prefix of wide columns (`resp` for `resp_0, resp_1, …`). `empty_cells` says what an empty cell
    of a wide CSV row means, since the format cannot tell an empty response from none: with `drop` it is none, and with
    `drop-set` a row without any response is left out, too. `references` is a list column, a column with one reference
    per row, the prefix of wide columns, or a column with several references per row and `references_separator` between
    them. Items may have different numbers of references: empty cells after the last one are none. `aligned` names
    companion files of plain text (`context` or `references`), line by line, or the input of an OpenAI batch
    (`context`); in Python it may be a dictionary.
    """

    heading: ClassVar[str] = "Data"

    responses: str | None = option(None, "List column of responses, or prefix of resp_0, resp_1, ...", metavar="COL")
    text: str | None = option(None, "Column of single texts.", metavar="COL")
    id: str | None = option(None, "Column of ids.", metavar="COL")
    context: str | None = option(None, "Column of contexts.", metavar="COL")
    system: str | None = option(None, "Column of system names.", metavar="COL")
    runs: str | None = option(None, "Column of runs: seeds, checkpoints, repeated generations.", metavar="COL")
    references: str | None = option(
        None, "Column of references: a list, one text, or prefix of references_0, references_1, ...", metavar="COL"
    )
    references_separator: str = option(
        "", r"Text between references in one cell or line, as in '\t'.", metavar="TEXT", escapes=True
    )
    empty_cells: EmptyCells = option(
        "error",
        "An empty cell of a wide CSV row: an error, an empty response (keep), or none (drop; drop-set also leaves out "
        "rows of empty cells).",
    )
    input_format: str = option("", "jsonl, csv, tsv, parquet or text. Default: by name and content.", metavar="FORMAT")
    set_size: int = option(0, "Plain text: every N lines are one set.", metavar="N")
    aligned: Sequence[str] | Mapping[str, str] = option(
        (),
        "Plain text: a file with the context= or references= of each line. OpenAI batch output: context=INPUT.",
        metavar="PART=FILE",
    )
    one_set: bool = option(False, "Take all texts of a file as one set.")

    def __post_init__(self) -> None:
        if isinstance(self.aligned, Mapping):
            entries = tuple(f"{part}={file}" for part, file in self.aligned.items())
            object.__setattr__(self, "aligned", entries)
        super().__post_init__()
        if self.responses and self.text:
            raise OptionError(
                f"both {argument('responses', self.responses)} and {argument('text', self.text)}; a file holds "
                "response sets or single texts: name one of them"
            )
        expected = f"one of {', '.join(FORMATS)}"
        check_that(self.input_format in ("", *FORMATS), "input_format", self.input_format, expected)
        check_that(self.set_size >= 0, "set_size", self.set_size, "a positive number of lines")
        for entry in self.aligned:
            check_that("=" in entry, "aligned", entry, "PART=FILE, as in context=contexts.txt")
            check_that(entry.partition("=")[0] in _COMPANIONS, "aligned", entry, f"{' or '.join(_COMPANIONS)}=FILE")
        if len(self.companions) < len(self.aligned):
            raise OptionError(
                f"{argument('aligned', ' '.join(self.aligned))}; expected one file per part: several references are on "
                f"one line, with {argument('references_separator')} between them"
            )
        if self.set_size and "references" in self.companions:
            raise OptionError(
                f"{argument('set_size', self.set_size)}: references belong to single texts, not to sets; expected "
                f"{argument('aligned', 'context=FILE')} alone"
            )

    @property
    def drops_cells(self) -> bool:
        """Whether an empty cell of a wide row is no response."""
        return self.empty_cells in ("drop", "drop-set")

    @property
    def companions(self) -> dict[str, str]:
        """The aligned files by the part that they play."""
        return dict(entry.split("=", 1) for entry in self.aligned)

    @property
    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return {one.name: value for one in options_of(type(self)) if (value := getattr(self, one.name)) != one.default}

    def check_in_memory(self, *allowed: str) -> None:
        """Refuse options that say nothing about data in memory."""
        if refused := [name for name in self.given if name not in allowed]:
            raise OptionError(f"{argument(refused[0])} is an option for reading files; the data was given in memory")

    def check_frame(self) -> None:
        """Refuse options that say nothing about a frame."""
        self.check_in_memory(*_ROLES, "references_separator", "empty_cells", "one_set")

    def resolve(self, names: Sequence[str], file: str | None) -> Layout:
        """Match against the columns that a file has."""
        responses, wide = (None, ()) if self.text else self._list_or_wide("responses", "resp", names, file)
        text = None if responses or wide else self._find("text", names, file)
        if (self.references or self.references_separator) and (responses or wide):
            raise OptionError(
                f"{file or 'the data'} holds response sets ('{responses or wide[0]}'), and references belong to single "
                f"texts; expected a column of texts: name it with {argument('text', 'COL')}",
                option="references" if self.references else "references_separator",
            )
        if not (responses or wide or text):
            other = f"{argument('responses', 'COL')} or {argument('text', 'COL')}"
            raise DataError(
                f"found columns {names_shown(names) or 'none'}; expected 'responses' (a list), 'resp_0, resp_1, …' or "
                f"'text'; {_numbered(names) or f'name another column with {other}'}",
                file=file,
            )
        references, wide_references = (
            self._references(names, file) if text else (self._find("references", names, file), ())
        )
        others = {part: self._find(part, names, file) for part in ("id", "context", "system", "runs")}
        return Layout(
            responses=responses,
            wide=wide,
            text=text,
            references=references,
            wide_references=wide_references,
            **others,
        )

    def _find(self, part: str, names: Sequence[str], file: str | None) -> str | None:
        return find_column(names, part, getattr(self, part), file=file)

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
            raise no_such_column(wanted, names, file=file, option=part)
        return None, wide

    def _references(self, names: Sequence[str], file: str | None) -> tuple[str | None, tuple[str, ...]]:
        single, wide = self._list_or_wide("references", "references", names, file)
        if self.references_separator and not single:
            found = f"references in columns {names_shown(wide)}" if wide else f"columns {names_shown(names)}"
            raise DataError(
                f"found {found}; expected one column with a separator between references: name it with "
                f"{argument('references', 'COL')}",
                file=file,
                option="references_separator",
            )
        return single, wide


def numbered(name: str) -> tuple[str, int] | None:
    """The prefix and the number of a name such as `resp_0`, `resp-0` or `resp0`."""
    stem = name.rstrip(_DIGITS)
    digits = name[len(stem) :]
    return (re.sub("[_-]$", "", stem), int(digits)) if 0 < len(digits) <= _MOST_DIGITS else None


def numbered_columns(names: Sequence[str], prefix: str, file: str | None) -> dict[int, str]:
    """The columns `prefix_0, prefix_1, …` by their number."""
    found: dict[int, str] = {}
    wanted = prefix.rstrip("_-")
    for name in names:
        if name.startswith(wanted) and (parts := numbered(name)) and parts[0] == wanted:
            number = parts[1]
            if number in found:
                raise DataError(f"has the same number as '{found[number]}'", file=file, column=name)
            found[number] = name
    return found


def wide_columns(names: Sequence[str], prefix: str, file: str | None) -> tuple[str, ...]:
    """The columns `prefix_0 … prefix_k` in numeric order; a gap in the numbers is an error."""
    by_number = numbered_columns(names, prefix, file)
    order = sorted(by_number)
    for expected, number in enumerate(order, order[0] if order else 0):
        if number != expected:
            raise DataError(f"wide columns have a gap: number {expected} is missing among {prefix}_*", file=file)
    return tuple(by_number[number] for number in order)


def refuse_width(columns: int, rows: int = 1) -> None:
    """Refuse a table so wide that it would take minutes and gigabytes."""
    if columns > _MOST_COLUMNS:
        raise DataError(
            f"has {columns:,} columns, more than {_MOST_COLUMNS:,}; expected one column for each kind of value: put "
            "many values into a list"
        )
    if columns * rows > _MOST_CELLS:
        raise DataError(
            f"has {columns:,} different names in {rows:,} records; expected the same names in every record: put what "
            "differs into the value of one column"
        )


def _numbered(names: Sequence[str]) -> str:
    """Which columns look like responses, several with one prefix; nothing when none or several kinds do."""
    found: dict[str, list[str]] = {}
    for name in names:
        if (parts := numbered(name)) and parts[0]:
            found.setdefault(parts[0], []).append(name)
    kinds = [(prefix, columns) for prefix, columns in found.items() if len(columns) > 1]
    if len(kinds) != 1:
        return ""
    prefix, columns = kinds[0]
    return f"columns {columns[0]} … {columns[-1]} look like responses: {argument('responses', shlex.quote(prefix))}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of one file, found."""

    responses: str | None
    wide: tuple[str, ...]
    text: str | None
    id: str | None
    context: str | None
    system: str | None
    runs: str | None
    references: str | None
    wide_references: tuple[str, ...]

    @cached_property
    def claimed(self) -> frozenset[str]:
        """Columns that have a role; the others are parameters, labels or human scores."""
        return frozenset([*self.parts.values(), *self.wide, *self.wide_references])

    @cached_property
    def parts(self) -> dict[str, str]:
        """Parts that a column plays, by the name that the part has in a table; no other column may have that name."""
        return {part: name for part in _ROLES if (name := getattr(self, part)) is not None}
