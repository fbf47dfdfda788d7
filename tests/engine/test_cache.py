"""The cache: keyed by content, safe for parallel runs, and without any influence on a result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.engine.blobs import BlobStore
from nlgauge.engine.cache import Cache, code_digest, file_digest
from nlgauge.engine.running import Running
from nlgauge.errors import DataError
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.ngram import Distinct
from nlgauge.metrics.score import Direction, Score
from nlgauge.scoring.collecting import code_of, described
from nlgauge.scoring.scoring import score
from tests.helpers import COMMAND, MB, environment, nlgauge

FRAME = pl.DataFrame({"id": ["a", "b", "ç"], "value": [0.5, float("nan"), -1.0]})
METRICS = ("distinct", "cos-sim", "self-bleu", "distinct:over=corpus")


@dataclass(frozen=True, kw_only=True)
class FirstLetters(SetMetric):
    """How many different letters the responses begin with; counts how often it was asked."""

    name: ClassVar[str] = "first-letters"
    aspect: ClassVar[str] = "form"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    paper: ClassVar[str] = "none: a test"
    batches: ClassVar[list[int]] = []

    letters: int = 1

    def per_set(self, batch: Batch) -> np.ndarray[Any, Any]:
        self.batches.append(len(batch))
        starts = batch.sets.texts.str.head(self.letters).to_list()
        bounds = zip(batch.sets.offsets[:-1], batch.sets.offsets[1:], strict=True)
        return np.array([float(len(set(starts[a:b]))) for a, b in bounds])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    FirstLetters.batches.clear()
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of several chunks, each large enough to be worth caching."""
    rows = (
        {
            "id": f"set {i}",
            "context": f"context {i % 97}",
            "system": "one" if i % 3 else "two",
            "responses": [f"{i % 7} some words {i}", f"{i % 11} other words {i}", "some more " * 8],
        }
        for i in range(5000)
    )
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def entries(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def plain(scores: list[Score]) -> list[tuple[dict[str, Any], list[dict[str, Any]] | None]]:
    return [(s.to_dict(), None if s.per_item is None else s.per_item.to_dicts()) for s in scores]


def run(**options: Any) -> Running:
    return Running(chunk_mb=300_000 / MB, **options)


class TestKeys:
    @given(st.lists(st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.binary())))
    def test_the_same_content_has_the_same_key(self, parts: list[str | bytes]) -> None:
        assert Cache.key(*parts) == Cache.key(*parts)

    @given(st.lists(st.binary(max_size=3), max_size=4), st.lists(st.binary(max_size=3), max_size=4))
    def test_other_content_or_another_division_of_it_has_another_key(self, one: list[bytes], two: list[bytes]) -> None:
        assert (Cache.key(*one) == Cache.key(*two)) == (one == two)

    def test_a_file_is_known_by_its_content_not_by_its_name(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        one.write_bytes(b"same")
        two.write_bytes(b"same")
        before = file_digest(str(one))
        assert before == file_digest(str(two))
        one.write_bytes(b"other")
        assert file_digest(str(one)) != before
        with pytest.raises(DataError, match="none: cannot be read: No such file or directory"):
            file_digest(str(tmp_path / "none"))

    def test_a_file_is_read_again_when_its_time_and_size_are_set_back(self, tmp_path: Path) -> None:
        file = tmp_path / "a"
        file.write_text("one")
        before, stat = file_digest(str(file)), file.stat()
        file.write_text("two")
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert file_digest(str(file)) != before

    def test_what_another_version_of_a_library_computed_is_not_found(
        self, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, key = BlobStore("embeddings-0123", folder), bytes(16)
        store.put_many([(key, b"1.5")])
        Cache(folder).put(Cache.key("x"), FRAME)
        (tmp_path / "other" / "torch-0.0.1.dist-info").mkdir(parents=True)
        with monkeypatch.context() as changed:
            changed.syspath_prepend(tmp_path / "other")
            code_digest.cache_clear()
            assert store.get_many([key]) == {}
            assert Cache(folder).get(Cache.key("x")) is None
            store.put_many([(key, b"2.5")])
        code_digest.cache_clear()
        assert store.get_many([key]) == {key: b"1.5"}

    def test_of_a_plugin_the_code_is_part_of_the_key(self) -> None:
        signature = str(FirstLetters().signature)
        assert code_of(FirstLetters()) == file_digest(__file__)
        assert described([FirstLetters()], [signature]) == [f"{signature}, code {file_digest(__file__)[:12]}"]
        assert described([Distinct()], ["distinct"]) == ["distinct"]


class TestEntries:
    def test_an_entry_comes_back_as_it_was(self, folder: Path) -> None:
        cache = Cache()
        assert cache.get(Cache.key("x")) is None
        cache.put(Cache.key("x"), FRAME)
        found = Cache(folder).get(Cache.key("x"))
        assert found is not None
        assert found.equals(FRAME)
        assert cache.get(Cache.key("y")) is None

    @pytest.mark.parametrize("damage", [b"", b"not a table at all", b"\xff" * 4096], ids=["empty", "text", "bytes"])
    def test_an_unreadable_entry_counts_as_absent_and_is_replaced(self, folder: Path, damage: bytes) -> None:
        cache, key = Cache(), Cache.key("x")
        cache.put(key, FRAME)
        (place,) = entries(folder)
        place.write_bytes(damage)
        with pytest.warns(UserWarning, match=rf"{re.escape(str(place))}: damaged"):
            assert cache.get(key) is None
        cache.put(key, FRAME)
        found = cache.get(key)
        assert found is not None
        assert found.equals(FRAME)

    def test_processes_that_write_the_same_key_at_once_never_see_half_an_entry(self, folder: Path) -> None:
        program = """
import polars as pl
from nlgauge.engine.cache import Cache
cache, key = Cache(), Cache.key("shared")
frame = pl.DataFrame({"value": range(20_000)})
for _ in range(150):
    cache.put(key, frame)
    found = cache.get(key)
    assert found is not None and found.equals(frame)
"""
        command = [sys.executable, "-W", "error", "-c", program]
        writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        for writer in writers:
            _, err = writer.communicate()
            assert (writer.returncode, err) == (0, "")
        assert len(entries(folder)) == 1

    def test_a_cache_that_cannot_be_written_is_a_warning(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        cache = Cache(tmp_path / "file" / "cache")
        with pytest.warns(UserWarning, match=r"cache .*file/cache/results: cannot be written: Not a directory"):
            cache.put(Cache.key("x"), FRAME)
        assert cache.get(Cache.key("x")) is None


class TestScores:
    def test_scores_are_the_same_without_a_cache_into_one_and_out_of_it(self, data: Path, folder: Path) -> None:
        without = score(str(data), METRICS, **vars(run(cache=False)))
        assert not folder.exists()
        first = score(str(data), METRICS, **vars(run()))
        held = entries(folder)
        assert len(held) > 2 * len(METRICS)
        second = score(str(data), METRICS, **vars(run()))
        assert plain(without) == plain(first) == plain(second)
        assert entries(folder) == held

    def test_a_second_run_is_served_from_the_cache(self, data: Path) -> None:
        first = score(str(data), [FirstLetters()])
        assert sum(FirstLetters.batches) == 5000
        second = score(str(data), [FirstLetters()])
        assert sum(FirstLetters.batches) == 5000
        assert plain(first) == plain(second)

    def test_the_same_content_under_another_name_is_served_too(self, data: Path, tmp_path: Path) -> None:
        score(str(data), [FirstLetters()])
        copy = tmp_path / "copy.jsonl"
        copy.write_bytes(data.read_bytes())
        score(str(copy), [FirstLetters()])
        assert sum(FirstLetters.batches) == 5000

    def test_other_options_of_a_metric_are_not_served(self, data: Path) -> None:
        one = score(str(data), [FirstLetters()])
        many = score(str(data), [FirstLetters(letters=13)])
        assert sum(FirstLetters.batches) == 10_000
        assert plain(many) == plain(score(str(data), [FirstLetters(letters=13)], cache=False))
        assert one[0].value != many[0].value

    def test_a_changed_record_is_measured_again_and_only_its_chunk(self, data: Path) -> None:
        score(str(data), [FirstLetters()], **vars(run()))
        FirstLetters.batches.clear()
        lines = data.read_text().splitlines(keepends=True)
        lines[-1] = json.dumps(json.loads(lines[-1]) | {"responses": ["x", "y", "z"]}) + "\n"
        data.write_text("".join(lines))
        scores = score(str(data), [FirstLetters()], **vars(run()))
        assert 0 < sum(FirstLetters.batches) < 5000
        assert plain(scores) == plain(score(str(data), [FirstLetters()], **vars(run(cache=False))))

    def test_the_same_lines_read_with_other_columns_are_not_served(self, data: Path) -> None:
        data.write_text(data.read_text().replace('"responses"', '"other": ["a", "b"], "responses"'))
        scores = [
            score(str(data), ["distinct:n=1"], **vars(run()), responses=column)[0].value
            for column in ("responses", "other")
        ]
        assert scores[1] == pytest.approx(1.0)
        assert scores[0] < 1

    def test_damaged_entries_do_not_change_a_score(self, data: Path, folder: Path) -> None:
        first = score(str(data), METRICS, **vars(run()))
        held = entries(folder)
        for place, content in held.items():
            place.write_bytes(content[: len(content) // 2])
        with pytest.warns(UserWarning, match="damaged; it is left out and computed again"):
            assert plain(score(str(data), METRICS, **vars(run()))) == plain(first)
        assert entries(folder) == held

    def test_a_cache_that_cannot_be_written_gives_a_warning_and_the_right_score(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = score(str(data), METRICS, **vars(run(cache=False)))
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "file"))
        with pytest.warns(UserWarning, match="cannot be written"):
            found = score(str(data), METRICS, **vars(run()))
        assert plain(found) == plain(expected)

    def test_a_costly_metric_from_the_cache_needs_no_compiled_code(self, data: Path, tmp_path: Path) -> None:
        program = (
            "import sys\nfrom dataclasses import dataclass\nfrom nlgauge.engine.running import Running\n"
            "from nlgauge.metrics.diversity.ngram import Distinct\nfrom nlgauge.scoring.scoring import score_data\n"
            "from nlgauge.stats.inference import Comparing\n"
            "@dataclass(frozen=True, kw_only=True)\nclass Costly(Distinct):\n    name, costly = 'costly', True\n"
            "found = score_data(sys.argv[1], [Costly()], pairing=Comparing(), running=Running(progress=False))\n"
            "print('numba' in sys.modules, *(one.value for one in found))\n"
        )
        command = [sys.executable, "-c", program, str(data)]
        how: dict[str, Any] = {"env": environment(tmp_path / "cache"), "capture_output": True, "check": True}
        first, second = (subprocess.run(command, **how).stdout.split() for _ in range(2))
        assert [first[0], second[0]] == [b"True", b"False"]
        assert first[1:] == second[1:]

    def test_parallel_runs_of_the_command_share_a_cache(self, data: Path, tmp_path: Path) -> None:
        command = [*COMMAND, "score", data.name, "-m", "distinct", "--format", "json", "--no-compare"]
        runs = [
            subprocess.Popen(
                command,
                cwd=tmp_path,
                env=environment(tmp_path / "cache"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        outputs = [run.communicate() for run in runs]
        assert outputs[0] == outputs[1]
        assert outputs[0][1] == b""
        expected = [entry.to_dict() for entry in score(str(data), ["distinct"], cache=False)]
        assert json.loads(outputs[0][0])["scores"] == expected

    def test_the_command_warns_once_about_a_cache_that_cannot_be_written(self, data: Path, tmp_path: Path) -> None:
        cache = tmp_path / "cache"
        cache.write_text("not a folder")
        outcome = nlgauge("score", data.name, "-m", "distinct", "--no-compare", cwd=tmp_path, cache=cache)
        assert outcome.code == 0
        assert "distinct" in outcome.out
        assert outcome.err.count("\n") == 1
        assert outcome.err.startswith("nlgauge: warning: cache ")
        assert "cannot be written: Not a directory" in outcome.err
