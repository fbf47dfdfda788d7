"""What the studies of perturbed texts share: suites, the scores of metrics on them, resamples of stories, heat maps.

A suite is a folder that `nlgauge perturb build` writes, or one of its files (paper 4, section 3.2: AutoS).
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.plain_tables import read_table
from nlgauge.data.tables import Items
from nlgauge.drawing import inline
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.metrics.base import Metric
from nlgauge.metrics.column import numbers_in
from nlgauge.metrics.registry import create_metrics
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.perturb.suite import FORMAT
from nlgauge.stats.correlation import Weighted, resample_weights
from nlgauge.studies.base import Study
from nlgauge.studies.tasks import make_tasks, task_names

Part = Literal["discrimination", "invariance"]
AVERAGE = "average"
MANIFEST, STORIES = "manifest.json", "stories.jsonl"
_REQUIRED: Mapping[Part, tuple[str, ...]] = {
    "discrimination": ("id", "story", "aspect", "label", "text"),
    "invariance": ("id", "story", "aspect", "source", "pair", "label", "text"),
}
_OPTIONAL = ("rule", "context")
_ORDER = ("aspect", "source", "story", "pair", "label", "id", "context", "text")


@dataclass(frozen=True)
class Suite:
    """Texts of one corpus with a label, 1 or 0, for each aspect, and the human stories that they were made from.

    `texts` are in an order of their own, whatever the order of the file; `aspects` are in the order of the file.
    """

    name: str
    texts: pl.DataFrame
    aspects: tuple[str, ...]
    stories: pl.DataFrame | None = None
    made_by: str = ""

    @classmethod
    def of(
        cls, texts: pl.DataFrame, part: Part, *, stories: pl.DataFrame | None = None, name: str = "", made_by: str = ""
    ) -> Self:
        """Check rows as `nlgauge perturb build` writes them; aspects may have any name but `average`."""
        checked = _checked(texts, _REQUIRED[part], f"{part}.jsonl")
        if part == "discrimination" and "pair" in texts.columns:
            raise DataError("has a column 'pair', as the texts of `nlgauge study invariance` do; expected others")
        labels = numbers_in(checked, "label")
        if len(bad := np.flatnonzero(~np.isin(labels, (0, 1)))):
            raise DataError(
                f"text '{checked['id'][int(bad[0])]}' has {labels[bad[0]]:g}; expected 1 or 0", column="label"
            )
        aspects = tuple(checked["aspect"].unique(maintain_order=True).to_list())
        if AVERAGE in aspects:
            raise DataError(f"'{AVERAGE}' is what the mean over aspects is called; expected others", column="aspect")
        known = None if stories is None else _checked(stories, ("id", "text"), STORIES).sort("id", "text")
        if known is not None and known["id"].is_duplicated().any():
            twice = known.filter(known["id"].is_duplicated())["id"][0]
            raise DataError(
                f"the story '{twice}' stands twice; expected a different id each", file=STORIES, column="id"
            )
        if known is not None and (strange := checked.join(known, left_on="story", right_on="id", how="anti")).height:
            raise DataError(
                f"text '{strange['id'][0]}' was made from the story '{strange['story'][0]}', which {STORIES} does not "
                "have; expected the stories of the same suite",
                column="story",
            )
        ordered = checked.with_columns(pl.Series("label", labels)).sort(
            [key for key in _ORDER if key in checked.columns]
        )
        return cls(name, ordered, aspects, known, made_by)

    @property
    def digest(self) -> str:
        """A short hash of all texts and stories, for signatures."""
        found = hashlib.blake2b(digest_size=6)
        for frame in (self.texts, self.stories):
            if frame is not None:
                found.update(frame.select(key for key in _ORDER if key in frame.columns).write_ndjson().encode())
        return found.hexdigest()

    @property
    def labels(self) -> Array:
        """1 or 0, a text each."""
        return self.texts["label"].to_numpy()

    @property
    def story_count(self) -> int:
        """How many stories the texts were made from."""
        return self.texts["story"].n_unique()

    def of_aspects(self, aspects: Sequence[str]) -> tuple[Suite | None, Array]:
        """The texts of some aspects (None where there are none), and the number of each one's story among all stories.

        Numbers count all stories, so that an aspect's interval does not depend on which others are studied.
        """
        numbers = np.unique(self.texts["story"].to_numpy(), return_inverse=True)[1]
        chosen = self.texts["aspect"].is_in(list(aspects))
        kept = Suite(self.name, self.texts.filter(chosen), self.aspects, self.stories, self.made_by)
        return (kept if chosen.any() else None), numbers[chosen.to_numpy()]

    def limited(self, limit: int | None, seed: int) -> Suite:
        """At most `limit` texts of each aspect (and source): those of the stories that come first by hash and seed.

        All aspects take the same stories first, so that few texts are to be scored; pairs stay whole, and where there
        are none, each label has half of the limit.
        """
        if limit is None:
            return self
        if limit < 2:
            raise OptionError(f"a limit of {limit} texts an aspect; expected at least 2")
        paired = "pair" in self.texts.columns
        stories = self.texts["story"].unique().to_list()
        places = [hashlib.blake2b(f"{seed} {story}".encode(), digest_size=8).hexdigest() for story in stories]
        drawn = self.texts.join(pl.DataFrame({"story": stories, "place": places}), on="story", maintain_order="left")
        key, most = (["aspect", "source"], limit // 2 * 2) if paired else (["aspect", "label"], limit // 2)
        kept = drawn.sort("place", "pair" if paired else "id", "label", maintain_order=True).filter(
            pl.int_range(pl.len()).over(key) < most
        )
        rows = kept.drop("place").sort([key for key in _ORDER if key in kept.columns])
        return Suite(self.name, rows, self.aspects, self.stories, self.made_by)


def _checked(frame: pl.DataFrame, required: Sequence[str], file: str) -> pl.DataFrame:
    """The frame with names and texts as strings, and none of the required ones missing."""
    if missing := [name for name in required if name not in frame.columns]:
        raise DataError(
            f"found columns {', '.join(frame.columns)}; expected {', '.join(required)}, as `nlgauge perturb build` "
            f"writes them to {file}",
            column=missing[0],
        )
    if not frame.height:
        raise DataError(f"no rows; expected those that `nlgauge perturb build` writes to {file}")
    names = [name for name in (*required, *_OPTIONAL) if name in frame.columns and name != "label"]
    if nested := [name for name in names if frame[name].dtype.is_nested()]:
        raise DataError(f"holds {frame[nested[0]].dtype}; expected text", column=nested[0])
    cast = frame.with_columns(pl.col(name).cast(pl.String) for name in names)
    for name in required:
        if cast[name].null_count():
            raise DataError(f"row {int(cast[name].is_null().arg_true()[0])} has none; expected one a row", column=name)
    return cast


def read_suites(data: Any, part: Part, names: Sequence[str] = ()) -> list[Suite]:
    """Suites from folders, single files or `Suite`s, one or several, each under a name of its own."""
    entries = list(data) if isinstance(data, list | tuple) else [data]
    if not entries:
        raise DataError("nothing to study: the list of suites is empty")
    suites = [entry if isinstance(entry, Suite) else _read_suite(Path(entry), part) for entry in entries]
    called = [suite.name for suite in suites]
    if names or len(set(called)) < len(called):
        called = task_names(entries, names)
    return [
        Suite(name, suite.texts, suite.aspects, suite.stories, suite.made_by)
        for name, suite in zip(called, suites, strict=True)
    ]


def _read_suite(path: Path, part: Part) -> Suite:
    folder, file = (path, path / f"{part}.jsonl") if path.is_dir() else (path.parent, path)
    manifest = _manifest(folder)
    if path.is_dir():
        advice = "expected a folder that `nlgauge perturb build` wrote, or one of its files"
        if manifest is None:
            raise DataError(f"the folder has no {MANIFEST} of the format {FORMAT}; {advice}", file=str(path))
        needed = (file.name, STORIES) if part == "discrimination" else (file.name,)
        if missing := [name for name in needed if not (folder / name).is_file()]:
            raise DataError(f"the suite has no {missing[0]}; {advice}", file=str(path))
    beside = part == "discrimination" and file.name != STORIES and (folder / STORIES).is_file()
    known = manifest or {}
    name = str(known.get("corpus") or (path.name if path.is_dir() else path.name.split(".")[0]))
    try:
        return Suite.of(
            read_table(file), part, stories=read_table(folder / STORIES) if beside else None, name=name,
            made_by=str(known.get("signature") or ""),
        )  # fmt: skip
    except DataError as error:
        raise error.at(file=str(file)) from error


def _manifest(folder: Path) -> Mapping[str, Any] | None:
    """What the manifest of a suite says; None where the folder is no suite."""
    file = folder / MANIFEST
    if not file.is_file():
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"is no JSON ({error}); expected the manifest of a suite", file=str(file)) from error
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


@dataclass(frozen=True)
class Scored:
    """A metric on every text of a suite, and on the story that each was made from; NaN where it has no value.

    Higher is better.
    """

    label: str
    values: Array
    originals: Array | None
    signature: str


def score_suite(
    suite: Suite, metrics: Sequence[Metric], columns: Sequence[str], *, progress: bool = False
) -> list[Scored]:
    """Every metric on a suite: each distinct pair of context and text is scored once. Columns are taken as they are."""
    stories, own = _stories_used(suite)
    frames = [suite.texts] if stories is None else [suite.texts, stories]
    found: list[Scored] = []
    if metrics:
        keys = [key for frame in frames for key in zip(_contexts(frame), frame["text"].to_list(), strict=True)]
        numbers: dict[tuple[str, str], int] = {}
        places = np.array([numbers.setdefault(key, len(numbers)) for key in keys])
        ids = pl.concat([frame["id"] for frame in frames]).gather(np.unique(places, return_index=True)[1])
        contexts = [context for context, _ in numbers]
        items = Items.of([text for _, text in numbers], ids=ids.to_list(), contexts=contexts if any(contexts) else None)
        for one in make_tasks(items, metrics, names=[suite.name], progress=progress)[0].measured:
            values, others = np.split(one.values[places], [suite.texts.height])
            found.append(Scored(one.label, values, None if own is None else others[own], one.signature))
    if columns:
        for one in make_tasks(suite.texts, columns=columns, names=[suite.name])[0].measured:
            given = None
            if stories is not None and one.label in stories.columns:
                given = numbers_in(stories, one.label)[own]
            found.append(Scored(one.label, one.values, given, one.signature))
    labels = [one.label for one in found]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise OptionError(f"the metric '{twice[0]}' stands twice; expected a different one each")
    return found


def _stories_used(suite: Suite) -> tuple[pl.DataFrame | None, Array | None]:
    """The stories that texts were made from, and which of them is each text's own."""
    if suite.stories is None:
        return None, None
    used = suite.stories.filter(pl.col("id").is_in(suite.texts["story"].unique().to_list()))
    places = {id: place for place, id in enumerate(used["id"].to_list())}
    return used, np.array([places[story] for story in suite.texts["story"].to_list()])


