"""The one resolver of columns: which column has a role, what it must hold, and the error for one that is missing.

A role has the name of the option that names its column, so that errors carry it: `label=` in Python, `--label` on the
command line.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from nlgauge.configured import Options, options_of, show
from nlgauge.errors import DataError, OptionError, argument

if TYPE_CHECKING:
    import polars as pl

    from nlgauge.arrays import Array

_LABELS = ("label_value", "label", "content_diversity")
_PARAMETERS = ("temperature", "top_p", "top_k", "label_value", "parameter")
ROLES: Mapping[str, tuple[str, ...]] = {
    "responses": ("responses",),
    "text": ("text", "response", "output"),
    "id": ("id", "sample_id"),
    "context": ("context", "prompt"),
    "system": ("system", "model"),
    "runs": ("run",),
    "references": ("references", "reference"),
    "label": _LABELS,
    "parameter": _PARAMETERS,
    "truth": (*_LABELS, *_PARAMETERS),
    "item": ("item",),
    "rater": ("rater",),
    "question": ("question",),
    "value": ("value",),
    "judgment": ("judgment", "judgement", "HumanJudgement", "hj", "human"),
    "logp": ("logp", "log_p", "ModelProbability", "logprob"),
    "token_logprobs": ("token_logprobs",),
    "length": ("length", "LengthOfUtterance", "len"),
    "is_model": ("is_model", "Label", "source", "kind"),
}
"""The names that are tried for each role, in this order, where no column is named."""
_MOST_SHOWN, _LONGEST_SHOWN, _NEAREST, _MOST_COMPARED = 30, 100, 3, 1_000


def names_shown(names: Iterable[str]) -> str:
    """Names of columns in a message: the first ones, where there are many, and the beginnings of long ones."""
    first = list(islice(names, _MOST_SHOWN + 1))
    kept = [name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…" for name in first[:_MOST_SHOWN]]
    return ", ".join(kept) + (", …" if len(first) > _MOST_SHOWN else "")


def no_such_column(
    name: str, found: Iterable[str], *, file: str | None = None, option: str | None = None, advice: str = ""
) -> DataError:
    """The error for a column that the data does not have; `option` is the one that named it."""
    names = list(found)
    compared = [one for one in names[:_MOST_COMPARED] if len(one) <= _LONGEST_SHOWN]
    near = difflib.get_close_matches(name[:_LONGEST_SHOWN], compared, n=_NEAREST)
    suggestion = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    end = f"; {advice}" if advice else ""
    return DataError(
        f"no such column; found {names_shown(names) or 'none'}{suggestion}{end}",
        file=file or None,
        column=name,
        option=option,
    )


def find_column(
    names: Sequence[str],
    role: str,
    given: str | None = None,
    *,
    usual: Sequence[str] | None = None,
    file: str | None = None,
) -> str | None:
    """The column that has a role: the one that was named, or else the first usual name that the table has.

    An empty name means that no column has the role. A named column that the table does not have is an error.
    """
    if given:
        if given in names:
            return given
        raise no_such_column(given, names, file=file, option=role)
    tried = ROLES.get(role, ()) if usual is None else usual
    return None if given == "" else next((name for name in tried if name in names), None)


def required_column(
    names: Sequence[str],
    role: str,
    given: str | None = None,
    *,
    usual: Sequence[str] | None = None,
    file: str | None = None,
    advice: str = "",
) -> str:
    """As `find_column`; a role without a column is an error, and `advice` says what else to do."""
    found = find_column(names, role, given, usual=usual, file=file)
    if found is None:
        advice = f"name the column with {argument(role)}{advice}"
        raise no_such_column(role, names, file=file, option=role, advice=advice)
    return found


def names_in(frame: pl.DataFrame, column: str, *, option: str | None = None, file: str | None = None) -> pl.Series:
    """A column of names as text, null where a cell is empty."""
    import polars as pl

    return _flat(frame, column, "one name per row", option, file).cast(pl.String).replace("", None)


def numbers_in(frame: pl.DataFrame, column: str, *, option: str | None = None, file: str | None = None) -> Array:
    """A column as numbers, NaN where a cell is empty; an error that names the row where one is not a number."""
    import polars as pl

    values = _flat(frame, column, "a number in every row", option, file)
    if values.dtype == pl.String:
        values = values.str.strip_chars().replace("", None)
    numbers = values.cast(pl.Float64, strict=False)
    bad = (numbers.is_null() & values.is_not_null()).arg_true()
    if len(bad):
        row = int(bad[0])
        name = f"set '{frame['id'][row]}'" if "id" in frame.columns else f"row {row}"
        message = f"{name} has '{values[row]}'; expected a number"
        raise DataError(message, file=file or None, column=column, option=option)
    return numbers.fill_null(float("nan")).to_numpy()


def _flat(frame: pl.DataFrame, column: str, expected: str, option: str | None, file: str | None) -> pl.Series:
    """A column of single values."""
    if column not in frame.columns:
        raise no_such_column(column, frame.columns, file=file, option=option)
    if (kind := frame[column].dtype).is_nested():
        raise DataError(f"holds {kind}; expected {expected}", file=file or None, column=column, option=option)
    return frame[column]


def refuse_unused(group: Options, used: Collection[str], advice: str) -> None:
    """Refuse an option that was given and would be ignored."""
    for one in options_of(type(group)):
        value = getattr(group, one.name)
        if one.name not in used and value != one.default:
            raise OptionError(f"{argument(one.name, show(value))} has no effect here; {advice}")
