"""Workers that die, runs that are killed and go on, full disks: the numbers stay the same, or an error says why."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nlgauge
from nlgauge.data.sources.parts import PART_BYTES
from nlgauge.engine.local import ProcessPool, ThreadPool
from nlgauge.engine.pool import Pool, WorkerDied
from nlgauge.engine.run_folder import RunFolder
from nlgauge.engine.running import Running
from nlgauge.engine.scratch import Scratch
from nlgauge.engine.workers import ordered_map
from nlgauge.errors import DataError, NLGaugeError, OptionError, OutputError
from nlgauge.metrics.base import Metric
from nlgauge.scoring.by_parts import part_bytes_for
from tests.conftest import ROOT
from tests.engine.fixtures import CORPUS, Costly, Touchy, numbers, write_sets
from tests.errors import raises
from tests.helpers import COMMAND, MB, environment
from tests.helpers import nlgauge as command


def options(folder: Path | None = None, **more: Any) -> Running:
    return Running(**{"workers": 2, "run": folder, "part_mb": 4000 / MB, "cache": False, **more})


def squared(value: int) -> int:
    if value == 13:
        os._exit(3)
    if value == 14:
        raise DataError("is 14", file="numbers", line=14)
    if value == 15:
        warnings.warn("is 15", stacklevel=1)
    return value * value


def outcomes(pool: Pool[Any], values: list[int]) -> dict[int, Any]:
    waiting, at, found = list(values), {}, {}
    while waiting or pool.under_way:
        while waiting and pool.room:
            value = waiting.pop(0)
            at[pool.give(value)] = value
        outcome = pool.take()
        found[at.pop(outcome.ticket)] = outcome.error or outcome.value
    return found


class TestPool:
    def test_the_death_of_a_worker_is_told_of_the_one_value_it_was_at(self, tmp_path: Path) -> None:
        with ProcessPool(2, Scratch(tmp_path)) as pool:
            pool.use(squared)
            with pytest.warns(UserWarning, match="is 15"):
                found = outcomes(pool, list(range(20)))
        died = found.pop(13)
        assert isinstance(died, WorkerDied)
        assert str(died) == "ended with exit code 3"
        assert str(found.pop(14)) == "numbers, line 14: is 14"
        assert found == {value: value * value for value in range(20) if value not in (13, 14)}

    def test_workers_take_another_function_and_stay(self, tmp_path: Path) -> None:
        with ProcessPool(1, Scratch(tmp_path)) as pool:
            pool.use(process_id)
            first = outcomes(pool, [1, 2, 3])
            pool.use(squared)
            assert outcomes(pool, [4]) == {4: 16}
            pool.use(process_id)
            assert set(outcomes(pool, [1]).values()) == set(first.values()) != {os.getpid()}

    def test_a_killed_worker_is_named_with_its_signal(self, tmp_path: Path) -> None:
        with ProcessPool(1, Scratch(tmp_path)) as pool:
            pool.use(kill_oneself)
            assert "ended by SIGKILL" in str(outcomes(pool, [1])[1])

    def test_workers_share_the_cores(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setenv("POLARS_MAX_THREADS", "7")
        cores = len(os.sched_getaffinity(0))
        with ProcessPool(2, Scratch(tmp_path)) as pool:
            pool.use(thread_variables)
            assert outcomes(pool, [0])[0] == (str(max(1, cores // 2)), "7")
        assert "OMP_NUM_THREADS" not in os.environ

    def test_threads_are_a_pool_too(self) -> None:
        with ThreadPool() as pool:
            pool.use(squared)
            assert outcomes(pool, [1, 2, 3]) == {1: 1, 2: 4, 3: 9}

    def test_a_function_that_cannot_be_had_is_an_error_and_no_endless_loop(self, tmp_path: Path) -> None:
        with ProcessPool(2, Scratch(tmp_path)) as pool:
            pool.use(Unloadable())
            pool.give(1)
            with pytest.raises(NLGaugeError, match=r"could not start: .*not here"):
                pool.take()

    def test_an_ordered_map_survives_one_death_and_not_two(self, tmp_path: Path) -> None:
        marker = tmp_path / "died"
        scratch = Scratch(tmp_path)
        values = list(range(8))
        assert list(ordered_map(DiesOnce(str(marker)), values, processes=2, scratch=scratch)) == values
        with pytest.raises(NLGaugeError, match=r"died twice .*exit code 3.*on_error=skip"):
            list(ordered_map(squared, range(14), processes=2, scratch=scratch))


def process_id(_value: int) -> int:
    return os.getpid()


def kill_oneself(_value: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def thread_variables(_value: int) -> tuple[str, str]:
    return os.environ["OMP_NUM_THREADS"], os.environ["POLARS_MAX_THREADS"]


class Unloadable:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return fail_in_workers, (os.getpid(),)

    def __call__(self, value: int) -> int:
        return value


def fail_in_workers(maker: int) -> Unloadable:
    if os.getpid() != maker:
        raise ImportError("not here")
    return Unloadable()


@dataclass(frozen=True)
class DiesOnce:
    marker: str

    def __call__(self, value: int) -> int:
        if value == 3 and not Path(self.marker).exists():
            Path(self.marker).touch()
            os._exit(1)
        return value


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sets(tmp_path_factory.mktemp("engine") / "sets.jsonl")


@pytest.fixture(scope="module")
def expected(sets: Path) -> list[object]:
    metrics: list[str | Metric] = [*CORPUS, Touchy()]
    return numbers(nlgauge.score(str(sets), metrics, confidence=True, resamples=100, cache=False))


class TestRows:
    def test_a_poison_row_is_found_and_named(self, tmp_path: Path) -> None:
        file = write_sets(tmp_path / "sets.jsonl", 200, poison=(77,))
        with raises(DataError, file="sets.jsonl", line=78):
            nlgauge.score(str(file), [Touchy()], **vars(options(tmp_path / "run")))
        file.write_text(file.read_text().replace("poison", "potion"))
        with pytest.raises(OptionError, match="holds another run: files had"):
            nlgauge.score(str(file), [Touchy()], **vars(options(tmp_path / "run")))

    @pytest.mark.parametrize("processes", [1, 2])
    def test_poison_rows_are_left_out_on_request_and_named(self, tmp_path: Path, processes: int) -> None:
        file = write_sets(tmp_path / "sets.jsonl", 200, poison=(0, 77))
        lines = file.read_text().splitlines(keepends=True)
        clean = tmp_path / "clean.jsonl"
        clean.write_text("".join(line for row, line in enumerate(lines) if row not in (0, 77)))
        how = options(tmp_path / "run", on_error="skip", workers=processes, part_mb=1500 / MB)
        with pytest.warns(UserWarning, match="left out: .*sets.jsonl, line") as said:
            found = nlgauge.score(str(file), [Touchy(), *CORPUS], **vars(how))
        assert numbers(found) == numbers(nlgauge.score(str(clean), [Touchy(), *CORPUS]))
        assert len(said) == 2
        assert [row.partition(":")[0] for row in found[0].skipped] == [f"{file}, line {n}" for n in (1, 78)]
        assert json.loads((tmp_path / "run" / "manifest.json").read_text())["skipped"] == list(found[0].skipped)
        assert found[0].to_dict()["skipped"] == list(found[0].skipped)
        again = nlgauge.score(str(file), [Touchy(), *CORPUS], **vars(how))  # from the folder, without a death
        assert (numbers(again), again[0].skipped) == (numbers(found), found[0].skipped)

    def test_rows_that_cannot_be_read_are_left_out_on_request(self, tmp_path: Path) -> None:
        file = write_sets(tmp_path / "sets.jsonl", 50)
        lines = file.read_text().splitlines(keepends=True)
        lines[20] = '{"id": "s20", "responses": ["a", 5]}\n'
        lines[30] = '{"id": "s30", "responses": \n'
        file.write_text("".join(lines))
        wanted = ("score", "sets.jsonl", "-m", "distinct", "--no-progress", "-f", "json")
        stopped = command(*wanted, "--run", "run", cwd=tmp_path, cache=tmp_path / "cache")
        assert (stopped.code, "sets.jsonl, line 31: invalid JSON" in stopped.err) == (2, True), stopped.err
        skipping = command(*wanted, "--run", "run", "--on-error", "skip", cwd=tmp_path, cache=tmp_path / "cache")
        assert skipping.code == 0, skipping.err
        assert "warning: left out: sets.jsonl, line 21" in skipping.err
        result = json.loads(skipping.out)["scores"][0]
        assert result["n"] == 48
        assert [row.partition(":")[0] for row in result["skipped"]] == [
            "sets.jsonl, line 21, column 'responses'",
            "sets.jsonl, line 31",
        ]

    def test_a_metric_that_suits_no_row_is_an_error_and_not_an_empty_result(self, tmp_path: Path) -> None:
        file = tmp_path / "texts.txt"
        file.write_text("one text\n" * 1100)
        with (
            warnings.catch_warnings(action="ignore"),
            pytest.raises(NLGaugeError, match=r"more than 1000 rows had to be left out.*measures sets"),
        ):
            nlgauge.score(str(file), ["cos-sim"], **vars(options(on_error="skip", workers=1, part_mb=(1 << 20) / MB)))


class TestInputs:
    @pytest.mark.parametrize("harm", ["gone", "cut short"])
    def test_a_shard_that_changes_half_way_stops_the_run_even_when_rows_are_skipped(
        self, tmp_path: Path, harm: str, sets: Path, expected: list[object]
    ) -> None:
        lines = sets.read_text().splitlines(keepends=True)
        shards = [tmp_path / f"shard-{number}.jsonl" for number in range(4)]
        for number, shard in enumerate(shards):
            shard.write_text("".join(lines[number * 100 : (number + 1) * 100]))
        kept, modified = shards[3].read_bytes(), shards[3].stat().st_mtime_ns
        how = options(tmp_path / "run", on_error="skip", workers=1)
        meddler = meddling(str(shards[3]), harm)
        source = str(tmp_path / "shard-*.jsonl")
        with pytest.raises(DataError, match=r"shard-3\.jsonl: "):
            nlgauge.score(source, [*CORPUS, meddler], **vars(how))
        shards[3].write_bytes(kept)
        os.utime(shards[3], ns=(modified, modified))
        (tmp_path / "done").touch()
        found = nlgauge.score(source, [*CORPUS, meddler], **vars(how))
        plain = nlgauge.score(str(sets), CORPUS)
        assert numbers(found)[: len(CORPUS)] == numbers(plain)

    def test_inputs_are_known_by_what_they_hold(self, sets: Path, tmp_path: Path, expected: list[object]) -> None:
        file = tmp_path / "copy.jsonl"
        file.write_bytes(sets.read_bytes())
        how = options(tmp_path / "run", workers=1)
        score = partial(nlgauge.score, str(file), CORPUS, **vars(how))
        before, when = numbers(score()), file.stat().st_mtime_ns
        os.utime(file, ns=(when + 10**9, when + 10**9))
        assert numbers(score()) == before
        file.write_bytes(file.read_bytes().replace(b"w1", b"w2", 1))
        os.utime(file, ns=(when, when))
        with pytest.raises(OptionError, match=r"holds another run: files had .*copy\.jsonl: \d+ bytes, SHA-256 "):
            score()

    def test_a_run_with_other_settings_is_refused_and_says_what_differs(self, sets: Path, tmp_path: Path) -> None:
        nlgauge.score(str(sets), ["distinct"], **vars(options(tmp_path / "run", workers=1)))
        with pytest.raises(OptionError, match=r"holds another run: metrics had distinct\|.*, now distinct\|n:1\|"):
            nlgauge.score(str(sets), ["distinct:n=1"], **vars(options(tmp_path / "run", workers=1)))
        with pytest.raises(OptionError, match="intervals was false, now true"):
            nlgauge.score(str(sets), ["distinct"], confidence=True, **vars(options(tmp_path / "run", workers=1)))
        with pytest.raises(OptionError, match="bytes of a part was 4000, now 5000"):
            nlgauge.score(str(sets), ["distinct"], **vars(options(tmp_path / "run", workers=1, part_mb=5000 / MB)))

    def test_what_cannot_be_done_by_parts_is_refused(self, sets: Path, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="given in memory"):
            nlgauge.score([["a", "b"]], ["distinct"], **vars(options(tmp_path / "run")))
        with pytest.raises(OptionError, match="standard input can be read only once"):
            nlgauge.score("-", ["distinct"], **vars(options(tmp_path / "run")))
        with pytest.raises(OptionError) as whole:
            nlgauge.score(str(sets), ["distinct"], one_set=True, **vars(options(tmp_path / "run")))
        assert whole.value.option == "one_set"
        with pytest.raises(OptionError) as backend:
            Running(engine="spark")
        assert backend.value.option == "engine"
        with pytest.raises(OptionError) as reaction:
            options(on_error="ignore")
        assert reaction.value.option == "on_error"


@dataclass(frozen=True, kw_only=True)
class _Meddling(Touchy):
    harm: str = "gone"

    def per_set(self, batch: Any) -> Any:
        shard = Path(self.removes)
        if not (shard.parent / "done").exists() and shard.exists():
            if self.harm == "gone":
                shard.unlink()
            else:
                shard.write_bytes(shard.read_bytes()[:500])
        return np.zeros(len(batch))


def meddling(shard: str, harm: str) -> _Meddling:
    return _Meddling(removes=shard, harm=harm)


class TestParts:
    @pytest.mark.parametrize(("metric", "pieces"), [(Touchy(), 1), (Costly(), 14)])
    def test_parts_are_small_where_models_work_so_that_all_workers_have_some(
        self, tmp_path: Path, metric: Metric, pieces: int
    ) -> None:
        file = write_sets(tmp_path / "sets.jsonl", 2200)
        assert 13 << 14 < file.stat().st_size <= 14 << 14
        found = nlgauge.score(str(file), [metric], workers=1, run=tmp_path / "run")
        assert found[0].value == nlgauge.score(str(file), [metric])[0].value
        assert len(list((tmp_path / "run" / "pieces").glob("0*"))) == pieces

    def test_small_shards_go_together_and_those_of_two_systems_do_not(self, tmp_path: Path) -> None:
        for system in "ab":
            (tmp_path / system).mkdir()
            for number in range(30):
                write_sets(tmp_path / system / f"{number:02}.jsonl", 5, seed=number + ord(system))
        both = [str(tmp_path / "a"), str(tmp_path / "b")]
        size = sum(file.stat().st_size for file in (tmp_path / "a").iterdir())
        found = nlgauge.score(both, [Touchy(), *CORPUS], **vars(options(tmp_path / "run", part_mb=(size // 3) / MB)))
        assert numbers(found) == numbers(nlgauge.score(both, [Touchy(), *CORPUS]))
        assert len(list((tmp_path / "run" / "pieces").glob("0*"))) in (6, 8)  # 3 or 4 of each

    def test_a_poison_row_is_found_in_one_of_many_small_shards(self, tmp_path: Path) -> None:
        for number in range(20):
            write_sets(tmp_path / f"shard-{number:02}.jsonl", 5, poison=(3,) if number == 13 else (), seed=number)
        source, whole = str(tmp_path / "*.jsonl"), 1 << 20
        with raises(DataError, file="shard-13.jsonl", line=4):
            nlgauge.score(source, [Touchy()], **vars(options(tmp_path / "run", part_mb=whole / MB)))
        with pytest.warns(UserWarning, match=r"left out: .*shard-13\.jsonl, line 4"):
            found = nlgauge.score(
                source, [Touchy()], **vars(options(tmp_path / "run", part_mb=whole / MB, on_error="skip"))
            )
        assert found[0].n == 99

    def test_parts_are_neither_too_many_nor_too_large(self) -> None:
        sizes = {size: part_bytes_for([Touchy()], size) for size in (1, 80 << 20, 1 << 30)}
        assert sizes == {1: 8 << 20, 80 << 20: 10 << 20, 1 << 30: PART_BYTES}
        sizes = {size: part_bytes_for([Touchy(), Costly()], size) for size in (1, 1 << 30, 1 << 40)}
        assert sizes == {1: 1 << 14, 1 << 30: 1 << 20, 1 << 40: PART_BYTES}


class TestFolder:
    def test_two_runs_in_one_folder_are_refused(self, sets: Path, tmp_path: Path) -> None:
        folder = RunFolder(tmp_path / "run")
        with folder.held():
            done = command(
                "score",
                str(sets),
                "-m",
                "distinct",
                "--run",
                "run",
                "--no-progress",
                cwd=tmp_path,
                cache=tmp_path / "c",
            )
        assert done.code == 2
        assert f"process {os.getpid()} on " in done.err
        assert "is using this folder; expected one run at a time" in done.err

    @pytest.mark.parametrize("place", ["pieces", "scratch"])
    def test_a_full_disk_says_so_and_the_run_goes_on_later(
        self, sets: Path, tmp_path: Path, expected: list[object], place: str
    ) -> None:
        folder = tmp_path / "run"
        how = options(folder, workers=1, part_mb=40_000 / MB, memory_mb=100 / MB if place == "scratch" else 1024)
        metrics: list[str | Metric] = [*CORPUS, Touchy()]

        def scored() -> list[object]:
            return numbers(nlgauge.score(str(sets), metrics, confidence=True, resamples=100, **vars(how)))

        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
            with pytest.raises(OutputError, match=r"File too large.*resume|resume.*File too large"):
                scored()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert scored() == expected

    def test_a_damaged_piece_is_made_again(self, sets: Path, tmp_path: Path, expected: list[object]) -> None:
        how = options(tmp_path / "run", workers=1)
        metrics: list[str | Metric] = [*CORPUS, Touchy()]
        nlgauge.score(str(sets), metrics, confidence=True, resamples=100, **vars(how))
        damaged = next((tmp_path / "run" / "pieces" / "000002").glob("*.parquet"))
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        with pytest.warns(UserWarning, match=f"000002: damaged: {damaged.name} does not match its checksum"):
            found = nlgauge.score(str(sets), metrics, confidence=True, resamples=100, **vars(how))
        assert numbers(found) == expected

    @pytest.mark.parametrize(
        ("metric", "count"),
        [("distinct:over=corpus", 64), ("self-bleu:over=corpus", 64 + 10), ("compression:over=corpus,blocks=8", 8)],
    )
    def test_what_is_left_after_merging_is_shared_out_and_kept(
        self, sets: Path, tmp_path: Path, metric: str, count: int
    ) -> None:
        how = options(tmp_path / "run", workers=2)
        found = numbers(nlgauge.score(str(sets), [metric], **vars(how)))
        shares = sorted((tmp_path / "run" / "pieces").glob("share-*"))
        assert len(shares) == count
        assert found == numbers(nlgauge.score(str(sets), [metric], cache=False))
        stamps = {place: place.stat().st_mtime_ns for place in shares}
        shutil.rmtree(shares[5])
        assert numbers(nlgauge.score(str(sets), [metric], **vars(how))) == found
        again = {place for place, stamp in stamps.items() if place.stat().st_mtime_ns != stamp}
        assert again == {shares[5]}


class TestKills:
    @pytest.mark.parametrize("seed", [1, 2])
    def test_a_run_killed_at_any_moment_goes_on_to_the_same_result(
        self, sets: Path, tmp_path: Path, expected: list[object], seed: int
    ) -> None:
        rng = np.random.default_rng(seed)
        calls = tmp_path / "calls"
        calls.mkdir()
        arguments = [str(sets), str(tmp_path / "run"), "local", "2", str(calls)]
        kills = 0
        while True:
            run = subprocess.Popen(
                [sys.executable, "-m", "tests.engine.fixtures", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
            wait_for_call(calls, run)
            try:
                out, _ = run.communicate(timeout=float(rng.uniform(0, 0.4)) if kills < 3 else 120)
                break
            except subprocess.TimeoutExpired:
                run.kill()
                run.communicate()
                kills += 1
        assert json.loads(out) == json.loads(json.dumps(expected))
        assert kills > 0
        pieces = {place.name for place in (tmp_path / "run" / "pieces").iterdir()}
        assert not any(name.startswith(".") for name in pieces)


def wait_for_call(calls: Path, run: subprocess.Popen[str]) -> None:
    """Wait until a worker of this run is at work, or the run is over."""
    before = set(calls.iterdir())
    while run.poll() is None and set(calls.iterdir()) == before:
        time.sleep(0.02)


def test_help_is_quick_and_loads_no_ray() -> None:
    code = "import sys, nlgauge.cli.score, nlgauge.scoring.scoring; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_metrics_of_plugins_work_in_workers(examples: Path, tmp_path: Path) -> None:
    example = (ROOT / "examples" / "plugin" / "src" / "nlgauge_example" / "openings.py").read_text()
    example = example.replace('name: ClassVar[str] = "openings"', 'name: ClassVar[str] = "first-words"')
    (tmp_path / "mine.py").write_text(
        f"{example}\n\nfrom nlgauge.extend import register_metric\nregister_metric(Openings)\n"
    )
    arguments = [*COMMAND, "score", str(examples / "system_a.jsonl"), "-m", "first-words", "-f", "csv", "--no-progress"]
    printed = [
        subprocess.run(
            [*arguments, *engine],
            cwd=tmp_path,
            env={**environment(tmp_path / "cache"), "NLGAUGE_PLUGINS": "mine.py"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for engine in ([], ["--workers", "2", "--run", "run", "--part-mb", "0.005"])
    ]
    assert printed[0] == printed[1]
    assert "first-words" in printed[0]
