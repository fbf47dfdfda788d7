"""Every example in the README and the docs runs and prints what it says."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
# Parts of the example of a plugin, which is installed here: pages other than its own list those of NLGauge alone.
PLUGGED = re.compile(r"^(openings|surprise) .*\n?", re.M)
CONSOLE = re.compile(r"```console\n(.*?)```", re.S)
PYTHON = re.compile(r"```python\n(.*?)```", re.S)


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text()):
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, expected = part.partition("\n")
                found.append((command, expected.rstrip("\n")))
    return found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout as a folder of links, without what earlier commands of the docs have left in `demo`."""
    folder = tmp_path_factory.mktemp("checkout")
    for entry in ROOT.iterdir():
        if entry.name != "demo":
            (folder / entry.name).symlink_to(entry)
    (folder / "demo").mkdir()
    return folder


@pytest.mark.parametrize(("command", "expected"), commands())
def test_a_command_in_the_docs_prints_what_the_docs_say(command: str, expected: str, checkout: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["bash", "-c", command], cwd=checkout, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout if PLUGGED.search(expected) else PLUGGED.sub("", done.stdout)
    pattern = re.escape(expected).replace(r"\.\.\.", ".*")
    assert re.fullmatch(pattern, printed.rstrip("\n"), re.S), done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON.search(page.read_text())], ids=lambda p: p.name)
def test_python_in_the_docs_runs(page: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    for block in PYTHON.findall(page.read_text()):
        runner.run(parser.get_doctest(block, {}, page.name, str(page), 0))
    assert runner.summarize(verbose=False).failed == 0


def test_docstrings_run() -> None:
    import nlgauge.scoring.scoring
    import nlgauge.signature

    for module in (nlgauge.scoring.scoring, nlgauge.signature):
        result = doctest.testmod(module)
        assert result.attempted
        assert not result.failed


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
