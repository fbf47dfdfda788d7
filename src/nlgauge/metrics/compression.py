"""Compression ratio."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import HigherIs


def _gzip(data: bytes) -> int:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return len(packer.compress(data)) + len(packer.flush())


def _zstd(data: bytes) -> int:
    import zstandard

    return len(zstandard.ZstdCompressor(level=19).compress(data))


_COMPRESSORS: dict[str, Callable[[bytes], int]] = {
    "gzip": _gzip,
    "bz2": lambda data: len(bz2.compress(data, 9)),
    "xz": lambda data: len(lzma.compress(data, preset=6)),
    "zstd": _zstd,
}


@dataclass(frozen=True, kw_only=True)
class Compression(SetMetric):
    """Bytes of a set's texts divided by their bytes after compression: redundant sets compress well.

    Texts are sorted and put one a line first, so that their order does not matter. Small sets are dominated by the
    compressor's overhead: compare sets of like size.
    """

    name: ClassVar[str] = "compression"
    higher_is: ClassVar[HigherIs] = "less diverse"
    paper: ClassVar[str] = "Shaib et al. 2024"

    by: Literal["gzip", "bz2", "xz", "zstd"] = "gzip"

    def per_set(self, batch: Batch) -> Array:
        """Compression ratio of each set."""
        compressed = _COMPRESSORS[self.by]
        texts, offsets = batch.sets.texts.to_list(), batch.sets.offsets
        ratios = np.empty(len(batch))
        for i in range(len(batch)):
            data = "\n".join(sorted(texts[offsets[i] : offsets[i + 1]])).encode("utf-8")
            ratios[i] = len(data) / compressed(data)
        return ratios
