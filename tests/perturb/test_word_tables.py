"""The word tables in TOML: every set that the code names is there, and no set is left over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nlgauge.perturb.resources.word_tables import word_sets
from nlgauge.text.words import word_set
from tests.conftest import ROOT

SOURCES = [
    file
    for folder in ("aspects", "resources")
    for file in sorted((ROOT / "src" / "nlgauge" / "perturb" / folder).glob("*.py"))
    if "= word_sets(" in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.stem)
def test_code_and_table_name_the_same_sets(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    (name,) = re.findall(r'word_sets\("(\w+)"\)', source)
    assert {*re.findall(r'(?:_WORDS|word_sets\("\w+"\))\["(\w+)"\]', source)} == {*word_sets(name)}


def test_words_are_separated_by_any_white_space() -> None:
    assert word_sets("contractions")["singular"] == word_set("he she it")
    assert {"sorry", "lost"} <= word_sets("contractions")["adjectives"]
