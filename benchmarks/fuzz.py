"""Damaged input for every command: each must end with a result or an error, without a trace, in little time and memory.

python benchmarks/fuzz.py [--cases 100000] [--seed 0] [--failures fuzz-failures]

Cases run in a worker process that is watched: one that takes more than 20 s or 2 GB is ended. A case depends on the
seed and its number only. A failing one is kept in a folder with its files and the command that shows it again. The
scores of undamaged enough files are compared with those of a slow reader made of `json`, `csv` and a dictionary.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import multiprocessing
import os
import random
import re
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from fuzz_mutations import mutated
from fuzz_templates import CHECK, CHECKED, COMMANDS, INTACT, templates

SECONDS, BYTES = 20.0, 2 << 30
_CASES_PER_WORKER = 1_000
_PLACE = re.compile(r"\{([\w.]+)\}")
_CHECKED_WORDS = tuple(CHECK % name for name in CHECKED)
_TRACES = ("Traceback (most recent call last)", "panicked at")


@dataclass(frozen=True)
class Case:
    """A command and its files."""

    words: str
    files: dict[str, bytes]

    @property
    def arguments(self) -> list[str]:
        """The words of the command line."""
        return shlex.split(_PLACE.sub(r"\1", self.words))


@dataclass(frozen=True)
class Ended:
    """How a case ended; `checked` where the slow reader agreed."""

    outcome: str
    failed: bool = False
    checked: bool = False


def made_case(seed: int, number: int, known: dict[str, bytes]) -> Case:
    """The case of this number."""
    draw = random.Random(f"{seed}/{number}")
    command = draw.choices(COMMANDS, [one.weight for one in COMMANDS])[0]
    names = list(dict.fromkeys(_PLACE.findall(command.words)))
    inputs = [name for name in names if name not in INTACT]
    damaged = set(draw.sample(inputs, draw.randint(min(1, len(inputs)), len(inputs))))
    files = {name: mutated(known[name], draw) if name in damaged else known[name] for name in names}
    return Case(command.words, {"plain.jsonl": known["sets.jsonl"], **files})


def run_case(case: Case, folder: Path) -> Ended:
    """Run a command in this process, in a folder of its own."""
    from nlgauge.cli.main import main

    for name, data in case.files.items():
        (folder / name).write_bytes(data)
    before = Path.cwd()
    os.chdir(folder)
    sys.argv = ["nlgauge", *case.arguments]
    code: object = None
    try:
        with _output_to(folder / "stdout", folder / "stderr"):
            try:
                main()
            except SystemExit as ended:
                code = ended.code
            except BaseException as error:  # noqa: BLE001 - what the user would see as a trace
                return Ended(f"trace: {type(error).__name__}", failed=True)
    finally:
        os.chdir(before)
    said = (folder / "stderr").read_text(encoding="utf-8", errors="replace")
    if any(trace in said for trace in _TRACES):
        return Ended("trace: printed", failed=True)
    if code not in (0, 1, 2):
        return Ended(f"exit {code}", failed=True)
    if code == 0 and case.words in _CHECKED_WORDS:
        return _checked(case, json.loads((folder / "stdout").read_text(encoding="utf-8")))
    return Ended({0: "done", 1: "a finding", 2: "an error"}[code])


def _checked(case: Case, document: dict[str, list[dict[str, float]]]) -> Ended:
    name = _PLACE.findall(case.words)[0]
    found = {str(score["system"]): (score["value"], score["n"]) for score in document["scores"]}
    expected = slow_scores(case.files[name], name)
    if len(expected) == 1:
        expected = dict.fromkeys(found, next(iter(expected.values())))
    same = found.keys() == expected.keys() and all(
        found[one][1] == expected[one][1] and math.isclose(found[one][0], expected[one][0], rel_tol=1e-12)
        for one in found
    )
    return Ended("done", checked=True) if same else Ended(f"wrong: {found} is not {expected}", failed=True)


def slow_scores(data: bytes, name: str) -> dict[str, tuple[float, int]]:
    """The mean share of different words in a set and the number of sets, for each system."""
    text = data.decode("utf-8-sig")
    sets: dict[str, list[list[str]]] = {}
    if name.endswith(".jsonl"):
        for line in text.split("\n"):
            if line.strip():
                record = json.loads(line)
                wide = [record[key] for key in sorted(record) if re.fullmatch(r"resp_\d+", key)]
                sets.setdefault(record.get("system") or "", []).append(record.get("responses", wide))
    else:
        mark = "\t" if name.endswith(".tsv") else ","
        header, *rows = [row for row in csv.reader(io.StringIO(text, newline="\n"), delimiter=mark) if row]
        names = [cell.strip() for cell in header]
        wide = sorted(
            (key for key in names if re.fullmatch(r"resp_?\d+", key)), key=lambda key: int(key.strip("resp_"))
        )
        for row in rows:
            cells = dict(zip(names, row, strict=True))
            sets.setdefault(cells.get("system", ""), []).append([cells[key] for key in wide])
    return {system: (_mean_distinct(some), len(some)) for system, some in sets.items()}


def _mean_distinct(sets: list[list[str]]) -> float:
    shares = []
    for responses in sets:
        words = [word for text in responses for word in text.replace(".", "").split(" ") if word]
        if words:
            shares.append(len(set(words)) / len(words))
    return math.fsum(shares) / len(shares) if shares else math.nan


@contextmanager
def _output_to(stdout: Path, stderr: Path) -> Iterator[None]:
    """What this process writes goes to two files, whoever writes it."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(1), os.dup(2)]
    for number, path in ((1, stdout), (2, stderr)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    try:
        yield
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        for number, kept in enumerate(before, 1):
            os.dup2(kept, number)
            os.close(kept)


def _serve(connection: Connection, seed: int, cache: str) -> None:
    os.environ.update(NLGAUGE_CACHE=cache, NO_COLOR="1")
    known = templates()
    with suppress(EOFError):
        while True:
            number = connection.recv()
            with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
                connection.send(run_case(made_case(seed, number, known), Path(folder)))


class Watched:
    """A worker that is ended when it takes too long or too much memory."""

    def __init__(self, seed: int) -> None:
        self._seed, self._left = seed, 0

    def run(self, number: int) -> Ended:
        """How a case ends."""
        if not self._left:
            self._start()
        self._left -= 1
        self._connection.send(number)
        end = time.monotonic() + SECONDS
        while not self._connection.poll(0.05):
            if time.monotonic() > end:
                return self._killed("hang")
            try:
                if self._process.memory_info().rss > BYTES:
                    return self._killed("memory")
            except psutil.NoSuchProcess:
                return self._killed("died")
        try:
            ended: Ended = self._connection.recv()
        except EOFError:
            return self._killed("died")
        if not self._left:
            self.close()
        return ended

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._cache = tempfile.TemporaryDirectory(prefix="fuzz-cache-", ignore_cleanup_errors=True)
        self._worker = context.Process(target=_serve, args=(theirs, self._seed, self._cache.name), daemon=True)
        self._worker.start()
        theirs.close()
        self._process = psutil.Process(self._worker.pid)
        self._left = _CASES_PER_WORKER
        self._connection.send(0)  # the first case compiles kernels, which no limit is meant for
        self._connection.recv()

    def _killed(self, why: str) -> Ended:
        self._left = 0
        self._worker.kill()
        self.close()
        return Ended(why, failed=True)

    def close(self) -> None:
        """End the worker."""
        self._connection.close()
        self._worker.join()
        self._cache.cleanup()


def keep(case: Case, ended: Ended, folder: Path) -> None:
    """Write the files of a failing case and the command that shows it again."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in case.files.items():
        (folder / name).write_bytes(data)
    (folder / "command").write_text(f"nlgauge {shlex.join(case.arguments)}\n# {ended.outcome}\n", encoding="utf-8")


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--cases", type=int, default=100_000)
    asked.add_argument("--first", type=int, default=1, help="Number of the first case.")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    asked.add_argument("--minutes", type=float, default=math.inf, help="Stop after so many minutes.")
    options = asked.parse_args()
    known, worker = templates(), Watched(options.seed)
    outcomes: Counter[str] = Counter()
    failed = checked = 0
    end = time.monotonic() + options.minutes * 60
    for number in range(options.first, options.first + options.cases):
        if time.monotonic() > end:
            break
        ended = worker.run(number)
        outcomes["wrong" if ended.outcome.startswith("wrong") else ended.outcome] += 1
        checked += ended.checked
        if ended.failed:
            failed += 1
            keep(made_case(options.seed, number, known), ended, options.failures / str(number))
            print(f"case {number}: {ended.outcome[:200]}", flush=True)
    print(f"{outcomes.total()} cases: {', '.join(f'{count} {name}' for name, count in outcomes.most_common())}")
    print(f"{checked} scores are those of the slow reader; {failed} cases failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
