"""The entropy filter: entropies as anyone would count them, and the pairs of DailyDialog that it drops."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nlgauge.data.dialogs import read_pairs
from nlgauge.data.tables import Items
from nlgauge.errors import DataError, OptionError
from nlgauge.studies.base import Result
from nlgauge.studies.ruq.entropy_filter import EntropyFilter, Normal, Side
from nlgauge.studies.ruq.utterance_clusters import Clustering, Method, utterance_vectors
from tests.errors import raises

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
    found = EntropyFilter().run(items(pairs))
    assert found.detail.entropies["source"] == pytest.approx(slow_entropies(pairs), abs=1e-12)
    assert found.detail.entropies["target"] == pytest.approx(slow_entropies([(b, a) for a, b in pairs]), abs=1e-12)


@given(some_pairs, st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]), st.randoms())
def test_neither_order_nor_names_matter(pairs: list[tuple[str, str]], threshold: float, chance: random.Random) -> None:
    first = EntropyFilter(side="both", threshold=threshold).run(items(pairs))
    order = list(range(len(pairs)))
    chance.shuffle(order)
    names = dict(zip("abcdevwxyz", "edcbazyxwv", strict=True))
    other = EntropyFilter(side="both", threshold=threshold).run(items([pairs[i] for i in order]))
    renamed = EntropyFilter(side="both", threshold=threshold).run(items([(names[a], names[b]) for a, b in pairs]))
    assert other.rows == first.rows
    assert other.signature == first.signature
    assert np.array_equal(other.detail.is_dropped, first.detail.is_dropped[order])
    assert np.array_equal(renamed.detail.entropies["source"], first.detail.entropies["source"])
    assert np.array_equal(renamed.detail.entropies["target"], first.detail.entropies["target"])


@given(some_pairs)
def test_both_drops_what_either_side_drops(pairs: list[tuple[str, str]]) -> None:
    sides: tuple[Side, ...] = ("source", "target", "both")
    source, target, both = (EntropyFilter(side=side).run(items(pairs)).detail.is_dropped for side in sides)
    assert np.array_equal(both, source | target)


def test_two_equal_neighbours_stay_and_three_go() -> None:
    found = EntropyFilter(side="target").run(items(PAIRS))
    assert found.rows[0] == {
        "side": "target", "utterance": "i don't know .", "utterances": None, "pairs": 3, "neighbours": 3,
        "entropy": pytest.approx(math.log2(3)),
    }  # fmt: skip
    assert found.row("yes .")["entropy"] == 1.0
    assert found.detail.is_dropped.tolist() == [False, True, False, True, True, False, False, False]
    assert found.detail.kept.texts.to_list() == ["Fine .", "Tired .", "Yes .", "Yes .", "I see ."]
    assert found.detail.kept.frame.columns == found.detail.items.frame.columns
    assert found.detail.dropped.frame["target_entropy"].to_list() == pytest.approx([math.log2(3)] * 3)
    assert found.sentence.startswith("Dropped 3 of 8 pairs (37.50%)")
    assert str(found.signature).startswith("entropy-filter|cluster:identity|side:target|threshold:1.0|normalise:lower|")
    assert EntropyFilter.from_options(found.signature.options) == found.study
    assert {"kept": 5, "dropped": 3}.items() <= found.to_dict().items()


def test_normalising_decides_what_is_the_same_utterance() -> None:
    entropies = {}
    ways: tuple[Normal, ...] = ("none", "space", "lower")
    for way in ways:
        found = EntropyFilter(side="source", normalise=way).run(items(PAIRS))
        entropies[way] = found.detail.entropies["source"][0]
    assert entropies == {"none": 1.0, "space": 1.0, "lower": pytest.approx(math.log2(3))}


def test_a_bar_of_the_chart_is_kept_or_dropped_as_a_whole() -> None:
    found = EntropyFilter(side="both").run(items(PAIRS))
    spec = found.chart().to_dict()
    assert len(spec["hconcat"]) == 2
    bars = spec["hconcat"][1]["layer"][0]["data"]["values"]
    assert {(bar["low"], bar["high"], bar["pairs"], bar["verdict"]) for bar in bars} == {
        (0.0, 0.25, 3, "kept"), (0.75, 1.0, 2, "kept"), (1.5, 1.75, 3, "dropped"),
    }  # fmt: skip
    assert "layer" in EntropyFilter(threshold=0).run(items(PAIRS)).chart().to_dict()


def test_bad_options_and_bad_pairs_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"side": "left"}, "side"),
        ({"cluster": "k"}, "cluster"),
        ({"normalise": "upper"}, "normalise"),
        ({"threshold": -1.0}, "threshold"),
        ({"threshold": math.nan}, "threshold"),
        ({"clusters": 3}, "clusters"),
        ({"bandwidth": 1.0}, "bandwidth"),
        ({"top": -1}, "top"),
        ({"context_turns": 0}, "context_turns"),
        ({"cluster": "kmeans", "clusters": -1}, "clusters"),
        ({"cluster": "kmeans", "min_pairs": -1}, "min_pairs"),
        ({"cluster": "kmeans", "max_mean_words": math.inf}, "max_mean_words"),
        ({"min_pairs": 5}, "min_pairs"),
    ]
    for options, name in wrong:
        with pytest.raises(OptionError) as error:
            EntropyFilter(**options)
        assert error.value.option == name
    with raises(DataError, column="context", option="context"):
        EntropyFilter().run(Items.of(["a"]))
    with pytest.raises(DataError, match="null in the pair '1'"):
        EntropyFilter().run(Items(items(PAIRS[:2]).frame.with_columns(context=pl.Series(["a", None]))))


def small() -> list[tuple[str, str]]:
    """Two kinds of question, each asked in many words, and their answers."""
    things = ["red", "blue", "green", "old", "new", "cheap", "large", "small", "heavy", "light", "round", "square"]
    clothes = [(f"Do you have this coat in {thing} ?", f"Yes , we have a {thing} coat .") for thing in things]
    unknown = [(f"Is the {thing} train on time ?", "I do not know .") for thing in things]
    return clothes + unknown


def test_kmeans_finds_the_two_kinds_in_any_order(minilm: str) -> None:
    pairs = small()
    first = EntropyFilter(side="source", cluster="kmeans", clusters=2, embedding=minilm, threshold=0.5).run(
        items(pairs)
    )
    assert [row["utterances"] for row in first.rows] == [12, 12]
    assert [row["pairs"] for row in first.rows] == [12, 12]
    other = EntropyFilter(side="source", cluster="kmeans", clusters=2, embedding=minilm, threshold=0.5).run(
        items(pairs[::-1])
    )
    assert other.rows == first.rows
    assert np.array_equal(other.detail.is_dropped, first.detail.is_dropped[::-1])
    assert "cluster:kmeans|clusters:2|embedding:minilm@" in str(first.signature)
    with pytest.raises(OptionError, match="clusters=25 for 24 different utterances"):
        EntropyFilter(cluster="kmeans", clusters=25, embedding=minilm).run(items(pairs))


def test_as_many_clusters_as_utterances_are_identity(minilm: str) -> None:
    pairs = [("Is it late ?", "Yes ."), ("Do I know you ?", "Yes ."), ("Is it late ?", "We met in Rome .")]
    found = EntropyFilter(cluster="kmeans", clusters=2, embedding=minilm).run(items(pairs))
    identity = EntropyFilter().run(items(pairs))
    assert np.array_equal(found.detail.entropies["source"], identity.detail.entropies["source"])
    assert np.array_equal(found.detail.entropies["target"], identity.detail.entropies["target"])
    assert {row["utterance"] for row in found.rows} == {"yes .", "we met in rome ."}


def test_mean_shift_goes_by_the_bandwidth(minilm: str) -> None:
    wide = EntropyFilter(cluster="mean-shift", bandwidth=10, embedding=minilm).run(items(small()))
    assert len(wide.rows) == 1
    assert wide.rows[0]["entropy"] == 0
    narrow = EntropyFilter(cluster="mean-shift", bandwidth=1e-3, embedding=minilm, top=100).run(items(small()))
    identity = EntropyFilter(top=100).run(items(small()))
    assert np.allclose(narrow.detail.entropies["target"], identity.detail.entropies["target"])
    assert "bandwidth:0.0" in str(EntropyFilter(cluster="mean-shift", embedding=minilm).run(items(small())).signature)


WORDS = {
    "red": (1.0, 0.2, 0.0), "blue": (0.9, -0.1, 0.1), "coat": (0.4, 0.9, -0.2), "train": (-0.8, 0.1, 0.5),
    "late": (-0.9, -0.3, 0.4), "the": (0.1, 0.1, 0.1), "?": (0.0, -0.2, -0.6),
}  # fmt: skip
some_words = st.lists(st.sampled_from([*WORDS, "xyzzy", "Red"]), max_size=6).map(" ".join)
word_pairs = st.lists(st.tuples(some_words, some_words), min_size=2, max_size=15)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("vectors") / "tiny.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in WORDS.items()))
    return str(path)


def slow_vectors(texts: Sequence[str]) -> dict[str, tuple[float, ...] | None]:
    """Each text's mean of known words, frequent ones weighing less; None without any."""
    said = [word for text in texts for word in text.lower().split() if word in WORDS]
    found: dict[str, tuple[float, ...] | None] = {}
    for text in texts:
        known = [word for word in text.lower().split() if word in WORDS]
        weights = [0.001 / (0.001 + said.count(word) / len(said)) for word in known]
        rows = [[w * x for x in WORDS[word]] for word, w in zip(known, weights, strict=True)]
        found[text] = tuple(sum(column) / len(rows) for column in zip(*rows, strict=True)) if rows else None
    return found


