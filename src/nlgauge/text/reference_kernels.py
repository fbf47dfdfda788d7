"""Compiled loops over texts and their references: sets whose first text is compared with each of the others."""

from __future__ import annotations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.compiled import kernel


@kernel
def clipped_matches(ranks: Array, different: Array, texts: Array, sets: Array, together: bool) -> Array:
    """N-grams that the first text of each set shares with the others, one column per order.

    `together` gives one row per set and clips with the largest count in any reference (Papineni et al. 2002, section
    2.1.1); otherwise there is one row per reference. `ranks` and `different` come from `rank_ngrams`.
    """
    count_of_sets = len(sets) - 1
    rows = count_of_sets if together else len(texts) - 1 - count_of_sets
    matches = np.zeros((rows, len(ranks)), np.int64)
    row = 0
    for s in range(count_of_sets):
        first, last = sets[s], sets[s + 1]
        for n in range(len(ranks)):
            own = np.zeros(different[n, s], np.int64)
            best = np.zeros(different[n, s], np.int64)
            counts = np.zeros(different[n, s], np.int64)
            for i in range(texts[first], texts[first + 1] - n):
                own[ranks[n, i]] += 1
            for t in range(first + 1, last):
                for i in range(texts[t], texts[t + 1] - n):
                    counts[ranks[n, i]] += 1
                for i in range(texts[t], texts[t + 1] - n):
                    rank = ranks[n, i]
                    count = counts[rank]
                    if count == 0:
                        continue
                    counts[rank] = 0
                    if together:
                        best[rank] = max(best[rank], count)
                    else:
                        matches[row + t - first - 1, n] += min(own[rank], count)
            if together:
                matches[row, n] = np.minimum(own, best).sum()
        row += 1 if together else last - first - 1
    return matches


@kernel
def closest_lengths(texts: Array, sets: Array) -> Array:
    """For each set, the length among the references that is nearest to the first text's; in a tie, the shorter."""
    closest = np.zeros(len(sets) - 1, np.int64)
    for s in range(len(sets) - 1):
        length = texts[sets[s] + 1] - texts[sets[s]]
        best = texts[sets[s] + 2] - texts[sets[s] + 1]
        for t in range(sets[s] + 2, sets[s + 1]):
            other = texts[t + 1] - texts[t]
            near, held = abs(other - length), abs(best - length)
            if near < held or (near == held and other < best):
                best = other
        closest[s] = best
    return closest


@kernel
def common_subsequences(ids: Array, texts: Array, sets: Array) -> Array:
    """Length of the longest common subsequence of the first text of each set with each reference, in order."""
    lengths = np.zeros(len(texts) - len(sets), np.int64)
    row = 0
    for s in range(len(sets) - 1):
        begin, end = texts[sets[s]], texts[sets[s] + 1]
        best = np.empty(end - begin + 1, np.int64)
        for t in range(sets[s] + 1, sets[s + 1]):
            best[:] = 0
            for i in range(texts[t], texts[t + 1]):
                diagonal = 0
                for j in range(end - begin):
                    above = best[j + 1]
                    if ids[i] == ids[begin + j]:
                        best[j + 1] = diagonal + 1
                    elif best[j] > above:
                        best[j + 1] = best[j]
                    diagonal = above
            lengths[row] = best[end - begin]
            row += 1
    return lengths


@kernel
def summed_vectors(ids: Array, texts: Array, vectors: Array) -> Array:
    """The sum of each text's word vectors."""
    sums = np.zeros((len(texts) - 1, vectors.shape[1]))
    for t in range(len(texts) - 1):
        for i in range(texts[t], texts[t + 1]):
            sums[t] += vectors[ids[i]]
    return sums


@kernel
def extreme_vectors(ids: Array, texts: Array, vectors: Array) -> Array:
    """In each dimension, the value among a text's words that is farthest from 0; in a tie, the negative one."""
    extremes = np.zeros((len(texts) - 1, vectors.shape[1]))
    for t in range(len(texts) - 1):
        for i in range(texts[t], texts[t + 1]):
            for d in range(vectors.shape[1]):
                value, held = vectors[ids[i], d], extremes[t, d]
                if abs(value) > abs(held) or (abs(value) == abs(held) and value < held):
                    extremes[t, d] = value
    return extremes


@kernel
def greedy_matches(ids: Array, texts: Array, sets: Array, units: Array) -> Array:
    """Greedy matching of the first text of each set with each reference, in order; 0 where a text has no word.

    Every word takes its most similar word on the other side; the two directions are averaged.
    """
    scores = np.zeros(len(texts) - len(sets))
    row = -1
    for s in range(len(sets) - 1):
        begin, end = texts[sets[s]], texts[sets[s] + 1]
        best = np.empty(end - begin)
        for t in range(sets[s] + 1, sets[s + 1]):
            row += 1
            if end == begin or texts[t + 1] == texts[t]:
                continue
            best[:] = -np.inf
            across = 0.0
            for i in range(texts[t], texts[t + 1]):
                nearest = -np.inf
                for j in range(end - begin):
                    similarity = 0.0
                    for d in range(units.shape[1]):
                        similarity += units[ids[i], d] * units[ids[begin + j], d]
                    nearest = max(nearest, similarity)
                    best[j] = max(best[j], similarity)
                across += nearest
            scores[row] = (across / (texts[t + 1] - texts[t]) + best.mean()) / 2
    return scores
