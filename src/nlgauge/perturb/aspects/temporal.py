"""Events in the wrong order (paper 4, Table 1, "temporal relationship")."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nlgauge.perturb.aspects import clauses
from nlgauge.perturb.aspects.clauses import Clause
from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.resources.word_forms import with_capitals_of
from nlgauge.perturb.resources.word_tables import table, word_sets
from nlgauge.perturb.story import Story

_ORDER = {"before": "after", "after": "before"}
_CONJUNCTIONS = ("before", "after", "when", "until", "once")
_WORDS = word_sets("temporal")


@dataclass(frozen=True, kw_only=True)
class Temporal(Perturbation):
    """Exchange two events that follow each other, or put the opposite in place of a temporal word.

    The events are two clauses around "when", "until" or "once". Clauses around "before" or "after", and sentences of
    which the second begins with "Then", "Later" and the like, are exchanged only if nothing else applies: often
    either order makes sense. "While" joins simultaneous events, so their order does not matter; nor does it around
    "when" if either of them lasts ("He was out when it rained").
    """

    name: ClassVar[str] = "temporal"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA, Table 1 and Table 12"
    parses: ClassVar[bool] = True

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002
        """One exchange or one substitution."""
        bound, loose = _reorderings(story)
        ways = [("antonym", _antonyms(story, draw)), ("reordering", bound)]
        draw.shuffle(ways)
        for name, found in [*ways, ("reordering", loose)]:
            if found:
                return edited(story.text, draw.choice(found), name)
        return Unchanged("no clauses or sentences that a temporal word joins, and no temporal word with an opposite")

    def coherent(self, story: Story) -> bool:
        """Whether a temporal word of the table is there."""
        words = clauses.relation_table("temporal").words
        return any(token.text.lower() in words for token in story.tokens)


def _reorderings(story: Story) -> tuple[list[list[Edit]], list[list[Edit]]]:
    """Exchanges of connected events, and of others, whose order may matter less."""
    bound: list[list[Edit]] = []
    loose: list[list[Edit]] = []
    for word, one, other in _connected(story):
        (loose if word in _ORDER else bound).append(clauses.exchanged(story, one, other))
    return bound, loose + clauses.reordered_sentences(story, clauses.relation_table("temporal").openers)


def _antonyms(story: Story, draw: random.Random) -> list[list[Edit]]:
    found = [
        [Edit(token.start, token.end, with_capitals_of(_ORDER[token.text.lower()], token.text))]
        for token in story.tokens
        if token.text.lower() in _ORDER and _orders_events(story, token)
    ]
    return found + clauses.substitutions(story, clauses.relation_table("temporal").substitutions, draw)


def _connected(story: Story) -> Iterator[tuple[str, Clause, Clause]]:
    for number in range(len(story.sentences)):
        places = clauses.sentence_range(story, number)
        if places is None:
            continue
        joints = [
            token
            for token in story.tokens[slice(*places)]
            if token.text.lower() in _CONJUNCTIONS
            and token.relation in ("mark", "advmod")
            and story.tokens[token.head].relation not in ("relcl", "acl", "ccomp", "pcomp")
        ]
        for token in joints if len(joints) == 1 else ():
            pair = clauses.connected(story, places[0], token.place, token.place + 1, places[1])
            if pair is not None and _is_sequence(story, token, *pair):
                yield token.text.lower(), *pair


def _is_sequence(story: Story, token: Token, one: Clause, other: Clause) -> bool:
    """Whether the order of two clauses matters: always except with "when", which can also introduce a state."""
    if token.text.lower() != "when":
        return True
    if any(story.tokens[place].tag == "VBG" for place in (one.verb, other.verb)):
        return False
    inner, outer = (one, other) if one.first > token.place else (other, one)
    return story.tokens[inner.verb].lemma not in _WORDS["states"] and not _is_lasting(story, story.tokens[outer.verb])


def _is_lasting(story: Story, verb: Token) -> bool:
    """Whether a clause describes a state other than a feeling, so that exchanging the clauses changes nothing."""
    if verb.lemma != "be":
        return verb.lemma in _WORDS["states"]
    return not any(
        child.relation == "acomp" and child.text.lower() in _WORDS["feelings"]
        for child in clauses.children(story, verb)
    )


def _orders_events(story: Story, token: Token) -> bool:
    """Whether "before" or "after" is between events: before a clause, a gerund or a noun that names an event."""
    before, after = clauses.word_at(story, token, -1), clauses.word_at(story, token, 1)
    if not _WORDS["negated"].isdisjoint(one.text.lower() for one in story.tokens_of(token.sentence)):
        return False
    if before in _WORDS["other_senses"] or before == after or after in ("all", "long") or after in _WORDS["vague"]:
        return False
    if token.relation == "mark":
        if story.tokens[token.head].lemma == "know":
            return False
        return any(child.relation in clauses.SUBJECTS for child in clauses.children(story, story.tokens[token.head]))
    events = table("temporal")["events"]
    return any(
        (child.relation == "pcomp" and child.tag == "VBG")
        or (child.relation == "pobj" and child.lemma.lower() in events and not _is_measured(story, child))
        for child in clauses.children(story, token)
    )


def _is_measured(story: Story, noun: Token) -> bool:
    if noun.tag == "NNS":
        return True
    return any(
        child.relation == "nummod" or child.text.lower() in _WORDS["vague"] for child in clauses.children(story, noun)
    )
