"""The report card, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from nlgauge.cli.main import app
from nlgauge.metrics.comparison import Comparison
from nlgauge.report.card import summarise

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "</script><script>window.hacked = 3</script>",
    "{{ 7 * 7 }} ${7*7} <!-- <svg onload=window.hacked=4>",
    "\u202eright to left\u202c שלום \x00 nul \u2028 line",
    "x" * 100_000,
]


def write_report(output: Path, *files: Path) -> None:
    done = CliRunner().invoke(app, ["report", *map(str, files), "-o", str(output)], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def open_report(browser: Browser, file: Path, problems: list[str], scheme: str = "light") -> Page:
    page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if request.url == file.as_uri() else problems.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-drawn=yes]", timeout=20_000)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_draws_its_charts_and_loads_nothing(
    browser: Browser, examples: Path, tmp_path: Path, scheme: str
) -> None:
    output, problems = tmp_path / "report.html", list[str]()
    write_report(output, examples / "system_a.jsonl", examples / "system_b.jsonl")
    page = open_report(browser, output, problems, scheme)
    assert page.locator("svg").count() == 3
    assert page.locator("#chart-intervals svg path").count() > 10
    assert page.locator("#chart-pairs svg path").count() > 40
    assert "b is more diverse than a by distinct" in page.inner_text("#summary")
    assert "0.7141" in page.inner_text("#scores")
    assert "distinct|n:1-5|over:set" in page.inner_text("#scores")
    page.select_option("#chart-distribution select", "self-bleu")
    assert problems == []
    assert output.stat().st_size < 5_000_000


def test_hostile_output_is_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for file in files:
        rows = [
            {"id": f"<b>{i}</b>", "context": text, "system": f"<i>{file.stem}</i>", "responses": [text, HOSTILE[i - 1]]}
            for i, text in enumerate(HOSTILE)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output, problems = tmp_path / "report.html", list[str]()
    write_report(output, *files)
    page = open_report(browser, output, problems)
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("i, b b, img, td script").count() == 0
    assert "<script>window.hacked = 1</script>" in page.inner_text("body")
    assert problems == []


def test_one_system_without_contexts_or_comparison(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "alone.jsonl"
    file.write_text("".join(json.dumps({"responses": [f"a {i}", "b"]}) + "\n" for i in range(5)))
    output, problems = tmp_path / "report.html", list[str]()
    write_report(output, file)
    page = open_report(browser, output, problems)
    assert page.locator("#summary").count() == 0
    assert page.locator("svg").count() == 2
    assert problems == []


def test_the_summary_says_what_the_tests_say() -> None:
    def made(metric: str, difference: float, p: float, higher: str) -> Comparison:
        return Comparison(metric, metric, "a", "b", difference, (0, 0), p, 9, higher, "", p)  # type: ignore[arg-type]

    found = summarise(
        [
            made("up", 0.2, 0.01, "more diverse"),
            made("inverse", 0.2, 0.01, "less diverse"),
            made("unsure", 0.2, 0.06, "more diverse"),
            made("fluency", -3.0, 0.01, "better"),
        ],
        ["a", "b"],
    )
    assert found == [
        "b is more diverse than a by up.",
        "b is less diverse than a by inverse.",
        "b is worse than a by fluency.",
        "No significant difference between b and a by unsure.",
    ]
