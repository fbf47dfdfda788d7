"""Studies on small data: what they compute, what they refuse, and that order does not matter."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import nlgauge
from nlgauge.data.tables import Ratings
from nlgauge.data.writing import write_table
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.report.study_tables import render_study
from nlgauge.stats.correlation import bootstrap_intervals
from nlgauge.studies.base import Result
from nlgauge.studies.diversity.decoding import draw_subsets
from nlgauge.studies.diversity.nuggets import draw_balanced
from nlgauge.studies.registry import STUDIES as REGISTRY
from nlgauge.studies.registry import create_study, study_names
from tests import slow
from tests.data.test_frames import Arrow
from tests.engine.fixtures import Costly
from tests.errors import raises
from tests.helpers import Outcome
from tests.helpers import nlgauge as command

WORDS = (
    "the", "a", "of", "rain", "sun", "cat", "dog", "runs", "sleeps", "slowly", "today", "near", "far", "old", "new",
    "river", "hill", "wind",
)  # fmt: skip


def made_sets(count: int = 40, seed: int = 0) -> nlgauge.ResponseSets:
    """Sets whose variety grows with a parameter, half of them labelled diverse."""
    rng = np.random.default_rng(seed)
    responses, levels = [], []
    for _ in range(count):
        level = float(rng.integers(1, 11)) / 10
        pool = WORDS[: 2 + int(level * 16)]
        responses.append([" ".join(rng.choice(pool, 6)) for _ in range(4)])
        levels.append(level)
    return nlgauge.ResponseSets.of(
        responses,
        ids=[f"s{i}" for i in range(count)],
        contexts=[f"context {i % 8}" for i in range(count)],
        columns={
            "temperature": levels,
            "label": [int(level > 0.5) for level in levels],
            "constant": [1.0] * count,
            "human_mean": [level + 0.1 * rng.normal() for level in levels],
            "human_std": [0.3] * count,
            "task": ["x" if i % 2 else "y" for i in range(count)],
        },
    )


def write_sets(folder: Path, **changes: Any) -> Path:
    changed = [pl.Series(name, values, strict=False) for name, values in changes.items()]
    made_sets().to_polars().with_columns(changed).write_ndjson(folder / "sets.jsonl")
    return folder / "sets.jsonl"


def run(folder: Path, *arguments: str) -> Outcome:
    return command("study", *arguments, cwd=folder, cache=folder / "cache")


PLUGINS: dict[str, Callable[[Any], Result]] = {
    name: create_study(f"{name}:metrics=distinct+self-bleu").run
    for name in study_names()
    if name not in REGISTRY.built_in
}
STUDIES: dict[str, Callable[[Any], Result]] = {
    **PLUGINS,
    "content": lambda data: nlgauge.ContentTest(metrics=["distinct", "self-bleu"], permutations=100).run(data),
    "decoding": lambda data: nlgauge.DecodingTest(
        metrics=["distinct", "cos-sim"], columns=["human_mean"], subset=20, repeats=10, permutations=100
    ).run(data),
    "ranking": lambda data: nlgauge.RankingTest(metrics=["distinct"], parameter="temperature").run(data),
    "correlation": lambda data: nlgauge.CorrelationStudy(
        metrics=["distinct", "self-bleu"], truth="human_mean", permutations=100
    ).run(data),
    "nuggets": lambda data: nlgauge.Nuggets(group_size=10).run(data),
    "stability": lambda data: nlgauge.Stability(
        column="human_mean", truth="temperature", sets=[10, 40], per_set=[1, 10], repeats=20
    ).run(data),
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_gives_rows_a_signature_frames_and_a_chart(name: str, tmp_path: Path) -> None:
    study = STUDIES[name](made_sets())
    assert study.name == name
    assert str(study.signature).startswith(f"{name}|")
    document = json.loads(study.to_json())
    assert document["study"] == name
    assert document["rows"] == json.loads(json.dumps(list(study.rows)))
    assert study.to_polars().height == len(study.rows) == len(study.to_pandas())
    assert study.sentence in render_study(study, "markdown")
    assert study.sentence in render_study(study, "latex")
    if name in PLUGINS and not study.study.has_chart():
        return
    for ending in (".html", ".png", ".svg", ".pdf"):
        nlgauge.save_chart(study.chart(), tmp_path / f"chart{ending}")
        assert (tmp_path / f"chart{ending}").stat().st_size > 1000
    with pytest.raises(OptionError, match=r"cannot be '\.gif'"):
        nlgauge.save_chart(study.chart(), tmp_path / "chart.gif")


@pytest.mark.parametrize("name", STUDIES)
def test_the_order_of_sets_does_not_matter(name: str) -> None:
    sets = made_sets()
    shuffled = sets.select(np.random.default_rng(3).permutation(len(sets)))
    one, other = STUDIES[name](sets), STUDIES[name](shuffled)
    assert str(one.signature) == str(other.signature)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a.keys() == b.keys()
        for key, value in a.items():
            exact = value is None or isinstance(value, str | int) or (isinstance(value, list) and "distinct" in value)
            assert b[key] == (value if exact else pytest.approx(value, abs=1e-12)), key


def test_what_else_is_measured_does_not_matter() -> None:
    sets = made_sets()
    alone = nlgauge.ContentTest(metrics=["distinct"]).run(sets).row("distinct")
    among = nlgauge.ContentTest(metrics=["cos-sim", "distinct"], columns=["human_mean"]).run(sets).row("distinct")
    assert {k: v for k, v in alone.items() if k not in ("cluster", "tied_with")} == {
        k: v for k, v in among.items() if k not in ("cluster", "tied_with")
    }


def test_a_result_says_which_tests_are_a_family() -> None:
    found = nlgauge.ContentTest(metrics=["cos-sim", "distinct"]).run(made_sets())
    assert found.notes[-2:] == (
        "2 p-values, each of a test by itself: they are not corrected for their number",
        "clusters: all pairs of metrics on the same items are one family of tests, corrected by max-T",
    )
    alone = nlgauge.ContentTest(metrics=["distinct"]).run(made_sets())
    assert not any("family" in note or "p-values" in note for note in alone.notes)


def test_metrics_that_fall_with_diversity_are_turned_round_and_this_is_said() -> None:
    study = nlgauge.DecodingTest(metrics=["self-bleu"], significance=False).run(made_sets())
    assert study.row("self-bleu")["spearman"] > 0.3
    assert any("self-bleu was negated" in note for note in study.notes)


def test_a_column_makes_tasks() -> None:
    sets = made_sets()
    study = nlgauge.DecodingTest(metrics=["distinct"], by="task").run(sets)
    assert study.tasks == ["y", "x"]
    parts = [sets.select(np.flatnonzero((sets.frame["task"] == name).to_numpy())) for name in study.tasks]
    both = nlgauge.DecodingTest(metrics=["distinct"], tasks=study.tasks).run(parts)
    assert [r["spearman"] for r in both.rows] == [r["spearman"] for r in study.rows]


def test_top_k_goes_by_its_logarithm() -> None:
    sets = made_sets()
    frame = sets.to_polars().with_columns(top_k=(pl.col("temperature") * 10).cast(pl.Int64)).drop("temperature")
    study = nlgauge.DecodingTest(metrics=["distinct"], significance=False).run(frame)
    assert study.facts["scale"] == "log10"
    values = nlgauge.score(sets, ["distinct"])[0].per_item
    assert values is not None
    logs = np.log10(frame["top_k"].to_numpy())
    assert study.rows[0]["pearson"] == pytest.approx(np.corrcoef(values["value"].to_numpy(), logs)[0, 1])
    zero = frame.with_columns(top_k=pl.when(pl.col("id") == "s1").then(0).otherwise(pl.col("top_k")))
    with pytest.raises(DataError, match="0 has no logarithm"):
        nlgauge.DecodingTest(metrics=["distinct"]).run(zero)


def unbalanced(count: int = 600, seed: int = 0) -> pl.DataFrame:
    """Most sets have 0, which the score follows; the rare other values fall with it."""
    rng = np.random.default_rng(seed)
    rare = count // 4
    level = np.concatenate([np.zeros(count - rare), rng.integers(1, 11, rare) / 10])
    score = np.where(level == 0, rng.normal(-1, 1, count), 2 - 3 * level + rng.normal(0, 0.1, count))
    return pl.DataFrame({"id": [f"{i:03}" for i in range(count)], "mood": level, "score": score})


def test_subsets_are_drawn_evenly_from_a_sweep_only() -> None:
    study = nlgauge.DecodingTest(columns=["score"], parameter="mood").run(unbalanced())
    row = study.rows[0]
    assert row["spearman"] == pytest.approx(row["spearman_all"], abs=3 * row["spearman_sd"] / 10)
    assert row["spearman_all"] > 0.3
    assert study.facts["draw"] == "simple"
    assert any(
        "subsets of 200 sets are simple random draws: the 11 values of mood have" in note for note in study.notes
    )
    even = nlgauge.DecodingTest(columns=["score"], parameter="mood", draw="even").run(unbalanced())
    assert even.rows[0]["spearman"] < 0.1 < even.rows[0]["spearman_all"] == row["spearman_all"]
    assert even.facts["draw"] == "even"
    assert any("rare values weigh more in subsets" in note for note in even.notes)
    sweep = unbalanced().with_columns(mood=pl.Series([i % 50 / 10 for i in range(600)]))[5:]
    study = nlgauge.DecodingTest(columns=["score"], parameter="mood").run(sweep)
    assert study.facts["draw"] == "even"
    assert "the 50 values of mood have 11 to 12 sets each" in " ".join(study.notes)
    few = nlgauge.DecodingTest(columns=["score"], parameter="mood").run(unbalanced(300))
    assert "draw" not in few.facts
    assert few.notes == ()


def test_a_parameter_that_the_user_names_does_not_go_by_what_label_name_says() -> None:
    frame = unbalanced(100).with_columns(label_name=pl.lit("top_k"), label_value=pl.col("mood") + 1, k=pl.col("mood"))
    study = nlgauge.DecodingTest(columns=["score"], parameter="mood").run(frame)
    assert (study.facts["parameter"], study.facts["scale"]) == ("mood", "linear")
    assert nlgauge.DecodingTest(columns=["score"]).run(frame).facts["scale"] == "log10"
    named = frame.with_columns(label_name=pl.lit("temperature"), top_k=pl.col("mood") + 1)
    assert nlgauge.DecodingTest(columns=["score"], parameter="top_k").run(named).facts["scale"] == "log10"
    assert nlgauge.RankingTest(columns=["score"], parameter="mood").run(frame).facts["scale"] == "linear"


def test_nuggets_are_neutral_in_the_metric_of_the_paper_where_texts_are_short() -> None:
    """Short texts in one class more than in the other, as among prompts: the paper's distinct is what is neutral."""
    rng = np.random.default_rng(3)
    words = [WORDS[i] for i in range(16)]
    labels = [i % 2 for i in range(800)]
    sizes = [int(rng.integers(1, 5 if label else 8)) for label in labels]
    made = [[" ".join(rng.choice(words, size)) for _ in range(4)] for size in sizes]
    study = nlgauge.Nuggets().run(nlgauge.ResponseSets.of(made, columns={"label": labels}))
    kept = study.tables["kept"]

    def as_printed(responses: list[str]) -> float:
        pooled = [slow.pooled([text.split() for text in responses], n) for n in range(1, 6)]
        return sum(len(set(grams)) / len(grams) for grams in pooled if grams) / 5

    before = spearmanr([as_printed(responses) for responses in made], labels).statistic
    after = spearmanr([as_printed(responses) for responses in kept["responses"]], kept["label"]).statistic
    assert before < -0.3
    assert abs(after) < 0.03
    assert "absent:zero" in study.rows[0]["signature"]


