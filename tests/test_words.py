"""The glossary's banned phrases occur nowhere: sources, docs and README are in plain technical English."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from itertools import takewhile

import pytest

from tests.conftest import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "examples", "papers", "benchmarks", "src"]
OLD_NAMES = {  # an option that still works under this name, and words that the changelog says are gone
    ("src/nlgauge/configured.py", "ratings_a_set"),
    ("CHANGELOG.md", "told apart"),
    ("CHANGELOG.md", "told from"),
}
_MANY = r"(?:two|three|four|five|six|seven|eight|nine|ten|\d[\d,.]*)"
_UNIT = r"an? (?!(?:and|few|little|lot)\b)[a-z-]+"
PER = re.compile(
    rf"\bone (?:[a-z-]+ )?(?P<one>[a-z-]*[a-rt-z]) {_UNIT}|\b{_MANY} (?:[a-z-]*[a-rt-z] )?(?P<more>[a-z-]+s) {_UNIT}",
    re.IGNORECASE,
)
NOT_A_NOUN = re.compile(
    "a|about|above|after|all|an|and|another|any|are|as|asks|at|be|because|before|behind|below|between|but|by|can|did|do|"
    "for|from|gives|gets|had|has|have|how|if|in|inside|into|is|it|its|lacks|less|like|makes|means|more|names|nor|not|of|"
    "on|only|or|other|over|per|reads|says|sees|share|shows|since|so|takes|than|that|the|to|under|until|uses|was|were|"
    "what|when|where|which|while|who|with|within|without|writes",
    re.IGNORECASE,
)


def banned() -> list[tuple[str, str]]:
    lines = iter(GLOSSARY.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line == "```text":
            break
    found = [line.partition("  -> ") for line in takewhile("```".__ne__, lines)]
    return [(pattern, instead) for pattern, _, instead in found]


@cache
def checked_files() -> dict[str, str]:
    """The texts by name, without line breaks inside paragraphs, which would hide phrases."""
    listed = subprocess.run(["git", "ls-files", *PAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    endings = (".py", ".md", ".toml", ".html", ".ipynb")
    names = [name for name in listed.stdout.split() if name.endswith(endings) and name != "docs/glossary.md"]
    return {name: joined((ROOT / name).read_text(encoding="utf-8")) for name in names}


def joined(text: str) -> str:
    return re.sub(r"[^\S\n]*\n[^\S\n]*(?:[#>*-] )?(?=\S)", " ", text)


def said_per(text: str) -> list[str]:
    """Phrases such as `one value a set`."""
    return [found[0] for found in PER.finditer(text) if not NOT_A_NOUN.fullmatch(found["one"] or found["more"])]


def test_the_glossary_lists_phrases_with_what_to_write_instead() -> None:
    assert len(banned()) > 20
    for pattern, instead in banned():
        re.compile(pattern)
        assert instead, pattern


@pytest.mark.parametrize(("pattern", "instead"), banned())
def test_no_banned_phrase_occurs(pattern: str, instead: str) -> None:
    found = [
        f"{name}: '{match[0]}'; write: {instead}"
        for name, text in checked_files().items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
        if (name, match[0]) not in OLD_NAMES
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "phrase", ["one value a set", "One look-up\n  an n-gram", "76 bits an n-gram", "10 pairs a\n# set"]
)
def test_a_number_per_thing_is_found(phrase: str) -> None:
    assert len(said_per(joined(f"It has {phrase}, or more."))) == 1


def test_numbers_per_thing_are_said_with_per() -> None:
    found = {name: phrases for name, text in checked_files().items() if (phrases := said_per(text))}
    assert not found
