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

from nlgauge.configured import check_that
from nlgauge.engine.cores import available_cores

_GIGABYTE = 10**9


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
    def here(cls, *, memory_gb: float = 0.0, disk_gb: float = 0.0) -> Room:
        """This machine: its memory, free space where scratch files go, and cores; or another's memory and space."""
        check_that(memory_gb >= 0, "memory_gb", memory_gb, "0 (this machine's) or more")
        check_that(disk_gb >= 0, "disk_gb", disk_gb, "0 (this machine's) or more")
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limit = Path("/sys/fs/cgroup/memory.max")
        if limit.is_file() and (found := limit.read_text().strip()).isdigit():
            memory = min(memory, int(found))
        place = os.environ.get("NLGAUGE_SCRATCH") or tempfile.gettempdir()
        disk = shutil.disk_usage(place).free
        return cls(int(memory_gb * _GIGABYTE) or memory, int(disk_gb * _GIGABYTE) or disk, available_cores())


@dataclass(frozen=True)
class Plan:
    """What a run will cost. `seconds` has the time by number of workers; `calls` what models have to work out."""

    texts: Estimate
    bytes_on_disk: int
    counted: bool
    sampled_texts: int
    fixed_seconds: float
    seconds_per_text: float
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
            "seconds_per_text": self.seconds_per_text,
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

    def rows(self, workers: int) -> list[list[str]]:
        """What, how much and in which range, for readers; `workers` is the number that was asked for."""
        how = "counted" if self.counted else f"estimated from {self.sampled_texts:,}"
        rows = [["texts", f"{self.texts.value:,.0f}", "counted" if self.counted else f"{_span(self.texts)}; {how}"]]
        rows.append(["bytes", show_bytes(self.bytes_on_disk), "on disk"])
        for number, spent in self.seconds.items():
            noun = "1 worker" if number == 1 else f"{number} workers"
            mark = ", as asked" if number == workers else ""
            rows.append([f"time, {noun}", show_seconds(spent.value), f"{_seconds_span(spent)}{mark}"])
        rows.append(["memory", show_bytes(self.memory_bytes), f"of {show_bytes(self.room.memory_bytes)}"])
        rows.append(["scratch disk", show_bytes(self.scratch_bytes), f"of {show_bytes(self.room.disk_bytes)} free"])
        for name, calls in self.calls.items():
            rows.append([f"model: {name}", f"{calls.value:,.0f}", "at most; repeats are worked out once"])
        if self.calls:
            rows.append(["model: words", f"{self.words.value:,.0f}", "models may make more tokens of them"])
        return rows


def _span(number: Estimate) -> str:
    return f"{number.low:,.0f} to {number.high:,.0f}"


def _seconds_span(number: Estimate) -> str:
    return f"{show_seconds(number.low)} to {show_seconds(number.high)}"


def show_seconds(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def show_bytes(number: float) -> str:
    """Bytes as people read them."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
