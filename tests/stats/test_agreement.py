"""Agreement of raters against a textbook version, and the study of it."""

from __future__ import annotations

import itertools
import json
import re
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nlgauge
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.stats.ratings.agreement import (
    Level,
    alpha_interval,
    krippendorff_alpha,
    rater_correlations,
    rescale,
)
from nlgauge.stats.ratings.reliability import FORMS, fleiss_kappa, intraclass_correlations
from tests.errors import raises
from tests.helpers import nlgauge as command

NAN = float("nan")
LEVELS: list[Level] = ["nominal", "ordinal", "interval", "ratio"]
EXAMPLE = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)


def textbook_alpha(ratings: Any, level: Level) -> float:
    """Every pair of ratings of an item against every pair of ratings."""
    units = [[float(r) for r in column if not np.isnan(r)] for column in ratings.T]
    units = [unit for unit in units if len(unit) > 1]
    pool = [rating for unit in units for rating in unit]

    def distance(a: float, b: float) -> float:
        if level == "nominal":
            return float(a != b)
        if level == "interval":
            return (a - b) ** 2
        if level == "ratio":
            return ((a - b) / (a + b)) ** 2 if a + b else 0.0
        low, high = min(a, b), max(a, b)
        between = sum(low <= rating <= high for rating in pool)
        return float((between - (pool.count(low) + pool.count(high)) / 2) ** 2)

    observed = sum(sum(distance(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    expected = sum(distance(a, b) for a, b in permutations(pool, 2)) / (len(pool) - 1)
    return 1 - observed / expected


@pytest.mark.parametrize("large", [False, True])
@given(st.data())
def test_alpha_is_that_of_the_textbook(large: bool, data: st.DataObject) -> None:
    raters, items = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 6))
    rating = st.sampled_from([0.0, 1, 2, 3.5, NAN])
    ratings = np.array(data.draw(st.lists(rating, min_size=raters * items, max_size=raters * items)))
    ratings = ratings.reshape(raters, items)
    paired = ratings[:, (~np.isnan(ratings)).sum(axis=0) > 1]
    assume(paired.size and np.nanmin(paired) < np.nanmax(paired))
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr("nlgauge.stats.ratings.agreement._CELLS_AT_ONCE", 0)
        for level in LEVELS:
            assert krippendorff_alpha(ratings, level) == pytest.approx(textbook_alpha(ratings, level), abs=1e-9)


def test_alpha_of_a_published_example() -> None:
    """Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": four observers, missing data."""
    found = {level: round(krippendorff_alpha(EXAMPLE, level), 3) for level in LEVELS}
    assert found == {"nominal": 0.743, "ordinal": 0.815, "interval": 0.849, "ratio": 0.797}


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_come_from_alpha_of_drawn_items_whatever_the_order(level: Level) -> None:
    rng = np.random.default_rng(3)
    ratings = np.clip(np.round(rng.normal(3, 1, 60) + rng.normal(0, 0.7, (4, 60))), 0, 6)
    ratings[rng.random(ratings.shape) < 0.2] = NAN
    fixed = alpha_interval(ratings, level, resamples=2000, fixed_raters=True)
    drawn = [krippendorff_alpha(ratings[:, rng.integers(0, 60, 60)], level) for _ in range(1000)]
    np.testing.assert_allclose(fixed, np.quantile(drawn, [0.025, 0.975]), atol=0.04)
    low, high = alpha_interval(ratings, level, resamples=2000)
    assert low < fixed[0] < krippendorff_alpha(ratings, level) < fixed[1] < high
    shuffled = ratings[rng.permutation(4)][:, rng.permutation(60)]
    assert alpha_interval(shuffled, level, resamples=2000) == pytest.approx((low, high), abs=1e-12)
    assert alpha_interval(ratings, level, resamples=2000, seed=1) != (low, high)
    narrow = alpha_interval(ratings, level, confidence=0.5)
    assert low < narrow[0] < narrow[1] < high


def test_many_ratings_on_a_slider_fit_in_memory() -> None:
    rng = np.random.default_rng(0)
    ratings = rng.normal(size=2000) + rng.normal(size=(3, 2000))
    assert krippendorff_alpha(ratings) == pytest.approx(0.5, abs=0.05)


def test_raters_are_held_against_the_mean_of_the_set() -> None:
    ratings = np.array([[1, 2, 3, 4], [1, 2, 3, 5], [5, 5, 5, 5], [9, 1, NAN, NAN], [4, 3, 1, 2]], dtype=float)
    whole, others = rater_correlations(ratings), rater_correlations(ratings, leave_one_out=True)
    mean = np.nanmean(ratings, axis=0)
    assert whole[0] == pytest.approx(np.corrcoef(ratings[0], mean)[0, 1])
    assert others[0] == pytest.approx(np.corrcoef(ratings[0], np.nanmean(ratings[1:], axis=0))[0, 1])
    assert np.isnan(whole[[2, 3]]).all()
    assert np.isnan(others[[2, 3]]).all()
    assert others[4] < whole[4]


def test_items_that_nobody_else_rated_do_not_count() -> None:
    ratings = np.array([[1, 2, 3, 9, 8, 7], [1, 3, 2, NAN, NAN, NAN]])
    np.testing.assert_allclose(rater_correlations(ratings, leave_one_out=True), [0.5, 0.5])
    assert np.isnan(rater_correlations(ratings[:, 2:])).all()


def test_each_rater_is_stretched_to_the_scale_and_a_constant_one_lands_in_the_middle() -> None:
    ratings = np.array([[1, 2, 3], [4, NAN, 4], [NAN, NAN, NAN], [-1, 0, NAN]])
    expected = [[0, 5, 10], [5, NAN, 5], [NAN, NAN, NAN], [0, 10, NAN]]
    np.testing.assert_array_equal(rescale(ratings), expected)
    np.testing.assert_array_equal(rescale(ratings, low=-1, high=1)[0], [-1, 0, 1])


def test_ratings_that_cannot_be_judged_are_refused() -> None:
    with pytest.raises(DataError, match="fewer than two raters on every item"):
        krippendorff_alpha(np.array([[1, NAN], [NAN, 2]]))
    with pytest.raises(DataError, match="no variation: every rating is 3"):
        krippendorff_alpha(np.array([[3, 3, 5], [3, 3, NAN]]))
    with pytest.raises(DataError, match="no variation"):
        alpha_interval(np.full((2, 5), 3.0))
    with pytest.raises(DataError, match="raters x items"):
        krippendorff_alpha(np.arange(3.0))
    with pytest.raises(DataError, match="infinite"):
        rescale(np.array([[1, np.inf]]))
    with pytest.raises(DataError, match="a rating of -1 on a ratio scale"):
        krippendorff_alpha(np.array([[-1, 2], [1, 2]]), "ratio")
    with raises(UnknownName, name="ordinals", nearest="ordinal"):
        krippendorff_alpha(EXAMPLE, "ordinals")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="low end"):
        rescale(EXAMPLE, low=1, high=1)


