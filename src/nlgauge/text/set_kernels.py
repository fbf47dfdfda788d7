"""Compiled loops over the n-grams of each set of texts.

Everything starts from ranks: within a set, equal n-grams get equal small numbers. The rank of an n-gram is found from
the pair (rank of its first n-1 tokens, last token), which is exact and costs one table look-up per n-gram.
"""

from __future__ import annotations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.compiled import kernel


@kernel
def rank_ngrams(ids: Array, texts: Array, sets: Array, highest: int) -> tuple[Array, Array, Array]:
    """Ranks of all n-grams, n = 1..highest, with the number of different and of all n-grams in each set.

    `ranks[n-1, i]` is the rank of the n-gram that starts at token i, -1 where the text ends before.
    """
    ranks = np.full((highest, len(ids)), -1, np.int32)
    different = np.zeros((highest, len(sets) - 1), np.int64)
    total = np.zeros((highest, len(sets) - 1), np.int64)
    keys = np.empty(64, np.int64)
    slots = np.empty(64, np.int32)
    for s in range(len(sets) - 1):
        size = 64
        while size < 2 * (texts[sets[s + 1]] - texts[sets[s]]):
            size *= 2
        if size > len(keys):
            keys = np.empty(size, np.int64)
            slots = np.empty(size, np.int32)
        mask = np.uint64(size - 1)
        for n in range(highest):
            slots[:size] = -1
            known = 0
            for t in range(sets[s], sets[s + 1]):
                end = texts[t + 1] - n
                for i in range(texts[t], end):
                    key = np.int64(ids[i + n])
                    if n:
                        key |= np.int64(ranks[n - 1, i]) << 32
                    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
                    slot = (h ^ (h >> np.uint64(32))) & mask
                    while slots[slot] >= 0 and keys[slot] != key:
                        slot = (slot + np.uint64(1)) & mask
                    if slots[slot] < 0:
                        keys[slot] = key
                        slots[slot] = known
                        known += 1
                    ranks[n, i] = slots[slot]
                if end > texts[t]:
                    total[n, s] += end - texts[t]
            different[n, s] = known
    return ranks, different, total


@kernel
def set_entropy(ranks: Array, different: Array, texts: Array, sets: Array, order: int) -> Array:
    """Shannon entropy in bits of the n-grams of each set."""
    entropy = np.zeros(len(sets) - 1)
    for s in range(len(sets) - 1):
        counts = np.zeros(different[order - 1, s], np.int64)
        total = 0
        for i in range(texts[sets[s]], texts[sets[s + 1]]):
            if ranks[order - 1, i] >= 0:
                counts[ranks[order - 1, i]] += 1
                total += 1
        if total:
            counts.sort()
            weighted = 0.0
            for count in counts:
                weighted += count * np.log2(count)
            entropy[s] = max(0.0, np.log2(total) - weighted / total)
    return entropy


@kernel
def set_cosine(ranks: Array, different: Array, texts: Array, sets: Array, order: int, whole_when_short: bool) -> Array:
    """Mean cosine over the pairs of texts of each set, from count vectors of n-grams, without a loop over pairs.

    A text too short for an n-gram is similar to nothing, or, with `whole_when_short`, exactly to texts equal to it.
    """
    cosine = np.zeros(len(sets) - 1)
    for s in range(len(sets) - 1):
        first, last = sets[s], sets[s + 1]
        base = np.zeros(order + 1, np.int64)
        base[0] = different[order - 1, s]
        base[1] = base[0] + 1
        for length in range(1, order):
            base[length + 1] = base[length] + different[length - 1, s]
        summed = np.zeros(base[order])
        counts = np.zeros(different[order - 1, s], np.int64)
        pairs = 0.0
        for t in range(first, last):
            length = texts[t + 1] - texts[t]
            if length < order:
                if whole_when_short:
                    slot = base[0] if length == 0 else base[length] + ranks[length - 1, texts[t]]
                    pairs += summed[slot]
                    summed[slot] += 1.0
                continue
            squares = 0
            for i in range(texts[t], texts[t + 1] - order + 1):
                count = counts[ranks[order - 1, i]]
                squares += 2 * count + 1
                counts[ranks[order - 1, i]] = count + 1
            norm = np.sqrt(np.float64(squares))
            for i in range(texts[t], texts[t + 1] - order + 1):
                rank = ranks[order - 1, i]
                if counts[rank]:
                    unit = counts[rank] / norm
                    pairs += summed[rank] * unit
                    summed[rank] += unit
                    counts[rank] = 0
        size = last - first
        cosine[s] = 2.0 * pairs / (size * (size - 1.0))
    return cosine


