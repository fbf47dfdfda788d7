"""The annotation site in a real browser: small studies, a server, people who read pages and answer, and checks."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import pytest
import uvicorn

from nlgauge.annotate.database.records import Study
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.pages.app import AppSettings, create_app
from nlgauge.annotate.pages.signing import sign_link
from nlgauge.data.human.forms import Form, FormQuestion, load_form
from tests.annotate.fixtures import Clock, opened
from tests.conftest import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Locator, Page, Request, StorageState

SECRET = "a secret that is long enough for tests only"  # noqa: S105
PASSWORD = "correct horse battery"  # noqa: S105
RESEARCHER = "maria"
FIGURES = ROOT / "docs" / "figures"
WIDTH, HEIGHT, PHONE = 900, 1000, 360
LARGEST_PICTURE = 150_000
TELL_VIOLATIONS = """addEventListener("securitypolicyviolation",
  (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));"""
READ_FIELDS = """() => [...document.querySelectorAll("[data-field]")].map((field) => ({
  name: field.id,
  prompt: field.querySelector("legend").firstChild.textContent.trim(),
  texts: [...field.closest(".card").querySelectorAll(".text, .span-text")].map((text) => text.textContent),
  context: document.querySelector(".context")?.textContent ?? "",
}))"""
READ_CARDS = """() => Object.fromEntries([...document.querySelectorAll(".card")].map((card) => [
  card.querySelector("h2")?.textContent ?? "",
  [...card.querySelectorAll(".text")].map((text) => text.textContent),
]))"""

AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
SCHEMES: Mapping[Literal["dark", "light"], str] = {
    "dark": ", runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}",  # what colours decide
    "light": "",
}

Press = Callable[["Locator"], None]
Opinion = Callable[[FormQuestion, tuple[str, ...]], Any]
Row = dict[str, Any]

HONEST = ("ann", "ben", "dora")
OPENERS = ("On Sundays", "After the storm", "In her first week", "Long ago", "When the lights went out")
ENDINGS = (
    "we walk to the lake and feed the ducks.",
    "the harbour was full of broken boats.",
    "nobody knew where the keys were.",
    "a letter came from my aunt in Lisbon.",
    "the whole street smelled of bread.",
)
TEXTS = [f"{opener} {ending}" for opener in OPENERS for ending in ENDINGS]
SETS: list[Row] = [
    {
        "id": "bus", "context": "I missed my bus again this morning.", "label": 1,
        "responses": ["Did you take a taxi?", "I walk; it keeps me fit.", "Your boss must be furious."],
    },
    {
        "id": "soup", "context": "My grandmother taught me to make this soup.", "label": 0,
        "responses": ["It smells lovely.", "It smells really lovely.", "Oh, that smells lovely!"],
    },
    {
        "id": "coast", "context": "We are moving to the coast in May.", "label": 1,
        "responses": ["Who will water my plants?", "I envy you the sea.", "Is there work for you there?"],
    },
]  # fmt: skip
PAIRED: list[Row] = [
    SETS[0],
    {"id": "late", "context": SETS[0]["context"], "label": 0, "responses": ["Oh no!", "Oh no, again?", "Oh, no!"]},
    SETS[2],
    {"id": "sea", "context": SETS[2]["context"], "label": 0, "responses": ["How nice!", "Nice!", "That is nice."]},
]
SAME: Row = {"id": "same", "context": "Can you hear me?", "responses": ["Yes, I can."] * 3}
TEN: list[Row] = [
    {"id": f"ten-{n}", "context": "ten", "responses": [TEXTS[n], TEXTS[(3 * n + 7) % 25]]} for n in range(10)
]
TYPICAL: list[Row] = [
    {"id": f"t{n}", "context": "How was it there?", "text": text, "is_model": n % 2 == 0, "logp": -9.0 - n * 7 % 11}
    for n, text in enumerate(TEXTS)
]
HUMAN = {
    "The ferry was late.": "The ferry was late. Rosa bought a newspaper and waited. At noon it came at last.",
    "Omar found a ring.": "Omar found a ring. He asked all his neighbours. An old man wept when he saw it.",
}
STORIES: list[Row] = [
    {
        "id": f"{beginning.split()[1]}-{n}", "context": beginning, "system": f"model {n}", "references": [human],
        "text": f"{beginning} {TEXTS[5 * n + at]} {TEXTS[(7 * n + at + 3) % 25]}", "words": 3 * n + at * n * n,
    }
    for at, (beginning, human) in enumerate(HUMAN.items())
    for n in range(5)
]  # fmt: skip
THREE = [row for row in STORIES if row["system"] in ("model 0", "model 1", "model 2")]


HOSTILE = (
    "<script>alert(1)</script>",
    "</textarea></title><svg onload=alert(1)>",
    "\"><img src=https://example.org/x.png onerror='alert(1)'>",
    "<style>@import 'https://example.org/x.css'</style><iframe src=javascript:alert(1)></iframe>",
    "{{ 7 * 7 }}{% include 'login.html' %}${7*7}<a href='javascript:alert(1)'>here</a>",
)


@dataclass(frozen=True)
class Case:
    """A small study of one form: what is rated, and the rule that rejects the careless rater."""

    form: Form
    rows: Sequence[Row]
    rule: str
    options: Mapping[str, Any] = field(default_factory=dict)
    known: Sequence[Row] = ()

    @property
    def rejects_raters(self) -> bool:
        """Whether the rule ends all work of a rater, rather than single tasks."""
        return self.rule in ("gold", "attention", "correlation")


CASES = {
    case.form.name: case
    for case in (
        Case(load_form("abs-hds"), SETS, "gold", known=[SAME | {"expected_diversity": 1}]),
        Case(load_form("asp-hds"), SETS[:2], "attention", known=[SAME | {"expected_content": 1}]),
        Case(
            load_form("rnk-hds"), PAIRED, "gold",
            known=[SAME | {"label": 0, "expected_more_diverse": 0},
                   SETS[1] | {"id": "other", "context": SAME["context"], "expected_more_diverse": 1}],
        ),
        Case(load_form("sim-hds"), SETS[:2], "straight-lining", {"answers": 3}),
        Case(load_form("set-diversity"), TEN, "correlation", {"items": 10}),
        Case(load_form("typicality"), TYPICAL, "min-time", {"seconds": 300}),
        Case(load_form("story-quality"), STORIES, "mans"),
        Case(load_form("story-errors"), THREE, "duplicate-text"),
    )
}  # fmt: skip


def opinion_of(rater: str) -> Opinion:
    """What somebody who reads answers: much the same as others do, and a little their own."""

    def opinion(question: FormQuestion, texts: tuple[str, ...]) -> Any:
        shared = crc32(" ".join(texts).encode())
        own = crc32(f"{rater} {question.id} {' '.join(texts)}".encode())
        if question.widget == "text":
            return f"{rater} has this to say about {texts[0][:40]}"
        if question.widget == "span":
            return [
                kind.id for place, kind in enumerate(question.kinds) if (shared >> place) % 3 == 0 or own % 7 == place
            ]
        low, high = limits(question)
        if len(set(texts)) < len(texts) or (question.id == "quality" and is_negative(texts[0])):
            return low
        if texts[0] in HUMAN.values():
            return high
        if (low, high) == (0, 1000):
            return shared % 600 + own % 400
        return min(high, max(low, low + shared % (high - low + 1) + own % 3 - 1))

    return opinion


def limits(question: FormQuestion) -> tuple[int, int]:
    if question.values:
        return min(one.value for one in question.values), max(one.value for one in question.values)
    return question.bounds if question.widget in ("scale", "number") else (0, 1000)


def is_negative(story: str) -> bool:
    return story not in HUMAN.values() and story not in {row["text"] for row in STORIES}


def careless(case: Case) -> Opinion:
    """Answers that the rule of the study is there to find."""
    honest, copied = opinion_of("carl"), opinion_of("ann")

    def opinion(question: FormQuestion, texts: tuple[str, ...]) -> Any:
        if case.rule == "duplicate-text" and question.widget == "text":
            return copied(question, texts)
        if case.rule == "straight-lining" and question.widget == "scale":
            return 3
        if case.rule in ("gold", "attention", "correlation", "mans") and question.widget not in ("text", "span"):
            low, high = limits(question)
            return low + high - honest(question, texts)
        return honest(question, texts)

    return opinion


class ShiftedClock(Clock):
    """The machine's time and what a test adds to it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    @property
    def time(self) -> float:
        """Seconds since 1970."""
        return time.time() + self.ahead

    @time.setter
    def time(self, value: float) -> None:
        self.ahead += value - self.time


