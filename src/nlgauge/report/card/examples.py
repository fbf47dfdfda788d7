"""Contexts with the systems' answers, from the most to the least diverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from nlgauge.metrics.score import Score
from nlgauge.report.card.meanings import Meanings
from nlgauge.report.card.texts import Texts, clipped
from nlgauge.report.tables import set_values

EXTREMES = 3
TEXT_SHOWN = 1200
RESPONSES_SHOWN = 20
_CHARACTERS = 1_200_000
_DIVERSE, _GOOD = ("Most diverse", "Least diverse"), ("Best", "Worst")
_ORDER = ("content", "form", "quality", "fluency", "columns")


@dataclass(frozen=True)
class Answer:
    """One system's answer: texts as shown, the group of each, and the values of metrics."""

    system: str
    responses: tuple[str, ...]
    groups: tuple[int, ...]
    left_out: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Example:
    """One context with the answers of all systems."""

    id: str
    context: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Examples:
    """Contexts from the most to the least diverse by `leading`; `total` is how many there are in the files.

    `ends` describes the first and the last ones: the most and the least diverse, or the best and the worst. If there
    are too many for a page, those in the middle are thinned out evenly.
    """

    leading: str
    metrics: tuple[str, ...]
    shown: tuple[Example, ...]
    total: int
    ends: tuple[str, str]

    @property
    def most(self) -> tuple[Example, ...]:
        """The most diverse contexts."""
        return self.shown[: min(EXTREMES, (len(self.shown) + 1) // 2)]

    @property
    def least(self) -> tuple[Example, ...]:
        """The least diverse contexts, the last one first."""
        return self.shown[::-1][: min(EXTREMES, len(self.shown) // 2)]


def examples_of(
    scores: Sequence[Score], names: Mapping[str, str], texts: Texts, meanings: Meanings | None
) -> Examples | None:
    """Contexts in the order of the first metric of content (or else of form) that has values of single sets."""
    valued = [score for score in scores if score.items is not None]
    if not valued:
        return None
    first = min(valued, key=lambda score: _ORDER.index(score.aspect) if score.aspect in _ORDER else len(_ORDER))
    leading = first.label
    values = _values(valued, names)
    keyed = _keyed(texts)
    ranked = _ranked(keyed, values, names[leading], first.direction.sign)
    rows = keyed.unique(["system", "key"], keep="first", maintain_order=True).partition_by("key", as_dict=True)
    chosen = _thinned(ranked, {key: _weight(rows[key,]) for key in ranked})
    made = tuple(_example(rows[key,], values, texts.systems, meanings) for key in chosen)
    ends = _DIVERSE if first.direction.is_about_diversity else _GOOD
    return Examples(names[leading], tuple(dict.fromkeys(names[s.label] for s in valued)), made, len(ranked), ends)


def _values(scores: Sequence[Score], names: Mapping[str, str]) -> dict[tuple[str, str], dict[str, float]]:
    """Values of single sets by system and id."""
    table = set_values(scores, names)
    _, _, *metrics = table.columns
    return {
        (system, id): {name: value for name, value in zip(metrics, values, strict=True) if value is not None}
        for system, id, *values in table.iter_rows()
    }


def _keyed(texts: Texts) -> pl.DataFrame:
    """Rows with a key per context: ids if they agree on contexts, else the contexts, else system and id."""
    frame = texts.frame
    if frame.group_by("id").agg(pl.col("context").n_unique())["context"].to_numpy().max() == 1:
        return frame.with_columns(key=pl.col("id"))
    if (frame["context"] != "").all() and not frame.select("system", "context").is_duplicated().any():
        return frame.with_columns(key=pl.col("context"))
    return frame.with_columns(key=pl.concat_str("system", pl.lit("\n"), "id"))


def _ranked(
    keyed: pl.DataFrame, values: Mapping[tuple[str, str], Mapping[str, float]], leading: str, sign: int
) -> list[str]:
    """Keys from the highest to the lowest mean over systems; those without a value last."""
    seen: dict[str, list[float]] = {}
    for system, id, key in keyed.select("system", "id", "key").iter_rows():
        seen.setdefault(key, [])
        if leading in values.get((system, id), {}):
            seen[key].append(sign * values[system, id][leading])
    return sorted(seen, key=lambda key: (not seen[key], -sum(seen[key]) / max(1, len(seen[key])), key))


def _weight(rows: pl.DataFrame) -> int:
    """Characters that an example takes on the page."""
    lengths = rows["responses"].list.head(RESPONSES_SHOWN).explode().str.len_chars().clip(upper_bound=TEXT_SHOWN)
    return int(lengths.sum()) + min(TEXT_SHOWN, len(rows["context"][0])) + 200


def _thinned(ranked: Sequence[str], weights: Mapping[str, int]) -> list[str]:
    """Both ends, and as many in between as fit on the page, spread evenly."""
    total = sum(weights.values())
    if total <= _CHARACTERS:
        return list(ranked)
    step = total / _CHARACTERS
    middle = ranked[EXTREMES:-EXTREMES]
    kept = {int(i * step) for i in range(int(len(middle) / step))}
    return [*ranked[:EXTREMES], *(key for place, key in enumerate(middle) if place in kept), *ranked[-EXTREMES:]]


def _example(
    rows: pl.DataFrame,
    values: Mapping[tuple[str, str], Mapping[str, float]],
    systems: Sequence[str],
    meanings: Meanings | None,
) -> Example:
    answers = []
    for row in sorted(rows.iter_rows(named=True), key=lambda row: systems.index(row["system"])):
        groups = meanings.groups.get((row["system"], row["id"]), ()) if meanings is not None else ()
        answers.append(
            Answer(
                row["system"],
                tuple(clipped(text, TEXT_SHOWN) for text in row["responses"][:RESPONSES_SHOWN]),
                groups[:RESPONSES_SHOWN],
                max(0, len(row["responses"]) - RESPONSES_SHOWN),
                values.get((row["system"], row["id"]), {}),
            )
        )
    return Example(clipped(rows["id"][0], 120), clipped(rows["context"][0], TEXT_SHOWN), tuple(answers))
