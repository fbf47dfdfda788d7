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
from scipy.special import gammainc

import nlgauge
from nlgauge.arrays import Array
from nlgauge.drawing import save_chart
from nlgauge.errors import DataError, OptionError
from nlgauge.report.study_tables import render_study
from nlgauge.studies.base import Result
from nlgauge.studies.diversity.cut_lengths import CutSlopes, Slope
from nlgauge.studies.diversity.equal_lengths import count_different, draw_designated
from nlgauge.studies.diversity.length_bias import LengthBias, fit_slope
from nlgauge.studies.registry import create_study
from tests.errors import raises
from tests.slow import pooled

LINES = ["distinct (corpus)", "ead (corpus)", "distinct (designated)", "ead (designated)"]


def designated_probability(numbers: Array, vocabulary: float) -> Array:
    """P(X = k): the integral is the regularised lower incomplete gamma function P(k + 1, v) divided by v."""
    probability: Array = gammainc(np.asarray(numbers) + 1.0, vocabulary) / vocabulary
    return probability


def make_texts(lengths: Sequence[int], each: int, words: int, *, seed: int = 1) -> list[str]:
    """As many texts of every length, of words drawn evenly."""
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{i}" for i in rng.integers(0, words, length)) for length in lengths for _ in range(each)]


def values(study: Result, line: str, column: str = "mean") -> list[Any]:
    return study.tables["curves"].filter(pl.col("metric") == line)[column].to_list()


@pytest.fixture(scope="module")
def corpora(research_data: Path) -> Result:
    texts = [nlgauge.Items.of(utterances(research_data / path)) for path in CORPORA.values()]
    return LengthBias(tasks=list(CORPORA)).run(texts)


@pytest.mark.parametrize("task", ["DailyDialog", "OpenSubtitles"])
def test_distinct_falls_with_length_and_ead_falls_less(corpora: Result, task: str) -> None:
    for source in ("corpus", "designated"):
        distinct, ead = (corpora.row(f"{score} ({source})", task) for score in ("distinct", "ead"))
        assert distinct["slope_ci"][1] < 0
        assert distinct["last"] < distinct["first"]
        assert abs(ead["relative_slope"]) < abs(distinct["relative_slope"])
    assert abs(corpora.row("ead (designated)", task)["relative_slope"]) < 5e-4


def test_real_curves_start_and_end_where_texts_run_out(corpora: Result) -> None:
    row = corpora.row("ead (corpus)", "DailyDialog")
    assert (row["lengths"], row["shortest"], row["longest"]) == (16, 3, 18)
    assert "EAD rises with length on DailyDialog" in "\n".join(corpora.notes)
    assert "declines" not in "\n".join(corpora.notes)
    assert min(corpora.tables["curves"]["texts"].drop_nulls().to_list()) >= 2000


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
    study = LengthBias(n=n, texts_per_set=size, sets=3, vocabulary="9", seed=seed, designated=False).run([texts])
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
    study = LengthBias(n=n, texts_per_set=30, sets=2, tok=tok, vocabulary=5000).run([texts])
    for place, part in enumerate((texts[:30], texts[30:])):
        scores = nlgauge.score(
            nlgauge.Items.of(part), [f"distinct:n={n},over=corpus,tok={tok}", f"ead:n={n},tok={tok},vocab=5000"]
        )
        assert [values(study, line)[place] for line in LINES[:2]] == [score.value for score in scores]
    assert "has exactly 30 texts: all its sets are the same" in "\n".join(study.notes)
    assert values(study, LINES[0], "sd") == [0, 0]


def test_neither_order_nor_other_lengths_matter() -> None:
    texts = make_texts([3, 4, 5, 6], 60, 200)
    everything = LengthBias(texts_per_set=40).run([texts])
    assert LengthBias(texts_per_set=40).run([texts[::-1]]).to_dict() == everything.to_dict()
    whole = everything.tables["curves"].filter(pl.col("source") != "cut")

    def curves(texts: list[str], **options: Any) -> pl.DataFrame:
        return LengthBias(texts_per_set=40, cut=False, **options).run([texts]).tables["curves"]

    part = curves([text for text in texts if len(text.split()) in (4, 6)])
    assert part.equals(whole.filter(pl.col("length").is_in([4, 6])))
    assert curves(texts, lengths=(4, 6)).equals(whole.filter(pl.col("length").is_between(4, 6)))
    assert not curves(texts, seed=1).equals(whole)


def test_the_designated_distribution_alone() -> None:
    study = LengthBias(lengths=(5, 40), texts_per_set=1000, sets=4).run()
    assert [row["metric"] for row in study.rows] == LINES[2:]
    distinct, ead = study.rows
    assert distinct["slope_ci"][1] < 0
    assert abs(ead["relative_slope"]) < 5e-4
    assert ead["lengths"] == 36
    assert study.tables["curves"]["texts"].null_count() == len(study.tables["curves"])


