"""The one place where Numba is imported, so that everything else stays quick to load and fully typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile on first use, keep the machine code on disk, and run without the interpreter lock."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
