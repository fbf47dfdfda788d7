"""The same words again (paper 4, Table 1, "lexical repetition"): four words after an "and", or a whole sentence."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.story import Story
from nlgauge.text.words import AUXILIARIES, FUNCTION_WORDS, PARTICIPLES, word_set

_SIZE = 4
_FEWEST_WORDS = 3
_WORD = re.compile(r"\[[A-Z]+\]|[^\W_]+(?:['’\-][^\W_]+)*|['’][^\W_]+")
_SUBJECTS = word_set("i he she we they")
_DETERMINERS = word_set("a an the my your his her its our their this these some")
_PHRASE_STARTS = word_set("in on at by for with from into onto under through across near behind during without")
_FOLLOWERS = word_set("and but so because when while if after before until with for in on at from by during without as")
_PASTS = PARTICIPLES | word_set("went took saw gave came began ate drank drove flew wrote ran sat stood fell")
_JOINED = frozenset(("and", "or", "but", "nor", "that", "which", "who"))
_UNFINISHED = (FUNCTION_WORDS - frozenset(("him", "them", "us", "me", "it", "here", "there", "again"))) | word_set(
    "very really every another other about like first own around no"
)


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
        ways = {"4-gram": list(_phrases(story)), "sentence": list(_sentences(story))}
        names = sorted(ways)
        draw.shuffle(names)
        for name in names:
            if ways[name]:
                return edited(story.text, [draw.choice(ways[name])], name)
        return Unchanged("no sentence of at least three words, and no four words that make a phrase")


def _phrases(story: Story) -> Iterator[Edit]:
    for first, last in story.sentences:
        words = list(_WORD.finditer(story.text, first, last))
        lower = [word[0].lower() for word in words]
        for place in range(len(words) - _SIZE + 1):
            chosen = words[place : place + _SIZE]
            gram = story.text[chosen[0].start() : chosen[-1].end()]
            if re.fullmatch(r"(?:[\w'’\-\[\]]|\s)+", gram) and _is_phrase(story, words, lower, place):
                again = gram if place or gram.isupper() else gram[:1].lower() + gram[1:]
                yield Edit(chosen[-1].end(), chosen[-1].end(), f" {'AND' if gram.isupper() else 'and'} {again}")


def _is_phrase(story: Story, words: list[re.Match[str]], lower: list[str], place: int) -> bool:
    gram = lower[place : place + _SIZE]
    if not _JOINED.isdisjoint(gram) or gram[-1] in _UNFINISHED or not _SUBJECTS.isdisjoint(gram):
        return False
    end = place + _SIZE
    gap = story.text[words[end - 1].end() : words[end].start()] if end < len(words) else ""
    if gap.strip(" .,!?;:"):
        return False
    if gap.isspace() and (lower[end] not in _FOLLOWERS or _is_last(story, words, end)):
        return False
    return _begins_well(words, lower, place)


def _is_last(story: Story, words: list[re.Match[str]], place: int) -> bool:
    """Whether nothing follows a word but punctuation: "in" there belongs to its verb ("log in.")."""
    return place + 1 == len(words) or not story.text[words[place].end() : words[place + 1].start()].isspace()


def _begins_well(words: list[re.Match[str]], lower: list[str], place: int) -> bool:
    """Whether a verb or a preposition with its phrase stands at a place."""
    word, following = lower[place], lower[place + 1]
    before = lower[place - 1] if place else ""
    if before in _SUBJECTS:
        return word not in _JOINED and (following != "to" or word not in ("could", "can", "would", "did"))
    if word in _PHRASE_STARTS:
        return following in _DETERMINERS
    if before == "to" and word not in FUNCTION_WORDS and words[place][0].islower():
        return following in _DETERMINERS or following in ("to", "him", "them", "us", "me", "it", "with", "on", "for")
    is_name = place == 1 and before not in FUNCTION_WORDS
    return is_name and (word.endswith("ed") or word in _PASTS or word in AUXILIARIES)


def _sentences(story: Story) -> Iterator[Edit]:
    for number, (_, last) in enumerate(story.sentences):
        sentence = story.sentence(number)
        if len(_WORD.findall(sentence)) < _FEWEST_WORDS or sentence.count('"') % 2 or sentence[-1].isalnum():
            continue
        following = story.sentences[number + 1][0] if number + 1 < len(story.sentences) else last
        yield Edit(last, last, (story.text[last:following] or " ") + sentence)
