"""Opens the worker pool of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nlgauge.engine.cores import available_cores
from nlgauge.engine.local import ProcessPool, ThreadPool
from nlgauge.engine.pool import Pool
from nlgauge.engine.running import LOCAL, RAY
from nlgauge.engine.scratch import Scratch


@contextmanager
def open_pool(engine: str, workers: int, scratch: Scratch, *, isolated: bool = False) -> Iterator[Pool[Any]]:
    """Workers of `local` (this machine), `ray` (a running cluster, or a new one) or a cluster's address.

    0 workers: one per core. A single local worker is this process, unless its death must not end the run (`isolated`).
    """
    if engine == LOCAL:
        count = workers or available_cores()
        with ThreadPool() if count == 1 and not isolated else ProcessPool(count, scratch) as pool:
            yield pool
        return
    from nlgauge.engine.ray.cluster import cluster

    with cluster("" if engine == RAY else engine, workers) as ray:
        from nlgauge.engine.ray.pool import RayPool

        with RayPool(ray, workers, scratch) as pool:
            yield pool
