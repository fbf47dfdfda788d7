"""The pages of raters: the entrance, the steps of an assignment, and the end.

A rater is identified by a signed cookie of one browser. A personal link belongs to the browser that first starts work
with it; opening it only shows the instructions, so that programs that preview links do not claim them.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hmac import compare_digest
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Header, Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from nlgauge.annotate.answers import missing_answers
from nlgauge.annotate.database.records import (
    Finished,
    Key,
    Lease,
    NotExpected,
    Rater,
    Rejected,
    Study,
    TooManyRaters,
)
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.database.verdicts import REASONS
from nlgauge.annotate.pages import signing
from nlgauge.annotate.pages.rendering import (
    Mark,
    field_places,
    first_incomplete_step,
    item_label,
    known_fields,
    page,
    read_fields,
    step_sections,
)
from nlgauge.annotate.pages.security import (
    Number,
    Refused,
    Site,
    allow_mturk,
    allows,
    form_fields,
    go_to,
    one,
    post_back_origin,
)
from nlgauge.annotate.pages.signing import Link, RaterSession
from nlgauge.annotate.settings import PLATFORM_ID, Platform
from nlgauge.annotate.units import Unit, order_for

Place = Annotated[int, Path(ge=1, le=1000)]

_PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
_ENTRANCE_SECONDS = 86400.0
_MOST_KEPT = 5000
_PARAMETERS: Mapping[Platform, tuple[str, ...]] = {
    "mturk": ("workerId", "assignmentId", "hitId"),
    "prolific": ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"),
}


class AnswersSent(BaseModel):
    """Fields of one step, as the page's form sends them."""

    model_config = ConfigDict(extra="forbid")
    step: int = Field(ge=1, le=1000)
    fields: dict[str, list[Annotated[str, Field(max_length=20_000)]]] = Field(max_length=2000)


class AnswersSaved(BaseModel):
    """The outcome of the fields; `missing` counts the questions of the assignment without an answer."""

    errors: dict[str, str]
    missing: int
    notes: dict[str, str]
    marks: dict[str, list[Mark]]


class Problem(BaseModel):
    """The reason of a refusal."""

    error: str


@dataclass(frozen=True)
class _Work:
    """An assignment as its rater sees it; immutable, so it is cached between requests."""

    study: Study
    assignment: int
    unit: Unit
    leased_at: float


class _WorkCache:
    """A cache of the latest assignments of this process."""

    def __init__(self, store: Store) -> None:
        self.store, self.lock = store, threading.Lock()
        self.kept: OrderedDict[tuple[int, int], _Work] = OrderedDict()
        self.known = lru_cache(maxsize=_MOST_KEPT)(lambda study, rater: (store.study(study), store.rater(rater)))

    def who(self, session: RaterSession) -> tuple[Study, Rater]:
        """The rater and their study: form, settings, platform and order never change; leases check states.

        MTurk's data of a rater change with every HIT, so they are read each time.
        """
        study, rater = self.known(session.study, session.rater)
        return study, self.store.rater(rater.id) if _is_framed(rater) else rater

    def keep(self, study: Study, rater: Rater, lease: Lease) -> _Work:
        """Cache a lease."""
        made = _Work(study, lease.assignment.id, order_for(lease.unit, rater.order_seed), lease.assignment.leased_at)
        with self.lock:
            self.kept[rater.id, made.assignment] = made
            while len(self.kept) > _MOST_KEPT:
                self.kept.popitem(last=False)
        return made

    def open(self, session: RaterSession, assignment: int) -> tuple[_Work, dict[Key, Any]]:
        """The rater's open assignment with its answers; any other id raises the same error as a missing one."""
        found = self.kept.get((session.rater, assignment))
        if found is not None and (answers := self.store.open_answers(assignment, session.rater)) is not None:
            return found, answers
        study, rater = self.who(session)
        lease = self.store.lease(study, rater)
        if not isinstance(lease, Lease) or lease.assignment.id != assignment:
            raise _gone()
        return self.keep(study, rater, lease), dict(lease.answers)

    def kept_or_open(self, session: RaterSession, assignment: int) -> _Work:
        """The same without a query if this process served the page."""
        return self.kept.get((session.rater, assignment)) or self.open(session, assignment)[0]


