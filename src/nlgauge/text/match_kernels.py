"""Compiled loops for BLEU of every text of a corpus against all others.

Occurrences of n-grams come partition by partition, as fingerprints with the number of their text. Those of one text
are adjacent, so a slot of the table only needs to hold counts for the text seen last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.compiled import kernel
from nlgauge.text.set_kernels import clipped_bleu, nearer_length

# One n-gram: the largest count in a text, that text, the second largest, and the text being counted with its count.
SLOT = np.dtype(
    [
        ("key", np.uint64),
        ("owner", np.int64),
        ("text", np.int64),
        ("best", np.uint32),
        ("second", np.uint32),
        ("count", np.uint32),
    ],
    align=True,
)
_FIRST_SLOTS = 64


@kernel
def _find(table: Array, key: Any) -> Any:
    """The slot of an n-gram, or the free one where it belongs; an n-gram that was seen has a count or a best count."""
    mask = np.uint64(len(table) - 1)
    slot = np.uint64(key) & mask
    while (table[slot].count or table[slot].best) and table[slot].key != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def _close(table: Array, slot: Any) -> None:
    """Merge the count of the text seen last into the two largest counts."""
    count = table[slot].count
    if count > table[slot].best:
        table[slot].second = table[slot].best
        table[slot].best = count
        table[slot].owner = table[slot].text
    elif count > table[slot].second:
        table[slot].second = count


@kernel
def _grown(table: Array) -> Array:
    larger = np.zeros(4 * len(table), SLOT)
    for old in range(len(table)):
        if table[old].count or table[old].best:
            larger[_find(larger, table[old].key)] = table[old]
    return larger


@kernel
def empty_table() -> Array:
    """An empty table of n-grams."""
    return np.zeros(_FIRST_SLOTS, SLOT)


@kernel
def tally(table: Array, used: int, keys: Array, texts: Array, base: int) -> tuple[Array, int]:
    """Count the n-grams of some texts, numbered from `base` on: the table, perhaps grown, and its slots in use."""
    for i in range(len(keys)):
        text = base + np.int64(texts[i])
        slot = _find(table, keys[i])
        if table[slot].count == 0:
            if 2 * used >= len(table):
                table = _grown(table)
                slot = _find(table, keys[i])
            used += 1
            table[slot].key = keys[i]
            table[slot].owner = -1
            table[slot].text = text
        elif table[slot].text != text:
            _close(table, slot)
            table[slot].text = text
            table[slot].count = 0
        table[slot].count += np.uint32(1)
    return table, used


@kernel
def settle(table: Array) -> None:
    """Finish the counting, so that matches can be looked up."""
    for slot in range(len(table)):
        if table[slot].count:
            _close(table, slot)
            table[slot].text = -1
            table[slot].count = 0


@kernel
def match(table: Array, keys: Array, texts: Array, base: int, matched: Array) -> None:
    """Mark the occurrences that another text matches: the first k of an n-gram in a text, k the most in any other."""
    for i in range(len(keys)):
        text = base + np.int64(texts[i])
        slot = _find(table, keys[i])
        if table[slot].text != text:
            table[slot].text = text
            table[slot].count = 0
        table[slot].count += np.uint32(1)
        allowed = table[slot].second if table[slot].owner == text else table[slot].best
        matched[i] = table[slot].count <= allowed


@kernel
def match_partitions(keys: Array, texts: Array, starts: Array, ends: Array, bases: Array) -> Array:
    """Matched occurrences of several partitions; run r holds partition p in `keys[starts[r, p]:ends[r, p]]`."""
    matched = np.zeros(len(keys), np.bool_)
    for p in range(starts.shape[1]):
        table, used = empty_table(), 0
        for r in range(starts.shape[0]):
            low, high = starts[r, p], ends[r, p]
            table, used = tally(table, used, keys[low:high], texts[low:high], bases[r])
        settle(table)
        for r in range(starts.shape[0]):
            low, high = starts[r, p], ends[r, p]
            match(table, keys[low:high], texts[low:high], bases[r], matched[low:high])
    return matched


@kernel
def corpus_bleu_of_texts(
    lengths: Array, matched: Array, known: Array, often: Array, weights: Array, smooth: bool
) -> Array:
    """BLEU of texts from their lengths and matches (one row per order).

    `known` are the different lengths in the corpus, sorted, and `often` says how many texts have each.
    """
    scores = np.zeros(len(lengths))
    orders = np.arange(1, len(weights) + 1)
    for t in range(len(lengths)):
        length = lengths[t]
        place = np.searchsorted(known, length)
        closest = length
        if often[place] == 1:
            below = known[place - 1] if place > 0 else -1
            above = known[place + 1] if place + 1 < len(known) else -1
            closest = nearer_length(below, above, length)
        scores[t] = clipped_bleu(matched[:, t], length, closest, orders, weights, smooth)
    return scores
