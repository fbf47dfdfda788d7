"""The word tables that come with NLGauge, as TOML files in the folder `tables`."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from nlgauge.text.words import word_set


@cache
def table(name: str) -> dict[str, Any]:
    """A table by the name of its file."""
    file = resources.files("nlgauge.perturb.resources") / "tables" / f"{name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def word_sets(name: str) -> dict[str, frozenset[str]]:
    """The sets of words of a table: its entries of words separated by spaces."""
    return {key: word_set(entry) for key, entry in table(name).items() if isinstance(entry, str)}


@cache
def word_pairs(name: str, key: str) -> dict[str, list[tuple[str, str]]]:
    """The pairs of an entry, by word class; they are written `old:new`, separated by spaces."""
    return {
        word_class: [(old, new) for old, _, new in (pair.partition(":") for pair in pairs.split())]
        for word_class, pairs in table(name)[key].items()
    }