@given(st.lists(st.integers(0, 4), min_size=3, max_size=30), st.integers(0, 5), st.data())
@settings(max_examples=60)
def test_even_subsets_take_as_many_of_each_level_as_of_any_other(levels: list[int], seed: int, data: Any) -> None:
    values = np.array(levels, dtype=float)
    size = data.draw(st.integers(1, len(levels)))
    for rows in draw_subsets(values, size, 3, "even", seed):
        assert len(set(rows.tolist())) == size
        taken = {level: int((values[rows] == level).sum()) for level in set(levels)}
        for level, count in taken.items():
            exhausted = count == levels.count(level)
            assert exhausted or count >= max(taken.values()) - 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), min_size=4, max_size=40), st.integers(2, 10))
def test_nuggets_are_balanced_in_every_group(pairs: list[tuple[int, int]], group: int) -> None:
    values, classes = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    order = np.arange(len(values))
    kept = set(draw_balanced(values, classes, order, group, 0).tolist())
    ranked = np.argsort(values, kind="stable")
    for start in range(0, len(values), group):
        members = ranked[start : start + group]
        low, high = (sum(int(i) in kept for i in members if classes[i] == c) for c in (0, 1))
        assert low == high == min((classes[members] == 0).sum(), (classes[members] == 1).sum())


