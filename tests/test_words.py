"""The glossary's banned phrases occur nowhere: sources, docs and README are in plain technical English."""

from __future__ import annotations

import re
import subprocess
from itertools import takewhile

import pytest

from tests.conftest import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
OLD_NAMES = {("src/nlgauge/configured.py", "ratings_a_set")}  # an option that still works under this name


def banned() -> list[tuple[str, str]]:
    lines = iter(GLOSSARY.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line == "```text":
            break
    found = [line.partition("  -> ") for line in takewhile("```".__ne__, lines)]
    return [(pattern, instead) for pattern, _, instead in found]


def checked_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "src", "docs", "README.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    endings = (".py", ".md", ".toml", ".html", ".ipynb")
    return [name for name in listed if name.endswith(endings) and name != "docs/glossary.md"]


def test_the_glossary_lists_phrases_with_what_to_write_instead() -> None:
    assert len(banned()) > 20
    for pattern, instead in banned():
        re.compile(pattern)
        assert instead, pattern


@pytest.mark.parametrize(("pattern", "instead"), banned())
def test_no_banned_phrase_occurs(pattern: str, instead: str) -> None:
    expression, found = re.compile(pattern), []
    for name in checked_files():
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), start=1):
            if (match := expression.search(line)) and (name, match[0]) not in OLD_NAMES:
                found.append(f"{name}:{number}: '{match[0]}'; write: {instead}")
    assert not found, "\n".join(found)
