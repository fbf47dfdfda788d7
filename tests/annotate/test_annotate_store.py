"""The annotation site's store keeps its promises, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from nlgauge.annotate.database import schema
from nlgauge.annotate.database.assignment import GRACE_SECONDS
from nlgauge.annotate.database.records import (
    Finished,
    Lease,
    NotExpected,
    Rater,
    Rejected,
    Study,
    TooManyRaters,
    hashed_id,
    pseudonym,
)
from nlgauge.annotate.database.schema import connect, migrate
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.exporting import ratings
from nlgauge.annotate.settings import StudySettings
from nlgauge.annotate.units import Item, Kind, Unit
from nlgauge.data.human.forms import Choice, Form, FormQuestion, Shape, Step
from nlgauge.data.human.ratings import read_ratings
from nlgauge.data.writing import write_table
from nlgauge.errors import DataError, OptionError, UnknownName
from tests.annotate.fixtures import opened

ENDS = {1: "bad", 5: "good"}
SCORE = FormQuestion(id="score", widget="scale", prompt="How good?", per="item", min=1, max=5, labels=ENDS)
NOTE = FormQuestion(id="note", widget="text", prompt="Why?", required=False, export=False)
STEPS = (Step(title="Rate", show=("items",), questions=(SCORE, NOTE)),)
FORM = Form(
    name="plain",
    title="Rate",
    instructions=("Read, then rate.",),
    unit=Shape(of="item", size=1),
    minutes=1,
    steps=STEPS,
)


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def __call__(self) -> float:
        return self.time

    def wait(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.sqlite'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_store(clock: Clock) -> Iterator[Callable[[str], Store]]:
    """Opens a database with the tables, as a server does."""
    engines = []

    def opened(url: str) -> Store:
        engine = connect(url)
        engines.append(engine)
        migrate(engine)
        return Store(engine, clock)

    yield opened
    for engine in engines:
        engine.dispose()


@pytest.fixture
def store(url: str, open_store: Callable[[str], Store]) -> Store:
    return open_store(url)


def unit(name: str, kind: Kind = "normal", role: str = "", expected: dict[str, Any] | None = None) -> Unit:
    item = Item(id=name, texts=(f"The text of {name}.",), role=role)
    return Unit(items=(item,), kind=kind, expected={name: expected} if expected else {})


def units(count: int) -> list[Unit]:
    return [unit(f"item-{number}") for number in range(count)]


def new_study(store: Store, count: int = 4, name: str = "first", **settings: Any) -> Study:
    return store.create_study(name, FORM, units(count), StudySettings(**settings))


def joined(store: Store, study: Study, name: str) -> Rater:
    return store.join(study, "direct", name, {})


def leased(store: Store, study: Study, rater: Rater) -> Lease:
    found = store.lease(study, rater)
    assert isinstance(found, Lease)
    return found


def finish(store: Store, lease: Lease, score: int = 3, note: str = "", seconds: float = 60.0) -> str:
    rater, assignment = lease.assignment.rater_id, lease.assignment.id
    for item in lease.unit.items:
        store.save(assignment, rater, item.id, "score", score)
    if note:
        store.save(assignment, rater, "", "note", note)
    return store.submit(assignment, rater, seconds).state


def check_counters(store: Store, study: Study) -> None:
    """Every counter says how many assignments of its unit are leased, submitted or valid."""
    snapshot = store.snapshot(study)
    live = Counter(one.unit_id for one in snapshot.assignments if one.state in ("leased", "submitted", "valid"))
    assert {one.id: one.taken for one in snapshot.units} == {one.id: live[one.id] for one in snapshot.units}


def valid_per_unit(store: Store, study: Study) -> list[int]:
    snapshot = store.snapshot(study)
    valid = Counter(one.unit_id for one in snapshot.assignments if one.state == "valid")
    return [valid[one.id] for one in snapshot.units]


def test_migrations_make_exactly_the_tables_of_the_schema(store: Store) -> None:
    migrate(store.engine)
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


def test_a_newer_database_is_refused(store: Store) -> None:
    with store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DataError, match=r"revision 9999; expected one of 0001, 0002: install the newer NLGauge"):
        migrate(store.engine)


def test_servers_that_start_at_once_make_the_tables_once(url: str, open_store: Callable[[str], Store]) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(open_store, [url] * 4))
    assert all(one.studies() == [] for one in stores)


def test_a_study_keeps_its_form_and_settings(store: Store) -> None:
    study = new_study(store, raters=2, quality={"min-time": {"seconds": 5}}, pay=0.5)
    assert store.study("first") == study == store.studies()[0]
    assert study.form == FORM
    assert study.settings.quality == {"min-time": {"seconds": 5}}
    with pytest.raises(DataError, match="a study named 'first' exists"):
        new_study(store)
    with pytest.raises(DataError, match="no study named 'second'; found first"):
        store.study("second")
    with pytest.raises(DataError, match="no unit to rate"):
        store.create_study("empty", FORM, [unit("gold", "gold")], StudySettings())


def test_settings_that_make_no_sense_are_refused() -> None:
    for settings in ({"raters": 0}, {"lease_minutes": 0}, {"pay": -1}, {"seed": -1}, {"max_units_per_rater": 0}):
        with pytest.raises(OptionError, match="expected"):
            StudySettings(**settings)  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="did you mean 'min-time'"):
        StudySettings(quality={"mintime": {}})


def test_a_rule_about_a_question_that_the_form_does_not_have_is_refused(store: Store) -> None:
    with pytest.raises(DataError, match=r"no question 'scores' in the form 'plain'.*did you mean 'score'"):
        new_study(store, quality={"mans": {"question": "scores"}})
    assert store.studies() == []


def test_many_raters_at_once_fill_every_unit_exactly(store: Store) -> None:
    study = new_study(store, 20, raters=3)
    watching, broken = threading.Event(), list[int]()

    def watch() -> None:
        while not watching.is_set():
            broken.extend(one.taken for one in store.snapshot(study).units if one.taken > 3)

    def work(number: int) -> int:
        rater, done = joined(store, study, f"worker {number}"), 0
        while True:
            found = store.lease(study, rater)
            if not isinstance(found, Lease):
                assert isinstance(found, Finished)
                return done
            assert finish(store, found) == "valid"
            done += 1

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(12) as pool:
        done = list(pool.map(work, range(12)))
    watching.set()
    watcher.join()
    assert not broken
    assert sum(done) == 60
    assert valid_per_unit(store, study) == [3] * 20
    pairs = Counter((one.unit_id, one.rater_id) for one in store.snapshot(study).assignments)
    assert set(pairs.values()) == {1}
    check_counters(store, study)


def test_raters_who_compete_for_the_last_units_do_not_wait_in_a_circle(store: Store) -> None:
    for number in range(20):
        study = new_study(store, 6, f"study {number}", raters=3)

        def work(rater: Rater, study: Study = study) -> None:
            while isinstance(found := store.lease(study, rater), Lease):
                finish(store, found)

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, [joined(store, study, f"worker {k}") for k in range(16)]))
        assert valid_per_unit(store, study) == [3] * 6


def test_one_rater_in_many_tabs_gets_one_lease(store: Store) -> None:
    study = new_study(store)
    with ThreadPoolExecutor(8) as pool:
        raters = list(pool.map(lambda _: joined(store, study, "same"), range(8)))
        found = list(pool.map(lambda rater: leased(store, study, rater).assignment.id, raters))
    assert len({rater.id for rater in raters}) == len(set(found)) == 1


def test_two_servers_on_one_database_share_the_work(url: str, open_store: Callable[[str], Store]) -> None:
    stores = [open_store(url) for _ in range(2)]
    study = new_study(stores[0], 12, raters=2)

    def work(number: int) -> None:
        store = stores[number % 2]
        rater = joined(store, study, f"worker {number}")
        while isinstance(found := store.lease(study, rater), Lease):
            finish(stores[(number + 1) % 2], found)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert valid_per_unit(stores[1], study) == [2] * 12
    check_counters(stores[0], study)


def test_work_is_balanced_at_every_moment(store: Store) -> None:
    study = new_study(store, 7, raters=5)
    raters = [joined(store, study, f"rater {number}") for number in range(5)]
    for turn in range(35):
        free = [rater for rater in raters if sum(r == rater.id for r in done_by(store, study)) < 7]
        finish(store, leased(store, study, free[turn % len(free)]))
        counts = valid_per_unit(store, study)
        assert max(counts) - min(counts) <= 2
        if turn < 7:
            assert max(counts) == 1
    assert valid_per_unit(store, study) == [5] * 7


def done_by(store: Store, study: Study) -> list[int]:
    return [one.rater_id for one in store.snapshot(study).assignments]


def test_each_rater_has_an_order_of_their_own(store: Store) -> None:
    study = new_study(store, 12, raters=9)
    orders = []
    for name in ("one", "two", "three"):
        rater, order = joined(store, study, name), []
        while isinstance(found := store.lease(study, rater), Lease):
            order.append(found.unit.items[0].id)
            finish(store, found)
            store.reject(assignment_id=found.assignment.id, reason="makes the units equal again", who="tester")
        orders.append(tuple(order))
    assert [sorted(order) for order in orders] == [sorted(f"item-{number}" for number in range(12))] * 3
    assert len({*orders, tuple(f"item-{number}" for number in range(12))}) == 4


def test_an_open_lease_is_continued_with_its_answers(store: Store) -> None:
    study = new_study(store)
    rater = joined(store, study, "rater")
    first = leased(store, study, rater)
    item = first.unit.items[0].id
    store.save(first.assignment.id, rater.id, item, "score", 2)
    store.save(first.assignment.id, rater.id, item, "score", 4)
    again = leased(store, study, rater)
    assert again.assignment == first.assignment
    assert again.answers == {(item, "score"): 4} == store.answers(first.assignment.id)


def test_a_lease_that_runs_out_frees_its_unit_and_is_taken_up_again_while_there_is_room(
    store: Store, clock: Clock
) -> None:
    study = new_study(store, 1, raters=1, lease_minutes=10)
    slow, quick = joined(store, study, "slow"), joined(store, study, "quick")
    lease = leased(store, study, slow)
    item = lease.unit.items[0].id
    waiting = store.lease(study, quick)
    assert isinstance(waiting, Finished)
    assert waiting.later
    clock.wait(600 + GRACE_SECONDS - 1)
    store.save(lease.assignment.id, slow.id, item, "score", 5)
    clock.wait(2)
    with pytest.raises(DataError, match="has expired"):
        store.save(lease.assignment.id, slow.id, item, "score", 1)
    with pytest.raises(DataError, match="has expired"):
        store.submit(lease.assignment.id, slow.id, 1)
    assert store.expire() == 1
    assert store.expire() == 0
    again = leased(store, study, slow)
    assert again.assignment.id == lease.assignment.id
    assert again.answers == {(item, "score"): 5}
    clock.wait(601 + GRACE_SECONDS)
    taken = leased(store, study, quick)
    assert taken.unit == lease.unit
    assert isinstance(store.lease(study, slow), Finished)
    assert finish(store, taken) == "valid"
    check_counters(store, study)


def human_study(store: Store, count: int = 3, raters: int = 2) -> Study:
    """A study in which every item is by a human, so that a score below 4 is rejected."""
    content = [unit(f"item-{number}", role="human") for number in range(count)]
    return store.create_study("human", FORM, content, StudySettings(raters=raters, quality={"mans": {}}))


def test_rejected_work_is_replaced_until_every_unit_has_its_ratings(store: Store) -> None:
    study, states = human_study(store), Counter[str]()
    for number in range(4):
        rater = joined(store, study, f"rater {number}")
        while isinstance(found := store.lease(study, rater), Lease):
            states[finish(store, found, 2 if number == 0 else 4)] += 1
    assert states == {"rejected": 3, "valid": 6}
    assert valid_per_unit(store, study) == [2] * 3
    check_counters(store, study)
    reasons = {one.reason for one in store.snapshot(study).verdicts}
    assert reasons == {"the human-written text has 2, below 4"}


def test_seconds_never_exceed_the_time_since_the_lease(store: Store, clock: Clock) -> None:
    study = new_study(store, 2, quality={"min-time": {"seconds": 30}})
    rater = joined(store, study, "hasty")
    lease = leased(store, study, rater)
    clock.wait(10)
    store.save(lease.assignment.id, rater.id, lease.unit.items[0].id, "score", 3)
    outcome = store.submit(lease.assignment.id, rater.id, 4000.0)
    assert outcome.state == "rejected"
    assert [one.reason for one in outcome.verdicts] == ["the work took 10.0 seconds, fewer than 30.0"]
    assert store.submit(lease.assignment.id, rater.id, 4000.0) == outcome


def test_a_clock_that_is_set_back_rejects_nobody_who_took_their_time(store: Store, clock: Clock) -> None:
    study = new_study(store, 3, lease_minutes=30, quality={"min-time": {"seconds": 30}})
    rater = joined(store, study, "patient")
    for measured, counted, state in ((60.0, 60.0, "valid"), (5.0, 5.0, "rejected"), (1e9, 1800.0, "valid")):
        lease = leased(store, study, rater)
        clock.wait(-600)
        assert finish(store, lease, seconds=measured) == state
        found = next(one for one in store.snapshot(study).assignments if one.id == lease.assignment.id)
        assert found.seconds == counted
    check_counters(store, study)


def test_a_clock_that_jumps_ahead_costs_no_answer(store: Store, clock: Clock) -> None:
    study = new_study(store, 1, raters=1)
    rater = joined(store, study, "somebody")
    lease = leased(store, study, rater)
    store.save(lease.assignment.id, rater.id, lease.unit.items[0].id, "score", 4)
    clock.wait(10 * 86400)
    assert store.expire() == 1
    clock.wait(-10 * 86400)
    again = leased(store, study, rater)
    assert (again.assignment.id, again.answers) == (lease.assignment.id, {(lease.unit.items[0].id, "score"): 4})
    assert store.submit(again.assignment.id, rater.id, 60).state == "valid"
    check_counters(store, study)


def test_an_overruled_rejection_counts_again_even_beyond_the_ratings_wanted(store: Store) -> None:
    study = human_study(store, 1, raters=1)
    first, second = joined(store, study, "first"), joined(store, study, "second")
    assert finish(store, leased(store, study, first), 1) == "rejected"
    assert finish(store, leased(store, study, second), 5) == "valid"
    (verdict,) = store.snapshot(study).verdicts
    store.overrule(verdict.id, "a bad text indeed", "researcher")
    assert valid_per_unit(store, study) == [2]
    check_counters(store, study)
    (kept,) = store.snapshot(study).verdicts
    assert (kept.rule, kept.reason, kept.overruled_why) == (verdict.rule, verdict.reason, "a bad text indeed")
    with pytest.raises(DataError, match="is already overruled"):
        store.overrule(verdict.id, "again", "researcher")
    with pytest.raises(DataError, match="no verdict 999"):
        store.overrule(999, "why not", "researcher")


def test_a_rejected_rater_loses_all_work_and_gets_it_back_when_overruled(store: Store) -> None:
    study = human_study(store, 4)
    rater = joined(store, study, "rater")
    assert [finish(store, leased(store, study, rater), score) for score in (4, 2, 5)] == ["valid", "rejected", "valid"]
    open_one = leased(store, study, rater)
    verdict = store.reject(rater_id=rater.id, reason="admitted to using a script", who="researcher")
    found = store.lease(study, rater)
    assert found == Rejected("manual", "admitted to using a script")
    with pytest.raises(DataError, match="has expired"):
        store.save(open_one.assignment.id, rater.id, open_one.unit.items[0].id, "score", 4)
    assert sum(valid_per_unit(store, study)) == 0
    check_counters(store, study)
    own = next(one for one in store.snapshot(study).verdicts if one.rule == "mans")
    store.overrule(own.id, "does not help while the rater is rejected", "researcher")
    assert sum(valid_per_unit(store, study)) == 0
    store.overrule(verdict.id, "it was somebody else", "researcher")
    assert sum(valid_per_unit(store, study)) == 3
    assert store.rater(rater.id).state == "active"
    assert leased(store, study, rater).assignment.id == open_one.assignment.id
    check_counters(store, study)


def test_an_assignment_with_two_rejections_needs_both_overruled(store: Store) -> None:
    study = human_study(store, 1)
    lease = leased(store, study, joined(store, study, "rater"))
    finish(store, lease, 1)
    by_hand = store.reject(assignment_id=lease.assignment.id, reason="nonsense", who="researcher")
    by_rule = store.snapshot(study).verdicts[0]
    store.overrule(by_hand.id, "hasty", "researcher")
    assert valid_per_unit(store, study) == [0]
    store.overrule(by_rule.id, "hasty, too", "researcher")
    assert valid_per_unit(store, study) == [1]
    check_counters(store, study)


def test_rejecting_needs_one_target_that_exists_and_a_reason(store: Store) -> None:
    study = human_study(store)
    lease = leased(store, study, joined(store, study, "rater"))
    with pytest.raises(OptionError, match="either an assignment or a rater"):
        store.reject(reason="both", who="x", assignment_id=1, rater_id=1)
    with pytest.raises(OptionError, match="without a reason"):
        store.reject(reason=" ", who="x", assignment_id=lease.assignment.id)
    with pytest.raises(DataError, match="no assignment 999"):
        store.reject(reason="gone", who="x", assignment_id=999)
    with pytest.raises(DataError, match="no rater 999"):
        store.reject(reason="gone", who="x", rater_id=999)


def test_closing_ends_open_leases_and_keeps_their_answers(store: Store) -> None:
    study = new_study(store)
    rater = joined(store, study, "rater")
    finish(store, leased(store, study, rater))
    lease = leased(store, study, rater)
    item = lease.unit.items[0].id
    store.save(lease.assignment.id, rater.id, item, "score", 4)
    assert store.close_study("first", "researcher") == 1
    with pytest.raises(DataError, match="has expired"):
        store.save(lease.assignment.id, rater.id, item, "score", 5)
    found = store.lease(study, rater)
    assert isinstance(found, Finished)
    assert (found.reason, found.done) == ("closed", 1)
    assert store.answers(lease.assignment.id) == {(item, "score"): 4}
    assert store.study("first").state == "closed"
    check_counters(store, study)


def test_closing_while_raters_work_leaves_no_open_lease(store: Store) -> None:
    study = new_study(store, 60, raters=3)
    started, late = threading.Barrier(5), list[str]()

    def work(number: int) -> None:
        rater = joined(store, study, f"worker {number}")
        started.wait()
        while isinstance(found := store.lease(study, rater), Lease):
            try:
                finish(store, found)
            except DataError as error:
                late.append(str(error))

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(work, number) for number in range(4)]
        started.wait()
        store.close_study("first", "researcher")
        for one in done:
            one.result()
    assert all("has expired" in message for message in late)
    assert "leased" not in {one.state for one in store.snapshot(study).assignments}
    check_counters(store, study)


def test_raters_researchers_and_expiry_at_once_keep_the_counters_right(store: Store, clock: Clock) -> None:
    study = human_study(store, 15, raters=3)
    raters = [joined(store, study, f"worker {number}") for number in range(8)]
    late, stop = list[str](), threading.Event()

    def work(rater: Rater) -> None:
        for turn in range(40):
            found = store.lease(study, rater)
            if isinstance(found, Lease) and turn % 5:
                try:
                    finish(store, found, 3 + turn % 3)
                except DataError as error:
                    late.append(str(error))

    def research(number: int) -> None:
        while not stop.is_set():
            target = raters[number]
            verdict = store.reject(rater_id=target.id, reason="a second look", who="researcher")
            clock.wait(1800)
            store.expire()
            store.overrule(verdict.id, "looked twice", "researcher")

    with ThreadPoolExecutor(10) as pool:
        looking = [pool.submit(research, number) for number in range(2)]
        for one in [pool.submit(work, rater) for rater in raters]:
            one.result()
        stop.set()
        for done in looking:
            done.result()
    assert all("has expired" in message for message in late)
    check_counters(store, study)
    counted = Counter((one.unit_id, one.rater_id) for one in store.snapshot(study).assignments)
    assert set(counted.values()) == {1}


def test_a_snapshot_is_one_moment_while_raters_write(store: Store) -> None:
    pair = (Item(id="a", texts=("one",)), Item(id="b", texts=("two",)))
    study = store.create_study("pairs", FORM, [Unit(items=pair) for _ in range(4)], StudySettings(raters=1))
    stop = threading.Event()

    def work(number: int) -> None:
        lease = leased(store, study, joined(store, study, f"worker {number}"))
        for score in cycle(range(1, 6)):
            if stop.is_set():
                return
            both = {("a", "score"): score, ("b", "score"): score}
            store.save_all(lease.assignment.id, lease.assignment.rater_id, both)

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(work, number) for number in range(4)]
        seen, deadline = set[str](), time.monotonic() + 60
        while len(seen) < 20 and time.monotonic() < deadline:
            found: dict[int, list[int]] = {}
            for answer in store.snapshot(study).answers:
                found.setdefault(answer.assignment_id, []).append(answer.value)
            assert all(len(values) == 2 and values[0] == values[1] for values in found.values())
            seen.add(str(found))
        stop.set()
        for one in done:
            one.result()
    assert len(seen) == 20


def test_answers_are_checked_and_belong_to_their_rater(store: Store) -> None:
    study = new_study(store)
    rater, other = joined(store, study, "rater"), joined(store, study, "other")
    lease = leased(store, study, rater)
    number, item = lease.assignment.id, lease.unit.items[0].id
    for wrong in (0, 6, 2.5, "many", None, True):
        with pytest.raises(DataError):
            store.save(number, rater.id, item, "score", wrong)
    with pytest.raises(DataError, match="no question 'nothing'"):
        store.save(number, rater.id, item, "nothing", 3)
    with pytest.raises(DataError, match="expected an item of this assignment"):
        store.save(number, rater.id, "x' OR 1=1 --", "score", 3)
    for call in (lambda: store.save(number, other.id, item, "score", 3), lambda: store.submit(number, other.id, 3)):
        with pytest.raises(DataError, match="of this rater"):
            call()
    assert store.answers(number) == {}
    hostile = "Robert'); DROP TABLE answer;-- <script>alert(1)</script> {{7*7}} \u202e \U0001f600"
    store.save(number, rater.id, "", "note", hostile)
    assert store.answers(number) == {("", "note"): hostile}
    outcome = store.submit(number, rater.id, 60)
    assert (outcome.state, outcome.missing) == ("leased", ((item, "score"),))
    assert finish(store, lease) == "valid"
    with pytest.raises(DataError, match="was submitted"):
        store.save(number, rater.id, item, "score", 3)


def test_a_rater_has_at_most_so_many_units(store: Store) -> None:
    study = new_study(store, max_units_per_rater=2, completion_code="DONE-42")
    rater = joined(store, study, "rater")
    for _ in range(2):
        finish(store, leased(store, study, rater))
    assert store.lease(study, rater) == Finished("limit", 2, "DONE-42")
    assert store.rater(rater.id).state == "finished"


def test_raters_qualify_within_their_tries(store: Store) -> None:
    test = [unit(f"test-{number}", "qualification", expected={"score": 5}) for number in range(2)]
    study = store.create_study("tested", FORM, [*units(2), *test], StudySettings(qualification_tries=3))
    good, bad = joined(store, study, "good"), joined(store, study, "bad")
    assert good.state == "qualifying"
    seen = [leased(store, study, good)]
    finish(store, seen[0], 1)
    seen.append(leased(store, study, good))
    assert finish(store, seen[1], 5) == "valid"
    assert [lease.unit.items[0].id for lease in seen] == ["test-0", "test-1"]
    assert store.rater(good.id).state == "active"
    assert leased(store, study, good).unit.kind == "normal"
    for _ in range(3):
        finish(store, leased(store, study, bad), 1)
    found = store.lease(study, bad)
    assert isinstance(found, Rejected)
    assert found.rule == "qualification"
    assert found.reason.startswith("none of 3 tries to qualify was good enough; the last: 0 of 1 known answers")
    verdict = next(one for one in store.snapshot(study).verdicts if one.assignment_id is None)
    store.overrule(verdict.id, "knows the subject", "researcher")
    assert leased(store, study, bad).unit.kind == "normal"


def test_a_failed_gold_unit_rejects_the_rater_and_their_work_is_replaced(store: Store) -> None:
    gold = [unit(f"gold-{number}", "gold", expected={"score": 5}) for number in range(3)]
    study = store.create_study("gold", FORM, [*units(6), *gold], StudySettings(raters=1, gold_every=3))
    careless, careful = joined(store, study, "careless"), joined(store, study, "careful")
    while isinstance(found := store.lease(study, careless), Lease):
        finish(store, found, 2)
    assert isinstance(found, Rejected)
    assert "expected 5" in found.reason
    assert store.rater(careless.id).state == "rejected"
    kinds = Counter[str]()
    while isinstance(found := store.lease(study, careful), Lease):
        kinds[found.unit.kind] += 1
        finish(store, found, 5)
    assert kinds["normal"] == 6
    assert kinds["gold"] in (2, 3)
    snapshot = store.snapshot(study)
    done = {one.rater_id for one in snapshot.assignments if one.state == "valid"}
    assert done == {careful.id}
    check_counters(store, study)


def test_copied_text_is_found_within_and_across_raters(store: Store) -> None:
    study = new_study(store, 4, quality={"duplicate-text": {}})
    one, two = joined(store, study, "one"), joined(store, study, "two")
    assert finish(store, leased(store, study, one), note="It reads like a list, mostly.") == "valid"
    assert finish(store, leased(store, study, one), note="it reads like a LIST - mostly") == "rejected"
    assert finish(store, leased(store, study, two), note="It reads  like a list; mostly!") == "rejected"
    assert finish(store, leased(store, study, two), note="Something of my own here.") == "valid"
    reasons = [verdict.reason.rpartition("' ")[2] for verdict in store.snapshot(study).verdicts]
    assert reasons == ["was handed in before by the same rater", "was handed in before by another rater"]


def test_raters_who_contradict_the_others_are_filtered(store: Store) -> None:
    rule = {"correlation": {"items": 6, "raters": 3, "leave_one_out": True}}
    study = new_study(store, 6, raters=4, quality=rule)
    states = {}
    for name in ("one", "two", "three", "contrary"):
        rater = joined(store, study, name)
        while isinstance(found := store.lease(study, rater), Lease):
            number = int(found.unit.items[0].id.removeprefix("item-"))
            score = 1 + number % 5
            finish(store, found, 6 - score if name == "contrary" else score)
        states[name] = store.rater(rater.id).state
    assert states == {"one": "finished", "two": "finished", "three": "finished", "contrary": "rejected"}
    (verdict,) = store.snapshot(study).verdicts
    assert verdict.reason == "the ratings correlate -1.00 with the mean of the others over 6 items, below 0.65"
    check_counters(store, study)


CHOICES = tuple(Choice(value=value, label=f"level {value}") for value in range(5))
KINDS_OF_ANSWER: dict[str, tuple[FormQuestion, int, Callable[[Unit, bool], dict[tuple[str, str], Any]]]] = {
    "the values of a choice": (
        FormQuestion(id="asked", widget="choice", prompt="How?", per="item", values=CHOICES),
        1,
        lambda unit, against: {
            (item.id, "asked"): abs(int(item.id) % 5 - 4 * against) for item in unit.items
        },
    ),
    "the better of two": (
        FormQuestion(id="asked", widget="choice", prompt="Which?", among="items"),
        2,
        lambda unit, against: {("", "asked"): (max if against else min)(item.id for item in unit.items)},
    ),
    "the best of three": (
        FormQuestion(id="asked", widget="choice", prompt="Which?", among="items"),
        3,
        lambda unit, against: {("", "asked"): (max if against else min)(item.id for item in unit.items)},
    ),
    "an order of three": (
        FormQuestion(id="asked", widget="ranking", prompt="In which order?"),
        3,
        lambda unit, against: {("", "asked"): sorted((item.id for item in unit.items), reverse=against)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS_OF_ANSWER)
def test_the_correlation_filter_sees_every_kind_of_answer_that_is_a_number(tmp_path: Path, kind: str) -> None:
    question, size, answer = KINDS_OF_ANSWER[kind]
    form = replace(FORM, unit=Shape(of="item", size=size), steps=(replace(STEPS[0], questions=(question,)),))
    groups = [
        Unit(items=tuple(Item(id=f"{number * size + place:02}", texts=("A text.",)) for place in range(size)))
        for number in range(6)
    ]
    settings = StudySettings(raters=4, quality={"correlation": {"items": 6, "raters": 3, "leave_one_out": True}})
    with opened(tmp_path / "site.db") as store:
        study = store.create_study("kinds", form, groups, settings)
        for name in ("one", "two", "three", "contrary"):
            rater = joined(store, study, name)
            while isinstance(found := store.lease(study, rater), Lease):
                store.save_all(found.assignment.id, rater.id, answer(found.unit, name == "contrary"))
                store.submit(found.assignment.id, rater.id, 60)
        snapshot = store.snapshot(study)
        assert [rater.state for rater in snapshot.raters] == ["finished", "finished", "finished", "rejected"]
        (verdict,) = snapshot.verdicts
        assert re.match(r"the ratings correlate -\d\.\d\d with the mean of the others over \d+ items", verdict.reason)


def test_the_same_level_all_the_way_is_found_and_a_yes_or_no_is_not(tmp_path: Path) -> None:
    rule = {"straight-lining": {"answers": 5}}
    for values, state in ((CHOICES, "rejected"), (CHOICES[:2], "valid")):
        question = FormQuestion(id="asked", widget="choice", prompt="How?", per="item", values=values)
        form = replace(FORM, unit=Shape(of="item", size=6), steps=(replace(STEPS[0], questions=(question,)),))
        six = Unit(items=tuple(Item(id=f"{number}", texts=("A text.",)) for number in range(6)))
        with opened(tmp_path / f"{len(values)}.db") as store:
            study = store.create_study("lines", form, [six], StudySettings(quality=rule))
            found = leased(store, study, rater := joined(store, study, "somebody"))
            answers = {(item.id, "asked"): 1 for item in six.items}
            store.save_all(found.assignment.id, rater.id, answers)
            assert store.submit(found.assignment.id, rater.id, 60).state == state


def test_ids_of_raters_are_stored_as_hashes_that_the_key_explains(store: Store) -> None:
    study = new_study(store)
    rater = store.join(study, "mturk", "A1SECRETWORKER", {"workerId": "A1SECRETWORKER", "hitId": "H7"})
    assert rater.platform_data == {"hitId": "H7"}
    assert store.join(study, "mturk", "A1SECRETWORKER", {"hitId": "H8"}).platform_data == {"hitId": "H8"}
    assert store.join(study, "prolific", "A1SECRETWORKER", {}).id != rater.id
    with store.engine.connect() as connection:
        rows = [str(row) for table in schema.metadata.sorted_tables for row in connection.execute(sa.select(table))]
    assert any("H8" in row for row in rows)
    assert not any("A1SECRETWORKER" in row for row in rows)
    hashed = hashed_id(store.export_key("first", "researcher"), "mturk", "A1SECRETWORKER")
    assert (rater.hashed_id, rater.pseudonym) == (hashed, pseudonym(hashed))
    for wrong in ("", "\ud800"):
        with pytest.raises(DataError):
            store.join(study, "direct", wrong, {})
    with pytest.raises(OptionError, match="expected one of direct, mturk, prolific"):
        store.join(study, "elsewhere", "x", {})


def test_only_so_many_raters_come_in_from_platforms_within_a_minute(
    url: str, open_store: Callable[[str], Store], clock: Clock
) -> None:
    stores = [open_store(url), open_store(url)]
    study = new_study(stores[0], joins_per_minute=5)

    def join(number: int, platform: str = "prolific") -> bool:
        try:
            return stores[number % 2].claim(study, f"invented {number}", "browser", platform=platform) is not None
        except TooManyRaters:
            return False

    with ThreadPoolExecutor(8) as pool:
        came = list(pool.map(join, range(40)))
    assert sum(came) == 5
    assert join(came.index(True))
    assert join(100, "direct")
    assert not join(101, "mturk")
    clock.wait(61)
    assert join(102)
    assert len(stores[0].snapshot(study).raters) == 7


def test_only_expected_ids_come_in_from_platforms_where_a_list_was_given(store: Store) -> None:
    study = store.create_study("listed", FORM, units(2), StudySettings(), ids=["P1", "P2"])
    for platform in ("prolific", "mturk"):
        assert store.claim(study, "P1", "browser", platform=platform) is not None
        with pytest.raises(NotExpected):
            store.claim(study, "P3", "browser", platform=platform)
    assert store.claim(study, "a link", "browser") is not None
    assert store.claim(new_study(store), "P3", "browser", platform="prolific") is not None
    with store.engine.connect() as connection:
        assert "P2" not in str(connection.execute(sa.select(schema.expected_rater)).all())


def test_an_id_of_a_platform_belongs_to_its_first_browser(store: Store) -> None:
    study = new_study(store)
    first = store.claim(study, "W1", "mine", platform="mturk", data={"assignmentId": "A1", "hitId": "H"})
    assert first is not None
    assert store.claim(study, "W1", "another", platform="mturk", data={"assignmentId": "A2"}) is None
    again = store.claim(study, "W1", "mine", platform="mturk", data={"assignmentId": "A3"})
    assert again is not None
    assert again.platform_data == {"assignmentId": "A3", "hitId": "H", "browser": "mine"}
    assert store.claim(study, "W1", "another", platform="prolific") is not None


def test_a_database_without_the_table_of_expected_ids_gets_it(store: Store) -> None:
    study = new_study(store)
    with store.engine.begin() as connection:
        schema.expected_rater.drop(connection)
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0001'"))
    migrate(store.engine)
    assert store.claim(study, "P1", "browser", platform="prolific") is not None


def test_every_action_of_a_researcher_is_in_the_audit_log(store: Store, clock: Clock) -> None:
    study = human_study(store)
    lease = leased(store, study, joined(store, study, "rater"))
    verdict = store.reject(assignment_id=lease.assignment.id, reason="spam", who="ada")
    store.overrule(verdict.id, "no spam", "ada")
    store.export_key("human", "ada")
    store.set_password("ada", "correct horse battery", who="ada")
    assert store.check_login("ada", "correct horse battery", "10.0.0.1").passed
    store.audit("ada", "export ratings", {"rows": 3})
    store.close_study("human", "ada")
    entries = store.audit_log()
    assert [(one.who, one.what) for one in entries] == [
        ("cli", "create study"), ("ada", "reject"), ("ada", "overrule"), ("ada", "export key"),
        ("ada", "set password"), ("ada", "log in"), ("ada", "export ratings"), ("ada", "close study"),
    ]  # fmt: skip
    assert entries[1].details["reason"] == "spam"
    assert "horse" not in str(entries)
    assert {one.at for one in entries} == {clock.time}


def test_logins_are_throttled_by_name_and_address_with_a_growing_wait(store: Store, clock: Clock) -> None:
    store.set_password("ada", "correct horse battery")
    for number in range(3):
        assert not store.check_login("ada", f"wrong {number}", "10.0.1.1").passed
    waits = []
    for number in range(6):
        held = store.check_login("ada", "correct horse battery", "10.0.1.1")
        assert not held.passed
        waits.append(held.wait_seconds)
        clock.wait(held.wait_seconds)
        assert store.check_login("ada", f"wrong {number}", "10.0.1.1").wait_seconds == 0
    assert store.check_login("ada", "correct horse battery", "10.0.1.2").passed
    assert waits == [1, 2, 4, 8, 16, 32]
    clock.wait(60)
    assert store.check_login("ada", "correct horse battery", "10.0.1.1").passed
    assert store.check_login("ada", "correct horse battery", "10.0.1.1").passed


def test_failures_of_others_do_not_lock_a_researcher_out(store: Store, clock: Clock) -> None:
    """Guesses from many addresses are slowed down, but not in a browser where the researcher has logged in before."""
    right = "correct horse battery"
    store.set_password("ada", right)
    for number in range(30):
        assert store.check_login("ada", f"guess {number}", f"10.0.0.{number}").wait_seconds == 0
    assert store.check_login("ada", right, "10.0.0.1").wait_seconds >= 1
    assert store.check_login("ada", right, "10.9.9.9").wait_seconds >= 1
    assert store.check_login("ada", right, "10.0.0.1", browser="hers").passed
    for number in range(3):
        assert store.check_login("ada", f"guess {number}", "10.0.0.1", browser="hers").wait_seconds == 0
    assert store.check_login("ada", right, "10.0.0.1", browser="hers").wait_seconds == 1
    assert store.check_login("ada", right, "10.0.0.1", browser="another of hers").passed
    clock.wait(60)
    assert store.check_login("ada", right, "10.9.9.9").passed


def test_a_clock_that_is_set_back_locks_no_researcher_out(store: Store, clock: Clock) -> None:
    store.set_password("ada", "correct horse battery")
    for _ in range(4):
        assert not store.check_login("ada", "wrong horse battery", "here").passed
    clock.wait(-365 * 86400)
    assert 0 < store.check_login("ada", "correct horse battery", "here").wait_seconds <= 60


def test_logins_are_throttled_by_address_and_unknown_names_look_the_same(store: Store, clock: Clock) -> None:
    store.set_password("ada", "correct horse battery")
    for number in range(10):
        found = store.check_login(f"nobody {number}", "correct horse battery", "10.0.0.1")
        assert (found.passed, found.wait_seconds) == (False, 0)
    assert store.check_login("ada", "correct horse battery", "10.0.0.1").wait_seconds == 1
    assert store.check_login("ada", "correct horse battery", "10.0.0.2").passed
    assert not store.check_login("a\0da\ud800", "x" * 5000, "10.0.0.3").passed
    with pytest.raises(OptionError, match="expected 10 to 1000"):
        store.set_password("ada", "short")


def test_guesses_at_once_gain_nothing(store: Store) -> None:
    store.set_password("ada", "correct horse battery")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: store.check_login("ada", f"guess {n}", "10.0.0.1"), range(12)))
    assert sum(outcome.wait_seconds == 0 for outcome in found) == 3


def test_exported_ratings_read_back_without_conversion(store: Store, tmp_path: Path) -> None:
    content = [unit("=SUM(A1)", role="human"), unit("item-1", role="human")]
    study = store.create_study("out", FORM, content, StudySettings(raters=1, quality={"mans": {}}))
    with pytest.raises(DataError, match="has no valid ratings of score"):
        ratings(store.snapshot(study))
    one, two = joined(store, study, "one"), joined(store, study, "two")
    finish(store, leased(store, study, one), 2, note="Not for export.")
    while isinstance(found := store.lease(study, two), Lease):
        finish(store, found, 5)
    snapshot = store.snapshot(study)
    table = ratings(snapshot)
    assert table.frame.columns == ["item", "rater", "question", "value", "time"]
    assert set(table.frame["rater"]) == {two.pseudonym}
    assert len(ratings(snapshot, include="all")) == 3
    for suffix in (".csv", ".jsonl", ".parquet"):
        write_table(table, tmp_path / f"out{suffix}")
        again = read_ratings(tmp_path / f"out{suffix}").frame
        assert again["value"].to_list() == [5, 5]
        assert set(again["item"]) == set(table.frame["item"]) >= {"=SUM(A1)"}
    with pytest.raises(DataError, match="no question 'scores'"):
        ratings(snapshot, questions=["scores"])


def test_pairs_are_exported_as_item_and_pair(store: Store) -> None:
    asked = FormQuestion(id="similarity", widget="scale", prompt="How alike?", per="pair", min=1, max=5, labels=ENDS)
    steps = (Step(title="Compare", show=("pair",), questions=(asked,)),)
    form = Form(
        name="pairs",
        title="Pairs",
        instructions=("Read, then rate.",),
        unit=Shape(of="set", size=1),
        minutes=1,
        steps=steps,
    )
    content = [Unit(items=(Item(id="set", texts=("one", "two", "three")),))]
    study = store.create_study("pairs", form, content, StudySettings(raters=1))
    rater = joined(store, study, "rater")
    lease = leased(store, study, rater)
    given = {("set#0-1", "similarity"): 1, ("set#0-2", "similarity"): 2, ("set#1-2", "similarity"): 5}
    store.save_all(lease.assignment.id, rater.id, given)
    assert store.submit(lease.assignment.id, rater.id, 9).state == "valid"
    frame = ratings(store.snapshot(study)).frame
    assert sorted(frame.select("item", "pair", "value").rows()) == [
        ("set", "0-1", 1.0), ("set", "0-2", 2.0), ("set", "1-2", 5.0)
    ]  # fmt: skip


def test_acknowledged_answers_survive_kill_9(url: str, open_store: Callable[[str], Store]) -> None:
    store = open_store(url)
    study = new_study(store, 200, raters=1)
    rater = joined(store, study, "rater")
    code = (
        "import sys\n"
        "from nlgauge.annotate.database.schema import connect\n"
        "from nlgauge.annotate.database.store import Store\n"
        "store = Store(connect(sys.argv[1]), lambda: 1_700_000_000.0)\n"
        "study = store.study('first')\n"
        "rater = store.rater(int(sys.argv[2]))\n"
        "while True:\n"
        "    lease = store.lease(study, rater)\n"
        "    number, item = lease.assignment.id, lease.unit.items[0].id\n"
        "    store.save(number, rater.id, item, 'score', 1 + number % 5)\n"
        "    print(number, flush=True)\n"
        "    store.submit(number, rater.id, 1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, url, str(rater.id)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        acknowledged = [int(server.stdout.readline()) for _ in range(25)]
        os.kill(server.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in server.stdout.read().splitlines() if line]
    for number in acknowledged:
        assert list(store.answers(number).values()) == [1 + number % 5]
    check_counters(store, study)
    assert isinstance(store.lease(study, rater), Lease)
    check_counters(store, study)


def test_no_request_of_a_rater_reads_a_whole_table(tmp_path: Path, open_store: Callable[[str], Store]) -> None:
    store = open_store(str(tmp_path / "plan.sqlite"))
    study = new_study(store, 50, raters=3, quality={"duplicate-text": {}, "straight-lining": {"run": 30}})
    rater = joined(store, study, "rater")
    statements: list[tuple[str, Any]] = []
    sa.event.listen(
        store.engine, "before_cursor_execute", lambda _c, _u, text, values, _x, _m: statements.append((text, values))
    )
    lease = leased(store, study, rater)
    finish(store, lease, note="A note that is long enough.")
    leased(store, study, rater)
    plans = []
    with store.engine.connect() as connection:
        for text, values in statements:
            if text.startswith(("SELECT", "UPDATE")):
                plans += [str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
    assert any("unit_need" in plan for plan in plans)
    assert [plan for plan in plans if plan.startswith("SCAN") and plan != "SCAN CONSTANT ROW"] == []


def test_databases_that_cannot_be_used_say_why(tmp_path: Path, open_store: Callable[[str], Store]) -> None:
    with pytest.raises(DataError, match="unable to open database file; expected a file in a folder that exists"):
        connect(str(tmp_path / "missing" / "study.sqlite"))
    (tmp_path / "text.sqlite").write_text("no database at all\n" * 100)
    with pytest.raises(DataError, match="file is not a database; expected a SQLite file"):
        connect(str(tmp_path / "text.sqlite"))
    for wrong in ("mysql://root@localhost/x", "sqlite://", "://", "postgresql://site@localhost:port/x"):
        with pytest.raises(OptionError, match="expected"):
            connect(wrong)
    open_store(str(tmp_path / "study.sqlite"))
    engine = connect(f"sqlite:///file:{tmp_path / 'study.sqlite'}?mode=ro&uri=true")
    with pytest.raises(DataError, match="readonly database; expected to write: check the permissions"):
        new_study(Store(engine))
    engine.dispose()
    empty = connect(str(tmp_path / "empty.sqlite"))
    with pytest.raises(DataError, match=r"no such table: study; expected the tables of the site"):
        Store(empty).studies()
    empty.dispose()


def test_a_database_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()
        with pytest.raises(DataError, match="expected a PostgreSQL server that answers"):
            connect(f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/nothing")
        assert time.monotonic() - begin < 20


def test_a_postgresql_that_cannot_be_used_says_why(postgres_url: str, open_store: Callable[[str], Store]) -> None:
    url = postgres_url
    with pytest.raises(DataError, match="expected a PostgreSQL server that answers") as caught:
        connect(url.replace("secret-word", "wrong-word"))
    assert "wrong-word" not in str(caught.value)
    with pytest.raises(DataError, match="expected a PostgreSQL server that answers"):
        connect("postgresql://tester:secret-word@127.0.0.1:1/none")
    with pytest.raises(DataError, match=r"does not exist; expected a PostgreSQL server .* database"):
        connect(f"{url}_missing")
    empty = connect(url)
    with pytest.raises(DataError, match="expected the tables of the site"):
        Store(empty).studies()
    empty.dispose()
    open_store(url)
    engine = connect(f"{url}?options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(DataError, match="read-only transaction; expected to write"):
        new_study(Store(engine))
    engine.dispose()
