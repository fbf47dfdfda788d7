"""Compression ratio."""

from __future__ import annotations

import bz2
import lzma
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import DataError
from nlgauge.metrics.base import OVER, Shares, WordingMetric, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import Bounds, Direction, Score
from nlgauge.stats.inference import Inference
from nlgauge.text.sorted_texts import SortedTexts, batches

_MOST_BLOCKS = 1024


class _Packer(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def _zstd(size: int) -> _Packer:
    from nlgauge.zstd import ZstdCompressor

    packer = ZstdCompressor(level=19)
    packer.set_pledged_input_size(size)
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
class Compression(WordingMetric):
    """Bytes of a set's texts divided by their bytes after compression: redundant sets compress well.

    Texts are sorted and put one per line first, so that their order does not matter. Small sets are dominated by the
    compressor's overhead: compare sets of similar size.

    `over=corpus` takes the texts of all sets together, which may be more than memory holds. With `blocks`, they are
    distributed over so many parts by a hash of the text, each part is compressed separately, on any worker, and the
    bytes are added: quicker, and a little less redundancy is found. A corpus has one value, and no interval:
    leaving out texts would mean compressing all others again.
    """

    name: ClassVar[str] = "compression"
    bounds: ClassVar[Bounds] = (0.0, math.inf)
    direction: ClassVar[Direction] = Direction.LESS_DIVERSE
    paper: ClassVar[str] = "Shaib et al. 2024"

    by: Literal["gzip", "bz2", "xz", "zstd"] = option("gzip", "The compressor.")
    over: Literal["set", "corpus"] = option("set", OVER)
    blocks: int = option(1, "With over=corpus: number of parts that are compressed on their own, by several workers.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect("blocks", 1 <= self.blocks <= _MOST_BLOCKS, f"a number of blocks from 1 to {_MOST_BLOCKS}")
        refuse(
            "blocks",
            self.blocks > 1 and self.over == "set",
            f"compression: blocks={self.blocks} requires over=corpus; a set is always compressed whole",
        )

    def relevant_options(self) -> Mapping[str, Any]:
        """`over` and `blocks` only where they pool sets."""
        shown = super().relevant_options()
        return shown if self.over == "corpus" else {key: shown[key] for key in shown if key not in ("over", "blocks")}

    def per_set(self, batch: Batch) -> Array:
        """Compression ratio of each set."""
        blocks = ("\n".join(sorted(texts)).encode("utf-8") for texts in batch.texts_of_sets)
        return np.array([len(data) / self._compressed(len(data), iter([data])) for data in blocks])

    def collect_corpus(self, batch: Batch) -> SortedTexts:
        """The texts."""
        return SortedTexts.of(batch.sets.texts, self.blocks)

    def shares(self, stats: Any) -> Shares | None:
        """The blocks of a corpus that are to be compressed."""
        if not isinstance(stats, SortedTexts):
            return None
        return Shares(
            partial(self._sizes, stats), self.blocks, lambda sizes: Packed(len(stats), *np.sum(sizes, axis=0).tolist())
        )

    def finish_corpus(self, stats: Any, interval: Inference | None = None) -> Score:  # noqa: ARG002 - there is none
        """The ratio of the corpus."""
        packed: Packed = self.completed(stats)
        if not packed.after:
            raise DataError(f"{self.name} has no value: there are no texts to compress")
        return self.make_score(packed.before / packed.after, packed.texts)

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


def _lines(texts: Iterator[bytes]) -> Iterator[bytes]:
    """Texts one per line, in large pieces, without an end of line after the last."""
    between = b""
    for part in batches(texts):
        yield between + b"\n".join(part)
        between = b"\n"
