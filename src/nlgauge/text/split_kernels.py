"""Compiled loops that cut UTF-8 bytes into tokens and number them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.compiled import kernel


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
    starts = np.empty((len(data) + texts) // 2 + 1, np.int64)
    ends = np.empty((len(data) + texts) // 2 + 1, np.int64)
    count = 0
    for t in range(texts):
        i, end = text_offsets[t], text_offsets[t + 1]
        start = i
        while i < end:
            byte = data[i]
            if byte > 0x20 and (byte < 0xC2 or not any_space):
                i += 1
                continue
            gap = _space_length(data, i, end) if any_space else (1 if byte == 0x20 else 0)
            if gap == 0:
                i += 1
                continue
            if i > start:
                starts[count], ends[count] = start, i
                count += 1
            i += gap
            start = i
        if end > start:
            starts[count], ends[count] = start, end
            count += 1
        token_offsets[t + 1] = count
    return starts[:count].copy(), ends[:count].copy(), token_offsets


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
def _mix(h: Any) -> Any:
    """The finaliser of splitmix64: every input bit moves every output bit."""
    h ^= h >> np.uint64(30)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def _key(data: Array, start: int, end: int) -> Any:
    """A token of up to 7 bytes as itself (bytes, then length); a longer one as a hash that still needs comparing."""
    if end - start < 8:
        key = np.uint64(end - start)
        for i in range(start, end):
            key = (key << np.uint64(8)) | np.uint64(data[i])
        return key
    key = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        key = (key ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    return key | np.uint64(0xFF << 56)


@kernel
def number_tokens(data: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """An id for each token, equal exactly for equal bytes, and the position of the first token of each id."""
    count = len(starts)
    ids = np.empty(count, np.int32)
    first = np.empty(2048, np.int64)
    table_keys = np.empty(4096, np.uint64)
    table_ids = np.full(4096, -1, np.int32)
    mask = np.uint64(4095)
    one = np.uint64(1)
    known = 0
    for t in range(count):
        start, end = starts[t], ends[t]
        key = _key(data, start, end)
        slot = _mix(key) & mask
        found = table_ids[slot]
        while found >= 0:
            if table_keys[slot] == key:
                if end - start < 8:
                    break
                other = starts[first[found]]
                same = ends[first[found]] - other == end - start
                i = 0
                while same and i < end - start:
                    same = data[start + i] == data[other + i]
                    i += 1
                if same:
                    break
            slot = (slot + one) & mask
            found = table_ids[slot]
        if found < 0:
            if 2 * known == len(table_ids):
                old_keys, old_ids = table_keys, table_ids
                table_keys = np.empty(4 * len(old_ids), np.uint64)
                table_ids = np.full(4 * len(old_ids), -1, np.int32)
                first = np.concatenate((first, np.empty(3 * len(first), np.int64)))
                mask = np.uint64(len(table_ids) - 1)
                for k in range(len(old_ids)):
                    if old_ids[k] >= 0:
                        slot = _mix(old_keys[k]) & mask
                        while table_ids[slot] >= 0:
                            slot = (slot + one) & mask
                        table_keys[slot], table_ids[slot] = old_keys[k], old_ids[k]
                slot = _mix(key) & mask
                while table_ids[slot] >= 0:
                    slot = (slot + one) & mask
            first[known] = t
            table_keys[slot], table_ids[slot] = key, known
            found = np.int32(known)
            known += 1
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
