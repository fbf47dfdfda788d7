"""The site of the docs builds, is whole, and what it shows is what the code says."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

import nlgauge
from nlgauge.cli.main import COMMANDS, app
from nlgauge.metrics.registry import _BUILT_IN
from tests.conftest import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
LARGEST_NOTEBOOK = 200_000


class _Links(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("link", "img", "script") and (place := given.get("href") or given.get("src")):
            self.loaded.append(place)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Links]:
    return {page: _Links(page) for page in site.rglob("*.html") if page.name != "404.html"}


def test_every_page_of_the_docs_is_on_the_site(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").is_file(), page


def test_every_link_of_the_site_leads_somewhere(pages: dict[Path, _Links]) -> None:
    followed = 0
    for page, found in pages.items():
        for link in [*found.links, *found.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.is_file(), f"{page.name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{page.name}: {link}"
            followed += 1
    assert followed > 1000


def test_pages_open_from_disk_and_load_nothing_from_elsewhere(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    for name in ("index", "reference/commands", "questions/which-metric"):
        page.goto((site / f"{name}.html").as_uri())
        page.wait_for_load_state("networkidle")
        assert page.locator("h1").is_visible()
    assert asked
    assert not [place for place in asked if not place.startswith(("file:", "data:"))]
    assert not complaints
    page.close()


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    shown = _text(site / "reference" / "commands.html")
    for name in COMMANDS:
        assert f"nlgauge {name}" in shown
        printed = CliRunner().invoke(app, [name, "--help"]).output
        words = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", printed, re.M)) - {"--help"}
        assert not [word for word in words if word not in shown], name
    for example in (
        "nlgauge study huse crowd_export.csv --report huse.html --errors errors.csv",
        "nlgauge models rm minilm",
    ):
        assert example in shown


def test_every_public_name_and_every_metric_is_in_the_reference(site: Path) -> None:
    shown = (site / "reference" / "python.html").read_text(encoding="utf-8")
    named = re.findall(r"<h3 id=[^>]+><code>(\w+)</code>", shown)
    assert not set(nlgauge.__all__) - set(named)
    assert not set(_BUILT_IN) - _Links(site / "reference" / "metrics.html").anchors


def test_the_gallery_has_every_picture() -> None:
    shown = set(re.findall(r"!\[[^]]+\]\(([^)]+)\)", (DOCS / "gallery.md").read_text()))
    assert shown == {str(picture.relative_to(DOCS)) for picture in DOCS.rglob("*.png")}


def test_pages_show_their_files_as_they_are() -> None:
    checked = set()
    for page in (DOCS / "extend").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"`(examples/plugin/src/[\w/]+\.(?:py|toml))`", text):
            fence = name.rpartition(".")[2]
            assert f"```{fence}\n{(ROOT / name).read_text(encoding='utf-8')}```" in text, name
            checked.add(ROOT / name)
    package = ROOT / "examples" / "plugin" / "src" / "nlgauge_example"
    assert checked == {file for file in package.iterdir() if file.suffix in (".py", ".toml")} - {
        package / "__init__.py"
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_shows(path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    assert path.stat().st_size < LARGEST_NOTEBOOK
    shown = json.loads(path.read_text(encoding="utf-8"))
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}})
    with ThreadPoolExecutor(1) as apart:  # a browser's event loop may occupy this thread
        apart.submit(asyncio.run, client.async_execute()).result()
    assert [_outputs(cell) for cell in notebook["cells"]] == [_outputs(cell) for cell in shown["cells"]]
    assert sum(bool(_outputs(cell)) for cell in shown["cells"]) > 4


def _outputs(cell: Any) -> str:
    """What a cell printed, whole: it arrives in pieces."""
    return "".join("".join(output["text"]) for output in cell.get("outputs", ()))


def _text(page: Path) -> str:
    """The words of a page, without its tags."""
    import html

    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))
