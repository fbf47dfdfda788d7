"""The data of a study: tasks, each with the values of all metrics on its sets.

A metric of a study is computed from the responses, or it is a column of the file (human scores, somebody else's
metric), or it comes from a file of ratings. Values are oriented so that higher means more diverse.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import Options, check_that, option
from nlgauge.data.roles import names_in, no_such_column, numbers_in, required_column
from nlgauge.data.sources.files import located
from nlgauge.data.tables import Ratings, ResponseSets
from nlgauge.engine.running import Progress, Workers
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric, SetMetric
from nlgauge.metrics.column import ColumnMetric
from nlgauge.metrics.registry import BUNDLES, create_metrics
from nlgauge.scoring.set_values import Table, set_values
from nlgauge.stats.inference import Inference, Unit
from nlgauge.stats.units import Units, find_units
from nlgauge.studies.base import StudyData, facts_of
from nlgauge.studies.human import human_scores
from nlgauge.studies.loading import check_inputs, load, part_name, parts_of, task_names

__all__ = ["task_names"]  # used from here by studies that are functions

DEFAULT_METRICS = ("distinct", "cos-sim")
FEWEST_SETS = 3
FEW_GROUPS = 20
_MEAN, _SPREAD = "_mean", ("_std", "_sd")


def names_option(what: str = "files") -> Any:
    """The option `tasks`."""
    return option((), f"What to call the {what} in the table.", metavar="NAME,NAME", separator=",", signed=False)


def metrics_option(help: str, metavar: str = "NAME[:OPTION=VALUE,...]") -> Any:
    """The option of metrics."""
    return option((), help, metavar=metavar, flags=("--metric", "-m"), signed=False)


def columns_option() -> Any:
    """The option `columns`."""
    help = "A column as one more metric; wildcards too ('metric_*')."
    return option((), help, metavar="COL", flags=("--column",), signed=False)


@dataclass(frozen=True, kw_only=True)
class TaskOptions(Options):
    """The tasks that a study is done on: one per file, or one per value of a column."""

    heading: ClassVar[str] = "Data"

    by: str | None = option(None, "One task for each value of this column.", metavar="COL")
    tasks: Sequence[str] = names_option()


@dataclass(frozen=True, kw_only=True)
class MetricOptions(TaskOptions):
    """Which metrics a study is about.

    A bundle of metrics (`dialog`) stands for those of its parts that have a value for every set. `columns` may have
    wildcards (`metric_*`). `decimals` rounds computed values, as the released code of paper 1 does.
    """

    heading: ClassVar[str] = "Metrics"
    by_workers: ClassVar[bool] = True

    metrics: Sequence[str | Metric] = metrics_option(
        "A metric, or a printed signature; repeat for more. Default: distinct and cos-sim."
    )
    columns: Sequence[str] = columns_option()
    ratings: str | Path | Ratings | None = option(
        None, "Ratings (item, rater, question, value): one metric per question.", metavar="FILE", signed=False
    )
    decimals: int | None = option(
        None, "Round computed values; paper 1's released code rounds to 3 before it correlates.", metavar="N"
    )


@dataclass(frozen=True, kw_only=True)
class MetricTests(Inference):
    """Intervals of correlations, and tests between metrics."""

    heading: ClassVar[str] = "Inference"

    significance: bool = option(True, "Which metrics are tied: clusters at p < .05.")
    permutations: int = option(1000, "Permutations of each test between two metrics.", metavar="N")


@dataclass(frozen=True, kw_only=True)
class Seed(Options):
    """The seed of a study whose random steps make no interval."""

    heading: ClassVar[str] = "Inference"

    seed: int = option(12345, "Seed of every random step.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.seed >= 0, "seed", self.seed, "0 or more")


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
    """Sets of one task: one row each in `frame` (`id`, perhaps `context`, and every column of the file).

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
        """One per set."""
        ids: list[str] = self.frame["id"].to_list()
        return ids

    @property
    def where(self) -> str:
        """` of` and the name, for a note; nothing where there is no name."""
        return f" of {self.name}" if self.name else ""

    @property
    def contexts(self) -> list[str]:
        """One per set; empty where the file has none."""
        if "context" not in self.frame.columns:
            return [""] * len(self)
        contexts: list[str] = names_in(self.frame, "context", file=self.name).fill_null("").to_list()
        return contexts

    def column(self, role: str, given: str | None = None, advice: str = "") -> str:
        """The column that has a role; none is an error."""
        return required_column(self.frame.columns, role, given, file=self.name, advice=advice)

    def units(self, unit: Unit) -> Units:
        """What is independent: sets, or contexts where sets share one."""
        return context_units(self.contexts, self.ids, unit)

    def numbers(self, column: str, role: str) -> Array:
        """A column that must have a number in every row; `role` is the option that names it."""
        values = numbers_in(self.frame, column, option=role, file=self.name)
        if missing := np.flatnonzero(~np.isfinite(values)).tolist():
            raise DataError(
                f"set '{self.ids[missing[0]]}' has no number; expected a finite {role} for every set",
                file=self.name,
                column=column,
                option=role,
            )
        return values


