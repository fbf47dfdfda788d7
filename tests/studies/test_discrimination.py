"""Discrimination: metrics on coherent stories and on those made worse in one aspect."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr

from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.metrics.registry import create_metric
from nlgauge.perturb.manifest import write_manifest
from nlgauge.report.study_tables import render_study
from nlgauge.stats.correlation import correlation_test, fisher_interval, resample_weights
from nlgauge.stats.inference import Intervals
from nlgauge.studies.story.discrimination import DiscriminationTest, weighted_wins
from nlgauge.studies.story.suites import Suite
from tests.helpers import Outcome
from tests.helpers import nlgauge as command

NAMES = ("Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal")
THINGS = ("kite", "lamp", "drum", "boat", "cake", "coat")
ASPECTS = ("repetition", "tea-time")
QUICK = Intervals(resamples=200)


def made_story(number: int) -> str:
    name, thing = NAMES[number % len(NAMES)], THINGS[number % len(THINGS)]
    return f"{name} found a {thing} in town. It was number {number}. {name} took it home and slept well."


def made_suite(count: int = 40, seed: int = 0) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Stories, and texts of two aspects: a repeated sentence, and an aspect that no list of ours knows.

    The column `good` follows the label, `noise` does not; both are in the stories, too.
    """
    rng = np.random.default_rng(seed)
    stories, texts = [], []
    for number in range(count):
        story = {"id": f"s{number}", "context": f"Once, {number % 5}.", "text": made_story(number)}
        stories.append({**story, "good": 1.0 + rng.normal(), "noise": round(rng.normal(), 1)})
        for aspect in ASPECTS:
            if number % 3 or aspect == "repetition":
                texts.append(
                    {
                        "id": f"{aspect} {number} 1", "story": story["id"], "aspect": aspect, "label": 1, "rule": None,
                        "context": story["context"], "text": story["text"], "good": stories[-1]["good"],
                        "noise": stories[-1]["noise"],
                    }
                )  # fmt: skip
            if number % 4:
                rule = "sentence" if number % 2 else "words"
                worse = f"{story['text']} {story['text']}" if rule == "sentence" else f"{story['text']} well well well"
                texts.append(
                    {
                        "id": f"{aspect} {number} 0", "story": story["id"], "aspect": aspect, "label": 0, "rule": rule,
                        "context": story["context"], "text": worse if aspect == "repetition" else worse + " Tea.",
                        "good": rng.normal(), "noise": round(rng.normal(), 1),
                    }
                )  # fmt: skip
    return stories, texts


def in_memory(**options: Any) -> Suite:
    stories, texts = made_suite(**options)
    return Suite.of(pl.DataFrame(texts), "discrimination", stories=pl.DataFrame(stories), name="own")


def write_suite(folder: Path, **changes: Any) -> Path:
    """A suite as files; `changes` are other contents of files by name, None for no such file."""
    stories, texts = made_suite()
    folder.mkdir()
    files: dict[str, Any] = {
        "manifest": {"format": "nlgauge-suite-1", "signature": "perturb-suite|seed:1|v:0.1.0", "corpus": "tales"},
        "stories": stories,
        "discrimination": texts,
    } | changes
    for name, content in files.items():
        if content is None:
            continue
        if name != "manifest":
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    if files["manifest"] is not None:
        write_manifest(files["manifest"], folder)
    return folder


def slow_auc(high: list[float], low: list[float]) -> float:
    return float(np.mean([(a > b) + 0.5 * (a == b) for a in high for b in low]))


def slow_pairs(texts: list[dict[str, Any]], stories: list[dict[str, Any]], score: Callable[[Any], float]) -> float:
    own = {story["id"]: score(story) for story in stories}
    won = [own[row["story"]] - score(row) for row in texts if row["label"] == 0]
    return float(np.mean([1.0 if gain > 0 else 0.5 if gain == 0 else 0.0 for gain in won]))


def run(folder: Path, *arguments: str) -> Outcome:
    return command("study", "discrimination", *arguments, "--no-progress", cwd=folder, cache=folder / "cache")


def slow_p(texts: list[dict[str, Any]], column: str) -> float:
    """How often labels that are dealt anew, within stories or among stories that have one, correlate as much."""
    rng = np.random.default_rng(0)
    of_story: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        of_story.setdefault(text["story"], []).append(place)
    values, labels = (np.array([text[key] for text in texts], dtype=float) for key in (column, "label"))
    pure = [places for places in of_story.values() if len(set(labels[places])) == 1]
    observed, reached = abs(np.corrcoef(values, labels)[0, 1]), 0
    for _ in range(1000):
        dealt = labels.copy()
        for places in of_story.values():
            dealt[places] = rng.permutation(labels[places])
        for places, label in zip(pure, rng.permutation([labels[places[0]] for places in pure]), strict=True):
            dealt[places] = label
        reached += abs(np.corrcoef(values, dealt)[0, 1]) >= observed - 1e-12
    return reached / 1000