@dataclass(frozen=True)
class Site:
    """A site that answers."""

    address: str
    store: Store
    clock: ShiftedClock
    browser: Browser
    logged_in: list[StorageState] = field(default_factory=list)

    @contextmanager
    def visitor(self, *, may_fail: bool = False, state: StorageState | None = None, **options: Any) -> Iterator[Page]:
        """A browser of its own for one person, without cookies or with those of `state`.

        Its pages may show no error or dialog, and ask nobody. With `may_fail` the site may answer that something is
        wrong, of which Chromium's console always tells.
        """
        context = self.browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT},
            base_url=self.address,
            reduced_motion="reduce",
            storage_state=state,
            **options,
        )
        context.set_default_timeout(60_000)
        context.add_init_script(TELL_VIOLATIONS)
        problems, told = list[str](), list[str]()

        def dismiss(dialog: Dialog) -> None:
            problems.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        def note_foreign(request: Request) -> None:
            if not request.url.startswith(f"{self.address}/"):
                problems.append(f"request: {request.url}")

        try:
            page = context.new_page()
            page.on("console", lambda message: told.append(message.text))
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("dialog", dismiss)
            page.on("request", note_foreign)
            yield page
            problems += [text for text in told if not (may_fail and text.startswith("Failed to load resource"))]
            assert not problems, problems
        finally:
            context.close()

    @contextmanager
    def researcher(self) -> Iterator[Page]:
        """A visitor who is logged in as the researcher; the password is typed the first time only."""
        with self.visitor(state=self.logged_in[0] if self.logged_in else None) as page:
            if not self.logged_in:
                log_in(page)
                self.logged_in.append(page.context.storage_state())
            yield page

    def link(self, study: Study) -> str:
        """A personal link."""
        return f"/r/{sign_link(SECRET, study.name, now=self.clock())}"


