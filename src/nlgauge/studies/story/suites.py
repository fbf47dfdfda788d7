"""Suites of perturbed texts: folders that `nlgauge perturb build` writes, or their files (paper 4, section 3.2)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.frames import is_frame, polars_frame
from nlgauge.data.plain_tables import read_table
from nlgauge.data.roles import no_such_column, numbers_in
from nlgauge.data.tables import Items
from nlgauge.errors import DataError, UnknownName
from nlgauge.perturb.suite import FORMAT
from nlgauge.studies.tasks import task_names

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
            raise DataError(f"the story '{twice}' is duplicated; expected different ids", file=STORIES, column="id")
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
        """1 or 0, one per text."""
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
        kept = replace(self, texts=self.texts.filter(chosen)) if chosen.any() else None
        return kept, numbers[chosen.to_numpy()]

    def limited(self, limit: int | None, seed: int) -> Suite:
        """At most `limit` texts of each aspect (and source): those of the stories that come first by hash and seed.

        All aspects take the same stories first, so that few texts are to be scored; pairs stay whole, and where there
        are none, each label has half of the limit.
        """
        if limit is None:
            return self
        paired = "pair" in self.texts.columns
        stories = self.texts["story"].unique().to_list()
        places = [hashlib.blake2b(f"{seed} {story}".encode(), digest_size=8).hexdigest() for story in stories]
        drawn = self.texts.join(pl.DataFrame({"story": stories, "place": places}), on="story", maintain_order="left")
        key, most = (["aspect", "source"], limit // 2 * 2) if paired else (["aspect", "label"], limit // 2)
        kept = drawn.sort("place", "pair" if paired else "id", "label", maintain_order=True).filter(
            pl.int_range(pl.len()).over(key) < most
        )
        rows = kept.drop("place").sort([key for key in _ORDER if key in kept.columns])
        return replace(self, texts=rows)


def _checked(frame: pl.DataFrame, required: Sequence[str], file: str) -> pl.DataFrame:
    """The frame with names and texts as strings, and none of the required ones missing."""
    if missing := [name for name in required if name not in frame.columns]:
        advice = f"expected {', '.join(required)}, as `nlgauge perturb build` writes them to {file}"
        raise no_such_column(missing[0], frame.columns, advice=advice)
    if not frame.height:
        raise DataError(f"no rows; expected those that `nlgauge perturb build` writes to {file}")
    names = [name for name in (*required, *_OPTIONAL) if name in frame.columns and name != "label"]
    if nested := [name for name in names if frame[name].dtype.is_nested()]:
        raise DataError(f"holds {frame[nested[0]].dtype}; expected text", column=nested[0])
    cast = frame.with_columns(pl.col(name).cast(pl.String) for name in names)
    for name in required:
        if cast[name].null_count():
            raise DataError(
                f"row {int(cast[name].is_null().arg_true()[0])} has none; expected one per row", column=name
            )
    return cast


def _suite(entry: Any, part: Part, form: str) -> Suite:
    if isinstance(entry, Suite):
        return entry
    if isinstance(entry, Items) or is_frame(entry):
        return Suite.of(entry.frame if isinstance(entry, Items) else polars_frame(entry), part)
    return _read_suite(Path(entry), part, form)


def read_suites(entries: Sequence[Any], part: Part, names: Sequence[str] = (), form: str = "") -> list[Suite]:
    """Suites from folders, files, frames or `Suite`s, each under a name of its own; `form` is the format of files."""
    suites = [_suite(entry, part, form) for entry in entries]
    called = [suite.name for suite in suites]
    if names or len(set(called)) < len(called):
        called = task_names(entries, names)
    return [replace(suite, name=name) for name, suite in zip(called, suites, strict=True)]


def _read_suite(path: Path, part: Part, form: str) -> Suite:
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
            read_table(file, format=form),
            part,
            stories=read_table(folder / STORIES) if beside else None,
            name=name,
            made_by=str(known.get("signature") or ""),
        )
    except DataError as error:
        raise error.at(file=str(file)) from error


def _manifest(folder: Path) -> Mapping[str, Any] | None:
    """What the manifest of a suite says; None where the folder is no suite."""
    file = folder / MANIFEST
    if not file.is_file():
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"is no JSON ({error}); expected the manifest of a suite", file=str(file)) from error
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def chosen_aspects(suites: Sequence[Suite], wanted: Sequence[str]) -> list[str]:
    """The aspects to study, all by default; an unknown one is refused."""
    known = list(dict.fromkeys(aspect for suite in suites for aspect in suite.aspects))
    for aspect in wanted:
        if aspect not in known:
            raise UnknownName.among("aspect", aspect, known)
    return [aspect for aspect in known if not wanted or aspect in wanted]
