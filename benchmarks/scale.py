"""How cost grows with the size of a corpus, and what a second worker and Ray bring.

Texts are made on the fly, one shard of a million at a time, and removed at the end.

    python benchmarks/scale.py growth --millions 1 10 50
    python benchmarks/scale.py workers --millions 10 --sentences 6000

`growth` scores ever larger corpora on one machine, prints memory over time, and exits with 1 unless the time from the
smallest to the largest grows by at most 15% more than the number of texts. `workers` compares one and two Ray workers,
and Ray with the local engine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

SHARD = 1_000_000
WORDS, VOCABULARY = 8, 50_000
LINEAR = 1.15
CLUSTER_SECONDS = 15
COUNTS = ("distinct:over=corpus,n=1-2", "ead", "entropy:over=corpus")
COMMAND = (sys.executable, "-m", "nlgauge.cli.main", "score")


@dataclass(frozen=True)
class Measured:
    """One run: wall-clock seconds, the largest memory of all its processes in bytes, and what it printed."""

    seconds: float
    memory: int
    printed: str


def write_shards(folder: Path, texts: int, seed: int = 1) -> Path:
    """Short texts of words drawn from a skewed vocabulary, a million a file; the pattern that stands for all files."""
    folder.mkdir(parents=True, exist_ok=True)
    words = np.array([f"w{i:x}" for i in range(VOCABULARY)])
    weights = np.cumsum(1 / (np.arange(VOCABULARY) + 10))
    for number, start in enumerate(range(0, texts, SHARD)):
        place = folder / f"shard-{number:04}.txt"
        if place.exists():
            continue
        count = min(SHARD, texts - start)
        rng = np.random.default_rng((seed, number))
        lengths = rng.integers(3, 2 * WORDS - 3, count)
        drawn = words[np.searchsorted(weights, rng.random(int(lengths.sum())) * weights[-1])].tolist()
        ends = np.cumsum(lengths).tolist()
        lines = (" ".join(drawn[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True))
        beside = place.with_suffix(".part")
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
        beside.rename(place)
    return folder / "shard-*.txt"


def run(
    arguments: Sequence[str], *, place: Path, every: float = 0.0, variables: Mapping[str, str] | None = None
) -> Measured:
    """Run the command in a process of its own and watch its memory; with `every`, print it so often."""
    environment = {
        **os.environ,
        "NLGAUGE_CACHE": str(place / "cache"),
        "NLGAUGE_SCRATCH": str(place),
        **(variables or {}),
    }
    began = time.monotonic()
    largest, shown = 0, began
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True, env=environment) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            memory = _memory(watched)
            largest = max(largest, memory)
            if every and time.monotonic() - shown >= every:
                shown = time.monotonic()
                print(f"    {shown - began:6.0f} s  {memory / 1e6:8,.0f} MB", flush=True)
            time.sleep(0.2)
        printed = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: exit code {process.returncode}")
    return Measured(time.monotonic() - began, largest, printed)


def _memory(process: psutil.Process) -> int:
    """Memory of a process and its children that is theirs alone."""
    total = 0
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for one in family:
        try:
            total += one.memory_info().rss - one.memory_info().shared
        except psutil.NoSuchProcess:
            continue
    return total


def _metrics(names: Sequence[str]) -> list[str]:
    return [part for name in names for part in ("-m", name)]


def growth(millions: Sequence[int], workers: int, folder: Path) -> bool:
    """Score corpora of so many million texts; whether time is linear and memory flat."""
    seconds, memory = {}, {}
    for size in millions:
        pattern = write_shards(folder / f"{size}m", size * SHARD)
        bytes_read = sum(file.stat().st_size for file in pattern.parent.iterdir())
        print(
            f"{size} million texts, {bytes_read / 1e6:,.0f} MB, {workers} workers; memory of all processes:", flush=True
        )
        options = ["--engine", "local", "--workers", str(workers), "--run", str(folder / "run"), "--no-progress"]
        found = run([str(pattern), *_metrics(COUNTS), *options, "-f", "json"], every=10, place=folder)
        values = ", ".join(f"{one['label']} {one['value']:.6f}" for one in json.loads(found.printed)["scores"])
        used = sum(file.stat().st_size for file in (folder / "run").rglob("*") if file.is_file())
        seconds[size], memory[size] = found.seconds, found.memory
        print(
            f"  {found.seconds:.1f} s, {found.seconds / size:.2f} s a million, at most {found.memory / 1e6:,.0f} MB of "
            f"memory, {used / 1e6:,.0f} MB of pieces: {values}",
            flush=True,
        )
        shutil.rmtree(folder / "run")
        shutil.rmtree(pattern.parent)
    if len(seconds) < 2:
        return True
    sizes, taken = np.array(list(seconds)), np.array(list(seconds.values()))
    each, start = np.polyfit(sizes, taken, 1, w=1 / taken)
    off = np.abs(taken - start - each * sizes) / taken
    first, last = min(seconds), max(seconds)
    ratio = (seconds[last] / last) / (seconds[first] / first)
    print(f"fit: {start:.1f} s and {each:.2f} s a million texts; farthest from it by {off.max():.0%}")
    print(f"time a text, {last} million to {first} million: {ratio:.2f} (at most {LINEAR})")
    print(f"memory, {last} million to {first} million: {memory[last] / memory[first]:.2f}")
    return bool(ratio <= LINEAR and off.max() <= LINEAR - 1)


def workers(millions: int, sentences: int, folder: Path) -> bool:
    """One Ray worker against two, for counting and for embeddings; and Ray against the local engine."""
    pattern = str(write_shards(folder / "texts", millions * SHARD))
    few = write_shards(folder / "few", sentences, seed=2)
    counting = [pattern, *_metrics(("distinct:over=corpus,n=1-2",))]
    embedding = [str(few), "--set-size", "2", *_metrics(("sent-sim",)), "--part-mb", "0.02"]
    fine = True
    for name, work in (("counting", counting), ("embeddings", embedding)):
        taken = {}
        for count in (1, 2):
            taken[count] = _with_cluster(work, count, folder)
        ratio = taken[1] / taken[2]
        fine &= ratio >= 1.6
        print(
            f"{name}: 1 Ray worker {taken[1]:.1f} s, 2 workers {taken[2]:.1f} s: {ratio:.2f}x (at least 1.6)",
            flush=True,
        )
        if name == "counting":
            local = run([*work, "--workers", "2", "--run", str(folder / "run"), "--no-progress"], place=folder).seconds
            shutil.rmtree(folder / "run")
            over = taken[2] / local - 1
            fine &= over < 0.25
            print(f"{name}: local with 2 {local:.1f} s; Ray's overhead {over:+.0%} (below 25%)", flush=True)
    return fine


def _with_cluster(work: Sequence[str], count: int, folder: Path) -> float:
    """Seconds on a running cluster, its start aside; nothing is remembered from before."""
    with _cluster(count) as (address, variables), tempfile.TemporaryDirectory(dir=folder) as cache:
        options = ["--engine", address, "--workers", str(count), "--run", str(folder / "run"), "--no-progress"]
        found = run([*work, *options], place=folder, variables={**variables, "NLGAUGE_CACHE": cache})
    shutil.rmtree(folder / "run")
    return found.seconds


@contextmanager
def _cluster(cores: int) -> Iterator[tuple[str, dict[str, str]]]:
    """A cluster of so many cores on the loopback, with a token of its own: its address, and the token's variables."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex, "RAY_USAGE_STATS_ENABLED": "0"}
    flags = ["--head", "--block", f"--port={port}", f"--num-cpus={cores}", "--include-dashboard=false"]
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", *flags],
            env={**os.environ, **variables, "RAY_TMPDIR": folder}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            time.sleep(CLUSTER_SECONDS)
            yield f"127.0.0.1:{port}", variables
        finally:
            head.terminate()
            try:
                head.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(head.pid, signal.SIGKILL)
                head.wait()


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["growth", "workers"])
    parser.add_argument("--millions", type=int, nargs="+", default=[])
    parser.add_argument("--sentences", type=int, default=6000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="where texts and pieces go")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.what == "growth":
            fine = growth(options.millions or [1, 10, 50], options.workers, Path(folder))
        else:
            fine = workers((options.millions or [10])[0], options.sentences, Path(folder))
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