def test_ranking_counts_ties_as_misses_and_pairs_sets_that_share_a_context() -> None:
    sets = nlgauge.ResponseSets.of(
        [["a b"], ["a c"], ["a d"], ["a e"]],
        contexts=["one", "one", "two", "two"],
        columns={"temperature": [0.1, 0.9, 0.1, 0.9], "score": [1.0, 2.0, 3.0, 3.0]},
    )
    with pytest.raises(DataError, match="2 pairs"):
        nlgauge.RankingTest(columns=["score"]).run(sets)
    more = nlgauge.ResponseSets.of(
        [["a"]] * 6,
        contexts=["one", "one", "two", "two", "three", "three"],
        columns={"temperature": [0.1, 0.9] * 3, "score": [1.0, 2.0, 3.0, 3.0, 5.0, 4.0]},
    )
    row = nlgauge.RankingTest(columns=["score"]).run(more).row("score")
    assert (row["n"], row["ties"], row["accuracy"]) == (3, 1, pytest.approx(1 / 3))


def test_ranking_pairs_at_random_where_no_context_is_shared() -> None:
    frame = made_sets().to_polars().drop("context")
    study = nlgauge.RankingTest(metrics=["distinct"]).run(frame)
    assert any("paired at random" in note for note in study.notes)
    assert 3 <= study.rows[0]["n"] <= 20


def test_people_who_compare_two_sets_are_a_metric_of_the_ranking_test() -> None:
    frame = pl.DataFrame({"id": list("abcd"), "temperature": [0.1, 0.4, 0.8, 1.0], "score": [1.0, 2.0, 3.0, 4.0]})
    answers = [("a>b", "r1", -1), ("a>b", "r2", -1), ("c>a", "r1", 1), ("d>b", "r1", -1), ("d>b", "r2", 1)]
    ratings = Ratings(
        pl.DataFrame(answers, schema=["item", "rater", "value"], orient="row").with_columns(question=pl.lit("rnk"))
    )
    study = nlgauge.RankingTest(columns=["score"], comparisons=ratings).run(frame)
    human = study.row("rnkHDS")
    assert (human["n"], human["ties"], human["accuracy"]) == (3, 1, pytest.approx(2 / 3))
    assert study.row("score")["accuracy"] == 1.0


