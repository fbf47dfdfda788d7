"""Correlations of groups, within contexts and over systems: what they are, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

import nlgauge
from nlgauge.errors import DataError, OptionError
from nlgauge.report.study_tables import render_study
from nlgauge.stats.pairwise import pairwise_accuracy, soft_pairwise_accuracy
from tests.errors import raises
from tests.helpers import Outcome
from tests.helpers import nlgauge as command

SYSTEMS = ("a", "b", "c", "d")


def made_table(contexts: int = 30, seed: int = 0) -> pl.DataFrame:
    """One item of every system for each context; `good` follows the human score, `noise` does not."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for context in range(contexts):
        for number, system in enumerate(SYSTEMS):
            human = number + rng.normal()
            rows.append(
                {
                    "id": f"{context}-{system}", "context": f"context {context}", "system": system, "human": human,
                    "good": human + 0.5 * rng.normal(), "noise": rng.normal(),
                    "error": rng.choice(["reasonable", "repetitive", "chaotic", ""]),
                }
            )  # fmt: skip
    return pl.DataFrame(rows)


def study_of(frame: pl.DataFrame, **options: Any) -> nlgauge.Result:
    given_options = {"truth": "human", "columns": ["good", "noise"], "permutations": 100, **options}
    return nlgauge.CorrelationStudy(**given_options).run(frame)


def found(study: nlgauge.Result, metric: str, group: str = "overall", level: str = "items") -> dict[str, Any]:
    (row,) = (r for r in study.rows if (r["metric"], r["group"], r["level"]) == (metric, group, level))
    return row


def run(folder: Path, *arguments: str) -> Outcome:
    return command("study", "correlation", *arguments, cwd=folder, cache=folder / "cache")


class TestGroups:
    def test_each_value_of_a_column_has_rows_beside_those_of_all_items(self) -> None:
        frame = made_table()
        study = study_of(frame, groups=["system"])
        assert list(dict.fromkeys(row["group"] for row in study.rows)) == ["overall", *SYSTEMS]
        for system in SYSTEMS:
            mine = frame.filter(pl.col("system") == system)
            row = found(study, "good", system)
            assert (row["n"], row["column"]) == (30, "system")
            assert row["pearson"] == pytest.approx(pearsonr(mine["good"], mine["human"]).statistic, abs=1e-12)
            assert row["pearson_ci"][0] < row["pearson"] < row["pearson_ci"][1]

    def test_the_overall_row_is_that_of_a_study_without_groups(self) -> None:
        frame = made_table()
        plain = study_of(frame).row("good")
        grouped = found(study_of(frame, groups=["system"], within="context", systems="system"), "good")
        assert {**grouped, "group": ""} == plain

    def test_a_group_is_what_the_study_of_its_items_alone_is(self) -> None:
        frame = made_table()
        alone = study_of(frame.filter(pl.col("system") == "b"))
        group = study_of(frame, groups=["system"])
        for metric in ("good", "noise"):
            row = found(group, metric, "b")
            assert row == alone.row(metric) | {"group": "b", "column": "system"}

    def test_several_columns_make_groups_and_equal_values_stay_apart(self) -> None:
        frame = made_table().with_columns(dataset=pl.when(pl.col("context") < "context 2").then(pl.lit("a")))
        study = study_of(frame, groups=["system", "dataset"], significance=False)
        both = [row for row in study.rows if row["group"] == "a" and row["metric"] == "good"]
        assert [row["column"] for row in both] == ["system", "dataset"]
        assert both[0]["n"] != both[1]["n"]
        assert any("have no dataset: they are in no group" in note for note in study.notes)
        study.chart().to_dict()

    def test_error_types_are_compared_with_the_reasonable_by_labels_1_and_0(self) -> None:
        frame = made_table()
        study = study_of(frame, groups=["error"], against="reasonable")
        assert {row["group"] for row in study.rows} == {"overall", "repetitive", "chaotic"}
        for error in ("repetitive", "chaotic"):
            mine = frame.filter(pl.col("error").is_in(["reasonable", error]))
            labels = (mine["error"] == "reasonable").cast(pl.Float64)
            row = found(study, "good", error)
            assert row["n"] == len(mine)
            assert row["pearson"] == pytest.approx(pearsonr(mine["good"], labels).statistic, abs=1e-12)
        empty = frame["error"].to_list().count("")
        assert any(f"{empty} of 120 items have no error" in note for note in study.notes)

    def test_a_group_without_a_correlation_is_empty_and_said(self) -> None:
        frame = made_table().with_columns(
            kind=pl.when(pl.int_range(pl.len()) < 2).then(pl.lit("few")).otherwise(pl.lit("rest")),
            same=pl.when(pl.col("system") == "a").then(pl.lit(1.0)).otherwise(pl.col("human")),
        )
        study = study_of(frame, groups=["kind"])
        assert found(study, "good", "few")["pearson"] is None
        assert any("1 of 2 groups by kind" in note and note.endswith(": few") for note in study.notes)
        constant = study_of(frame, groups=["system"], columns=["same", "good"])
        assert found(constant, "same", "a")["pearson"] is None
        assert "same is the same on all items of system a: no correlation" in constant.notes

    def test_items_without_a_value_are_named_and_counted(self) -> None:
        frame = made_table().with_columns(good=pl.when(pl.col("id") != "3-b").then(pl.col("good")))
        study = study_of(frame, groups=["system"], within="context", systems="system")
        assert (found(study, "good")["n"], found(study, "good", "b")["n"], found(study, "good", "a")["n"]) == (
            119,
            29,
            30,
        )
        assert "good has no value on 1 of 120 sets; they are left out" in study.notes
        assert any("SPA is over the 29 contexts" in note for note in study.notes)


