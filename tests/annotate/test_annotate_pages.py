"""The pages of the annotation site do what raters and researchers need, with and without JavaScript."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from nlgauge.annotate.answers import missing_answers
from nlgauge.annotate.database.records import Lease, Study
from nlgauge.annotate.database.schema import connect, migrate
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.pages.app import AppSettings, create_app
from nlgauge.annotate.pages.rendering import shown, word_spans
from nlgauge.annotate.pages.researcher import Boards
from nlgauge.annotate.pages.signing import entrance_address, sign_link
from nlgauge.annotate.settings import Platform, StudySettings
from nlgauge.annotate.units import Item, Kind, Unit, order_for
from nlgauge.data.human.forms import Form, form_names, load_form

SECRET = "a secret that is long enough for tests only"  # noqa: S105
PASSWORD = "correct horse battery"  # noqa: S105
POST_BACK = "https://workersandbox.mturk.com/mturk/externalSubmit"
EVERY_WIDGET = """
name = "every-widget"
title = "Every widget"
minutes = 1
unit = { of = "item", size = 3, group = "context" }
instructions = ["Read, then answer."]
[[steps]]
title = "One by one"
show = ["context", "items"]
[[steps.questions]]
id = "fits"
widget = "scale"
per = "item"
prompt = "How well does it fit?"
min = 1
max = 5
labels = { 1 = "not at all", 5 = "perfectly" }
deductions = [{ id = "wrong", label = "Says something wrong", points = [1, 2] }]
[[steps.questions]]
id = "unclear"
widget = "span"
per = "item"
prompt = "Mark what is unclear."
kinds = [{ id = "jargon", label = "Jargon" }, { id = "ambiguous", label = "Ambiguous" }]
[[steps]]
title = "All together"
show = ["context", "items"]
[[steps.questions]]
id = "order"
widget = "ranking"
prompt = "Put them in order."
[[steps.questions]]
id = "click"
widget = "choice"
among = "items"
prompt = "Which one would you click?"
[[steps.questions]]
id = "readers"
widget = "number"
prompt = "How many readers?"
min = 0
max = 100
[[steps.questions]]
id = "own"
widget = "text"
prompt = "Write one."
min = 3
max = 40
export = false
"""


def entrance(platform: Platform, query: str = "", study: str = "first") -> str:
    """The path of a platform's entrance, as the platform was given it."""
    return entrance_address("", study, platform, SECRET) + (f"?{query}" if query else "")


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def __call__(self) -> float:
        return self.time


