"""Clauses and word tables, for perturbations that reverse the order of events (paper 4, Table 1 and Table 12)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal

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
    """The words of a relation: markers, words that begin a sentence with it, and opposites."""

    words: frozenset[str]
    openers: tuple[tuple[str, ...], ...]
    substitutions: tuple[Substitution, ...]


@cache
def relation_table(name: str) -> RelationTable:
    """The table of causal or temporal words."""
    found = table(name)
    return RelationTable(
        frozenset(found["words"]),
        tuple(tuple(opener.split()) for opener in found["openers"]),
        tuple(_substitution(one) for one in found["substitutions"]),
    )


def _substitution(entry: dict[str, Any]) -> Substitution:
    sets = {key: frozenset(entry.get(key, ())) for key in ("not_after", "not_before", "after", "before", "without")}
    return Substitution(
        tuple(entry["old"].split()),
        tuple(entry["new"]),
        entry.get("place", "any"),
        **sets,
        comma=entry.get("comma", False),
    )


def children(story: Story, token: Token) -> list[Token]:
    """The dependents of a token, in order."""
    return [one for one in story.tokens_of(token.sentence) if one.head == token.place and one is not token]


def subtree(story: Story, token: Token) -> list[Token]:
    """A token and all its descendants, in order."""
    found, waiting = [token], [token]
    while waiting:
        more = children(story, waiting.pop())
        found += more
        waiting += more
    return sorted(found, key=lambda one: one.place)


def is_quoting(text: str) -> bool:
    """Whether a text has quotation marks, whose two halves should stay together."""
    return not _QUOTES.isdisjoint(text)


def sentence_range(story: Story, number: int) -> tuple[int, int] | None:
    """Places of the first token and after the last word of a sentence that ends like a statement; else None."""
    tokens = story.tokens_of(number)
    if not tokens or len(tokens) > _MOST_TOKENS or is_quoting(story.sentence(number)):
        return None
    ending = [token for token in tokens if token.pos == "PUNCT" and token.start >= _last_word_end(tokens)]
    if not ending or any(not _ENDS.issuperset(token.text) for token in ending):
        return None
    return tokens[0].place, ending[0].place


def _last_word_end(tokens: Sequence[Token]) -> int:
    return max((token.end for token in tokens if token.pos != "PUNCT"), default=tokens[-1].end)


def clause_in(story: Story, first: int, end: int) -> Clause | None:
    """The topmost clause among the tokens from place `first` up to `end`: from its subject on, with a finite verb."""
    while first < end and story.tokens[end - 1].pos == "PUNCT":
        end -= 1
    best: tuple[int, Clause] | None = None
    for subject in story.tokens[first:end]:
        verb = story.tokens[subject.head]
        if subject.relation not in SUBJECTS or not subject.place < verb.place < end:
            continue
        if best is not None and _depth(story, verb) >= best[0]:
            continue
        whole = subtree(story, subject)
        if is_finite(story, verb) and whole[0].place >= first and whole[-1].place < verb.place:
            best = _depth(story, verb), Clause(whole[0].place, subject.place, whole[-1].place, verb.place, end - 1)
    return None if best is None else best[1]


def is_finite(story: Story, verb: Token) -> bool:
    """Whether a verb, or the auxiliary before it, has a tense."""
    return verb.tag in _FINITE or any(
        child.tag in _FINITE and child.relation in ("aux", "auxpass") for child in children(story, verb)
    )


def _depth(story: Story, token: Token) -> int:
    steps = 0
    while token.head != token.place:
        token = story.tokens[token.head]
        steps += 1
    return steps


def exchanged(story: Story, one: Clause, other: Clause) -> list[Edit]:
    """Edits that put each clause in the other's place.

    If a pronoun refers to the first subject ("Tom left because he was tired"), only what follows the subjects is
    exchanged ("Tom was tired because he left"), so that the pronoun still follows its antecedent.
    """
    tokens = story.tokens
    ends = tokens[one.last].end, tokens[other.last].end
    if _refers_to(story, one, other):
        starts = tokens[one.subject_end].end, tokens[other.subject_end].end
        texts = [story.text[start:end] for start, end in zip(starts, ends, strict=True)]
    else:
        starts = tokens[one.first].start, tokens[other.first].start
        texts = [story.text[start:end] for start, end in zip(starts, ends, strict=True)]
        models = tokens[one.first], tokens[other.first]
        texts = [cased(story, texts[0], models[0], models[1]), cased(story, texts[1], models[1], models[0])]
    return [Edit(starts[0], ends[0], texts[1]), Edit(starts[1], ends[1], texts[0])]


def _refers_to(story: Story, one: Clause, other: Clause) -> bool:
    subject, pronoun = story.tokens[one.head], story.tokens[other.head]
    if subject.pos not in ("NOUN", "PROPN") or pronoun.place != other.first or pronoun.tag != "PRP":
        return False
    word, noun = pronoun.text.lower(), subject.lemma.lower()
    if subject.tag in ("NNS", "NNPS") or any(child.relation == "conj" for child in children(story, subject)):
        return word == "they"
    if noun == "[male]" or noun in _WORDS["men"]:
        return word == "he"
    if noun == "[female]" or noun in _WORDS["women"]:
        return word == "she"
    return word in ("he", "she") and (subject.pos == "PROPN" or noun in _WORDS["people"])


def cased(story: Story, text: str, first: Token, model: Token) -> str:
    """A text whose first token is `first`, with the capitalisation that the position of `model` requires."""
    if is_first(story, model):
        return text[:1].upper() + text[1:] if model.text[:1].isupper() else text
    if is_first(story, first) and not keeps_capital(first):
        return text[:1].lower() + text[1:]
    return text


def is_first(story: Story, token: Token) -> bool:
    """Whether a token is the first word of its sentence."""
    beside = story.tokens_of(token.sentence)
    return all(before.pos == "PUNCT" for before in beside[: token.place - beside[0].place])


def keeps_capital(token: Token) -> bool:
    """Whether a token's capital is its own: names, "I", words in capitals; a subject of one word is a name, too."""
    if token.pos == "PROPN" or token.text == "I" or (len(token.text) > 1 and token.text.isupper()):
        return True
    is_word = (
        token.pos in ("PRON", "DET", "NUM") or token.tag in ("NNS", "VBG") or token.text.lower() in _WORDS["quantities"]
    )
    return token.relation in SUBJECTS and not is_word


