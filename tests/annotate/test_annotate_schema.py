"""Whatever is sent to any address of the site, by anybody, it never fails on its side (schemathesis)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlgauge.annotate.database.records import Lease
from nlgauge.annotate.pages.app import AppSettings, create_app
from nlgauge.annotate.pages.signing import RaterSession, ResearcherSession, VisitorSession, csrf_token, sign
from nlgauge.annotate.settings import StudySettings
from nlgauge.annotate.units import Item, Unit
from nlgauge.data.human.forms import load_form
from tests.annotate.fixtures import opened

SECRET = "a secret that is long enough for tests only"  # noqa: S105
FOREVER = 4e9
FIELDS = {
    "/begin": ("link", "entrance"),
    "/login": ("name", "password"),
    "/logout": (),
    "/studies/{study_id}/links": ("count", "days"),
    "/studies/{study_id}/reject": ("rater", "reason"),
    "/studies/{study_id}/overrule": ("verdict", "reason"),
    "/studies/{study_id}/close": ("sure",),
    "/w/{rater_id}/{assignment}/{step}": ("go", "seconds", "q0"),
}
LAST = ("POST /studies/{study_id}/close", "POST /logout")


@dataclass(frozen=True)
class Known:
    """The site, and what somebody who may do everything would send."""

    app: FastAPI
    cookies: dict[str, str]
    csrf: str
    rater: int
    assignment: int


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    with opened(tmp_path_factory.mktemp("site") / "site.db") as store:
        units = [Unit(items=(Item(id=f"item-{number}", texts=("A text.",)),)) for number in range(20)]
        study = store.create_study("first", load_form("typicality"), units, StudySettings(completion_code="C0DE"))
        rater = store.join(study, "direct", "somebody")
        lease = store.lease(study, rater)
        assert isinstance(lease, Lease)
        store.set_password("ada", "correct horse battery")
        store.begin_session("ada", "nonce", FOREVER)
        sessions = {
            "visitor": sign(SECRET, "visitor", VisitorSession(expires_at=FOREVER, nonce="nonce")),
            "researcher": sign(
                SECRET, "researcher", ResearcherSession(name="ada", expires_at=FOREVER, nonce="nonce")
            ),
            f"rater_{rater.id}": sign(
                SECRET, "rater", RaterSession(rater=rater.id, study="first", expires_at=FOREVER, nonce="nonce")
            ),
        }  # fmt: skip
        app = create_app(store, AppSettings(secret=SECRET))
        yield Known(app, sessions, csrf_token(SECRET, "nonce"), rater.id, lease.assignment.id)


def _routes(routes: list[Any]) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from _routes(route.original_router.routes)


@pytest.fixture(scope="module")
def every_address(known: Known) -> Any:
    """The description of the API, with the pages in it and the fields that their forms send."""
    for route in _routes(known.app.routes):
        route.include_in_schema = True
    known.app.openapi_schema = None
    described = known.app.openapi()
    for path, names in FIELDS.items():
        fields = {name: {"type": "string"} for name in (*names, "csrf")}
        made = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
        content = {"application/x-www-form-urlencoded": {"schema": made}}
        described["paths"][path]["post"]["requestBody"] = {"content": content, "required": True}
    return schemathesis.openapi.from_asgi("/api/openapi.json", known.app)


def calls(known: Known, every_address: Any, *, logged_in: bool) -> Counter[tuple[str, int]]:
    """Ask for every address with made-up values, and with the right ones in some places; how often it said what."""
    seen: Counter[tuple[str, int]] = Counter()
    operations = [found.ok() for found in every_address.get_all_operations()]
    for operation in sorted(operations, key=lambda one: LAST.index(one.label) if one.label in LAST else -1):

        @settings(
            max_examples=20, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
        )  # fmt: skip
        @given(case=operation.as_strategy(), is_own=st.booleans())
        def ask(case: Any, is_own: bool) -> None:
            if is_own:
                own = {"study_id": 1, "rater_id": known.rater, "assignment": known.assignment, "step": 1}
                case.path_parameters = {name: own.get(name, value) for name, value in case.path_parameters.items()}
                if isinstance(case.body, dict) and "fields" not in case.body:
                    case.body = {**case.body, "csrf": known.csrf}
            headers = {"X-CSRF-Token": known.csrf} if is_own else {}
            response = case.call(cookies=known.cookies if logged_in else {}, headers=headers)
            seen[case.operation.label, response.status_code] += 1
            assert response.status_code < 500, (case.as_curl_command(), response.text)

        ask()
    return seen


def test_no_request_of_a_stranger_makes_the_site_fail(known: Known, every_address: Any) -> None:
    seen = calls(known, every_address, logged_in=False)
    assert {label for label, _ in seen} >= {"POST /login", "GET /r/{token}", "GET /api/health"}
    assert ("GET /studies", 401) in seen
    assert ("GET /studies", 200) not in seen


def test_no_request_of_somebody_who_is_logged_in_makes_the_site_fail(known: Known, every_address: Any) -> None:
    seen = calls(known, every_address, logged_in=True)
    answers = "POST /api/raters/{rater_id}/assignments/{assignment}/answers"
    for page in ("GET /studies", "GET /studies/{study_id}", "GET /w/{rater_id}/{assignment}/{step}", "GET /audit"):
        assert (page, 200) in seen, page
    assert {status for label, status in seen if label == answers} >= {403, 404, 422}
    for action in ("links", "reject", "overrule", "close"):
        assert {status for label, status in seen if label == f"POST /studies/{{study_id}}/{action}"} - {403}, action
    assert ("POST /logout", 200) in seen
