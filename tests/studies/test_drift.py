"""Drift: metrics on other generators and on other data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, mannwhitneyu, norm, pearsonr

from nlgauge.errors import DataError, OptionError
from nlgauge.report.study_tables import render_study
from nlgauge.studies.base import Result
from nlgauge.studies.story.correlation import CorrelationStudy
from nlgauge.studies.story.drift import Drift, home_of, spread_between, weighted_auc
from tests.errors import raises
from tests.helpers import Outcome
from tests.helpers import nlgauge as command

GENERATORS = ("fusion", "gpt", "s2s")


def made_stories(count: int = 60, seed: int = 0) -> pl.DataFrame:
    """Scores of three generators; the metric `drifting` is good on one of them and useless on another."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for number, generator in enumerate(GENERATORS):
        for item in range(count):
            human = rng.normal()
            rows.append(
                {
                    "id": f"{generator} {item}", "model": generator, "human": human,
                    "drifting": number * human + rng.normal(), "steady": human + rng.normal(),
                }
            )  # fmt: skip
    return pl.DataFrame(rows)


def made_tests(count: int = 150) -> dict[str, pl.DataFrame]:
    """Real (1) and perturbed (0) texts of two corpora; each trained metric is better at home."""
    rng = np.random.default_rng(1)
    tests = {}
    for name in ("ROC", "WP"):
        label = np.arange(count) % 2
        own, foreign = 2.0 * label + rng.normal(size=count), 0.3 * label + rng.normal(size=count)
        home = name == "ROC"
        tests[name] = pl.DataFrame(
            {
                "id": [f"{name} {i}" for i in range(count)], "label": label,
                "union-roc": own if home else foreign, "union-wp": foreign if home else own, "plain": own,
                "stars": label + rng.normal(size=count),
            }
        )  # fmt: skip
    return tests


TRAINED = ["union-roc", "union-wp", "plain"]


def between_tests(tests: dict[str, pl.DataFrame], **options: Any) -> Result:
    return Drift(columns=TRAINED, tasks=list(tests), **options).run(list(tests.values()))


def run(folder: Path, *arguments: str) -> Outcome:
    return command("study", "drift", *arguments, cwd=folder, cache=folder / "cache")


class TestOtherGenerators:
    def test_rows_are_those_of_the_correlation_of_each_generator(self) -> None:
        frame = made_stories()
        study = Drift(truth="human", generator="model", columns=["drifting", "steady"]).run(frame)
        assert [(row["metric"], row["group"]) for row in study.rows] == [
            (metric, group) for metric in ("drifting", "steady") for group in (*GENERATORS, "overall")
        ]
        for row in study.rows[:3]:
            mine = frame.filter(pl.col("model") == row["group"])
            alone = CorrelationStudy(truth="human", columns=["drifting"]).run(mine).row("drifting")
            assert [row[key] for key in ("n", "pearson", "pearson_ci")] == [
                alone[key] for key in ("n", "pearson", "pearson_ci")
            ]

    def test_the_spread_stands_beside_the_overall_row(self) -> None:
        study = Drift(truth="human", generator="model", columns=["drifting"]).run(made_stories())
        *mine, overall = study.rows
        found = [row["pearson"] for row in mine]
        assert overall["spread"] == pytest.approx(max(found) - min(found))
        assert overall["same_p"] < 0.001
        assert all(row["spread"] is None for row in mine)

    def test_two_generators_give_the_p_value_of_fishers_z_test(self) -> None:
        frame = made_stories().filter(pl.col("model") != "s2s")
        study = Drift(truth="human", generator="model", columns=["drifting"]).run(frame)
        one, other = (np.arctanh(row["pearson"]) for row in study.rows[:2])
        z = abs(one - other) / np.sqrt(2 / 57)
        assert study.rows[2]["same_p"] == pytest.approx(2 * norm.sf(z))

    def test_chance_is_taken_for_a_spread_as_rarely_as_the_p_value_says(self) -> None:
        p: dict[str, list[float]] = {"steady": [], "drifting": []}
        for seed in range(300):
            parts = made_stories(40, seed).partition_by("model")
            for metric, found in p.items():
                rows = [{"pearson": pearsonr(part["human"], part[metric]).statistic, "n": 40} for part in parts]
                found.append(spread_between(rows)["same_p"])
        assert kstest(p["steady"], "uniform").pvalue > 0.01
        assert 0.02 < np.mean(np.array(p["steady"]) < 0.05) < 0.09
        assert np.mean(np.array(p["drifting"]) < 0.05) > 0.95

    def test_one_generator_is_refused(self) -> None:
        with raises(DataError, file="", column="model"):
            Drift(truth="human", generator="model", columns=["steady"]).run(
                made_stories().filter(pl.col("model") == "gpt")
            )

    def test_the_command_prints_and_draws(self, tmp_path: Path) -> None:
        made_stories().write_ndjson(tmp_path / "stories.jsonl")
        arguments = ("stories.jsonl", "--truth", "human", "--generator", "model", "--column", "steady")
        done = run(tmp_path, *arguments, "--chart", "chart.png")
        assert done.code == 0, done.err
        assert "generator" in done.out.splitlines()[2]
        assert "|truth:human|generator:model|" in done.out
        assert (tmp_path / "chart.png").stat().st_size > 1000


