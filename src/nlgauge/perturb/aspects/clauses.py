"""Clauses and word tables, for perturbations that reverse the order of events (paper 4, Table 1 and Table 12)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

import msgspec

from nlgauge.perturb.base import Edit
from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.resources.word_forms import with_capitals_of
from nlgauge.perturb.resources.word_tables import table, word_sets
from nlgauge.perturb.story import Story

SUBJECTS = ("nsubj", "nsubjpass", "expl")
_FINITE = ("VBD", "VBZ", "VBP", "MD")
_QUOTES = frozenset('"“”«»`')
_ENDS = frozenset(".!")
_WORDS = word_sets("clauses")
_MOST_TOKENS = 40


@dataclass(frozen=True)
class Clause:
    """A subject with its predicate: places of the first token, of the subject's head and last token, of the verb, and
    of the last token.
    """

    first: int
    head: int
    subject_end: int
    verb: int
    last: int


@dataclass(frozen=True)
class Connection:
    """Two clauses and the conjunction before or between them: its tokens from place `first` up to `after`."""

    first: int
    after: int
    one: Clause
    other: Clause


@dataclass(frozen=True)
class Substitution:
    """Words that may replace others.

    `place` is the required position of the old words: anywhere, at the start of a sentence, or inside one. Neither a
    word of `not_after` may precede them nor one of `not_before` follow; if `after` or `before` name words, one of them
    must precede or follow. A sentence with a word of `without` stays unchanged. `comma` adds a comma after the new
    words if there is none, and requires that no verb follows them.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    place: Literal["any", "start", "inside"] = "any"
    not_after: frozenset[str] = frozenset()
    not_before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    comma: bool = False


@dataclass(frozen=True)
class RelationTable:
    """The words of a relation: markers, words that begin a sentence with it (the longest first), and opposites."""

    words: frozenset[str]
    openers: tuple[tuple[str, ...], ...]
    substitutions: tuple[Substitution, ...]


@cache
def relation_table(name: str) -> RelationTable:
    """The table of causal or temporal words."""
    found = table(name)
    entries = [{**entry, "old": entry["old"].split()} for entry in found["substitutions"]]
    openers = sorted((opener.split() for opener in found["openers"]), key=len, reverse=True)
    return msgspec.convert({"words": found["words"], "openers": openers, "substitutions": entries}, RelationTable)


def is_quoting(text: str) -> bool:
    """Whether a text has quotation marks, whose two halves should stay together."""
    return not _QUOTES.isdisjoint(text)


def sentence_range(story: Story, number: int) -> tuple[int, int] | None:
    """Places of the first token and after the last word of a sentence that ends like a statement; else None."""
    tokens = story.tokens_of(number)
    if not tokens or len(tokens) > _MOST_TOKENS or is_quoting(story.sentence(number)):
        return None
    last_word_end = max((token.end for token in tokens if token.pos != "PUNCT"), default=tokens[-1].end)
    ending = [token for token in tokens if token.pos == "PUNCT" and token.start >= last_word_end]
    if not ending or any(not _ENDS.issuperset(token.text) for token in ending):
        return None
    return tokens[0].place, ending[0].place


def clause_in(story: Story, first: int, end: int) -> Clause | None:
    """The topmost clause among the tokens from place `first` up to `end`: from its subject on, with a finite verb."""
    while first < end and story.tokens[end - 1].pos == "PUNCT":
        end -= 1
    found: list[tuple[int, Clause]] = []
    for subject in story.tokens[first:end]:
        verb = story.head(subject)
        if subject.relation in SUBJECTS and subject.place < verb.place < end and is_finite(story, verb):
            whole = story.subtree(subject)
            if whole[0].place >= first and whole[-1].place < verb.place:
                clause = Clause(whole[0].place, subject.place, whole[-1].place, verb.place, end - 1)
                found.append((_depth(story, verb), clause))
    return min(found, key=lambda one: one[0])[1] if found else None


