"""What the studies of perturbed texts share: options, the scores of metrics, resamples of stories, heat maps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import Options, check_that, option
from nlgauge.data.roles import numbers_in
from nlgauge.data.tables import Items
from nlgauge.drawing import alt, inline
from nlgauge.engine.running import Progress
from nlgauge.errors import OptionError, argument
from nlgauge.metrics.base import Metric
from nlgauge.metrics.registry import create_metrics
from nlgauge.metrics.score import Direction
from nlgauge.stats.correlation import Weighted, area_interval, fisher_interval, ratio_interval, resample_weights
from nlgauge.stats.inference import Intervals
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, View, pair
from nlgauge.studies.sentences import listed
from nlgauge.studies.story.suites import AVERAGE, Part, Suite, chosen_aspects, read_suites
from nlgauge.studies.tasks import columns_option, measure, metrics_option, names_option

_INTERVALS = {"correlation": fisher_interval, "area": area_interval, "ratio": ratio_interval}
PEARSON = Column("pearson", "r", 3, beside=True, p_value="pearson_p")
_IN_AVERAGES = ("task", "metric", "source", "signature")
_WHAT_IS_BETTER = {
    Direction.MORE_DIVERSE: "measures diversity: more diverse counts as better here",
    Direction.LESS_DIVERSE: "falls with diversity and was negated: more diverse counts as better here",
    Direction.WORSE: "was negated, since higher is worse there",
}


@dataclass(frozen=True, kw_only=True)
class SuiteOptions(Options):
    """Which metrics are tested, and on which texts of the suites."""

    heading: ClassVar[str] = "Metrics"

    metrics: Sequence[str | Metric] = metrics_option(
        "A metric without references, or a printed signature; repeat for more."
    )
    columns: Sequence[str] = columns_option()
    aspects: Sequence[str] = option(
        (), "Only this aspect; repeat for more. Default: all of the suite.", metavar="NAME", flags=("--aspect",)
    )
    limit: int | None = option(
        None, "At most so many texts of each aspect, of the same random stories for all.", metavar="N"
    )
    tasks: Sequence[str] = names_option("suites")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.limit is None or self.limit >= 2, "limit", self.limit, "at least 2 texts per aspect")


@dataclass(frozen=True)
class Group:
    """Texts that are tested together: what their row calls them, and which texts of a suite they are.

    Of pairs, `rows` has two lines: the originals, and the perturbed text of each.
    """

    names: Row
    rows: Array


@dataclass(frozen=True)
class Scored:
    """A metric on every text of a suite, and on the story that each was made from; NaN where it has no value.

    Higher is better.
    """

    label: str
    values: Array
    originals: Array | None
    signature: str


@dataclass(frozen=True)
class Statistic:
    """A statistic of items, each of which belongs to a story: its value, and its value in resamples of stories.

    `scale` says what it is, and so how its interval is made.
    """

    weighted: Weighted
    x: Array
    y: Array
    stories: Array
    scale: Literal["correlation", "area", "ratio"] = "correlation"

    @property
    def value(self) -> float:
        """The statistic of the items as they are."""
        return float(self.weighted(self.x, self.y, np.ones((1, len(self.x))))[0])


@dataclass(frozen=True, kw_only=True)
class PerturbedStudy(Intervals, SuiteOptions, Study):
    """Rows of metrics and aspects on one or several suites, and tables of each corpus as the paper prints them.

    `printed` are the values of these tables; the chart has the last of them. `sums` and `means` are the columns that
    the row of the average has as sums and as means over aspects.
    """

    files: ClassVar[str] = "Folders that `nlgauge perturb build` wrote, or their files; several are several tasks."
    part: ClassVar[Part]
    printed: ClassVar[tuple[Column, ...]]
    sums: ClassVar[tuple[str, ...]]
    means: ClassVar[tuple[str, ...]]
    diverging: ClassVar[bool]
    aspect: ClassVar[str] = "fluency"

    def compute(self, data: StudyData) -> Result:
        """Every metric on every aspect of every suite."""
        data.check_reading("input_format")
        made, notes = _metrics_for(self.metrics, self.columns)
        whole = read_suites(data.inputs, self.part, self.tasks, data.reading.input_format)
        suites = [suite.limited(self.limit, self.seed) for suite in whole]
        wanted = chosen_aspects(suites, self.aspects)
        rows: list[Row] = []
        for suite in suites:
            texts, stories = suite.of_aspects(wanted)
            if texts is None:
                notes.append(f"{suite.name} has none of the aspects {', '.join(wanted)}")
                continue
            groups, told = self.groups_of(texts, wanted)
            scored = _score_suite(texts, made, self.columns, progress=data.running.progress)
            notes += told + _notes_on_missing(texts, scored)
            mine = [self._rows(texts, one, groups, stories, suite.story_count) for one in scored]
            self.correct(mine, scored, groups, stories, len(suites))
            for one, found in zip(scored, mine, strict=True):
                rows += found
                notes += self.notes_on(texts, one, found)
        notes.append("intervals and p-values take stories as independent, not the texts of one story")
        notes += [f"{suite.name} was made by {suite.made_by}" for suite in suites if suite.made_by]
        facts = {"suites": "/".join(f"{suite.name}@{suite.digest}" for suite in whole), "unit": "story"}
        return Result(self, rows, tuple(notes), facts)

    @abstractmethod
    def groups_of(self, texts: Suite, aspects: Sequence[str]) -> tuple[list[Group], list[str]]:
        """Texts that are tested together, and notes about them."""

    @abstractmethod
    def tested(self, texts: Suite, one: Scored, group: Group, stories: Array) -> tuple[Row, dict[str, Statistic]]:
        """The row of a metric on a group, and by key the statistics that get an interval; `stories` has each text's."""

    @abstractmethod
    def notes_on(self, texts: Suite, one: Scored, rows: Sequence[Row]) -> list[str]:
        """Notes about a metric's rows on one suite."""

    def correct(
        self, rows: Sequence[list[Row]], scored: Sequence[Scored], groups: Sequence[Group], stories: Array, suites: int
    ) -> None:
        """Fill in p-values that need the rows of all metrics on a suite: they are one family with other `suites`."""
        del rows, scored, groups, stories, suites

    @abstractmethod
    def place(self, row: Row, shown: Column) -> str | None:
        """The column of the paper's table that a row belongs to, if any."""

    def _rows(self, texts: Suite, one: Scored, groups: Sequence[Group], stories: Array, count: int) -> list[Row]:
        """A metric's rows on one suite: each group, and the average of aspects, for each source where there are some.

        A resample of the `count` stories is the same for all statistics, so that averages have intervals, too.
        """
        tested = [self.tested(texts, one, group, stories) for group in groups]
        rows = [row for row, _ in tested]
        found = {(place, key): one for place, (_, some) in enumerate(tested) for key, one in some.items()}
        blocks: dict[tuple[int, str], list[Array]] = {at: [] for at in found}
        for counts in resample_weights(count, self.resamples, self.seed):
            for at, statistic in found.items():
                blocks[at].append(statistic.weighted(statistic.x, statistic.y, counts[:, statistic.stories]))
        draws = {at: np.concatenate(parts) for at, parts in blocks.items()}
        for (place, key), values in draws.items():
            rows[place][f"{key}_ci"] = self._interval(rows[place][key], values, [found[place, key]])
        places: dict[Any, list[int]] = {}
        for place, row in enumerate(rows):
            if row.get("rule") is None:
                places.setdefault(row.get("source"), []).append(place)
        return rows + [self._average(rows, some, found, draws) for some in places.values()]

    def _interval(self, value: float, drawn: Array, of: Sequence[Statistic]) -> list[float] | None:
        """The interval of a statistic, or of the mean of several, from its values in resamples of stories."""
        units = max(len(np.unique(one.stories)) for one in of)
        return pair(_INTERVALS[of[0].scale](value, drawn, units, self.level))

    def _average(
        self,
        rows: Sequence[Row],
        places: Sequence[int],
        found: Mapping[tuple[int, str], Statistic],
        draws: Mapping[tuple[int, str], Array],
    ) -> Row:
        """The row of the means over aspects, of the rows at some places; aspects without a value have no part in it."""
        first = rows[places[0]]
        average = {key: first[key] if key in _IN_AVERAGES else None for key in first} | {"aspect": AVERAGE}
        average |= {key: sum(rows[place][key] for place in places) for key in self.sums}
        for key in self.means:
            known = [place for place in places if rows[place][key] is not None]
            if not known:
                continue
            mean = float(np.mean([rows[place][key] for place in known]))
            average[key] = mean
            if all((place, key) in draws for place in known):
                drawn = np.mean([draws[place, key] for place in known], axis=0)
                average[f"{key}_ci"] = self._interval(mean, drawn, [found[place, key] for place in known])
        return average

    def views(self, result: Result) -> Sequence[View]:
        """The tables of each corpus, then all rows."""
        tables = [self._table(result, task, shown) for task in result.tasks for shown in self.printed]
        return (*tables, View(self.layout, result.rows))

    def _table(self, result: Result, task: str, shown: Column) -> View:
        placed = [(self.place(row, shown), row) for row in result.rows if row["task"] == task]
        rows = [{**row, "task": place} for place, row in placed if place is not None]
        return View((Column("metric"), shown), rows, task)

    def chart(self, result: Result) -> Any:
        """One heat map per corpus, with numbers in its cells, all with one scale."""
        shown = self.printed[-1]
        tables = [self._table(result, task, shown) for task in result.tasks]
        found = [abs(row[shown.key]) for table in tables for row in table.rows if row[shown.key] is not None]
        return alt.vconcat(*(_heat_map(table, shown, max(found, default=1.0), self.diverging) for table in tables))