class TestWithin:
    def test_it_is_the_mean_over_contexts(self) -> None:
        frame = made_table()
        row = found(study_of(frame, within="context"), "good", level="within")
        parts = frame.partition_by("context")
        assert row["spearman"] == pytest.approx(np.mean([spearmanr(p["good"], p["human"]).statistic for p in parts]))
        assert row["pearson"] == pytest.approx(np.mean([pearsonr(p["good"], p["human"]).statistic for p in parts]))
        assert (row["n"], row["contexts"]) == (120, 30)
        assert row["pearson_ci"][0] < row["pearson"] < row["pearson_ci"][1]

    def test_its_interval_is_within_what_is_possible(self) -> None:
        first = pl.col("context") == "context 0"
        frame = made_table(12).with_columns(good=pl.when(first).then("good").otherwise("human"))
        row = found(study_of(frame, within="context"), "good", level="within")
        assert 0.9 < row["pearson"] < row["pearson_ci"][1] == 1.0

    def test_differences_between_contexts_do_not_count(self) -> None:
        frame = made_table().with_columns(shift=pl.col("context").str.strip_prefix("context ").cast(pl.Float64) * 10)
        shifted = frame.with_columns(pl.col("good") + pl.col("shift"))
        plain, moved = (found(study_of(f, within="context"), "good", level="within") for f in (frame, shifted))
        assert moved["pearson"] == pytest.approx(plain["pearson"])
        assert found(study_of(shifted), "good", group="")["pearson"] < 0.3 < plain["pearson"]

    def test_contexts_without_a_correlation_are_counted(self) -> None:
        frame = made_table().filter(~pl.col("id").is_in(["0-a", "0-b"]))
        frame = frame.with_columns(human=pl.when(pl.col("context") == "context 1").then(2.0).otherwise(pl.col("human")))
        study = study_of(frame, within="context")
        row = found(study, "good", level="within")
        assert (row["contexts"], row["n"]) == (28, 112)
        (note,) = (note for note in study.notes if note.startswith("good within context"))
        assert "2 of 30 contexts are left out, 1 with fewer than 3 items and 1 where all values" in note

    def test_accuracy_is_over_all_contexts_those_of_equal_human_scores_too(self) -> None:
        frame = made_table().with_columns(
            human=pl.when(pl.col("context") < "context 2").then(2.0).otherwise(pl.col("human"))
        )
        each = [
            pairwise_accuracy(part["good"].to_numpy(), part["human"].to_numpy()).value
            for part in frame.partition_by("context")
        ]
        row = found(study_of(frame, within="context"), "good", level="within")
        contexts = np.array(frame["context"])
        best = pairwise_accuracy(frame["good"].to_numpy(), frame["human"].to_numpy(), groups=contexts, epsilon=None)
        assert (row["accuracy"], row["epsilon"]) == (best.value, best.epsilon)
        assert row["accuracy"] > np.mean(each)
        tied = frame.with_columns(human=pl.col("context").str.strip_prefix("context ").cast(pl.Float64))
        row = found(study_of(tied, within="context"), "good", level="within")
        assert row["pearson"] is None
        assert row["accuracy"] == 1.0

    def test_where_no_context_is_usable_there_is_no_number(self) -> None:
        study = study_of(made_table(), within="id")
        assert found(study, "good", level="within")["pearson"] is None
        assert any("120 of 120 contexts are left out" in note for note in study.notes)


