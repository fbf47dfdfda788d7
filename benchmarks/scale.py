"""How cost grows with the size of a corpus, and what a second worker and Ray bring.

Texts are made on the fly, one shard of a million at a time, and removed at the end.

    python benchmarks/scale.py growth --millions 1 10 50
    python benchmarks/scale.py workers --millions 10 --sentences 12000
    python benchmarks/scale.py shards --files 1000

`growth` scores ever larger corpora on one machine, prints memory over time, and exits with 1 unless the time from the
smallest to the largest grows by at most 15% more than the number of texts, and is within 15% of a line. `workers`
compares one and two Ray workers, and Ray with the local engine. `shards` scores a million texts in one file and in
many, and exits with 1 when many take more than twice as long.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.ray_nodes import head_node, shared_variables  # noqa: E402 - after the path

SHARD = 1_000_000
WORDS, VOCABULARY = 8, 50_000
LINEAR = 1.15
CLUSTER_SECONDS = 10
WORK = ["counting", "embeddings"]
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
    warm = write_shards(folder / "warm", 1000)
    _afresh([str(warm), *_metrics(COUNTS)], ["--workers", str(workers)], folder, {})  # kernels are compiled now
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


def workers(chosen: Sequence[str], millions: int, sentences: int, times: int, folder: Path) -> bool:
    """One Ray worker against two, for counting and for embeddings; and Ray against the local engine.

    Medians of several rounds, in each of which all are run one after the other.
    """
    fine = True
    for name in chosen:
        if name == "counting":
            work = [str(write_shards(folder / "texts", millions * SHARD)), *_metrics(("distinct:over=corpus",))]
        else:
            few = str(write_shards(folder / "few", sentences, seed=2))
            work = [few, "--set-size", "2", *_metrics(("sent-sim",))]
        rounds = [_round(name, work, folder) for _ in range(times)]
        one, two, local = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
        gain, over = one / two, two / local - 1
        fine &= gain >= 1.6 and over < 0.25
        print(
            f"{name}: medians: 1 Ray worker {one:.1f} s, 2 workers {two:.1f} s: {gain:.2f}x (at least 1.6); local with "
            f"2 {local:.1f} s: Ray's overhead {over:+.0%} (below 25%)",
            flush=True,
        )
    return fine


def _round(name: str, work: Sequence[str], folder: Path) -> tuple[float, float, float]:
    """Seconds with one Ray worker, with two, and with two local ones."""
    one, two = _with_cluster(work, 1, folder), _with_cluster(work, 2, folder)
    local = _afresh(work, ["--workers", "2"], folder, {})
    print(f"  {name}: 1 Ray worker {one:.1f} s, 2 workers {two:.1f} s, local with 2 {local:.1f} s", flush=True)
    return one, two, local


def _with_cluster(work: Sequence[str], count: int, folder: Path) -> float:
    """Seconds on a running cluster, its start aside."""
    variables = shared_variables()
    with head_node(variables, f"--num-cpus={count}") as address:
        time.sleep(CLUSTER_SECONDS)
        return _afresh(work, ["--engine", address, "--workers", str(count)], folder, variables)


def _afresh(work: Sequence[str], options: Sequence[str], folder: Path, variables: Mapping[str, str]) -> float:
    """Seconds of a run that remembers nothing from before."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        kept = ["--run", str(Path(place) / "run"), "--no-progress"]
        return run([*work, *options, *kept], place=Path(place), variables=variables).seconds


def shards(files: int, workers: int, folder: Path) -> bool:
    """The same texts in one file and in many small ones."""
    one = Path(str(write_shards(folder / "one", SHARD)).replace("*", "0000"))
    lines = one.read_text(encoding="utf-8").splitlines(keepends=True)
    many = folder / "many"
    many.mkdir()
    for number in range(files):
        part = lines[SHARD * number // files : SHARD * (number + 1) // files]
        (many / f"{number:06}.txt").write_text("".join(part), encoding="utf-8")
    seconds = []
    for place in (one, one, many):  # kernels are compiled in the first
        work = [str(place), *_metrics(("distinct:over=corpus",))]
        seconds.append(_afresh(work, ["--workers", str(workers)], folder, {}))
    ratio = seconds[2] / seconds[1]
    print(f"a million texts in 1 file {seconds[1]:.1f} s, in {files:,} {seconds[2]:.1f} s: {ratio:.2f}x (at most 2)")
    return ratio <= 2


def main() -> None:
    """Run one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["growth", "workers", "shards"])
    parser.add_argument("--millions", type=int, nargs="+", default=[])
    parser.add_argument("--sentences", type=int, default=12000)
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK, help="what `workers` does")
    parser.add_argument("--times", type=int, default=3, help="rounds of `workers`")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--files", type=int, default=1000, help="how many `shards` there are")
    parser.add_argument("--folder", type=Path, default=None, help="where texts and pieces go")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.what == "growth":
            fine = growth(options.millions or [1, 10, 50], options.workers, Path(folder))
        elif options.what == "shards":
            fine = shards(options.files, options.workers, Path(folder))
        else:
            many = (options.millions or [10])[0]
            fine = workers(options.work, many, options.sentences, options.times, Path(folder))
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
