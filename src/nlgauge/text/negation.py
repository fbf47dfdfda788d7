"""Negation altered by rules: "not" or "n't" put after an auxiliary, or taken away from it."""

from __future__ import annotations

import re
from typing import NamedTuple

from nlgauge.text.words import AUXILIARIES, PARTICIPLES

_HAVE = frozenset(("has", "have", "had"))
_NEVER_SHORT = frozenset(("am", "may", "might", "shall"))
_SHORT = {word: f"{word}n't" for word in AUXILIARIES - _NEVER_SHORT} | {"can": "can't", "will": "won't"}
_FULL = {short: word for word, short in _SHORT.items()} | {"cannot": "can", "shan't": "shall", "mightn't": "might"}
_APART = re.compile(r"(?<= )n ' ?t(?= )")


class Alteration(NamedTuple):
    """A sentence with one negation more (`insert`) or less (`delete`)."""

    sentence: str
    kind: str


def alterations(sentence: str) -> list[Alteration]:
    """Every way to add a negation to a sentence (as "not" and as "n't"), or to take one away, left to right.

    "has", "have" and "had" count only before a participle. In tokenised text "n't" is a token.
    """
    words = _APART.sub("n't", sentence.replace("’", "'")).split()
    tokenised = words[-1:] in ([["."], ["!"], ["?"]])
    found: list[Alteration] = []
    for place, word in enumerate(words):
        plain = word.lower()
        following = words[place + 1].lower().rstrip(".,;!?") if place + 1 < len(words) else ""
        ways: list[tuple[list[str], int, str]] = []  # new words, number of words that they replace, kind
        if plain in _FULL:
            ways = [([_FULL[plain]], 1, "delete")]
        elif plain in AUXILIARIES and following == "not":
            ways = [([plain], 2, "delete")]
        elif following == "n't" and f"{plain}n't" in _FULL:
            ways = [([_FULL[f"{plain}n't"]], 2, "delete")]
        elif plain in AUXILIARIES and (plain not in _HAVE or following.endswith("ed") or following in PARTICIPLES):
            ways = [([plain, "not"], 1, "insert")]
            if plain in _SHORT:
                short = _SHORT[plain]
                ways.append(([short[:-3], "n't"] if tokenised else [short], 1, "insert"))
        for instead, count, kind in ways:
            if word[0].isupper():
                instead[0] = instead[0].capitalize()
            found.append(Alteration(" ".join([*words[:place], *instead, *words[place + count :]]), kind))
    return found
