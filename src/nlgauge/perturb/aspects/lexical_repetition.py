"""Repeated words (paper 4, Table 1, "lexical repetition"): four words after an "and", or a whole sentence."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, drawn, one_way
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.word_tables import word_sets
from nlgauge.perturb.story import Story
from nlgauge.text.words import AUXILIARIES, FUNCTION_WORDS, PARTICIPLES

_SIZE = 4
_FEWEST_WORDS = 3
_WORD = re.compile(r"\[[A-Z]+\]|[^\W_]+(?:['’\-][^\W_]+)*|['’][^\W_]+")
_WORDS = word_sets("lexical_repetition")
_PASTS = PARTICIPLES | _WORDS["pasts"]
_UNFINISHED = (FUNCTION_WORDS - _WORDS["finished"]) | _WORDS["unfinished"]


@dataclass(frozen=True, kw_only=True)
class LexicalRepetition(Perturbation):
    """Say four words of a sentence again after an "and", or a sentence right after itself; each half of the time.

    The four words ("He stepped on the stage and stepped on the stage") begin with a verb or a preposition and end a
    phrase, as far as the words around them tell; no parser is needed.
    """

    name: ClassVar[str] = "lexical-repetition"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA, Table 1"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002
        """One repetition."""
        ways = (
            ("4-gram", lambda: drawn(draw, list(_phrases(story)))),
            ("sentence", lambda: drawn(draw, list(_sentences(story)))),
        )
        reason = "no sentence of at least three words, and no four words that make a phrase"
        return one_way(story, draw, ways, reason)


def _phrases(story: Story) -> Iterator[list[Edit]]:
    for first, last in story.sentences:
        words = list(_WORD.finditer(story.text, first, last))
        lower = [word[0].lower() for word in words]
        for place in range(len(words) - _SIZE + 1):
            chosen = words[place : place + _SIZE]
            gram = story.text[chosen[0].start() : chosen[-1].end()]
            if re.fullmatch(r"(?:[\w'’\-\[\]]|\s)+", gram) and _is_phrase(story, words, lower, place):
                again = gram if place or gram.isupper() else gram[:1].lower() + gram[1:]
                new = f" {'AND' if gram.isupper() else 'and'} {again}"
                yield [Edit(chosen[-1].end(), chosen[-1].end(), new)]


def _is_phrase(story: Story, words: list[re.Match[str]], lower: list[str], place: int) -> bool:
    gram = lower[place : place + _SIZE]
    if not _WORDS["joined"].isdisjoint(gram) or gram[-1] in _UNFINISHED or not _WORDS["subjects"].isdisjoint(gram):
        return False
    end = place + _SIZE
    gap = story.text[words[end - 1].end() : words[end].start()] if end < len(words) else ""
    if gap.strip(" .,!?;:"):
        return False
    if gap.isspace() and (lower[end] not in _WORDS["followers"] or _is_last(story, words, end)):
        return False
    return _begins_well(words, lower, place)


def _is_last(story: Story, words: list[re.Match[str]], place: int) -> bool:
    """Whether only punctuation follows a word: "in" there belongs to its verb ("log in.")."""
    return place + 1 == len(words) or not story.text[words[place].end() : words[place + 1].start()].isspace()


def _begins_well(words: list[re.Match[str]], lower: list[str], place: int) -> bool:
    """Whether a verb or a preposition with its phrase begins at a position."""
    word, following = lower[place], lower[place + 1]
    before = lower[place - 1] if place else ""
    if before in _WORDS["subjects"]:
        return word not in _WORDS["joined"] and (following != "to" or word not in ("could", "can", "would", "did"))
    if word in _WORDS["phrase_starts"]:
        return following in _WORDS["determiners"]
    if before == "to" and word not in FUNCTION_WORDS and words[place][0].islower():
        return following in _WORDS["determiners"] | _WORDS["after_infinitive"]
    is_name = place == 1 and before not in FUNCTION_WORDS
    return is_name and (word.endswith("ed") or word in _PASTS or word in AUXILIARIES)


def _sentences(story: Story) -> Iterator[list[Edit]]:
    for number, (_, last) in enumerate(story.sentences):
        sentence = story.sentence(number)
        if len(_WORD.findall(sentence)) < _FEWEST_WORDS or sentence.count('"') % 2 or sentence[-1].isalnum():
            continue
        following = story.sentences[number + 1][0] if number + 1 < len(story.sentences) else last
        yield [Edit(last, last, (story.text[last:following] or " ") + sentence)]