class TestCeilings:
    """`human` is the mean of three raters, and `good` what they would say without noise."""

    @staticmethod
    def made() -> pl.DataFrame:
        rng = np.random.default_rng(9)
        frame = made_table(60)
        true = frame["human"].to_numpy()
        ratings = true + 0.5 * rng.normal(size=(3, 1)) + 1.5 * rng.normal(size=(3, len(true)))
        columns = {f"rating_{rater}": row for rater, row in enumerate(ratings)}
        return frame.with_columns(good=pl.Series(true), human=pl.Series(ratings.mean(axis=0)), **columns)

    def test_a_metric_without_error_reaches_it_on_every_level(self) -> None:
        study = study_of(self.made(), raters=["rating_*"], groups=["system"], within="context", systems="system")
        for level, group in (("items", "overall"), ("items", "b"), ("within", "overall"), ("systems", "overall")):
            row = found(study, "good", group, level)
            assert row["pearson"] == pytest.approx(row["ceiling"], abs=0.1), (level, group)
        row = found(study, "good")
        assert row["ceiling_ci"][0] < row["pearson"] < row["ceiling_ci"][1]
        assert row["spearman_ceiling"] == pytest.approx(row["spearman"], abs=0.06)
        assert row["kendall_ceiling"] == pytest.approx(row["kendall"], abs=0.06)
        assert found(study, "noise")["ceiling"] == row["ceiling"]
        assert any(note.startswith("ceiling: what a metric without any error") for note in study.notes)
        assert study.signature.facts["ceiling"].startswith("icc")
        assert "ceiling" in render_study(study, "text")

    def test_ratings_of_the_truth_give_the_same_and_are_no_metric(self) -> None:
        frame = self.made()
        long = frame.unpivot(["rating_0", "rating_1", "rating_2"], index="id", variable_name="rater")
        ratings = long.rename({"id": "item"}).with_columns(question=pl.lit("human"))
        by_columns = study_of(frame, raters=["rating_*"])
        by_table = study_of(frame, ratings=nlgauge.Ratings(ratings))
        without = study_of(frame.drop("human"), ratings=nlgauge.Ratings(ratings))
        for one in (by_table, without):
            assert [row["metric"] for row in one.rows] == ["good", "noise"]
            assert one.rows[0]["ceiling"] == pytest.approx(by_columns.rows[0]["ceiling"], abs=1e-12)
            assert one.rows[0]["pearson"] == pytest.approx(by_columns.rows[0]["pearson"], abs=1e-12)

    def test_without_single_ratings_there_is_no_column(self) -> None:
        study = study_of(made_table())
        assert not any("ceiling" in row for row in study.rows)
        assert "ceiling" not in {column.key for column in study.columns}

    def test_one_rater_has_no_ceiling_and_a_note_says_so(self) -> None:
        study = study_of(self.made(), raters=["rating_0"])
        assert "ceiling" not in {column.key for column in study.columns}
        assert "no ceiling: no item has two ratings, which would show their noise" in study.notes

    def test_what_makes_no_sense_is_said_or_refused(self) -> None:
        frame = self.made()
        other = study_of(frame.with_columns(human=pl.col("noise")), raters=["rating_*"])
        assert any("the truth is not the mean of its ratings" in note for note in other.notes)
        infinite = frame.with_columns(rating_1=pl.lit(float("inf")))
        with raises(DataError, option="raters"):
            study_of(infinite, raters=["rating_*"])
        holes = frame.with_columns(rating_1=pl.when(pl.int_range(pl.len()) > 3).then(pl.col("rating_1")))
        assert found(study_of(holes, raters=["rating_*"]), "good", group="")["ceiling"] is not None
        with raises(DataError, column="score"):
            study_of(frame, raters=["score"])