def _gone() -> Refused:
    return Refused(404, "Not open", "This work is not open for you, or not any more. Open your link to go on.")


def _is_framed(rater: Rater) -> bool:
    return rater.platform == "mturk"


def rater_routes(site: Site) -> APIRouter:
    """The routes of raters."""
    routes, store = APIRouter(), site.store
    desk = _WorkCache(store)

    @routes.get("/r/{token}", include_in_schema=False)
    def personal_link(request: Request, token: str) -> Response:
        link = signing.read(site.secret, "link", Link, token, site.now)
        for session in site.raters(request):
            if session.link == link.nonce:
                return go_to(f"/w/{session.rater}")
        return entrance(request, _study(site, link.study), "link", token)

    @routes.get("/s/{name:path}/mturk/{key}", include_in_schema=False)
    def from_mturk(request: Request, name: str, key: str) -> Response:
        allow_mturk(request)
        study = _entered(site, name, "mturk", key)
        if request.query_params.get("assignmentId", _PREVIEW) == _PREVIEW:
            return page("entrance.html", form=study.form, token="")
        return from_platform(request, study, "mturk")

    @routes.get("/s/{name:path}/prolific/{key}", include_in_schema=False)
    def from_prolific(request: Request, name: str, key: str) -> Response:
        return from_platform(request, _entered(site, name, "prolific", key), "prolific")

    def from_platform(request: Request, study: Study, platform: Platform) -> Response:
        given = {name: request.query_params.get(name, "") for name in _PARAMETERS[platform]}
        for name, value in given.items():
            if not PLATFORM_ID.fullmatch(value):
                raise Refused(400, "Not understood", f"Found no {name} in the address; open it from the platform.")
        (_, external), *rest = given.items()
        link = Link(
            study=study.name,
            expires_at=site.now + _ENTRANCE_SECONDS,
            nonce=signing.new_nonce(),
            platform=platform,
            external_id=external,
            data=dict(rest),
        )
        return entrance(request, study, "entrance", signing.sign(site.secret, "entrance", link), platform)

    def entrance(request: Request, study: Study, kind: str, token: str, platform: Platform = "direct") -> Response:
        visitor = site.new_visitor(request)
        made = page("entrance.html", form=study.form, token=token, kind=kind, csrf=site.token(visitor))
        site.remember(made, visitor, in_frame=platform == "mturk")
        return made

    @routes.post("/begin", include_in_schema=False)
    def begin(request: Request) -> Response:
        fields = form_fields(request, ("csrf", "link", "entrance"))
        personal, entrance_token = one(fields, "link"), one(fields, "entrance")
        purpose: signing.Purpose = "link" if personal else "entrance"
        link = signing.read(site.secret, purpose, Link, personal or entrance_token, site.now)
        if link.platform == "mturk":
            allow_mturk(request)
        visitor = site.visitor(request)
        if visitor is None:
            raise Refused(
                403, "No cookies", "Your browser did not send our cookie. Allow cookies, open your link again."
            )
        site.check_post(request, visitor, one(fields, "csrf"))
        study = _study(site, link.study, link.platform)
        rater = _claim(site, study, link, visitor.nonce)
        before = next((one for one in site.raters(request) if one.rater == rater.id), None)
        session = RaterSession(
            rater=rater.id,
            study=study.name,
            expires_at=max(link.expires_at, site.now + site.settings.rater_days * 86400),
            nonce=signing.new_nonce(),
            link=link.nonce if link.platform == "direct" else "",
            handed_in=before.handed_in if before else "",
            in_frame=_is_framed(rater),
        )
        made = go_to(f"/w/{rater.id}")
        site.remember(made, session, in_frame=_is_framed(rater))
        return made

    @routes.get("/w/{rater_id}", include_in_schema=False)
    def next_work(request: Request, rater_id: Number) -> Response:
        session = site.rater(request, rater_id)
        study, rater = desk.who(session)
        if session.handed_in and session.handed_in == rater.platform_data.get("assignmentId"):
            return _end(request, study, rater, Finished("done", 1, ""))
        found = store.lease(study, rater)
        if isinstance(found, Finished):
            return _end(request, study, rater, replace(found, done=0) if _is_framed(rater) else found)
        if isinstance(found, Rejected):
            reason = REASONS.get(found.rule, found.reason)
            return page("rejected.html", form=study.form, reason=reason)
        work = desk.keep(study, rater, found)
        step = first_incomplete_step(study.form, work.unit, found.answers) + 1
        last = request.query_params.get("last", "")
        after = "?" + urlencode({"last": last}) if last in REASONS else ""
        return go_to(f"/w/{rater.id}/{found.assignment.id}/{step}{after}")

    @routes.get("/w/{rater_id}/{assignment}/{step}", include_in_schema=False)
    def show_step(request: Request, rater_id: Number, assignment: Number, step: Place) -> Response:
        session = site.rater(request, rater_id)
        work, answers = desk.open(session, assignment)
        notice = REASONS.get(request.query_params.get("last", ""), "")
        return step_page(session, work, step, answers, notice=notice)

    def step_page(
        session: RaterSession,
        work: _Work,
        step: int,
        answers: Mapping[Key, Any],
        *,
        status: int = 200,
        problems: Mapping[str, str] | None = None,
        errors: Mapping[str, str] | None = None,
        sent: Mapping[str, list[str]] | None = None,
        notice: str = "",
    ) -> Response:
        form = work.study.form
        if step > len(form.steps):
            raise _gone()
        return page(
            "step.html",
            status=status,
            form=form,
            current=form.steps[step - 1],
            context=work.unit.context,
            sections=step_sections(form, work.unit, step - 1, answers, errors=errors, sent=sent),
            step=step,
            path=f"/w/{session.rater}/{work.assignment}",
            api=f"/api/raters/{session.rater}/assignments/{work.assignment}/answers",
            csrf=site.token(session),
            problems=problems or {},
            missing=len(missing_answers(form, work.unit, answers)),
            notice=notice,
        )

    @routes.post("/w/{rater_id}/{assignment}/{step}", include_in_schema=False)
    def post_step(request: Request, rater_id: Number, assignment: Number, step: Place) -> Response:
        session = site.rater(request, rater_id)
        work, before = desk.open(session, assignment)
        form, path = work.study.form, f"/w/{rater_id}/{assignment}"
        if step > len(form.steps):
            raise _gone()
        known = known_fields(form, work.unit, step - 1)
        fields = form_fields(request, known | {"csrf", "go", "seconds"})
        site.check_post(request, session, one(fields, "csrf"))
        go = one(fields, "go") or "save"
        if go not in ("save", "back", "next", "submit"):
            raise Refused(422, "Not understood", "Expected one of the buttons of the page.")
        kept, errors = read_fields(form, work.unit, step - 1, fields, before)
        store.save_all(assignment, rater_id, kept)
        answers = {**before, **kept}
        problems = {f"#{name.partition('.')[0]}": text for name, text in errors.items()}
        if go in ("next", "submit"):
            wanted = _missing(work, answers, path, step, everywhere=go == "submit")
            problems = {**wanted, **problems}
        if problems:
            return step_page(session, work, step, answers, status=422, problems=problems, errors=errors, sent=fields)
        if go != "submit":
            return go_to(f"{path}/{max(1, min(len(form.steps), step + {'next': 1, 'back': -1}.get(go, 0)))}")
        return submit(session, work, one(fields, "seconds"))

    def submit(session: RaterSession, work: _Work, seconds: str) -> Response:
        spent = float(seconds) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", seconds) else site.now - work.leased_at
        outcome = store.submit(work.assignment, session.rater, spent)
        rule = next((one.rule for one in reversed(outcome.verdicts) if one.rule in REASONS), "")
        made = go_to(f"/w/{session.rater}" + (f"?last={rule}" if outcome.state == "rejected" and rule else ""))
        _, rater = desk.who(session)
        if _is_framed(rater):
            done = replace(session, handed_in=str(rater.platform_data.get("assignmentId", "")))
            site.remember(made, done, in_frame=True)
        return made

    @routes.post(
        "/api/raters/{rater_id}/assignments/{assignment}/answers",
        responses={code: {"model": Problem} for code in (403, 404, 409, 413, 422, 503)},
        tags=["raters"],
    )
    def save_answers(
        request: Request,
        rater_id: Number,
        assignment: Number,
        sent: AnswersSent,
        x_csrf_token: Annotated[str, Header(max_length=200)] = "",
    ) -> AnswersSaved:
        """Save answers as they are given; invalid ones are in `errors`."""
        session = site.rater(request, rater_id)
        site.check_post(request, session, x_csrf_token)
        work = desk.kept_or_open(session, assignment)
        form, step = work.study.form, sent.step - 1
        if step >= len(form.steps):
            raise _gone()
        if unknown := sorted(set(sent.fields) - known_fields(form, work.unit, step)):
            raise Refused(
                422, "Not understood", f"found the field {ascii(unknown[0])[:40]}; expected those of the page"
            )
        before = store.answers(assignment)
        kept, errors = read_fields(form, work.unit, step, sent.fields, before)
        store.save_all(assignment, rater_id, kept)
        answers = {**before, **kept}
        touched = {name.partition(".")[0] for name in sent.fields}
        sections = step_sections(form, work.unit, step, answers)
        fields = [field for section in sections for field in section.fields if field.name in touched]
        return AnswersSaved(
            errors=errors,
            missing=len(missing_answers(form, work.unit, answers)),
            notes={field.name: field.note for field in fields},
            marks={field.name: list(field.marks) for field in fields if field.question.widget == "span"},
        )

    return routes