def story_ratings(missing: int = 0) -> nlgauge.Ratings:
    """Two systems, fifteen stories each, four raters, two questions; the first items of one question lack a rating."""
    rng = np.random.default_rng(4)
    rows = []
    for question in ("overall", "clear"):
        for item in range(30):
            middle = 3 + (item % 2) + rng.normal(0, 0.8)
            for rater in range(4):
                if question == "clear" or rater or item >= missing:
                    value = float(np.clip(np.round(middle + rng.normal(0, 0.6)), 1, 5))
                    rows.append((f"{item:02}", f"r{rater}", question, value, ("weak", "strong")[item % 2]))
    return nlgauge.Ratings(pl.DataFrame(rows, schema=["item", "rater", "question", "value", "system"], orient="row"))


def values_of(ratings: nlgauge.Ratings, question: str) -> Any:
    wide = ratings.frame.filter(pl.col("question") == question).pivot("item", index="rater", values="value")
    return wide.drop("rater").to_numpy().astype(float)


def test_the_study_shows_what_the_functions_compute() -> None:
    ratings = story_ratings()
    study = nlgauge.AgreementStudy(measures=("kappa", "icc"), resamples=200).run(ratings)
    for row in study.rows:
        values = values_of(ratings, row["question"])
        kappa, found = fleiss_kappa(values, resamples=200), intraclass_correlations(values)
        assert row["alpha"] == pytest.approx(krippendorff_alpha(values))
        assert row["kappa"] == pytest.approx(kappa.value)
        assert row["kappa_ci"] == pytest.approx(kappa.interval)
        for form in FORMS:
            one = found[form]
            assert row[form] == pytest.approx(one.value)
            assert row[f"{form}_ci"] == pytest.approx(one.interval)
            cells = [row[f"{form}_{key}"] for key in ("f", "df1", "df2", "p")]
            assert cells == pytest.approx([one.f, one.df1, one.df2, one.p])
    assert study.signature.options["measures"] == "alpha+kappa+icc"
    assert not study.notes
    plain = nlgauge.AgreementStudy(resamples=200).run(ratings)
    assert not {"kappa", *FORMS} & plain.rows[0].keys()
    assert plain.signature.options["measures"] == "alpha"


