"""A real Ray cluster gives the numbers of one process, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nlgauge
from nlgauge.data.reading import read_sets
from nlgauge.engine import ray_pool
from nlgauge.engine.ray_cluster import ClusterError
from nlgauge.errors import DataError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.registry import metric_class
from nlgauge.metrics.score import Interval, Score
from nlgauge.metrics.scoring import RunOptions
from nlgauge.models.ngram import NgramModel
from tests import helpers
from tests.conftest import ROOT
from tests.engine import CORPUS, Touchy, numbers, write_sets
from tests.helpers import COMMAND, environment
from tests.test_contract import VARIANTS

_SECONDS_TO_START = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def client_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def cluster(client_port: int) -> Iterator[str]:
    """A cluster of two cores with a token of its own, in a folder with a short name, as sockets want it."""
    port = free_port()
    variables = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": uuid.uuid4().hex,
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path]),
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        flags = ["--head", "--block", f"--port={port}", f"--ray-client-server-port={client_port}", "--num-cpus=2"]
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", *flags, "--include-dashboard=false"],
            env={**os.environ, "RAY_TMPDIR": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + _SECONDS_TO_START
        while not (answers(port) and answers(client_port)) and head.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"
        head.terminate()
        try:
            head.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(head.pid, signal.SIGKILL)
            head.wait()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sets(tmp_path_factory.mktemp("ray") / "sets.jsonl")


@pytest.fixture(scope="module")
def expected(sets: Path) -> list[object]:
    metrics: list[str | Metric] = [*CORPUS, Touchy()]
    return numbers(nlgauge.score(str(sets), metrics, interval=Interval(resamples=100), run=RunOptions(cache=False)))


def on(engine: str, folder: Path | None = None, **more: object) -> RunOptions:
    return RunOptions(engine=engine, processes=2, folder=folder, part_bytes=4000, cache=False, **more)  # type: ignore[arg-type]


def scored(file: Path, run: RunOptions) -> list[object]:
    metrics: list[str | Metric] = [*CORPUS, Touchy()]
    return numbers(nlgauge.score(str(file), metrics, interval=Interval(resamples=100), run=run))


def test_a_cluster_gives_the_numbers_of_one_process(cluster: str, sets: Path, expected: list[object]) -> None:
    assert scored(sets, on(cluster)) == expected


def test_a_client_of_a_cluster_gives_them_too(
    cluster: str, client_port: int, sets: Path, expected: list[object]
) -> None:
    assert scored(sets, on(f"ray://127.0.0.1:{client_port}")) == expected


def test_sets_written_by_workers_are_those_of_one_process(cluster: str, examples: Path, tmp_path: Path) -> None:
    texts = read_sets(str(examples / "system_a.jsonl")).texts.to_list()
    NgramModel.train(texts, order=3).save(tmp_path / "model")
    sweep = ["--sweep", "temperature=0.5,1.0", "--responses", "3", "--limit", "12", "--no-progress"]
    written = {}
    for name, engine in {
        "alone": (),
        "two": ("--workers", "2"),
        "ray": ("--engine", cluster, "--workers", "2"),
    }.items():
        output = tmp_path / f"{name}.jsonl"
        arguments = ["generate", str(examples / "system_a.jsonl"), "-o", str(output), "--model", "ngram:model"]
        done = helpers.nlgauge(*arguments, *sweep, *engine, cwd=tmp_path, cache=tmp_path / "cache")
        assert done.code == 0, done.err
        written[name] = output.read_bytes()
    assert written["alone"] == written["two"] == written["ray"]


COUNTED = [*VARIANTS, "compression:over=corpus", "ead:n=1-2"]
KINDS = {name: metric_class(name) for name in dict.fromkeys(spec.partition(":")[0] for spec in COUNTED)}


def kind_of(spec: str) -> str:
    """Which file a metric is tried on: sets or single texts with references, few of them when a model is needed."""
    kind = KINDS[spec.partition(":")[0]]
    return f"{'few ' if kind.costly else ''}{'single' if kind.needs_references else 'sets'}"


@pytest.fixture(scope="module")
def by_engine(
    cluster: str, cross_encoder: Path, examples: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Score]]:
    """Scores of all metrics with one process, two processes and two workers of a cluster, each with its own cache.

    Models have one thread everywhere, since sums of single-precision numbers depend on how threads share them.
    """
    here = cross_encoder.parent
    write_vectors(here / "vectors.txt", examples)
    write_examples(examples, here)
    engines = {"one process": ("local", 1), "two processes": ("local", 2), "two on a cluster": (cluster, 2)}
    found: dict[str, dict[str, Score]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setenv("NLGAUGE_THREADS", "1")
        for name, (engine, processes) in engines.items():
            patch.setenv("NLGAUGE_CACHE", str(tmp_path_factory.mktemp("cache")))
            found[name] = {}
            for kind in ("sets", "single", "few sets", "few single"):
                specs = [spec for spec in COUNTED if kind_of(spec) == kind]
                file = here / f"{kind}.jsonl"
                how = RunOptions(
                    engine=engine, processes=processes, part_bytes=file.stat().st_size // 2, cache=False,
                    folder=tmp_path_factory.mktemp("run"),
                )  # fmt: skip
                scores = nlgauge.score(file.name, specs, interval=Interval(resamples=100), run=how)
                found[name].update(zip(specs, scores, strict=True))
    return found


def write_vectors(place: Path, examples: Path) -> None:
    rng = np.random.default_rng(3)
    words = sorted({w for name in "ab" for w in (examples / f"system_{name}.jsonl").read_text().lower().split()})
    place.write_text("".join(f"{word} {' '.join(map(str, rng.normal(size=4)))}\n" for word in words))


def write_examples(examples: Path, folder: Path) -> None:
    """Sets with a rating each, and their first responses with the other system's for references; few and more."""
    ours, theirs = (
        [json.loads(line) for line in (examples / f"system_{name}.jsonl").read_text().splitlines()[:12]]
        for name in "ab"
    )
    sets = [json.dumps({**row, "human": number % 5}) + "\n" for number, row in enumerate(ours)]
    pairs = zip(ours, theirs, strict=True)
    rows = [{"id": a["id"], "text": a["responses"][0], "references": b["responses"]} for a, b in pairs]
    single = [json.dumps(row) + "\n" for row in rows]
    for name, lines in (("sets", sets), ("single", single)):
        (folder / f"{name}.jsonl").write_text("".join(lines))
        (folder / f"few {name}.jsonl").write_text("".join(lines[:3]))