def _entered(site: Site, name: str, platform: Platform, key: str) -> Study:
    """The study of an entrance, by the whole address that the platform was given."""
    if not compare_digest(key.encode(), signing.entrance_key(site.secret, name, platform).encode()):
        raise _no_study()
    return _study(site, name, platform)


def _no_study() -> Refused:
    return Refused(404, "Nothing here", "There is no such study, or it does not take raters from this platform.")


def _study(site: Site, name: str, platform: Platform = "direct") -> Study:
    """The study, if it accepts raters from the platform."""
    found = next((study for study in site.store.studies() if study.name == name), None)
    if found is None or not allows(found, platform):
        raise _no_study()
    if found.state == "closed":
        raise Refused(410, "The study is closed", "Thank you for your interest. This study takes no more answers.")
    return found


def _claim(site: Site, study: Study, link: Link, browser: str) -> Rater:
    """The rater of a link or of a platform's id, if this browser is the first to use it, or the one that did."""
    who, mine = link.external_id or link.nonce, signing.csrf_token(site.secret, f"browser:{browser}")
    try:
        rater = site.store.claim(study, who, mine, platform=link.platform, data=link.data)
    except NotExpected as error:
        message = "The researcher has not invited this id of the platform. Return the task, or write to the researcher."
        raise Refused(403, "Not invited", message) from error
    except TooManyRaters as error:
        message = "Many people are beginning at this moment. Nothing is lost: open this page again in a minute."
        raise Refused(429, "Please wait a minute", message) from error
    if rater is None:
        raise Refused(
            403,
            "This link is in use",
            "Somebody began with this link or id in another browser. Go on there, or write to the researcher.",
        )
    return rater


