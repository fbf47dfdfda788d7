"""Entities are replaced by ConceptNet neighbours, which violates common sense (paper 4, Table 1)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from nlgauge.configured import option
from nlgauge.engine.cache import file_with_hash
from nlgauge.perturb.base import Kind, Outcome, PerturbationOfShare, Unchanged, edited
from nlgauge.perturb.corpus import CLASSES, Corpus
from nlgauge.perturb.resources.conceptnet import ConceptNet, load_conceptnet
from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.resources.word_forms import forms_like, some_replaced
from nlgauge.perturb.resources.word_tables import word_sets
from nlgauge.perturb.resources.wordnet import is_common_word, load_wordnet
from nlgauge.perturb.story import Story

_WORDS = word_sets("common_sense")
_CONCRETE = frozenset((5, 6, 8, 13, 17, 18, 20))  # animals, artefacts, bodies, food, objects, persons, plants
_ARTEFACT, _GROUP, _PERSON = 6, 14, 18
_MOSTLY = 0.7


@dataclass(frozen=True, kw_only=True)
class CommonSense(PerturbationOfShare):
    """A share of the nouns and verbs become neighbours in ConceptNet: a user's file, or a small built-in table."""

    name: ClassVar[str] = "common-sense"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA (Guan et al. 2021), Table 1"
    parses: ClassVar[bool] = True
    uses_wordnet: ClassVar[bool] = True

    share: float = option(0.1, "Share of the nouns and verbs that are replaced.")
    conceptnet: str | None = option(None, "File of ConceptNet triples. Default: a small table of NLGauge.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.conceptnet is not None:
            object.__setattr__(self, "conceptnet", file_with_hash(self.conceptnet, "triples"))

    def prepare(self) -> None:
        """Raise an error without the parser or WordNet, or for a file without triples."""
        super().prepare()
        load_conceptnet(self.conceptnet)

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Draw entities that have neighbours, then a neighbour of each."""
        graph = load_conceptnet(self.conceptnet)
        words = {token.place: found for token in story.tokens if (found := _misfits(story, token, graph))}
        if not words:
            return Unchanged("no noun or verb has a neighbour in ConceptNet that fits its place")
        entities = sum(token.pos in CLASSES for token in story.tokens)
        edits = some_replaced(story, draw, words, max(1, round(self.share * entities)))
        return edited(story.text, edits, "neighbour")

    def coherent(self, story: Story) -> bool:
        """Whether a story has the head and the tail of a triple."""
        entities = frozenset(token.base for token in story.tokens if token.pos in CLASSES)
        return load_conceptnet(self.conceptnet).has_triple_among(entities)


def _misfits(story: Story, token: Token, graph: ConceptNet) -> list[str]:
    """Neighbours of a token that may replace it, in its form.

    Related things violate common sense most ("read a shelf"), so opposites come second.
    """
    if token.pos not in CLASSES or not is_common_word(token) or token.base in _WORDS["light"] | _WORDS["vague"]:
        return []
    if "-" in (story.text[token.start - 1 : token.start], story.text[token.end : token.end + 1]):
        return []
    near = graph.neighbours.get(token.base, ())
    opposites = [one.word for one in near if one.relation in _WORDS["opposites"]]
    if token.pos == "VERB":
        words = _verbs(story, token, opposites)
    else:
        together = [one.word for one in near if one.relation in _WORDS["together"]]
        words = _nouns(story, token, together, opposite=False) or _nouns(story, token, opposites, opposite=True)
    taken = {one.base for one in story.tokens_of(token.sentence)}
    return forms_like((word for word in dict.fromkeys(words) if word not in taken), token)


def _nouns(story: Story, token: Token, words: list[str], *, opposite: bool) -> list[str]:
    """Nouns that can be counted, in place of a noun with an article or the like, or of a plural.

    A related thing must be of another kind, unless both are artefacts and it is a subject: one opens a house as one
    opens a door, and a mother may do what a family does.
    """
    below = story.relations(token)
    if token.relation in ("compound", "npadvmod", "nmod") or below & {"compound", "nmod", "acl", "relcl"}:
        return []
    articles = [child.word for child in story.children(token) if child.relation in ("det", "poss")]
    single = not _WORDS["of_mass"].issuperset(articles)
    if token.tag == "NN" and (not single or token.word != token.base):
        return []
    countable = [word for word in words if _countable(word)]
    old = _subject(token.base)
    if opposite:
        return countable
    return [
        word
        for word in countable
        if (new := _subject(word)) in _CONCRETE
        and (new != old or (old == _ARTEFACT and token.relation == "nsubj"))
        and not (old == _GROUP and new == _PERSON)
    ]


def _verbs(story: Story, token: Token, words: list[str]) -> list[str]:
    """Verbs that take an object, in place of a verb that has one and nothing else after it."""
    below = story.relations(token)
    if "dobj" not in below or below & {"prt", "dative", "xcomp", "ccomp", "oprd"}:
        return []
    return [word for word in words if _takes_object(word)]


@lru_cache(maxsize=50_000)
def _subject(noun: str) -> int | None:
    """The subject of a noun's first sense, by WordNet's numbers."""
    senses = load_wordnet().senses(noun, "noun")
    return senses[0].subject if senses else None


@lru_cache(maxsize=50_000)
def _countable(word: str) -> bool:
    """Whether a word is primarily a familiar and countable noun."""
    nouns, verbs, adjectives = _uses(word)
    if word in _WORDS["refused"] or not nouns or word not in load_wordnet().senses(word, "noun")[0].words:
        return False
    return nouns >= _MOSTLY * (nouns + verbs + adjectives)


@lru_cache(maxsize=50_000)
def _takes_object(word: str) -> bool:
    """Whether a word is primarily a familiar verb whose first sense has an object."""
    nouns, verbs, adjectives = _uses(word)
    if word in _WORDS["light"] or verbs < 3 or verbs < nouns + adjectives:
        return False
    return bool(load_wordnet().senses(word, "verb")[0].frames & {8, 9, 10, 11})


def _uses(word: str) -> list[int]:
    """How often a word is a noun, a verb and an adjective in tagged texts."""
    return [sum(load_wordnet().counts(word, word_class)) for word_class in ("noun", "verb", "adj")]