def _contexts(frame: pl.DataFrame) -> list[str]:
    """One a text; empty where there is none."""
    return frame["context"].fill_null("").to_list() if "context" in frame.columns else [""] * frame.height


def metrics_for(specs: Sequence[str | Metric], columns: Sequence[str]) -> tuple[list[Metric], list[str]]:
    """The metrics, and notes on what counts as better: a study of quality needs a direction of every metric."""
    if not specs and not columns:
        raise OptionError("no metric; expected at least one, as in -m ppl, or a column of the file (--column COL)")
    made: list[Metric] = create_metrics(specs)
    notes = []
    for one in made:
        if one.higher_is == "more diverse":
            notes.append(f"{one.label} measures diversity: more diverse counts as better here")
        elif one.higher_is == "less diverse":
            notes.append(f"{one.label} falls with diversity and was negated: more diverse counts as better here")
        elif one.higher_is == "worse":
            notes.append(f"{one.label} was negated, since higher is worse there")
    if columns:
        notes.append(f"higher counts as better in columns of the file: {', '.join(columns)}")
    return made, notes


def notes_on_missing(suite: Suite, scored: Iterable[Scored]) -> list[str]:
    """Which metrics have no value on how many texts."""
    notes = []
    for one in scored:
        missing = np.flatnonzero(np.isnan(one.values))
        if len(missing):
            example = suite.texts["id"][int(missing[0])]
            notes.append(
                f"{one.label} has no value on {len(missing)} of {len(one.values)} texts of {suite.name}, such as "
                f"'{example}'; they are left out"
            )
    return notes