@contextmanager
def running_site(database: str | Path, browser: Browser) -> Iterator[Site]:
    """The site over a database, on a port of its own, in a thread; a researcher has a password."""
    clock = ShiftedClock()
    with opened(database, clock) as store, socket.create_server(("127.0.0.1", 0)) as listener:
        store.set_password(RESEARCHER, PASSWORD)
        app = create_app(store, AppSettings(secret=SECRET))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield Site(f"http://127.0.0.1:{listener.getsockname()[1]}", store, clock, browser)
        finally:
            server.should_exit = True
            thread.join(timeout=30)


def log_in(page: Page) -> None:
    """Come in as the researcher."""
    page.goto("/login")
    page.get_by_label("Name").fill(RESEARCHER)
    page.get_by_label("Password").fill(PASSWORD)
    go(page, "Log in")
    assert page.get_by_role("heading", name="Studies").is_visible()


def make_links(page: Page, study: Study, count: int) -> list[str]:
    """Open the dashboard from the list of studies, and make links there."""
    page.goto("/studies")
    page.get_by_role("link", name=study.name, exact=True).click()
    page.get_by_label("Personal links").fill(str(count))
    go(page, "Make links")
    return page.get_by_label("Links", exact=True).input_value().split()


def go(page: Page, button: str) -> None:
    """Press a button that leads to another page."""
    with page.expect_navigation():
        page.get_by_role("button", name=button, exact=True).click()


def go_first(page: Page, button: str) -> None:
    """Press the first of several buttons of this name."""
    with page.expect_navigation():
        page.get_by_role("button", name=button, exact=True).first.click()


def begin(page: Page, link: str) -> None:
    """Open a link and agree."""
    page.goto(link)
    go(page, "I have read this and want to begin")


def with_the_mouse(control: Locator) -> None:
    """Press a control as people do: it is scrolled into view, must lie still, and nothing may cover it."""
    control.click()


def at_once(control: Locator) -> None:
    """Press a control from within the page: the same events, without the wait for the mouse."""
    control.evaluate("(one) => one.click()")


