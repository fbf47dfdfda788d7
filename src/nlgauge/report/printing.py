"""A page as PDF, printed by Chromium."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from nlgauge.errors import MissingExtra, OutputError, argument

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_SECONDS = 120
_DRAWING = 20_000


def find_browser() -> str:
    """The browser that prints; raises an error if none is installed."""
    for name in BROWSERS:
        if place := shutil.which(name):
            return place
    raise MissingExtra(
        f"a PDF is printed by a browser, and none of {', '.join(BROWSERS)} was found; install Chromium, or use "
        f"{argument('format', 'html')} and print the page from any browser"
    )


def print_page(page: str) -> bytes:
    """The page as PDF; the browser has no network, a temporary profile, and a time limit."""
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="nlgauge-") as folder:
        work = Path(folder)
        source, target = work / "report.html", work / "report.pdf"
        source.write_text(page, encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={work / 'profile'}",
            f"--virtual-time-budget={_DRAWING}",
            "--no-pdf-header-footer",
            f"--print-to-pdf={target}",
            source.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise OutputError(
                f"{browser} printed nothing within {_SECONDS} seconds; use {argument('format', 'html')}"
            ) from error
        if done.returncode or not target.exists():
            lines = done.stderr.strip().splitlines()
            raise OutputError(
                f"{browser} could not print the page ({lines[-1] if lines else f'exit code {done.returncode}'}); use "
                f"{argument('format', 'html')} and print it yourself"
            )
        return target.read_bytes()
