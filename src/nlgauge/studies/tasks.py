"""The data of a study: tasks, each with the values of all metrics on its sets.

A metric of a study is computed from the responses, or it is a column of the file (human scores, somebody else's
metric), or it comes from a file of ratings. Values are oriented so that higher means more diverse.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.plain_tables import read_table
from nlgauge.data.reading import Source
from nlgauge.data.tables import Items, Ratings, ResponseSets
from nlgauge.engine.progress import progress_bar
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric, SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.column import ColumnMetric, numbers_in
from nlgauge.metrics.registry import BUNDLES, create_metrics
from nlgauge.metrics.scoring import file_names
from nlgauge.studies.human import human_scores

Over = Literal["auto", "contexts", "sets"]
DEFAULT_METRICS = ("distinct", "cos-sim")
FEWEST_SETS = 3
_IDS = ("id", "sample_id")
_SETS_AT_ONCE = 50
_FEW_GROUPS = 20
_MEAN, _SPREAD = "_mean", ("_std", "_sd")


@dataclass(frozen=True)
class Measured:
    """One metric on every set of a task; NaN where it has no value. `spread`: raters' standard deviation, if known."""

    label: str
    values: Array
    signature: str
    negated: bool = False
    spread: Array | None = None

    @property
    def defined(self) -> Array:
        """Which sets have a value."""
        found: Array = np.isfinite(self.values)
        return found


@dataclass(frozen=True)
class Task:
    """Sets of one task: a row each in `frame` (`id`, perhaps `context`, and every column of the file).

    `left_out` are metrics of a bundle that have no value for a single set.
    """

    name: str
    frame: pl.DataFrame
    measured: tuple[Measured, ...]
    sets: ResponseSets | None = None
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.frame.height

    @property
    def ids(self) -> list[str]:
        """One a set."""
        ids: list[str] = self.frame["id"].to_list()
        return ids

    @property
    def contexts(self) -> list[str]:
        """One a set; empty where the file has none."""
        if "context" not in self.frame.columns:
            return [""] * len(self)
        contexts: list[str] = self.frame["context"].fill_null("").cast(pl.String).to_list()
        return contexts

    def groups(self, over: Over) -> Array | None:
        """A label a set where sets are resampled by context: sets that share one are not independent."""
        return context_groups(self.contexts, self.ids, over)

    def numbers(self, column: str, what: str) -> Array:
        """A column that must have a number in every row, such as a label or a parameter."""
        try:
            values = numbers_in(self.frame, column)
        except DataError as error:
            raise error.at(file=self.name) from error
        if missing := np.flatnonzero(~np.isfinite(values)).tolist():
            raise DataError(
                f"set '{self.ids[missing[0]]}' has no finite value; expected the {what} of every set",
                file=self.name,
                column=column,
            )
        return values


def context_groups(contexts: Sequence[str], ids: Sequence[str], over: Over) -> Array | None:
    """A label an item where items that share a context are resampled together; None where each is by itself."""
    if over not in get_args(Over):
        raise OptionError(f"resampling over '{over}'; expected one of {', '.join(get_args(Over))}")
    labels = [context or f"item {id}" for context, id in zip(contexts, ids, strict=True)]
    if over == "sets" or not 1 < len(set(labels)) < len(labels):
        return None
    return np.array(labels)


def make_tasks(
    data: Any,
    metrics: Sequence[str | Metric] = (),
    *,
    columns: Sequence[str] = (),
    ratings: str | Path | Ratings | None = None,
    by: str | None = None,
    names: Sequence[str] = (),
    decimals: int | None = None,
    needs_texts: bool = False,
    progress: bool = False,
    **reading: Any,
) -> list[Task]:
    """Read data and measure it: a task a file, or a task a value of the column `by`.

    `data` is a file name, a `Source`, a `ResponseSets`, `Items`, a Polars frame without texts, or a list of those. A
    bundle of metrics (`dialog`) stands for those of its parts that have a value for every set. `columns` may have
    wildcards (`metric_*`). `names` are names for the files. `decimals` rounds computed values, as the released
    code of paper 1 does before it correlates. Further options are those of `nlgauge.data.Source`.
    """
    specs = metrics or (() if columns or ratings is not None else DEFAULT_METRICS)
    made, left_out = _set_metrics(specs)
    entries = list(data) if isinstance(data, list | tuple) else [data]
    if not entries:
        raise DataError("nothing to study: the list of files is empty")
    titles = task_names(entries, names)
    known = _read_ratings(ratings)
    tasks: list[Task] = []
    for entry, title in zip(entries, titles, strict=True):
        frame, sets = _load(entry, bool(made) or needs_texts, reading)
        for part, rows in _parts(frame, by):
            name = part if len(entries) == 1 and part else f"{title}: {part}" if part else title
            mine = frame if rows is None else frame[rows]
            texts = sets if sets is None or rows is None else sets.select(rows)
            try:
                if len(mine) < FEWEST_SETS:
                    raise DataError(f"{len(mine)} sets; expected at least {FEWEST_SETS}")
                measured = (
                    *_computed(mine, texts, made, decimals, f"measuring {name}".strip(), progress),
                    *_given(mine, columns, known, lenient=len(entries) > 1 or by is not None),
                )
                _check_measured(mine, measured)
            except DataError as error:
                raise error.at(file=name or None) from error
            tasks.append(Task(name, mine, measured, texts, left_out))
    if known is not None:
        _refuse_strangers(known, tasks)
    return tasks