def pairs_of_sets(count: int, seed: int, slope: float = 1.0) -> tuple[pl.DataFrame, list[tuple[str, str]]]:
    """Pairs of sets with a parameter and a score that follows it with noise, and the ids of each pair."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(0.2, 1.2, (count, 2))
    scores = slope * levels + rng.normal(0, 0.35, levels.shape)
    ids = [(f"{i:03}a", f"{i:03}b") for i in range(count)]
    columns = {"id": [id for both in ids for id in both], "temperature": levels.ravel(), "score": scores.ravel()}
    return pl.DataFrame(columns), ids


def compared(pairs: list[tuple[str, str]], answers: list[float]) -> Ratings:
    rows = [(f"{one}>{other}", "r", "rnk", value) for (one, other), value in zip(pairs, answers, strict=True)]
    return Ratings(pl.DataFrame(rows, schema=["item", "rater", "question", "value"], orient="row"))


def test_a_ranking_does_not_depend_on_which_set_of_a_pair_is_written_first() -> None:
    frame, ids = pairs_of_sets(62, seed=3)
    levels, scores = (dict(zip(frame["id"], frame[column], strict=True)) for column in ("temperature", "score"))
    found = []
    for high_first in (None, True, False):
        written = [
            (one, other) if high_first is None or (levels[one] > levels[other]) == high_first else (other, one)
            for one, other in ids
        ]
        answers = [float(np.sign(round(5 * (scores[one] - scores[other])))) for one, other in written]
        study = nlgauge.RankingTest(columns=["score"], comparisons=compared(written, answers)).run(frame)
        found.append(list(study.rows))
        assert not any("distinguishes no two sets" in note for note in study.notes)
    assert found[0] == found[1] == found[2]
    differences = np.array([[levels[a] - levels[b], scores[a] - scores[b]] for a, b in ids])
    rho = spearmanr(*np.concatenate([differences, -differences]).T).statistic
    assert found[0][0]["spearman"] == pytest.approx(rho)
    rng = np.random.default_rng(0)
    drawn = [spearmanr(*(differences * rng.choice([-1, 1], (62, 1))).T).statistic for _ in range(300)]
    assert np.mean(drawn) == pytest.approx(rho, abs=0.02), "what random orders, as the paper's, come to"


def test_a_ranking_of_two_values_of_the_parameter_has_a_correlation() -> None:
    frame, ids = pairs_of_sets(40, seed=1)
    two = frame.with_columns(temperature=pl.Series([1.2, 0.2] * 40), score=pl.Series([2.0, 1.0] * 40))
    study = nlgauge.RankingTest(columns=["score"], comparisons=compared(ids, [1.0] * 40)).run(two)
    assert [(row["spearman"], row["accuracy"]) for row in study.rows] == [(1.0, 1.0)] * 2
    same = two.with_columns(score=pl.lit(1.0))
    study = nlgauge.RankingTest(columns=["score"], comparisons=compared(ids, [1.0] * 40)).run(same)
    assert (study.row("score")["spearman"], study.row("score")["ties"]) == (None, 40)
    assert study.notes == ("score distinguishes no two sets of the data: no correlation",)


def test_answers_to_both_orders_of_a_pair_are_answers_to_one_pair_and_equal_parameters_have_no_order() -> None:
    frame, ids = pairs_of_sets(10, seed=2)
    turned = [(other, one) for one, other in ids]
    once = nlgauge.RankingTest(columns=["score"], comparisons=compared(ids, [1.0] * 10)).run(frame)
    twice = nlgauge.RankingTest(columns=["score"], comparisons=compared(ids + turned, [1.0] * 10 + [-1.0] * 10)).run(
        frame
    )
    assert [{**row, "signature": ""} for row in twice.rows] == [{**row, "signature": ""} for row in once.rows]
    torn = nlgauge.RankingTest(columns=["score"], comparisons=compared(ids + turned, [1.0] * 20)).run(frame)
    assert (torn.row("rnkHDS")["n"], torn.row("rnkHDS")["ties"], torn.row("rnkHDS")["accuracy"]) == (10, 10, 0.0)
    equal = frame.with_columns(
        temperature=pl.when(pl.col("id").str.starts_with("000")).then(0.5).otherwise("temperature")
    )
    study = nlgauge.RankingTest(columns=["score"], comparisons=compared(ids, [1.0] * 10)).run(equal)
    assert study.row("score")["n"] == 9
    assert "1 pairs have one value of the parameter on both sides; they are left out" in study.notes


def test_intervals_of_a_ranking_draw_a_pair_as_a_whole_and_say_what_they_draw() -> None:
    truth = pairs_of_sets(4000, seed=0)
    rho = nlgauge.RankingTest(columns=["score"], comparisons=compared(truth[1], [1.0] * 4000), resamples=100).run(
        truth[0]
    )
    wanted, covered = rho.row("score")["spearman"], 0
    for seed in range(1, 101):
        frame, ids = pairs_of_sets(40, seed)
        study = nlgauge.RankingTest(columns=["score"], comparisons=compared(ids, [1.0] * 40), resamples=200).run(frame)
        low, high = study.row("score")["spearman_ci"]
        covered += low < wanted < high
        assert study.facts["unit"] == "pair"
    assert covered >= 89  # 95 % less three errors; orders drawn as if they were two pairs cover 85
    contexts = [f"c{i // 4}" for i in range(80)]
    shared = frame.with_columns(context=pl.Series(contexts))
    study = nlgauge.RankingTest(columns=["score"], comparisons=compared(ids, [1.0] * 40)).run(shared)
    assert (study.facts["unit"], study.facts["paired"]) == ("context", "as asked")
    assert "pairs share contexts: 20 contexts are resampled, not 40 pairs" in study.notes
    alone = nlgauge.RankingTest(columns=["score"], comparisons=compared(ids, [1.0] * 40), unit="set").run(shared)
    assert alone.facts["unit"] == "pair"
    (first, _), (second, other) = ids[:2]
    chained = nlgauge.RankingTest(columns=["score"], comparisons=compared([*ids, (first, second)], [1.0] * 41)).run(
        frame
    )
    assert chained.facts["unit"] == "linked-pairs"
    assert "pairs share sets or contexts: 39 groups of linked pairs are resampled, not 41 pairs" in chained.notes
    star = [(first, two) for one, two in ids] + [(first, other)]
    study = nlgauge.RankingTest(columns=["score"], comparisons=compared(star[:40], [1.0] * 40)).run(frame)
    assert study.row("score")["spearman_ci"] is study.row("score")["accuracy_ci"] is None
    assert any("so that there is no interval" in note for note in study.notes)


def rating_table(rows: list[tuple[str, str, str, float]], pairs: list[str] | None = None) -> Ratings:
    frame = pl.DataFrame(rows, schema=["item", "rater", "question", "value"], orient="row")
    return Ratings(frame if pairs is None else frame.with_columns(pair=pl.Series(pairs)))


def test_ratings_of_sets_and_of_pairs_are_metrics() -> None:
    rows = [(f"s{i}", rater, "abs", float(i + shift)) for i in range(4) for rater, shift in (("r", 0), ("q", 1))]
    frame = pl.DataFrame({"id": [f"s{i}" for i in range(4)], "temperature": [0.1, 0.2, 0.3, 0.4]})
    study = nlgauge.DecodingTest(ratings=rating_table(rows)).run(frame)
    assert study.row("abs")["spearman"] == pytest.approx(1)
    similar = [(f"s{i}", "r", "sim", float(5 - i)) for i in range(4) for _ in range(3)]
    study = nlgauge.DecodingTest(ratings=rating_table(similar, ["0-1", "0-2", "1-2"] * 4)).run(frame)
    assert study.row("sim")["spearman"] == pytest.approx(1), "more similar pairs are less diverse"
    with pytest.raises(DataError, match="ratings of 'nobody'"):
        nlgauge.DecodingTest(ratings=rating_table([*rows, ("nobody", "r", "abs", 1.0)])).run(frame)


def test_stability_of_single_ratings_equals_a_slow_version_when_nothing_is_random() -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"id": [f"s{i}" for i in range(30)], "label": [i % 2 for i in range(30)]})
    rows = [
        (f"s{i}", f"r{r}", "abs", float(np.clip(2 + i % 2 + rng.normal(), 1, 5))) for i in range(30) for r in range(5)
    ]
    study = nlgauge.Stability(ratings=rating_table(rows), repeats=200, per_set=[1, 5], sets=[30, 100], price=0.18).run(
        frame
    )
    by_plan = {(row["sets"], row["ratings"]): row for row in study.rows}
    means = pl.DataFrame(rows, schema=["item", "rater", "question", "value"], orient="row").group_by("item").agg(
        pl.col("value").mean()
    )  # fmt: skip
    scores = dict(means.iter_rows())
    whole = spearmanr([scores[f"s{i}"] for i in range(30)], [i % 2 for i in range(30)])[0]
    assert by_plan[30, 5]["spearman"] == pytest.approx(whole, abs=0.05)
    assert by_plan[30, 1]["spearman"] < by_plan[30, 5]["spearman"]
    assert by_plan[100, 5]["spearman_sd"] < by_plan[30, 5]["spearman_sd"]
    assert by_plan[100, 5]["cost"] == pytest.approx(0.18 * 100 * 5)


def test_simulated_ratings_behave_as_drawn_ones_do() -> None:
    rng = np.random.default_rng(1)
    answers = np.clip(np.rint(2.5 + np.arange(60)[:, None] % 2 + rng.normal(size=(60, 10))), 1, 5)
    frame = pl.DataFrame(
        {
            "id": [f"s{i}" for i in range(60)], "label": [i % 2 for i in range(60)], "abs_mean": answers.mean(axis=1),
            "abs_std": answers.std(axis=1),
        }
    )  # fmt: skip
    rows = [(f"s{i}", f"r{r}", "abs", float(answers[i, r])) for i in range(60) for r in range(10)]
    options: dict[str, Any] = {"sets": [60], "per_set": [1, 4, 10], "repeats": 300}
    drawn = nlgauge.Stability(ratings=rating_table(rows), **options).run(frame)
    simulated = nlgauge.Stability(column="abs_mean", **options).run(frame)
    assert "simulated" in str(simulated.signature)
    for a, b in zip(drawn.rows, simulated.rows, strict=True):
        assert a["spearman"] == pytest.approx(b["spearman"], abs=0.03)
        assert a["spearman_sd"] == pytest.approx(b["spearman_sd"], abs=0.03)


def test_agreement_filters_raters_rescales_and_says_so() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 50, 10).astype(float)
    rows = [(f"i{i}", f"good{r}", "div", float(truth[i] + rng.normal())) for i in range(10) for r in range(4)]
    rows += [(f"i{i}", "bad", "div", float(rng.integers(1, 50))) for i in range(10)]
    rows += [("i0", "once", "div", float(truth[0]))]
    plain = nlgauge.AgreementStudy().run(rating_table(rows))
    filtered = nlgauge.AgreementStudy(drop_below=0.65, rescale=(0, 10)).run(rating_table(rows))
    assert plain.rows[0]["alpha"] < filtered.rows[0]["alpha"]
    assert filtered.rows[0]["dropped"] == ["bad"]
    assert filtered.rows[0]["raters"] == 5
    assert any("one rating only" in note for note in filtered.notes)
    assert {"question", "alpha", "level", "raters", "items"} <= filtered.rows[0].keys()
    assert filtered.tables["scores"]["score"].is_between(0, 10).all()
    assert filtered.chart().to_dict()


def test_agreement_on_published_ratings(research_data: Path) -> None:
    stories = json.loads((research_data / "openmeva" / "mans_roc.json").read_text())
    rows = [
        (f"{id}-{model}", f"rater {place}", "quality", float(value))
        for id, story in stories.items()
        for model, text in story["gen"].items()
        for place, value in enumerate(text["score"])
    ]
    study = nlgauge.AgreementStudy(scale=(1, 5), resamples=100).run(rating_table(rows))
    assert study.rows[0]["alpha"] == pytest.approx(0.771, abs=5e-4)
    assert study.rows[0]["items"] == 1000


BAD: list[tuple[str, dict[str, Any], list[str], str]] = [
    ("content", {"label": [1] * 40}, [], "one class only (1)"),
    ("content", {"label": list(range(40))}, [], "40 different labels"),
    ("content", {"label": [None, *[0, 1] * 19, 1]}, [], "no number"),
    ("decoding", {"temperature": [0.5] * 40}, [], "all sets have 0.5"),
    ("decoding", {"temperature": ["hot"] * 40}, [], "expected a number"),
    ("decoding", {}, ["--subset", "41"], "--subset 41"),
    ("decoding", {}, ["--subset", "2"], "--subset 2; expected at least 3"),
    ("decoding", {}, ["--column", "nothing"], "no such column"),
    ("decoding", {}, ["--column", "nothing*"], "no such column"),
    ("decoding", {}, ["--parameter", "nothing"], "no such column"),
    ("decoding", {}, ["-m", "distinct:over=corpus"], "measures a whole corpus"),
    ("ranking", {}, ["--pairs", "1"], "--pairs 1"),
    ("nuggets", {}, ["--group-size", "1"], "--group-size 1"),
    ("correlation", {}, ["--truth", "constant"], "all items have 1"),
    ("correlation", {}, ["--truth", "human_mean", "--unit", "texts"], "expected one of auto, context, run, set"),
    ("correlation", {}, ["--truth", "human_mean", "--references", "task"], "holds response sets ('responses')"),
    ("correlation", {}, ["--truth", "human_mean", "-m", "dialog"], "has no reference, and bleu compares"),
    ("stability", {}, ["--truth", "temperature"], "expected a file of ratings (--ratings)"),
    ("stability", {}, ["--truth", "temperature", "--column", "temperature"], "no standard deviations"),
    ("stability", {}, ["--column", "human_mean", "--per-set", "11"], "--per-set 11"),
    ("content", {}, ["--format", "odd"], "unknown format 'odd'"),
    ("content", {}, ["--chart", "x.gif"], "cannot be '.gif'"),
    ("content", {}, ["--directions", "up"], "--directions"),
]


@pytest.mark.parametrize(("study", "changes", "options", "message"), BAD)
def test_bad_input_is_an_error_that_says_what_to_do(
    tmp_path: Path, study: str, changes: dict[str, Any], options: list[str], message: str
) -> None:
    file = write_sets(tmp_path, **changes)
    done = run(tmp_path, study, str(file), *options)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err


def test_the_old_name_of_the_unit_says_the_new_one(tmp_path: Path) -> None:
    file = str(write_sets(tmp_path))
    done = run(tmp_path, "content", file, "--label", "label", "--over", "auto")
    assert (done.code, "--over is called --unit now" in done.err) == (0, True)
    done = run(tmp_path, "content", file, "--label", "label", "--over", "contexts")
    assert done.code == 2
    assert "--over is called --unit now" in done.err
    assert "'--unit': expected one of auto, context, run, set" in done.err
    with pytest.warns(FutureWarning, match="over= is called unit= now"):
        assert create_study("content:over=auto") == nlgauge.ContentTest()


def test_a_unit_that_the_data_lacks_is_refused() -> None:
    items = made_items()
    with pytest.raises(DataError, match="there is one run") as error:
        nlgauge.CorrelationStudy(metrics=["bleu:n=1"], truth="rating", unit="run").run(items)
    assert error.value.option == "unit"


def test_a_content_test_without_a_label_says_where_its_answers_stand() -> None:
    sets = nlgauge.ResponseSets.of([["a b", "a c"], ["a d", "b d"], ["a", "b"]])
    with pytest.raises(
        DataError, match=r"no such column; .* needs sets whose content diversity is known; .*docs/claims/"
    ):
        nlgauge.ContentTest(metrics=["distinct"]).run(sets)
    with pytest.raises(
        DataError, match=r"column .label.: no such column; found id; name the column with label=$"
    ) as error:
        nlgauge.Nuggets().run(sets)
    assert error.value.option == "label"


def test_fewer_than_three_sets_are_refused() -> None:
    with pytest.raises(DataError, match="2 sets; expected at least 3"):
        nlgauge.ContentTest(metrics=["distinct"]).run(made_sets().select(np.arange(2)))


def made_items(count: int = 40) -> nlgauge.Items:
    """Replies to ten contexts by two models; a better rating has more words of the references."""
    rng = np.random.default_rng(2)
    texts, references, ratings = [], [], []
    for _ in range(count):
        right = rng.choice(WORDS, 6)
        rating = int(rng.integers(1, 6))
        texts.append(" ".join(word if rng.integers(1, 6) <= rating else "oops" for word in right))
        references.append([" ".join(right), " ".join(rng.choice(WORDS, 5))])
        ratings.append(rating)
    return nlgauge.Items.of(
        texts,
        references=references,
        contexts=[f"context {i % 10}" for i in range(count)],
        columns={"rating": ratings, "model": ["x" if i % 20 < 10 else "y" for i in range(count)]},
    )


def unigram_bleu(items: nlgauge.Items) -> Any:
    found = nlgauge.score(items, ["bleu:n=1"])[0].per_item
    assert found is not None
    return found["value"].to_numpy()


class TestTextsWithReferences:
    def test_metrics_against_references_are_correlated_with_ratings(self) -> None:
        items = made_items()
        study = nlgauge.CorrelationStudy(metrics=["bleu:n=1", "rouge-l"], columns=["rating"], truth="rating").run(items)
        found = unigram_bleu(items)
        row = study.row("bleu:n=1")
        assert row["spearman"] == pytest.approx(spearmanr(found, items.frame["rating"]).statistic, abs=1e-12)
        assert row["spearman"] > 0.6
        assert {row["n"] for row in study.rows} == {40}
        assert [row["cluster"] for row in study.rows] == [2, 2, 1]
        assert study.signature.facts == {"refs": "2", "unit": "context"}
        assert "sets share contexts: 10 contexts are resampled, not 40 sets; so few" in " ".join(study.notes)

    def test_items_that_share_a_context_are_resampled_together_unless_asked_not_to(self) -> None:
        items = made_items()
        rows = [
            nlgauge.CorrelationStudy(metrics=["bleu:n=1"], truth="rating", unit=unit).run(items).rows[0]
            for unit in ("auto", "context", "set")
        ]
        values = unigram_bleu(items)
        truth = items.frame["rating"].to_numpy().astype(float)
        groups = items.frame["context"].to_numpy()
        for kind in ("pearson", "spearman", "kendall"):
            expected = bootstrap_intervals(values[None], truth, kind, groups=groups)[0]
            assert rows[0][f"{kind}_ci"] == pytest.approx(expected.tolist(), abs=1e-12)
            assert rows[1][f"{kind}_ci"] == rows[0][f"{kind}_ci"] != rows[2][f"{kind}_ci"]
            assert rows[2][kind] == rows[0][kind]

    def test_clusters_can_be_left_out(self) -> None:
        study = nlgauge.CorrelationStudy(metrics=["bleu", "rouge-l"], truth="rating", significance=False).run(
            made_items()
        )
        assert [row["cluster"] for row in study.rows] == [None, None]
        assert "|significance:false|" in str(study.signature)

    def test_a_bundle_gives_its_parts_and_names_those_that_measure_a_corpus(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path / "no-models"))
        with pytest.warns(UserWarning, match="is skipped"):
            study = nlgauge.CorrelationStudy(metrics=["dialog", "rouge-l"], truth="rating", permutations=100).run(
                made_items()
            )
        bleu = [f"bleu:case=lower{f',n={n}' * (n < 4)}" for n in range(1, 5)]
        assert [row["metric"] for row in study.rows] == [*bleu, "rouge-l:case=lower", "rouge-l"]
        (note,) = (note for note in study.notes if "measure a whole corpus" in note)
        assert all(label in note for label in ("bleu:over=corpus,case=lower,n=1,", "ttr, ", "ttr:n=2", "ttr:n=3"))
        with pytest.raises(OptionError, match=r"measures a whole corpus; .* use bleu:over=item"):
            nlgauge.CorrelationStudy(metrics=["bleu:over=corpus"], truth="rating").run(made_items())

    @pytest.mark.parametrize("ending", [".csv", ".jsonl"])
    def test_a_file_is_split_by_a_column_of_any_name(self, tmp_path: Path, ending: str) -> None:
        write_table(made_items(), tmp_path / f"a{ending}")
        options = ("--truth", "rating", "-m", "bleu:n=1", "--by", "model", "--format", "json", "--no-progress")
        done = run(tmp_path, "correlation", f"a{ending}", *options)
        assert done.code == 0, done.err
        found = {row["group"]: row for row in json.loads(done.out)["rows"]}
        items = made_items()
        values = unigram_bleu(items)
        for model in ("x", "y"):
            mine = (items.frame["model"] == model).to_numpy()
            expected = spearmanr(values[mine], items.frame["rating"].to_numpy()[mine]).statistic
            assert (found[model]["n"], found[model]["spearman"]) == (20, pytest.approx(expected, abs=1e-12))

    def test_a_metric_with_values_in_one_context_only_has_no_interval(self) -> None:
        items = made_items(60)
        alone = items.frame.with_columns(context=pl.Series(["one"] * 30 + ["two"] * 30)).with_columns(
            other=pl.when(pl.col("context") == "one").then(pl.col("rating"))
        )
        row = nlgauge.CorrelationStudy(columns=["other"], truth="rating").run(nlgauge.Items(alone)).row("other")
        assert (row["n"], row["spearman"], row["spearman_ci"]) == (30, pytest.approx(1), None)


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv", "json"])
def test_a_constant_metric_has_no_correlation_and_no_nan(tmp_path: Path, form: str) -> None:
    file = write_sets(tmp_path)
    done = run(
        tmp_path,
        "content",
        str(file),
        "--column",
        "constant",
        "-m",
        "distinct",
        "--format",
        form,
        "--permutations",
        "100",
    )
    assert done.code == 0, done.err
    assert "nan" not in done.out.lower()
    assert "constant is the same on all sets" in done.out + done.err
    if form == "json":
        assert json.loads(done.out)["rows"][1]["spearman"] is None


def test_sets_without_a_value_are_left_out_and_counted() -> None:
    frame = made_sets().to_polars()
    holes = frame.with_columns(human_mean=pl.when(pl.col("id") == "s3").then(None).otherwise(pl.col("human_mean")))
    study = nlgauge.ContentTest(metrics=["distinct"], columns=["human_mean"], permutations=100).run(holes)
    assert study.row("human_mean")["n"] == 39
    assert study.row("distinct")["n"] == 40
    assert any("no value on 1 of 40 sets" in note for note in study.notes)
    assert any("39 sets" in note for note in study.notes)
    as_nan = holes.with_columns(pl.col("human_mean").fill_null(float("nan")))
    assert nlgauge.ContentTest(columns=["human_mean"]).run(as_nan).row("human_mean")["n"] == 39
    with pytest.raises(DataError, match="infinite on set 's3'"):
        nlgauge.ContentTest(columns=["human_mean"]).run(
            frame.with_columns(human_mean=pl.when(pl.col("id") == "s3").then(float("inf")).otherwise(1.0))
        )


def test_several_files_are_columns_of_one_table(tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("two", 1)):
        made_sets(seed=seed).to_polars().write_ndjson(tmp_path / f"{name}.jsonl")
    files = [str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl")]
    done = run(tmp_path, "content", *files, "-m", "distinct", "--format", "markdown", "--no-significance")
    assert done.out.splitlines()[2] == "| metric | one rho | one OCA | two rho | two OCA |"
    latex = run(tmp_path, "content", *files, "--tasks", "a_1,b", "-m", "distinct", "-f", "latex", "--no-significance")
    assert r"metric & a\_1 rho & a\_1 OCA & b rho & b OCA \\" in latex.out
    long = run(tmp_path, "content", *files, "-m", "distinct", "-f", "csv", "--no-significance")
    assert [line.split(",")[0] for line in long.out.splitlines()] == ["task", "one", "two"]


def test_labels_can_be_words(tmp_path: Path) -> None:
    sets = made_sets()
    words = sets.to_polars().with_columns(
        label=pl.when(pl.col("label") == 1).then(pl.lit("rich")).otherwise(pl.lit("poor"))
    )
    study = nlgauge.ContentTest(metrics=["distinct"], high="rich").run(words)
    assert study.rows[0]["spearman"] == nlgauge.ContentTest(metrics=["distinct"]).run(sets).rows[0]["spearman"]
    with pytest.raises(DataError, match="expected a number"):
        nlgauge.ContentTest(metrics=["distinct"]).run(words)
    with pytest.raises(DataError, match="no set has the label 'high'"):
        nlgauge.ContentTest(metrics=["distinct"], high="high").run(words)


def test_hostile_texts_do_not_leave_their_place(tmp_path: Path) -> None:
    nasty = "</script><script>alert(1)</script>"
    frame = made_sets().to_polars().with_columns(context=pl.lit(nasty), task=pl.lit(nasty + "\n| a & b"))
    study = nlgauge.DecodingTest(metrics=["distinct"], by="task").run(frame)
    nlgauge.save_chart(study.chart(), tmp_path / "chart.html")
    page = (tmp_path / "chart.html").read_text()
    assert "<script>alert" not in page
    frame.write_ndjson(tmp_path / "sets.jsonl")
    done = run(tmp_path, "decoding", str(tmp_path / "sets.jsonl"), "--by", "task", "-f", "csv")
    assert done.code == 0


class TestInputs:
    """Studies take whatever `score` takes."""

    STUDY = nlgauge.DecodingTest(metrics=["distinct"], significance=False, resamples=100)

    @pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "arrow"])
    def test_frames_of_every_kind(self, kind: str) -> None:
        frame = made_sets().to_polars()
        given = {
            "polars": frame,
            "lazy": frame.lazy(),
            "pandas": pd.DataFrame(frame.to_dict(as_series=False)),
            "arrow": Arrow(frame),
        }[kind]
        wanted = list(self.STUDY.run(made_sets()).rows)
        assert list(self.STUDY.run(given).rows) == wanted
        column = nlgauge.DecodingTest(columns=["human_mean"])
        assert column.run(given).rows[0]["spearman"] == column.run(made_sets()).rows[0]["spearman"]

    def test_columns_of_a_frame_can_be_named(self) -> None:
        frame = made_sets().to_polars().rename({"responses": "answers", "id": "key", "context": "question"})
        found = self.STUDY.run(frame, responses="answers", id="key", context="question")
        assert list(found.rows) == list(self.STUDY.run(made_sets()).rows)
        with pytest.raises(OptionError) as error:
            self.STUDY.run(frame, responses="answers", input_format="csv")
        assert error.value.option == "input_format"

    def test_lists_of_lists_are_one_task(self) -> None:
        lists = made_sets().to_polars()["responses"].to_list()
        with raises(DataError, option="parameter"):
            self.STUDY.run(lists)
        rows = [("1", "r", "q", 1.0), ("2", "r", "q", 2.0), ("3", "r", "q", 3.0)]
        with raises(DataError, option="label"):
            nlgauge.ContentTest(ratings=rating_table(rows)).run(lists)

    def test_files_sources_and_tables(self, tmp_path: Path) -> None:
        file = write_sets(tmp_path)
        rows = [
            {**row, "task": ""}
            for data in (str(file), file, nlgauge.Source(path=str(file)), nlgauge.read(file), [made_sets()])
            for row in self.STUDY.run(data).rows
        ]
        assert all(row == rows[0] for row in rows)

    def test_options_without_effect_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError) as error:
            self.STUDY.run(write_sets(tmp_path), one_set=True)
        assert error.value.option == "one_set"
        for name in ("on_error", "part_mb", "chunk_mb", "memory_mb", "cache"):
            with pytest.raises(UnknownName):
                self.STUDY.run(write_sets(tmp_path), **{name: 1})
        with pytest.raises(UnknownName):
            nlgauge.Stability(column="human").run(write_sets(tmp_path), workers=2)

    def test_workers_and_a_killed_and_resumed_run_give_the_same_rows(self, tmp_path: Path) -> None:
        file, calls, folder = tmp_path / "sets.jsonl", tmp_path / "calls", tmp_path / "run"
        made_sets(count=200).to_polars().write_ndjson(file)
        calls.mkdir()
        study = nlgauge.ContentTest(metrics=["distinct", Costly(calls=str(calls), seconds=0.5)], permutations=100)
        expected = study.run(file, progress=False).rows
        assert sum(1 for _ in calls.iterdir()) == 4
        assert study.run(file, progress=False, workers=2).rows == expected
        code = (
            "import nlgauge\nfrom tests.engine.fixtures import Costly\n"
            f"study = nlgauge.ContentTest(metrics=['distinct', Costly(calls={str(calls)!r}, seconds=0.5)])\n"
            f"study.run({str(file)!r}, progress=False, run={str(folder)!r})\n"
        )
        with subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2]) as process:
            while process.poll() is None and len(list((folder / "pieces").glob("0*"))) < 2:
                time.sleep(0.01)
            process.kill()
        kept = len(list((folder / "pieces").glob("0*")))
        assert 2 <= kept < 5
        for call in calls.iterdir():
            call.unlink()
        assert study.run(file, progress=False, workers=2, run=folder).rows == expected
        assert sum(1 for _ in calls.iterdir()) <= 5 - kept
        with pytest.raises(OptionError):
            nlgauge.ContentTest(metrics=["distinct"]).run(file, progress=False, run=folder)


def test_kept_sets_can_be_studied_again(tmp_path: Path) -> None:
    file = write_sets(tmp_path)
    done = run(tmp_path, "nuggets", str(file), "--group", "10", "--kept", "kept.jsonl", "-f", "json")
    assert done.code == 0, done.err
    assert "--group is called --group-size now" in done.err
    row = json.loads(done.out)["rows"][0]
    kept = nlgauge.read(str(tmp_path / "kept.jsonl"))
    assert len(kept) == row["kept"]
    found = nlgauge.ContentTest(metrics=["distinct"]).run(kept).rows[0]
    assert (found["spearman"], found["spearman_ci"]) == (row["spearman"], row["spearman_ci"])


def test_kept_sets_of_several_tasks_say_their_task() -> None:
    result = nlgauge.Nuggets(group_size=10, tasks=["a", "b"]).run([made_sets(), made_sets(seed=1)])
    assert dict(result.tables["kept"]["task"].value_counts().iter_rows()) == {
        row["task"]: row["kept"] for row in result.rows
    }


@pytest.mark.parametrize("name", ["ranking", "nuggets", "stability"])
def test_a_result_says_in_words_what_was_found(name: str) -> None:
    sentence = STUDIES[name](made_sets()).to_dict()["sentence"]
    wanted = {
        "ranking": r"1 of 1 metrics follow differences of temperature, best distinct \(spearman [\d.]+ \[",
        "nuggets": r"\d+ of 40 sets are kept, on which distinct (shows no|is still) correlat",
        "stability": r"For human_mean, 40 sets with (1|10) ratings each are enough|No plan is stable for human_mean",
    }
    assert re.match(wanted[name], sentence), sentence


def test_a_rater_with_one_rating_and_ratings_off_the_scale(tmp_path: Path) -> None:
    rows = "item,rater,question,value\na,r,q,1\nb,r,q,5\na,s,q,2\nb,s,q,4\nc,t,q,3\n"
    (tmp_path / "r.csv").write_text(rows)
    done = run(tmp_path, "agreement", str(tmp_path / "r.csv"), "--scale", "1:5", "--drop-below", "0.65")
    assert done.code == 0, done.err
    assert "one rating only" in done.out
    refused = run(tmp_path, "agreement", str(tmp_path / "r.csv"), "--scale", "1:4")
    assert refused.code == 2
    assert "line 3" in refused.err


def test_a_decoding_test_from_nothing(tmp_path: Path, smollm2: str, examples: Path) -> None:
    """A short version of `papers/tester.py`."""
    done = command(
        "generate", str(examples / "system_a.jsonl"), "-o", "sets.jsonl", "--model", smollm2, "--limit", "4",
        "--sweep", "temperature=0.2:1.2:6", "--responses-per-set", "5", "--max-new-tokens", "12", "--threads", "1",
        cwd=tmp_path, cache=tmp_path / "cache",
    )  # fmt: skip
    assert done.code == 0, done.err
    done = run(tmp_path, "decoding", "sets.jsonl", "-m", "distinct", "-m", "cos-sim", "--chart", "c.html", "-f", "json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert "parameter:temperature" in document["signature"]
    assert "unit:context" in document["signature"]
    assert all(row["n"] == 24 and row["spearman"] > 0.4 for row in document["rows"])
    assert (tmp_path / "c.html").stat().st_size > 100_000
