"""Causes and effects exchanged (paper 4, Table 1, "causal relationship")."""

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
from nlgauge.perturb.resources.word_tables import word_sets
from nlgauge.perturb.story import Story

_WORDS = word_sets("causal")


@dataclass(frozen=True, kw_only=True)
class Causal(Perturbation):
    """Exchange a cause and its effect, or put the opposite in place of a causal word; each half of the time.

    Cause and effect are two clauses around "because", "since" or "so", or two sentences of which the second begins
    with "So", "Therefore" and the like. "So" before an adjective and "since" for a time are not causes.
    """

    name: ClassVar[str] = "causal"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA, Table 1 and Table 12"
    parses: ClassVar[bool] = True

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002
        """One exchange or one substitution."""
        table = clauses.relation_table("causal")
        joined = _connections(story)
        opposites = [[_opposite(story, one, draw)] for one in joined]
        opposites += clauses.substitutions(story, table.substitutions, draw)
        exchanges = [clauses.exchanged(story, one.one, one.other) for one in joined]
        exchanges += clauses.reordered_sentences(story, table.openers)
        ways = (("antonym", lambda: drawn(draw, opposites)), ("reordering", lambda: drawn(draw, exchanges)))
        reason = "no clauses or sentences that a causal word joins, and no causal word with an opposite"
        return one_way(story, draw, ways, reason)

    def coherent(self, story: Story) -> bool:
        """Whether a causal word of the table is there; "so" before an adjective or adverb does not count."""
        words = clauses.relation_table("causal").words
        return any(token.word in words and not _is_degree(story, token) for token in story.tokens)


def _connections(story: Story) -> list[Connection]:
    found = clauses.connections(story, lambda first, end: _conjunctions(story, first, end))
    return [one for one in found if not _is_purpose(story, one)]


def _conjunctions(story: Story, first: int, end: int) -> Iterator[tuple[int, int]]:
    for token in story.tokens[first:end]:
        word, before, after = token.word, story.word_at(token, -1), story.word_at(token, 1)
        is_because = word == "because" and after != "of" and before not in _WORDS["modifiers"]
        if is_because or (word == "since" and _is_causal_since(story, token)):
            yield token.place, token.place + 1
        elif word == "so" and token.place > first and not _is_degree(story, token) and after != "that":
            start = token.place - 1 if before == "and" else token.place
            if before not in _WORDS["modifiers"] and before not in ("if", "think", "hope", "say", "said"):
                yield start, token.place + 1


def _is_degree(story: Story, token: Token) -> bool:
    if token.word != "so":
        return False
    following = story.beside(token, 1)
    if following is None:
        return True
    is_modified = following.pos in ("ADJ", "ADV", "PUNCT") or story.head(token).pos in ("ADJ", "ADV")
    return is_modified or following.tag in ("VBN", "VBD")


def _is_causal_since(story: Story, token: Token) -> bool:
    """Whether "since" is not temporal: no perfect in the main clause, and no words of duration beside it."""
    words = story.tokens_of(token.sentence)
    clause = {one.place for one in story.subtree(story.head(token))}
    perfect = any(one.lemma == "have" and one.relation == "aux" and one.place not in clause for one in words)
    return token.relation == "mark" and not perfect and _WORDS["durations"].isdisjoint(one.word for one in words)


def _is_purpose(story: Story, joint: Connection) -> bool:
    """Whether "so" means "so that": without a comma, before a clause with "can", "would" and the like."""
    token = story.tokens[joint.first]
    between = story.tokens[joint.other.subject_end + 1 : joint.other.verb]
    is_bare_so = token.word == "so" and story.word_at(token, -1) != ","
    return is_bare_so and any(one.word in _WORDS["purpose"] for one in between)


def _opposite(story: Story, joint: Connection, draw: random.Random) -> Edit:
    """The conjunction with the other direction, or with none: "because" and "so", "although" and "but"."""
    first, last = story.tokens[joint.first], story.tokens[joint.after - 1]
    comma = story.word_at(first, -1) == ","
    if last.word == "so":
        start = story.tokens[joint.first - 2].end if comma else first.start
        word = with_capitals_of("because", last.text)
        return Edit(start, last.end, f" {word}" if comma else word)
    initial = joint.one.first > joint.first
    word = with_capitals_of("although" if initial else draw.choice(("although", "so")), first.text)
    if word.lower() == "so" and not comma:
        start = story.tokens[joint.first - 1].end
        return Edit(start, last.end, f" , {word}" if clauses.is_spaced(story) else f", {word}")
    return Edit(first.start, last.end, word)