def is_finite(story: Story, verb: Token) -> bool:
    """Whether a verb, or the auxiliary before it, has a tense."""
    auxiliaries = [child for child in story.children(verb) if child.relation in ("aux", "auxpass")]
    return any(one.tag in _FINITE for one in (verb, *auxiliaries))


def _depth(story: Story, token: Token) -> int:
    steps = 0
    while token.head != token.place:
        token = story.head(token)
        steps += 1
    return steps


def exchanged(story: Story, one: Clause, other: Clause) -> list[Edit]:
    """Edits that put each clause in the other's place.

    If a pronoun refers to the first subject ("Tom left because he was tired"), only what follows the subjects is
    exchanged ("Tom was tired because he left"), so that the pronoun still follows its antecedent.
    """
    tokens = story.tokens
    ends = tokens[one.last].end, tokens[other.last].end
    refers = _refers_to(story, one, other)
    models = tokens[one.first], tokens[other.first]
    starts = [tokens[clause.subject_end].end if refers else tokens[clause.first].start for clause in (one, other)]
    first, second = (story.text[start:end] for start, end in zip(starts, ends, strict=True))
    if not refers:
        first, second = cased(story, first, *models), cased(story, second, *models[::-1])
    return [Edit(starts[0], ends[0], second), Edit(starts[1], ends[1], first)]


def _refers_to(story: Story, one: Clause, other: Clause) -> bool:
    subject, pronoun = story.tokens[one.head], story.tokens[other.head]
    if subject.pos not in ("NOUN", "PROPN") or pronoun.place != other.first or pronoun.tag != "PRP":
        return False
    if subject.tag in ("NNS", "NNPS") or "conj" in story.relations(subject):
        return pronoun.word == "they"
    if subject.base == "[male]" or subject.base in _WORDS["men"]:
        return pronoun.word == "he"
    if subject.base == "[female]" or subject.base in _WORDS["women"]:
        return pronoun.word == "she"
    return pronoun.word in ("he", "she") and (subject.pos == "PROPN" or subject.base in _WORDS["people"])


def cased(story: Story, text: str, first: Token, model: Token) -> str:
    """A text whose first token is `first`, with the capitalisation that the position of `model` requires."""
    if story.is_first(model):
        return text[:1].upper() + text[1:] if model.text[:1].isupper() else text
    if story.is_first(first) and not _keeps_capital(first):
        return text[:1].lower() + text[1:]
    return text


def _keeps_capital(token: Token) -> bool:
    """Whether a token's capital is its own: names, "I", words in capitals; a subject of one word is a name, too."""
    if token.pos == "PROPN" or token.text == "I" or (len(token.text) > 1 and token.text.isupper()):
        return True
    is_word = token.pos in ("PRON", "DET", "NUM") or token.tag in ("NNS", "VBG") or token.word in _WORDS["quantities"]
    return token.relation in SUBJECTS and not is_word


def connections(story: Story, conjunctions: Callable[[int, int], Iterable[tuple[int, int]]]) -> Iterator[Connection]:
    """The clauses of every sentence with exactly one conjunction; `conjunctions` finds them between two places."""
    for number in range(len(story.sentences)):
        places = sentence_range(story, number)
        joints = list(conjunctions(*places)) if places else []
        if places and len(joints) == 1 and (pair := _connected(story, places[0], *joints[0], places[1])):
            yield Connection(*joints[0], *pair)


def _connected(story: Story, first: int, marker: int, after: int, end: int) -> tuple[Clause, Clause] | None:
    """The clauses around a conjunction whose tokens go from place `marker` up to `after`, in a sentence from `first`
    up to `end`; or, if the conjunction begins the sentence, those before and after the comma.
    """
    one = clause_in(story, first, marker)
    if one is not None:
        other = clause_in(story, after, end)
        return (one, other) if other is not None and other.first == after else None
    if any(token.pos not in ("PUNCT", "CCONJ", "ADV") for token in story.tokens[first:marker]):
        return None
    for comma in range(after + 2, end):
        other = clause_in(story, comma + 1, end) if story.tokens[comma].text == "," else None
        if other is not None and other.first == comma + 1:
            one = clause_in(story, after, comma)
            return (one, other) if one is not None and one.first == after else None
    return None