class TestOtherData:
    def test_each_metric_is_tested_on_every_set(self) -> None:
        tests = made_tests()
        study = between_tests(tests, truth="label")
        assert [(row["task"], row["metric"]) for row in study.rows] == [
            (test, metric) for test in ("ROC", "WP") for metric in TRAINED
        ]
        for row in study.rows:
            values, label = tests[row["task"]][row["metric"]], tests[row["task"]]["label"]
            assert row["pearson"] == pytest.approx(pearsonr(values, label).statistic)
            real, made = (values.filter(label == kind).to_numpy() for kind in (1, 0))
            assert row["auc"] == pytest.approx(mannwhitneyu(real, made).statistic / (len(real) * len(made)))
            assert row["pearson_ci"][0] < row["pearson"] < row["pearson_ci"][1]
            assert row["auc_ci"][0] < row["auc"] < row["auc_ci"][1]

    def test_the_drop_is_from_own_to_foreign_data(self) -> None:
        study = between_tests(made_tests(), truth="label")
        for metric, home, away in (("union-roc", "ROC", "WP"), ("union-wp", "WP", "ROC")):
            own, foreign = study.row(metric, home), study.row(metric, away)
            assert own["trained_on"] == foreign["trained_on"] == home
            assert own["drop"] is None
            assert foreign["drop"] == pytest.approx(own["pearson"] - foreign["pearson"])
            assert 0 < foreign["drop_ci"][0] < foreign["drop"] < foreign["drop_ci"][1]
        assert study.row("plain", "WP")["drop"] is None
        assert any("plain has none of the names ROC, WP in its name" in note for note in study.notes)

    def test_human_scores_have_a_correlation_and_no_auc(self) -> None:
        study = between_tests(made_tests(), truth="stars")
        assert all(row["auc"] is None and row["pearson"] is not None for row in study.rows)

    def test_single_ratings_show_the_ceiling_beside_every_correlation(self) -> None:
        rng, tests = np.random.default_rng(9), made_tests(60)
        for name, frame in tests.items():
            rated = {f"rater_{i}": frame["stars"] + rng.normal(size=len(frame)) for i in range(3)}
            tests[name] = frame.with_columns(**rated).with_columns(mean=pl.mean_horizontal(*rated))
        study = between_tests(tests, truth="mean", raters=["rater_*"])
        both = pl.concat(frame.with_columns(of=pl.lit(name)) for name, frame in tests.items())
        known = CorrelationStudy(columns=["plain"], truth="mean", groups=["of"], raters=["rater_*"]).run(both)
        for row in study.rows:
            alone = next(one for one in known.rows if one["group"] == row["task"])
            assert (row["ceiling"], row["ceiling_ci"]) == (alone["ceiling"], alone["ceiling_ci"])
            assert row["ceiling_ci"][0] < row["ceiling"] < row["ceiling_ci"][1]
        assert (study.signature.facts["ceiling"], study.signature.facts["raters"]) == ("icc", "rater_*")
        drift = Drift(columns=["plain"], truth="mean", generator="of", raters=["rater_*"]).run(both)
        assert all("ceiling" in render_study(one, "markdown") for one in (study, drift))
        assert [row["ceiling"] for row in drift.rows if row["column"] == "of"] == [
            row["ceiling"] for row in study.rows if row["metric"] == "plain"
        ]

    def test_texts_that_share_a_context_are_resampled_together(self) -> None:
        tests = {
            name: frame.with_columns(context=(pl.int_range(pl.len()) // 2).cast(pl.String), label=pl.col("label"))
            for name, frame in made_tests().items()
        }
        together, apart = (between_tests(tests, truth="label", unit=unit) for unit in ("auto", "set"))
        assert together.signature.facts["unit"] == "context"
        assert together.rows[0]["pearson"] == apart.rows[0]["pearson"]
        assert together.rows[0]["pearson_ci"] != apart.rows[0]["pearson_ci"]
        assert any(note.startswith("test sets share contexts") for note in together.notes)

    def test_the_order_of_items_does_not_matter(self) -> None:
        tests = made_tests()
        shuffled = {name: frame.sample(fraction=1, shuffle=True, seed=2) for name, frame in tests.items()}
        one, other = (between_tests(data, truth="label") for data in (tests, shuffled))
        for a, b in zip(one.rows, other.rows, strict=True):
            for key, value in a.items():
                assert b[key] == (pytest.approx(value, abs=1e-12) if isinstance(value, float | list) else value), key

    def test_what_is_missing_is_said(self) -> None:
        tests = made_tests()
        tests["WP"] = tests["WP"].drop("union-roc").with_columns(plain=pl.lit(1.0))
        study = between_tests(tests, truth="label")
        assert "union-roc is not a column of WP" in study.notes
        assert study.row("plain", "WP")["pearson"] is None
        assert any(note.startswith("plain has too few values on WP") for note in study.notes)

    def test_one_set_or_one_class_is_refused(self) -> None:
        tests = made_tests()
        with raises(OptionError, option="generator"):
            between_tests({"ROC": tests["ROC"]}, truth="label")
        tests["WP"] = tests["WP"].with_columns(label=pl.lit(0))
        with raises(DataError, file="WP", column="label"):
            between_tests(tests, truth="label")

    def test_the_command_prints_a_matrix(self, tmp_path: Path) -> None:
        texts = ["the dog ran home", "the cat slept all day", "a bird sang", "rain fell on the old hill"] * 10
        for name, frame in made_tests(40).items():
            frame.with_columns(text=pl.Series(texts)).write_ndjson(tmp_path / f"{name}.jsonl")
        arguments = ("ROC.jsonl", "WP.jsonl", "--truth", "label", "--no-progress")
        names = ("-m", "mine-roc=column:column=union-roc", "-m", "distinct:n=2", "--column", "union-wp")
        done = run(tmp_path, *arguments, *names, "--chart", "chart.html")
        assert done.code == 0, done.err
        _, _, header, _, *lines = done.out.splitlines()
        titles = ["metric", "ROC pearson", "ROC pearson interval", "ROC AUC"]
        assert [word.strip() for word in header.split("  ") if word.strip()][:4] == titles
        assert [line.split()[0] for line in lines[:3]] == ["mine-roc", "distinct:n=2", "union-wp"]
        document = json.loads(run(tmp_path, *arguments, *names, "-f", "json").out)
        trained = {row["metric"]: row["trained_on"] for row in document["rows"]}
        assert trained == {"mine-roc": "ROC", "distinct:n=2": None, "union-wp": "WP"}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "Missing argument 'FILE...'"),
            (("a.jsonl",), "1 test sets; expected at least 2"),
            (("a.jsonl", "b.jsonl", "--tasks", "A,A"), "expected a different name for each"),
            (("a.jsonl", "b.jsonl", "-m", "=bleu"), "expected NAME=METRIC, as in union-roc=union:model=FOLDER"),
            (("a.jsonl", "b.jsonl", "-m", "x=bleu", "-m", "x=bleu"), "--metric x is duplicated"),
        ],
    )
    def test_bad_usage_is_refused(self, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
        (tmp_path / "a.jsonl").write_text('{"label": 1}\n')
        done = run(tmp_path, *arguments, "--truth", "label")
        assert (done.code, done.out) == (2, "")
        assert message in done.err


@pytest.mark.parametrize(
    ("metric", "home"),
    [("union-roc", "ROC"), ("UNION (WP)", "WP"), ("roc_union", "ROC"), ("rocket", None), ("union", None)],
)
def test_the_set_that_a_metric_was_trained_on_stands_in_its_name(metric: str, home: str | None) -> None:
    assert home_of(metric, ["ROC", "WP"]) == home


def test_a_metric_that_names_two_sets_is_refused() -> None:
    with pytest.raises(OptionError, match="names the test sets ROC, WP"):
        home_of("union roc wp", ["ROC", "WP"])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(0, 3)), min_size=2, max_size=30))
def test_the_weighted_auc_is_that_of_items_repeated(items: list[tuple[int, int, int]]) -> None:
    values, labels, weights = (np.array(side) for side in zip(*items, strict=True))
    if len(set(labels.tolist())) < 2:
        return
    found = weighted_auc(values.astype(float), labels.astype(float), weights[None])[0]
    high, low = (np.repeat(values[labels == kind], weights[labels == kind]) for kind in (1, 0))
    if not len(high) or not len(low):
        assert np.isnan(found)
        return
    wins = [(a > b) + 0.5 * (a == b) for a in high for b in low]
    assert found == pytest.approx(np.mean(wins))


def test_every_format_prints() -> None:
    study = between_tests(made_tests(), truth="label")
    for form in ("text", "markdown", "latex", "csv", "json"):
        assert "union-roc" in render_study(study, form)