@kernel
def nearer_length(below: int, above: int, length: int) -> int:
    """The nearer of two lengths, in a tie the shorter; a negative length means that there is none."""
    nearer_above = below < 0 or (above >= 0 and above - length < length - below)
    return above if nearer_above else below


@kernel
def clipped_bleu(matched: Array, length: int, closest: int, orders: Array, weights: Array, smooth: bool) -> float:
    """BLEU of one text from its clipped matches of each order and the closest length of a reference."""
    if matched[0] == 0:
        return 0.0
    logs = 0.0
    for o in range(len(orders)):
        possible = max(1, length - orders[o] + 1)
        if matched[o] > 0:
            logs += weights[o] * np.log(matched[o] / possible)
        elif smooth:
            logs += weights[o] * np.log(0.1 / possible)
        else:
            return 0.0
    penalty = 1.0 if length > closest else np.exp(1.0 - closest / length)
    score: float = penalty * np.exp(logs)
    return score


@kernel
def leave_one_out_bleu(
    ranks: Array, different: Array, texts: Array, sets: Array, orders: Array, weights: Array, smooth: bool
) -> Array:
    """BLEU of every text with the other texts of its set as references, in linear time.

    Per n-gram the largest count, its owner and the second largest are enough to clip: the owner is clipped with the
    second. The closest reference length comes from the sorted lengths.
    """
    scores = np.zeros(len(texts) - 1)
    for s in range(len(sets) - 1):
        first, last = sets[s], sets[s + 1]
        size = last - first
        if size < 2:
            continue
        lengths = texts[first + 1 : last + 1] - texts[first:last]
        ordered = np.sort(lengths)
        matched = np.zeros((len(orders), size), np.int64)
        for o in range(len(orders)):
            n = orders[o]
            grams = different[n - 1, s]
            best = np.zeros(grams, np.int64)
            second = np.zeros(grams, np.int64)
            owner = np.full(grams, -1, np.int64)
            counts = np.zeros(grams, np.int64)
            for clipping in range(2):
                for t in range(size):
                    begin, end = texts[first + t], texts[first + t + 1] - n + 1
                    for i in range(begin, end):
                        counts[ranks[n - 1, i]] += 1
                    for i in range(begin, end):
                        rank = ranks[n - 1, i]
                        count = counts[rank]
                        if count == 0:
                            continue
                        counts[rank] = 0
                        if clipping:
                            allowed = second[rank] if owner[rank] == t else best[rank]
                            matched[o, t] += min(count, allowed)
                        elif count > best[rank]:
                            second[rank] = best[rank]
                            best[rank] = count
                            owner[rank] = t
                        elif count > second[rank]:
                            second[rank] = count
        for t in range(size):
            length = lengths[t]
            place = np.searchsorted(ordered, length)
            if place + 1 < size and ordered[place + 1] == length:
                closest = length
            else:
                below = ordered[place - 1] if place > 0 else -1
                above = ordered[place + 1] if place + 1 < size else -1
                closest = nearer_length(below, above, length)
            scores[first + t] = clipped_bleu(matched[:, t], length, closest, orders, weights, smooth)
    return scores