def _set_metrics(specs: Sequence[str | Metric]) -> tuple[list[SetMetric], tuple[str, ...]]:
    """The metrics, and the parts of bundles that measure a whole corpus; such a metric asked for by name is refused."""
    made: list[SetMetric] = []
    left_out: list[str] = []
    for spec in specs:
        for metric in create_metrics([spec]):
            over = getattr(metric, "over", "")
            if isinstance(metric, SetMetric) and over != "corpus":
                made.append(metric)
            elif isinstance(spec, str) and spec.strip() in BUNDLES:
                left_out.append(metric.label)
            else:
                single = "item" if metric.needs_references else "set"
                advice = f"; use {metric.name}:over={single}" if over else ""
                raise OptionError(
                    f"{metric.label} measures a whole corpus; a study needs a value for every set{advice}"
                )
    return made, tuple(left_out)


def task_names(entries: Sequence[Any], names: Sequence[str] = ()) -> list[str]:
    """What to call the tasks: the names given, or file names, or numbers."""
    if names:
        if len(names) != len(entries) or len(set(names)) < len(names):
            raise OptionError(f"names {', '.join(names)} for {len(entries)} files; expected a different one each")
        return list(names)
    paths = [entry.path if isinstance(entry, Source) else entry for entry in entries]
    if all(isinstance(path, str | Path) for path in paths):
        return file_names([str(path) for path in paths])
    return [f"task {i}" for i in range(1, len(entries) + 1)] if len(entries) > 1 else [""]


def _load(entry: Any, with_texts: bool, reading: Mapping[str, Any]) -> tuple[pl.DataFrame, ResponseSets | None]:
    if isinstance(entry, str | Path):
        if not with_texts:
            return _with_ids(read_table(str(entry), format=reading.get("format", ""))), None
        entry = Source(path=str(entry), **reading)
    elif reading:
        raise OptionError(f"'{min(reading)}' is an option for reading files; the data was given in memory")
    if isinstance(entry, Source):
        if not with_texts and entry.format != "text":
            return _with_ids(read_table(entry.path, format=entry.format), entry.columns.id, entry.columns.context), None
        if entry.columns.system is None:  # a study has no systems, and `--by model` must find the column of that name
            entry = replace(entry, columns=replace(entry.columns, system=""))
        entry = entry.read()
    if isinstance(entry, Items):
        entry = entry.as_sets()
    if isinstance(entry, ResponseSets):
        return entry.frame, entry
    if isinstance(entry, pl.DataFrame):
        if "responses" in entry.columns:
            sets = ResponseSets.from_polars(entry)
            return sets.frame, sets
        if with_texts:
            raise DataError(f"found columns {', '.join(entry.columns)}; expected 'responses', to compute metrics from")
        return _with_ids(entry), None
    raise DataError(f"cannot study a {type(entry).__name__}; expected a file name, response sets or a Polars frame")


def _with_ids(frame: pl.DataFrame, named: str | None = None, context: str | None = None) -> pl.DataFrame:
    if context is not None and context != "context":
        frame = frame.rename({context: "context"})
    column = named or next((name for name in _IDS if name in frame.columns), None)
    if column is None:
        return frame.with_columns(pl.int_range(1, pl.len() + 1).cast(pl.String).alias("id"))
    if column not in frame.columns:
        raise DataError(f"no such column; found {', '.join(frame.columns)}", column=column)
    return frame.with_columns(frame[column].cast(pl.String).alias("id"))


def _parts(frame: pl.DataFrame, by: str | None) -> list[tuple[str, Array | None]]:
    """Names of the parts and their rows; one nameless part without `by`."""
    if by is None:
        return [("", None)]
    if by not in frame.columns:
        raise DataError(f"no such column; found {', '.join(frame.columns)}", column=by)
    values = frame[by].cast(pl.String).fill_null("")
    return [(str(v), (values == v).arg_true().to_numpy()) for v in values.unique(maintain_order=True).to_list()]


def _computed(
    frame: pl.DataFrame,
    sets: ResponseSets | None,
    metrics: Sequence[SetMetric],
    decimals: int | None,
    doing: str,
    progress: bool,
) -> list[Measured]:
    """Metrics from the responses; costly ones some sets at a time, so that progress shows and a killed run goes on."""
    if not metrics or sets is None:
        return []
    sets = replace(sets, frame=frame)
    whole = Batch(sets)
    for metric in metrics:
        metric.check(whole)
    found = []
    with progress_bar(doing, len(metrics) * len(sets), show=progress) as advance:
        for place, metric in enumerate(metrics):
            step = _SETS_AT_ONCE if metric.costly else len(sets)
            parts = []
            for start in range(0, len(sets), step):
                rows = np.arange(start, min(start + step, len(sets)))
                batch = whole if step >= len(sets) else Batch(sets.select(rows))
                parts.append(metric.combine(metric.values(batch)))
                advance(place * len(sets) + int(rows[-1]) + 1)
            values = np.concatenate(parts)
            values = values if decimals is None else np.round(values, decimals)
            negated = metric.higher_is in ("less diverse", "worse")
            found.append(Measured(metric.label, -values if negated else values, str(metric.signature), negated))
    return found