def slow_mean_shift(points: list[tuple[float, ...]], bandwidth: float) -> list[int]:
    """Every point climbs to the mean of its neighbours; of modes so near, the one with most neighbours stays."""
    modes = {}
    for point in points:
        here = np.array(point)
        for _ in range(300):
            near = [other for other in points if math.dist(here, other) <= bandwidth]
            step, here = here, np.mean(near, axis=0)
            if math.dist(step, here) <= 1e-3 * bandwidth:
                break
        modes[tuple(here.tolist())] = len(near)
    centres: list[tuple[float, ...]] = []
    for mode in sorted(modes, key=lambda one: (modes[one], one), reverse=True):
        if all(math.dist(mode, centre) > bandwidth for centre in centres):
            centres.append(mode)
    return [min(range(len(centres)), key=lambda i: math.dist(point, centres[i])) for point in points]


def partition(labels: Sequence[object], texts: Sequence[str]) -> set[frozenset[str]]:
    return {frozenset(t for t, other in zip(texts, labels, strict=True) if other == one) for one in labels}


@given(texts=st.lists(some_words, min_size=1, max_size=12))
def test_words_weigh_by_their_smooth_inverse_frequency(vectors: str, texts: list[str]) -> None:
    expected = slow_vectors(texts)
    different = sorted(set(texts))
    found, is_known = utterance_vectors(pl.Series(different), np.array([texts.count(t) for t in different]), vectors)
    assert is_known.tolist() == [expected[text] is not None for text in different]
    for text, row in zip(different, found.tolist(), strict=True):
        assert row == pytest.approx(expected[text] or (0.0, 0.0, 0.0), abs=1e-7)


