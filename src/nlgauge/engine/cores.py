"""Cores of this machine, and how workers share them."""

from __future__ import annotations

import os

_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "NLGAUGE_THREADS",
)


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_limits(workers: int, cores: int = 0) -> dict[str, str]:
    """Environment variables that limit the threads of each worker; variables that the user has set stay."""
    share = max(1, (cores or available_cores()) // workers)
    return {name: str(share) for name in _LIMITS if os.environ.get(name, "0") == "0"}
