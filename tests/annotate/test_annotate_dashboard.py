"""The dashboard's numbers, against computations by hand and against the studies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest

from nlgauge.annotate.dashboard import Dashboard, dashboard, disagreement
from nlgauge.annotate.database.records import Study
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.exporting import ratings
from nlgauge.annotate.settings import StudySettings
from nlgauge.annotate.units import make_units
from nlgauge.data.human.forms import load_form
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import OptionError
from nlgauge.studies.story.agreement import AgreementStudy
from tests.annotate.fixtures import Clock, from_table, opened, work

ITEMS = [f"set-{number}" for number in range(6)]
VALUES = {"ann": [1, 2, 3, 4, 5, 5], "ben": [1, 2, 3, 4, 4, 5], "eve": [5, 2, 1, 4, 2, 1]}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with opened(tmp_path / "site.db", clock) as found:
        yield found


def sets(count: int = 6) -> ResponseSets:
    texts = [[f"reply {number}", f"another reply {number}", f"last {number}"] for number in range(count)]
    return ResponseSets.of(
        texts, ids=[f"set-{n}" for n in range(count)], contexts=[f"context {n}" for n in range(count)]
    )


def new_study(store: Store, form: str = "abs-hds", count: int = 6, name: str = "pilot", **settings: Any) -> Study:
    chosen = load_form(form)
    return store.create_study(name, chosen, make_units(chosen, sets(count), seed=1), StudySettings(**settings))


def look(store: Store, study: Study, **options: Any) -> Dashboard:
    return dashboard(store.snapshot(study), study, **options)


@pytest.fixture
def rated(store: Store, clock: Clock) -> Study:
    study = new_study(store, raters=3, pay=0.5)
    for name in VALUES:
        work(store, study, name, from_table(VALUES, ITEMS), clock)
    return study


def test_an_empty_study_says_why_it_has_no_numbers(store: Store) -> None:
    found = look(store, new_study(store, raters=2, pay=0.5))
    assert (found.progress.units, found.progress.wanted, found.progress.left, found.progress.share) == (6, 12, 12, 0)
    assert found.progress.units_by_ratings == {0: 6, 1: 0, 2: 0}
    assert [one.question for one in found.agreement] == ["diversity"]
    assert found.agreement[0].alpha is None
    assert "no valid ratings" in found.agreement[0].reason
    assert "no valid ratings" in found.stability[0].reason
    assert not found.raters
    assert not found.disagreement
    assert (found.cost.so_far, found.cost.to_finish) == (0, 6.0)


def test_progress_counts_assignments_by_what_became_of_them(store: Store, clock: Clock) -> None:
    study = new_study(store, raters=2, quality={"min-time": {"seconds": 50}}, pay=0.5)
    work(store, study, "ann", from_table(VALUES, ITEMS), clock, seconds=60, most=4)
    work(store, study, "ben", from_table(VALUES, ITEMS), clock, seconds=20, most=2)
    store.lease(study, store.join(study, "direct", "eve"))
    done = look(store, study, fees=0.2).progress
    assert (done.valid, done.rejected, done.leased, done.left, done.units_done) == (4, 2, 1, 8, 0)
    assert done.units_by_ratings == {0: 2, 1: 4, 2: 0}
    assert done.median_seconds == 60
    assert done.mean_seconds == pytest.approx((4 * 60 + 2 * 20) / 6)


def test_a_study_that_lacks_one_rating_is_not_said_to_be_done(store: Store) -> None:
    done = replace(look(store, new_study(store)).progress, wanted=1000, left=1)
    assert (done.share, replace(done, left=0).share) == (0.99, 1)


def test_cost_has_fees_and_counts_rejected_work_apart(store: Store, clock: Clock) -> None:
    study = new_study(store, raters=2, quality={"min-time": {"seconds": 50}}, pay=0.5)
    work(store, study, "ann", from_table(VALUES, ITEMS), clock, seconds=60, most=4)
    work(store, study, "ben", from_table(VALUES, ITEMS), clock, seconds=20, most=2)
    cost = look(store, study, fees=0.2).cost
    assert (cost.so_far, cost.rejected, cost.to_finish) == pytest.approx((4 * 0.6, 2 * 0.6, 8 * 0.6))
    assert cost.so_far + cost.to_finish == pytest.approx(12 * 0.6)
    with pytest.raises(OptionError, match=r"fees of -1; expected a share"):
        look(store, study, fees=-1)


def test_alpha_is_that_of_the_study_and_of_the_reference_package(store: Store, rated: Study) -> None:
    found = look(store, rated).agreement[0]
    direct = krippendorff.alpha(reliability_data=np.array(list(VALUES.values())), level_of_measurement="interval")
    assert found.alpha == pytest.approx(direct)
    row = AgreementStudy().run(ratings(store.snapshot(rated))).rows[0]
    assert found.interval == tuple(row["alpha_ci"])
    assert (found.raters, found.items, found.ratings) == (3, 6, 18)


def test_agreement_of_equal_ratings_has_a_reason_and_no_number(store: Store, clock: Clock) -> None:
    study = new_study(store, raters=2)
    for name in ("ann", "ben"):
        work(store, study, name, lambda *_: 3, clock)
    found = look(store, study)
    assert found.agreement[0].alpha is None
    assert "no variation: every rating is 3" in found.agreement[0].reason
    assert found.stability[0].reason


def test_a_rater_is_compared_with_the_others(store: Store, rated: Study) -> None:
    found = look(store, rated)
    names = {store.join(rated, "direct", name).pseudonym: name for name in VALUES}
    table = {name: np.array(values, dtype=float) for name, values in VALUES.items()}
    for row in found.raters:
        name = names[row.pseudonym]
        others = np.mean([values for other, values in table.items() if other != name], axis=0)
        assert row.correlation == pytest.approx(np.corrcoef(table[name], others)[0, 1])
        assert (row.assignments, row.valid, row.rejected, row.median_seconds) == (6, 6, 0, 100)


def test_the_rater_table_names_rules_and_verdicts(store: Store, rated: Study) -> None:
    eve = store.join(rated, "direct", "eve")
    made = store.reject(rater_id=eve.id, reason="answers at random", who="test")
    row = next(row for row in look(store, rated).raters if row.id == eve.id)
    assert (row.state, row.valid, row.rejected, row.rules, row.verdicts) == (
        "rejected", 0, 6, {"manual": 1}, (made.id,)
    )  # fmt: skip
    store.overrule(made.id, "a mistake", "test")
    row = next(row for row in look(store, rated).raters if row.id == eve.id)
    assert (row.valid, row.rejected, row.rules, row.verdicts) == (6, 0, {}, ())


def test_disputed_items_come_with_their_texts_and_ratings(store: Store, rated: Study) -> None:
    found = look(store, rated).disagreement
    spread = {item: float(np.var([values[place] for values in VALUES.values()])) for place, item in enumerate(ITEMS)}
    assert [one.variance for one in found] == pytest.approx(sorted(spread.values(), reverse=True))
    first = found[0]
    assert first.item in ("set-0", "set-5")
    assert first.context == f"context {first.item[-1]}"
    assert first.texts == (f"reply {first.item[-1]}", f"another reply {first.item[-1]}", f"last {first.item[-1]}")
    assert sorted(one.value for one in first.ratings) == [1, 1, 5] or sorted(one.value for one in first.ratings) == [
        1,
        5,
        5,
    ]
    assert len(look(store, rated, most=2).disagreement) == 2


def test_disputed_items_of_one_question_are_not_crowded_out_by_another(store: Store, clock: Clock) -> None:
    study = new_study(store, "asp-hds", raters=2)
    work(store, study, "ann", lambda *_: 1, clock)
    work(store, study, "ben", lambda _, __, question: 5 if question == "form" else 2, clock)
    snapshot = store.snapshot(study)
    assert {one.question for one in disagreement(snapshot, 6)} == {"form"}
    assert [(one.question, one.variance) for one in disagreement(snapshot, 6, "content")] == [("content", 0.25)] * 6


def test_pairs_are_shown_with_the_two_texts_that_were_compared(store: Store, clock: Clock) -> None:
    study = new_study(store, "sim-hds", 3, raters=2)
    given = {"ann": 1, "ben": 5}
    work(store, study, "ann", lambda rater, *_: given[rater], clock)
    work(store, study, "ben", lambda rater, item, _: 5 if item.endswith("0-2") else 1, clock)
    first, second = look(store, study).disagreement[:2]
    assert first.pair == second.pair == "0-2"
    assert first.texts == (f"reply {first.item[-1]}", f"last {first.item[-1]}")


def test_two_sets_that_were_compared_are_shown_together(store: Store, clock: Clock) -> None:
    form = load_form("rnk-hds")
    table = ResponseSets.of(
        [["x1", "x2"], ["y1", "y2"]], ids=["x", "y"], contexts=["same", "same"], systems=["one", "two"]
    )
    study = store.create_study("ranks", form, make_units(form, table, seed=1), StudySettings(raters=2))
    work(store, study, "ann", lambda _, __, question: "x" if question == "more_diverse" else 3, clock)
    work(store, study, "ben", lambda _, __, question: "y" if question == "more_diverse" else 3, clock)
    (found,) = look(store, study).disagreement
    assert (found.item, found.variance, found.texts, found.context) == ("x>y", 1.0, ("x1", "x2", "y1", "y2"), "same")


def test_raters_who_agree_need_no_more_ratings_and_raters_who_guess_do(store: Store, clock: Clock) -> None:
    count = 30
    names = [f"set-{number}" for number in range(count)]
    truth = [1 + number % 5 for number in range(count)]
    rng = np.random.default_rng(4)
    for name, values in (
        ("agreeing", dict.fromkeys("abcd", truth)),
        ("guessing", {rater: rng.integers(1, 6, count).tolist() for rater in "abcd"}),
    ):
        study = new_study(store, count=count, name=name, raters=4)
        for rater in "abcd":
            work(store, study, rater, from_table(values, names), clock)
    agreeing, guessing = (look(store, store.study(name)).stability[0] for name in ("agreeing", "guessing"))
    assert agreeing.advice.startswith("enough of both: 2 per item follow the order of all ratings on 30 items")
    assert guessing.advice.startswith("more ratings per item: 2 per item follow the order")
    assert {plan.ratings for plan in guessing.plans} == {1, 2, 3, 4}
    assert all(plan.spearman == pytest.approx(1) for plan in guessing.plans if plan.ratings == 4)


def test_items_with_one_rating_do_not_say_that_one_is_enough(store: Store, clock: Clock) -> None:
    count, rng = 30, np.random.default_rng(4)
    study, names = new_study(store, count=count, raters=3), [f"set-{number}" for number in range(count)]
    values = {rater: rng.integers(1, 6, count).tolist() for rater in "ab"}
    work(store, study, "a", from_table(values, names), clock)
    work(store, study, "b", from_table(values, names), clock, most=4)
    assert look(store, study).stability[0].reason == "4 items have 2 ratings or more; expected at least 5"
    work(store, study, "b", from_table(values, names), clock, most=4)
    found = look(store, study).stability[0]
    assert found.advice.startswith("more ratings per item: 1 per item follows the order of all ratings on 8 items")
    assert {plan.ratings for plan in found.plans} == {1, 2}


def test_the_same_snapshot_gives_the_same_numbers(store: Store, rated: Study) -> None:
    snapshot = store.snapshot(rated)
    assert dashboard(snapshot, rated) == dashboard(snapshot, rated)


def test_a_snapshot_of_another_study_is_refused(store: Store, rated: Study) -> None:
    form = load_form("typicality")
    units = make_units(form, Items.of([f"text {n}" for n in range(25)]), seed=1)
    other = store.create_study("other", form, units, StudySettings())
    with pytest.raises(OptionError, match="a snapshot of 'pilot' for study 'other'"):
        dashboard(store.snapshot(rated), other)
