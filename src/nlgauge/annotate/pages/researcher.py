"""The pages of researchers: login, studies, the dashboard of a study, exports, rejections and the audit log."""

from __future__ import annotations

import math
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from nlgauge.annotate.dashboard import Dashboard, Plan, cost, dashboard, disagreement
from nlgauge.annotate.database.records import Snapshot, Study
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.exporting import Include, exported
from nlgauge.annotate.pages import signing
from nlgauge.annotate.pages.rendering import page, tidy_line
from nlgauge.annotate.pages.security import Number, Refused, Site, allows, form_fields, go_to, one
from nlgauge.annotate.pages.signing import KnownBrowser, ResearcherSession
from nlgauge.annotate.settings import CROWDS
from nlgauge.annotate.written import CLASSES, written_work
from nlgauge.data.writing import write_table

MOST_LINKS = 500
_LONGEST_REASON = 1000
_DISPUTED = 200
_LATEST = 500
_BOARDS_KEPT = 4
_MOST_FEES = 100
_KNOWN_SECONDS = 180 * 86400.0
_CHART = (300, 120)
_KINDS = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


class Health(BaseModel):
    """The health of the site and its database."""

    ok: bool
    studies: int


@dataclass(frozen=True)
class Boards:
    """The cached dashboards of recently viewed studies, recomputed when a study has changed.

    One request at a time computes; others meanwhile get the previous numbers, so that they do not block the threads
    that raters need.
    """

    store: Store
    kept: OrderedDict[int, tuple[object, Snapshot, Dashboard]] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, study: Study) -> tuple[Snapshot, Dashboard]:
        """A snapshot of a study, and its dashboard; expired leases are ended first."""
        before = self.kept.get(study.id)
        if not self.lock.acquire(blocking=before is None) and before is not None:
            return before[1:]
        try:
            self.store.expire()
            change, found = self.store.last_change(study), self.kept.get(study.id)
            if found is None or found[0] != change:
                snapshot = self.store.snapshot(study)
                found = change, snapshot, dashboard(snapshot, study)
            self.kept[study.id] = found
            self.kept.move_to_end(study.id)
            while len(self.kept) > _BOARDS_KEPT:
                self.kept.popitem(last=False)
            return found[1:]
        finally:
            self.lock.release()