def answer_page(page: Page, form: Form, opinion: Opinion, press: Press = with_the_mouse) -> None:
    """Answer everything that a page asks, by what it shows."""
    asked = {question.prompt: question for question in form.questions}
    cards: Mapping[str, list[str]] = page.evaluate(READ_CARDS)
    for found in page.evaluate(READ_FIELDS):
        name, question, texts = found["name"], asked[found["prompt"]], tuple(found["texts"] or [found["context"]])
        field = page.locator(f"#{name}")
        if question.widget == "ranking":
            labels = [label for label in cards if cards[label]]
            rank(page, name, sorted(labels, key=lambda label: -opinion(question, tuple(cards[label]))), press)
        elif question.among:
            labels = [label for label in cards if label.startswith(("Set ", "Text "))]
            chosen = max(labels, key=lambda label: opinion(question, tuple(cards[label])))
            press(field.get_by_label(chosen, exact=True))
        elif question.widget == "span":
            mark(page, name, opinion(question, texts), press)
        elif question.widget in ("scale", "choice"):
            press(field.locator(f"input[name={name}][value='{opinion(question, texts)}']"))
        else:
            field.locator(f"[name={name}]").fill(str(opinion(question, texts)))


def rank(page: Page, name: str, order: Sequence[str], press: Press) -> None:
    """Bring the texts into an order, with the buttons."""
    rows = page.locator(f"#{name} [data-ranking] b")
    for place, label in enumerate(order):
        for _ in range(rows.all_text_contents().index(label) - place):
            press(page.get_by_role("button", name=f"Move {label} up", exact=True))
    press(page.get_by_role("button", name="This order is right"))
    assert rows.all_text_contents() == list(order)


def mark(page: Page, name: str, kinds: Sequence[str], press: Press) -> None:
    """Mark single words that do not touch, each with a kind; or say that there are none."""
    field = page.locator(f"#{name}")
    if not kinds:
        press(field.get_by_label("There is nothing to mark"))
    for place, kind in enumerate(kinds):
        press(field.locator(".word").nth(2 * place))
        press(field.locator(f".kinds input[value={kind}]"))
        press(field.get_by_role("button", name="Mark the ticked words"))
        field.locator("[data-marks] li").nth(place).wait_for()


def hand_in(page: Page, form: Form, opinion: Opinion, press: Press = with_the_mouse) -> None:
    """Answer a task, page by page."""
    for _ in form.steps[1:]:
        answer_page(page, form, opinion, press)
        go(page, "Save and go on")
    answer_page(page, form, opinion, press)
    go(page, "Hand in this task")


def work(
    page: Page,
    form: Form,
    opinion: Opinion,
    press: Press = with_the_mouse,
    before_handing_in: Callable[[], None] = lambda: None,
) -> int:
    """Do tasks until there are none, or until the work is refused; how many."""
    done = 0
    while page.locator("form[data-api]").count():
        before_handing_in()
        hand_in(page, form, opinion, press)
        done += 1
    return done


def require_accessible(page: Page) -> None:
    """No serious problem that axe finds, in light and dark, and no sideways scrolling on a phone."""
    page.evaluate(AXE)
    for scheme, rules in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(f"axe.run({{resultTypes: ['violations']{rules}}})")["violations"]
        bad = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
        assert not bad, (page.url, scheme, bad)
    page.set_viewport_size({"width": PHONE, "height": HEIGHT})
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    assert wide <= PHONE, f"{page.url} is {wide} wide"


def picture(page: Page, name: str, folder: Path) -> None:
    """A picture of the page for the documentation; it is kept there where `NLGAUGE_PICTURES` is set."""
    folder = FIGURES if os.environ.get("NLGAUGE_PICTURES") else folder
    folder.mkdir(exist_ok=True)
    target = folder / f"annotate-{name}.png"
    page.evaluate(
        """() => { document.querySelectorAll("details").forEach((one) => (one.open = false)); scrollTo(0, 0); }"""
    )
    page.screenshot(path=target)
    size = target.stat().st_size
    assert 5_000 < size < LARGEST_PICTURE, (target, size)


def tab_to(page: Page, selector: str, *, key: str = "Tab") -> None:
    """Press a key until the focus is where it should be."""
    for _ in range(200):
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press(key)
    pytest.fail(f"{selector} cannot be reached with {key}")


def press_to_go(page: Page, selector: str) -> None:
    """Reach a button with the keyboard and press it."""
    tab_to(page, selector)
    with page.expect_navigation():
        page.keyboard.press("Enter")