def test_texts_of_one_story_are_not_taken_as_independent() -> None:
    """20 stories of 5 texts each, with one label: the usual test finds a metric of stories in half of the runs."""
    times, found = 150, np.zeros(2)
    for seed in range(times):
        levels = np.random.default_rng(seed).normal(size=(20, 1))
        scores = (levels + 0.5 * np.random.default_rng([seed, 1]).normal(size=(20, 5))).ravel()
        texts = pl.DataFrame(
            {
                "id": [str(i) for i in range(100)],
                "story": np.repeat([f"s{i}" for i in range(20)], 5),
                "label": np.repeat(np.arange(20) % 2, 5),
                "x": scores,
            }
        ).with_columns(aspect=pl.lit("a"), text=pl.lit("t"))
        suite = Suite.of(texts, "discrimination", name="own")
        row = DiscriminationTest(columns=["x"], resamples=100).run(suite).rows[0]
        usual = correlation_test(suite.texts["x"].to_numpy(), suite.labels, "pearson").p
        found += [row["pearson_p"] < 0.05, usual < 0.05]
    assert found[0] / times < 0.05 + 2.5 * (0.05 * 0.95 / times) ** 0.5
    assert found[1] / times > 0.3


class TestStatistics:
    @pytest.mark.parametrize("column", ["good", "noise"])
    def test_every_value_is_that_of_the_slow_way(self, column: str) -> None:
        stories, texts = made_suite()
        study = DiscriminationTest(columns=[column], resamples=200).run(in_memory())
        assert [row["aspect"] for row in study.rows] == [*ASPECTS, "average"]
        for row in study.rows[:2]:
            mine = [text for text in texts if text["aspect"] == row["aspect"]]
            values, labels = [text[column] for text in mine], [text["label"] for text in mine]
            test = pearsonr(values, labels)
            assert row["pearson"] == pytest.approx(test.statistic)
            assert row["pearson_p"] == pytest.approx(slow_p(mine, column), abs=0.05)
            high, low = ([text[column] for text in mine if text["label"] == kind] for kind in (1, 0))
            assert row["auc"] == pytest.approx(slow_auc(high, low))
            assert row["paired_accuracy"] == pytest.approx(slow_pairs(mine, stories, lambda one: one[column]))
            assert (row["n"], row["coherent"], row["incoherent"]) == (len(mine), len(high), len(low))
            for key in ("pearson", "auc", "paired_accuracy"):
                assert row[f"{key}_ci"][0] <= row[key] <= row[f"{key}_ci"][1]

    def test_the_average_is_that_of_aspects_with_an_interval_of_its_own(self) -> None:
        *rows, average = DiscriminationTest(columns=["good"], resamples=200).run(in_memory()).rows
        for key in ("pearson", "auc", "paired_accuracy"):
            assert average[key] == pytest.approx(np.mean([row[key] for row in rows]))
            assert average[f"{key}_ci"][0] < average[key] < average[f"{key}_ci"][1]
        assert average["n"] == sum(row["n"] for row in rows)
        assert average["pearson_p"] is None

    def test_intervals_are_those_of_stories_drawn_whole(self) -> None:
        _, texts = made_suite()
        row = DiscriminationTest(columns=["good"], resamples=200).run(in_memory()).rows[0]
        names = sorted({text["story"] for text in texts})
        found = []
        for counts in resample_weights(len(names), QUICK.resamples, QUICK.seed):
            for drawn in counts:
                often = dict(zip(names, drawn.astype(int), strict=True))
                mine = [text for text in texts if text["aspect"] == "repetition" for _ in range(often[text["story"]])]
                found.append(pearsonr([text["good"] for text in mine], [text["label"] for text in mine]).statistic)
        assert row["pearson_ci"] == pytest.approx(fisher_interval(row["pearson"], np.array(found), len(names), 0.95))

    def test_computed_metrics_see_each_text_and_its_story(self) -> None:
        stories, texts = made_suite()
        metric = create_metric("distinct:n=1")
        row = DiscriminationTest(metrics=[metric], resamples=200).run(in_memory()).rows[0]

        def distinct(one: dict[str, Any]) -> float:
            words = one["text"].replace(".", "").split()
            return len(set(words)) / len(words)

        mine = [text for text in texts if text["aspect"] == "repetition"]
        assert row["pearson"] == pytest.approx(pearsonr([*map(distinct, mine)], [one["label"] for one in mine])[0])
        assert row["paired_accuracy"] == slow_pairs(mine, stories, distinct) == 1.0

    def test_a_metric_that_falls_with_quality_is_negated_and_a_note_says_so(self) -> None:
        study = DiscriminationTest(metrics=["compression", "distinct"], resamples=200).run(in_memory())
        assert "compression falls with diversity and was negated: more diverse counts as better here" in study.notes
        assert "distinct measures diversity: more diverse counts as better here" in study.notes
        assert study.rows[0]["paired_accuracy"] == 1.0

    def test_rules_are_tested_with_all_coherent_texts(self) -> None:
        stories, texts = made_suite()
        study = DiscriminationTest(columns=["good"], rules=True, resamples=200).run(in_memory())
        assert [(row["aspect"], row["rule"]) for row in study.rows] == [
            *((aspect, rule) for aspect in ASPECTS for rule in (None, "sentence", "words")), ("average", None),
        ]  # fmt: skip
        mine = [one for one in texts if one["aspect"] == "repetition" and one["rule"] in (None, "words")]
        row = study.rows[2]
        assert row["pearson"] == pytest.approx(
            pearsonr([one["good"] for one in mine], [one["label"] for one in mine]).statistic
        )
        assert row["paired_accuracy"] == pytest.approx(slow_pairs(mine, stories, lambda one: one["good"]))
        plain = DiscriminationTest(columns=["good"], resamples=200).run(in_memory())
        assert study.rows[-1] == plain.rows[-1]
        assert {row["task"] for row in study.study.views(study)[0].rows} == {*ASPECTS, "average"}

    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=20))
    def test_weighted_wins_are_those_of_pairs_repeated(self, pairs: list[tuple[int, int, int]]) -> None:
        originals, worse, weights = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
        found = weighted_wins(originals, worse, weights[None])[0]
        repeated = [(a > b) + 0.5 * (a == b) for a, b, often in pairs for _ in range(often)]
        assert np.isnan(found) if not repeated else found == pytest.approx(np.mean(repeated))