def test_items_that_a_measure_leaves_out_are_counted() -> None:
    study = nlgauge.AgreementStudy(measures=("kappa", "icc")).run(story_ratings(missing=3))
    assert study.row("overall")["items"] == 30
    assert study.row("overall")["ICC(2,1)_df1"] == study.row("overall")["ICC(1,1)_df1"] == 26
    assert study.notes == (
        "overall: kappa leaves out 3 items, which do not have 4 ratings",
        "overall: ICC(1,·) leaves out 3 items, which do not have 4 ratings",
        "overall: ICC(2,·) and ICC(3,·) leave out 3 items, which not all 4 raters rated",
    )


def test_a_measure_that_cannot_be_computed_is_empty_and_a_note_says_why() -> None:
    rows = [(f"{item}", f"{item}-{rater}", "q", 3.0) for item in range(4) for rater in range(3)]
    rows += [("x", "a", "q", 1.0), ("x", "b", "q", 5.0)]
    ratings = nlgauge.Ratings(pl.DataFrame(rows, schema=["item", "rater", "question", "value"], orient="row"))
    study = nlgauge.AgreementStudy(measures=("kappa", "icc")).run(ratings)
    assert study.rows[0]["kappa"] is None
    assert study.rows[0]["ICC(1,1)"] is None
    assert any(note.startswith("q: no kappa: no variation: every rating is 3") for note in study.notes)
    assert any(note.startswith("q: no intraclass correlation: no variation") for note in study.notes)


def test_a_question_without_variation_is_an_empty_row_and_leaves_the_others_alone(tmp_path: Path) -> None:
    ratings = story_ratings()
    constant = pl.when(pl.col("question") == "clear").then(pl.lit(3.0)).otherwise(pl.col("value"))
    mixed = nlgauge.Ratings(ratings.frame.with_columns(value=constant))
    study = nlgauge.AgreementStudy(measures=("kappa", "icc"), by="system").run(mixed)
    assert study.row("overall")["alpha"] == nlgauge.AgreementStudy().run(ratings).row("overall")["alpha"]
    empty = study.row("clear")
    assert [empty[key] for key in ("alpha", "alpha_ci", "kappa", "ICC(1,1)")] == [None] * 4
    assert [empty[key] for key in ("raters", "items", "ratings")] == [4, 30, 120]
    assert any(note.startswith("clear: no alpha: no variation: every rating is 3") for note in study.notes)
    assert len(study.chart().to_dict()["concat"]) == 2
    assert json.loads(study.to_json())["rows"][1]["alpha"] is None

    mixed.frame.write_csv(tmp_path / "mixed.csv")
    done = command("study", "agreement", "mixed.csv", "--resamples", "100", cwd=tmp_path, cache=tmp_path / "c")
    assert done.code == 0, done.err
    assert re.search(r"^clear +- +- +interval +4 +30 +120 ", done.out, re.M)
    assert "note: clear: no alpha: no variation: every rating is 3" in done.out