def researcher_routes(site: Site) -> APIRouter:
    """The routes of researchers, and the health check."""
    routes, store = APIRouter(), site.store
    boards = Boards(store)

    def logged_in(request: Request) -> ResearcherSession:
        found = site.researcher(request)
        if found is None:
            raise Refused(401, "Not logged in", "Log in at /login to see this page.")
        return found

    def posted(request: Request, *known: str) -> tuple[ResearcherSession, dict[str, str]]:
        session = logged_in(request)
        fields = form_fields(request, ("csrf", *known))
        site.check_post(request, session, one(fields, "csrf"))
        return session, {name: one(fields, name) for name in known}

    def study_of(study_id: int) -> Study:
        found = next((study for study in store.studies() if study.id == study_id), None)
        if found is None:
            raise Refused(404, "Nothing here", "There is no such study.")
        return found

    def shown(template: str, session: ResearcherSession, **context: Any) -> Response:
        return page(template, researcher=session.name, csrf=site.token(session), when=when, **context)

    @routes.get("/", include_in_schema=False)
    def front(request: Request) -> Response:
        return go_to("/studies" if site.researcher(request) else "/login")

    @routes.get("/login", include_in_schema=False)
    def login_page(request: Request) -> Response:
        return login_form(request)

    def login_form(request: Request, *, status: int = 200, error: str = "", name: str = "") -> Response:
        visitor = site.new_visitor(request)
        made = page("login.html", status=status, csrf=site.token(visitor), error=error, name=tidy_line(name))
        site.remember(made, visitor)
        return made

    @routes.post("/login", include_in_schema=False)
    def log_in(request: Request) -> Response:
        fields = form_fields(request, ("csrf", "name", "password"), longest=1000)
        visitor = site.visitor(request)
        if visitor is None:
            return login_form(request, status=403, error="No cookie came back. Allow cookies, then try again.")
        site.check_post(request, visitor, one(fields, "csrf"))
        name, password = one(fields, "name"), fields.get("password", [""])[0]
        address = request.client.host if request.client else "unknown"
        browser = site.known_browser(request, name)
        outcome = store.check_login(name, password, address, browser=browser)
        if outcome.wait_seconds > 0:
            seconds = math.ceil(outcome.wait_seconds)
            made = login_form(request, status=429, name=name, error=f"Too many tries. Wait {seconds} seconds.")
            made.headers["Retry-After"] = str(seconds)
            return made
        if not outcome.passed:
            return login_form(request, status=403, name=name, error="The name or the password is wrong.")
        expires_at = site.now + site.settings.researcher_hours * 3600
        session = ResearcherSession(name=name, expires_at=expires_at, nonce=signing.new_nonce())
        store.begin_session(name, session.nonce, expires_at)
        made = go_to("/studies")
        site.remember(made, session)
        known = KnownBrowser(name=name, expires_at=site.now + _KNOWN_SECONDS, nonce=browser or signing.new_nonce())
        site.remember(made, known)
        return made

    @routes.post("/logout", include_in_schema=False)
    def log_out(request: Request) -> Response:
        session, _ = posted(request)
        store.end_session(session.nonce)
        store.audit(session.name, "log out", {})
        made = go_to("/login")
        site.set_cookie(made, session.cookie, "")
        return made

    @routes.get("/studies", include_in_schema=False)
    def studies_page(request: Request) -> Response:
        return shown("studies.html", logged_in(request), studies=store.studies())

    @routes.get("/studies/{study_id}", include_in_schema=False)
    def study_page(request: Request, study_id: Number) -> Response:
        session, study = logged_in(request), study_of(study_id)
        fees = _percent(request.query_params.get("fees", "0"))
        snapshot, numbers = boards.of(study)
        return shown(
            "study.html",
            session,
            study=snapshot.study,
            numbers=numbers,
            cost=cost(snapshot, numbers.progress, fees / 100),
            fees=fees,
            most_fees=_MOST_FEES,
            verdicts=snapshot.verdicts[::-1],
            pseudonyms={rater.id: rater.pseudonym for rater in snapshot.raters},
            curves={one.question: tuple(curves(one.plans)) for one in numbers.stability},
            most_units=max(numbers.progress.units_by_ratings.values(), default=1) or 1,
            takes_links=allows(study, "direct"),
            entrances=[
                (platform, signing.entrance_address(site.address(request), study.name, platform, site.secret))
                for platform in CROWDS
                if allows(study, platform)
            ],
            most_links=MOST_LINKS,
        )

    @routes.get("/studies/{study_id}/disagreement", include_in_schema=False)
    def disagreement_page(request: Request, study_id: Number) -> Response:
        session, study = logged_in(request), study_of(study_id)
        snapshot, numbers = boards.of(study)
        questions = [one.question for one in numbers.agreement if one.ratings]
        asked = request.query_params.get("question", "")
        asked = asked if asked in questions else ""
        found = disagreement(snapshot, _DISPUTED, asked)
        return shown("disagreement.html", session, study=study, disputed=found, questions=questions, asked=asked)

    @routes.get("/studies/{study_id}/texts", include_in_schema=False)
    def texts_page(request: Request, study_id: Number) -> Response:
        session, study = logged_in(request), study_of(study_id)
        snapshot, _ = boards.of(study)
        if not study.form.writes:
            raise Refused(404, "Nothing here", "This study asks for ratings; nobody writes sets in it.")
        work = written_work(snapshot)
        return shown("texts.html", session, study=study, work=work[:_LATEST], count=len(work), classes=CLASSES)

    @routes.post("/studies/{study_id}/links", include_in_schema=False)
    def make_links(request: Request, study_id: Number) -> Response:
        session, fields = posted(request, "count", "days")
        study = study_of(study_id)
        if study.state == "closed" or not allows(study, "direct"):
            raise Refused(409, "Not possible", "This study is closed, or takes raters from crowd platforms only.")
        count, days = _whole(fields["count"], MOST_LINKS, "links"), _whole(fields["days"], 365, "days")
        address = site.address(request)
        links = [
            signing.link_address(address, signing.sign_link(site.secret, study.name, days=days, now=site.now))
            for _ in range(count)
        ]
        store.audit(session.name, "make links", {"study": study.name, "links": count, "days": days})
        return shown("links.html", session, study=study, links=links, days=days)

    @routes.post("/studies/{study_id}/reject", include_in_schema=False)
    def reject(request: Request, study_id: Number) -> Response:
        session, fields = posted(request, "rater", "assignment", "reason")
        snapshot = store.snapshot(study_of(study_id))
        if fields["assignment"]:
            mine = next((one for one in snapshot.assignments if str(one.id) == fields["assignment"]), None)
            if mine is None or mine.submitted_at is None:
                raise Refused(404, "Nothing here", "There is no such work in this study.")
            if mine.state == "rejected":
                raise Refused(409, "Not possible", "This work is already rejected.")
            store.reject(assignment_id=mine.id, reason=_reason(fields["reason"]), who=session.name)
            return go_to(f"/studies/{study_id}/texts#work-{mine.id}")
        rater = next((one for one in snapshot.raters if str(one.id) == fields["rater"]), None)
        if rater is None:
            raise Refused(404, "Nothing here", "There is no such rater in this study.")
        if rater.state == "rejected":
            raise Refused(409, "Not possible", "This rater is already rejected.")
        store.reject(rater_id=rater.id, reason=_reason(fields["reason"]), who=session.name)
        return go_to(f"/studies/{study_id}#raters")

    @routes.post("/studies/{study_id}/overrule", include_in_schema=False)
    def overrule(request: Request, study_id: Number) -> Response:
        session, fields = posted(request, "verdict", "reason")
        snapshot = store.snapshot(study_of(study_id))
        verdict = next((one for one in snapshot.verdicts if str(one.id) == fields["verdict"]), None)
        if verdict is None:
            raise Refused(404, "Nothing here", "There is no such rejection in this study.")
        store.overrule(verdict.id, _reason(fields["reason"]), session.name)
        return go_to(f"/studies/{study_id}#rejections")

    @routes.post("/studies/{study_id}/close", include_in_schema=False)
    def close(request: Request, study_id: Number) -> Response:
        session, fields = posted(request, "sure")
        if fields["sure"] != "yes":
            raise Refused(422, "Not closed", "Tick the box to say that you are sure, then close the study.")
        store.close_study(study_of(study_id).name, session.name)
        return go_to(f"/studies/{study_id}")

    @routes.get("/studies/{study_id}/ratings.{kind}", include_in_schema=False)
    def export(request: Request, study_id: Number, kind: str) -> Response:
        session, study = logged_in(request), study_of(study_id)
        if kind not in _KINDS:
            raise Refused(404, "Nothing here", "Results are exported as .csv, .jsonl or .parquet.")
        include: Include = "all" if request.query_params.get("include") == "all" else "valid"
        table = exported(store.snapshot(study), include)
        what = "sets" if study.form.writes else "ratings"
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / f"{what}.{kind}"
            write_table(table, target)
            content = target.read_bytes()
        store.audit(session.name, "export", {"study": study.name, "as": kind, "include": include})
        headers = {"Content-Disposition": f'attachment; filename="study-{study.id}-{what}.{kind}"'}
        return Response(content, media_type=_KINDS[kind], headers=headers)

    @routes.get("/audit", include_in_schema=False)
    def audit_page(request: Request) -> Response:
        session, entries = logged_in(request), store.audit_log()
        return shown("audit.html", session, entries=entries[::-1][:_LATEST], count=len(entries))

    @routes.get("/api/health", tags=["site"])
    def health() -> Health:
        """The health of the site and its database."""
        return Health(ok=True, studies=len(store.studies()))

    return routes