@pytest.mark.parametrize("spec", COUNTED)
def test_every_metric_is_the_same_on_every_engine(spec: str, by_engine: dict[str, dict[str, Score]]) -> None:
    one, *others = (scores[spec] for scores in by_engine.values())
    for other in others:
        if KINDS[spec.partition(":")[0]].costly:
            assert other.value == pytest.approx(one.value, rel=1e-9, abs=1e-12)
            assert other.ci == (None if one.ci is None else pytest.approx(one.ci, rel=1e-9, abs=1e-12))
        else:
            assert (other.value, other.ci, dict(other.parts)) == (one.value, one.ci, dict(one.parts))
        assert (other.n, other.excluded, str(other.signature)) == (one.n, one.excluded, str(one.signature))


def start_program(engine: str, file: Path, folder: Path, calls: Path) -> subprocess.Popen[str]:
    calls.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engine", str(file), str(folder), engine, "2", str(calls)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_calls(calls: Path, number: int, run: subprocess.Popen[str]) -> list[str]:
    while run.poll() is None and len(list(calls.iterdir())) < number:
        time.sleep(0.02)
    return sorted(place.name for place in calls.iterdir())


def test_a_worker_killed_in_the_middle_changes_nothing(
    cluster: str, sets: Path, expected: list[object], tmp_path: Path
) -> None:
    run = start_program(cluster, sets, tmp_path / "run", tmp_path / "calls")
    called = wait_for_calls(tmp_path / "calls", 5, run)
    assert run.poll() is None
    victim = int(called[-1].partition("-")[0])
    os.kill(victim, signal.SIGKILL)
    out, err = run.communicate(timeout=120)
    assert json.loads(out) == json.loads(json.dumps(expected)), err
    workers = {place.name.partition("-")[0] for place in (tmp_path / "calls").iterdir()}
    assert len(workers) > 2  # another one took its place
    assert len(called) < len(list((tmp_path / "calls").iterdir()))