def _given(frame: pl.DataFrame, columns: Sequence[str], ratings: Ratings | None, *, lenient: bool) -> list[Measured]:
    """Metrics from columns and ratings."""
    found = []
    for name in _columns(frame, columns, lenient):
        signature = str(ColumnMetric(column=name).signature)
        found.append(Measured(name, numbers_in(frame, name), signature, spread=_spread(frame, name)))
    if ratings is not None:
        for label, values, spread in human_scores(ratings, frame["id"].to_list()):
            found.append(Measured(label, values, f"ratings|question:{label}", spread=spread))
    return found


def _check_measured(frame: pl.DataFrame, measured: Sequence[Measured]) -> None:
    labels = [one.label for one in measured]
    if twice := {label for label in labels if labels.count(label) > 1}:
        raise OptionError(f"the metric '{min(twice)}' stands twice")
    for one in measured:
        if np.isinf(one.values).any():
            bad = frame["id"][int(np.flatnonzero(np.isinf(one.values))[0])]
            raise DataError(f"{one.label} is infinite on set '{bad}'; expected a finite number or none")


def _columns(frame: pl.DataFrame, patterns: Sequence[str], lenient: bool) -> list[str]:
    """Columns that the patterns name; a wildcard takes numbers only, and no standard deviations."""
    names: list[str] = []
    for pattern in patterns:
        if not any(character in pattern for character in "*?["):
            if pattern in frame.columns:
                names.append(pattern)
            elif not lenient:
                raise DataError(f"no such column; found {', '.join(frame.columns)}", column=pattern)
            continue
        matching = [
            name
            for name in fnmatch.filter(frame.columns, pattern)
            if _holds_numbers(frame[name]) and not name.endswith(_SPREAD)
        ]
        if not matching:
            raise DataError(f"no column of numbers is named so; found {', '.join(frame.columns)}", column=pattern)
        names += matching
    return list(dict.fromkeys(names))


def _holds_numbers(column: pl.Series) -> bool:
    """Whether every cell that is not empty is a number; a CSV column with empty cells was read as text."""
    if column.dtype != pl.String:
        return bool(column.dtype.is_numeric())
    cells = column.str.strip_chars().replace("", None)
    return cells.null_count() < len(cells) and cells.cast(pl.Float64, strict=False).null_count() == cells.null_count()


def _spread(frame: pl.DataFrame, name: str) -> Array | None:
    """The standard deviation beside a mean: `x_std` beside `x_mean` or `x`."""
    stem = name.removesuffix(_MEAN)
    return next((numbers_in(frame, stem + end) for end in _SPREAD if stem + end in frame.columns), None)


def _read_ratings(ratings: str | Path | Ratings | None) -> Ratings | None:
    if ratings is None or isinstance(ratings, Ratings):
        return ratings
    from nlgauge.data.ratings import read_ratings

    return read_ratings(str(ratings))


def _refuse_strangers(ratings: Ratings, tasks: Sequence[Task]) -> None:
    known = {id for task in tasks for id in task.ids}
    strangers = [item for item in ratings.frame["item"].unique(maintain_order=True).to_list() if item not in known]
    if strangers:
        raise DataError(
            f"ratings of '{strangers[0]}'{f' and {len(strangers) - 1} more' * (len(strangers) > 1)}, which the data "
            "does not have; expected items named as the sets' ids"
        )


def resampled_units(tasks: Sequence[Task], over: Over) -> str:
    """What is resampled, for signatures: contexts, sets, or either as tasks need it."""
    return "/".join(sorted({"sets" if task.groups(over) is None else "contexts" for task in tasks}))


def notes_about(tasks: Sequence[Task], over: Over = "sets") -> list[str]:
    """What a reader of the rows must know about the metrics and about the groups that are resampled."""
    notes = []
    for task in tasks:
        groups = task.groups(over)
        if groups is not None:
            count = len(set(groups.tolist()))
            where = f" of {task.name}" if task.name else ""
            rough = "; so few that intervals and tests are rough" if count < _FEW_GROUPS else ""
            notes.append(f"sets{where} share contexts: {count} contexts are resampled, not {len(task)} sets{rough}")
    if left_out := list(dict.fromkeys(label for task in tasks for label in task.left_out)):
        notes.append(f"left out, since they measure a whole corpus and no single set: {', '.join(left_out)}")
    for label in dict.fromkeys(one.label for task in tasks for one in task.measured if one.negated):
        notes.append(f"{label} was negated, since higher means less diverse there")
    for task in tasks:
        for one in task.measured:
            if missing := int((~one.defined).sum()):
                where = f" of {task.name}" if task.name else ""
                notes.append(f"{one.label} has no value on {missing} of {len(task)} sets{where}; they are left out")
    return notes
