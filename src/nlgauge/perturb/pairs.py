"""Pairs of an original and a perturbed text: making, writing and reading them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nlgauge.data.columns import Reading
from nlgauge.data.plain_tables import read_cells
from nlgauge.data.reading import Source, read_tables
from nlgauge.data.roles import no_such_column
from nlgauge.data.tables import Items
from nlgauge.data.writing import write_table
from nlgauge.errors import DataError, ModelError, UnknownName, argument
from nlgauge.perturb.base import SEED, Change, Edit, Perturbation, Perturbed, draw_for, edited, usable
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.manifest import FILES, read_manifest
from nlgauge.perturb.resources.grammar import create_grammar
from nlgauge.perturb.story import Story, parse_all

REQUIRED = ("id", "aspect", "rule", "original", "perturbed", "changes")
_TRIED_PER_PAIR = 20
_GUARDED = re.compile(r"\A'(?=[=+\-@\t\r])")
_CHANGE = {name: pl.String if name in ("old", "new") else pl.Int64 for name in Change.__dataclass_fields__}
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(("id", "context", "aspect"), pl.String),
    "version": pl.Int64,
    **dict.fromkeys(("rule", "original", "perturbed"), pl.String),
    "changes": pl.List(pl.Struct(_CHANGE)),
}


@dataclass(frozen=True)
class Original:
    """A text to perturb, and its context."""

    id: str
    text: str
    context: str | None = None


@dataclass(frozen=True)
class Pair:
    """An original, its perturbed text, the rule and the changes. Versions of one text count from 0."""

    id: str
    context: str | None
    aspect: str
    version: int
    rule: str
    original: str
    perturbed: str
    changes: tuple[Change, ...]

    @property
    def before(self) -> list[tuple[str, bool]]:
        """The original in segments, each with whether it changes."""
        return _segments(self.original, [(change.start, change.end) for change in self.changes])

    @property
    def after(self) -> list[tuple[str, bool]]:
        """The perturbed text in segments, each with whether it is new."""
        return _segments(self.perturbed, [(change.new_start, change.new_end) for change in self.changes])


@dataclass(frozen=True)
class Tally:
    """Counts of texts for one perturbation; `reasons` counts those that it does not apply to.

    `dropped` counts results that the grammar filter rejected.
    """

    aspect: str
    signature: str
    texts: int
    perturbed: int
    pairs: int
    reasons: dict[str, int]
    dropped: int = 0


@dataclass(frozen=True)
class Made:
    """All pairs, the counts, and the perturbations that could not run, with advice."""

    pairs: list[Pair]
    tallies: list[Tally]
    missing: dict[str, str]


def make_pairs(
    originals: Sequence[Original],
    perturbations: Sequence[Perturbation],
    *,
    versions: int = 1,
    seed: int = SEED,
    grammar: str = "none",
    advance: Callable[[int], None] = lambda _done: None,
) -> Made:
    """Perturb every text by every perturbation, in several versions; equal results make one pair.

    `grammar` is a filter that drops ungrammatical results; `advance` gets the number of finished texts.
    """
    judge = create_grammar(grammar)
    judge.prepare()
    able, missing = usable(perturbations)
    if missing and not able:
        raise ModelError("; ".join(f"{name} cannot run here: {reason}" for name, reason in missing.items()))
    stories = [Story(original.text) for original in originals]
    words = any(one.uses_words for one in able)
    if words or any(one.parses for one in able):
        parse_all(stories)
    corpus = Corpus.of(stories, words=words)
    pairs: list[Pair] = []
    tallies = []
    for place, one in enumerate(able):
        one.warm(stories)
        mine: list[tuple[Original, int, Perturbed]] = []
        reasons: Counter[str] = Counter()
        for number, (original, story) in enumerate(zip(originals, stories, strict=True), 1):
            found: dict[str, tuple[int, Perturbed]] = {}
            reason = ""
            for version in range(versions):
                outcome = one(story, seed=seed, version=version, corpus=corpus)
                if isinstance(outcome, Perturbed):
                    found.setdefault(outcome.text, (version, outcome))
                else:
                    reason = outcome.reason
            if not found:
                reasons[reason] += 1
            mine += [(original, version, outcome) for version, outcome in found.values()]
            advance(place * len(originals) + number)
        verdicts = judge.judge_changes(outcome for *_, outcome in mine) if one.filtered else ["unjudged"] * len(mine)
        kept = [found for found, verdict in zip(mine, verdicts, strict=True) if verdict != "ungrammatical"]
        perturbed, dropped = len(originals) - reasons.total(), len(mine) - len(kept)
        name, signature = one.name, str(one.signature)
        tallies.append(Tally(name, signature, len(originals), perturbed, len(kept), dict(reasons), dropped))
        pairs += [
            Pair(origin.id, origin.context, name, version, made.rule, made.original, made.text, made.changes)
            for origin, version, made in kept
        ]
    return Made(pairs, tallies, missing)


def read_suite(folder: Path) -> list[Pair]:
    """The pairs of a suite: stories and incoherent texts, originals and texts with harmless changes.

    An aspect of the invariance test that starts from incoherent texts says so in its name.
    """
    read_manifest(folder)
    rows = {name: _json_lines(folder / f"{name}.jsonl") for name in FILES}
    stories = {row["id"]: row["text"] for row in rows["stories"]}
    originals = {row["pair"]: row["text"] for row in rows["invariance"] if row["label"] == 1}
    found = [(row, row["aspect"], stories[row["story"]]) for row in rows["discrimination"] if row["label"] == 0]
    for row in rows["invariance"]:
        if row["label"] == 0:
            aspect = row["aspect"] if row["source"] == "human" else f"{row['aspect']} ({row['source']})"
            found.append((row, aspect, originals[row["pair"]]))
    return [
        _from_row({**row, "id": row["story"], "aspect": aspect, "original": original, "perturbed": row["text"]})
        for row, aspect, original in found
    ]


def read_originals(files: Sequence[str], reading: Reading) -> list[Original]:
    """The texts of files; with several files, ids begin with the file's name."""
    found = []
    for name, table in read_tables(files, reading, ()):
        if not isinstance(table, Items):
            raise DataError(
                f"holds sets of responses; expected single texts: name their column with {argument('text')}", file=name
            )
        prefix = f"{name}:" if len(files) > 1 else ""
        contexts = table.frame["context"].to_list() if "context" in table.frame.columns else [None] * len(table)
        found += [
            Original(f"{prefix}{id}", text, context)
            for id, text, context in zip(table.frame["id"].to_list(), table.texts.to_list(), contexts, strict=True)
        ]
    return found


