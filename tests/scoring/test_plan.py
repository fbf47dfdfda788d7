"""`nlgauge plan` foretells what a run takes, and refuses what will not fit."""

from __future__ import annotations

import json
import random
import time
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nlgauge.data import Reading, Source
from nlgauge.data.sources.sampling import take_sample
from nlgauge.errors import OptionError
from nlgauge.metrics.registry import create_metrics
from nlgauge.scoring.costs import Estimate, Plan, Room
from nlgauge.scoring.planning import PlanOptions, plan
from nlgauge.stats.inference import Inference
from tests.helpers import Outcome, nlgauge, packed

TEXTS = 200_000
ROOMY = Room(1 << 40, 1 << 40, 2)


def made_texts(count: int, seed: int = 5) -> list[str]:
    """Texts of 5 to 20 words, whose frequencies fall as those of natural words do."""
    random_numbers = random.Random(seed)
    words = [f"word{i}" for i in range(50_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    drawn = iter(random_numbers.choices(words, cum_weights=weights, k=20 * count))
    return [" ".join(next(drawn) for _ in range(random_numbers.randint(5, 20))) for _ in range(count)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(made_texts(TEXTS)) + "\n")
    return path


def run(*arguments: str, folder: Path) -> Outcome:
    return nlgauge(*arguments, cwd=folder, cache=folder / "cache")


def planned(path: Path | str, *metrics: str, **options: Any) -> Plan:
    chosen = PlanOptions(**{"room": ROOMY, **options})
    return plan([Source(path=str(path))], create_metrics(metrics), chosen)


class TestForetelling:
    def test_time_is_foretold_within_a_factor_of_two(self, corpus: Path, tmp_path: Path) -> None:
        """Other programs may take the machine's time from one of the two, so there are three tries."""
        ratios = []
        for _ in range(3):
            foretold = run("plan", str(corpus), "-m", "distinct:over=corpus", "--format", "json", folder=tmp_path)
            assert foretold.code == 0, foretold.err
            clock = time.perf_counter()
            done = run("score", str(corpus), "-m", "distinct:over=corpus", "--no-cache", folder=tmp_path)
            spent = time.perf_counter() - clock
            assert done.code == 0, done.err
            ratios.append(json.loads(foretold.out)["seconds"]["1"]["value"] / spent)
            if 0.5 <= ratios[-1] <= 2:
                return
        pytest.fail(f"foretold / spent: {ratios}")

    @pytest.mark.parametrize("confidence", [False, True])
    def test_disk_is_foretold_within_30_percent(self, corpus: Path, tmp_path: Path, confidence: bool) -> None:
        interval = Inference() if confidence else None
        foretold = planned(corpus, "distinct:over=corpus", by_parts=True, interval=interval).scratch_bytes
        flags = ["--confidence"] if confidence else []
        kept = tmp_path / "run"
        done = run("score", str(corpus), "-m", "distinct:over=corpus", "--run", str(kept), *flags, folder=tmp_path)
        assert done.code == 0, done.err
        taken = sum(file.stat().st_size for file in kept.rglob("*") if file.is_file())
        assert 0.7 <= foretold / taken <= 1.3

    def test_texts_are_estimated_with_an_error_that_covers_them(self, corpus: Path) -> None:
        found = [planned(corpus, "distinct:over=corpus,n=1", seed=seed).texts for seed in range(10)]
        assert all(abs(texts.value / TEXTS - 1) < 0.02 for texts in found)
        assert sum(texts.low <= TEXTS <= texts.high for texts in found) >= 8

    def test_a_small_file_is_counted(self, examples: Path) -> None:
        found = planned(examples / "system_a.jsonl", "distinct")
        lines = (examples / "system_a.jsonl").read_text().splitlines()
        texts = sum(len(json.loads(line)["responses"]) for line in lines)
        assert found.counted
        assert found.texts == Estimate(texts, 0.0)

    def test_model_calls_are_counted_whatever_is_remembered(self, tmp_path: Path, minilm: str) -> None:
        path = tmp_path / "a.jsonl"
        texts = made_texts(60)
        path.write_text("".join(json.dumps({"responses": [a, b, b]}) + "\n" for a, b in pairwise(texts)))
        command = ("plan", str(path), "-m", f"sent-sim:model={minilm}", "--json")
        found = [json.loads(run(*command, folder=tmp_path).out)["model_calls"] for _ in range(2)]
        assert found == [{"embeddings": {"value": 60, "low": 60, "high": 60}}] * 2


class TestSample:
    @pytest.mark.parametrize("form", ["a.txt", "a.txt.gz", "a.jsonl", "a.parquet", "a.csv"])
    def test_every_format_is_sampled(self, tmp_path: Path, form: str) -> None:
        texts, path = made_texts(20_000), tmp_path / form
        if form == "a.parquet":
            pl.DataFrame({"text": texts}).write_parquet(path)
        else:
            lines = [json.dumps({"text": text}) for text in texts] if form == "a.jsonl" else texts
            header = "text\n" if form == "a.csv" else ""
            path.write_bytes(packed((header + "\n".join(lines) + "\n").encode(), ".gz" if form.endswith(".gz") else ""))
        sample = take_sample([Source(path=str(path))], pieces=8, seed=1, piece_bytes=16_000)
        tables = [table for piece in sample.pieces if (table := piece.table()) is not None]
        known = set(texts)
        assert all(text in known for table in tables for text in table.texts)
        value, _ = sample.total([len(table.texts) for table in tables])
        assert 0.8 < value / len(texts) < 1.25

    def test_sets_of_lines_are_sampled_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("\n".join(made_texts(30_000)) + "\n")
        source = Source(path=str(path), reading=Reading(set_size=3))
        sample = take_sample([source], pieces=8, seed=1, piece_bytes=16_000)
        counts = [len(piece.table().texts) for piece in sample.pieces]  # type: ignore[union-attr]
        assert all(count % 3 == 0 for count in counts)
        assert abs(sample.total(counts)[0] - 30_000) < 1_500

    def test_skew_between_shards_shows(self, tmp_path: Path) -> None:
        """Short texts in one shard and long ones in another of the same size: both are met."""
        (tmp_path / "a.txt").write_text("short\n" * 100_000)
        (tmp_path / "b.txt").write_text(("long " * 100).strip() + "\n" + ("long " * 100 + "\n") * 1_200)
        sample = take_sample([Source(path=str(tmp_path))], pieces=16, seed=1, piece_bytes=8_000)
        value, error = sample.total([len(piece.table().texts) for piece in sample.pieces])  # type: ignore[union-attr]
        assert abs(value - 101_201) < 3 * error

    def test_the_same_seed_takes_the_same_sample(self, corpus: Path) -> None:
        one, same, other = (
            [piece.chunk.payload for piece in take_sample([Source(path=str(corpus))], pieces=4, seed=seed).pieces]
            for seed in (1, 1, 2)
        )
        assert one == same
        assert one != other

    def test_standard_input_cannot_be_sampled(self) -> None:
        with pytest.raises(OptionError, match="can be read only once"):
            take_sample([Source(path="-")], pieces=4, seed=1)


class TestRefusing:
    def test_too_little_disk(self, corpus: Path, tmp_path: Path) -> None:
        done = run(
            "plan", str(corpus), "-m", "distinct:over=corpus", "--run", "run", "--disk-gb", "0.001", folder=tmp_path
        )
        assert done.code == 1
        assert "will not fit: needs about" in done.err
        for way in ("scratch space", "count=hll-16", "fewer n-gram orders", "NLGAUGE_SCRATCH"):
            assert way in done.err
        assert not (tmp_path / "run").exists()

    def test_too_little_memory(self, corpus: Path, tmp_path: Path) -> None:
        done = run(
            "plan", str(corpus), "-m", "distinct:over=corpus", "--workers", "2", "--memory-gb", "0.1", folder=tmp_path
        )
        assert done.code == 1
        assert "of memory; there are 100 MB: try count=hll-16, fewer n-gram orders (n=1-2), fewer workers" in done.err

    def test_a_sketch_needs_no_disk(self, corpus: Path, tmp_path: Path) -> None:
        done = run(
            "plan", str(corpus), "-m", "distinct:over=corpus", "--sketch", "--run", "run", "--disk-gb", "0.01",
            "--format", "json", folder=tmp_path,
        )  # fmt: skip
        assert done.code == 0, done.err
        assert json.loads(done.out)["fits"]

    def test_bad_input_and_options_are_told(self, corpus: Path, tmp_path: Path) -> None:
        for arguments, says in [
            (["none.txt"], "none.txt: no such file"),
            ([str(corpus), "-m", "distinct"], "holds single texts"),
            ([str(corpus), "--seconds", "0"], "--seconds 0"),
            ([str(corpus), "--workers", "-1"], "--workers -1"),
            ([str(corpus), "--memory-gb", "-1"], "--memory-gb -1"),
            ([str(corpus), "--engine", "sun"], "sun"),
        ]:
            done = run("plan", *arguments, folder=tmp_path)
            assert done.code == 2, done.err
            assert says in done.err
