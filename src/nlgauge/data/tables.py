"""The four tables: thin, validated wrappers over Polars data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from nlgauge.data.roles import names_shown, no_such_column
from nlgauge.errors import DataError, argument

Columnar = Mapping[str, Sequence[Any] | pl.Series]


@dataclass(frozen=True)
class Origin:
    """The origin of rows, so that an error can name file, line and column (`names`: the file's column names)."""

    file: str | None = None
    lines: Sequence[int] | np.ndarray[Any, Any] | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def line(self, row: int) -> int:
        """The line of a row; its own number where there are no lines."""
        return row if self.lines is None else int(self.lines[row])

    def error(self, row: int, message: str, column: str | None = None) -> DataError:
        """An error about one row."""
        column = self.names.get(column, column) if column else None
        if self.lines is not None:
            return DataError(message, file=self.file, line=self.line(row), column=column)
        return DataError(f"row {row}: {message}", file=self.file, column=column)


NOWHERE = Origin()


@dataclass(frozen=True)
class ResponseSets:
    """Sets of responses, one per context (paper 1, section 3): `texts[offsets[i]:offsets[i+1]]` answer context i.

    `frame` has one row per set: `id`, and `context`, `system`, `runs` (the run of each set) and any parameter, label or
    human column when present.
    `explicit_ids` is False if ids are line numbers. `references` has one list per set if sets are single texts with
    references.
    """

    frame: pl.DataFrame
    texts: pl.Series
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    explicit_ids: bool = True
    references: pl.Series | None = None

    @classmethod
    def of(
        cls,
        responses: Iterable[Sequence[str]],
        *,
        contexts: Sequence[str | None] | None = None,
        ids: Sequence[Any] | None = None,
        systems: Sequence[str | None] | None = None,
        runs: Sequence[Any] | None = None,
        columns: Columnar | None = None,
        origin: Origin = NOWHERE,
        column: str = "responses",
    ) -> Self:
        """Build from lists of texts; every response must be a string and no set may be empty."""
        sets = responses if isinstance(responses, list) else list(responses)
        texts = _flat_texts(sets, origin, column, "response")
        sizes = np.fromiter(map(len, sets), dtype=np.int64, count=len(sets))
        known = {"context": contexts, "system": systems, "runs": runs, **(columns or {})}
        frame = _frame(len(sets), known, ids, origin)
        return cls(frame, texts, _offsets(sizes), ids is not None)

    @classmethod
    def from_polars(cls, frame: pl.DataFrame, *, responses: str = "responses", origin: Origin = NOWHERE) -> Self:
        """Wrap a frame with a list column of responses."""
        if responses not in frame.columns:
            raise no_such_column(responses, frame.columns, file=origin.file, option="responses")
        column = frame[responses]
        ids = frame["id"].to_list() if "id" in frame.columns else None
        others = frame.drop(responses, "id", strict=False).to_dict()
        if column.dtype != pl.List(pl.String):
            return cls.of(column.to_list(), ids=ids, columns=others, origin=origin, column=responses)
        sizes = column.list.len()
        bad = (sizes.is_null() | (sizes == 0)).arg_true()
        if len(bad):
            raise origin.error(int(bad[0]), "the set of responses is empty; expected at least one text", responses)
        texts = column.explode()
        if texts.null_count():
            row = int(np.searchsorted(np.cumsum(sizes.to_numpy()), texts.is_null().arg_true()[0], side="right"))
            raise origin.error(row, "a response is null; expected text", responses)
        frame = _frame(frame.height, others, ids, origin)
        return cls(frame, texts.alias("text"), _offsets(sizes.to_numpy()), ids is not None)

    @classmethod
    def one_set(cls, texts: Sequence[str] | pl.Series, *, id: str = "all") -> Self:
        """All texts as a single set."""
        return cls.of([list(texts)], ids=[id])

    def __len__(self) -> int:
        return self.frame.height

    @property
    def ids(self) -> pl.Series:
        """One string per set."""
        return self.frame["id"]

    @property
    def sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Responses in each set."""
        return np.diff(self.offsets)

    def to_polars(self) -> pl.DataFrame:
        """One frame with `responses` as a list column."""
        values = self.texts.to_list()
        lists = [values[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]
        return self.frame.with_columns(pl.Series("responses", lists, dtype=pl.List(pl.String)))

    def select(self, rows: np.ndarray[Any, Any]) -> ResponseSets:
        """The sets at these row numbers, in this order."""
        starts, sizes = self.offsets[:-1][rows], self.sizes[rows]
        offsets = _offsets(sizes)
        positions = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - starts, sizes)
        references = None if self.references is None else self.references.gather(rows)
        return ResponseSets(self.frame[rows], self.texts.gather(positions), offsets, self.explicit_ids, references)

    @staticmethod
    def concat(parts: Sequence[ResponseSets]) -> ResponseSets:
        """Several tables as one, in order."""
        sizes = np.concatenate([part.sizes for part in parts])
        references = [part.references for part in parts if part.references is not None]
        return ResponseSets(
            _concat_frames([part.frame for part in parts]),
            pl.concat([part.texts for part in parts]),
            _offsets(sizes),
            all(part.explicit_ids for part in parts),
            pl.concat(references) if len(references) == len(parts) else None,
        )


@dataclass(frozen=True)
class Items:
    """Single texts: `id, text`, and `context, references, system, runs` where known.

    `references[i]`, a list, belongs to item i.
    """

    frame: pl.DataFrame
    explicit_ids: bool = True

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        *,
        references: Sequence[Sequence[str]] | None = None,
        contexts: Sequence[str | None] | None = None,
        ids: Sequence[Any] | None = None,
        systems: Sequence[str | None] | None = None,
        runs: Sequence[Any] | None = None,
        columns: Columnar | None = None,
        origin: Origin = NOWHERE,
        column: str = "text",
    ) -> Self:
        """Build from a list of texts; `references[i]` are the references of `texts[i]`."""
        values = texts if isinstance(texts, list) else list(texts)
        series = require_texts(values, origin, column)
        if references is not None:
            if len(references) != len(values):
                raise DataError(
                    f"{len(references)} lists of references for {len(values)} texts; expected one list per text: "
                    "references[i] belongs to text i",
                    file=origin.file,
                )
            _flat_texts(references, origin, "references", "reference")
        extra: dict[str, Any] = {"context": contexts, "system": systems, "runs": runs, **(columns or {})}
        frame = _frame(len(values), extra, ids, origin).with_columns(series.alias("text"))
        if references is not None:
            frame = frame.with_columns(pl.Series("references", references, dtype=pl.List(pl.String)))
        return cls(frame, ids is not None)

    def __len__(self) -> int:
        return self.frame.height

    @property
    def texts(self) -> pl.Series:
        """One text per item."""
        return self.frame["text"]

    def as_sets(self) -> ResponseSets:
        """Each item as a set of one text with its references."""
        return ResponseSets(
            self.frame.drop("text", "references", strict=False),
            self.texts,
            np.arange(len(self) + 1, dtype=np.int64),
            self.explicit_ids,
            self.frame["references"] if "references" in self.frame.columns else None,
        )

    def as_one_set(self) -> ResponseSets:
        """All texts as a single set."""
        return ResponseSets.one_set(self.texts)

    @staticmethod
    def concat(parts: Sequence[Items]) -> Items:
        """Several tables as one, in order."""
        return Items(_concat_frames([part.frame for part in parts]), all(part.explicit_ids for part in parts))


@dataclass(frozen=True)
class _PlainTable:
    """A frame whose required columns exist, have the right type and no nulls."""

    frame: pl.DataFrame
    origin: Origin = field(default=NOWHERE, repr=False, compare=False)
    _required: ClassVar[Mapping[str, pl.DataType]] = {}

    def __post_init__(self) -> None:
        file, found = self.origin.file, self.frame.columns
        if missing := [name for name in self._required if name not in found]:
            message = f"found columns {names_shown(found) or 'none'}; expected {', '.join(self._required)}"
            raise DataError(message, file=file, column=missing[0])
        if self.frame.height == 0:
            raise DataError("the table has no rows", file=file)
        casts = []
        for name, dtype in self._required.items():
            column = self.frame[name]
            if column.dtype.is_nested() != dtype.is_nested() or isinstance(column.dtype, pl.Struct):
                raise DataError(f"holds {column.dtype}; expected {_expected(dtype)} per row", file=file, column=name)
            cast = column.cast(dtype, strict=False)
            bad = (cast.is_null() | (cast.is_nan() if dtype.is_float() else False)).arg_true()
            if len(bad):
                row = int(bad[0])
                raise self.origin.error(row, f"{_found(column[row])}; expected {_expected(dtype)}", name)
            casts.append(cast)
        object.__setattr__(self, "frame", self.frame.with_columns(casts))

    def __len__(self) -> int:
        return self.frame.height


@dataclass(frozen=True)
class Ratings(_PlainTable):
    """One row per answer of a rater: `item, rater, question, value`, and a time when known.

    `pair`, when present, names the two responses of the set `item` that were compared, such as `0-2`. `assignment`,
    when present and not null, names what was rated together: numbers of different assignments cannot be compared.
    """

    _required: ClassVar[Mapping[str, pl.DataType]] = {
        "item": pl.String(),
        "rater": pl.String(),
        "question": pl.String(),
        "value": pl.Float64(),
    }


@dataclass(frozen=True)
class TokenScores(_PlainTable):
    """One row per text and model: `prompt, text, kind, token_logprobs`."""

    _required: ClassVar[Mapping[str, pl.DataType]] = {
        "prompt": pl.String(),
        "text": pl.String(),
        "kind": pl.String(),
        "token_logprobs": pl.List(pl.Float64),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        holes = self.frame["token_logprobs"].list.eval(pl.element().is_null() | pl.element().is_nan()).list.any()
        if holes.any():
            row = int(holes.arg_true()[0])
            raise self.origin.error(row, "a log-probability is null or NaN; expected numbers", "token_logprobs")


def _frame(rows: int, columns: Mapping[str, Any], ids: Sequence[Any] | None, origin: Origin) -> pl.DataFrame:
    if rows == 0:
        raise DataError("the table has no rows", file=origin.file)
    if ids is None:
        numbers = origin.lines if origin.lines is not None else np.arange(rows)
        names = pl.Series("id", np.asarray(numbers)).cast(pl.String)
    else:
        names = require_texts([None if i is None else str(i) for i in ids], origin, "id", allow_null=True).alias("id")
        if names.null_count():
            raise origin.error(int(names.is_null().arg_true()[0]), "the id is null; expected a name or a number", "id")
    if len(names) != rows:
        raise DataError(f"{len(names)} ids for {rows} rows; expected one per row", file=origin.file)
    if "id" in columns:
        raise DataError("duplicate; ids are passed separately from the other columns", file=origin.file, column="id")
    given = {name: values for name, values in columns.items() if values is not None}
    for name, values in given.items():
        if len(values) != rows:
            message = f"{len(values)} values for {rows} rows; expected one per row"
            raise DataError(message, file=origin.file, column=name)
    return pl.DataFrame([names, *(_column(name, values, origin) for name, values in given.items())])


def _offsets(sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where each set begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _concat_frames(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    try:
        return pl.concat(frames, how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        for name in dict.fromkeys(name for frame in frames for name in frame.columns):
            kinds = dict.fromkeys(str(frame.schema[name]) for frame in frames if name in frame.columns)
            if len(kinds) > 1:
                raise DataError(f"holds {' and '.join(kinds)}; expected values of one kind", column=name) from error
        raise


def _column(name: str, values: Sequence[Any] | pl.Series, origin: Origin) -> pl.Series:
    if name in ("context", "system"):
        return require_texts(list(values), origin, name, allow_null=True).alias(name)
    if name == "runs":
        return pl.Series(name, [_run(value, row, origin) for row, value in enumerate(values)], dtype=pl.String)
    if isinstance(values, pl.Series):
        return values.alias(name)
    try:
        column = pl.Series(name, values, strict=False)
    except UnicodeEncodeError as error:
        raise DataError(f"holds a lone surrogate ({error}); expected text", file=origin.file, column=name) from error
    if column.dtype == pl.Object:
        kinds = dict.fromkeys(type(value).__name__ for value in values if value is not None)
        raise DataError(f"holds {' and '.join(kinds)}; expected values of one kind", file=origin.file, column=name)
    return column


def _run(value: Any, row: int, origin: Origin) -> str:
    """The name of a run, which every row must have: a text or a number."""
    if isinstance(value, str | int | float) and value == value and str(value).strip():
        return str(value).strip()
    missing = value is None or isinstance(value, str | float)
    found = "the run is missing" if missing else f"the run is {_found(value)}"
    advice = f"{argument('runs', repr(''))} reads the data without runs"
    raise origin.error(row, f"{found}; expected its name or number in every row; {advice}", "runs")


def _text_series(values: list[Any], *, allow_null: bool = False) -> pl.Series | None:
    """The values as a string column, or None when one of them is not text."""
    try:
        series = pl.Series("text", values, dtype=pl.String, strict=True)
    except (TypeError, UnicodeEncodeError):
        return None
    return series if allow_null or series.null_count() == 0 else None


def require_texts(values: list[Any], origin: Origin, column: str, *, allow_null: bool = False) -> pl.Series:
    """The values as a string column; raises an error for the first that is not text."""
    series = _text_series(values, allow_null=allow_null)
    if series is None:
        row = next(i for i, v in enumerate(values) if not _is_text(v) and not (allow_null and v is None))
        raise origin.error(row, f"{_found(values[row])}; expected text", column)
    return series


def _flat_texts(sets: Sequence[Any], origin: Origin, column: str, noun: str) -> pl.Series:
    """All texts of the sets, each of which must be a list of at least one."""
    for row, responses in enumerate(sets):
        if not isinstance(responses, list | tuple):
            raise origin.error(row, f"{_found(responses)}; expected a list of texts", column)
        if not responses:
            raise origin.error(row, f"the set of {noun}s is empty; expected at least one text", column)
    texts = _text_series(list(chain.from_iterable(sets)))
    if texts is not None:
        return texts
    row, place, bad = next(
        (row, place, one) for row, some in enumerate(sets) for place, one in enumerate(some) if not _is_text(one)
    )
    raise origin.error(row, f"{noun} {place} is {_found(bad)}; expected text", column)


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _found(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"text with a lone surrogate ({ascii(value)[:60]})" if not _is_text(value) else f"'{value[:60]}'"
    return f"{type(value).__name__} {str(value)[:60]}"


def _expected(dtype: pl.DataType) -> str:
    if dtype == pl.String:
        return "text"
    return "a number" if dtype.is_numeric() else "a list of numbers"
