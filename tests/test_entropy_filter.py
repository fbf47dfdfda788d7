"""The entropy filter: entropies as anyone would count them, and the pairs of DailyDialog that it drops."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.data.dialogs import read_pairs
from nlgauge.data.tables import Items
from nlgauge.errors import DataError, OptionError
from nlgauge.studies.entropy_filter import EntropyFilter, Normal, Side, entropy_filter

PAIRS = [
    ("How are you ?", "Fine ."), ("how  are you ?", "I don't know ."), ("How are you ?", "Tired ."),
    ("Where is it ?", "I don't know ."), ("Who is she ?", "I don't know ."), ("Is it late ?", "Yes ."),
    ("Is it far ?", "Yes ."), ("Do you see ?", "I see ."),
]  # fmt: skip
some_pairs = st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("vwxyz")), min_size=1, max_size=40)


def items(pairs: list[tuple[str, str]]) -> Items:
    return Items.of([target for _, target in pairs], contexts=[source for source, _ in pairs])


def slow_entropies(pairs: list[tuple[str, str]]) -> list[float]:
    """Of the second given the first, pair by pair."""
    found = []
    for first, _ in pairs:
        counts = Counter(b for a, b in pairs if a == first)
        total = sum(counts.values())
        found.append(-sum(n / total * math.log2(n / total) for n in counts.values()))
    return found


@given(some_pairs)
def test_entropies_are_those_of_the_definition(pairs: list[tuple[str, str]]) -> None:
    found = entropy_filter(items(pairs))
    assert found.source_entropy == pytest.approx(slow_entropies(pairs), abs=1e-12)
    assert found.target_entropy == pytest.approx(slow_entropies([(b, a) for a, b in pairs]), abs=1e-12)


@given(some_pairs, st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]), st.randoms())
def test_neither_order_nor_names_matter(pairs: list[tuple[str, str]], threshold: float, chance: random.Random) -> None:
    first = entropy_filter(items(pairs), side="both", threshold=threshold)
    order = list(range(len(pairs)))
    chance.shuffle(order)
    names = dict(zip("abcdevwxyz", "edcbazyxwv", strict=True))
    other = entropy_filter(items([pairs[i] for i in order]), side="both", threshold=threshold)
    renamed = entropy_filter(items([(names[a], names[b]) for a, b in pairs]), side="both", threshold=threshold)
    assert other.rows == first.rows
    assert other.signature == first.signature
    assert np.array_equal(other.is_dropped, first.is_dropped[order])
    assert np.array_equal(renamed.source_entropy, first.source_entropy)
    assert np.array_equal(renamed.target_entropy, first.target_entropy)


@given(some_pairs)
def test_both_drops_what_either_side_drops(pairs: list[tuple[str, str]]) -> None:
    sides: tuple[Side, ...] = ("source", "target", "both")
    source, target, both = (entropy_filter(items(pairs), side=side).is_dropped for side in sides)
    assert np.array_equal(both, source | target)


def test_two_equal_neighbours_stay_and_three_go() -> None:
    found = entropy_filter(items(PAIRS), side="target")
    assert found.rows[0] == {
        "side": "target", "utterance": "i don't know .", "utterances": None, "pairs": 3, "neighbours": 3,
        "entropy": pytest.approx(math.log2(3)),
    }  # fmt: skip
    assert found.row("yes .")["entropy"] == 1.0
    assert found.is_dropped.tolist() == [False, True, False, True, True, False, False, False]
    assert found.kept.texts.to_list() == ["Fine .", "Tired .", "Yes .", "Yes .", "I see ."]
    assert found.kept.frame.columns == found.items.frame.columns
    assert found.dropped.frame["target_entropy"].to_list() == pytest.approx([math.log2(3)] * 3)
    assert "dropped 3 of 8 pairs (37.50%), kept 5" in found.notes
    assert str(found.signature).startswith("entropy-filter|side:target|threshold:1|log:2|norm:lower|cluster:identity|")
    assert {"kept": 5, "dropped": 3}.items() <= found.to_dict().items()


def test_normalising_decides_what_is_the_same_utterance() -> None:
    entropies = {}
    ways: tuple[Normal, ...] = ("none", "space", "lower")
    for way in ways:
        found = entropy_filter(items(PAIRS), side="source", normalise=way)
        entropies[way] = found.source_entropy[0]
    assert entropies == {"none": 1.0, "space": 1.0, "lower": pytest.approx(math.log2(3))}


def test_a_bar_of_the_chart_is_kept_or_dropped_as_a_whole() -> None:
    found = entropy_filter(items(PAIRS), side="both")
    spec = found.chart().to_dict()
    assert len(spec["hconcat"]) == 2
    bars = spec["hconcat"][1]["layer"][0]["data"]["values"]
    assert {(bar["low"], bar["high"], bar["pairs"], bar["verdict"]) for bar in bars} == {
        (0.0, 0.25, 3, "kept"), (0.75, 1.0, 2, "kept"), (1.5, 1.75, 3, "dropped"),
    }  # fmt: skip
    assert "layer" in entropy_filter(items(PAIRS), threshold=0).chart().to_dict()


def test_bad_options_and_bad_pairs_are_refused() -> None:
    for options, message in (
        ({"side": "left"}, "side 'left'; expected one of source, target, both"),
        ({"cluster": "k"}, "cluster 'k'"),
        ({"normalise": "upper"}, "normalise 'upper'"),
        ({"threshold": -1.0}, "a threshold of -1.0"),
        ({"threshold": math.nan}, "a threshold of nan"),
        ({"clusters": 3}, "goes with kmeans"),
        ({"bandwidth": 1.0}, "goes with mean-shift"),
        ({"top": -1}, "expected 0 or more"),
    ):
        with pytest.raises(OptionError, match=message):
            entropy_filter(items(PAIRS), **options)
    with pytest.raises(DataError, match="column 'context': no such column"):
        entropy_filter(Items.of(["a"]))
    with pytest.raises(DataError, match="null in the pair '1'"):
        entropy_filter(Items(items(PAIRS[:2]).frame.with_columns(context=pl.Series(["a", None]))))


def small() -> list[tuple[str, str]]:
    """Two kinds of question, each asked in many words, and their answers."""
    things = ["red", "blue", "green", "old", "new", "cheap", "large", "small", "heavy", "light", "round", "square"]
    clothes = [(f"Do you have this coat in {thing} ?", f"Yes , we have a {thing} coat .") for thing in things]
    unknown = [(f"Is the {thing} train on time ?", "I do not know .") for thing in things]
    return clothes + unknown


def test_kmeans_finds_the_two_kinds_in_any_order(minilm: str) -> None:
    pairs = small()
    first = entropy_filter(items(pairs), side="source", cluster="kmeans", clusters=2, model=minilm, threshold=0.5)
    assert [row["utterances"] for row in first.rows] == [12, 12]
    assert [row["pairs"] for row in first.rows] == [12, 12]
    other = entropy_filter(items(pairs[::-1]), side="source", cluster="kmeans", clusters=2, model=minilm, threshold=0.5)
    assert other.rows == first.rows
    assert np.array_equal(other.is_dropped, first.is_dropped[::-1])
    assert "cluster:kmeans|clusters:2|model:minilm@" in str(first.signature)
    with pytest.raises(OptionError, match="25 clusters of 24 different utterances"):
        entropy_filter(items(pairs), cluster="kmeans", clusters=25, model=minilm)


def test_as_many_clusters_as_utterances_are_identity(minilm: str) -> None:
    pairs = [("Is it late ?", "Yes ."), ("Do I know you ?", "Yes ."), ("Is it late ?", "We met in Rome .")]
    found = entropy_filter(items(pairs), cluster="kmeans", clusters=2, model=minilm)
    identity = entropy_filter(items(pairs))
    assert np.array_equal(found.source_entropy, identity.source_entropy)
    assert np.array_equal(found.target_entropy, identity.target_entropy)
    assert {row["utterance"] for row in found.rows} == {"yes .", "we met in rome ."}


def test_mean_shift_goes_by_the_bandwidth(minilm: str) -> None:
    wide = entropy_filter(items(small()), cluster="mean-shift", bandwidth=10, model=minilm)
    assert len(wide.rows) == 1
    assert wide.rows[0]["entropy"] == 0
    narrow = entropy_filter(items(small()), cluster="mean-shift", bandwidth=1e-3, model=minilm, top=100)
    identity = entropy_filter(items(small()), top=100)
    assert np.allclose(narrow.target_entropy, identity.target_entropy)
    assert "bandwidth:auto" in str(entropy_filter(items(small()), cluster="mean-shift", model=minilm).signature)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nlgauge.cli.main", "filter", *arguments], capture_output=True, text=True, check=False
    )


def test_the_command_writes_kept_and_dropped_pairs(tmp_path: Path) -> None:
    dialogs = tmp_path / "dialogs.txt"
    dialogs.write_text("".join(f"{a} __eou__ {b} __eou__\n" for a, b in PAIRS))
    kept, dropped, chart = (tmp_path / name for name in ("kept.jsonl", "dropped.jsonl", "chart.html"))
    done = run(
        "entropy", str(dialogs), "--kept", str(kept), "--dropped", str(dropped), "--chart", str(chart), "-f", "json"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["kept"], document["dropped"]) == (5, 3)
    assert pl.read_ndjson(dropped)["text"].to_list() == ["I don't know ."] * 3
    assert chart.read_text().startswith("<!DOCTYPE html>")
    again = run("entropy", str(kept), "--side", "both", "--top", "1")
    assert again.returncode == 0, again.stderr
    assert "dropped 0 of 5 pairs" in again.stdout
    for wrong in (["--kept", str(dialogs)], ["--kept", str(kept), "--dropped", str(kept)], ["--side", "left"]):
        assert run("entropy", str(dialogs), *wrong).returncode == 2
    for help in (("-h",), ("entropy", "-h")):
        assert "xample" in run(*help).stdout


@pytest.fixture(scope="module")
def dailydialog(research_data: Path) -> Items:
    return read_pairs(research_data / "dailydialog" / "dialogues_train.txt")


def test_generic_utterances_of_dailydialog_are_dropped(dailydialog: Items) -> None:
    started = time.perf_counter()
    sides: tuple[Side, ...] = ("source", "target", "both")
    found: dict[str, EntropyFilter] = {side: entropy_filter(dailydialog, side=side) for side in sides}
    seconds = time.perf_counter() - started
    counts = {side: int(study.is_dropped.sum()) for side, study in found.items()}
    print(f"\n{len(dailydialog)} pairs, dropped {counts}, {seconds:.1f} s")
    for row in found["both"].rows:
        print(f"{row['side']}  {row['utterance']:30} {row['pairs']:5} {row['entropy']:.2f}")
    assert counts == {"source": 4581, "target": 5516, "both": 9784}
    assert {"thank you .", "yes .", "ok .", "i see ."} <= {row["utterance"] for row in found["target"].rows}
    unknown = dailydialog.frame["text"].str.to_lowercase().is_in(["i don't know .", "i don ’ t know ."]).to_numpy()
    assert unknown.sum() == 24
    assert found["target"].is_dropped[unknown].all()


def test_frequent_utterances_go_and_rare_ones_stay(dailydialog: Items) -> None:
    found = entropy_filter(dailydialog)
    times = dailydialog.frame.select(pl.col("text").str.to_lowercase().len().over(pl.col("text").str.to_lowercase()))
    counts = times.to_series().to_numpy()
    assert not found.is_dropped[counts < 3].any()
    assert found.is_dropped[counts >= 30].mean() > 0.99
