"""How work runs: results do not depend on any of these options, but for rows that `on_error="skip"` leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from nlgauge.configured import Options, check_that, option

LOCAL, RAY = "local", "ray"
_LARGEST_MB = 4096
_MB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Progress(Options):
    """Whether progress is shown."""

    heading: ClassVar[str] = "Running"

    progress: bool = option(True, "Progress on standard error.")


@dataclass(frozen=True, kw_only=True)
class Workers(Progress):
    """Backend, workers, and the folder that keeps finished parts.

    With `run`, finished parts are kept in that folder, and the same call continues from them after any interruption, on
    either backend.
    """

    heading: ClassVar[str] = "Running"

    engine: str = option(
        LOCAL,
        "Backend: local (this machine), ray (a running cluster, or a new one for this run), ray://HOST:PORT or "
        "HOST:PORT (a cluster elsewhere).",
        metavar="ENGINE",
    )
    workers: int = option(0, "Worker processes; 0 decides by size, or takes all cores.", metavar="N")
    run: Path | None = option(
        None, "Keep finished parts here: the same command continues from them after an interruption.", metavar="FOLDER"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.run, str):
            object.__setattr__(self, "run", Path(self.run))
        check_that(self.workers >= 0, "workers", self.workers, "0 (automatic) or more")
        check_engine(self.engine)


@dataclass(frozen=True, kw_only=True)
class Running(Workers):
    """Also what becomes of bad rows, the sizes of parts and chunks, memory and the cache.

    One process already keeps all cores of a small machine busy with threads; `workers=0` uses several for large files
    on larger ones. N-grams of a corpus beyond `memory_mb` go to disk.
    """

    heading: ClassVar[str] = "Running"

    on_error: Literal["stop", "skip"] = option(
        "stop", "A row that cannot be read or that kills a worker: stop and name it, or skip it."
    )
    part_mb: float = option(0.0, "Size of one part; 0: at most 64 MB, less where models work.", metavar="MB")
    chunk_mb: float = option(2.0, "How much of a file to hold at a time.", metavar="MB")
    memory_mb: float = option(1024.0, "Memory for n-grams of a corpus; more goes to disk.", metavar="MB")
    cache: bool = option(True, "Read and write the cache.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(0 < self.chunk_mb <= _LARGEST_MB, "chunk_mb", self.chunk_mb, f"above 0, at most {_LARGEST_MB}")
        check_that(0 <= self.part_mb <= _LARGEST_MB, "part_mb", self.part_mb, f"from 0 to {_LARGEST_MB}")
        check_that(self.memory_mb > 0, "memory_mb", self.memory_mb, "a positive size")

    @property
    def chunk_bytes(self) -> int:
        """The size of a chunk."""
        return max(1, int(self.chunk_mb * _MB))

    @property
    def part_bytes(self) -> int:
        """The size of a part; 0 leaves it to the metrics."""
        return max(1, int(self.part_mb * _MB)) if self.part_mb else 0

    @property
    def memory_bytes(self) -> int:
        """The size of what may stay in memory."""
        return max(1, int(self.memory_mb * _MB))

    @property
    def by_parts(self) -> bool:
        """Whether workers read parts of the input on their own, rather than being sent what this process reads."""
        return self.run is not None or self.engine != LOCAL or self.on_error == "skip"


def check_engine(engine: str) -> None:
    """Refuse a name that stands for no backend."""
    if engine not in (LOCAL, RAY):
        from nlgauge.engine.ray.cluster import split_address

        split_address(engine)
