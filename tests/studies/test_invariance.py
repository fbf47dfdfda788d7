"""Invariance: scores before and after changes that should not matter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr

from nlgauge.arrays import Array
from nlgauge.errors import DataError, UnknownName
from nlgauge.perturb.manifest import write_manifest
from nlgauge.report.study_tables import render_study
from nlgauge.stats.correlation import correlation_test, ratio_interval, resample_weights
from nlgauge.stats.inference import Intervals
from nlgauge.studies.story.invariance import InvarianceTest, nearly_constant, weighted_change
from nlgauge.studies.story.suites import Suite
from tests.errors import raises
from tests.helpers import Outcome
from tests.helpers import nlgauge as command

QUICK = Intervals(resamples=200)
GROUPS = (("typo", "human"), ("typo", "incoherent"), ("shouting", "human"))


def made_pairs(count: int = 30, seed: int = 0) -> list[dict[str, Any]]:
    """Pairs of texts; `steady` hardly moves within pairs, `moody` falls by one, `blind` moves in every other pair."""
    rng = np.random.default_rng(seed)
    rows = []
    for aspect, source in GROUPS:
        for number in range(count):
            steady, moody, blind = rng.normal(size=3)
            text = f"Story {number} of {source} began in rain and ended in sunshine."
            shared = {"story": f"s{number}", "aspect": aspect, "source": source, "pair": f"{aspect} {source} {number}"}
            rows.append(
                {
                    "id": f"{shared['pair']} 1", **shared, "label": 1, "rule": None, "context": "", "text": text,
                    "steady": steady, "moody": moody, "blind": blind, "same": 4.0,
                }
            )  # fmt: skip
            other = text.replace("began", "begn") if aspect == "typo" else text.upper()
            rows.append(
                {
                    "id": f"{shared['pair']} 0", **shared, "label": 0, "rule": "delete", "context": "", "text": other,
                    "steady": steady + 0.01 * rng.normal(), "moody": moody - 1 + 0.1 * rng.normal(),
                    "blind": blind + number % 2, "same": 4.0,
                }
            )  # fmt: skip
    return rows


def in_memory(rows: list[dict[str, Any]] | None = None) -> Suite:
    return Suite.of(pl.DataFrame(rows or made_pairs()), "invariance", name="own")


def run(folder: Path, *arguments: str) -> Outcome:
    return command("study", "invariance", *arguments, "--no-progress", cwd=folder, cache=folder / "cache")


def slow_p(texts: list[dict[str, Any]], column: str) -> float:
    """How often the correlation is as far from 0 when the two texts of a story are exchanged at random."""
    rng = np.random.default_rng(0)
    names = sorted({one["story"] for one in texts})
    values = [one[column] for one in texts]
    found = []
    for _ in range(1000):
        swapped = dict(zip(names, rng.integers(0, 2, len(names)), strict=True))
        found.append(abs(np.corrcoef(values, [one["label"] ^ swapped[one["story"]] for one in texts])[0, 1]))
    observed = abs(np.corrcoef(values, [one["label"] for one in texts])[0, 1])
    return float(np.mean(np.array(found) >= observed - 1e-12))


def changed_pairs(changes: Array, seed: int) -> Suite:
    """Two pairs of each story, whose scores change like that; stories differ ten times more."""
    rng = np.random.default_rng(seed)
    before = np.repeat(rng.normal(size=len(changes) // 2), 2)
    rows = [
        {"id": f"{i} {label}", "story": f"s{i // 2}", "pair": f"p{i}", "label": label, "text": "t", "x": before[i] + by}
        for i, change in enumerate(changes)
        for label, by in ((1, 0.0), (0, change))
    ]
    pairs = pl.DataFrame(rows).with_columns(aspect=pl.lit("typo"), source=pl.lit("human"))
    return Suite.of(pairs, "invariance", name="own")


class TestChanges:
    def test_a_change_of_95_pairs_in_100_is_found_and_said(self) -> None:
        rng = np.random.default_rng(1)
        for seed in range(20):
            changes = np.where(rng.permutation(100) < 95, rng.uniform(0, 0.2, 100), 0.0)
            suite = changed_pairs(changes, seed)
            study = InvarianceTest(columns=["x"], resamples=100).run(suite)
            row = study.rows[0]
            assert correlation_test(suite.texts["x"].to_numpy(), suite.labels, "pearson").p > 0.05
            assert row["pearson_p"] < 0.001 > row["p_adjusted"]
            assert "(corrected test within pairs): x 1 of 1." in study.sentence
            assert "at all, at most: x 0.95 [0.8" in study.sentence

    def test_a_change_to_both_sides_is_no_shift_and_is_said_even_so(self) -> None:
        rng = np.random.default_rng(2)
        found, times = 0, 150
        for seed in range(times):
            sides = np.repeat(rng.choice([-1.0, 1.0], 50), 2)
            changes = np.where(rng.permutation(100) < 95, sides * rng.uniform(0.1, 0.3, 100), 0.0)
            study = InvarianceTest(columns=["x"], resamples=100).run(changed_pairs(changes, seed))
            found += study.rows[0]["p_adjusted"] < 0.05
            assert "at all, at most: x 0.95 [0.8" in study.sentence
        assert found / times < 0.05 + 2.5 * (0.05 * 0.95 / times) ** 0.5

    def test_all_rows_are_one_family(self) -> None:
        rng = np.random.default_rng(3)
        rows = [{**one, **{f"m{i}": rng.normal() for i in range(8)}} for one in made_pairs()]
        columns = [f"m{i}" for i in range(8)]
        one, two = (
            InvarianceTest(columns=columns, resamples=100).run(suites)
            for suites in (in_memory(rows), [in_memory(rows), Suite.of(pl.DataFrame(rows), "invariance", name="b")])
        )
        assert "24 tests are one family, corrected by max-T within a suite" in " ".join(one.notes)
        tested = [row for row in one.rows if row["pearson_p"] is not None]
        assert len(tested) == 24
        least = min(tested, key=lambda row: row["pearson_p"])
        assert 3 * least["pearson_p"] < least["p_adjusted"] <= 24 * least["pearson_p"] * 1.2
        for row, again in zip(tested, [row for row in two.rows if row["pearson_p"] is not None], strict=False):
            assert again["p_adjusted"] == pytest.approx(min(1.0, 2 * row["p_adjusted"]))


class TestStatistics:
    @pytest.mark.parametrize("column", ["steady", "moody", "blind"])
    def test_every_value_is_that_of_the_slow_way(self, column: str) -> None:
        rows = made_pairs()
        study = InvarianceTest(columns=[column], resamples=200).run(in_memory(rows))
        assert [(row["aspect"], row["source"]) for row in study.rows[:3]] == list(GROUPS)
        for row, (aspect, source) in zip(study.rows, GROUPS, strict=False):
            mine = [one for one in rows if (one["aspect"], one["source"]) == (aspect, source)]
            test = pearsonr([one[column] for one in mine], [one["label"] for one in mine])
            assert row["pearson"] == pytest.approx(test.statistic)
            assert row["pearson_p"] == pytest.approx(slow_p(mine, column), abs=0.05)
            assert row["pearson_p"] <= row["p_adjusted"] <= 1
            assert row["abs_pearson"] == abs(row["pearson"])
            scores = {(one["pair"], one["label"]): one[column] for one in mine}
            pairs = sorted({one["pair"] for one in mine})
            moved = [abs(scores[name, 0] - scores[name, 1]) for name in pairs]
            spread = np.std([scores[name, 1] for name in pairs], ddof=1)
            assert row["mean_change"] == pytest.approx(np.mean(moved) / spread)
            assert row["changed"] == pytest.approx(np.mean([change > 0 for change in moved]))
            assert row["changed_ci"][0] < row["changed"] <= row["changed_ci"][1] <= 1
            shift = np.mean([scores[name, 0] - scores[name, 1] for name in pairs]) / spread
            assert row["shift"] == pytest.approx(shift)
            assert row["shift_ci"][0] < shift < row["shift_ci"][1]
            assert (row["pairs"], row["n"]) == (len(pairs), 2 * len(pairs))
            assert row["pearson_ci"][0] < row["pearson"] < row["pearson_ci"][1]
            assert row["mean_change_ci"][0] < row["mean_change"] < row["mean_change_ci"][1]

    def test_the_average_is_that_of_the_aspects_of_a_source(self) -> None:
        study = InvarianceTest(columns=["moody"], resamples=200).run(in_memory())
        typo, _, shouting, human, incoherent = study.rows
        assert [(row["aspect"], row["source"]) for row in (human, incoherent)] == [
            ("average", "human"),
            ("average", "incoherent"),
        ]
        for key in ("abs_pearson", "mean_change", "changed"):
            assert human[key] == pytest.approx((typo[key] + shouting[key]) / 2)
        assert human["pearson"] is None
        assert human["mean_change_ci"][0] < human["mean_change"] < human["mean_change_ci"][1]

    def test_intervals_are_those_of_stories_drawn_whole(self) -> None:
        rows = made_pairs()
        row = InvarianceTest(columns=["moody"], resamples=200).run(in_memory(rows)).rows[0]
        names = sorted({one["story"] for one in rows})
        mine = {(one["story"], one["label"]): one["moody"] for one in rows if one["pair"].startswith("typo human")}
        found = []
        for counts in resample_weights(len(names), QUICK.resamples, QUICK.seed):
            for drawn in counts.astype(int):
                before, after = (np.repeat([mine[name, label] for name in names], drawn) for label in (1, 0))
                found.append(np.abs(after - before).mean() / before.std(ddof=1))
        interval = ratio_interval(row["mean_change"], np.array(found), len(names), 0.95)
        assert row["mean_change_ci"] == pytest.approx(interval)

    def test_the_order_of_rows_does_not_matter(self) -> None:
        frame = pl.DataFrame(made_pairs()).sort("aspect", maintain_order=True)
        mixed = frame.sample(fraction=1, shuffle=True, seed=1).sort("aspect", maintain_order=True)
        one, other = (
            InvarianceTest(metrics=["distinct"], columns=["moody"], resamples=200).run(Suite.of(rows, "invariance"))
            for rows in (frame, mixed)
        )
        assert one.to_json() == other.to_json()

    def test_a_computed_metric_is_compared_within_pairs(self) -> None:
        study = InvarianceTest(metrics=["compression"], resamples=200).run(in_memory())
        assert study.rows[0]["changed"] > 0
        assert "compression falls with diversity and was negated: more diverse counts as better here" in study.notes

    @given(
        st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)), min_size=2, max_size=20
        )
    )  # fmt: skip
    def test_the_weighted_change_is_that_of_pairs_repeated(self, pairs: list[tuple[int, int, int]]) -> None:
        changes, originals, weights = (np.array(side) for side in zip(*pairs, strict=True))
        found = weighted_change(changes.astype(float), originals.astype(float), weights[None].astype(float))[0]
        repeated = np.repeat(originals, weights)
        if len(set(repeated.tolist())) < 2:
            assert np.isnan(found)
            return
        assert found == pytest.approx(np.repeat(changes, weights).mean() / repeated.std(ddof=1))


class TestUninformative:
    def test_a_constant_metric_is_flagged(self) -> None:
        study = InvarianceTest(columns=["same", "moody"], resamples=200).run(in_memory())
        rows = [row for row in study.rows if row["metric"] == "same" and row["aspect"] != "average"]
        assert [row["uninformative"] for row in rows] == [True] * 3
        assert all((row["pearson"], row["mean_change"], row["changed"]) == (None, None, 0.0) for row in rows)
        assert any(
            note.startswith("same is uninformative on own: it gives (nearly) all originals") for note in study.notes
        )
        assert not any(row["uninformative"] for row in study.rows if row["metric"] == "moody")

    @pytest.mark.parametrize(
        ("values", "flagged"),
        [
            ([5.0] * 10, True),
            ([5.0, 5.0 + 1e-9, 5.0 - 1e-9], True),
            ([1.0] * 95 + [2.0, 3.0, 4.0, 5.0, 6.0], True),
            ([1.0] * 94 + [2.0, 3.0, 4.0, 5.0, 6.0, 7.0], False),
            ([1000.0, 1000.1, 1000.2], False),
            ([0.0, 1e-9, 2e-9], False),
            ([], False),
        ],
    )
    def test_what_counts_as_nearly_constant(self, values: list[float], flagged: bool) -> None:
        assert nearly_constant(np.array(values)) is flagged


class TestPairs:
    def test_a_pair_without_its_partner_is_refused(self) -> None:
        with raises(DataError, file="own", column="pair"):
            InvarianceTest(columns=["moody"]).run(
                in_memory([row for row in made_pairs() if row["id"] != "typo human 29 0"])
            )

    def test_two_originals_are_refused(self) -> None:
        rows = [{**row, "label": 1} if row["id"] == "typo human 3 0" else row for row in made_pairs()]
        with raises(DataError, file="own", column="pair"):
            InvarianceTest(columns=["moody"]).run(in_memory(rows))

    def test_a_text_without_a_value_takes_its_pair_with_it(self) -> None:
        rows = [{**row, "moody": None} if row["id"] == "typo human 3 0" else row for row in made_pairs()]
        study = InvarianceTest(columns=["moody"], resamples=200).run(in_memory(rows))
        assert (study.rows[0]["pairs"], study.rows[0]["excluded"], study.rows[0]["n"]) == (29, 1, 58)
        assert "moody has no value on 1 of 180 texts of own, such as 'typo human 3 0'; they are left out" in study.notes

    def test_a_limit_keeps_pairs_whole(self) -> None:
        limited = in_memory().limited(11, seed=5)
        assert limited.texts.group_by("aspect", "source").len()["len"].to_list() == [10] * 3
        assert limited.texts.group_by("pair").len()["len"].to_list() == [2] * 15
        assert limited.texts["story"].n_unique() == 5

    def test_few_pairs_have_no_interval(self) -> None:
        study = InvarianceTest(columns=["moody"], resamples=200).run(in_memory(made_pairs(10)))
        assert study.rows[0]["pearson"] is not None
        assert (study.rows[0]["pearson_ci"], study.rows[0]["mean_change_ci"]) == (None, None)
        assert "typo (human) of own has 10 pairs: no interval, which takes 20" in study.notes

    def test_an_unknown_aspect_is_refused(self) -> None:
        with raises(UnknownName, name="typos", nearest="typo"):
            InvarianceTest(columns=["moody"], aspects=["typos"]).run(in_memory())

    def test_texts_of_the_other_study_are_refused(self) -> None:
        frame = pl.DataFrame(made_pairs()).drop("pair")
        with raises(DataError, column="pair"):
            Suite.of(frame, "invariance")


class TestCommand:
    @pytest.fixture
    def suite(self, tmp_path: Path) -> Path:
        folder = tmp_path / "suite"
        folder.mkdir()
        (folder / "invariance.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made_pairs()))
        write_manifest({"format": "nlgauge-suite-1", "corpus": "tales", "signature": "x|v:1"}, folder)
        return folder

    def test_it_prints_a_table_a_corpus_and_all_rows(self, suite: Path, tmp_path: Path) -> None:
        shared = (suite.name, "-m", "distinct", "--column", "same", "--resamples", "100")
        done = run(tmp_path, *shared, "--chart", "heat.png")
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        assert "within pairs): distinct 0 of 3 and same 0 of 3. Share of pairs" in lines[0]
        assert lines[0].endswith("at most: distinct 0.00 [0.00, 0.12] and same 0.00 [0.00, 0.12].")
        assert lines[3].split("  ")[-3:] == ["typo human r", "typo incoherent r", "shouting human r"]
        assert [line.split()[0] for line in lines[5:7]] == ["distinct", "same"]
        assert lines[9].endswith("shouting human change  average human change  average incoherent change")
        assert any("same is uninformative on tales" in line for line in lines)
        assert (tmp_path / "heat.png").stat().st_size > 1000
        document = json.loads(run(tmp_path, *shared, "-f", "json").out)
        assert document["study"] == "invariance"
        assert [row["uninformative"] for row in document["rows"] if row["metric"] == "same"][:3] == [True] * 3

    def test_a_suite_without_invariance_is_one_line(self, suite: Path, tmp_path: Path) -> None:
        (suite / "invariance.jsonl").unlink()
        done = run(tmp_path, suite.name, "-m", "distinct")
        assert (done.code, done.out) == (2, "")
        assert "suite: the suite was damaged or edited: invariance.jsonl cannot be read" in done.err


def test_every_format_prints_and_the_scale_begins_at_zero() -> None:
    study = InvarianceTest(columns=["moody", "same"], resamples=200).run(in_memory())
    for form in ("text", "markdown", "latex", "csv", "json"):
        assert "shouting" in render_study(study, form)
    (panel,) = study.chart().to_dict()["vconcat"]
    scale = panel["layer"][0]["encoding"]["color"]["condition"]["scale"]
    assert scale["domain"] == [0, max(row["mean_change"] for row in study.rows if row["mean_change"] is not None)]