def connected(story: Story, first: int, marker: int, after: int, end: int) -> tuple[Clause, Clause] | None:
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
        if other is None or other.first != comma + 1:
            continue
        one = clause_in(story, after, comma)
        return (one, other) if one is not None and one.first == after else None
    return None


def reordered_sentences(story: Story, openers: Sequence[tuple[str, ...]]) -> list[list[Edit]]:
    """For each sentence that begins with one of the openers, edits that exchange it with the one before.

    The words before a sentence's subject ("One day", the opener itself) stay in place.
    """
    found = []
    for number, following in pairwise(range(len(story.sentences))):
        before, after = sentence_range(story, number), sentence_range(story, following)
        if before is None or after is None:
            continue
        size = opener_length(story, after[0], openers)
        if not size or opener_length(story, before[0], openers):
            continue
        start = after[0] + size + (story.tokens[after[0] + size].text == ",")
        one, other = clause_in(story, *before), clause_in(story, start, after[1])
        if one is not None and other is not None and other.first == start and is_lead(story, before[0], one.first):
            found.append(exchanged(story, one, other))
    return found


def is_lead(story: Story, first: int, end: int) -> bool:
    """Whether tokens before a subject may stay if the clause moves: none, or adverbs and phrases up to a comma."""
    lead = story.tokens[first:end]
    return not any(token.relation in ("mark", "advcl", "csubj") or token.tag in ("WRB", "WP") for token in lead)


def opener_length(story: Story, first: int, openers: Sequence[tuple[str, ...]]) -> int:
    """The number of tokens of an opener at a position; 0 if there is none."""
    for opener in sorted(openers, key=len, reverse=True):
        words = tuple(token.text.lower() for token in story.tokens[first : first + len(opener)])
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
    if token.text.lower() != known.old[0]:
        return False
    if tuple(one.text.lower() for one in story.tokens[place:after]) != known.old:
        return False
    if known.place != "any" and (known.place == "start") != is_first(story, token):
        return False
    if known.comma and after < len(story.tokens) and story.tokens[after].pos in ("VERB", "AUX"):
        return False
    previous, following = word_at(story, token, -1), word_at(story, token, len(known.old))
    if previous in known.not_after or following in known.not_before:
        return False
    if (known.after and previous not in known.after) or (known.before and following not in known.before):
        return False
    return known.without.isdisjoint(one.text.lower() for one in story.tokens_of(token.sentence))


def word_at(story: Story, token: Token, step: int) -> str:
    """The word some tokens away within the sentence, in lower case; empty beyond its edges."""
    place = token.place + step
    if not 0 <= place < len(story.tokens) or story.tokens[place].sentence != token.sentence:
        return ""
    return story.tokens[place].text.lower()


def _substituted(story: Story, token: Token, known: Substitution, new: str) -> Edit:
    """The edit that puts the new words in place of the old, without those that both end or begin with."""
    words = new.split()
    first, last = token.place, token.place + len(known.old) - 1
    while first < last and len(words) > 1 and words[0] == story.tokens[first].text.lower():
        first += 1
        del words[0]
    while first < last and len(words) > 1 and words[-1] == story.tokens[last].text.lower():
        last -= 1
        del words[-1]
    start, end = story.tokens[first], story.tokens[last]
    word = with_capitals_of(" ".join(words), start.text)
    if known.comma and word_at(story, end, 1) != ",":
        word += " ," if is_spaced(story) else ","
    return Edit(start.start, end.end, word)


def is_spaced(story: Story) -> bool:
    """Whether punctuation is separated from words, as in tokenised texts."""
    marks = [token for token in story.tokens if token.text in (".", ",")]
    return bool(marks) and all(story.text[token.start - 1 : token.start].isspace() for token in marks)
