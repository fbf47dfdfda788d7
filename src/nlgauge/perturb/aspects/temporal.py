"""Events in the wrong order (paper 4, Table 1, "temporal relationship")."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nlgauge.perturb.aspects import clauses
from nlgauge.perturb.aspects.clauses import Connection
from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, drawn, one_way
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
        known = clauses.relation_table("temporal")
        bound: list[list[Edit]] = []
        loose: list[list[Edit]] = []
        for one in clauses.connections(story, lambda first, end: _conjunctions(story, first, end)):
            token = story.tokens[one.first]
            if _is_sequence(story, token, one):
                (loose if token.word in _ORDER else bound).append(clauses.exchanged(story, one.one, one.other))
        loose += clauses.reordered_sentences(story, known.openers)
        turned = [token for token in story.tokens if token.word in _ORDER and _orders_events(story, token)]
        opposites = [[Edit(one.start, one.end, with_capitals_of(_ORDER[one.word], one.text))] for one in turned]
        opposites += clauses.substitutions(story, known.substitutions, draw)
        exchanges = bound if bound or opposites else loose
        ways = (("antonym", lambda: drawn(draw, opposites)), ("reordering", lambda: drawn(draw, exchanges)))
        reason = "no clauses or sentences that a temporal word joins, and no temporal word with an opposite"
        return one_way(story, draw, ways, reason)

    def coherent(self, story: Story) -> bool:
        """Whether a temporal word of the table is there."""
        words = clauses.relation_table("temporal").words
        return any(token.word in words for token in story.tokens)


def _conjunctions(story: Story, first: int, end: int) -> Iterator[tuple[int, int]]:
    for token in story.tokens[first:end]:
        joins = token.word in _CONJUNCTIONS and token.relation in ("mark", "advmod")
        if joins and story.head(token).relation not in ("relcl", "acl", "ccomp", "pcomp"):
            yield token.place, token.place + 1


def _is_sequence(story: Story, token: Token, joint: Connection) -> bool:
    """Whether the order of two clauses matters: always except with "when", which can also introduce a state."""
    if token.word != "when":
        return True
    one, other = story.tokens[joint.one.verb], story.tokens[joint.other.verb]
    inner, outer = (one, other) if joint.one.first > token.place else (other, one)
    gerund = "VBG" in (one.tag, other.tag)
    return not gerund and inner.lemma not in _WORDS["states"] and not _is_lasting(story, outer)


def _is_lasting(story: Story, verb: Token) -> bool:
    """Whether a clause describes a state other than a feeling, so that exchanging the clauses changes nothing."""
    if verb.lemma != "be":
        return verb.lemma in _WORDS["states"]
    return not any(child.relation == "acomp" and child.word in _WORDS["feelings"] for child in story.children(verb))


def _orders_events(story: Story, token: Token) -> bool:
    """Whether "before" or "after" is between events: before a clause, a gerund or a noun that names an event."""
    before, after = story.word_at(token, -1), story.word_at(token, 1)
    if not _WORDS["negated"].isdisjoint(one.word for one in story.tokens_of(token.sentence)):
        return False
    if before in _WORDS["other_senses"] or before == after or after in ("all", "long") or after in _WORDS["vague"]:
        return False
    if token.relation == "mark":
        head = story.head(token)
        return head.lemma != "know" and not story.relations(head).isdisjoint(clauses.SUBJECTS)
    events = table("temporal")["events"]
    return any(
        (child.relation == "pcomp" and child.tag == "VBG")
        or (child.relation == "pobj" and child.base in events and not _is_measured(story, child))
        for child in story.children(token)
    )


def _is_measured(story: Story, noun: Token) -> bool:
    is_vague = any(child.relation == "nummod" or child.word in _WORDS["vague"] for child in story.children(noun))
    return noun.tag == "NNS" or is_vague