def test_a_filter_that_leaves_one_rater_of_a_question_leaves_the_others_alone() -> None:
    rng = np.random.default_rng(1)
    noise, signal = rng.normal(size=(3, 12)), rng.normal(size=12)
    rows = [
        (f"{item}", f"r{rater}", question, float(value))
        for question, table in (("clear", signal + noise / 20), ("noise", noise))
        for rater, line in enumerate(table)
        for item, value in enumerate(line)
    ]
    ratings = nlgauge.Ratings(pl.DataFrame(rows, schema=["item", "rater", "question", "value"], orient="row"))
    study = nlgauge.AgreementStudy(drop_below=0.9).run(ratings)
    assert study.row("clear")["alpha"] > 0.9
    assert study.row("noise")["alpha"] is None
    assert any("raters are left; expected at least 2: lower the correlation" in note for note in study.notes)


def test_a_filter_that_leaves_no_rater_of_one_table_keeps_the_scores_of_the_other() -> None:
    opposed = [
        (f"{item}", f"r{rater}", "q", float(item if rater else -item)) for item in range(4) for rater in range(2)
    ]
    agreed = [(item, rater, question, abs(value)) for item, rater, question, value in opposed]
    schema = ["item", "rater", "question", "value"]
    tables = [nlgauge.Ratings(pl.DataFrame(rows, schema=schema, orient="row")) for rows in (opposed, agreed)]
    study = nlgauge.AgreementStudy(drop_below=0.5, leave_one_out=True, tasks=("opposed", "agreed")).run(tables)
    assert study.tables["scores"]["item"].to_list() == ["0", "1", "2", "3"]
    assert study.tables["scores"]["task"].unique().to_list() == ["agreed"]


def test_no_question_that_can_be_measured_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "same.csv"
    file.write_text("item,rater,question,value\n" + "".join(f"{i},{r},q{i % 2},4\n" for i in range(4) for r in "ab"))
    with raises(DataError, file="same.csv"):
        nlgauge.AgreementStudy().run(file)
    file.write_text("item,rater,value\n" + "".join(f"{i},a,{i}\n" for i in range(4)))
    with raises(DataError, file="same.csv"):
        nlgauge.AgreementStudy().run(file)


def test_kappa_takes_ratings_as_given_and_the_rest_as_rescaled() -> None:
    ratings = story_ratings()
    plain, stretched = (
        nlgauge.AgreementStudy(measures=("kappa", "icc"), rescale=to).run(ratings).row("overall")
        for to in (None, (0.0, 10.0))
    )
    assert plain["kappa"] == stretched["kappa"]
    assert plain["ICC(2,1)"] != stretched["ICC(2,1)"]


def test_ratings_that_were_sorted_are_pointed_out() -> None:
    ratings = story_ratings()
    in_order = ratings.frame.with_columns(pl.col("value").sort().over("item", "question"))
    assert not nlgauge.AgreementStudy().run(ratings).notes
    notes = nlgauge.AgreementStudy().run(nlgauge.Ratings(in_order)).notes
    assert len(notes) == 2
    assert all("they were sorted" in note for note in notes)


