"""The annotation site keeps out what does not belong: forged tokens, foreign posts, hostile texts, too much at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response
from itsdangerous import URLSafeSerializer
from starlette.testclient import TestClient

from nlgauge.annotate.database.store import Store
from nlgauge.annotate.pages.app import AppSettings, create_app
from nlgauge.annotate.pages.signing import Link, RaterSession, read_secret, sign, sign_link
from nlgauge.annotate.settings import StudySettings
from nlgauge.annotate.units import Item, Unit
from nlgauge.data.human.forms import Form, load_form
from nlgauge.errors import OptionError
from tests.annotate.test_annotate_pages import (
    PASSWORD,
    POST_BACK,
    SECRET,
    Annotation,
    begin,
    controls,
    entrance,
    every_widget,
    finished_study,
    log_in,
    new_study,
    post,
    site,
    three_items,
)

__all__ = ["every_widget", "site"]

PAYLOADS = (
    "<script>alert(1)</script>",
    "</textarea></title><svg onload=alert(1)>",
    "\"><img src=x onerror='alert(1)'>",
    "{{ 1234 * 4321 }}{% include 'login.html' %}${1234*4321}",
    "'; DROP TABLE rater; --",
    "javascript:alert(1)",
    "&lt;script&gt;",
    "\u202etxt.exe\u2066",
)


class _Elements(HTMLParser):
    """Elements and attributes that no template has: what a text became if it was not shown as text."""

    def __init__(self) -> None:
        super().__init__()
        self.strange: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        runs = any(name.startswith("on") or name == "style" for name in values)
        leads = any((values.get(name) or "").lower().startswith("javascript:") for name in ("href", "src", "action"))
        inline = tag == "script" and not re.fullmatch(r"/static/\w+\.js", values.get("src") or "")
        if runs or leads or inline or tag in ("img", "iframe", "style", "object", "embed"):
            self.strange.append(self.get_starttag_text() or tag)


def strange_elements(text: str) -> list[str]:
    found = _Elements()
    found.feed(text)
    return found.strange


def test_the_search_for_strange_elements_finds_them() -> None:
    assert all(strange_elements(payload) for payload in PAYLOADS[:3])
    assert strange_elements('<a href="javascript:x">') == ['<a href="javascript:x">']


def forms(browser: TestClient, page: Response) -> tuple[str, dict[str, str]]:
    return re.findall(r'data-api="([^"]+)"', page.text)[0], {"X-CSRF-Token": controls(page).hidden["csrf"]}


def changed(token: str) -> Iterator[str]:
    """The token with one character changed, in each third of it, and cut short."""
    for place in (1, len(token) // 2, len(token) - 3):
        yield token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
    yield token[:-1]
    yield token.partition(".")[0]


def test_forged_links_are_refused_with_a_clear_page(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    good = site.link().removeprefix("/r/")
    other_secret = sign_link("another secret that is also long enough", "first", now=site.clock())
    unsigned = URLSafeSerializer("", salt="nlgauge.annotate.link").dumps({"study": "first"})
    link = Link(study="first", expires_at=site.clock() + 60, nonce="n")
    of_another_kind = sign(SECRET, "entrance", link)
    browser = site.browser()
    for token in (*changed(good), other_secret, str(unsigned), of_another_kind, "x", "%00", "ü"):
        page = browser.get(f"/r/{token}")
        assert page.status_code in (403, 404), token
        assert "/begin" not in page.text
    assert "was not made by this site" in browser.get(f"/r/{other_secret}").text
    assert site.store.snapshot(study).raters == ()


def test_expired_links_are_refused_when_opened_and_when_used(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items())
    link, browser = site.link(days=1), site.browser()
    page = browser.get(link)
    site.clock.time += 86401
    assert "has expired" in site.browser().get(link).text
    late = browser.post("/begin", data=controls(page).hidden)
    assert (late.status_code, "has expired" in late.text) == (403, True)


def test_a_replayed_link_is_refused_in_another_browser_and_works_in_its_own(
    site: Annotation, every_widget: Form
) -> None:
    study = new_study(site, every_widget, three_items())
    link, mine, thief = site.link(), site.browser(), site.browser()
    first = begin(mine, link)
    stolen = begin(thief, link)
    assert (stolen.status_code, "in another browser" in stolen.text) == (403, True)
    assert thief.get(first.url.path).status_code == 404
    mine.cookies.delete(f"rater_{site.store.snapshot(study).raters[0].id}")
    assert begin(mine, link).url.path == first.url.path
    assert len(site.store.snapshot(study).raters) == 1


def test_an_entrance_cannot_be_made_up_by_a_rater(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items(), post_back_url=POST_BACK)
    browser = site.browser()
    hidden = controls(browser.get(entrance("mturk", "workerId=W1&assignmentId=A1&hitId=H1"))).hidden
    personal = site.link().removeprefix("/r/")
    for token in (*changed(hidden["entrance"]), personal, ""):
        assert browser.post("/begin", data={"csrf": hidden["csrf"], "entrance": token}).status_code == 403
    swapped = browser.post("/begin", data={"csrf": hidden["csrf"], "link": hidden["entrance"]})
    assert swapped.status_code == 403
    assert site.store.snapshot(study).raters == ()


def test_cookies_cannot_be_forged_or_swapped(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items("a"), three_items("b"))
    mine, other = site.browser(), site.browser()
    page = begin(mine, site.link())
    foreign = begin(other, site.link())
    first, second = (one.id for one in site.store.snapshot(study).raters)
    session = RaterSession(rater=second, study="first", expires_at=site.clock() + 60, nonce="n")
    for value in (
        mine.cookies[f"rater_{first}"],
        sign("another secret that is also long enough", "rater", session),
        sign(SECRET, "visitor", session),
        sign(SECRET, "rater", replace(session, expires_at=site.clock() - 1)),
        *changed(other.cookies[f"rater_{second}"]),
    ):
        thief = site.browser()
        thief.cookies.set(f"rater_{second}", value)
        assert thief.get(foreign.url.path).status_code == 404
    assert mine.get(page.url.path).status_code == 200


def test_another_raters_assignment_does_not_exist(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items("a"), three_items("b"))
    mine, other = site.browser(), site.browser()
    page, foreign = begin(mine, site.link()), begin(other, site.link())
    api, headers = forms(mine, page)
    theirs = foreign.url.path.split("/")[3]
    own = page.url.path.split("/")[2]
    assert mine.get(foreign.url.path).status_code == 404
    for number in (theirs, "999", str(2**31), "0", "x"):
        assert mine.get(f"/w/{own}/{number}/1").status_code == 404
        assert mine.post(f"/w/{own}/{number}/1", data=controls(page).hidden).status_code == 404
        path = api.replace(f"assignments/{page.url.path.split('/')[3]}", f"assignments/{number}")
        saved = mine.post(path, json={"step": 1, "fields": {"q0": ["3"]}}, headers=headers)
        assert saved.status_code in (404, 422)
    assert site.store.snapshot(study).answers == ()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_posts_from_other_sites_are_refused_even_with_the_token(
    site: Annotation, every_widget: Form, headers: dict[str, str]
) -> None:
    study = new_study(site, every_widget, three_items())
    browser = site.browser()
    page = begin(browser, site.link())
    api, token = forms(browser, page)
    data = {**controls(page).hidden, "q0": "3", "go": "save"}
    assert browser.post(page.url.path, data=data, headers=headers).status_code == 403
    sent = {"step": 1, "fields": {"q0": ["3"]}}
    assert browser.post(api, json=sent, headers={**token, **headers}).status_code == 403
    researcher = log_in(site)
    csrf = controls(researcher.get("/studies")).hidden["csrf"]
    done = researcher.post(f"/studies/{study.id}/close", data={"csrf": csrf, "sure": "yes"}, headers=headers)
    assert done.status_code == 403
    assert site.store.study("first").state == "open"
    assert site.store.snapshot(study).answers == ()


def test_posts_without_the_token_of_their_own_session_are_refused(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items("a"), three_items("b"))
    browser, other, researcher = site.browser(), site.browser(), log_in(site)
    link = site.link()
    first = controls(browser.get(link)).hidden
    page, foreign = begin(browser, link), begin(other, site.link())
    api, _ = forms(browser, page)
    own = {"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}
    path = f"/studies/{study.id}"
    posts = {
        "close": {"sure": "yes"},
        "links": {"count": "1", "days": "1"},
        "reject": {"rater": "1", "reason": "r"},
        "overrule": {"verdict": "1", "reason": "r"},
    }
    for token in ("", "x", "ü", controls(foreign).hidden["csrf"], first["csrf"]):
        assert (
            browser.post(page.url.path, data={"csrf": token, "q0": "3", "go": "save"}, headers=own).status_code == 403
        )
        assert browser.post("/begin", data={"csrf": "y" + token, "link": first["link"]}).status_code == 403
        assert browser.post(api, json={"step": 1, "fields": {"q0": ["3"]}}).status_code == 403
        for name, fields in posts.items():
            assert researcher.post(f"{path}/{name}", data={"csrf": token, **fields}, headers=own).status_code == 403
        assert researcher.post("/logout", data={"csrf": token}, headers=own).status_code == 403
        login = {"csrf": token, "name": "ada", "password": PASSWORD}
        assert site.browser().post("/login", data=login, headers=own).status_code == 403
    assert site.store.snapshot(study).answers == ()


@pytest.mark.parametrize("address", ["https://rate.example.org", "https://Rate.example.org:443/"])
def test_own_posts_with_the_right_origin_are_accepted(site: Annotation, every_widget: Form, address: str) -> None:
    study = new_study(site, every_widget, three_items())
    site.settings = AppSettings(secret=SECRET, base_url=address)
    browser = site.browser("https://rate.example.org")
    page = begin(browser, site.link())
    headers = {"Origin": "https://rate.example.org", "Sec-Fetch-Site": "same-origin"}
    data = {**controls(page).hidden, "q0": "3", "go": "save"}
    assert browser.post(page.url.path, data=data, headers=headers).status_code == 200
    assert len(site.store.snapshot(study).answers) == 1


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_texts_are_text_on_every_page(site: Annotation, every_widget: Form, payload: str) -> None:
    form = replace(
        every_widget,
        title=payload,
        instructions=(payload,),
        steps=tuple(
            replace(
                step,
                title=payload,
                instructions=(payload,),
                questions=tuple(replace(one, prompt=payload, help=payload, required=False) for one in step.questions),
            )
            for step in every_widget.steps
        ),
    )
    items = tuple(Item(id=f"{number} {payload}", texts=(payload,)) for number in range(3))
    name = payload.replace("\u202e", "").replace("\u2066", "")
    study = new_study(
        site, form, Unit(items=items, context=payload), name=name, completion_code=payload, currency=payload
    )
    browser = site.browser()
    link = site.link(name)
    pages = [browser.get(link), begin(browser, link)]
    pages.append(post(browser, pages[-1], "next", q0="5", q1__word=["0"], q1__kind="jargon"))
    text = payload[:40]
    pages.append(post(browser, pages[-1], "save", q3=text))
    assert controls(pages[-1]).texts["q3"].strip() == text
    site.store.set_password("ada", PASSWORD)
    login = site.browser()
    hidden = controls(login.get("/login")).hidden
    pages.append(login.post("/login", data={**hidden, "name": payload, "password": "wrong password"}))
    researcher = log_in(site)
    csrf = controls(researcher.get("/studies")).hidden["csrf"]
    rater = site.store.snapshot(study).raters[0]
    pages.append(post(browser, pages[3], "submit"))
    path = f"/studies/{study.id}"
    pages.append(researcher.post(f"{path}/reject", data={"csrf": csrf, "rater": str(rater.id), "reason": payload}))
    pages.append(browser.get(link))
    verdict = site.store.snapshot(study).verdicts[0]
    fields = {"csrf": csrf, "verdict": str(verdict.id), "reason": payload}
    pages.append(researcher.post(f"{path}/overrule", data=fields))
    pages += [researcher.get(one) for one in ("/studies", path, f"{path}/disagreement", "/audit")]
    pages += [browser.get(f"/s/{payload}/mturk/key"), browser.get("/studies/x", params={"q": payload})]
    for page in pages:
        assert page.status_code < 500
        assert strange_elements(page.text) == [], page.url
        assert "5332114" not in page.text
        assert "\u202e" not in re.sub(r"<textarea.*?</textarea>", "", page.text, flags=re.S)
    assert site.store.study(name).name == name


def test_ids_with_nul_and_surrogates_never_break_a_page(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items())
    browser = site.browser()
    page = begin(browser, site.link())
    path = page.url.path.removesuffix("1") + "2"
    second = browser.get(path)
    refused = post(browser, second, "save", q3="nul \0 here")
    assert (refused.status_code, "text without NUL" in refused.text) == (422, True)
    api, headers = forms(browser, page)
    body = b'{"step": 2, "fields": {"q3": ["\\ud800 lone"]}}'
    saved = browser.post(api, content=body, headers={**headers, "Content-Type": "application/json"})
    assert saved.status_code in (200, 422)
    assert saved.status_code == 422 or saved.json()["errors"]


def test_unknown_and_repeated_fields_are_refused(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    browser = site.browser()
    page = begin(browser, site.link())
    assert post(browser, page, "save", q0="3", admin="1").status_code == 422
    assert post(browser, page, "save", q0=["3", "4"]).status_code == 422
    assert post(browser, page, "explode", q0="3").status_code == 422
    hidden = controls(page).hidden
    many = "&".join(f"q0={number}" for number in range(3000))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert browser.post(page.url.path, content=f"csrf={hidden['csrf']}&{many}", headers=form).status_code == 400
    assert browser.post(page.url.path, content=b"csrf=%ff", headers=form).status_code == 400
    assert browser.post(page.url.path, files={"q0": b"3"}).status_code == 415
    api, headers = forms(browser, page)
    extra = {"step": 1, "fields": {}, "rater": 2}
    assert browser.post(api, json=extra, headers=headers).status_code == 422
    assert site.store.snapshot(study).answers == ()


@pytest.mark.parametrize("path", ["/login", "/begin", "/api/raters/1/assignments/1/answers", "/nothing"])
def test_fifty_megabytes_are_refused_before_they_are_read(site: Annotation, path: str) -> None:
    import asyncio

    size, read = 50 * 2**20, 0
    app = create_app(site.store, site.settings)

    async def ask(headers: list[tuple[bytes, bytes]]) -> int:
        nonlocal read
        read = 0
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            nonlocal read
            read += 65536
            return {"type": "http.request", "body": b"x" * 65536, "more_body": read < size}

        async def send(message: Any) -> None:
            statuses.extend([message["status"]] if message["type"] == "http.response.start" else [])

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
            "headers": headers, "client": ("127.0.0.1", 1), "server": ("testserver", 80),
        }  # fmt: skip
        await app(scope, receive, send)
        return statuses[0]

    assert asyncio.run(ask([(b"content-length", str(size).encode())])) == 413
    assert read == 0
    assert asyncio.run(ask([(b"transfer-encoding", b"chunked")])) == 413
    assert read <= site.settings.largest_body + 65536
    assert asyncio.run(ask([(b"content-length", b"-5")])) == 400
    assert asyncio.run(ask([(b"content-length", b"9" * 40)])) == 413


def test_headers_cannot_be_injected(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items(), completion_code="C", post_back_url=POST_BACK)
    browser = site.browser()
    evil = "x%0d%0aSet-Cookie:%20researcher=1"
    for path in (
        f"/r/{evil}",
        f"/w/{evil}",
        f"/s/{evil}/mturk/key?workerId=W&assignmentId=A&hitId=H",
        entrance("mturk", f"workerId={evil}&assignmentId=A&hitId=H"),
        f"/login?next={evil}",
        f"/studies/1/ratings.csv{evil}",
        "//evil.example/%2e%2e",
    ):
        page = browser.get(path)
        assert page.status_code < 500
        assert "researcher" not in page.headers.get("set-cookie", "")
    page = begin(browser, site.link())
    rater = page.url.path.split("/")[2]
    moved = browser.get(f"/w/{rater}?last={evil}", follow_redirects=False)
    assert re.fullmatch(r"/w/\d+/\d+/1", moved.headers["location"])


def test_redirects_go_to_paths_of_this_site_whatever_the_host_header_says(site: Annotation) -> None:
    browser = site.browser()
    for host in ("evil.example", "evil.example:80@x", "a b"):
        moved = browser.get("/", headers={"Host": host}, follow_redirects=False)
        assert moved.headers["location"] == "/login"


def test_brute_force_is_slowed_down_and_the_right_password_waits_too(site: Annotation) -> None:
    site.store.set_password("ada", PASSWORD)
    browser = site.browser()
    hidden = controls(browser.get("/login")).hidden
    statuses = [
        browser.post("/login", data={**hidden, "name": "ada", "password": f"wrong {number}"}).status_code
        for number in range(8)
    ]
    assert statuses[:3] == [403] * 3
    assert statuses[-1] == 429
    waiting = browser.post("/login", data={**hidden, "name": "ada", "password": PASSWORD})
    assert waiting.status_code == 429
    assert int(waiting.headers["retry-after"]) >= 1
    site.clock.time += 3600
    assert browser.post("/login", data={**hidden, "name": "ada", "password": PASSWORD}).url.path == "/studies"


def test_failures_of_others_do_not_keep_a_known_browser_out(site: Annotation) -> None:
    site.store.set_password("ada", PASSWORD)
    mine, other = log_in(site), site.browser()

    def tries(browser: TestClient, password: str) -> int:
        hidden = controls(browser.get("/login")).hidden
        fields = {**hidden, "name": "ada", "password": password}
        return browser.post("/login", data=fields, follow_redirects=False).status_code

    assert [tries(other, f"wrong {number}") for number in range(8)][-1] == 429
    other.cookies.set("known", mine.cookies["researcher"])
    assert tries(other, PASSWORD) == 429
    mine.cookies.delete("researcher")
    assert tries(mine, PASSWORD) == 303
    site.store.set_password("bob", PASSWORD)
    hidden = controls(mine.get("/login")).hidden
    as_bob = {**hidden, "name": "bob", "password": PASSWORD}
    for _ in range(12):
        other.post("/login", data={**controls(other.get("/login")).hidden, "name": "bob", "password": "wrong"})
    assert mine.post("/login", data=as_bob).status_code == 429


def test_an_id_of_a_platform_belongs_to_the_browser_that_came_first(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items("a"), three_items("b"), completion_code="C0DE")
    address = entrance("prolific", "PROLIFIC_PID=p1&STUDY_ID=s&SESSION_ID=x")
    mine, thief = site.browser(), site.browser()
    first, stolen = begin(mine, address), begin(thief, address)
    assert (stolen.status_code, "in another browser" in stolen.text) == (403, True)
    assert begin(mine, address.replace("SESSION_ID=x", "SESSION_ID=y")).url.path == first.url.path
    assert len(site.store.snapshot(study).raters) == 1


def test_the_address_of_an_entrance_cannot_be_guessed(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items(), completion_code="C0DE", post_back_url=POST_BACK)
    new_study(site, every_widget, three_items(), name="second", completion_code="C0DE")
    people, browser = "PROLIFIC_PID=p1&STUDY_ID=s&SESSION_ID=x", site.browser()
    right = entrance("prolific", people)
    key = right.partition("?")[0].rpartition("/")[2]
    assert browser.get(right).status_code == 200
    for wrong in (
        "/s/first/prolific",
        "/s/first/prolific/",
        "/s/first/prolific/x",
        f"/s/second/prolific/{key}",
        f"/s/first/mturk/{key}",
    ):
        assert browser.get(f"{wrong}?{people}&workerId=W&assignmentId=A&hitId=H").status_code == 404, wrong


def test_those_who_come_too_many_at_once_or_uninvited_are_told_so(site: Annotation, every_widget: Form) -> None:
    settings = StudySettings(raters=1, completion_code="C0DE", joins_per_minute=2)
    site.store.create_study("first", every_widget, [three_items()], settings, ids=["p1", "p2", "p3"])

    def come(name: str) -> Response:
        return begin(site.browser(), entrance("prolific", f"PROLIFIC_PID={name}&STUDY_ID=s&SESSION_ID=x"))

    assert [come(name).status_code for name in ("p1", "p2", "p3", "p4")] == [200, 200, 429, 403]
    assert "open this page again in a minute" in come("p3").text
    site.clock.time += 61
    assert come("p3").status_code == 200


def test_the_login_does_not_tell_whether_a_name_exists(site: Annotation) -> None:
    site.store.set_password("ada", PASSWORD)
    browser = site.browser()
    hidden = controls(browser.get("/login")).hidden
    pages = [
        browser.post("/login", data={**hidden, "name": name, "password": "wrong password"}).text.replace(name, "")
        for name in ("ada", "bob")
    ]
    assert pages[0] == pages[1]


def test_every_answer_has_the_headers(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items(), post_back_url=POST_BACK)
    browser = site.browser()
    page = begin(site.browser(), site.link())
    framed = browser.get(entrance("mturk"))
    answers = [browser.get(path) for path in ("/login", "/none", "/static/none.css", "/api/health", "/studies")]
    for answer in (*answers, browser.post("/login"), browser.put("/login"), page, framed):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "camera=()" in answer.headers["permissions-policy"]
    assert all("frame-ancestors 'none'" in answer.headers["content-security-policy"] for answer in answers)
    assert all(answer.headers["x-frame-options"] == "DENY" for answer in answers)
    assert "frame-ancestors https://worker.mturk.com" in framed.headers["content-security-policy"]
    assert "form-action 'self';" in framed.headers["content-security-policy"]


def test_styles_and_scripts_are_kept_by_browsers_and_still_guarded(site: Annotation) -> None:
    browser = site.browser()
    first = browser.get("/static/site.css")
    again = browser.get("/static/site.css", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    for answer in (first, again):
        assert answer.headers["cache-control"] == "public, max-age=300"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_mturk_workers_read_in_their_frame_what_is_wrong(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items(), post_back_url=POST_BACK, lease_minutes=1)
    browser, address = site.browser(), entrance("mturk", "workerId=W&assignmentId=A&hitId=H")
    page = begin(browser, address)
    wrong = [browser.get(page.url.path.removesuffix("1") + "9"), post(browser, page, "next"), post(browser, page, "?")]
    site.store.close_study("first", "ada")
    wrong += [browser.get(address), browser.get(page.url.path), post(browser, page, "save", q0="3")]
    assert [one.status_code for one in wrong] == [404, 422, 422, 410, 404, 404]
    for one in wrong:
        assert "frame-ancestors https://worker.mturk.com" in one.headers["content-security-policy"], one.text
        assert "x-frame-options" not in one.headers


def test_cookies_are_for_the_server_alone_and_for_https_where_the_site_has_it(
    site: Annotation, every_widget: Form
) -> None:
    new_study(site, every_widget, three_items(), post_back_url=POST_BACK)
    plain = site.browser().get("/login").headers["set-cookie"]
    assert "HttpOnly; SameSite=Lax" in plain
    assert "Secure" not in plain
    site.settings = AppSettings(secret=SECRET, base_url="https://rate.example.org")
    browser = site.browser("https://rate.example.org")
    assert "HttpOnly; SameSite=Lax; Secure" in browser.get("/login").headers["set-cookie"]
    assert "max-age" in browser.get("/login").headers["strict-transport-security"]
    page = browser.get(entrance("mturk", "workerId=W&assignmentId=A&hitId=H"))
    assert "SameSite=None; Partitioned; Secure" in page.headers["set-cookie"]


def test_a_browser_without_cookies_is_told_so_inside_the_platforms_frame(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items(), post_back_url=POST_BACK)
    hidden = controls(site.browser().get(entrance("mturk", "workerId=W&assignmentId=A&hitId=H"))).hidden
    page = site.browser().post("/begin", data=hidden)
    assert (page.status_code, "Allow cookies" in page.text) == (403, True)
    assert "frame-ancestors https://worker.mturk.com" in page.headers["content-security-policy"]


def test_an_error_of_ours_shows_an_id_and_no_trace(
    site: Annotation, every_widget: Form, caplog: pytest.LogCaptureFixture
) -> None:
    new_study(site, every_widget, three_items())

    def stopped() -> float:
        raise ZeroDivisionError("the clock /secret/place stopped")

    broken = Annotation(Store(site.store.engine, stopped), site.clock)
    page = broken.browser().get("/login")
    assert page.status_code == 500
    assert "Traceback" not in page.text
    assert "/secret/place" not in page.text
    number = re.findall(r"this number: (\w{8})", page.text)[0]
    assert f"error {number} at GET" in caplog.text
    assert page.headers["content-security-policy"]


def test_a_database_that_is_gone_is_not_described_to_the_world(site: Annotation, tmp_path: Path) -> None:
    browser = site.browser()
    with site.store.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE study RENAME TO away")
    page = browser.get("/api/health")
    assert page.status_code == 503
    assert "sqlite" not in page.text
    assert str(tmp_path) not in page.text


def test_the_secret_is_kept_in_a_file_for_its_owner(tmp_path: Path) -> None:
    place = tmp_path / "site.secret"
    secret = read_secret(place)
    assert read_secret(place) == secret
    assert place.stat().st_mode & 0o077 == 0
    place.write_text("short\n")
    with pytest.raises(OptionError, match="found 5 characters; expected a secret of at least 32"):
        read_secret(place)
    for wrong in (tmp_path / "none" / "site.secret", tmp_path):
        with pytest.raises(OptionError, match="expected a file, or a folder, for the site's secret"):
            read_secret(wrong)


def test_processes_that_begin_at_once_agree_on_the_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            assert len(set(pool.map(read_secret, [tmp_path / f"{number}.secret"] * 8))) == 1
    assert len(list(tmp_path.iterdir())) == 20


@pytest.mark.parametrize(
    "url",
    ["rate.example.org", "ftp://x", "https://", "https://x/path", "https://[", "https://x:99999", "https://x?y",
     "https://x#y", "https://ada@x", "https://x y", "https://x\n"],
)  # fmt: skip
def test_an_address_that_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match="expected http"):
        AppSettings(secret=SECRET, base_url=url)


def test_the_json_routes_are_described(site: Annotation) -> None:
    described = site.browser().get("/api/openapi.json").json()
    assert set(described["paths"]) == {"/api/health", "/api/raters/{rater_id}/assignments/{assignment}/answers"}


@pytest.mark.filterwarnings("ignore")
def test_schemathesis_finds_no_server_error(site: Annotation) -> None:
    import schemathesis
    from hypothesis import HealthCheck, given, settings, strategies

    form = load_form("abs-hds")
    finished_study(site, raters=1)
    new_study(site, form, Unit(items=(Item(id="x", texts=("a", "b")),)), name="second")
    app = create_app(site.store, site.settings)
    browser = site.browser()
    page = begin(browser, site.link("second"))
    api, headers = forms(browser, page)
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app)
    client = TestClient(app, raise_server_exceptions=False)
    client.cookies = browser.cookies
    _, rater, assignment, _ = page.url.path.strip("/").split("/")
    seen: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]

        @given(case=operation.as_strategy(), own=strategies.booleans())
        @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        def check(case: Any, own: bool) -> None:
            if own and case.path_parameters:
                case.path_parameters = {"rater_id": int(rater), "assignment": int(assignment)}
            answer = case.call(session=client, headers=headers)
            seen.setdefault(case.path, set()).add(answer.status_code)
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)

        check()
    nul = '{"step": 1, "fields": {"q0": ["\\u0000"]}}'
    no_text = ('{"step": 1, "fields": {"\\ud800": ["1"]}}', '{"step": 1, "fields": {}, "\\ud800": 1}')
    for body in ("null", "[]", '{"step": 1e99, "fields": {}}', nul, "{", "1" * 9, *no_text):
        answer = client.post(api, content=body, headers={**headers, "Content-Type": "application/json"})
        assert answer.status_code in (200, 422)
    assert seen["/api/health"] == {200}
    assert {200, 404} <= seen["/api/raters/{rater_id}/assignments/{assignment}/answers"]