class TestWhatDoesNotMatter:
    def test_the_order_of_rows(self) -> None:
        stories, texts = (pl.DataFrame(side) for side in made_suite())
        mixed = Suite.of(
            texts.sample(fraction=1, shuffle=True, seed=3).sort("aspect", maintain_order=True), "discrimination",
            stories=stories.sample(fraction=1, shuffle=True, seed=4), name="own",
        )  # fmt: skip
        plain = Suite.of(texts.sort("aspect", maintain_order=True), "discrimination", stories=stories, name="own")
        one, other = (DiscriminationTest(metrics=["distinct"], resamples=200).run(suite) for suite in (plain, mixed))
        assert one.to_json() == other.to_json()

    def test_other_metrics_and_other_aspects(self) -> None:
        whole = DiscriminationTest(metrics=["distinct"], columns=["good", "noise"], resamples=200).run(in_memory())
        alone = DiscriminationTest(columns=["noise"], aspects=["tea-time"], resamples=200).run(in_memory())
        assert alone.rows[0] == next(
            row for row in whole.rows if (row["metric"], row["aspect"]) == ("noise", "tea-time")
        )


class TestLimit:
    def test_a_limit_keeps_the_same_stories_for_all_aspects(self) -> None:
        suite = in_memory()
        limited = suite.limited(20, seed=1)
        assert limited.texts["aspect"].value_counts(sort=True)["count"].to_list() == [20, 20]
        assert limited.texts.group_by("aspect", "label").len()["len"].to_list() == [10, 10, 10, 10]
        assert limited.texts["story"].n_unique() < 20
        assert suite.limited(20, seed=2).texts["id"].to_list() != limited.texts["id"].to_list()
        assert suite.limited(1000, seed=1).texts.equals(suite.texts)

    def test_a_limit_stands_in_the_signature(self) -> None:
        study = DiscriminationTest(columns=["good"], limit=30, resamples=200).run(in_memory())
        assert "|limit:30|" in str(study.signature)
        assert study.signature.facts["suites"] == f"own@{in_memory().digest}"
        assert study.rows[0]["n"] == 30

    def test_a_limit_of_one_text_is_refused(self) -> None:
        with pytest.raises(OptionError, match="limit=1; expected at least 2"):
            DiscriminationTest(columns=["good"], limit=1).run(in_memory())


