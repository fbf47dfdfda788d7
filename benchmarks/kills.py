"""Kill a run at random moments, let it go on, and compare with the undisturbed one, twenty times over.

python benchmarks/kills.py [--times 20] [--engine local|ray] [--seed 0]

With `ray`, all runs are on one cluster of two cores, which is started for them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.engine.fixtures import write_sets  # noqa: E402 - after the path
from tests.ray_nodes import head_node, shared_variables  # noqa: E402


def start(file: Path, folder: Path, engine: str) -> subprocess.Popen[str]:
    calls = folder.with_name(f"{folder.name}-calls")
    calls.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.engine.fixtures", str(file), str(folder), engine, "2", str(calls)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--times", type=int, default=20)
    asked.add_argument("--engine", choices=["local", "ray"], default="local")
    asked.add_argument("--seed", type=int, default=0)
    options = asked.parse_args()
    if options.engine == "local":
        kill(options.times, "local", options.seed)
        return
    variables = shared_variables()
    os.environ.update(variables)
    with head_node(variables, "--num-cpus=2") as address:
        kill(options.times, address, options.seed)


def kill(times: int, engine: str, seed: int) -> None:
    """Run, kill, run again, compare."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as work:
        file = write_sets(Path(work) / "sets.jsonl", 3000)
        start(file, Path(work) / "warm", engine).communicate()  # kernels are compiled now
        began = time.monotonic()
        expected = start(file, Path(work) / "undisturbed", engine).communicate()[0]
        whole = time.monotonic() - began
        print(f"undisturbed: {whole:.1f} s, {expected[:100]}...", flush=True)
        done = tried = 0
        while done < times:
            tried += 1
            folder = Path(work) / f"run-{tried}"
            moments = [float(moment) * whole for moment in rng.uniform(0.1, 0.9, 2)]
            killed = [moment for moment in moments if kill_after(moment, file, folder, engine)]
            if not killed:
                continue  # it was over before its time
            pieces, shares = (len(list((folder / "pieces").glob(names))) for names in ("[0-9]*", "share-*"))
            found = start(file, folder, engine).communicate()[0]
            done += 1
            after = ", ".join(f"{moment:.1f} s" for moment in killed)
            print(
                f"{done}: killed after {after}, {pieces} pieces and {shares} shares kept; equal: {found == expected}",
                flush=True,
            )
            if found != expected:
                raise SystemExit(1)


def kill_after(seconds: float, file: Path, folder: Path, engine: str) -> bool:
    """Whether a run was killed before it was over."""
    run = start(file, folder, engine)
    try:
        run.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        run.kill()
        run.communicate()
        return True


if __name__ == "__main__":
    main()
