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

from nlgauge.data.plain_tables import read_cells
from nlgauge.data.writing import write_table
from nlgauge.errors import DataError
from nlgauge.perturb.base import SEED, Change, Edit, Perturbation, Perturbed, edited, usable
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.grammar import Grammar, create_grammar
from nlgauge.perturb.story import Story, parse_all

REQUIRED = ("id", "aspect", "rule", "original", "perturbed", "changes")
_GUARDED = re.compile(r"\A'(?=[=+\-@\t\r])")
_CHANGES = pl.List(
    pl.Struct(
        {"start": pl.Int64, "end": pl.Int64, "old": pl.String, "new_start": pl.Int64, "new_end": pl.Int64,
         "new": pl.String}
    )
)  # fmt: skip
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "id": pl.String, "context": pl.String, "aspect": pl.String, "version": pl.Int64, "rule": pl.String,
    "original": pl.String, "perturbed": pl.String, "changes": _CHANGES,
}  # fmt: skip


@dataclass(frozen=True)
class Original:
    """A text to perturb, and what stood before it."""

    id: str
    text: str
    context: str | None = None


@dataclass(frozen=True)
class Pair:
    """An original, what a perturbation made of it, by which rule and where. Versions of one text count from 0."""

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
        """The original in stretches, each with whether it changes."""
        return _stretches(self.original, [(change.start, change.end) for change in self.changes])

    @property
    def after(self) -> list[tuple[str, bool]]:
        """The perturbed text in stretches, each with whether it is new."""
        return _stretches(self.perturbed, [(change.new_start, change.new_end) for change in self.changes])


@dataclass(frozen=True)
class Tally:
    """What became of the texts under one perturbation; `reasons` counts those that it does not apply to.

    `dropped` counts results that the grammar filter refused.
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
    """All pairs, what became of the texts, and which perturbations could not run here, with the advice."""

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
    """Perturb every text by every perturbation, in so many versions; those that come out alike make one pair.

    `grammar` is a filter that drops ungrammatical results; `advance` takes how many texts are done.
    """
    judge = create_grammar(grammar)
    judge.prepare()
    able, missing = usable(perturbations)
    stories = [Story(original.text) for original in originals]
    words = any(one.uses_words for one in able)
    if words or any(one.parses for one in able):
        parse_all(stories)
    corpus = Corpus.of(stories, words=words)
    pairs: list[Pair] = []
    tallies = []
    for place, one in enumerate(able):
        one.warm(stories)
        mine: list[Pair] = []
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
            mine += [_pair(original, one.name, version, outcome) for version, outcome in found.values()]
            advance(place * len(originals) + number)
        kept = _grammatical(mine, judge) if one.filtered else mine
        perturbed, dropped = len(originals) - reasons.total(), len(mine) - len(kept)
        tallies.append(
            Tally(one.name, str(one.signature), len(originals), perturbed, len(kept), dict(reasons), dropped)
        )
        pairs += kept
    return Made(pairs, tallies, missing)


def _grammatical(pairs: list[Pair], grammar: Grammar) -> list[Pair]:
    """The pairs whose changed sentences a filter accepts."""
    lines = [Perturbed(one.original, one.perturbed, one.rule, one.changes).changed_sentences() for one in pairs]
    every = sorted({line for found in lines for line in found})
    accepted = dict(zip(every, grammar.accepts(every), strict=True))
    return [pair for pair, found in zip(pairs, lines, strict=True) if all(accepted[line] for line in found)]


def read_suite(folder: Path) -> list[Pair]:
    """The pairs of a suite: stories and incoherent texts, originals and texts with harmless changes.

    An aspect of the invariance test that starts from incoherent texts has this in its name.
    """
    rows = {name: _json_lines(folder / f"{name}.jsonl") for name in ("stories", "discrimination", "invariance")}
    stories = {row["id"]: row["text"] for row in rows["stories"]}
    originals = {row["pair"]: row["text"] for row in rows["invariance"] if row["label"] == 1}
    found = [(row, row["aspect"], stories[row["story"]]) for row in rows["discrimination"] if row["label"] == 0]
    for row in rows["invariance"]:
        if row["label"] == 0:
            aspect = row["aspect"] if row["source"] == "human" else f"{row['aspect']} ({row['source']})"
            found.append((row, aspect, originals[row["pair"]]))
    return [
        Pair(
            row["story"], row["context"] or None, aspect, 0, row["rule"], original, row["text"],
            msgspec.convert(row["changes"], tuple[Change, ...]),
        )
        for row, aspect, original in found
    ]  # fmt: skip


def _json_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
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
        raise DataError(
            f"no column {', '.join(lacking)}; expected pairs as `nlgauge perturb FILE --aspect NAME -o` writes them",
            file=str(path),
        )
    found = []
    for row, values in enumerate(frame.iter_rows(named=True)):
        try:
            pair = _from_row(values)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise origin.error(row, f"is no pair ({error}); expected what `nlgauge perturb` writes") from error
        fitting = next((one for one in (pair, _unguarded(pair)) if _fits(one)), None)
        if fitting is None:
            raise origin.error(row, "its changes do not turn the original into the perturbed text", "changes")
        found.append(fitting)
    return found


def _pair(original: Original, aspect: str, version: int, outcome: Perturbed) -> Pair:
    return Pair(
        original.id, original.context, aspect, version, outcome.rule, outcome.original, outcome.text, outcome.changes
    )


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
    """A pair without the apostrophes that CSV has before what a spreadsheet would run as a formula."""
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


def _stretches(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    place = 0
    for start, end in spans:
        found += [(text[place:start], False), (text[start:end], True)]
        place = end
    return [(part, changed) for part, changed in [*found, (text[place:], False)] if part]
