"""Running a program apart and watching how much memory it and its children hold."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
_INTERVAL = 0.2


class ProgramError(Exception):
    """A program failed; the message says which and why, in one line."""


@dataclass
class Peak:
    """The most resident memory seen, in millions of bytes: of all processes together, and of a single one."""

    together: float = 0.0
    single: float = 0.0

    def watch(self, root: psutil.Process, done: threading.Event) -> None:
        """Sample a process and its descendants until done."""
        while True:
            sizes = _resident_mb(root)
            self.together = max(self.together, sum(sizes))
            self.single = max(self.single, *sizes, 0.0)
            if done.wait(_INTERVAL):
                return


def _resident_mb(root: psutil.Process) -> list[float]:
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    sizes = []
    for process in processes:
        try:
            sizes.append(process.memory_info().rss / 1e6)
        except psutil.NoSuchProcess:
            continue
    return sizes


@dataclass(frozen=True)
class Watched:
    """What a command printed, its wall-clock seconds from start to end, and its memory."""

    output: str
    seconds: float
    peak: Peak


def watch(command: Sequence[str | Path], environment: Mapping[str, str]) -> Watched:
    """Run a command to its end."""
    peak, done = Peak(), threading.Event()
    start = time.perf_counter()
    with subprocess.Popen(
        command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        watcher = threading.Thread(target=peak.watch, args=(psutil.Process(process.pid), done))
        watcher.start()
        try:
            output, errors = process.communicate()
        finally:
            seconds = time.perf_counter() - start
            done.set()
            watcher.join()
    if process.returncode:
        raise ProgramError(f"ended with code {process.returncode}: {last_line(errors)}")
    return Watched(output, seconds, peak)


def run_module(python: Path, module: str, *arguments: str | Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run one of the modules beside this file and return what it reports, with the memory of all its processes."""
    print(f"  {module} {' '.join(map(str, arguments))}", file=sys.stderr, flush=True)
    watched = watch([python, "-m", module, *arguments], environment)
    found: dict[str, Any] = json.loads(watched.output.splitlines()[-1])
    return found | {"tree_mb": watched.peak.together}


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")