def chosen_aspects(suites: Sequence[Suite], wanted: Sequence[str]) -> list[str]:
    """The aspects to study, all by default; an unknown one is refused."""
    known = list(dict.fromkeys(aspect for suite in suites for aspect in suite.aspects))
    for aspect in wanted:
        if aspect not in known:
            raise UnknownName.among("aspect", aspect, known)
    return [aspect for aspect in known if not wanted or aspect in wanted]


@dataclass(frozen=True)
class Statistic:
    """A statistic of items, each of which belongs to a story: its value, and its value in resamples of stories."""

    weighted: Weighted
    x: Array
    y: Array
    stories: Array

    @property
    def value(self) -> float:
        """The statistic of the items as they are."""
        return float(self.weighted(self.x, self.y, np.ones((1, len(self.x))))[0])


def resampled_by_story(statistics: Sequence[Statistic], stories: int, using: Interval) -> list[Array]:
    """Each statistic in resamples of all stories of a suite: texts of one story are not independent.

    A resample is the same for all statistics, so that means over aspects have intervals, too.
    """
    if not statistics:
        return []
    blocks = [
        [one.weighted(one.x, one.y, counts[:, one.stories]) for one in statistics]
        for counts in resample_weights(stories, using.resamples, using.seed)
    ]
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def signature_of(
    part: Part, suites: Sequence[Suite], limit: int | None, aspects: Sequence[str], using: Interval
) -> Signature:
    """What a study was made from: names and hashes of suites, a limit, aspects, and how intervals were made."""
    options = {"suites": "/".join(f"{suite.name}@{suite.digest}" for suite in suites)}
    options |= {"aspects": "/".join(aspects)} if aspects else {}
    options |= {} if limit is None else {"limit": str(limit)}
    options |= {
        "over": "stories", "ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}", "seed": str(using.seed),
    }  # fmt: skip
    return Signature(part, options)


