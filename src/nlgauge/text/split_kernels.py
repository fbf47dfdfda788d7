"""Compiled loops that cut UTF-8 bytes into tokens and number them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nlgauge.text.compiled import kernel

Array = np.ndarray[Any, Any]


@kernel
def _space_length(data: Array, i: int, end: int) -> int:
    """Bytes of the white space that starts at i, as `str.split` sees it; 0 if there is none."""
    b = data[i]
    if b <= 0x20:
        return 1 if b == 0x20 or 0x09 <= b <= 0x0D or 0x1C <= b <= 0x1F else 0
    if b < 0xC2 or b > 0xE3:
        return 0
    if b == 0xC2:
        return 2 if i + 1 < end and (data[i + 1] == 0x85 or data[i + 1] == 0xA0) else 0
    if i + 2 >= end:
        return 0
    c, d = data[i + 1], data[i + 2]
    if b == 0xE1:
        return 3 if c == 0x9A and d == 0x80 else 0
    if b == 0xE2:
        if c == 0x80:
            return 3 if 0x80 <= d <= 0x8A or d == 0xA8 or d == 0xA9 or d == 0xAF else 0
        return 3 if c == 0x81 and d == 0x9F else 0
    if b == 0xE3:
        return 3 if c == 0x80 and d == 0x80 else 0
    return 0


@kernel
def split_on_spaces(data: Array, text_offsets: Array, any_space: bool) -> tuple[Array, Array, Array]:
    """Token starts, ends and the offsets of texts in them: U+0020 separates, or any Unicode white space."""
    texts = len(text_offsets) - 1
    token_offsets = np.zeros(texts + 1, np.int64)
    starts = np.empty(0, np.int64)
    ends = np.empty(0, np.int64)
    for filling in range(2):
        count = 0
        for t in range(texts):
            i, end = text_offsets[t], text_offsets[t + 1]
            start = i
            while i < end:
                gap = _space_length(data, i, end) if any_space else (1 if data[i] == 0x20 else 0)
                if gap == 0:
                    i += 1
                    continue
                if i > start:
                    if filling:
                        starts[count], ends[count] = start, i
                    count += 1
                i += gap
                start = i
            if end > start:
                if filling:
                    starts[count], ends[count] = start, end
                count += 1
            token_offsets[t + 1] = count
        if not filling:
            starts = np.empty(count, np.int64)
            ends = np.empty(count, np.int64)
    return starts, ends, token_offsets


@kernel
def split_characters(data: Array, text_offsets: Array) -> tuple[Array, Array, Array]:
    """Every Unicode code point as a token."""
    texts = len(text_offsets) - 1
    token_offsets = np.zeros(texts + 1, np.int64)
    starts = np.empty(len(data), np.int64)
    count = 0
    for t in range(texts):
        for i in range(text_offsets[t], text_offsets[t + 1]):
            if data[i] & 0xC0 != 0x80:
                starts[count] = i
                count += 1
        token_offsets[t + 1] = count
    starts = starts[:count].copy()
    ends = np.empty(count, np.int64)
    if count:
        ends[:-1] = starts[1:]
        ends[-1] = len(data)
    return starts, ends, token_offsets


@kernel
def _mix(h: int) -> Any:
    """The finaliser of splitmix64: every input bit moves every output bit."""
    h ^= h >> np.uint64(30)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def number_tokens(data: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """An id for each token, equal exactly for equal bytes, and the position of the first token of each id."""
    count = len(starts)
    ids = np.empty(count, np.int32)
    first = np.empty(1024, np.int64)
    hashes = np.empty(1024, np.uint64)
    table = np.full(4096, -1, np.int32)
    mask = 4095
    known = 0
    for t in range(count):
        start, end = starts[t], ends[t]
        h = np.uint64(0xCBF29CE484222325)
        for i in range(start, end):
            h = (h ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
        h ^= h >> np.uint64(29)
        slot = int(h & np.uint64(0x7FFFFFFF)) & mask
        while True:
            found = table[slot]
            if found < 0:
                break
            if hashes[found] == h:
                other = starts[first[found]]
                if ends[first[found]] - other == end - start:
                    same = True
                    for i in range(end - start):
                        if data[start + i] != data[other + i]:
                            same = False
                            break
                    if same:
                        break
            slot = (slot + 1) & mask
        if found < 0:
            if known == len(first):
                first = np.concatenate((first, np.empty(known, np.int64)))
                hashes = np.concatenate((hashes, np.empty(known, np.uint64)))
            first[known], hashes[known] = t, h
            table[slot] = known
            found = known
            known += 1
            if known * 2 > len(table):
                table = np.full(len(table) * 4, -1, np.int32)
                mask = len(table) - 1
                for k in range(known):
                    slot = int(hashes[k] & np.uint64(0x7FFFFFFF)) & mask
                    while table[slot] >= 0:
                        slot = (slot + 1) & mask
                    table[slot] = k
        ids[t] = found
    return ids, first[:known].copy()


@kernel
def token_lanes(data: Array, starts: Array, ends: Array) -> Array:
    """Two independent 64-bit hashes of each token's bytes: the same on every machine and in every run."""
    lanes = np.empty((len(starts), 2), np.uint64)
    for t in range(len(starts)):
        a = np.uint64(0xCBF29CE484222325)
        b = np.uint64(0x9E3779B97F4A7C15)
        for i in range(starts[t], ends[t]):
            byte = np.uint64(data[i])
            a = (a ^ byte) * np.uint64(0x100000001B3)
            b = (b + byte + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)
            b ^= b >> np.uint64(32)
        lanes[t, 0] = _mix(a)
        lanes[t, 1] = _mix(b)
    return lanes
