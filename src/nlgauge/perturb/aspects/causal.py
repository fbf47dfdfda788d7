"""Causes and effects exchanged (paper 4, Table 1, "causal relationship")."""

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
from nlgauge.perturb.resources.word_tables import word_sets
from nlgauge.perturb.story import Story

_WORDS = word_sets("causal")


@dataclass(frozen=True)
class Connection:
    """A causal conjunction between two clauses: its tokens from `first` up to `after`, cause and effect."""

    first: int
    after: int
    one: Clause
    other: Clause


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
        ways = {"reordering": _reorderings(story), "antonym": _antonyms(story, draw)}
        names = sorted(ways)
        draw.shuffle(names)
        for name in names:
            if ways[name]:
                return edited(story.text, draw.choice(ways[name]), name)
        return Unchanged("no clauses or sentences that a causal word joins, and no causal word with an opposite")

    def coherent(self, story: Story) -> bool:
        """Whether a causal word of the table is there; "so" before an adjective or adverb does not count."""
        words = clauses.relation_table("causal").words
        return any(token.text.lower() in words and not _is_degree(story, token) for token in story.tokens)


def _reorderings(story: Story) -> list[list[Edit]]:
    found = [clauses.exchanged(story, one.one, one.other) for one in _connections(story)]
    return found + clauses.reordered_sentences(story, clauses.relation_table("causal").openers)


def _antonyms(story: Story, draw: random.Random) -> list[list[Edit]]:
    found = [[_opposite(story, one, draw)] for one in _connections(story)]
    return found + clauses.substitutions(story, clauses.relation_table("causal").substitutions, draw)


def _connections(story: Story) -> Iterator[Connection]:
    for number in range(len(story.sentences)):
        places = clauses.sentence_range(story, number)
        if places is None:
            continue
        joints = list(_conjunctions(story, *places))
        for first, after in joints if len(joints) == 1 else ():
            pair = clauses.connected(story, places[0], first, after, places[1])
            if pair is not None and not _is_purpose(story, first, pair[1]):
                yield Connection(first, after, *pair)


def _conjunctions(story: Story, first: int, end: int) -> Iterator[tuple[int, int]]:
    for token in story.tokens[first:end]:
        word, before, after = token.text.lower(), clauses.word_at(story, token, -1), clauses.word_at(story, token, 1)
        if _is_because(word, before, after) or (word == "since" and _is_causal_since(story, token)):
            yield token.place, token.place + 1
        elif word == "so" and token.place > first and not _is_degree(story, token) and after != "that":
            start = token.place - 1 if before == "and" else token.place
            if before not in _WORDS["modifiers"] and before not in ("if", "think", "hope", "say", "said"):
                yield start, token.place + 1


def _is_because(word: str, before: str, after: str) -> bool:
    return word == "because" and after != "of" and before not in _WORDS["modifiers"]


def _is_degree(story: Story, token: Token) -> bool:
    if token.text.lower() != "so":
        return False
    following = story.tokens[token.place + 1] if token.place + 1 < len(story.tokens) else None
    if following is None or following.sentence != token.sentence:
        return True
    head = story.tokens[token.head]
    return following.pos in ("ADJ", "ADV", "PUNCT") or head.pos in ("ADJ", "ADV") or following.tag in ("VBN", "VBD")


def _is_causal_since(story: Story, token: Token) -> bool:
    """Whether "since" is not temporal: no perfect in the main clause, and no words of duration beside it."""
    words = story.tokens_of(token.sentence)
    clause = {one.place for one in clauses.subtree(story, story.tokens[token.head])}
    perfect = any(one.lemma == "have" and one.relation == "aux" and one.place not in clause for one in words)
    return (
        token.relation == "mark" and not perfect and not any(one.text.lower() in _WORDS["durations"] for one in words)
    )


def _is_purpose(story: Story, place: int, clause: Clause) -> bool:
    """Whether "so" means "so that": without a comma, before a clause with "can", "would" and the like."""
    token = story.tokens[place]
    if token.text.lower() != "so" or clauses.word_at(story, token, -1) == ",":
        return False
    between = story.tokens[clause.subject_end + 1 : clause.verb]
    return any(one.text.lower() in _WORDS["purpose"] for one in between)


def _opposite(story: Story, joint: Connection, draw: random.Random) -> Edit:
    """The conjunction with the other direction, or with none: "because" and "so", "although" and "but"."""
    first, last = story.tokens[joint.first], story.tokens[joint.after - 1]
    comma = clauses.word_at(story, first, -1) == ","
    if last.text.lower() == "so":
        start = story.tokens[joint.first - 2].end if comma else first.start
        word = with_capitals_of("because", last.text)
        return Edit(start, last.end, f" {word}" if comma else word)
    initial = joint.one.first > joint.first
    word = with_capitals_of("although" if initial else draw.choice(("although", "so")), first.text)
    if word.lower() == "so" and not comma:
        return Edit(
            story.tokens[joint.first - 1].end, last.end, f" , {word}" if clauses.is_spaced(story) else f", {word}"
        )
    return Edit(first.start, last.end, word)