def counted(result: Result, holds: Callable[[Row], bool]) -> str:
    """For every corpus and metric, of how many groups of texts something holds."""
    parts = []
    for task in result.tasks:
        found: dict[str, list[bool]] = {}
        for row in result.rows:
            if row["task"] == task and row["aspect"] != AVERAGE and row.get("rule") is None:
                found.setdefault(row["metric"], []).append(holds(row))
        each = listed([f"{metric} {sum(which)} of {len(which)}" for metric, which in found.items()])
        parts.append(f"{task}: {each}" if len(result.tasks) > 1 else each)
    return "; ".join(parts)


def _score_suite(
    suite: Suite, metrics: Sequence[Metric], columns: Sequence[str], *, progress: bool = False
) -> list[Scored]:
    """Every metric on a suite: each distinct pair of context and text is scored once. Columns are taken as they are."""
    stories, own = suite.stories, None
    if stories is not None:  # in the order of their ids, so that a story's rank is its place
        stories = stories.filter(pl.col("id").is_in(suite.texts["story"].unique().to_list()))
        own = suite.texts["story"].rank("dense").to_numpy().astype(np.int64) - 1
    frames = [suite.texts] if stories is None else [suite.texts, stories]
    found: list[Scored] = []
    if metrics:
        keys = [key for frame in frames for key in zip(_contexts(frame), frame["text"].to_list(), strict=True)]
        numbers: dict[tuple[str, str], int] = {}
        places = np.array([numbers.setdefault(key, len(numbers)) for key in keys])
        ids = pl.concat([frame["id"] for frame in frames]).gather(np.unique(places, return_index=True)[1])
        contexts = [context for context, _ in numbers]
        items = Items.of([text for _, text in numbers], ids=ids.to_list(), contexts=contexts if any(contexts) else None)
        data = StudyData([items], running=Progress(progress=progress))
        for one in measure(data, metrics, tasks=[suite.name])[0].measured:
            values, others = np.split(one.values[places], [suite.texts.height])
            found.append(Scored(one.label, values, None if own is None else others[own], one.signature))
    if columns:
        for one in measure(StudyData([suite.texts]), columns=columns, tasks=[suite.name])[0].measured:
            given = None
            if stories is not None and one.label in stories.columns:
                given = numbers_in(stories, one.label)[own]
            found.append(Scored(one.label, one.values, given, one.signature))
    labels = [one.label for one in found]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise OptionError(f"the metric '{twice[0]}' is duplicated; expected different ones")
    return found


