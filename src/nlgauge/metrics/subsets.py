"""Subsets of the responses of each set, so that sets of different sizes can be measured at one size.

Which responses are drawn depends on the texts of the set alone: not on their order, nor on other sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from nlgauge.arrays import Array

MOST_SUBSETS = 32


def draw_subsets(hashes: Array, offsets: Array, size: int) -> Iterator[tuple[Array, Array]]:
    """Subsets of `size` responses, for the sets of each number of responses: owners, and positions of their texts.

    `hashes` has one number per text, the same for equal texts. Positions have one row per subset. All subsets are given
    where there are at most `MOST_SUBSETS`; else so many, cut from random orders of the set, so that all responses occur
    about equally often. Sets with fewer responses have none.
    """
    sizes = np.diff(offsets)
    for count in np.unique(sizes[sizes >= size]).tolist():
        owners = np.flatnonzero(sizes == count)
        places = offsets[owners][:, None] + np.arange(count)
        places = np.take_along_axis(places, np.argsort(hashes[places], axis=1, kind="stable"), axis=1)
        if math.comb(count, size) <= MOST_SUBSETS:
            chosen = np.array(list(combinations(range(count), size)))
            drawn = places[:, chosen]
        else:
            each = count // size
            orders = _random_orders(hashes[places], math.ceil(MOST_SUBSETS / each))
            mixed = np.take_along_axis(places[:, None, :], orders, axis=2)[:, :, : each * size]
            drawn = mixed.reshape(len(owners), -1, size)[:, :MOST_SUBSETS]
        yield np.repeat(owners, drawn.shape[1]), drawn.reshape(-1, size)


def first_subset(hashes: Array, offsets: Array, size: int) -> tuple[Array, Array]:
    """One random subset of each set that has so many responses: the rows of these sets, and positions of texts."""
    rows, found = [np.empty(0, np.int64)], [np.empty((0, size), np.int64)]
    sizes = np.diff(offsets)
    for count in np.unique(sizes[sizes >= size]).tolist():
        owners = np.flatnonzero(sizes == count)
        places = offsets[owners][:, None] + np.arange(count)
        places = np.take_along_axis(places, np.argsort(hashes[places], axis=1, kind="stable"), axis=1)
        order = _random_orders(hashes[places], 1)[:, 0, :size]
        rows.append(owners)
        found.append(np.take_along_axis(places, order, axis=1))
    together, positions = np.concatenate(rows), np.concatenate(found)
    order = np.argsort(together)
    return together[order], positions[order]


def _random_orders(hashes: Array, count: int) -> Array:
    """Random orders of the texts of each row, seeded by the texts: rows x orders x texts."""
    seeds = _mixed(np.add.reduce(_mixed(hashes.astype(np.uint64)), axis=1))
    steps = np.arange(count, dtype=np.uint64)[:, None] * np.uint64(1 << 32) + np.arange(
        hashes.shape[1], dtype=np.uint64
    )
    order: Array = np.argsort(_mixed(seeds[:, None, None] ^ _mixed(steps)), axis=2)
    return order


def _mixed(values: Array) -> Array:
    """The finaliser of splitmix64 (Steele, Lea & Flood 2014): each bit of the input changes half of the output's."""
    with np.errstate(over="ignore"):
        mixed: Array = values + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    return mixed