def test_a_killed_driver_is_followed_by_a_run_on_the_other_engine(
    cluster: str, sets: Path, expected: list[object], tmp_path: Path
) -> None:
    first = start_program(cluster, sets, tmp_path / "run", tmp_path / "calls")
    wait_for_calls(tmp_path / "calls", 12, first)
    first.kill()
    first.communicate()
    kept = {place.name for place in (tmp_path / "run" / "pieces").glob("0*")}
    assert kept
    stamps = {name: (tmp_path / "run" / "pieces" / name).stat().st_mtime_ns for name in kept}
    second = start_program("local", sets, tmp_path / "run", tmp_path / "calls")
    out, err = second.communicate(timeout=120)
    assert json.loads(out) == json.loads(json.dumps(expected)), err
    assert all((tmp_path / "run" / "pieces" / name).stat().st_mtime_ns == stamp for name, stamp in stamps.items())


def test_a_poison_row_is_named_or_left_out(cluster: str, tmp_path: Path) -> None:
    file = write_sets(tmp_path / "sets.jsonl", 60, poison=(33,))
    with pytest.raises(DataError, match=r"sets\.jsonl, line 34: a worker ended on the Ray cluster: .* twice on this"):
        nlgauge.score(str(file), [Touchy()], run=on(cluster, tmp_path / "run"))
    with pytest.warns(UserWarning, match="left out: .*line 34"):
        found = nlgauge.score(str(file), [Touchy()], run=on(cluster, tmp_path / "run", on_error="skip"))
    assert found[0].n == 59


def test_the_command_joins_the_cluster_and_prints_nothing_of_rays(cluster: str, sets: Path, tmp_path: Path) -> None:
    variables = {**environment(tmp_path / "cache"), "RAY_ADDRESS": cluster}
    arguments = ["score", str(sets), "-m", "distinct:over=corpus", "-f", "json", "--workers", "2", "--no-progress"]
    plain = subprocess.run([*COMMAND, *arguments], env=variables, capture_output=True, text=True, check=True)
    done = subprocess.run([*COMMAND, *arguments, "--engine", "ray"], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(plain.stdout)
    assert done.stderr == ""


def test_a_cluster_that_does_not_answer_is_a_clear_error(sets: Path, cluster: str) -> None:
    port = free_port()
    for address in (f"ray://127.0.0.1:{port}", f"127.0.0.1:{port}"):
        began = time.monotonic()
        with pytest.raises(ClusterError, match=f"no Ray cluster answers at {address}.*Connection refused"):
            scored(sets, on(address))
        assert time.monotonic() - began < 20


def test_a_worker_with_another_version_is_refused(cluster: str, sets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "__version__", "0.0.1")
    with pytest.raises(
        ClusterError, match=r"has NLGauge .*, and this process 0\.0\.1.*install one version on all nodes"
    ):
        scored(sets, on(cluster))


def test_more_workers_than_cores_are_refused(cluster: str, sets: Path) -> None:
    with pytest.raises(ClusterError, match="--workers 64, and the Ray cluster has 2 cores"):
        nlgauge.score(str(sets), CORPUS, run=RunOptions(engine=cluster, processes=64))
