"""Sentences and words by rules and small tables, without a tagger or a parser."""

from __future__ import annotations

import re
from typing import NamedTuple


def word_set(words: str) -> frozenset[str]:
    """The words of a line."""
    return frozenset(words.split())


_BREAK = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+|\n\s*\n\s*")
_ABBREVIATIONS = word_set(
    "mr. mrs. ms. dr. st. prof. sgt. lt. capt. gen. jr. sr. vs. etc. e.g. i.e. a.m. p.m. u.s. mt."
)
_INITIAL = re.compile(r"[A-Z]\.")
_LETTER = re.compile(r"\w")
_KEYWORD = re.compile(r"(?<![\w\[])[A-Za-z][a-z]{2,}(?![\w\]'’])")

_DETERMINERS = word_set("a an the this that these those my your his her its our their some any no every each")
_SUBJECTS = word_set("i you he she it we they who to")
_PREPOSITIONS = word_set(
    "of in on at by for with from into onto about over under after before through across near between behind up down "
    "out off around during until without against toward towards"
)
AUXILIARIES = word_set("is are was were do does did can could will would should must might may has have had am shall")
_OTHERS = word_set(
    "and or but so because if when while then than as not never also too very just only even still again there here "
    "what which where why how him them us me mine yours hers ours theirs himself herself itself myself yourself "
    "themselves ourselves all both more most much many few one two three be been being having doing it's"
)
FUNCTION_WORDS = _DETERMINERS | _SUBJECTS | _PREPOSITIONS | AUXILIARIES | _OTHERS
PARTICIPLES = word_set(
    "been gone done made found lost taken given seen known bought brought come become begun broken chosen eaten fallen "
    "felt forgotten gotten got grown heard held hidden kept left met paid put read run said sent slept sold spent "
    "spoken stolen taught thought thrown told understood won worn written driven flown hurt"
)
_ENDINGS = ("ing", "ed", "ly", "s")


class Keyword(NamedTuple):
    """A word that carries meaning: its position in the sentence, and its approximate class."""

    start: int
    end: int
    kind: str


def one_line(text: str) -> str:
    """A text with single spaces between its words."""
    return " ".join(text.split())


def sentences(text: str) -> list[str]:
    """The sentences of a text, tokenised or not, with single spaces between their words."""
    line = one_line(text)
    return [line[start:end] for start, end in sentence_spans(line)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text begin and end; parts without a letter or digit stay with the sentence before.

    A full stop after a title, a common abbreviation or an initial does not end a sentence, nor does a closing quotation
    mark before a lower-case letter ("Stop!" he said); an empty line does.
    """
    found: list[tuple[int, int]] = []
    start = len(text) - len(text.lstrip())
    for gap in [*_BREAK.finditer(text), None]:
        end = len(text) if gap is None else gap.end()
        part = text[start:end].rstrip()
        last = part.split()[-1] if part else ""
        if gap is not None and gap[0].count("\n") < 2:
            quoted = gap[0].strip() != "" and text[end : end + 1].islower()
            if quoted or _ends_nothing(last):
                continue
        if found and not _LETTER.search(part):
            found[-1] = (found[-1][0], start + len(part)) if part else found[-1]
        elif part:
            found.append((start, start + len(part)))
        start = end
    return found


def _ends_nothing(word: str) -> bool:
    return word.lower() in _ABBREVIATIONS or _INITIAL.fullmatch(word) is not None


def keywords(sentence: str) -> list[Keyword]:
    """The words of a sentence that are not function words, with a class from their ending and the preceding word.

    A capital letter inside a sentence makes a name. Masked names such as [MALE] are not keywords.
    """
    found = []
    for word in _KEYWORD.finditer(sentence):
        if word[0].lower() in FUNCTION_WORDS:
            continue
        before = sentence[: word.start()].split()
        if before and word[0][0].isupper():
            found.append(Keyword(word.start(), word.end(), "name"))
            continue
        ending = next((ending for ending in _ENDINGS if word[0].endswith(ending)), "")
        found.append(Keyword(word.start(), word.end(), f"{_place(before[-1].lower()) if before else 'first'}-{ending}"))
    return found


def _place(before: str) -> str:
    """The class suggested by the preceding word: determiners and prepositions precede nouns, subjects verbs."""
    if before in _DETERMINERS or before in _PREPOSITIONS:
        return "thing"
    if before in _SUBJECTS or before in AUXILIARIES:
        return "verb"
    return "any"