def test_the_chart_has_a_box_and_a_mean_for_each_group() -> None:
    study = nlgauge.AgreementStudy(by="system").run(story_ratings())
    assert study.tables["scores"]["group"].value_counts().sort("group").rows() == [("strong", 30), ("weak", 30)]
    panels = study.chart().to_dict()["concat"]
    assert [panel["layer"][0]["title"]["text"] for panel in panels] == ["overall", "clear"]
    for panel, question in zip(panels, ("overall", "clear"), strict=True):
        boxes, diamonds = panel["layer"]
        assert boxes["mark"]["type"] == "boxplot"
        assert len(boxes["data"]["values"]) == 30
        assert diamonds["mark"]["shape"] == "diamond"
        mine = study.tables["scores"].filter(pl.col("question") == question)
        means = {group: mine.filter(group=group)["score"].mean() for group in ("strong", "weak")}
        assert {point["group"]: point["score"] for point in diamonds["data"]["values"]} == pytest.approx(means)
        assert boxes["encoding"]["x"]["sort"] == ["strong", "weak"]
    assert "layer" not in nlgauge.AgreementStudy().run(story_ratings()).chart().to_dict()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,r,1,x\na,s,2,y\nb,r,3,x\nb,s,1,x\n", "item 'a' belongs to 'x' and to 'y'; expected one group per item"),
        ("a,r,1,x\na,s,2,\nb,r,3,x\nb,s,1,x\n", "line 3, column 'system': the cell is empty; expected the item's"),
    ],
)
def test_an_item_has_one_group(tmp_path: Path, rows: str, message: str) -> None:
    file = tmp_path / "r.csv"
    file.write_text("item,rater,value,system\n" + rows)
    with pytest.raises(DataError) as caught:
        nlgauge.AgreementStudy(by="system").run(file)
    assert message in str(caught.value)
    with raises(DataError, file="r.csv", column="model"):
        nlgauge.AgreementStudy(by="model").run(file)


def test_the_command_prints_every_measure_that_was_asked_for(tmp_path: Path) -> None:
    story_ratings().frame.write_csv(tmp_path / "one.csv")
    story_ratings(missing=3).frame.write_csv(tmp_path / "two.csv")
    arguments = ("study", "agreement", "one.csv", "--measures", "alpha,kappa,icc", "--by", "system")
    done = command(
        *arguments, "--chart", "box.svg", "--scores", "means.csv", "-f", "json", cwd=tmp_path, cache=tmp_path / "c"
    )
    assert done.code == 0, done.err
    rows = json.loads(done.out)["rows"]
    assert {"question", "alpha", "level", "raters", "items", "kappa", *FORMS} <= rows[0].keys()
    assert "strong" in (tmp_path / "box.svg").read_text()
    assert pl.read_csv(tmp_path / "means.csv")["group"].n_unique() == 2
    both = command("study", "agreement", "one.csv", "two.csv", "--measures", "icc", cwd=tmp_path, cache=tmp_path / "c")
    assert "two ICC(2,k)" in both.out
    assert "kappa" not in both.out
    wrong = command("study", "agreement", "one.csv", "--measures", "kapa", cwd=tmp_path, cache=tmp_path / "c")
    assert wrong.code == 2
    assert "did you mean 'kappa'" in wrong.err


@pytest.mark.parametrize(("items", "raters"), [(6, 3), (20, 5), (45, 5)])
def test_intervals_of_alpha_cover_where_raters_are_a_sample(items: int, raters: int) -> None:
    """Items, raters and what is left have variances 1, .3 and .7; percentiles over items cover 72 to 82 % here."""
    rng, hits, times = np.random.default_rng(items), 0, 200
    for seed in range(times):
        ratings = (
            rng.normal(size=items)
            + 0.3**0.5 * rng.normal(size=(raters, 1))
            + 0.7**0.5 * rng.normal(size=(raters, items))
        )
        low, high = alpha_interval(ratings, resamples=200, seed=seed)
        hits += low <= 0.5 <= high
    assert 0.91 <= hits / times <= 1


def rated_sets(seed: int, spammers: int, noise: float = 0.5) -> tuple[pl.DataFrame, set[str]]:
    """Six raters of eight sets of ten: honest ones with an offset and a range of their own in every set, and noise."""
    draw = np.random.default_rng(seed)
    truth = draw.normal(size=(8, 10))
    rows = []
    for rater, (number, line) in itertools.product(range(6), enumerate(truth)):
        honest = draw.uniform(5, 40) + draw.uniform(1, 8) * (line + noise * draw.normal(size=10))
        values = draw.integers(1, 51, 10) if rater < spammers else np.clip(np.round(honest), 1, 50)
        name = f"spammer-{rater}" if rater < spammers else f"honest-{rater}"
        rows += [
            {
                "item": f"{number}-{item}",
                "rater": name,
                "question": "q",
                "value": float(value),
                "assignment": str(number),
            }
            for item, value in enumerate(values)
        ]
    return pl.DataFrame(rows), {f"spammer-{rater}" for rater in range(spammers)}