def holds_pairs(path: str, format: str = "") -> bool:
    """Whether this is the folder of a suite, or a file with the columns of pairs."""
    if path == "-" or Path(path).is_dir():
        return path != "-"
    source = Source(path=path, reading=Reading(input_format=format))
    first = next((found for chunk in source.chunks() if (found := source.columns_in(chunk)) is not None), None)
    return first is not None and set(REQUIRED) <= set(first[0])


def load_pairs(path: str, aspects: Sequence[str] = ()) -> list[Pair]:
    """The pairs of a suite's folder or of a file, of some aspects or of all."""
    pairs = read_suite(Path(path)) if Path(path).is_dir() else read_pairs(path)
    known = dict.fromkeys(pair.aspect for pair in pairs)
    for name in aspects:
        if name not in known:
            raise UnknownName.among(f"aspect of {path}", name, known)
    return [pair for pair in pairs if not aspects or pair.aspect in aspects]


def draw_pairs(pairs: Sequence[Pair], most: int | None, seed: int) -> list[Pair]:
    """At most so many pairs of each aspect, drawn at random, in their order; None takes all."""
    if most is None:
        return list(pairs)
    found: list[Pair] = []
    for aspect in dict.fromkeys(pair.aspect for pair in pairs):
        mine = [pair for pair in pairs if pair.aspect == aspect]
        places = draw_for(seed, "show", aspect).sample(range(len(mine)), min(most, len(mine)))
        found += [mine[place] for place in sorted(places)]
    return found


