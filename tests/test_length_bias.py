"""Distinct falls as texts get longer; EAD hardly changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from papers.ead import CORPORA
from papers.utterances import utterances

import nlgauge
from nlgauge.drawing import save_chart
from nlgauge.errors import DataError, OptionError
from nlgauge.report.study_tables import render_study
from nlgauge.studies.designated import designated_probability, draw_designated
from nlgauge.studies.length_bias import LengthBias, count_different, fit_slope, length_bias
from tests.slow import pooled

LINES = ["distinct (corpus)", "ead (corpus)", "distinct (designated)", "ead (designated)"]


def make_texts(lengths: Sequence[int], each: int, words: int, *, seed: int = 1) -> list[str]:
    """As many texts of every length, of words drawn evenly."""
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{i}" for i in rng.integers(0, words, length)) for length in lengths for _ in range(each)]


def values(study: LengthBias, line: str, column: str = "mean") -> list[Any]:
    return study.curves.filter(pl.col("metric") == line)[column].to_list()


@pytest.fixture(scope="module")
def corpora(research_data: Path) -> LengthBias:
    texts = [utterances(research_data / path) for path in CORPORA.values()]
    return length_bias(texts, names=list(CORPORA))


@pytest.mark.parametrize("task", ["DailyDialog", "OpenSubtitles"])
def test_distinct_falls_with_length_and_ead_falls_less(corpora: LengthBias, task: str) -> None:
    for source in ("corpus", "designated"):
        distinct, ead = (corpora.row(f"{score} ({source})", task) for score in ("distinct", "ead"))
        assert distinct["slope_ci"][1] < 0
        assert distinct["last"] < distinct["first"]
        assert abs(ead["relative_slope"]) < abs(distinct["relative_slope"])
    assert abs(corpora.row("ead (designated)", task)["relative_slope"]) < 5e-4


def test_real_curves_start_and_end_where_texts_run_out(corpora: LengthBias) -> None:
    row = corpora.row("ead (corpus)", "DailyDialog")
    assert (row["lengths"], row["shortest"], row["longest"]) == (16, 3, 18)
    assert "EAD rises with length on DailyDialog" in "\n".join(corpora.notes)
    assert "declines" not in "\n".join(corpora.notes)
    assert min(corpora.curves["texts"].drop_nulls().to_list()) >= 2000


def test_the_probability_of_a_word_is_the_papers_integral() -> None:
    from scipy.integrate import quad
    from scipy.stats import poisson

    for v in (3.0, 40.0):
        for k in (0, 1, 7, 39, 60):
            integral = quad(lambda rate, k=k, v=v: poisson.pmf(k, rate) / v, 0, v)[0]
            assert designated_probability(np.array([k]), v)[0] == pytest.approx(integral, rel=1e-6, abs=1e-12)
    assert designated_probability(np.arange(34000), 30522).sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("v", [5, 60, 30522])
def test_words_are_drawn_from_the_designated_distribution(v: int) -> None:
    from scipy.stats import chisquare

    draws = draw_designated(np.random.default_rng(3), (1000, 400), v).ravel()
    top = int(v + 10 * v**0.5 + 20)
    assert draws.min() >= 0
    assert draws.max() <= top
    chance = designated_probability(np.arange(top + 1), v)
    cut = np.minimum((np.cumsum(chance) - chance) * 100, 99.999).astype(int)  # about a hundred bins of even chance
    expected = np.bincount(cut, chance)
    seen = np.bincount(cut[draws], minlength=len(expected))
    kept = expected * draws.size > 20
    expected, seen = expected[kept], seen[kept]
    assert chisquare(seen, expected / expected.sum() * seen.sum()).pvalue > 0.001


tokens = st.sampled_from("abcd")


@given(data=st.data(), n=st.integers(1, 3), size=st.integers(1, 4), seed=st.integers(0, 2**40))
@settings(max_examples=40)
def test_curves_equal_a_slow_and_obvious_count(data: st.DataObject, n: int, size: int, seed: int) -> None:
    by_length = {}
    for length in (n, n + 1, n + 3):
        text = st.lists(tokens, min_size=length, max_size=length).map(" ".join)
        by_length[length] = data.draw(st.lists(text, min_size=size, max_size=size + 4))
    texts = data.draw(st.permutations([*chain.from_iterable(by_length.values()), "", "a"]))
    if n == 1:
        by_length[1] = [text for text in texts if text and " " not in text]
    study = length_bias([texts], n=n, set_size=size, sets=3, vocabulary="9", seed=seed, designated=False)
    for length, all_texts in by_length.items():
        ordered = sorted(all_texts)
        rng = np.random.default_rng([seed, length, 0])
        distinct, ead = [], []
        for _ in range(3):
            rows = rng.choice(len(ordered), size, replace=False, shuffle=False)
            grams = pooled([ordered[row].split() for row in rows], n)
            distinct.append(len(set(grams)) / len(grams))
            ead.append(len(set(grams)) / (9**n * (1 - ((9**n - 1) / 9**n) ** len(grams))))
        place = values(study, LINES[0], "length").index(length)
        assert values(study, LINES[0])[place] == np.mean(distinct)
        assert values(study, LINES[0], "sd")[place] == np.std(distinct, ddof=1)
        assert values(study, LINES[1])[place] == pytest.approx(np.mean(ead), rel=1e-9)
        assert values(study, LINES[0], "texts")[place] == len(ordered)


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2), st.randoms(use_true_random=False))
def test_different_ngrams_are_counted_like_a_set_of_tuples(n: int, texts: int, more: int, random: Any) -> None:
    ids = np.array([[random.randrange(3) for _ in range(n + more)] for _ in range(texts)])
    assert count_different(ids, n) == len(set(pooled([[str(i) for i in row] for row in ids], n)))


@pytest.mark.parametrize(("n", "tok"), [(1, "space"), (2, "word")])
def test_a_set_of_all_texts_scores_as_score_does(n: int, tok: str) -> None:
    texts = make_texts([4, 7], 30, 50)
    study = length_bias([texts], n=n, set_size=30, sets=2, tok=tok, vocabulary="bert")
    for place, part in enumerate((texts[:30], texts[30:])):
        scores = nlgauge.score(
            nlgauge.Items.of(part), [f"distinct:n={n},over=corpus,tok={tok}", f"ead:n={n},tok={tok},vocab=bert"]
        )
        assert [values(study, line)[place] for line in LINES[:2]] == [score.value for score in scores]
    assert "has exactly 30 texts: all its sets are the same" in "\n".join(study.notes)
    assert values(study, LINES[0], "sd") == [0, 0]


def test_neither_order_nor_other_lengths_matter() -> None:
    texts = make_texts([3, 4, 5, 6], 60, 200)
    whole = length_bias([texts], set_size=40)
    assert length_bias([texts[::-1]], set_size=40).to_dict() == whole.to_dict()
    part = length_bias([[text for text in texts if len(text.split()) in (4, 6)]], set_size=40)
    same = whole.curves.filter(pl.col("length").is_in([4, 6]))
    assert part.curves.equals(same)
    assert length_bias([texts], set_size=40, lengths=(4, 6)).curves.equals(
        whole.curves.filter(pl.col("length").is_between(4, 6))
    )
    assert not length_bias([texts], set_size=40, seed=1).curves.equals(whole.curves)


def test_the_designated_distribution_alone() -> None:
    study = length_bias(lengths=(5, 40), set_size=1000, sets=4)
    assert [row["metric"] for row in study.rows] == LINES[2:]
    distinct, ead = study.rows
    assert distinct["slope_ci"][1] < 0
    assert abs(ead["relative_slope"]) < 5e-4
    assert ead["lengths"] == 36
    assert study.curves["texts"].null_count() == len(study.curves)


def test_corpora_of_equal_lengths_share_the_designated_curve() -> None:
    study = length_bias([make_texts([3, 4, 5], 20, 50), make_texts([3, 4, 5], 30, 9)], set_size=20, names=["a", "b"])
    assert study.tasks == ["a", "b"]
    first, second = (study.row(LINES[2], task) for task in study.tasks)
    assert {**first, "task": "b"} == second
    assert (
        length_bias([make_texts([3, 4], 9, 9)], set_size=9, designated=False).curves["source"].unique()[0] == "corpus"
    )


def test_the_slope_is_that_of_least_squares() -> None:
    from scipy.stats import linregress, t

    lengths = np.array([3, 4, 6, 9, 11])
    means = np.array([0.9, 0.7, 0.72, 0.4, 0.35])
    slope, interval = fit_slope(lengths, means, 0.9)
    known = linregress(lengths, means)
    half = t.ppf(0.95, 3) * known.stderr
    assert slope == pytest.approx(known.slope)
    assert interval == pytest.approx((known.slope - half, known.slope + half))


def test_a_line_is_found_exactly_and_two_lengths_have_no_interval() -> None:
    slope, interval = fit_slope(np.array([1, 2, 5]), np.array([1.0, 0.5, -1.0]), 0.95)
    assert (slope, *interval) == pytest.approx((-0.5, -0.5, -0.5))
    study = length_bias([make_texts([3, 4], 20, 50)], set_size=20)
    assert study.row(LINES[0])["slope_ci"] is None
    assert "no interval" in "\n".join(study.notes)


def test_advice_when_ead_itself_declines() -> None:
    study = length_bias([make_texts(range(3, 12), 100, 150)], set_size=100, names=["Small words"])
    row = study.row("ead (corpus)")
    assert row["slope_ci"][1] < 0
    assert any("EAD itself declines with length on Small words" in note for note in study.notes)
    assert any("unfair" in note for note in study.notes)


def test_no_advice_when_ead_is_flat() -> None:
    study = length_bias([make_texts(range(3, 9), 300, 400)], vocabulary=400, set_size=250)
    assert abs(study.row("ead (corpus)")["relative_slope"]) < 0.01
    assert len(study.notes) == 1


def test_notes_when_distinct_changes_less_than_ead() -> None:
    texts = [" ".join(f"{length}-{i}-{j}" for j in range(length)) for length in range(3, 9) for i in range(40)]
    study = length_bias([texts], vocabulary="200", set_size=40)
    assert study.row("distinct (corpus)")["slope"] == 0
    assert any("distinct changes less with length than EAD" in note for note in study.notes)
    assert any("EAD rises with length" in note for note in study.notes)
    bigrams = length_bias([texts], vocabulary="bert", n=2, set_size=40)
    assert any("agree within 1%" in note for note in bigrams.notes)


def test_too_few_texts_of_a_length_says_which_set_size_works() -> None:
    texts = make_texts([3], 30, 50) + make_texts([4], 20, 50) + make_texts([5], 7, 50)
    with pytest.raises(
        DataError, match=r"1 lengths .* 3 tokens \(30 texts\), 4 tokens \(20 texts\).*--set-size 20 "
    ) as error:
        length_bias([texts], set_size=25, names=["mine"])
    assert "mine" in str(error.value)
    assert "--set-size 7 at least 3" in str(error.value)
    assert length_bias([texts], set_size=20).rows[0]["lengths"] == 2
    assert length_bias([texts], set_size=7).rows[0]["lengths"] == 3
    with pytest.raises(DataError, match="texts of different lengths"):
        length_bias([make_texts([3], 30, 50)], set_size=2)
    with pytest.raises(DataError, match="0 lengths"):
        length_bias([["", ""]], set_size=2)


def test_files_of_texts_and_of_responses(tmp_path: Path) -> None:
    texts = make_texts([3, 4, 5], 20, 50)
    plain, sets = tmp_path / "plain.txt", tmp_path / "sets.jsonl"
    plain.write_text("\n".join(texts) + "\n")
    rows = [{"context": "c", "kind": "ab"[i % 2], "responses": texts[2 * i : 2 * i + 2]} for i in range(30)]
    sets.write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = [{k: v for k, v in row.items() if k != "task"} for row in length_bias([texts], set_size=15).rows]
    both = length_bias([plain, nlgauge.Source(path=str(sets))], set_size=15)
    assert both.tasks == ["plain", "sets"]
    assert [{k: v for k, v in row.items() if k != "task"} for row in both.rows] == known * 2
    assert length_bias(nlgauge.read(str(plain)), set_size=15).tasks == [""]
    assert length_bias(str(sets), set_size=10, by="kind").tasks == ["a", "b"]
    assert length_bias([sets, plain], set_size=10, names=["x", "y"]).tasks == ["x", "y"]
    measured = length_bias(plain, set_size=15, vocabulary=f"corpus:{plain}", n=2)
    different = len(set(pooled([text.split() for text in texts], 2)))
    assert measured.signature.facts["V"] == str(different)
    with pytest.raises(DataError, match="no such column"):
        length_bias(str(sets), set_size=10, by="colour")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sets": 0}, "0 sets"),
        ({"set_size": 0}, "of 0 texts"),
        ({"seed": -1}, "seed -1"),
        ({"confidence": 1.0}, "confidence 1"),
        ({"n": 0}, "orders '0'"),
        ({"n": 4, "lengths": (3, 9)}, "lengths 3 to 9"),
        ({"lengths": (5, 5)}, "lengths 5 to 5"),
        ({"vocabulary": "many"}, "vocab=many"),
        ({"vocabulary": 10**12}, "designated distribution takes"),
        ({"names": ["a", "b"]}, "names a, b"),
        ({"format": "text"}, "reading files"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        length_bias([make_texts([4, 5], 5, 9)], **{"set_size": 5, **options})


def test_nothing_to_study() -> None:
    with pytest.raises(OptionError, match="nothing to study"):
        length_bias()
    with pytest.raises(DataError, match="nothing to study"):
        length_bias([])
    with pytest.raises(DataError, match=r"give them as one corpus: \[texts\]"):
        length_bias(["a text", "another " * 300])
    with pytest.raises(DataError, match="cannot study a int"):
        length_bias(3)


def test_a_study_prints_and_draws(tmp_path: Path) -> None:
    corpora = [make_texts(range(3, 8), 40, 90, seed=seed) for seed in (1, 2)]
    study = length_bias(corpora, set_size=30, sets=5, names=["<one>", "two"])
    for form in ("text", "markdown", "latex", "csv"):
        assert "length-bias" in render_study(study, form)
    document = json.loads(study.to_json())
    assert len(document["curves"]) == 2 * 4 * 5
    save_chart(study.chart(), tmp_path / "bias.svg")
    drawn = (tmp_path / "bias.svg").read_text()
    assert all(word in drawn for word in [*LINES, "tokens in a text", "two"])
    one = length_bias(corpora[:1], set_size=30, sets=1)
    assert values(one, LINES[0], "sd") == [None] * 5
    save_chart(one.chart(), tmp_path / "one.svg")


def test_the_signature_says_every_choice() -> None:
    study = length_bias(lengths=(5, 7), set_size=10, sets=2, n=2, vocabulary=50, tok="word", case="lower", seed=7)
    assert str(study.signature).startswith(
        "length-bias|n:2|set_size:10|sets:2|lengths:5-7|tok:word|case:lower|vocab:50|designated:yes|fit:least-squares|"
        "ci:0.95|by:t-over-lengths|seed:7|v:"
    )
    assert study.signature.facts["V"] == "2500"