def _missing(work: _Work, answers: Mapping[Key, Any], path: str, step: int, *, everywhere: bool) -> dict[str, str]:
    """Links to the questions that need an answer, on this page or on all of them, with a label for each."""
    form, places = work.study.form, field_places(work.study.form, work.unit)
    links = {}
    for item, question in missing_answers(form, work.unit, answers):
        where, name = places[item, question]
        if where == step - 1 or everywhere:
            label = item_label(form, work.unit, item)
            target = f"#{name}" if where == step - 1 else f"{path}/{where + 1}#{name}"
            links[target] = f"{f'{label}: ' if label else ''}{form.question(question).prompt}"
    return links


def _end(request: Request, study: Study, rater: Rater, finished: Finished) -> Response:
    """The last page: a code, a link back to the platform, or thanks; for MTurk, `done` counts this visit only."""
    origin = post_back_origin(study.settings.post_back_url)
    posts_back = _is_framed(rater) and finished.done > 0 and origin is not None
    if posts_back:
        allow_mturk(request, origin or "")
    code = study.settings.completion_code if finished.done else ""
    back = f"https://app.prolific.com/submissions/complete?{urlencode({'cc': code})}"
    return page(
        "finished.html",
        form=study.form,
        finished=finished,
        code="" if posts_back else code,
        post_back=study.settings.post_back_url if posts_back else "",
        returns=_is_framed(rater) and not posts_back,
        assignment=str(rater.platform_data.get("assignmentId", "")),
        prolific=back if rater.platform == "prolific" and code else "",
    )
