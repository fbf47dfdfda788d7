"""The report card, in a real browser."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from nlgauge.cli.main import app

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHEAP = ("-m", "distinct", "-m", "cos-sim", "-m", "self-bleu", "-m", "ead")
TELL_VIOLATIONS = """addEventListener("securitypolicyviolation",
  (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));"""
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "</script><script>window.hacked = 3</script>",
    "{{ 7 * 7 }} ${7*7} <!-- <svg onload=window.hacked=4>",
    "\u202eright to left\u202c שלום \x00 nul \u2028 line",
    "x " * 500_000,
]
COLUMN = """(place) => [...document.querySelectorAll("#form table.scores tbody tr")]
  .map((row) => row.children[place].innerText.split("\\n")[0])"""


def write_report(output: Path, *arguments: str | Path) -> None:
    done = CliRunner().invoke(app, ["report", *map(str, arguments), "-o", str(output)], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def open_report(browser: Browser, file: Path, problems: list[str], scheme: str = "light") -> Page:
    page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
    page.add_init_script(TELL_VIOLATIONS)
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if request.url == file.as_uri() else problems.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-drawn=yes]", timeout=60_000)
    return page


@pytest.fixture(scope="module")
def report(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on the two example systems, by metrics that need no model."""
    output = tmp_path_factory.mktemp("report") / "report.html"
    write_report(output, examples / "system_a.jsonl", examples / "system_b.jsonl", *CHEAP)
    return output


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_draws_its_charts_and_loads_nothing(browser: Browser, report: Path, scheme: str) -> None:
    problems = list[str]()
    page = open_report(browser, report, problems, scheme)
    names = page.evaluate("[...document.querySelectorAll('.chart')].map((chart) => chart.id)")
    assert names == [
        f"chart-{name}" for name in ("values-form", "values-repetition", "distribution", "pairs", "length")
    ]
    assert page.evaluate("[...document.querySelectorAll('.chart')].every((chart) => chart.querySelector('svg path'))")
    assert page.locator("#chart-pairs svg path").count() > 40
    assert "b is more varied in form than a by distinct and self-bleu." in page.inner_text("#summary")
    assert "No significant difference by cos-sim." in page.inner_text("#summary")
    assert "0.7141" in page.inner_text("#form")
    page.select_option("#chart-distribution select", "self-bleu")
    assert problems == []
    page.close()


def test_every_metric_has_its_evidence_and_its_signature(browser: Browser, report: Path) -> None:
    page = open_report(browser, report, [])
    page.click("#form details.about:first-of-type summary")
    shown = page.inner_text("#form details.about:first-of-type")
    assert "distinct|n:1-5|over:set" in shown
    assert "McDiv nuggets story, wording held fixed" in shown
    assert "does not tell high from low content diversity" in shown
    assert "such a test shows differences of" in shown
    page.close()


def test_tables_are_sorted_by_mouse_and_by_keyboard(browser: Browser, report: Path) -> None:
    page = open_report(browser, report, [])
    heading = page.locator("#form table.scores th").nth(1)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert page.evaluate(COLUMN, 0) == ["cos-sim", "self-bleu", "distinct"]
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert page.evaluate(COLUMN, 0) == ["distinct", "self-bleu", "cos-sim"]
    page.locator("#form table.scores th").nth(0).locator("button").click()
    assert page.evaluate(COLUMN, 0) == ["cos-sim", "distinct", "self-bleu"]
    assert heading.get_attribute("aria-sort") is None
    page.close()


def test_examples_are_searched_and_ordered(browser: Browser, report: Path) -> None:
    page = open_report(browser, report, [])
    assert page.inner_text("#found") == "45 of 45 contexts, the first 10 shown"
    page.click("#more")
    assert page.locator("#found-examples .example").count() == 45
    page.fill("#search", "DRIVING test")
    assert page.inner_text("#found") == "1 of 45 contexts"
    assert page.inner_text("#found-examples mark >> nth=0") == "driving test"
    page.fill("#search", "nothing has this")
    assert page.inner_text("#found") == "0 of 45 contexts"
    page.fill("#search", "")
    page.select_option("#order", label="lowest distinct")
    lowest = page.inner_text("#found-examples .example >> nth=0")
    page.select_option("#order", label="highest distinct")
    assert page.inner_text("#found-examples .example >> nth=0") != lowest
    page.close()


def test_dark_and_light_differ_and_print_is_white(browser: Browser, report: Path) -> None:
    look = "() => { const of = getComputedStyle(document.body); return [of.backgroundColor, of.color]; }"
    light, dark = (open_report(browser, report, [], scheme) for scheme in ("light", "dark"))
    assert light.evaluate(look) == ["rgb(251, 252, 253)", "rgb(24, 32, 43)"]
    assert dark.evaluate(look) == ["rgb(18, 22, 27)", "rgb(231, 235, 241)"]
    dark.emulate_media(media="print", color_scheme="dark")
    assert dark.evaluate(look) == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    assert not dark.is_visible("nav")
    assert not dark.is_visible("#explore")
    assert dark.evaluate("getComputedStyle(document.querySelector('.chart svg text')).fill") == "rgb(68, 68, 68)"
    dark.set_viewport_size({"width": 720, "height": 1000})
    assert dark.locator("table").count() > 2
    assert dark.evaluate("[...document.querySelectorAll('table')].filter(t => t.scrollWidth > 720).length") == 0
    light.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert light.locator("details:not([open])").count() == 0
    light.evaluate("dispatchEvent(new Event('afterprint'))")
    assert light.locator("details[open]").count() == 0
    light.close()
    dark.close()