def test_corpora_of_equal_lengths_share_the_designated_curve() -> None:
    study = LengthBias(texts_per_set=20, tasks=["a", "b"]).run(
        [nlgauge.Items.of(make_texts([3, 4, 5], each, words)) for each, words in ((20, 50), (30, 9))]
    )
    assert study.tasks == ["a", "b"]
    first, second = (study.row(LINES[2], task) for task in study.tasks)
    assert {**first, "task": "b"} == second
    alone = LengthBias(texts_per_set=9, designated=False).run([make_texts([3, 4], 9, 9)])
    assert alone.tables["curves"]["source"].unique().to_list() == ["corpus"]


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
    study = LengthBias(texts_per_set=20).run([make_texts([3, 4], 20, 50)])
    assert study.row(LINES[0])["slope_ci"] is None
    assert "no interval" in "\n".join(study.notes)


def test_advice_when_ead_itself_declines() -> None:
    study = LengthBias(texts_per_set=100, tasks=["Small words"]).run([make_texts(range(3, 12), 100, 150)])
    row = study.row("ead (corpus)")
    assert row["slope_ci"][1] < 0
    assert any("EAD itself declines with length on Small words" in note for note in study.notes)
    assert any("unfair" in note for note in study.notes)


def test_no_advice_when_ead_is_flat() -> None:
    study = LengthBias(vocabulary=400, texts_per_set=250).run([make_texts(range(3, 9), 300, 400)])
    assert abs(study.row("ead (corpus)")["relative_slope"]) < 0.01
    assert len(study.notes) == 2
    assert "ead changes less with length alone" in study.notes[1]


def test_notes_when_distinct_changes_less_than_ead() -> None:
    texts = [" ".join(f"{length}-{i}-{j}" for j in range(length)) for length in range(3, 9) for i in range(40)]
    study = LengthBias(vocabulary="200", texts_per_set=40).run([texts])
    assert study.row("distinct (corpus)")["slope"] == 0
    assert any("distinct changes less with length alone" in note for note in study.notes)
    assert any("EAD rises with length" in note for note in study.notes)
    bigrams = LengthBias(vocabulary="bert", n=2, texts_per_set=40).run([texts])
    assert any("agree within 1%" in note for note in bigrams.notes)


def test_texts_are_cut_so_that_nothing_but_length_differs() -> None:
    texts = make_texts([3, 9, 12], 60, 80)
    study = LengthBias(vocabulary=100, texts_per_set=60, designated=False, lengths=(2, 10)).run([texts])
    words = [text.split() for text in texts if len(text.split()) >= 10]
    assert len(words) == 60
    curve = study.tables["curves"].filter(pl.col("metric") == "distinct (cut)")
    shares = [len({one for text in words for one in text[:cut]}) / (60 * cut) for cut in range(2, 11)]
    assert curve["length"].to_list() == list(range(2, 11))
    assert curve["mean"].to_list() == pytest.approx(shares)
    row = study.row("distinct (cut)")
    slope = np.polyfit(range(2, 11), shares, 1)[0]
    assert (row["slope"], row["relative_slope"]) == pytest.approx((slope, slope / np.mean(shares)))
    low, high = row["relative_slope_ci"]
    assert low < row["relative_slope"] < high < 0
    assert "distinct (cut)" not in [one["metric"] for one in LengthBias(texts_per_set=60, cut=False).run([texts]).rows]


def test_no_advice_where_the_intervals_do_not_tell_which_score_changes_less() -> None:
    flat = Slope((1.0, 1.0), 0.0, (0.0, 0.0), 0.0, (0.0, 0.0))
    for apart, together, flatter in (
        ((-0.3, 0.1), (0.1, 0.3), None),
        ((0.1, 0.3), (-0.1, 0.3), None),
        (None, (0.1, 0.2), None),
        ((0.1, 0.3), (0.1, 0.3), 1),
        ((-0.3, -0.1), (-0.3, -0.1), 1),
        ((-0.3, -0.1), (0.1, 0.3), 0),
    ):
        assert CutSlopes((1, 2), 50, (flat, flat), apart, together).flatter == flatter
    few = LengthBias(texts_per_set=5).run([make_texts([4, 9], 6, 50)])
    assert any("no texts of this corpus were cut" in note for note in few.notes)


def test_too_few_texts_of_a_length_says_which_set_size_works() -> None:
    texts = make_texts([3], 30, 50) + make_texts([4], 20, 50) + make_texts([5], 7, 50)
    with pytest.raises(DataError, match=r"1 lengths .* 3 tokens \(30 texts\), 4 tokens \(20 texts\)") as error:
        LengthBias(texts_per_set=25, tasks=["mine"]).run([texts])
    assert (error.value.file, error.value.option) == ("mine", "texts_per_set")
    assert "texts_per_set=20 would leave 2 lengths, texts_per_set=7 at least 3" in str(error.value)
    assert LengthBias(texts_per_set=20).run([texts]).rows[0]["lengths"] == 2
    assert LengthBias(texts_per_set=7).run([texts]).rows[0]["lengths"] == 3
    with pytest.raises(DataError, match="texts of different lengths"):
        LengthBias(texts_per_set=2).run([make_texts([3], 30, 50)])
    with pytest.raises(DataError, match="0 lengths"):
        LengthBias(texts_per_set=2).run([["", ""]])