def context_units(contexts: Sequence[str], ids: Sequence[str], unit: Unit) -> Units:
    """The units of items whose contexts may be known; an item without a context is by itself."""
    labels = [context or f"item {id}" for context, id in zip(contexts, ids, strict=True)]
    return find_units(np.array(labels) if any(contexts) else None, None, unit)


def measure(
    data: StudyData,
    metrics: Sequence[str | Metric] = (),
    *,
    columns: Sequence[str] = (),
    tasks: Sequence[str] = (),
) -> list[Task]:
    """Read data and measure it, with arguments as in `MetricOptions`."""
    return tasks_of(MetricOptions(metrics=metrics, columns=columns, tasks=tasks), data)


def tasks_of(study: MetricOptions, data: StudyData, *, needs_texts: bool = False) -> list[Task]:
    """The data of a study, read and measured: one task per input, or one per value of the column `by`.

    Texts are read where a metric or `needs_texts` asks for them; otherwise any table will do.
    """
    has_others = study.columns or study.ratings is not None
    made, left_out = _set_metrics(study.metrics or (() if has_others else DEFAULT_METRICS))
    check_inputs(data)
    titles = task_names(data.entries, study.tasks)
    known = ratings_in(study.ratings)
    read = [
        part
        for entry, title in zip(data.entries, titles, strict=True)
        for part in _read_parts(entry, title, data, study.by, with_texts=bool(made) or needs_texts)
    ]
    computed = _computed(read, made, study.decimals, data.running)
    lenient = len(data.entries) > 1 or study.by is not None
    found: list[Task] = []
    for task, values in zip(read, computed, strict=True):
        try:
            measured = (*values, *_given(task.frame, study.columns, known, lenient=lenient))
            _check_measured(task.frame, measured)
        except DataError as error:
            raise error.at(file=task.name or None) from error
        found.append(replace(task, measured=measured, left_out=left_out))
    if known is not None:
        refuse_strangers(known, found)
    return found


def _set_metrics(specs: Sequence[str | Metric]) -> tuple[list[SetMetric], tuple[str, ...]]:
    """The metrics, and the parts of bundles that measure a whole corpus; such a metric asked for by name is refused."""
    made: list[SetMetric] = []
    left_out: list[str] = []
    for spec in specs:
        for metric in create_metrics([spec]):
            if isinstance(metric, SetMetric) and metric.level != "corpus":
                made.append(metric)
            elif isinstance(spec, str) and spec.strip() in BUNDLES:
                left_out.append(metric.label)
            else:
                others = [level for level in metric.levels if level != metric.level]
                advice = f"; use {metric.name}:over={others[0]}" if others else ""
                raise OptionError(
                    f"{metric.label} measures a whole corpus; a study needs a value for every set{advice}"
                )
    return made, tuple(left_out)


def _read_parts(entry: Any, title: str, data: StudyData, by: str | None, *, with_texts: bool) -> Iterator[Task]:
    """The tasks of an input, not yet measured."""
    frame, sets = load(entry, data.reading, with_texts=with_texts)
    with located(title or None):
        parts = parts_of(frame, by)
    for part, rows in parts:
        name = part_name(title, part, len(data.entries))
        mine = frame if rows is None else frame[rows]
        if len(mine) < FEWEST_SETS:
            raise DataError(f"{len(mine)} sets; expected at least {FEWEST_SETS}", file=name or None)
        yield Task(name, mine, (), sets if sets is None or rows is None else sets.select(rows))


def _computed(
    tasks: Sequence[Task], metrics: Sequence[SetMetric], decimals: int | None, running: Progress
) -> list[list[Measured]]:
    """Metrics from the responses of every task."""
    if not metrics:
        return [[] for _ in tasks]
    how = running if isinstance(running, Workers) else Workers(progress=running.progress)
    tables = [Table(task.name, replace(task.sets, frame=task.frame)) for task in tasks if task.sets is not None]
    return [
        [_oriented(metric, values, decimals) for metric, values in zip(metrics, arrays, strict=True)]
        for arrays in set_values(tables, metrics, how)
    ]