def when(seconds: float | None) -> str:
    """A time in readable form."""
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _whole(text: str, most: int, what: str) -> int:
    if not (re.fullmatch("[0-9]{1,9}", text) and 1 <= int(text) <= most):
        raise Refused(422, "Not understood", f"Expected 1 to {most} {what}.")
    return int(text)


def _percent(text: str) -> float:
    if not (re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,2})?", text) and float(text) <= _MOST_FEES):
        raise Refused(422, "Not understood", f"Expected fees of 0 to {_MOST_FEES} percent, such as 20.")
    return float(text)


def _reason(text: str) -> str:
    reason = tidy_line(text)
    if not 1 <= len(reason) <= _LONGEST_REASON:
        raise Refused(422, "A reason is missing", f"Give a reason in plain words, up to {_LONGEST_REASON} characters.")
    return reason


def curves(plans: Sequence[Plan]) -> Iterator[tuple[int, list[tuple[float, float, Plan]]]]:
    """The stability chart: for each number of items, the points (x, y) of its line over the number of ratings."""
    width, height = _CHART
    most = max((plan.ratings for plan in plans), default=1)
    known = sorted((plan for plan in plans if plan.spearman is not None), key=lambda plan: (plan.items, plan.ratings))
    for items, group in groupby(known, key=lambda plan: plan.items):
        dots = [
            (round(plan.ratings / most * width, 1), round((1 - max(plan.spearman, 0.0)) * height, 1), plan)
            for plan in group
        ]
        yield items, dots
