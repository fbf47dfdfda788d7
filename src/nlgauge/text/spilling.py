"""Arrays that may be kept in the scratch folder of a run: written as a whole, read in pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.scratch import Scratch, current_scratch
from nlgauge.errors import OutputError
from nlgauge.text.tokens import offsets_of

Kept = Array | Path


class Spilling(ABC):
    """Statistics that go to the scratch folder of a run when they become too large for memory."""

    @abstractmethod
    def spilled(self) -> Self:
        """The same with large arrays in files; unchanged outside a run."""

    @abstractmethod
    def _bytes_in_memory(self) -> int: ...

    def __getstate__(self) -> dict[str, Any]:
        """Large arrays are sent between processes as file names."""
        return vars(self.spilled() if self._bytes_in_memory() > 1 << 20 else self)

    def _trimmed(self) -> Self:
        """The same, spilled if too much is in memory."""
        scratch = current_scratch()
        return self.spilled() if scratch and self._bytes_in_memory() > scratch.memory_bytes else self


class Partitioned(Protocol):
    """Fingerprints of n-grams, partition after partition, with a mark for each, or none."""

    def partitions(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Keys, marks and offsets of partitions first..last-1."""


def stack(runs: Sequence[Partitioned], first: int, last: int) -> tuple[Array, Array, Array, Array]:
    """Partitions of several runs side by side: keys, marks, and where each partition of each run begins and ends."""
    keys, marks, offsets = zip(*(run.partitions(first, last) for run in runs), strict=True)
    base = offsets_of([len(some) for some in keys])[:-1, None]
    edges = np.stack(offsets) + base
    return np.concatenate(keys), np.concatenate(marks), edges[:, :-1], edges[:, 1:]


def spill(values: Kept, scratch: Scratch) -> Path:
    """The file that an array was moved to; an array that is already in a file stays there."""
    if isinstance(values, Path):
        return values
    place = scratch.new_file()
    append(values, place)
    return place


def append(values: Array, place: Path) -> None:
    """Write an array at the end of a file, which need not exist."""
    try:
        with place.open("ab") as file:
            file.write(np.ascontiguousarray(values).data)
    except OSError as error:
        raise OutputError(
            f"scratch folder {place.parent}: cannot be written: {error.strerror or error}; set NLGAUGE_SCRATCH to a "
            "folder with more space"
        ) from error


def piece(values: Kept, low: int, high: int, dtype: type[Any]) -> Array:
    """Elements low..high-1."""
    if isinstance(values, Path):
        return np.fromfile(values, dtype, high - low, offset=low * np.dtype(dtype).itemsize)
    return values[low:high]


def bytes_in_memory(*arrays: Kept) -> int:
    """Bytes of those arrays that are not in files."""
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
