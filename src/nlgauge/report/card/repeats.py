"""Repeated phrases and whole replies, within a context and across contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from nlgauge.report.card.texts import Texts, clipped, plain_responses

ORDERS = (5, 4, 3)
TEXTS_READ = 20_000
_TOKENS_READ = 400
_SHOWN = 12
_CANDIDATES = 300
_SHOWN_LENGTH = 160
_PART_OF_LONGER = 0.8


@dataclass(frozen=True)
class Repeated:
    """A phrase or a reply with its count in every system, in the order of systems."""

    text: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Repeats:
    """Repeated phrases and replies.

    `within`: phrases that at least two responses to one context share, and how many responses do;
    `across`: phrases that occur in several contexts, and in how many; `replies`: the same for whole replies. `read` is
    the number of responses per system that were read, None for all.
    """

    within: tuple[Repeated, ...]
    across: tuple[Repeated, ...]
    replies: tuple[Repeated, ...]
    read: int | None


def repeats_of(texts: Texts) -> Repeats:
    """Count phrases of three to five words (lower case), and whole replies."""
    flat = plain_responses(texts.frame)
    parts = [flat.filter(pl.col("system") == system) for system in texts.systems]
    counted = [_phrases(part.head(TEXTS_READ)) for part in parts]
    return Repeats(
        _top([within for within, _ in counted]),
        _top([across for _, across in counted]),
        _top([_replies(part) for part in parts]),
        TEXTS_READ if max(map(len, parts)) > TEXTS_READ else None,
    )


def _phrases(flat: pl.DataFrame) -> tuple[Counter[tuple[str, ...]], Counter[tuple[str, ...]]]:
    """How many responses share a phrase with another one to their context, and in how many contexts it occurs."""
    words = flat.with_columns(
        tokens=pl.col("plain").str.slice(0, 20 * _TOKENS_READ).str.extract_all(r"[\w\p{M}]+(?:'[\w\p{M}]+)*")
    )
    within: Counter[tuple[str, ...]] = Counter()
    across: Counter[tuple[str, ...]] = Counter()
    for (_,), part in words.group_by("set", maintain_order=True):
        here: Counter[tuple[str, ...]] = Counter()
        for tokens in part["tokens"].to_list():
            here.update(_ngrams(tokens[:_TOKENS_READ]))
        across.update(here.keys())
        within.update({phrase: count for phrase, count in here.items() if count > 1})
    return within, across


def _ngrams(tokens: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(tokens[i : i + n]) for n in ORDERS for i in range(len(tokens) - n + 1)}


def _replies(flat: pl.DataFrame) -> Counter[tuple[str, ...]]:
    counts = flat.filter(pl.col("plain") != "").group_by("plain").agg(sets=pl.col("set").n_unique())
    return Counter({(text,): int(sets) for text, sets in counts.filter(pl.col("sets") > 1).iter_rows()})


def _top(counts: Sequence[Counter[tuple[str, ...]]]) -> tuple[Repeated, ...]:
    """The phrases with the highest counts in any system; a phrase inside a longer one is left out."""
    highest: Counter[tuple[str, ...]] = Counter()
    for one in counts:
        for phrase, count in one.items():
            if count > 1:
                highest[phrase] = max(highest[phrase], count)
    ranked = sorted(highest.items(), key=lambda item: (-item[1], -len(item[0]), item[0]))[:_CANDIDATES]
    kept = [
        phrase
        for phrase, count in ranked
        if not any(other >= _PART_OF_LONGER * count and _inside(phrase, longer) for longer, other in ranked)
    ]
    return tuple(
        Repeated(clipped(" ".join(phrase), _SHOWN_LENGTH), tuple(one[phrase] for one in counts))
        for phrase in _apart(kept)
    )


def _apart(ranked: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The first few that do not overlap with an earlier one in all but a word at either end."""
    shown: list[tuple[str, ...]] = []
    for phrase in ranked:
        if len(shown) < _SHOWN and (len(phrase) == 1 or not any(_overlap(phrase, other) for other in shown)):
            shown.append(phrase)
    return shown


def _inside(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    size = len(short)
    return size < len(long) and any(long[i : i + size] == short for i in range(len(long) - size + 1))


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two phrases are windows of one longer phrase, a word apart."""
    size = min(len(one), len(other)) - 1
    return size > 1 and (one[-size:] == other[:size] or other[-size:] == one[:size])
