"""Words become synonyms, in the right form (paper 4, Table 2): WordNet's, if one sense is meant nearly always.

WordNet's synonyms are loose: of its senses only the first is used, and only if it is the main sense of both words
in tagged text. The word tables exclude words that still change the meaning in stories, and list pairs of
everyday words that mean the same in stories but are rarely tagged or have other senses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from nlgauge.configured import option
from nlgauge.errors import OptionError
from nlgauge.perturb.base import Kind, Outcome, Perturbation, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.resources.word_forms import forms_like, some_replaced
from nlgauge.perturb.resources.word_tables import word_pairs, word_sets
from nlgauge.perturb.resources.wordnet import CLASSES, WordClass, is_common_word, load_wordnet
from nlgauge.perturb.story import Story

_MEANT = 0.7  # the share of a word's tagged uses that its first sense must have
_FAMILIAR = 3  # how often a synonym must occur in the tagged texts
_ALL = 100  # more senses than any word has


_WORDS = word_sets("synonyms")


@dataclass(frozen=True, kw_only=True)
class Synonyms(Perturbation):
    """Up to `most` words become synonyms: 2 in the released code for short stories, 5 for those of WritingPrompts."""

    name: ClassVar[str] = "synonyms"
    kind: ClassVar[Kind] = "robustness"
    paper: ClassVar[str] = "OpenMEVA (Guan et al. 2021), Table 2"
    parses: ClassVar[bool] = True
    uses_wordnet: ClassVar[bool] = True

    most: int = option(2, "Most words that are replaced.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most < 1:
            raise OptionError(f"synonyms:most={self.most}; expected 1 or more words, such as 2")

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Draw words that have synonyms, then a synonym of each."""
        words = {token.place: found for token in story.tokens if (found := _substitutes(story, token))}
        if not words:
            return Unchanged("no word has a synonym that fits its place")
        return edited(story.text, some_replaced(story, draw, words, self.most), "synonym")


def _substitutes(story: Story, token: Token) -> list[str]:
    """The synonyms that may replace a token, in its form."""
    if not is_common_word(token) or token.base in _WORDS["stays"] or token.tag in ("JJR", "JJS", "RBR", "RBS"):
        return []
    is_plain = {"VERB": _plain_verb, "NOUN": _plain_noun}.get(token.pos)
    beside = story.tokens[max(0, token.place - 1) : token.place + 2]
    if (is_plain and not is_plain(story, token)) or any(one.word == "as" for one in beside):
        return []
    return forms_like(_same_meaning(token.base, CLASSES[token.pos]), token)


@lru_cache(maxsize=50_000)
def _same_meaning(lemma: str, word_class: WordClass) -> tuple[str, ...]:
    """Synonyms of a word: trusted ones, and those by the first sense of both, if both mostly mean that."""
    known = load_wordnet().synonyms(lemma, word_class, senses=_ALL)
    trusted = (new for old, new in word_pairs("synonyms", "trusted")[word_class] if old == lemma)
    return tuple(dict.fromkeys([*(word for word in trusted if word in known), *_by_first_sense(lemma, word_class)]))


def _by_first_sense(lemma: str, word_class: WordClass) -> tuple[str, ...]:
    wordnet = load_wordnet()
    counts = wordnet.counts(lemma, word_class)
    if not counts or counts[0] < max(1, _MEANT * sum(counts)):
        return ()
    sense = wordnet.senses(lemma, word_class)[0]
    found = []
    for number, word in enumerate(sense.words, 1):
        is_plain = word.isalpha() and word.islower() and number not in sense.restricted
        if not is_plain or word == lemma or word in _WORDS["refused"]:
            continue
        theirs = wordnet.counts(word, word_class)
        first = wordnet.senses(word, word_class)[0].offset == sense.offset
        if first and sum(theirs) >= _FAMILIAR and theirs[0] >= _MEANT * sum(theirs) and len(word) > 2:
            found.append(word)
    return tuple(word for word in found if word_class != "noun" or not word.endswith("s") or word.endswith("ss"))


def _plain_verb(story: Story, token: Token) -> bool:
    """A verb with an object or nothing after it: no particle, no clause and no second object, which synonyms lack."""
    below = story.children(token)
    relations, lemma = story.relations(token), token.base
    if lemma in _WORDS["only_with_to"]:
        return "xcomp" in relations
    if lemma in _WORDS["with_to"]:
        return not relations & (_WORDS["complements"] - {"xcomp"})
    if any(child.relation == "prep" and child.word in ("to", "for", "of", "up") for child in below):
        return False
    if lemma in _WORDS["with_object"] and not relations & {"dobj", "nsubjpass"}:
        return False
    return token.relation != "amod" and not relations & _WORDS["complements"]


def _plain_noun(story: Story, token: Token) -> bool:
    """A noun by itself, with an article or the like: neither part of a compound nor of a set phrase ("by chance")."""
    below = story.relations(token)
    if token.relation in ("compound", "npadvmod", "nmod") or below & {"compound", "nmod"}:
        return False
    return token.tag == "NNS" or bool(below & {"det", "poss", "amod", "nummod"})