def _contexts(frame: pl.DataFrame) -> list[str]:
    """One per text; empty where there is none."""
    return frame["context"].fill_null("").to_list() if "context" in frame.columns else [""] * frame.height


def _metrics_for(specs: Sequence[str | Metric], columns: Sequence[str]) -> tuple[list[Metric], list[str]]:
    """The metrics, and notes on what counts as better: a study of quality needs a direction of every metric."""
    if not specs and not columns:
        raise OptionError(
            f"no metric; expected at least one, as in {argument('metrics', 'ppl')}, or a column of the file: "
            f"{argument('columns', 'COL')}"
        )
    made: list[Metric] = create_metrics(specs)
    notes = [f"{one.label} {_WHAT_IS_BETTER[one.direction]}" for one in made if one.direction in _WHAT_IS_BETTER]
    if columns:
        notes.append(f"higher counts as better in columns of the file: {', '.join(columns)}")
    return made, notes


def _notes_on_missing(suite: Suite, scored: Sequence[Scored]) -> list[str]:
    """Which metrics have no value on how many texts."""
    return [
        f"{one.label} has no value on {len(missing)} of {len(one.values)} texts of {suite.name}, such as "
        f"'{suite.texts['id'][int(missing[0])]}'; they are left out"
        for one in scored
        if len(missing := np.flatnonzero(np.isnan(one.values)))
    ]


def _heat_map(table: View, shown: Column, largest: float, diverging: bool) -> Any:
    """Cells coloured up to `largest`; a diverging scale has its middle at 0."""
    largest = largest or 1.0
    cells = [
        {
            "metric": row["metric"],
            "aspect": row["task"],
            "value": row[shown.key],
            "text": "–" if row[shown.key] is None else f"{round(row[shown.key], 2) + 0.0:.2f}",
        }
        for row in table.rows
    ]
    scale = (
        alt.Scale(scheme="redblue", domain=[-largest, largest], domainMid=0)
        if diverging
        else alt.Scale(scheme="blues", domain=[0, largest])
    )
    wide, high = (len({cell[key] for cell in cells}) for key in ("aspect", "metric"))
    base = alt.Chart(inline(cells), title=table.title, width=54 * wide, height=28 * high).encode(
        x=alt.X("aspect:N", sort=None, title=None, axis=alt.Axis(labelAngle=-40, labelLimit=200)),
        y=alt.Y("metric:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)),
    )
    colour = alt.Color("value:Q", scale=scale, title=shown.title)
    squares = base.mark_rect(invalid=None).encode(
        color=alt.condition("isValid(datum.value)", colour, alt.value("#eeeeee")),
        tooltip=["metric:N", "aspect:N", alt.Tooltip("value:Q", format=".4f")],
    )
    dark = f"isValid(datum.value) && abs(datum.value) > {0.6 * largest}"
    numbers = base.mark_text().encode(text="text:N", color=alt.condition(dark, alt.value("white"), alt.value("black")))
    return alt.layer(squares, numbers)
