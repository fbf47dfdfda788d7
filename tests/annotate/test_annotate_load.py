"""Raters at once, servers side by side and servers that are killed: nothing that was acknowledged is lost.

The load itself, in its long form, is `benchmarks/annotate_load.py`, which checks the database and the export.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nlgauge.annotate.database.records import Lease, Rater, Study
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.pages.app import AppSettings, create_app
from nlgauge.annotate.pages.security import allows
from nlgauge.annotate.pages.signing import entrance_address, sign_link
from nlgauge.annotate.settings import StudySettings
from nlgauge.errors import OptionError
from tests.annotate.fixtures import opened
from tests.annotate.test_annotate_store import FORM, finish, units
from tests.conftest import ROOT

PROGRAM = ROOT / "benchmarks" / "annotate_load.py"
SECRET = "a secret that is long enough for tests only"  # noqa: S105
PASSWORD = "correct horse battery"  # noqa: S105


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "site.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def stores(url: str) -> Iterator[tuple[Store, Store]]:
    """Two stores over one database, as two servers have them."""
    with opened(url) as one, opened(url) as two:
        yield one, two


def load(url: str, *options: str) -> dict[str, str]:
    """A short run of the load; what it printed, by name."""
    database = "sqlite" if "://" not in url else url
    command = [sys.executable, str(PROGRAM), "--database", database, "--raters", "30", "--items", "300", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def new_study(store: Store, count: int = 4, **settings: Any) -> Study:
    return store.create_study("first", FORM, units(count), StudySettings(**settings))


def rate(store: Store, study: Study, name: str, *, against: bool = False) -> Rater:
    """Answer all units: by the number of the item, or against it."""
    rater = store.join(study, "direct", name)
    while isinstance(lease := store.lease(study, rater), Lease):
        score = 1 + int(lease.unit.items[0].id.removeprefix("item-")) % 5
        finish(store, lease, 6 - score if against else score)
    return store.rater(rater.id)


def test_every_acknowledged_answer_of_raters_at_once_is_in_the_export(url: str) -> None:
    found = load(url, "--seconds", "4")
    assert int(found["raters"]) == 30
    assert int(found["handed in"]) > 0
    assert re.fullmatch(r"median \d+ ms, 99th percentile \d+ ms", found["response"])


def test_killed_servers_lose_nothing_and_raters_go_on_where_they_were(url: str) -> None:
    found = load(url, "--seconds", "6", "--kills", "3")
    broken, continued = (int(part.rpartition(" ")[2]) for part in found["killed"].split("; ")[1:])
    assert broken > 0
    assert continued > 0


def test_two_servers_on_one_database_serve_the_same_raters(url: str) -> None:
    found = load(url, "--seconds", "4", "--servers", "2")
    assert int(found["handed in"]) > 30


def test_one_of_many_browsers_gets_a_link(stores: tuple[Store, Store]) -> None:
    study = new_study(stores[0])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: stores[number % 2].claim(study, "link", f"browser-{number}"), range(16)))
    (winner,) = [number for number, rater in enumerate(found) if rater is not None]
    again = [store.claim(study, "link", f"browser-{winner}") for store in stores]
    assert [one is not None and one.id for one in again] == [stores[0].snapshot(study).raters[0].id] * 2
    assert stores[1].claim(study, "link", "browser-99") is None


def browser_of(store: Store) -> TestClient:
    return TestClient(create_app(store, AppSettings(secret=SECRET)), base_url="http://site.test")


def token(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def log_in(browser: TestClient) -> None:
    fields = {"csrf": token(browser.get("/login").text), "name": "ada", "password": PASSWORD}
    assert browser.post("/login", data=fields).url.path == "/studies"


def test_logging_out_and_a_new_password_end_sessions_on_all_servers(stores: tuple[Store, Store]) -> None:
    stores[0].set_password("ada", PASSWORD)
    here, there = (browser_of(store) for store in stores)
    log_in(here)
    there.cookies = here.cookies
    assert there.get("/studies").status_code == 200
    assert here.post("/logout", data={"csrf": token(here.get("/studies").text)}).url.path == "/login"
    assert there.get("/studies").status_code == 401

    log_in(here)
    log_in(there)
    assert [one.get("/studies").status_code for one in (here, there)] == [200, 200]
    stores[1].set_password("ada", PASSWORD + " and more")
    assert [one.get("/studies").status_code for one in (here, there)] == [401, 401]


def test_a_study_takes_raters_from_its_platforms_only(tmp_path: Path) -> None:
    with opened(tmp_path / "site.db") as store:
        study = new_study(store, platforms=("prolific",), completion_code="C0DE")
        assert [allows(study, one) for one in ("direct", "mturk", "prolific")] == [False, False, True]
        browser = browser_of(store)
        assert browser.get(f"/r/{sign_link(SECRET, study.name)}").status_code == 404
        address = entrance_address("", "first", "prolific", SECRET) + "?PROLIFIC_PID=a&STUDY_ID=b&SESSION_ID=c"
        assert browser.get(address).status_code == 200
        assert store.study("first").settings.platforms == ("prolific",)
    for wrong in ((), ("elsewhere",)):
        with pytest.raises(OptionError) as error:
            StudySettings(platforms=wrong)  # type: ignore[arg-type]
        assert error.value.option == "platforms"


def test_a_unit_given_by_a_platform_is_taken_once(stores: tuple[Store, Store]) -> None:
    study = new_study(stores[0])
    rater = stores[0].join(study, "mturk", "worker")
    unit = stores[0].snapshot(study).units[0]
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda number: stores[number % 2].take_unit(study, rater, unit.id, 5.0), range(8)))
    assert {one.id for one in taken} == {taken[0].id}
    assert (taken[0].state, taken[0].leased_at) == ("leased", 5.0)
    assert stores[0].snapshot(study).units[0].taken == 1


def test_earlier_raters_are_judged_when_a_unit_has_all_its_ratings(stores: tuple[Store, Store]) -> None:
    rule = {"correlation": {"items": 6, "raters": 3, "leave_one_out": True}}
    study = new_study(stores[0], 6, raters=3, quality=rule)
    contrary = rate(stores[0], study, "contrary", against=True)
    first = rate(stores[1], study, "first")
    assert (contrary.state, first.state) == ("finished", "finished")
    rate(stores[0], study, "second")
    assert stores[0].rater(contrary.id).state == "rejected"
    assert [unit.taken for unit in stores[0].snapshot(study).units] == [2] * 6


def test_the_last_change_tells_snapshots_apart(stores: tuple[Store, Store]) -> None:
    here, there = stores
    study = new_study(here)
    seen = [here.last_change(study)]
    assert there.last_change(study) == seen[0]
    rater = rate(there, study, "somebody")
    seen.append(here.last_change(study))
    verdict = there.reject(rater_id=rater.id, reason="asked to leave", who="ada")
    seen.append(here.last_change(study))
    there.overrule(verdict.id, "came back", "ada")
    seen.append(here.last_change(study))
    there.close_study("first", "ada")
    seen.append(here.last_change(study))
    assert len(set(seen)) == 5