class TestBadInput:
    def test_texts_without_a_value_are_named_counted_and_left_out(self) -> None:
        stories, texts = (pl.DataFrame(side) for side in made_suite())
        holes = texts.with_columns(good=pl.when(pl.col("id") == "repetition 5 0").then(None).otherwise("good"))
        suite = Suite.of(holes, "discrimination", stories=stories, name="own")
        study = DiscriminationTest(columns=["good"], resamples=200).run(suite)
        assert "good has no value on 1 of 126 texts of own, such as 'repetition 5 0'; they are left out" in study.notes
        assert [row["excluded"] for row in study.rows] == [1, 0, 1]
        assert study.rows[0]["n"] == texts.filter(aspect="repetition").height - 1

    def test_an_aspect_of_one_class_has_no_correlation_and_a_note(self) -> None:
        stories, texts = (pl.DataFrame(side) for side in made_suite())
        suite = Suite.of(
            texts.filter((pl.col("aspect") != "tea-time") | (pl.col("label") == 0)), "discrimination",
            stories=stories, name="own",
        )  # fmt: skip
        study = DiscriminationTest(columns=["good"], resamples=200).run(suite)
        repetition, tea, average = study.rows
        assert (tea["pearson"], tea["auc"]) == (None, None)
        assert tea["paired_accuracy"] is not None
        assert average["pearson"] == repetition["pearson"]
        assert "tea-time of own has incoherent texts only (30): no correlation and no AUC there" in study.notes

    def test_texts_of_one_class_only_are_refused(self) -> None:
        texts = pl.DataFrame(made_suite()[1])
        suite = Suite.of(texts.filter(label=1), "discrimination", name="own")
        with pytest.raises(DataError, match="own: no aspect has both coherent"):
            DiscriminationTest(columns=["good"]).run(suite)

    def test_few_texts_have_no_interval(self) -> None:
        study = DiscriminationTest(columns=["good"], resamples=200).run(in_memory(count=8))
        assert study.rows[0]["pearson"] is not None
        assert study.rows[0]["pearson_ci"] is None
        assert "repetition of own has 14 texts: no interval, which takes 20" in study.notes

    def test_a_constant_metric_has_no_correlation_and_wins_half_of_its_pairs(self) -> None:
        stories, texts = (pl.DataFrame(side).with_columns(same=pl.lit(3.0)) for side in made_suite())
        suite = Suite.of(texts, "discrimination", stories=stories)
        row = DiscriminationTest(columns=["same"], resamples=200).run(suite).rows[0]
        assert (row["pearson"], row["auc"], row["paired_accuracy"]) == (None, 0.5, 0.5)

    def test_a_column_that_stories_lack_has_no_pairs(self) -> None:
        stories, texts = (pl.DataFrame(side) for side in made_suite())
        suite = Suite.of(texts, "discrimination", stories=stories.drop("good"), name="own")
        study = DiscriminationTest(columns=["good"], resamples=200).run(suite)
        assert study.rows[0]["paired_accuracy"] is None
        assert "good on own: no paired accuracy without scores of the original stories" in study.notes

    def test_an_unknown_aspect_is_refused(self) -> None:
        with pytest.raises(UnknownName, match="unknown aspect 'tea-tim'; did you mean 'tea-time'"):
            DiscriminationTest(columns=["good"], aspects=["tea-tim"]).run(in_memory())

    def test_no_metric_at_all_is_refused(self) -> None:
        with pytest.raises(OptionError, match="no metric; expected at least one"):
            DiscriminationTest().run(in_memory())

    def test_a_metric_with_references_is_refused(self) -> None:
        with pytest.raises(DataError, match="bleu compares every text with its own references"):
            DiscriminationTest(metrics=["bleu"]).run(in_memory())

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (pl.lit(2).alias("label"), "column 'label': text 'repetition 0 1' has 2; expected 1 or 0"),
            (pl.lit("average").alias("aspect"), "column 'aspect': 'average' is what the mean"),
            (pl.lit("s999").alias("story"), "was made from the story 's999', which stories.jsonl does not have"),
            (pl.lit(None).alias("text"), "column 'text': row 0 has none"),
            (pl.lit("p1").alias("pair"), "as the texts of `nlgauge study invariance` do"),
        ],
    )
    def test_bad_rows_are_refused(self, change: pl.Expr, message: str) -> None:
        stories, texts = (pl.DataFrame(side) for side in made_suite())
        with pytest.raises(DataError) as caught:
            Suite.of(texts.with_columns(change), "discrimination", stories=stories)
        assert message in str(caught.value)