def test_hostile_output_is_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for file in files:
        rows = [
            {
                "id": f"<b>{i}</b>\u202e\x00",
                "context": text,
                "system": f"<i>{file.stem}</i>\u202e\x00",
                "responses": [text, HOSTILE[i - 1]],
                "<u>rating</u>": i,
            }
            for i, text in enumerate(HOSTILE)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output, problems = tmp_path / "report.html", list[str]()
    write_report(output, *files, *CHEAP, "--column", "<u>rating</u>")
    page = open_report(browser, output, problems)
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("i, u, img, td script, b b, main script").count() == 0
    page.fill("#search", "window.hacked = 1")
    assert "<script>window.hacked = 1</script>" in page.inner_text("#found-examples")
    assert "<i>one</i>⟨U+202E⟩␀" in page.inner_text("header")
    shown = page.inner_text("body")
    assert "(1,000,000 characters)" in shown
    assert "\u202e" not in shown
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert problems == []
    assert output.stat().st_size < 5_000_000
    page.close()


def test_one_system_without_contexts_or_comparison(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "alone.jsonl"
    file.write_text("".join(json.dumps({"responses": [f"a {i}", "b"]}) + "\n" for i in range(5)))
    output, problems = tmp_path / "report.html", list[str]()
    write_report(output, file, *CHEAP)
    page = open_report(browser, output, problems)
    assert "Name a second file" in page.inner_text("#summary")
    assert page.locator("#chart-pairs").count() == 0
    assert page.locator("#chart-distribution svg").count() == 1
    assert problems == []
    page.close()


def test_quality_and_diversity_share_a_plane_where_there_are_references(browser: Browser, tmp_path: Path) -> None:
    for name, ending in (("close", "sat down"), ("far", "went away then")):
        rows = [
            {"id": str(i), "text": f"the cat {i} {ending}", "references": [f"the cat {i} sat down there"]}
            for i in range(12)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output, problems = tmp_path / "report.html", list[str]()
    write_report(output, tmp_path / "close.jsonl", tmp_path / "far.jsonl")
    page = open_report(browser, output, problems)
    assert "far is worse in quality than close by bleu and rouge-l." in page.inner_text("#summary")
    assert page.locator("#chart-plane select").count() == 2
    page.locator("#chart-plane select").nth(0).select_option("rouge-l")
    assert page.locator("#chart-plane svg .mark-symbol.role-mark path").count() == 2
    assert "Best and worst contexts by bleu" in page.inner_text("#examples")
    assert "with other settings" in page.inner_text("#repetition")
    assert problems == []
    page.close()


def test_two_systems_on_200_contexts_make_a_small_page_that_opens_fast(browser: Browser, tmp_path: Path) -> None:
    words = [f"word{i}" for i in range(400)]
    for name, breadth in (("narrow", 60), ("wide", 400)):
        draw = random.Random(name)
        rows: list[dict[str, Any]] = [
            {
                "id": f"q{i}",
                "context": f"Question {i}: " + " ".join(random.Random(i).choices(words, k=30)),
                "responses": [" ".join(draw.choices(words[:breadth], k=20)) for _ in range(10)],
            }
            for i in range(200)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output, problems = tmp_path / "report.html", list[str]()
    write_report(output, tmp_path / "narrow.jsonl", tmp_path / "wide.jsonl", *CHEAP)
    assert output.stat().st_size < 5_000_000
    page = browser.new_page()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(output.as_uri())
    page.wait_for_selector("body[data-drawn=yes]", timeout=60_000)
    spent = {entry["name"]: entry["value"] for entry in session.send("Performance.getMetrics")["metrics"]}
    assert spent["TaskDuration"] < 2
    assert "200 of 200 contexts" in page.inner_text("#found")
    assert problems == []
    page.close()


def test_responses_are_grouped_by_meaning_where_an_encoder_was_used(
    browser: Browser, examples: Path, tmp_path: Path, minilm: str
) -> None:
    output, problems = tmp_path / "report.html", list[str]()
    write_report(output, examples / "system_a.jsonl", examples / "system_b.jsonl", "-m", f"sent-sim:model={minilm}")
    page = open_report(browser, output, problems)
    assert page.locator("#chart-meanings svg path").count() > 4
    groups = page.evaluate("[...document.querySelectorAll('#least .group')].map((group) => group.textContent)")
    assert groups.count("1") > len(groups) / 2
    assert "Only wording was measured" not in page.inner_text("body")
    assert problems == []
    page.close()
