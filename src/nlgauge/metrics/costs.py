"""The numbers of a plan: what a run takes, how sure that is, and what the machine has."""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlgauge.engine.cores import available_cores


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error, which is 0 for what was counted."""

    value: float
    error: float = 0.0

    @property
    def low(self) -> float:
        """The lower end of a 95% interval."""
        return max(0.0, self.value - 1.96 * self.error)

    @property
    def high(self) -> float:
        """The upper end of a 95% interval."""
        return self.value + 1.96 * self.error

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"value": self.value, "low": self.low, "high": self.high if math.isfinite(self.high) else None}


@dataclass(frozen=True)
class Room:
    """What the machine that will run it has."""

    memory_bytes: int
    disk_bytes: int
    cores: int

    @classmethod
    def here(cls) -> Room:
        """This machine: its memory, free space where scratch files go, and cores."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limit = Path("/sys/fs/cgroup/memory.max")
        if limit.is_file() and (found := limit.read_text().strip()).isdigit():
            memory = min(memory, int(found))
        place = os.environ.get("NLGAUGE_SCRATCH") or tempfile.gettempdir()
        return cls(memory, shutil.disk_usage(place).free, available_cores())


@dataclass(frozen=True)
class Plan:
    """What a run will cost. `seconds` has the time by number of workers; `calls` what models have to work out."""

    texts: Estimate
    bytes_on_disk: int
    counted: bool
    sampled_texts: int
    fixed_seconds: float
    seconds_a_text: float
    seconds: dict[int, Estimate]
    memory_bytes: int
    scratch_bytes: int
    calls: dict[str, Estimate]
    words: Estimate
    room: Room
    refusals: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "texts": self.texts.to_dict(),
            "texts_are": "counted" if self.counted else "estimated",
            "bytes": self.bytes_on_disk,
            "sampled_texts": self.sampled_texts,
            "fixed_seconds": self.fixed_seconds,
            "seconds_a_text": self.seconds_a_text,
            "seconds": {str(workers): spent.to_dict() for workers, spent in self.seconds.items()},
            "memory_bytes": self.memory_bytes,
            "scratch_bytes": self.scratch_bytes,
            "model_calls": {name: calls.to_dict() for name, calls in self.calls.items()},
            "words": self.words.to_dict(),
            "room": dataclasses.asdict(self.room),
            "fits": not self.refusals,
            "refusals": list(self.refusals),
            "notes": list(self.notes),
        }


def show_bytes(number: float) -> str:
    """Bytes as people read them."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