class _Inputs(HTMLParser):
    """The controls of a page that a browser would send, and those that can be chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: dict[str, str] = {}
        self.names: list[str] = []
        self.checked: list[tuple[str, str]] = []
        self.texts: dict[str, str] = {}
        self.links: list[str] = []
        self._area = ""
        self._select = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        name = values.get("name", "")
        if tag == "a":
            self.links.append(values.get("href", ""))
        if tag == "input" and values.get("type") == "hidden":
            self.hidden[name] = values.get("value", "")
        elif tag in ("input", "textarea", "select") and name:
            self.names.append(name)
            if "checked" in values:
                self.checked.append((name, values["value"]))
            if values.get("type") == "number":
                self.texts[name] = values.get("value", "")
        self._area = name if tag == "textarea" else self._area
        self._select = name if tag == "select" else self._select
        if tag == "option" and "selected" in values:
            self.checked.append((self._select, values["value"]))

    def handle_endtag(self, tag: str) -> None:
        self._area = "" if tag == "textarea" else self._area

    def handle_data(self, data: str) -> None:
        if self._area:
            self.texts[self._area] = self.texts.get(self._area, "") + data


def controls(answer: Response) -> _Inputs:
    found = _Inputs()
    found.feed(answer.text)
    return found


@dataclass
class Annotation:
    """A site over a database of its own."""

    store: Store
    clock: Clock
    settings: AppSettings = field(default_factory=lambda: AppSettings(secret=SECRET))

    def browser(self, base_url: str = "http://testserver") -> TestClient:
        app = create_app(self.store, self.settings)
        return TestClient(app, base_url=base_url, follow_redirects=True, raise_server_exceptions=False)

    def link(self, study: str = "first", **options: Any) -> str:
        return f"/r/{sign_link(SECRET, study, now=self.clock(), **options)}"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Annotation]:
    engine = connect(f"sqlite:///{tmp_path / 'site.sqlite'}")
    migrate(engine)
    clock = Clock()
    yield Annotation(Store(engine, clock), clock)
    engine.dispose()


@pytest.fixture
def every_widget(tmp_path: Path) -> Form:
    path = tmp_path / "every.toml"
    path.write_text(EVERY_WIDGET)
    return load_form(path)


def three_items(name: str = "a", kind: Kind = "normal", expected: Mapping[str, Any] | None = None) -> Unit:
    texts = ("Council raises fares.", "You will not believe this!", "Buses cost more from May.")
    items = tuple(Item(id=f"secret-{name}-{number}", texts=(text,)) for number, text in enumerate(texts))
    return Unit(items=items, context=f"The article {name}.", kind=kind, expected=expected or {})


def unit_for(form: Form, name: str = "u") -> Unit:
    """A unit of the shape that a built-in form asks for."""
    texts = tuple(f"Response number {number} of {name}." for number in range(3 if form.unit.of == "set" else 1))
    items = tuple(Item(id=f"{name}-{number}", texts=texts) for number in range(form.unit.size))
    return Unit(items=items, context=f"What was said before {name}.")


def new_study(site: Annotation, form: Form, *units: Unit, name: str = "first", **settings: Any) -> Study:
    return site.store.create_study(name, form, units, StudySettings(**{"raters": 1, **settings}))


def begin(browser: TestClient, link: str) -> Response:
    """Open a link, agree, and come to the first page."""
    opened = browser.get(link)
    assert opened.status_code == 200, opened.text
    return browser.post("/begin", data=controls(opened).hidden)


def post(browser: TestClient, page: Response, go: str, **fields: Any) -> Response:
    """Send the form of a page as a browser without scripts would."""
    hidden = {name: value for name, value in controls(page).hidden.items() if name in ("csrf", "seconds")}
    data = {**hidden, "go": go, **{name.replace("__", "."): value for name, value in fields.items()}}
    return browser.post(str(page.url), data=data)


def answer_everything(browser: TestClient, page: Response) -> Response:
    """Fill in a page of any form and go on, until the work is handed in."""
    for _ in range(10):
        if "data-api" not in page.text:
            return page
        data: dict[str, Any] = {}
        radios = dict.fromkeys(re.findall(r'type="radio" name="([^"]+)"', page.text))
        for name in radios:
            if not name.endswith(".kind"):
                data[name] = re.findall(rf'name="{re.escape(name)}" value="([^"]+)"', page.text)[-1]
        for name in dict.fromkeys(re.findall(r'<textarea name="([^"]+)"', page.text)):
            data[name] = f"A response of my own to {page.url.path}."
        for name in re.findall(r'type="number" name="([^"]+)"', page.text):
            data[name] = "7"
        for place, name in enumerate(re.findall(r'<select name="([^"]+)"', page.text), 1):
            data[name] = str(place)
        for name in dict.fromkeys(re.findall(r'name="([^"]+\.none)"', page.text)):
            data[name] = "yes"
        go = "submit" if 'value="submit"' in page.text else "next"
        page = browser.post(page.url.path, data={**controls(page).hidden, "go": go, **data})
        assert page.status_code == 200, page.text
    raise AssertionError("the form never ended")


def log_in(site: Annotation, name: str = "ada") -> TestClient:
    site.store.set_password(name, PASSWORD)
    browser = site.browser()
    page = browser.get("/login")
    done = browser.post("/login", data={**controls(page).hidden, "name": name, "password": PASSWORD})
    assert done.url.path == "/studies"
    return browser


@pytest.mark.parametrize("name", form_names())
def test_every_form_is_answered_without_scripts_to_the_completion_code(site: Annotation, name: str) -> None:
    form = load_form(name)
    study = new_study(site, form, unit_for(form), completion_code="THANKS-42")
    browser = site.browser()
    page = begin(browser, site.link())
    assert page.url.path.endswith("/1")
    page = answer_everything(browser, page)
    assert "Thank you" in page.text
    assert "THANKS-42" in page.text
    snapshot = site.store.snapshot(study)
    assert [one.state for one in snapshot.assignments] == ["valid"]
    given = {(one.item, one.question) for one in snapshot.answers}
    assert missing_answers(form, snapshot.units[0].unit, dict.fromkeys(given, 1)) == []


def test_instructions_come_first_and_opening_a_link_uses_nothing_up(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    browser, link = site.browser(), site.link()
    assert "Read, then answer." in browser.get(link).text
    assert "Read, then answer." in site.browser().get(link).text
    assert site.store.snapshot(study).raters == ()
    assert begin(browser, link).url.path.endswith("/1")


def test_raters_do_not_learn_the_ids_of_items(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items())
    browser = site.browser()
    first = begin(browser, site.link())
    second = browser.get(first.url.path.removesuffix("1") + "2")
    assert "secret-a" not in first.text + second.text


def test_items_stand_in_the_order_of_the_rater(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, *(three_items(str(number)) for number in range(12)), raters=12)
    orders = set()
    for _ in range(8):
        page = begin(site.browser(), site.link())
        found = [page.text.index(f">{word}<") for word in ("Council", "believe", "Buses")]
        orders.add(tuple(sorted(range(3), key=found.__getitem__)))
    assert len(orders) > 1
    assert len(site.store.snapshot(study).raters) == 8


def test_every_widget_is_stored_as_the_form_defines_it(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    browser = site.browser()
    page = begin(browser, site.link())
    lease = site.store.lease(study, site.store.snapshot(study).raters[0])
    assert isinstance(lease, Lease)
    fields = {"q0": "4", "q0__wrong": "1", "q1__word": ["0", "1"], "q1__kind": "jargon", "q2": "5", "q3__none": "yes"}
    page = post(browser, page, "next", **fields, q4="1", q5__none="yes")
    assert page.url.path.endswith("/2")
    page = post(browser, page, "submit", **{
        "q0.place.0": "3", "q0.place.1": "1", "q0.place.2": "2", "q1": "2", "q2": "30", "q3": "  Fares go up\r\nin May "
    })  # fmt: skip
    assert "Thank you" in page.text
    rater = site.store.snapshot(study).raters[0]
    order = [item.id for item in order_for(lease.unit, rater.order_seed).items]
    text = next(item.texts[0] for item in lease.unit.items if item.id == order[0])
    assert site.store.answers(lease.assignment.id) == {
        (order[0], "fits"): 4,
        (order[0], "fits.wrong"): 1,
        (order[0], "unclear"): [[0, word_spans(text)[1][1], "jargon"]],
        (order[1], "fits"): 5,
        (order[1], "unclear"): [],
        (order[2], "fits"): 1,
        (order[2], "unclear"): [],
        ("", "order"): [order[1], order[2], order[0]],
        ("", "click"): order[2],
        ("", "readers"): 30,
        ("", "own"): "Fares go up\nin May",
    }


def test_marks_are_added_and_taken_away_one_by_one(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items())
    browser = site.browser()
    page = begin(browser, site.link())
    page = post(browser, page, "save", q1__word=["0"], q1__kind="jargon")
    page = post(browser, page, "save", q1__word=["2"], q1__kind="ambiguous")
    marks = re.findall(r'name="q1\.remove" value="([^"]+)"', page.text)
    assert len(marks) == 2
    page = post(browser, page, "save", q1__remove=marks[0])
    assert re.findall(r'name="q1\.remove" value="([^"]+)"', page.text) == marks[1:]
    refused = post(browser, page, "save", q1__word=["1"])
    assert refused.status_code == 422
    assert "a kind for the words that you ticked" in refused.text


def test_a_score_that_does_not_follow_from_deductions_is_noted_and_kept(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items())
    browser = site.browser()
    page = post(browser, begin(browser, site.link()), "save", q0="5", **{"q0.wrong": "2"})
    assert page.status_code == 200
    assert "You took 2 points off, which leaves 3; you gave 5." in page.text


def test_going_on_and_handing_in_need_complete_answers_and_say_what_is_missing(
    site: Annotation, every_widget: Form
) -> None:
    study = new_study(site, every_widget, three_items())
    browser = site.browser()
    page = begin(browser, site.link())
    refused = post(browser, page, "next", q0="4")
    assert refused.status_code == 422
    assert {"#q1", "#q2", "#q3", "#q4", "#q5"} <= set(controls(refused).links)
    assert "#q0" not in controls(refused).links
    assert ("q0", "4") in controls(refused).checked
    second = browser.get(page.url.path.removesuffix("1") + "2")
    refused = post(browser, second, "submit", q2="101")
    assert refused.status_code == 422
    assert f"{page.url.path}#q1" in controls(refused).links
    assert "Expected a whole number from 0 to 100." in refused.text
    assert 'value="101"' in refused.text
    assert site.store.snapshot(study).assignments[0].state == "leased"


def test_a_reload_or_the_link_again_continues_where_the_rater_was(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items())
    browser, link = site.browser(), site.link()
    page = begin(browser, link)
    fields = {"q0": "4", "q2": "5", "q4": "1", "q1.none": "yes", "q3.none": "yes", "q5.none": "yes"}
    second = post(browser, page, "next", **fields)
    post(browser, second, "save", q3="My own words")
    again = browser.get(link)
    assert again.url.path == second.url.path
    assert controls(again).texts["q3"].strip() == "My own words"
    back = post(browser, again, "back")
    assert [value for name, value in controls(back).checked if name in ("q0", "q2", "q4")] == ["4", "5", "1"]


def test_answers_are_saved_one_by_one_by_the_script(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    browser = site.browser()
    page = begin(browser, site.link())
    api = re.findall(r'data-api="([^"]+)"', page.text)[0]
    headers = {"X-CSRF-Token": controls(page).hidden["csrf"]}
    saved = browser.post(api, json={"step": 1, "fields": {"q0": ["3"], "q0.wrong": ["1"]}}, headers=headers)
    assert saved.json() == {
        "errors": {},
        "missing": 9,
        "notes": {"q0": "You took 1 point off, which leaves 4; you gave 3. Is that right?"},
        "marks": {},
    }
    marked = browser.post(api, json={"step": 1, "fields": {"q1.word": ["0"], "q1.kind": ["jargon"]}}, headers=headers)
    assert [mark["first"] for mark in marked.json()["marks"]["q1"]] == [0]
    wrong = browser.post(api, json={"step": 2, "fields": {"q3": ["ab"]}}, headers=headers)
    assert wrong.json()["errors"] == {"q3": "Expected 3 to 40 characters, not 2."}
    assert len(site.store.snapshot(study).answers) == 3
    unknown = browser.post(api, json={"step": 1, "fields": {"q99": ["1"]}}, headers=headers)
    assert unknown.status_code == 422
    site.store.close_study("first", "ada")
    late = browser.post(api, json={"step": 1, "fields": {"q0": ["3"]}}, headers=headers)
    assert (late.status_code, "expired" in late.json()["error"]) == (409, True)


def test_a_second_server_saves_what_the_first_one_showed(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items())
    browser = site.browser()
    page = begin(browser, site.link())
    other = site.browser()
    other.cookies = browser.cookies
    api = re.findall(r'data-api="([^"]+)"', page.text)[0]
    headers = {"X-CSRF-Token": controls(page).hidden["csrf"]}
    assert other.post(api, json={"step": 1, "fields": {"q0": ["3"]}}, headers=headers).status_code == 200


def test_the_next_assignment_follows_and_a_limit_ends_the_work(site: Annotation) -> None:
    form = load_form("typicality")
    study = new_study(site, form, *(unit_for(form, name) for name in "abc"), max_units_per_rater=2)
    browser = site.browser()
    page = answer_everything(browser, begin(browser, site.link()))
    assert "as many tasks as one person may" in page.text
    assert len({one.unit_id for one in site.store.snapshot(study).assignments}) == 2


def test_a_rejected_rater_reads_why_in_plain_words(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    browser, link = site.browser(), site.link()
    begin(browser, link)
    rater = site.store.snapshot(study).raters[0]
    site.store.reject(rater_id=rater.id, reason="Copied <b>texts</b> from elsewhere.", who="ada")
    page = browser.get(link)
    assert "Your work was not accepted" in page.text
    assert "Copied &lt;b&gt;texts&lt;/b&gt; from elsewhere." in page.text


def test_a_form_without_required_answers_begins_at_its_first_page(site: Annotation, every_widget: Form) -> None:
    steps = tuple(
        replace(step, questions=tuple(replace(one, required=False) for one in step.questions))
        for step in every_widget.steps
    )
    new_study(site, replace(every_widget, steps=steps), three_items())
    browser = site.browser()
    page = begin(browser, site.link())
    assert page.url.path.endswith("/1")
    page = post(browser, post(browser, page, "next"), "submit")
    assert "Thank you" in page.text


def test_known_answers_are_not_given_away_to_those_who_miss_them(site: Annotation, every_widget: Form) -> None:
    units = [three_items("q", "qualification", {"secret-q-0": {"fits": 2}}), three_items("a")]
    new_study(site, every_widget, *units, quality={"qualification": {}}, qualification_tries=2)
    browser = site.browser()
    page = begin(browser, site.link())
    for _ in range(2):
        assert "data-api" in page.text
        page = post(browser, page, "next", q0="5", q2="5", q4="5", **{f"q{n}.none": "yes" for n in (1, 3, 5)})
        places = {f"q0.place.{n}": str(n + 1) for n in range(3)}
        page = post(browser, page, "submit", q1="0", q2="3", q3="Some words of mine", **places)
    assert "Your work was not accepted" in page.text
    assert "too far from the known ones" in page.text
    assert "secret-q" not in page.text


def test_mturk_shows_a_preview_then_posts_back_to_mturk_alone(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items("a"), three_items("b"), post_back_url=POST_BACK)
    browser = site.browser()
    preview = browser.get(entrance("mturk"), params={"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE", "hitId": "H1"})
    assert "This is a preview" in preview.text
    assert "/begin" not in preview.text
    address = entrance("mturk", "workerId=W1&assignmentId=A1&hitId=H1")
    page = begin(browser, address)
    assert "frame-ancestors https://worker.mturk.com" in page.headers["content-security-policy"]
    page = answer_everything(browser, page)
    assert f'action="{POST_BACK}"' in page.text
    assert 'name="assignmentId" value="A1"' in page.text
    assert "form-action 'self' https://workersandbox.mturk.com;" in page.headers["content-security-policy"]
    assert f'action="{POST_BACK}"' in begin(browser, address).text
    assert "data-api" in begin(browser, address.replace("A1", "A2")).text
    rater = site.store.snapshot(study).raters[0]
    assert (rater.platform, set(rater.platform_data)) == ("mturk", {"assignmentId", "hitId", "browser"})


def test_mturk_work_is_not_handed_in_where_nothing_was_left_to_do(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items(), post_back_url=POST_BACK)
    browser, address = site.browser(), entrance("mturk", "workerId=W1&assignmentId=A1&hitId=H1")
    assert POST_BACK in answer_everything(browser, begin(browser, address)).text
    second = begin(browser, address.replace("A1", "A2"))
    assert "Please return this task" in second.text
    assert POST_BACK not in second.text


def test_prolific_raters_get_their_code_and_a_way_back(site: Annotation) -> None:
    form = load_form("abs-hds")
    new_study(site, form, unit_for(form), completion_code="C0DE")
    browser = site.browser()
    page = begin(browser, entrance("prolific", "PROLIFIC_PID=p1&STUDY_ID=s1&SESSION_ID=x1"))
    page = answer_everything(browser, page)
    assert "https://app.prolific.com/submissions/complete?cc=C0DE" in controls(page).links


def test_platform_parameters_count_only_where_the_study_takes_the_platform(
    site: Annotation, every_widget: Form
) -> None:
    new_study(site, every_widget, three_items())
    new_study(site, every_widget, three_items(), name="evil", post_back_url="https://mturk.com.example.org/x")
    browser = site.browser()
    assert browser.get(entrance("mturk", "workerId=W&assignmentId=A&hitId=H")).status_code == 404
    assert browser.get(entrance("mturk", "workerId=W&assignmentId=A&hitId=H", "evil")).status_code == 404
    assert browser.get(entrance("prolific", "PROLIFIC_PID=p&STUDY_ID=s&SESSION_ID=x")).status_code == 404
    assert browser.get(entrance("mturk", study="none")).status_code == 404


def test_a_platform_without_its_parameters_is_told_so(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items(), name="with / and ü", post_back_url=POST_BACK)
    browser = site.browser()
    page = browser.get(entrance("mturk", "assignmentId=A1&workerId=a%0d%0ab&hitId=H", "with / and ü"))
    assert (page.status_code, "Found no workerId" in page.text) == (400, True)


def test_nobody_without_work_gets_the_code(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items(), completion_code="C0DE")
    begin(site.browser(), site.link())
    idle = begin(site.browser(), site.link())
    assert "Nothing to do" in idle.text
    assert "C0DE" not in idle.text
    assert "Others are still working" in idle.text


def test_a_closed_study_says_so(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items())
    browser, link = site.browser(), site.link()
    begin(browser, link)
    site.store.close_study("first", "ada")
    assert "The study is closed." in browser.get(link).text
    assert site.browser().get(site.link()).status_code == 410


def finished_study(site: Annotation, raters: int = 3) -> Study:
    form = load_form("abs-hds")
    study = new_study(site, form, *(unit_for(form, f"u{number}") for number in range(6)), raters=raters, pay=0.2)
    for rater in range(raters):
        joined = site.store.join(study, "direct", f"rater {rater}")
        while isinstance(lease := site.store.lease(study, joined), Lease):
            own, assignment = lease.unit.items[0].id, lease.assignment.id
            values: dict[tuple[str, str], Any] = {("", "own_response"): f"Mine {rater} {own}", ("", "first_quality"): 3}
            for item, question in missing_answers(form, lease.unit, values):
                values[item, question] = 1 + (int(own[1]) + rater // 2) % 5
            site.store.save_all(assignment, joined.id, values)
            site.clock.time += 90
            site.store.submit(assignment, joined.id, 60)
    return study


def test_the_dashboard_has_all_its_parts(site: Annotation) -> None:
    study = finished_study(site)
    page = log_in(site).get(f"/studies/{study.id}")
    assert page.status_code == 200
    for words in ("100 % of 18 ratings", "6 of 6", "3.60 USD", "Krippendorff", "More raters or more items?", "rater-"):
        assert words in page.text
    assert "<svg" in page.text
    assert "<polyline" in page.text


def test_the_fees_of_a_platform_are_counted_in(site: Annotation) -> None:
    path = f"/studies/{finished_study(site).id}"
    browser = log_in(site)
    assert "4.32 USD" in browser.get(path, params={"fees": "20"}).text
    assert {browser.get(path, params={"fees": one}).status_code for one in ("", "-1", "101", "x", "1e1")} == {422}


def as_of(page: Response) -> str:
    return str(re.findall(r"as of ([^<]+)<", page.text)[0])


def test_the_dashboard_is_computed_again_when_something_has_changed(site: Annotation) -> None:
    study = finished_study(site)
    browser = log_in(site)
    path = f"/studies/{study.id}"
    first = browser.get(path)
    site.clock.time += 60
    assert as_of(browser.get(path)) == as_of(first)
    site.store.reject(rater_id=site.store.snapshot(study).raters[0].id, reason="Only guesses", who="ada")
    changed = browser.get(path)
    assert as_of(changed) > as_of(first)
    assert "Only guesses" in changed.text
    assert "66 % of 18 ratings" in changed.text


def test_numbers_from_before_are_shown_while_new_ones_are_computed(site: Annotation) -> None:
    study = finished_study(site)
    boards = Boards(site.store)
    first = boards.of(study)
    site.store.reject(rater_id=first[0].raters[0].id, reason="Only guesses", who="ada")
    with boards.lock:
        assert boards.of(study) == first
    assert [one.progress.valid for _, one in (first, boards.of(study))] == [18, 12]


def test_nobody_is_at_work_whose_time_has_run_out(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items(), lease_minutes=10)
    begin(site.browser(), site.link())
    browser = log_in(site)
    assert "<dt>At work</dt><dd>1</dd>" in browser.get(f"/studies/{study.id}").text
    site.clock.time += 3600
    page = browser.get(f"/studies/{study.id}").text
    assert "<dt>At work</dt><dd>0</dd>" in page
    assert "<dt>Run out</dt><dd>1</dd>" in page


def test_a_study_without_work_has_a_dashboard_too(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    browser = log_in(site)
    assert "Nobody has begun." in browser.get(f"/studies/{study.id}").text
    assert "No item has two valid ratings yet." in browser.get(f"/studies/{study.id}/disagreement").text
    assert browser.get(f"/studies/{study.id}/ratings.csv").status_code == 409
    assert browser.get("/studies/99").status_code == 404


def test_the_disagreement_browser_shows_texts_and_single_ratings(site: Annotation) -> None:
    study = finished_study(site)
    page = log_in(site).get(f"/studies/{study.id}/disagreement")
    assert "Response number 0 of u0." in page.text
    assert len(re.findall(r"<li><b>\d</b> rater-", page.text)) == 18


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_exports_are_downloads_of_all_ratings(site: Annotation, kind: str) -> None:
    study = finished_study(site)
    done = log_in(site).get(f"/studies/{study.id}/ratings.{kind}")
    assert done.headers["content-disposition"] == f'attachment; filename="study-{study.id}-ratings.{kind}"'
    content = io.BytesIO(done.content)
    if kind == "csv":
        frame = pl.read_csv(content)
    else:
        frame = pl.read_ndjson(content) if kind == "jsonl" else pl.read_parquet(content)
    assert frame.height == 18
    assert frame["rater"].n_unique() == 3


def test_a_researcher_rejects_and_overrules_with_a_reason(site: Annotation) -> None:
    study = finished_study(site)
    browser = log_in(site)
    path = f"/studies/{study.id}"
    csrf = controls(browser.get(path)).hidden["csrf"]
    rater = site.store.snapshot(study).raters[0]
    bare = browser.post(f"{path}/reject", data={"csrf": csrf, "rater": str(rater.id), "reason": " \u202e "})
    assert bare.status_code == 422
    page = browser.post(f"{path}/reject", data={"csrf": csrf, "rater": str(rater.id), "reason": "Only guesses"})
    assert "Only guesses" in page.text
    assert site.store.rater(rater.id).state == "rejected"
    again = browser.post(f"{path}/reject", data={"csrf": csrf, "rater": str(rater.id), "reason": "Again"})
    assert again.status_code == 409
    verdict = site.store.snapshot(study).verdicts[0]
    page = browser.post(
        f"{path}/overrule", data={"csrf": csrf, "verdict": str(verdict.id), "reason": "They were right"}
    )
    assert "They were right" in page.text
    assert site.store.rater(rater.id).state != "rejected"
    for form, name in (("reject", "rater"), ("overrule", "verdict")):
        foreign = browser.post(f"{path}/{form}", data={"csrf": csrf, name: "999", "reason": "No such"})
        assert foreign.status_code == 404
    log = browser.get("/audit").text
    assert all(words in log for words in ("reject", "Only guesses", "overrule", "They were right", "ada"))


def test_links_that_a_researcher_makes_work_once_each(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    browser = log_in(site)
    csrf = controls(browser.get(f"/studies/{study.id}")).hidden["csrf"]
    page = browser.post(f"/studies/{study.id}/links", data={"csrf": csrf, "count": "3", "days": "2"})
    links = re.findall(r"http://testserver(/r/[\w.-]+)", page.text)
    assert len(set(links)) == 3
    assert begin(site.browser(), links[0]).url.path.endswith("/1")
    site.clock.time += 3 * 86400
    assert site.browser().get(links[1]).status_code == 403
    browser = log_in(site)
    csrf = controls(browser.get(f"/studies/{study.id}")).hidden["csrf"]
    for count in ("", "0", "501", "-1", "x", "1.5", "٣", "1" * 30, "000000001999", "0" * 9000):
        refused = browser.post(f"/studies/{study.id}/links", data={"csrf": csrf, "count": count, "days": "2"})
        assert (refused.status_code, "Expected 1 to 500 links" in refused.text) == (422, True), count


def test_links_that_would_not_work_are_not_made(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items(), name="crowd", platforms=("prolific",), completion_code="C")
    new_study(site, every_widget, three_items(), name="over")
    site.store.close_study("over", "ada")
    browser = log_in(site)
    for name in ("crowd", "over"):
        path = f"/studies/{site.store.study(name).id}"
        page = browser.get(path)
        assert "Make links" not in page.text
        fields = {"csrf": controls(page).hidden["csrf"], "count": "1", "days": "1"}
        assert browser.post(f"{path}/links", data=fields).status_code == 409
    assert "/s/crowd/prolific" in browser.get(f"/studies/{site.store.study('crowd').id}").text


def test_a_study_is_closed_by_somebody_who_is_sure(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    browser = log_in(site)
    csrf = controls(browser.get(f"/studies/{study.id}")).hidden["csrf"]
    assert browser.post(f"/studies/{study.id}/close", data={"csrf": csrf}).status_code == 422
    assert site.store.study("first").state == "open"
    page = browser.post(f"/studies/{study.id}/close", data={"csrf": csrf, "sure": "yes"})
    assert "The study is closed." in page.text
    assert site.store.study("first").state == "closed"


def test_pages_of_researchers_need_a_login_that_ends_with_logging_out(site: Annotation, every_widget: Form) -> None:
    study = new_study(site, every_widget, three_items())
    pages = ("/studies", f"/studies/{study.id}", f"/studies/{study.id}/disagreement", "/audit",
             f"/studies/{study.id}/ratings.csv")  # fmt: skip
    stranger = site.browser()
    assert stranger.get("/").url.path == "/login"
    assert {stranger.get(path).status_code for path in pages} == {401}
    browser = log_in(site)
    cookie = browser.cookies["researcher"]
    csrf = controls(browser.get("/studies")).hidden["csrf"]
    assert browser.post("/logout", data={"csrf": csrf}).url.path == "/login"
    assert browser.get("/studies").status_code == 401
    browser.cookies.set("researcher", cookie)
    assert browser.get("/studies").status_code == 401


def test_texts_are_shown_as_text_with_hidden_characters_made_visible() -> None:
    assert shown("<b>&\u202egnp\0") == (
        '&lt;b&gt;&amp;<span class="control">U+202E</span>gnp<span class="control">U+0000</span>'
    )
    assert shown("line\n\ttab \u200d café") == "line\n\ttab \u200d café"
    assert shown("one\r\ntwo\rthree") == 'one\ntwo<span class="control">U+000D</span>three'


def test_words_are_found_in_any_script() -> None:
    assert [("a 🙂 b,")[start:end] for start, end in word_spans("a 🙂 b,")] == ["a", "🙂", "b,"]
    assert len(word_spans("你好 world")) == 3


def test_every_page_has_a_title_a_language_and_a_way_past_the_header(site: Annotation) -> None:
    study = finished_study(site)
    browser = log_in(site)
    for path in ("/studies", f"/studies/{study.id}", f"/studies/{study.id}/disagreement", "/audit", "/login", "/none"):
        text = browser.get(path).text
        assert '<html lang="en">' in text
        assert re.search(r"<title>[^<]+</title>", text)
        assert 'href="#main"' in text
        assert "style=" not in html.unescape(text)
        assert not re.search(r"<script(?! src=)|\son\w+=", text)


def test_every_control_of_every_form_has_a_label(site: Annotation) -> None:
    for name in form_names():
        form = load_form(name)
        new_study(site, form, unit_for(form), name=name)
        browser = site.browser()
        page = begin(browser, site.link(name))
        for step in range(1, len(form.steps) + 1):
            text = browser.get(f"{page.url.path.rpartition('/')[0]}/{step}").text
            inside = "".join(re.findall(r"<label[^>]*>.*?</label>", text, re.S))
            for control in re.findall(r"<(?:input|select|textarea)[^>]*>", text):
                assert 'type="hidden"' in control or "aria-label" in control or control in inside, control


def test_a_question_says_once_which_numbers_it_takes(site: Annotation) -> None:
    form = load_form("set-diversity")
    new_study(site, form, unit_for(form))
    assert begin(site.browser(), site.link()).text.count("hole number from 1") == 10


def test_static_files_are_served_and_small(site: Annotation) -> None:
    browser = site.browser()
    for name in ("site.css", "rater.js", "spans.js", "researcher.js", "icon.svg"):
        done = browser.get(f"/static/{name}")
        assert (done.status_code, len(done.content) < 20_000) == (200, True)
    assert browser.get("/static/../app.py").status_code == 404


def test_the_health_route_says_that_the_database_answers(site: Annotation, every_widget: Form) -> None:
    new_study(site, every_widget, three_items())
    assert site.browser().get("/api/health").json() == {"ok": True, "studies": 1}