@dataclass(frozen=True)
class AspectTable(Study):
    """One corpus as the paper prints it: metrics in rows, aspects in columns. A row's `task` is its column."""

    corpus: str
    shown: ClassVar[str]
    diverging: ClassVar[bool] = True

    def chart(self) -> Any:
        """A heat map with numbers in its cells."""
        return self.heat_map(
            max((abs(row[self.shown]) for row in self.rows if row[self.shown] is not None), default=1.0)
        )

    def heat_map(self, largest: float) -> Any:
        """Cells coloured up to `largest`; a diverging scale has its middle at 0."""
        import altair as alt

        largest = largest or 1.0
        cells = [
            {
                "metric": row["metric"], "aspect": row["task"], "value": row[self.shown],
                "text": "–" if row[self.shown] is None else f"{round(row[self.shown], 2) + 0.0:.2f}",
            }
            for row in self.rows
        ]  # fmt: skip
        scale = (
            alt.Scale(scheme="redblue", domain=[-largest, largest], domainMid=0)
            if self.diverging
            else alt.Scale(scheme="blues", domain=[0, largest])
        )
        columns, lines = len(self.tasks), len({row["metric"] for row in self.rows})
        base = alt.Chart(inline(cells), title=self.corpus, width=54 * columns, height=28 * lines).encode(
            x=alt.X("aspect:N", sort=None, title=None, axis=alt.Axis(labelAngle=-40, labelLimit=200)),
            y=alt.Y("metric:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)),
        )
        colour = alt.Color("value:Q", scale=scale, title=self.titles.get(self.shown, self.shown))
        squares = base.mark_rect(invalid=None).encode(
            color=alt.condition("isValid(datum.value)", colour, alt.value("#eeeeee")),
            tooltip=["metric:N", "aspect:N", alt.Tooltip("value:Q", format=".4f")],
        )
        dark = f"isValid(datum.value) && abs(datum.value) > {0.6 * largest}"
        numbers = base.mark_text().encode(
            text="text:N", color=alt.condition(dark, alt.value("white"), alt.value("black"))
        )
        return alt.layer(squares, numbers)


@dataclass(frozen=True)
class PerturbedStudy(Study):
    """Rows of metrics and aspects on one or several suites, and tables of each corpus."""

    @abstractmethod
    def tables(self) -> list[AspectTable]:
        """Tables of each corpus, as the paper prints them."""

    def panels(self) -> list[AspectTable]:
        """The tables that the chart shows."""
        return self.tables()

    def chart(self) -> Any:
        """A heat map a corpus, all with one scale."""
        import altair as alt

        panels = self.panels()
        found = [abs(row[panel.shown]) for panel in panels for row in panel.rows if row[panel.shown] is not None]
        return alt.vconcat(*(panel.heat_map(max(found, default=1.0)) for panel in panels))