def _oriented(metric: SetMetric, values: Array, decimals: int | None) -> Measured:
    """Values so that higher means more diverse."""
    values = values if decimals is None else np.round(values, decimals)
    negated = metric.direction.sign < 0
    return Measured(metric.label, -values if negated else values, str(metric.signature), negated)


def _given(frame: pl.DataFrame, columns: Sequence[str], ratings: Ratings | None, *, lenient: bool) -> list[Measured]:
    """Metrics from columns and ratings."""
    found = []
    for name in columns_named(frame, columns, lenient=lenient):
        signature = str(ColumnMetric(column=name).signature)
        found.append(Measured(name, numbers_in(frame, name, option="columns"), signature, spread=_spread(frame, name)))
    if ratings is not None:
        for label, values, spread in human_scores(ratings, frame["id"].to_list()):
            found.append(Measured(label, values, f"ratings|question:{label}", spread=spread))
    return found


def _check_measured(frame: pl.DataFrame, measured: Sequence[Measured]) -> None:
    labels = [one.label for one in measured]
    if twice := {label for label in labels if labels.count(label) > 1}:
        raise OptionError(f"duplicate metric '{min(twice)}'")
    for one in measured:
        if bad := np.flatnonzero(np.isinf(one.values)).tolist():
            id = frame["id"][bad[0]]
            raise DataError(f"{one.label} is infinite on set '{id}'; expected a finite number or none")


def columns_named(frame: pl.DataFrame, patterns: Sequence[str], *, lenient: bool = False) -> list[str]:
    """Columns that the patterns name; a wildcard takes numbers only, and no standard deviations."""
    names: list[str] = []
    for pattern in patterns:
        if not any(character in pattern for character in "*?["):
            if pattern in frame.columns:
                names.append(pattern)
            elif not lenient:
                raise no_such_column(pattern, frame.columns, option="columns")
            continue
        matching = [
            name
            for name in fnmatch.filter(frame.columns, pattern)
            if _holds_numbers(frame[name]) and not name.endswith(_SPREAD)
        ]
        if not matching:
            raise no_such_column(pattern, frame.columns, option="columns", advice="expected columns of numbers")
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


def ratings_in(ratings: str | Path | Ratings | None) -> Ratings | None:
    """The ratings, read where a file was named."""
    if ratings is None or isinstance(ratings, Ratings):
        return ratings
    from nlgauge.data.human.ratings import read_ratings

    return read_ratings(str(ratings))


def refuse_strangers(ratings: Ratings, tasks: Sequence[Task]) -> None:
    """Refuse ratings of items that no task has."""
    known = {id for task in tasks for id in task.ids}
    if strangers := [item for item in ratings.frame["item"].unique(maintain_order=True) if item not in known]:
        others = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise DataError(
            f"ratings of '{strangers[0]}'{others}, which the data does not have; expected items named as the sets' ids"
        )


def units_fact(tasks: Sequence[Task], unit: Unit) -> dict[str, str]:
    """What is independent, for signatures: contexts, sets, or either as tasks need it."""
    return facts_of(unit={task.units(unit).name for task in tasks})


def notes_about(tasks: Sequence[Task], unit: Unit = "set") -> list[str]:
    """What a reader of the rows must know about the metrics and about the groups that are resampled."""
    notes = []
    for task in tasks:
        if (groups := task.units(unit).of) is not None:
            count = len(np.unique(groups))
            rough = "; so few that intervals and tests are rough" if count < FEW_GROUPS else ""
            notes.append(
                f"sets{task.where} share contexts: {count} contexts are resampled, not {len(task)} sets{rough}"
            )
    if left_out := list(dict.fromkeys(label for task in tasks for label in task.left_out)):
        notes.append(f"left out, since they measure a whole corpus and no single set: {', '.join(left_out)}")
    for label in dict.fromkeys(one.label for task in tasks for one in task.measured if one.negated):
        notes.append(f"{label} was negated, since higher means less diverse there")
    for task in tasks:
        for one in task.measured:
            if missing := int((~one.defined).sum()):
                of = f"{missing} of {len(task)} sets{task.where}"
                notes.append(f"{one.label} has no value on {of}; they are left out")
    return notes