@settings(max_examples=40)
@given(texts=st.lists(some_words, min_size=3, max_size=12), bandwidth=st.sampled_from([0.003, 0.01, 0.05]))
def test_mean_shift_equals_a_slow_one(vectors: str, texts: list[str], bandwidth: float) -> None:
    expected = slow_vectors(texts)
    known = sorted({text for text in texts if expected[text]})
    assume(known)
    clusters = Clustering(cluster="mean-shift", bandwidth=bandwidth, embedding=vectors).clusters_of(pl.Series(texts))
    alone = {text for text in texts if expected[text] is None}
    slow = partition(slow_mean_shift([expected[text] or () for text in known], bandwidth), known)
    assert partition(clusters.of_pairs.tolist(), texts) == slow | {frozenset([text]) for text in alone}
    assert clusters.unknown == len(alone)


@settings(max_examples=40)
@given(texts=st.lists(some_words, min_size=3, max_size=12), count=st.integers(1, 3))
def test_with_kmeans_everyone_is_nearest_to_the_mean_of_its_own(vectors: str, texts: list[str], count: int) -> None:
    expected = slow_vectors(texts)
    points = {text: np.array(vector) for text, vector in expected.items() if vector}
    assume(len({tuple(point) for point in points.values()}) >= count)
    clusters = Clustering(cluster="kmeans", clusters=count, embedding=vectors).clusters_of(pl.Series(texts))
    together = partition(clusters.of_pairs.tolist(), texts)
    means = {group: np.mean([points[t] for t in group], axis=0) for group in together if group <= points.keys()}
    assert len(means) <= count
    for group, centre in means.items():
        for text in group:
            nearest = min(float(np.linalg.norm(points[text] - mean)) for mean in means.values())
            assert float(np.linalg.norm(points[text] - centre)) == pytest.approx(nearest, abs=1e-6)
    assert {len(group) for group in together if not group <= points.keys()} <= {1}