def reordered_sentences(story: Story, openers: Sequence[tuple[str, ...]]) -> list[list[Edit]]:
    """For each sentence that begins with one of the openers, edits that exchange it with the one before.

    The words before a sentence's subject ("One day", the opener itself) stay in place.
    """
    found = []
    for before, after in pairwise(sentence_range(story, number) for number in range(len(story.sentences))):
        if before is None or after is None:
            continue
        size = _opener_length(story, after[0], openers)
        if not size or _opener_length(story, before[0], openers):
            continue
        start = after[0] + size + (story.tokens[after[0] + size].text == ",")
        one, other = clause_in(story, *before), clause_in(story, start, after[1])
        if one is not None and other is not None and other.first == start and _is_lead(story, before[0], one.first):
            found.append(exchanged(story, one, other))
    return found


def _is_lead(story: Story, first: int, end: int) -> bool:
    """Whether tokens before a subject may stay if the clause moves: none, or adverbs and phrases up to a comma."""
    lead = story.tokens[first:end]
    return not any(token.relation in ("mark", "advcl", "csubj") or token.tag in ("WRB", "WP") for token in lead)


def _opener_length(story: Story, first: int, openers: Sequence[tuple[str, ...]]) -> int:
    """The number of tokens of an opener at a position; 0 if there is none."""
    for opener in openers:
        words = tuple(token.word for token in story.tokens[first : first + len(opener)])
        if words == opener and first + len(opener) < len(story.tokens):
            return len(opener)
    return 0


def substitutions(story: Story, known: Sequence[Substitution], draw: random.Random) -> list[list[Edit]]:
    """All replacements of words of the table, only the longest match at each position."""
    found = []
    ordered = sorted(known, key=lambda one: -len(one.old))
    for token in story.tokens:
        match = next((one for one in ordered if _fits(story, token, one)), None)
        if match is not None:
            found.append([_substituted(story, token, match, draw.choice(match.new))])
    return found


def _fits(story: Story, token: Token, known: Substitution) -> bool:
    place, after = token.place, token.place + len(known.old)
    if token.word != known.old[0] or tuple(one.word for one in story.tokens[place:after]) != known.old:
        return False
    if known.place != "any" and (known.place == "start") != story.is_first(token):
        return False
    if known.comma and after < len(story.tokens) and story.tokens[after].pos in ("VERB", "AUX"):
        return False
    previous, following = story.word_at(token, -1), story.word_at(token, len(known.old))
    if previous in known.not_after or following in known.not_before:
        return False
    if (known.after and previous not in known.after) or (known.before and following not in known.before):
        return False
    return known.without.isdisjoint(one.word for one in story.tokens_of(token.sentence))


def _substituted(story: Story, token: Token, known: Substitution, new: str) -> Edit:
    """The edit that puts the new words in place of the old, without those that both end or begin with."""
    words = new.split()
    first, last = token.place, token.place + len(known.old) - 1
    while first < last and len(words) > 1 and words[0] == story.tokens[first].word:
        first += 1
        del words[0]
    while first < last and len(words) > 1 and words[-1] == story.tokens[last].word:
        last -= 1
        del words[-1]
    start, end = story.tokens[first], story.tokens[last]
    word = with_capitals_of(" ".join(words), start.text)
    if known.comma and story.word_at(end, 1) != ",":
        word += " ," if is_spaced(story) else ","
    return Edit(start.start, end.end, word)


def is_spaced(story: Story) -> bool:
    """Whether punctuation is separated from words, as in tokenised texts."""
    marks = [token for token in story.tokens if token.text in (".", ",")]
    return bool(marks) and all(story.text[token.start - 1 : token.start].isspace() for token in marks)