@pytest.mark.parametrize("spammers", [1, 2])
def test_the_filter_finds_spammers_among_raters_whose_numbers_compare_within_one_set_only(spammers: int) -> None:
    study = nlgauge.AgreementStudy(drop_below=0.65, rescale=(0, 10), resamples=100)
    found, wrong, repeats = 0, 0, 25
    for seed in range(repeats):
        ratings, bad = rated_sets(seed, spammers)
        dropped = set(study.run(ratings).rows[0]["dropped"])
        found += len(dropped & bad)
        wrong += len(dropped - bad)
    assert found / (repeats * spammers) >= 0.9
    assert wrong / (repeats * (6 - spammers)) <= 0.05


def test_without_assignments_a_note_says_what_the_filter_took_as_one() -> None:
    ratings, _ = rated_sets(0, 1)
    for rated, study in (
        (ratings.drop("assignment"), nlgauge.AgreementStudy(drop_below=-1)),
        (ratings, nlgauge.AgreementStudy(rescale=(0, 10), assignment="")),
    ):
        assert any("no assignments" in note and "as one" in note for note in study.run(rated).notes)
    assert not any("no assignments" in note for note in nlgauge.AgreementStudy(drop_below=0.65).run(ratings).notes)
    assert not any("no assignments" in note for note in nlgauge.AgreementStudy().run(ratings.drop("assignment")).notes)


def test_assignments_are_dropped_one_by_one_when_asked_and_rescaled_on_their_own() -> None:
    ratings, _ = rated_sets(3, 0, 0.1)
    careless = (pl.col("rater") == "honest-2") & (pl.col("assignment") == "4")
    ratings = ratings.with_columns(value=pl.when(careless).then(51 - pl.col("value")).otherwise("value"))
    study = nlgauge.AgreementStudy(drop_below=0.65, rescale=(0, 10), drop="assignments", resamples=100)
    result = study.run(ratings)
    followed = result.tables["assignments"]
    assert followed.filter(~pl.col("kept")).select("rater", "assignment").rows() == [("honest-2", "4")]
    assert result.rows[0]["dropped"] == []
    assert result.rows[0]["ratings"] == 6 * 80 - 10
    whole = nlgauge.AgreementStudy(drop_below=0.65, rescale=(0, 10), resamples=100).run(ratings)
    assert whole.rows[0]["dropped"] == []
    assert whole.rows[0]["ratings"] == 6 * 80


def test_rescaling_maps_each_assignment_to_the_same_range_whatever_numbers_were_used() -> None:
    table = np.array([[1.0, 2, 3, 41, 42, 45], [10, 20, 30, 5, np.nan, 9]])
    assignments = np.array([[0, 0, 0, 1, 1, 1]] * 2)
    scaled = rescale(table, assignments=assignments)
    np.testing.assert_allclose(scaled, [[0, 5, 10, 0, 2.5, 10], [0, 5, 10, 0, np.nan, 10]])
    own = rescale(table, assignments=np.array([[0, 0, 0, 1, 1, 1], [2, 2, 2, 3, 3, 3]]))
    np.testing.assert_array_equal(own, scaled)


def test_equal_numbers_throughout_an_assignment_follow_nobody() -> None:
    line = np.array([1.0, 5, 3, 9, 2])
    table = np.stack([line, line * 2 + 1, line + 30, np.full(5, 25.0)])
    found = rater_correlations(table, assignments=np.zeros(table.shape, dtype=np.int64))
    np.testing.assert_allclose(found, [1, 1, 1, 0], atol=1e-12)
