"""Robustness to typos: two characters swapped, one repeated or one left out (paper 4, Table 2)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from nlgauge.configured import option
from nlgauge.perturb.base import Edit, Kind, Outcome, PerturbationOfShare, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.word_tables import word_sets
from nlgauge.perturb.story import Story

_CHUNK = re.compile(r"\S+")
_WORD = re.compile(r"[\"“‘'(*_]*(?P<letters>[A-Za-zÀ-ÖØ-öø-ɏ]{4,})[.,!?;:)\"”’'*_…]*")
_HAS_LETTER = re.compile(r"[^\W\d_]")
_SHORTEST_TO_DELETE = 5
TECHNIQUES = {"swap": 50, "repeat": 25, "delete": 25}
_REAL_WORDS = word_sets("typos")["real_words"]


@dataclass(frozen=True, kw_only=True)
class Typos(PerturbationOfShare):
    """Misspell under 2% of words: half of the typos swap two neighbouring characters, the others repeat or drop one.

    A text of fewer words gets a single typo. Words have at least four letters and keep their first and last one; those
    without a capital come first, so that names stay readable. Masked names, links and markup stay unchanged.
    """

    share: float = option(0.02, "Share of the words that are misspelled.")

    name: ClassVar[str] = "typos"
    kind: ClassVar[Kind] = "robustness"
    paper: ClassVar[str] = "Guan et al. 2021 (OpenMEVA), Table 2"
    filtered: ClassVar[bool] = False

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Misspell as many words as the share allows."""
        chunks = [chunk for chunk in _CHUNK.finditer(story.text) if _HAS_LETTER.search(chunk[0])]
        words = [
            (chunk.start() + found.start("letters"), found["letters"])
            for chunk in chunks
            if (found := _WORD.fullmatch(chunk[0]))
        ]
        plain = [word for word in words if word[1].islower()]
        others = [word for word in words if not word[1].islower()]
        draw.shuffle(plain)
        draw.shuffle(others)
        waiting, usable = [*others, *plain], dict(TECHNIQUES)
        edits, rules = list[Edit](), list[str]()
        while usable and len(edits) < max(1, ceil(round(self.share * len(chunks), 9)) - 1):
            rule = draw.choices(list(usable), list(usable.values()))[0]
            if (edit := _typo(waiting, rule, draw)) is None:
                del usable[rule]
            else:
                edits.append(edit)
                rules.append(rule)
        if not edits:
            return Unchanged("no word of four letters or more that a typo would not turn into another word")
        return edited(story.text, edits, "+".join(rule for rule in TECHNIQUES if rule in rules))


def _typo(waiting: list[tuple[int, str]], rule: str, draw: random.Random) -> Edit | None:
    """A typo in the last of the waiting words that the technique misspells; that word is removed from the list."""
    for place in reversed(range(len(waiting))):
        start, word = waiting[place]
        misspelled = ((edit, word[: edit.start] + edit.new + word[edit.end :]) for edit in _edits(word, rule))
        if edits := [edit for edit, typed in misspelled if typed.lower() not in _REAL_WORDS]:
            del waiting[place]
            chosen = draw.choice(edits)
            return Edit(start + chosen.start, start + chosen.end, chosen.new)
    return None


def _edits(word: str, rule: str) -> Iterator[Edit]:
    """All edits of a technique inside a word."""
    for place in range(1, len(word) - 1):
        letter, following = word[place], word[place + 1]
        if rule == "swap" and place < len(word) - 2 and letter.lower() != following.lower():
            yield Edit(place, place + 2, following + letter)
        elif rule == "repeat":
            yield Edit(place, place, letter)
        elif rule == "delete" and len(word) >= _SHORTEST_TO_DELETE:
            yield Edit(place, place + 1, "")
