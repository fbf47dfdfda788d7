"""Arrays that may be kept in the scratch folder of a run: written as a whole, read in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.scratch import Scratch
from nlgauge.errors import OutputError

Kept = Array | Path


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