@settings(max_examples=40)
@given(pairs=word_pairs, method=st.sampled_from(["kmeans", "mean-shift"]), chance=st.randoms())
def test_clustered_entropies_are_those_of_the_definition_in_any_order(
    vectors: str, pairs: list[tuple[str, str]], method: Method, chance: random.Random
) -> None:
    assume(all(any(slow_vectors(side).values()) for side in zip(*pairs, strict=True)))
    width = 0.01 if method == "mean-shift" else 0.0
    sources, targets = zip(*pairs, strict=True)
    way = Clustering(cluster=method, bandwidth=width, embedding=vectors)
    numbers = [
        way.clusters_of(pl.Series([text.lower() for text in side])).of_pairs.tolist() for side in (sources, targets)
    ]
    clustered = [(str(a), str(b)) for a, b in zip(*numbers, strict=True)]

    def filtered(some: list[tuple[str, str]]) -> Result:
        return EntropyFilter(side="both", cluster=method, bandwidth=width, embedding=vectors).run(items(some))

    found = filtered(pairs)
    assert found.detail.entropies["source"] == pytest.approx(slow_entropies(clustered), abs=1e-12)
    assert found.detail.entropies["target"] == pytest.approx(slow_entropies([(b, a) for a, b in clustered]), abs=1e-12)
    order = list(range(len(pairs)))
    chance.shuffle(order)
    other = filtered([pairs[i] for i in order])
    assert (other.rows, other.signature, other.notes) == (found.rows, found.signature, found.notes)
    assert np.array_equal(other.detail.is_dropped, found.detail.is_dropped[order])


def test_an_utterance_without_a_known_word_is_a_cluster_of_its_own(vectors: str) -> None:
    pairs = [("red coat", "xyzzy"), ("blue coat", "plugh"), ("late train", "XYZZY"), ("", "the")]
    found = EntropyFilter(cluster="kmeans", clusters=1, embedding=vectors, side="both", threshold=0).run(items(pairs))
    assert "2 different targets have no word with a vector in " + vectors in " ".join(found.notes)
    assert "1 different sources have no word with a vector" in " ".join(found.notes)
    assert sorted(row["utterance"] for row in found.rows if row["side"] == "target") == ["plugh", "the", "xyzzy"]
    assert found.facts["words"] == "sif-0.001"
    with pytest.raises(DataError, match="none of 2 different utterances has a word with a vector"):
        EntropyFilter(cluster="kmeans", embedding=vectors).run(items([("xyzzy", "red"), ("plugh", "red")]))
    with pytest.raises(DataError, match=r"nowhere\.txt: cannot be read"):
        EntropyFilter(cluster="kmeans", embedding="nowhere.txt").run(items(pairs))