class TestFiles:
    def test_a_folder_and_its_file_give_the_same(self, tmp_path: Path) -> None:
        folder = write_suite(tmp_path / "suite")
        one, other = (
            DiscriminationTest(metrics=["distinct"], resamples=200).run(place)
            for place in (folder, folder / "discrimination.jsonl")
        )
        assert one.to_json() == other.to_json()
        assert one.tasks == ["tales"]
        assert "tales was made by perturb-suite|seed:1|v:0.1.0" in one.notes

    def test_a_file_alone_has_no_pairs(self, tmp_path: Path) -> None:
        folder = write_suite(tmp_path / "suite", manifest=None, stories=None)
        study = DiscriminationTest(metrics=["distinct"], resamples=200).run(folder / "discrimination.jsonl")
        assert study.tasks == ["discrimination"]
        assert study.rows[0]["auc"] is not None
        assert study.rows[0]["paired_accuracy"] is None

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"manifest": None}, "the folder has no manifest.json of the format nlgauge-suite-1"),
            ({"manifest": {"format": "another"}}, "the folder has no manifest.json of the format nlgauge-suite-1"),
            ({"stories": None}, "the suite has no stories.jsonl"),
            ({"discrimination": None}, "the suite has no discrimination.jsonl"),
            (
                {"discrimination": [{"id": "1", "text": "a"}]},
                "column 'story': no such column; found id, text; expected id",
            ),
        ],
    )
    def test_a_foreign_folder_is_refused(self, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
        folder = write_suite(tmp_path / "suite", **changes)
        with pytest.raises(DataError) as caught:
            DiscriminationTest(metrics=["distinct"]).run(folder)
        assert message in str(caught.value)
        assert str(folder) in str(caught.value)

    def test_suites_of_one_corpus_are_told_apart_by_their_folders(self, tmp_path: Path) -> None:
        folders = [write_suite(tmp_path / name) for name in ("first", "second")]
        assert DiscriminationTest(metrics=["distinct"], resamples=200).run(folders).tasks == ["first", "second"]
        named = DiscriminationTest(metrics=["distinct"], resamples=200, tasks=["a", "b"]).run(folders)
        assert named.tasks == ["a", "b"]

    def test_the_command_prints_a_table_a_corpus_and_all_rows(self, tmp_path: Path) -> None:
        write_suite(tmp_path / "one")
        write_suite(tmp_path / "two", manifest={"format": "nlgauge-suite-1", "corpus": "myths", "signature": "x"})
        shared = ("one", "two", "-m", "distinct", "-m", "compression", "--resamples", "100")
        done = run(tmp_path, *shared, "--chart", "heat.png", "--rules")
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        assert lines[0].startswith("Aspects in which a metric tells coherent texts from worse ones")
        assert lines[2] == "tales"
        assert lines[3].split() == ["metric", "repetition", "r", "tea-time", "r", "average", "r"]
        assert [line.split()[0] for line in lines[5:7]] == ["distinct", "compression"]
        assert lines[8] == "myths"
        assert any(line.split()[:4] == ["task", "metric", "aspect", "rule"] for line in lines)
        assert (tmp_path / "heat.png").stat().st_size > 1000
        document = json.loads(run(tmp_path, *shared, "-f", "json").out)
        assert document["study"] == "discrimination"
        assert {row["task"] for row in document["rows"]} == {"tales", "myths"}
        assert len(document["rows"]) == 2 * 2 * 3

    def test_a_missing_folder_is_one_line(self, tmp_path: Path) -> None:
        done = run(tmp_path, "nowhere", "-m", "distinct")
        assert (done.code, done.out) == (2, "")
        assert "nowhere" in done.err
        assert "Traceback" not in done.err


def test_every_format_prints() -> None:
    study = DiscriminationTest(metrics=["distinct"], resamples=200).run([in_memory()])
    for form in ("text", "markdown", "latex", "csv", "json"):
        assert "tea-time" in render_study(study, form)
    for form in ("text", "markdown", "latex"):
        assert "tea-time r" in render_study(study, form)


def test_the_heat_map_has_its_middle_at_zero_and_a_panel_a_corpus() -> None:
    first = in_memory()
    second = Suite(name="other", texts=first.texts, aspects=first.aspects, stories=first.stories)
    study = DiscriminationTest(columns=["good", "noise"], resamples=200).run([first, second])
    panels = study.chart().to_dict()["vconcat"]
    assert [panel["layer"][0]["title"] for panel in panels] == ["own", "other"]
    scales = [panel["layer"][0]["encoding"]["color"]["condition"]["scale"] for panel in panels]
    largest = max(abs(row["pearson"]) for row in study.rows)
    assert all(scale["domain"] == [-largest, largest] and scale["domainMid"] == 0 for scale in scales)