class TestSystems:
    def test_means_of_systems_are_correlated(self) -> None:
        frame = made_table()
        row = found(study_of(frame, systems="system"), "good", level="systems")
        means = frame.group_by("system").agg(pl.col("human", "good").mean()).sort("system")
        expected = pearsonr(means["good"], means["human"])
        assert (row["n"], row["accuracy"], row["spearman"]) == (4, 1.0, pytest.approx(1))
        assert row["pearson"] == pytest.approx(expected.statistic)
        assert row["pearson_p"] == pytest.approx(expected.pvalue)
        assert row["pearson_ci"][0] <= row["pearson"] <= row["pearson_ci"][1]

    def test_soft_accuracy_is_that_of_the_table_of_systems_and_contexts(self) -> None:
        frame = made_table()
        study = study_of(frame, systems="system")
        for metric in ("good", "noise"):
            tables = [
                frame.pivot("system", index="context", values=values).select(SYSTEMS).to_numpy().T
                for values in (metric, "human")
            ]
            expected = soft_pairwise_accuracy(*tables, permutations=100)
            assert found(study, metric, level="systems")["soft_accuracy"] == pytest.approx(expected)
        assert found(study, "good", level="systems")["soft_accuracy"] > 0.9

    def test_items_that_share_no_context_have_no_soft_accuracy_and_this_is_said(self) -> None:
        study = study_of(made_table().drop("context"), systems="system")
        row = found(study, "good", level="systems")
        assert row["soft_accuracy"] is None
        assert row["pearson_ci"] is not None
        assert any("no SPA" in note for note in study.notes)

    def test_fewer_than_three_are_refused(self) -> None:
        with raises(DataError, file="", column="system"):
            study_of(made_table().filter(pl.col("system").is_in(["a", "b"])), systems="system")


def test_p_values_are_about_the_contexts_that_items_share() -> None:
    """15 contexts of 8 items: with items taken as independent, an unrelated metric is marked in 42 %."""
    contexts, rng, marked = np.repeat(np.arange(15), 8), np.random.default_rng(11), 0
    for _ in range(60):
        human, metric = (rng.normal(size=15)[contexts] + 0.5 * rng.normal(size=120) for _ in range(2))
        frame = pl.DataFrame({"context": contexts.astype(str), "human": human, "metric": metric})
        study = nlgauge.CorrelationStudy(truth="human", columns=["metric"], resamples=100, permutations=100).run(
            frame.with_columns(id=pl.int_range(120).cast(pl.String), text=pl.lit("t"))
        )
        marked += study.rows[0]["pearson_p"] < 0.05
    assert marked / 60 < 0.15


@given(st.randoms(use_true_random=False))
@settings(max_examples=5, deadline=None)
def test_the_order_of_items_does_not_matter(random: Any) -> None:
    frame = made_table(22)
    order = list(range(len(frame)))
    random.shuffle(order)
    options: dict[str, Any] = {"groups": ["system"], "within": "context", "systems": "system", "significance": False}
    for one, other in zip(study_of(frame, **options).rows, study_of(frame[order], **options).rows, strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert other[key] == (pytest.approx(value, abs=1e-12) if isinstance(value, float | list) else value), key


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"against": "reasonable"}, OptionError, "requires a column of groups"),
        ({"groups": ["error"], "against": "good"}, DataError, "expected 'good' and at least one other"),
        ({"groups": ["nothing"]}, DataError, "no such column"),
        ({"within": "nothing"}, DataError, "no such column"),
        ({"systems": "nothing"}, DataError, "no such column"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        study_of(made_table(), **options)


def test_a_column_of_lists_makes_no_groups() -> None:
    with raises(DataError, file=None, column="tags", option="groups"):
        study_of(made_table().with_columns(tags=pl.concat_list("system", "error")), groups=["tags"])


def test_a_truth_of_one_class_is_refused() -> None:
    with raises(DataError, file="", column="label"):
        study_of(made_table().with_columns(label=pl.lit(1)), truth="label", groups=["system"])


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv", "json"])
def test_the_command_prints_every_level(tmp_path: Path, form: str) -> None:
    made_table().write_ndjson(tmp_path / "items.jsonl")
    done = run(
        tmp_path, "items.jsonl", "--truth", "human", "--column", "good", "--group", "system", "--group", "error",
        "--within", "context", "--systems", "system", "--format", form, "--chart", "chart.html",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "nan" not in done.out.lower()
    assert (tmp_path / "chart.html").stat().st_size > 100_000
    assert all(word in done.out for word in ("overall", "reasonable", "within", "systems"))
    if form == "json":
        document = json.loads(done.out)
        assert len(document["rows"]) == 1 + 4 + 3 + 1 + 1
        assert "|groups:system+error|against:none|within:context|systems:system|" in document["signature"]


def test_several_tasks_are_shown_with_their_names() -> None:
    frame = made_table().with_columns(half=(pl.int_range(pl.len()) < 60).cast(pl.String))
    study = study_of(frame, by="half", groups=["system"])
    assert len(study.rows) == 2 * 2 * 5
    lines = render_study(study, "markdown").splitlines()
    assert lines[2].startswith("| task | metric | level | group | n |")
    assert sum(line.startswith(("| true |", "| false |")) for line in lines) == 20
