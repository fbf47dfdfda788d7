"""Compiled loops over the n-grams of a whole corpus: fingerprints in partitions, exact counts, and a sketch.

An n-gram's fingerprint is a 64-bit key plus 12 further bits that choose its partition: two different n-grams are taken
for one with probability 2^-76, that is, one miscount in 20,000 runs over three billion different n-grams.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.compiled import kernel
from nlgauge.text.split_kernels import _mix

PARTITION_BITS = 12
PARTITIONS = 1 << PARTITION_BITS


@kernel
def extend(keys: Array, lanes_b: Array, ids: Array, texts: Array, lanes: Array, n: int) -> None:
    """Turn fingerprints of (n-1)-grams into fingerprints of n-grams, in place."""
    for t in range(len(texts) - 1):
        for i in range(texts[t], texts[t + 1] - n + 1):
            token = ids[i + n - 1]
            if n == 1:
                keys[i], lanes_b[i] = lanes[token, 0], lanes[token, 1]
            else:
                keys[i] = _mix(keys[i] * np.uint64(0x9E3779B97F4A7C15) + lanes[token, 0])
                lanes_b[i] = _mix((lanes_b[i] ^ (lanes_b[i] >> np.uint64(29))) + lanes[token, 1])


@kernel
def partition(keys: Array, lanes_b: Array, groups: Array, texts: Array, n: int) -> tuple[Array, Array, Array]:
    """Keys (and the group of each text's, when groups are given) ordered by partition, with the partitions' offsets."""
    shift = np.uint64(64 - 12)
    offsets = np.zeros(4096 + 1, np.int64)
    for t in range(len(texts) - 1):
        for i in range(texts[t], texts[t + 1] - n + 1):
            offsets[int(lanes_b[i] >> shift) + 1] += 1
    for p in range(4096):
        offsets[p + 1] += offsets[p]
    place = offsets[:-1].copy()
    out = np.empty(offsets[-1], np.uint64)
    marked = len(groups) > 0
    marks = np.empty(offsets[-1] if marked else 0, groups.dtype)
    for t in range(len(texts) - 1):
        for i in range(texts[t], texts[t + 1] - n + 1):
            p = int(lanes_b[i] >> shift)
            out[place[p]] = keys[i]
            if marked:
                marks[place[p]] = groups[t]
            place[p] += 1
    return out, marks, offsets


@kernel
def _table_size(held: int) -> int:
    """Slots of a hash table for so many keys, at most half of them in use."""
    size = 64
    while size < 2 * held:
        size *= 2
    return size


@kernel
def _is_new(table: Array, size: int, key: Any) -> Any:
    """Put a key into the first `size` slots of a table, where 0 means free; whether it was not there.

    Key 0 has the slot behind them.
    """
    if key == 0:
        slot, held = np.uint64(size), np.uint64(1)
    else:
        mask = np.uint64(size - 1)
        slot, held = key & mask, key
        while table[slot] != 0 and table[slot] != key:
            slot = (slot + np.uint64(1)) & mask
    is_new = table[slot] == 0
    table[slot] = held
    return is_new


@kernel
def count_different(keys: Array, starts: Array, ends: Array) -> int:
    """Different keys over all partitions; run r holds partition p in `keys[starts[r, p]:ends[r, p]]`."""
    table = np.empty(0, np.uint64)
    different = 0
    for p in range(starts.shape[1]):
        held = 0
        for r in range(starts.shape[0]):
            held += ends[r, p] - starts[r, p]
        size = _table_size(held)
        if size >= len(table):
            table = np.empty(size + 1, np.uint64)
        table[: size + 1] = 0
        for r in range(starts.shape[0]):
            for i in range(starts[r, p], ends[r, p]):
                different += _is_new(table, size, keys[i])
    return different


@kernel
def join_runs(keys: Array, marks: Array, starts: Array, ends: Array) -> tuple[Array, Array, Array]:
    """All runs as one, partition by partition."""
    marked = len(marks) > 0
    out = np.empty(len(keys), np.uint64)
    out_marks = np.empty(len(marks), marks.dtype)
    offsets = np.zeros(starts.shape[1] + 1, np.int64)
    place = 0
    for p in range(starts.shape[1]):
        for r in range(starts.shape[0]):
            for i in range(starts[r, p], ends[r, p]):
                out[place] = keys[i]
                if marked:
                    out_marks[place] = marks[i]
                place += 1
        offsets[p + 1] = place
    return out, out_marks, offsets


@kernel
def drop_repeats(keys: Array, offsets: Array) -> tuple[Array, Array]:
    """Each key once per partition; overwrites `keys`."""
    kept_offsets = np.zeros(len(offsets), np.int64)
    table = np.empty(0, np.uint64)
    kept = 0
    for p in range(len(offsets) - 1):
        size = _table_size(offsets[p + 1] - offsets[p])
        if size >= len(table):
            table = np.empty(size + 1, np.uint64)
        table[: size + 1] = 0
        for i in range(offsets[p], offsets[p + 1]):
            if _is_new(table, size, keys[i]):
                keys[kept] = keys[i]
                kept += 1
        kept_offsets[p + 1] = kept
    return keys[:kept].copy(), kept_offsets


@kernel
def count_everything(keys: Array, marks: Array, starts: Array, ends: Array, groups: int) -> tuple[int, Array, float]:
    """Different keys, those seen in one group only (by group), and the sum of count * log2(count)."""
    different = 0
    only = np.zeros(groups, np.int64)
    weighted = 0.0
    for p in range(starts.shape[1]):
        held = 0
        for r in range(starts.shape[0]):
            held += ends[r, p] - starts[r, p]
        if held == 0:
            continue
        here = np.empty(held, np.uint64)
        mark = np.empty(held if groups else 0, np.uint8)
        k = 0
        for r in range(starts.shape[0]):
            for i in range(starts[r, p], ends[r, p]):
                here[k] = keys[i]
                if groups:
                    mark[k] = marks[i]
                k += 1
        order = np.argsort(here)
        i = 0
        while i < held:
            j = i + 1
            alone = True
            while j < held and here[order[j]] == here[order[i]]:
                if groups and mark[order[j]] != mark[order[i]]:
                    alone = False
                j += 1
            different += 1
            if groups and alone:
                only[mark[order[i]]] += 1
            weighted += (j - i) * np.log2(np.float64(j - i))
            i = j
    return different, only, weighted


@kernel
def fill_registers(registers: Array, keys: Array, lanes_b: Array, texts: Array, n: int, precision: int) -> None:
    """Add n-grams to a HyperLogLog sketch of 2^precision registers."""
    shift = np.uint64(64 - precision)
    for t in range(len(texts) - 1):
        for i in range(texts[t], texts[t + 1] - n + 1):
            slot = int(lanes_b[i] >> shift)
            key = keys[i]
            zeros = 1
            while zeros <= 64 and key & np.uint64(0x8000000000000000) == 0:
                key <<= np.uint64(1)
                zeros += 1
            zeros = min(zeros, 65)
            if zeros > registers[slot]:
                registers[slot] = zeros