def test_small_and_long_clusters_can_be_spared(vectors: str) -> None:
    long = "the late train the late train"
    pairs = [("red", "coat"), ("red", "train"), (long, "coat"), (long, "train"), (long, "late"), (long, "coat")]

    def dropped(**options: float) -> list[bool]:
        chosen = EntropyFilter(
            side="source",
            threshold=0,
            cluster="kmeans",
            clusters=2,
            embedding=vectors,
            **options,  # type: ignore[arg-type]
        )
        found = chosen.run(items(pairs))
        bars = found.chart().to_dict()["layer"][0]["data"]["values"]
        assert sum(bar["pairs"] for bar in bars if bar["verdict"] == "dropped") == found.detail.is_dropped.sum()
        if options:
            ((name, value),) = options.items()
            assert f"|{name}:{value}|" in str(found.signature)
            assert any("of these clusters stay" in note for note in found.notes) == (not found.detail.is_dropped.all())
        return [bool(one) for one in found.detail.is_dropped]

    first, second = [True] * 2 + [False] * 4, [False] * 2 + [True] * 4
    assert dropped() == [True] * 6
    assert dropped(min_pairs=3) == second
    assert dropped(min_pairs=2) == [True] * 6
    assert dropped(max_mean_words=6) == dropped(max_medoid_words=6) == first
    assert dropped(max_mean_words=6.5) == dropped(max_medoid_words=7) == [True] * 6
    assert dropped(max_mean_words=1) == [False] * 6


def test_average_glove_vectors_put_topics_together(glove: str, tmp_path: Path) -> None:
    foods, days = ("bread", "cheese", "soup", "rice", "pasta", "chicken"), ("monday", "tuesday", "friday", "sunday")
    topics = [[f"Do you want some {food} ?" for food in foods], [f"Are you free on {day} ?" for day in days]]
    pairs = [(source, "Yes ." if "want" in source else "I am .") for topic in topics for source in topic]
    found = Clustering(cluster="kmeans", clusters=2, embedding=glove).clusters_of(
        pl.Series([source for source, _ in pairs])
    )
    assert partition(found.of_pairs.tolist(), [a for a, _ in pairs]) == {frozenset(topic) for topic in topics}
    (tmp_path / "pairs.jsonl").write_text(
        "".join(json.dumps({"context": source, "text": target}) + "\n" for source, target in pairs)
    )
    arguments = ["--cluster", "mean-shift", "--bandwidth", "0.5", "--embedding", glove, "--max-mean-words", "15"]
    done = run("entropy", str(tmp_path / "pairs.jsonl"), *arguments, "--side", "both")
    assert done.returncode == 0, done.stderr
    assert f"bandwidth:0.5|embedding:{glove}@" in done.stdout
    assert "max_mean_words:15.0" in done.stdout


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
    assert "Dropped 0 of 5 pairs" in again.stdout
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
    found = {side: EntropyFilter(side=side).run(dailydialog) for side in sides}
    seconds = time.perf_counter() - started
    counts = {side: int(study.detail.is_dropped.sum()) for side, study in found.items()}
    print(f"\n{len(dailydialog)} pairs, dropped {counts}, {seconds:.1f} s")
    for row in found["both"].rows:
        print(f"{row['side']}  {row['utterance']:30} {row['pairs']:5} {row['entropy']:.2f}")
    assert counts == {"source": 4581, "target": 5516, "both": 9784}
    assert {"thank you .", "yes .", "ok .", "i see ."} <= {row["utterance"] for row in found["target"].rows}
    unknown = dailydialog.frame["text"].str.to_lowercase().is_in(["i don't know .", "i don ’ t know ."]).to_numpy()
    assert unknown.sum() == 24
    assert found["target"].detail.is_dropped[unknown].all()


def test_frequent_utterances_go_and_rare_ones_stay(dailydialog: Items) -> None:
    found = EntropyFilter().run(dailydialog)
    times = dailydialog.frame.select(pl.col("text").str.to_lowercase().len().over(pl.col("text").str.to_lowercase()))
    counts = times.to_series().to_numpy()
    assert not found.detail.is_dropped[counts < 3].any()
    assert found.detail.is_dropped[counts >= 30].mean() > 0.99