def test_files_of_texts_and_of_responses(tmp_path: Path) -> None:
    texts = make_texts([3, 4, 5], 20, 50)
    plain, sets = tmp_path / "plain.txt", tmp_path / "sets.jsonl"
    plain.write_text("\n".join(texts) + "\n")
    rows = [{"context": "c", "kind": "ab"[i % 2], "responses": texts[2 * i : 2 * i + 2]} for i in range(30)]
    sets.write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = [{k: v for k, v in row.items() if k != "task"} for row in LengthBias(texts_per_set=15).run([texts]).rows]
    both = LengthBias(texts_per_set=15).run([plain, nlgauge.Source(path=str(sets))])
    assert both.tasks == ["plain", "sets"]
    assert [{k: v for k, v in row.items() if k != "task"} for row in both.rows] == known * 2
    assert LengthBias(texts_per_set=15).run(nlgauge.read(str(plain))).tasks == [""]
    assert LengthBias(texts_per_set=10, by="kind").run(str(sets)).tasks == ["a", "b"]
    assert LengthBias(texts_per_set=10, tasks=["x", "y"]).run([sets, plain]).tasks == ["x", "y"]
    measured = LengthBias(texts_per_set=15, vocabulary=f"corpus:{plain}", n=2).run(plain)
    different = len(set(pooled([text.split() for text in texts], 2)))
    assert measured.signature.facts["V"] == str(different)
    with raises(DataError, column="colour", option="by"):
        LengthBias(texts_per_set=10, by="colour").run(str(sets))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"sets": 0}, "sets"),
        ({"texts_per_set": 0}, "texts_per_set"),
        ({"seed": -1}, "seed"),
        ({"level": 1.0}, "level"),
        ({"n": 0}, None),
        ({"n": 4, "lengths": (3, 9)}, "lengths"),
        ({"lengths": (5, 5)}, "lengths"),
        ({"lengths": (5,)}, "lengths"),
        ({"case": "upper"}, "case"),
        ({"vocabulary": "many"}, None),
        ({"vocabulary": 10**12}, None),
        ({"tasks": ["a", "b"]}, "tasks"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], named: str | None) -> None:
    with pytest.raises(OptionError) as error:
        LengthBias(**{"texts_per_set": 5, **options}).run([make_texts([4, 5], 5, 9)])
    assert error.value.option == named


@pytest.mark.parametrize(
    ("options", "named"),
    [({"input_format": "text"}, "input_format"), ({"set_size": 5}, "set_size"), ({"one_set": True}, "one_set")],
)
@pytest.mark.parametrize("data", [None, [["a b", "c d"]]])
def test_options_for_reading_require_files(data: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError) as error:
        LengthBias(lengths=(5, 9)).run(data, **options)
    assert error.value.option == named


def test_nothing_to_study() -> None:
    with pytest.raises(OptionError, match="nothing to study") as error:
        LengthBias().run()
    assert error.value.option == "lengths"
    with pytest.raises(DataError, match="nothing to study"):
        LengthBias().run([])
    for texts in (["a text", "another"], ["another " * 300]):
        with pytest.raises(DataError, match="texts are given as lists, one list per set"):
            LengthBias().run(texts)
    with pytest.raises(DataError, match="cannot study a int"):
        LengthBias().run(3)


def test_a_study_prints_and_draws(tmp_path: Path) -> None:
    corpora = [nlgauge.Items.of(make_texts(range(3, 8), 40, 90, seed=seed)) for seed in (1, 2)]
    study = LengthBias(texts_per_set=30, sets=5, cut=False, tasks=["<one>", "two"]).run(corpora)
    for form in ("text", "markdown", "latex", "csv"):
        assert "length-bias" in render_study(study, form)
    document = json.loads(study.to_json())
    assert len(document["curves"]) == 2 * 4 * 5
    save_chart(study.chart(), tmp_path / "bias.svg")
    drawn = (tmp_path / "bias.svg").read_text()
    assert all(word in drawn for word in [*LINES, "tokens in a text", "two"])
    one = LengthBias(texts_per_set=30, sets=1).run(corpora[:1])
    assert values(one, LINES[0], "sd") == [None] * 5
    save_chart(one.chart(), tmp_path / "one.svg")


def test_the_signature_says_every_choice() -> None:
    study = LengthBias(
        lengths=(5, 7), texts_per_set=10, sets=2, n=2, vocabulary=50, tok="word", case="lower", seed=7
    ).run()
    assert str(study.signature) == (
        "length-bias|by:none|seed:7|n:2|vocabulary:50|texts_per_set:10|sets:2|lengths:5+7|designated:true|cut:true|tok:word|"
        f"case:lower|level:0.95|v:{nlgauge.__version__}|#|V:2500|fit:least-squares|interval:t over lengths"
    )
    again = create_study(str(study.signature)).run()
    assert list(again.rows) == list(study.rows)
