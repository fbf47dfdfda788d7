"""All texts of a corpus in sorted order; the corpus may exceed memory."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.engine.scratch import Scratch, current_scratch
from nlgauge.text.spilling import Kept, Spilling, append, bytes_in_memory, piece
from nlgauge.text.tokens import offsets_of, text_bytes

_READ_BYTES = 64 << 20


@dataclass(frozen=True)
class SortedRun:
    """Some texts as UTF-8, sorted within each block, block after block.

    `texts` and `starts` say where blocks begin, in texts and in bytes; `lengths` are the bytes of each text.
    """

    texts: Array
    starts: Array
    lengths: Kept
    data: Kept

    def block(self, number: int, read_bytes: int) -> Iterator[bytes]:
        """The texts of a block, about `read_bytes` of them in memory at a time."""
        text, last = int(self.texts[number]), int(self.texts[number + 1])
        start = int(self.starts[number])
        mean = max(1, int(self.starts[number + 1] - start) // max(1, last - text))
        step = max(1, read_bytes // (mean + 8))
        while text < last:
            lengths = piece(self.lengths, text, min(text + step, last), np.uint32).tolist()
            size = sum(lengths)
            data = piece(self.data, start, start + size, np.uint8).tobytes()
            for low, high in pairwise(accumulate(lengths, initial=0)):
                yield data[low:high]
            text, start = text + len(lengths), start + size


@dataclass(frozen=True)
class Candidates:
    """Texts of a block with the smallest hashes there, in their order."""

    hashes: pl.Series
    texts: pl.Series


@dataclass(frozen=True)
class SortedTexts(Spilling):
    """Texts distributed over blocks by their hash and sorted within each block; mergeable in any order."""

    blocks: int
    runs: tuple[SortedRun, ...]

    @classmethod
    def of(cls, texts: pl.Series, blocks: int = 1) -> SortedTexts:
        """Take these texts."""
        from nlgauge.text.split_kernels import token_lanes

        if blocks == 1:
            ordered, counts = texts.sort(), np.array([len(texts)])
        else:
            data, offsets = text_bytes(texts)
            block = (token_lanes(data, offsets[:-1], offsets[1:])[:, 0] % np.uint64(blocks)).astype(np.int64)
            ordered = pl.DataFrame({"block": block, "text": texts}).sort("block", "text")["text"]
            counts = np.bincount(block, minlength=blocks)
        data, offsets = text_bytes(ordered)
        places = offsets_of(counts)
        run = SortedRun(places, offsets[places], np.diff(offsets).astype(np.uint32), data)
        return cls(blocks, (run,))._trimmed()

    def __add__(self, other: SortedTexts) -> SortedTexts:
        if self.blocks != other.blocks:
            raise ValueError("cannot add texts in different numbers of blocks")
        return SortedTexts(self.blocks, self.runs + other.runs)._trimmed()

    def __len__(self) -> int:
        return sum(int(run.texts[-1]) for run in self.runs)

    def _bytes_in_memory(self) -> int:
        live = (run for run in self.runs if not isinstance(run.data, Path))
        return sum(bytes_in_memory(run.texts, run.starts, run.lengths, run.data) for run in live)

    def spilled(self) -> SortedTexts:
        """The same with all runs in memory merged into one on disk; unchanged outside a run."""
        scratch = current_scratch()
        live = tuple(run for run in self.runs if not isinstance(run.data, Path))
        if scratch is None or not live:
            return self
        kept = tuple(run for run in self.runs if isinstance(run.data, Path))
        return SortedTexts(self.blocks, (*kept, _merged(SortedTexts(self.blocks, live), scratch)))

    def block(self, number: int) -> Iterator[bytes]:
        """All texts of a block as UTF-8, in sorted order."""
        read_bytes = _READ_BYTES // len(self.runs)
        return heapq.merge(*(run.block(number, read_bytes) for run in self.runs))

    def sample(self, size: int, seed: int) -> list[str]:
        """A uniform sample of `size` texts: those with the smallest hashes.

        The hash is that of the text, the number of the copy and the seed. If it were that of the text alone, all copies
        of a text would be drawn or none, and a sample would hardly ever have the text that a corpus repeats most.
        """
        return draw([self.candidates(number, size, seed) for number in range(self.blocks)], size)

    def candidates(self, number: int, size: int, seed: int) -> Candidates:
        """The texts of a block that may be in the sample."""
        drawn = heapq.nsmallest(size, self._hashed(number, seed))
        texts = pl.Series("text", [text.decode("utf-8") for _, text in drawn], dtype=pl.String)
        return Candidates(pl.Series("hash", [key.hex() for key, _ in drawn], dtype=pl.String), texts)

    def _hashed(self, number: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
        chosen = str(seed).encode()[:16]
        for text, copies in groupby(self.block(number)):
            for copy, _ in enumerate(copies):
                salt = copy.to_bytes(8, "little")
                yield hashlib.blake2b(text, digest_size=16, salt=salt, person=chosen).digest(), text

    def size(self, number: int) -> tuple[int, int]:
        """How many texts a block has, and how many bytes."""
        texts = sum(int(run.texts[number + 1] - run.texts[number]) for run in self.runs)
        return texts, sum(int(run.starts[number + 1] - run.starts[number]) for run in self.runs)


def draw(blocks: Sequence[Candidates], size: int) -> list[str]:
    """The texts with the smallest hashes of all blocks."""
    hashes = pl.concat([block.hashes for block in blocks])
    texts = pl.concat([block.texts for block in blocks])
    return pl.DataFrame([hashes, texts]).sort("hash", "text").head(size)["text"].to_list()


def _merged(texts: SortedTexts, scratch: Scratch) -> SortedRun:
    """All runs as one, in two files."""
    lengths, data = scratch.new_file(), scratch.new_file()
    for number in range(texts.blocks):
        for part in batches(texts.block(number)):
            append(np.array([len(text) for text in part], np.uint32), lengths)
            append(np.frombuffer(b"".join(part), np.uint8), data)
    sizes = np.array([texts.size(number) for number in range(texts.blocks)])
    places = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(sizes, axis=0)])
    return SortedRun(places[:, 0], places[:, 1], lengths, data)


def batches(texts: Iterator[bytes], size: int = 1 << 20) -> Iterator[list[bytes]]:
    """Lists of texts of about `size` bytes each."""
    part: list[bytes] = []
    held = 0
    for text in texts:
        part.append(text)
        held += len(text) + 1
        if held >= size:
            yield part
            part, held = [], 0
    if part:
        yield part