def draw_originals(originals: list[Original], wanted: int | None, seed: int) -> list[Original]:
    """As many texts as are likely to give the wanted number of pairs; None takes all."""
    most = None if wanted is None else wanted * _TRIED_PER_PAIR
    return originals if most is None or len(originals) <= most else draw_for(seed, "show").sample(originals, most)


def _json_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"cannot be read ({error}); expected a folder that `nlgauge perturb build` wrote", file=str(path)
        ) from error


def write_pairs(pairs: Sequence[Pair], path: str | Path) -> None:
    """Write pairs to `.jsonl`, `.csv`, `.tsv` or `.parquet`; in CSV, the changes are one cell of JSON."""
    target = Path(path)
    frame = pl.DataFrame([dataclasses.asdict(pair) for pair in pairs], schema=_SCHEMA)
    if target.suffix in (".csv", ".tsv"):
        cells = [json.dumps(changes, ensure_ascii=False) for changes in frame["changes"].to_list()]
        frame = frame.with_columns(pl.Series("changes", cells, dtype=pl.String))
    write_table(frame, target)


def as_json(pair: Pair) -> str:
    """A pair as a line of JSON."""
    return msgspec.json.encode(pair).decode()


def read_pairs(path: str | Path) -> list[Pair]:
    """Read what `write_pairs` wrote; every pair's changes must turn its original into its perturbed text."""
    frame, origin = read_cells(path)
    if lacking := [name for name in REQUIRED if name not in frame.columns]:
        advice = "expected pairs as `nlgauge perturb FILE --aspect NAME -o` writes them"
        raise no_such_column(lacking[0], frame.columns, file=str(path), advice=advice)
    found = []
    for row, values in enumerate(frame.iter_rows(named=True)):
        try:
            pair = _from_row(values)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise origin.error(row, f"is not a pair ({error}); expected what `nlgauge perturb` writes") from error
        fitting = next((one for one in (pair, _unguarded(pair)) if _fits(one)), None)
        if fitting is None:
            raise origin.error(row, "its changes do not turn the original into the perturbed text", "changes")
        found.append(fitting)
    return found


def _from_row(values: dict[str, Any]) -> Pair:
    changes = values["changes"]
    if isinstance(changes, str):
        changes = msgspec.json.decode(changes)
    return msgspec.convert(
        {
            **{name: values.get(name) for name in _SCHEMA},
            "id": str(values["id"]),
            "context": values.get("context") or None,
            "version": int(values.get("version") or 0),
            "changes": changes,
        },
        Pair,
    )


def _unguarded(pair: Pair) -> Pair:
    """A pair without the apostrophes that CSV has before text that a spreadsheet would run as a formula."""
    original, perturbed = (_GUARDED.sub("", text) for text in (pair.original, pair.perturbed))
    return dataclasses.replace(pair, original=original, perturbed=perturbed)


def _fits(pair: Pair) -> bool:
    if any(pair.original[change.start : change.end] != change.old for change in pair.changes):
        return False
    try:
        outcome = edited(pair.original, [Edit(one.start, one.end, one.new) for one in pair.changes], pair.rule)
    except ValueError:
        return False
    return isinstance(outcome, Perturbed) and (outcome.text, outcome.changes) == (pair.perturbed, pair.changes)


def _segments(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    place = 0
    for start, end in spans:
        found += [(text[place:start], False), (text[start:end], True)]
        place = end
    return [(part, changed) for part, changed in [*found, (text[place:], False)] if part]
