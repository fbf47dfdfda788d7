"""Compiled loops over lists of neighbours.

Items with the same coordinates share a *place*. A place has a list of places by distance, itself first: entries
`begins[u]` to `stops[u]` of `near`, and beside each entry, in `ends`, where the entries end that lie at most as far as
that one (-1 when the list is too short to say). How many items, and how many of the model, a place has in a resample is
one whole number: items + models * 2^32.
"""

from __future__ import annotations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.compiled import kernel

MODEL = 1 << 32
_ITEMS = MODEL - 1


@kernel
def sort_lists(points: Array, places: Array, near: Array, relative: float, absolute: float) -> tuple[Array, Array]:
    """Lists sorted by distance, and where the entries at most as far as each one end.

    `near` has a row of the nearest points for each of `places`, nearly sorted. Distances are computed here again, the
    squares of differences summed in the order of the features, so that they do not depend on the method that found the
    points. Entries are at most as far as one at distance r when they lie within r (1 + relative) + absolute.
    """
    rows, length = near.shape
    features = points.shape[1]
    sorted_near = np.empty(near.shape, dtype=np.uint32)
    ends = np.empty(near.shape, dtype=np.int32)
    squares = np.empty(length)
    for row in range(rows):
        place = places[row]
        for i in range(length):
            candidate, square = near[row, i], 0.0
            for j in range(features):
                difference = points[candidate, j] - points[place, j]
                square += difference * difference
            if candidate == place:
                square = -1.0
            spot = i
            while spot > 0 and squares[spot - 1] > square:
                squares[spot], sorted_near[row, spot] = squares[spot - 1], sorted_near[row, spot - 1]
                spot -= 1
            squares[spot], sorted_near[row, spot] = square, candidate
        squares[0] = 0.0
        whole = length == len(points)
        beyond = squares[length - 1] * (1.0 - 1e-12)
        end = 0
        for i in range(length):
            reach = squares[i]
            if relative > 0.0 or absolute > 0.0:
                radius = np.sqrt(reach) * (1.0 + relative) + absolute
                reach = max(reach, radius * radius)
            while end < length and squares[end] <= reach:
                end += 1
            ends[row, i] = end if whole or reach < beyond else -1
    return sorted_near, ends


@kernel
def gather(
    weights: Array, place: Array, begins: Array, stops: Array, near: Array, ends: Array, k: int, short: Array
) -> Array:
    """The neighbours of every item, counted as the places are, when items count as `weights` say.

    An item's own weight is left out: its copies are not neighbours of it. When the others count less than k in all,
    they all are neighbours. An item of no weight has none. Marks in `short` the places whose lists are too short, and
    counts -1 for their items.
    """
    counts = np.zeros(len(begins), dtype=np.int64)
    for i in range(len(place)):
        counts[place[i]] += weights[i]
    found = np.zeros(len(place), dtype=np.int64)
    for i in range(len(place)):
        if weights[i] == 0:
            continue
        u = place[i]
        begin, stop = begins[u], stops[u]
        votes = counts[u] - weights[i]
        spot = begin
        while (votes & _ITEMS) < k:
            spot += 1
            if spot == stop:
                break
            votes += counts[near[spot]]
        if spot < stop and ends[spot] >= 0:
            for further in range(spot + 1, begin + ends[spot]):
                votes += counts[near[further]]
        elif spot < stop or stop - begin < len(begins):
            short[u] = True
            votes = -1
        found[i] = votes
    return found


@kernel
def resampled_errors(
    weights: Array,
    items: Array,
    place: Array,
    is_model: Array,
    begins: Array,
    stops: Array,
    near: Array,
    ends: Array,
    k: int,
) -> tuple[Array, Array]:
    """The leave-one-out error in every row of weights, and the places whose lists are too short.

    The error of a row that needs longer lists is not a number. `items` says which column of weights belongs to which
    entry of `place` and `is_model`. Where places ascend, their lists are read one after the other, which is quicker.
    """
    errors = np.empty(len(weights))
    short = np.zeros(len(begins), dtype=np.bool_)
    unit = 1 + MODEL * is_model
    own = np.empty(len(place), dtype=np.int64)
    for b in range(len(weights)):
        for i in range(len(place)):
            own[i] = weights[b, items[i]] * unit[i]
        found = gather(own, place, begins, stops, near, ends, k, short)
        total = wrong = 0
        for i in range(len(place)):
            weight = own[i] & _ITEMS
            total += weight
            if found[i] < 0:
                total = 0
                break
            if (2 * (found[i] >> 32) > (found[i] & _ITEMS)) != is_model[i]:
                wrong += weight
        errors[b] = wrong / total if total else np.nan
    return errors, short


@kernel
def count_drawn(draws: Array, weights: Array) -> None:
    """Add to `weights` how often each item occurs in each row of draws."""
    for b in range(draws.shape[0]):
        for i in range(draws.shape[1]):
            weights[b, draws[b, i]] += 1


@kernel
def choose_halves(uniform: Array, first: int, weights: Array) -> None:
    """Set to 1 the weights of half of the items of each row, chosen by random numbers between 0 and 1.

    Of an odd number of items, the half is alternately rounded down and up; `first` is the number of the first row.
    """
    rows, size = uniform.shape
    for b in range(rows):
        wanted = (size + (first + b) % 2) // 2
        for i in range(size):
            if uniform[b, i] * (size - i) < wanted:
                weights[b, i] = 1
                wanted -= 1
