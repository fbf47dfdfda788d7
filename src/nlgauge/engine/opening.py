"""Which workers an engine's name stands for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nlgauge.engine.cores import available_cores
from nlgauge.engine.local import ProcessPool, ThreadPool
from nlgauge.engine.pool import Pool
from nlgauge.engine.scratch import Scratch

LOCAL, RAY = "local", "ray"


def check_engine(engine: str) -> None:
    """Refuse a name that stands for no engine."""
    if engine not in (LOCAL, RAY):
        from nlgauge.engine.ray_cluster import split_address

        split_address(engine)


@contextmanager
def open_pool(engine: str, workers: int, scratch: Scratch, *, isolated: bool = False) -> Iterator[Pool[Any]]:
    """Workers of `local` (this machine), `ray` (a cluster that runs, or a new one) or a cluster's address.

    0 workers are as many as there are cores. One local worker is this process itself, unless its death must not be the
    end of the run (`isolated`).
    """
    if engine == LOCAL:
        count = workers or available_cores()
        with ThreadPool() if count == 1 and not isolated else ProcessPool(count, scratch) as pool:
            yield pool
        return
    from nlgauge.engine.ray_cluster import cluster

    with cluster("" if engine == RAY else engine, workers) as ray:
        from nlgauge.engine.ray_pool import RayPool

        with RayPool(ray, workers, scratch) as pool:
            yield pool
