"""A real Ray cluster gives the numbers of one process, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import nlgauge
from nlgauge.data.reading import read_sets
from nlgauge.engine.opening import open_pool
from nlgauge.engine.ray import pool as ray_pool
from nlgauge.engine.ray.cluster import ClusterError
from nlgauge.engine.running import Running
from nlgauge.engine.scratch import Scratch
from nlgauge.engine.workers import finished
from nlgauge.errors import DataError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.registry import _BUILT_IN, metric_class
from nlgauge.metrics.score import Score
from nlgauge.models.language.ngram import NgramModel
from tests import helpers
from tests.conftest import ROOT
from tests.engine.fixtures import CORPUS, Touchy, numbers, write_sets
from tests.errors import raises
from tests.helpers import COMMAND, MB, environment
from tests.metrics.test_contract import VARIANTS, takes_references
from tests.ray_nodes import free_port, head_node, node, shared_variables, wait_for_cores


@pytest.fixture(scope="module")
def client_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """What nodes and drivers share, in the environment of these tests, too."""
    chosen = shared_variables()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in chosen.items():
            patch.setenv(name, value)
        yield chosen


@pytest.fixture(scope="module")
def cluster(client_port: int, variables: dict[str, str]) -> Iterator[str]:
    """A cluster of two cores, which is told that it has two GPUs."""
    with head_node(variables, "--num-cpus=2", "--num-gpus=2", client_port=client_port) as address:
        yield address


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sets(tmp_path_factory.mktemp("ray") / "sets.jsonl")


@pytest.fixture(scope="module")
def expected(sets: Path) -> list[object]:
    metrics: list[str | Metric] = [*CORPUS, Touchy()]
    return numbers(nlgauge.score(str(sets), metrics, confidence=True, resamples=100, cache=False))


def on(engine: str, folder: Path | None = None, **more: Any) -> Running:
    usual = {"engine": engine, "workers": 2, "run": folder, "part_mb": 4000 / MB, "cache": False}
    return Running(**{**usual, **more})


def scored(file: Path, run: Running) -> list[object]:
    metrics: list[str | Metric] = [*CORPUS, Touchy()]
    return numbers(nlgauge.score(str(file), metrics, confidence=True, resamples=100, **vars(run)))


def test_a_cluster_gives_the_numbers_of_one_process(cluster: str, sets: Path, expected: list[object]) -> None:
    assert scored(sets, on(cluster)) == expected


def test_a_client_of_a_cluster_gives_them_too(
    cluster: str, client_port: int, sets: Path, expected: list[object]
) -> None:
    assert scored(sets, on(f"ray://127.0.0.1:{client_port}")) == expected


def test_sets_written_by_workers_are_those_of_one_process(cluster: str, examples: Path, tmp_path: Path) -> None:
    texts = read_sets(str(examples / "system_a.jsonl")).texts.to_list()
    NgramModel.train(texts, order=3).save(tmp_path / "model")
    sweep = ["--sweep", "temperature=0.5,1.0", "--responses-per-set", "3", "--limit", "12", "--no-progress"]
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


def test_sets_that_a_killed_driver_left_are_not_written_again(cluster: str, examples: Path, tmp_path: Path) -> None:
    NgramModel.train(read_sets(str(examples / "system_a.jsonl")).texts.to_list(), order=3).save(tmp_path / "model")
    contexts = ["generate", str(examples / "system_a.jsonl"), "--model", "ngram:model", "--limit", "12"]
    arguments = [*contexts, "--sweep", "temperature=0.5:1.5:80", "--responses-per-set", "5", "--no-progress"]
    cache = tmp_path / "cache"
    assert helpers.nlgauge(*arguments, "-o", "undisturbed.jsonl", cwd=tmp_path, cache=cache).code == 0
    kept_in = ["-o", "sets.jsonl", "--run", "run"]
    on_ray = [*COMMAND, *arguments, *kept_in, "--engine", cluster, "--workers", "2"]
    driver = subprocess.Popen(on_ray, cwd=tmp_path, env=environment(cache), stderr=subprocess.PIPE)
    while driver.poll() is None and len(list(tmp_path.glob("run/pieces/0*"))) < 8:
        time.sleep(0.02)
    driver.kill()
    _, said = driver.communicate()
    stamps = {place: place.stat().st_mtime_ns for place in tmp_path.glob("run/pieces/0*")}
    assert 8 <= len(stamps) < 80, said
    assert not (tmp_path / "sets.jsonl").exists()
    done = helpers.nlgauge(*arguments, *kept_in, cwd=tmp_path, cache=cache)
    assert done.code == 0, done.err
    assert (tmp_path / "sets.jsonl").read_bytes() == (tmp_path / "undisturbed.jsonl").read_bytes()
    assert len(list(tmp_path.glob("run/pieces/0*"))) == 80
    assert all(place.stat().st_mtime_ns == stamp for place, stamp in stamps.items())


COUNTED = [*VARIANTS, "compression:over=corpus", "ead:n=1-2"]
KINDS = {name: metric_class(name) for name in dict.fromkeys(spec.partition(":")[0] for spec in COUNTED)}


def kind_of(spec: str) -> str:
    """Which file a metric is tried on: sets or single texts with references, few of them when a model is needed.

    Workers that need no model import no PyTorch, so metrics that do are kept together.
    """
    kind = KINDS[spec.partition(":")[0]]
    slow = kind.costly or spec.endswith("=minilm")
    return f"{'few ' if slow else ''}{'single' if takes_references(kind) else 'sets'}"


@pytest.fixture(scope="module")
def by_engine(
    cluster: str, metric_models: Path, judge: str, examples: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Score]]:
    """Scores of all metrics with one process, two processes and two workers of a cluster, each with its own cache.

    One process reads the file from beginning to end; the others read two parts or more and keep pieces in a folder.
    Models have one thread everywhere, since sums of single-precision numbers depend on how threads share them.
    """
    write_examples(examples, metric_models)
    engines = {"one process": ("local", 1), "two processes": ("local", 2), "two on a cluster": (cluster, 2)}
    found: dict[str, dict[str, Score]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(metric_models)
        patch.setenv("NLGAUGE_THREADS", "1")
        for name, (engine, processes) in engines.items():
            patch.setenv("NLGAUGE_CACHE", str(tmp_path_factory.mktemp("cache")))
            found[name] = {}
            for kind in ("sets", "single", "few sets", "few single"):
                specs = [spec for spec in COUNTED if kind_of(spec) == kind]
                file = metric_models / f"{kind}.jsonl"
                how = Running(
                    engine=engine,
                    workers=processes,
                    part_mb=file.stat().st_size // 2 / MB,
                    cache=False,
                    run=tmp_path_factory.mktemp("run") if processes > 1 else None,
                )
                metrics = [spec.replace("JUDGE", judge) for spec in specs]
                scores = nlgauge.score(file.name, metrics, confidence=True, resamples=100, **vars(how))
                found[name].update(zip(specs, scores, strict=True))
    return found


def write_examples(examples: Path, folder: Path) -> None:
    """Sets with ratings, their first responses with the other system's for references, and few small ones of each."""
    ours, theirs = (
        [json.loads(line) for line in (examples / f"system_{name}.jsonl").read_text().splitlines()[:12]]
        for name in "ab"
    )
    sets = [{**row, "human": number % 5} for number, row in enumerate(ours)]
    single = [
        {"id": a["id"], "context": a["context"], "text": a["responses"][0], "references": b["responses"]}
        for a, b in zip(ours, theirs, strict=True)
    ]
    small = [{**row, "responses": row["responses"][:4]} for row in sets[:3]]
    files = {"sets": sets, "few sets": small, "single": single, "few single": single[:3]}
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_no_metric_is_left_out() -> None:
    assert set(_BUILT_IN) <= set(KINDS)


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
        [sys.executable, "-m", "tests.engine.fixtures", str(file), str(folder), engine, "2", str(calls)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_calls(calls: Path, number: int, run: subprocess.Popen[str]) -> list[str]:
    while run.poll() is None and len(list(calls.iterdir())) < number:
        time.sleep(0.02)
    return sorted(place.name for place in calls.iterdir())


def workers_in(calls: Path) -> set[int]:
    """Processes that have begun to work."""
    return {int(place.name.partition("-")[0]) for place in calls.iterdir()}


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
    with raises(DataError, file="sets.jsonl", line=34):
        nlgauge.score(str(file), [Touchy()], **vars(on(cluster, tmp_path / "run")))
    with pytest.warns(UserWarning, match="left out: .*line 34"):
        found = nlgauge.score(str(file), [Touchy()], **vars(on(cluster, tmp_path / "run", on_error="skip")))
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


def test_a_client_at_the_wrong_port_is_refused_and_leaves_nothing_behind(
    cluster: str, sets: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("INITIAL_TIMEOUT_SEC", "MAX_TIMEOUT_SEC"):
        monkeypatch.setattr(f"ray.util.client.worker.{limit}", 1)
    with pytest.raises(ClusterError, match=r"cannot be joined: .* wants the port of the cluster's client server"):
        scored(sets, on(f"ray://{cluster}"))
    assert scored(sets, on(cluster)) == expected


def test_a_worker_with_another_version_is_refused(cluster: str, sets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "__version__", "0.0.1")
    with pytest.raises(
        ClusterError, match=r"has NLGauge .*, and this process 0\.0\.1.*install one version on all nodes"
    ):
        scored(sets, on(cluster))


def test_every_worker_has_a_gpu_of_its_own_where_models_run_there(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_pool(cluster, 2, Scratch(tmp_path)) as pool:
        assert {gpus for _, gpus in finished(pool, visible_gpus, [0.2] * 8)} == {"none"}
    monkeypatch.setenv("NLGAUGE_DEVICE", "cuda")
    with open_pool(cluster, 2, Scratch(tmp_path)) as pool:
        assert {gpus for _, gpus in finished(pool, visible_gpus, [0.2] * 8)} == {"0", "1"}
    with pytest.raises(ClusterError, match="2 GPUs") as refused, open_pool(cluster, 3, Scratch(tmp_path)):
        pass
    assert refused.value.option == "workers"


def visible_gpus(seconds: float) -> str:
    time.sleep(seconds)
    return os.environ.get("CUDA_VISIBLE_DEVICES") or "none"


def test_a_node_that_is_lost_changes_nothing(
    variables: dict[str, str], sets: Path, expected: list[object], tmp_path: Path
) -> None:
    """Two nodes of a core each, one of which is killed with all its processes; the other one does the rest."""
    calls, one_core = tmp_path / "calls", "--num-cpus=1"
    with head_node(variables, one_core) as head, node(variables, f"--address={head}", one_core) as second:
        wait_for_cores(variables, head, 2)
        run = start_program(head, sets, tmp_path / "run", calls)
        while run.poll() is None and len(workers_in(calls)) < 2:
            time.sleep(0.02)
        lost = {process.pid for process in psutil.Process(second.pid).children(recursive=True)} & workers_in(calls)
        os.killpg(second.pid, signal.SIGKILL)
        done = len(list(calls.iterdir()))
        out, err = run.communicate(timeout=120)
    assert len(lost) == 1, err
    assert json.loads(out) == json.loads(json.dumps(expected)), err
    assert done < len(list(calls.iterdir()))


def test_more_workers_than_cores_are_refused(cluster: str, sets: Path) -> None:
    with pytest.raises(ClusterError, match="2 cores") as refused:
        nlgauge.score(str(sets), CORPUS, engine=cluster, workers=64)
    assert refused.value.option == "workers"


ALONE = """
import os, subprocess, sys
import psutil
from nlgauge.engine.ray.cluster import cluster
if __name__ == "__main__":
    with cluster("", 1) as ray:
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            for one in process.net_connections("tcp"):
                if one.status == psutil.CONN_LISTEN:
                    print("listens", one.laddr.ip)
        print("answer", ray.get(ray.remote(lambda: 41 + 1).remote()))
        code = "import ray, sys; ray.init(address=sys.argv[1], logging_level='ERROR')"
        command = [sys.executable, "-c", code, ray.get_runtime_context().gcs_address]
        variables = {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}
        other = subprocess.run(command, env=variables, capture_output=True, text=True)
        print("stranger", other.returncode, "AuthenticationError" in other.stderr)
    print("left", os.environ["RAY_AUTH_MODE"], os.environ.get("RAY_AUTH_TOKEN"))
"""


def test_a_cluster_of_one_run_listens_on_the_loopback_and_refuses_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the environment switches tokens off; nothing is left in the home folder."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    chosen = {"RAY_ADDRESS": "local", "RAY_AUTH_MODE": "disabled", "HOME": str(tmp_path)}
    (tmp_path / "alone.py").write_text(ALONE)
    command = [sys.executable, str(tmp_path / "alone.py")]
    done = subprocess.run(
        command, env={**environment(tmp_path / "cache"), **chosen}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    listens = {line.rpartition(":")[2].removeprefix("listens ") for line in lines if line.startswith("listens")}
    assert listens == {"127.0.0.1"}
    assert {"answer 42", "stranger 1 True", "left disabled None"} <= {*lines}
    assert not (tmp_path / ".ray").exists()
