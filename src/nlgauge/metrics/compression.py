"""Compression ratio."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from nlgauge.arrays import Array
from nlgauge.metrics.base import SetMetric, Shares, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import HigherIs, Interval, Score
from nlgauge.text.sorted_texts import SortedTexts, batches

_MOST_BLOCKS = 1024


class _Packer(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def _zstd(size: int) -> _Packer:
    import zstandard

    packer: _Packer = zstandard.ZstdCompressor(level=19).compressobj(size=size)
    return packer


_PACKERS: dict[str, Callable[[int], _Packer]] = {
    "gzip": lambda _: zlib.compressobj(9, zlib.DEFLATED, 31),
    "bz2": lambda _: bz2.BZ2Compressor(9),
    "xz": lambda _: lzma.LZMACompressor(preset=6),
    "zstd": _zstd,
}


@dataclass(frozen=True)
class Packed:
    """How many texts a corpus has, and the bytes of all its blocks before and after compression."""

    texts: int
    before: int
    after: int


@dataclass(frozen=True, kw_only=True)
class Compression(SetMetric):
    """Bytes of a set's texts divided by their bytes after compression: redundant sets compress well.

    Texts are sorted and put one a line first, so that their order does not matter. Small sets are dominated by the
    compressor's overhead: compare sets of like size.

    `over=corpus` takes the texts of all sets together, which may be more than memory holds. With `blocks`, they are
    dealt into so many parts by a hash of what they say, each is compressed on its own, by whichever worker is free, and
    the bytes are added: quicker, and a little less redundancy is found. A corpus has one value, and no interval:
    leaving out texts would mean compressing all others again.
    """

    name: ClassVar[str] = "compression"
    higher_is: ClassVar[HigherIs] = "less diverse"
    paper: ClassVar[str] = "Shaib et al. 2024"

    by: Literal["gzip", "bz2", "xz", "zstd"] = "gzip"
    over: Literal["set", "corpus"] = "set"
    blocks: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(
            not 1 <= self.blocks <= _MOST_BLOCKS,
            f"compression:blocks={self.blocks}; expected a number of blocks from 1 to {_MOST_BLOCKS}",
        )
        refuse(
            self.blocks > 1 and self.over == "set",
            f"compression: blocks={self.blocks} goes with over=corpus; a set is always compressed whole",
        )

    @property
    def cacheable(self) -> bool:
        """Values of sets are small: keep them; texts of a corpus are not."""
        return self.over == "set"

    def relevant_options(self) -> Mapping[str, Any]:
        """`over` and `blocks` only where they pool sets."""
        shown = super().relevant_options()
        return shown if self.over == "corpus" else {"by": shown["by"]}

    def per_set(self, batch: Batch) -> Array:
        """Compression ratio of each set."""
        texts, offsets = batch.sets.texts.to_list(), batch.sets.offsets
        ratios = np.empty(len(batch))
        for i in range(len(batch)):
            data = "\n".join(sorted(texts[offsets[i] : offsets[i + 1]])).encode("utf-8")
            ratios[i] = len(data) / self._compressed(len(data), iter([data]))
        return ratios

    def collect(self, batch: Batch) -> Any:
        """Values of sets, or the corpus' texts."""
        return super().collect(batch) if self.over == "set" else SortedTexts.of(batch.sets.texts, self.blocks)

    def shares(self, stats: Any) -> Shares | None:
        """The blocks of a corpus that are to be compressed."""
        if not isinstance(stats, SortedTexts):
            return None
        return Shares(partial(self._sizes, stats), self.blocks, partial(_packed, len(stats)))

    def finish(self, stats: Any, interval: Interval | None = None) -> Score:
        """Mean over sets, or the ratio of the corpus."""
        if self.over == "set":
            return super().finish(stats, interval)
        packed: Packed = self.completed(stats)
        return Score(
            name=self.title,
            label=self.label,
            value=packed.before / packed.after,
            n=packed.texts,
            signature=self.signature,
            higher_is=self.higher_is,
        )

    def _sizes(self, stats: SortedTexts, number: int) -> tuple[int, int]:
        """Bytes of a block before and after compression; a block without texts has none."""
        texts, size = stats.size(number)
        if not texts:
            return 0, 0
        size += texts - 1
        return size, self._compressed(size, _lines(stats.block(number)))

    def _compressed(self, size: int, pieces: Iterator[bytes]) -> int:
        """Bytes that `size` bytes take when compressed; how they are cut into pieces does not matter."""
        packer = _PACKERS[self.by](size)
        return sum(len(packer.compress(data)) for data in pieces) + len(packer.flush())


def _packed(texts: int, sizes: Sequence[tuple[int, int]]) -> Packed:
    return Packed(texts, sum(before for before, _ in sizes), sum(after for _, after in sizes))


def _lines(texts: Iterator[bytes]) -> Iterator[bytes]:
    """Texts one a line, in large pieces, without an end of line after the last."""
    between = b""
    for part in batches(texts):
        yield between + b"\n".join(part)
        between = b"\n"
