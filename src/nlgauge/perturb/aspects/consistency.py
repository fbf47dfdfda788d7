"""Stories that contradict themselves (paper 4, Table 1): words become antonyms, or sentences are negated.

Negation follows the parse: "agreed" becomes "did not agree", "didn't go" becomes "went", "nobody" becomes "somebody".
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from nlgauge.configured import option
from nlgauge.perturb.aspects.clauses import SUBJECTS
from nlgauge.perturb.base import Edit, Kind, Outcome, PerturbationOfShare, one_way
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.resources.word_forms import (
    article_of,
    forms_like,
    in_form_of,
    inflected,
    replaced,
    with_capitals_of,
)
from nlgauge.perturb.resources.word_tables import table, word_pairs, word_sets
from nlgauge.perturb.resources.wordnet import CLASSES, WordClass, is_common_word, load_wordnet
from nlgauge.perturb.story import Story

_WORDS = word_sets("consistency")
_TO_SOME = {"any": "some", "anything": "something", "anyone": "someone", "anybody": "somebody", "anywhere": "somewhere"}
_INSTEAD = {"nobody": "somebody", "nothing": "something", "nowhere": "somewhere", "rarely": "often", "seldom": "often"}
_FULL = {"ca": "can", "wo": "will", "sha": "shall"}
_TENSES = {"did": "VBD", "does": "VBZ", "do": "VBP"}
_FINITE = {tag: word for word, tag in _TENSES.items()}


@dataclass(frozen=True, kw_only=True)
class Consistency(PerturbationOfShare):
    """In a share of the sentences, a word becomes its antonym, or a negation is added or removed."""

    name: ClassVar[str] = "consistency"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA (Guan et al. 2021), Table 1"
    parses: ClassVar[bool] = True
    uses_wordnet: ClassVar[bool] = True

    share: float = option(0.2, "Share of the sentences that are changed.")

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Draw the technique, then sentences to which it applies, then one way for each.

        Sentences that share a word with another one are preferred, since their content is repeated or presupposed; the
        last sentence comes last. In a sentence, words joined to others by "and" come last.
        """

        def edits(ways_of: Callable[[Story, Token], list[list[Edit]]]) -> list[Edit]:
            ways: dict[int, list[list[Edit]]] = {}
            for token in sorted(story.tokens, key=_is_added):
                if (found := ways_of(story, token)) and not (_is_added(token) and token.sentence in ways):
                    ways.setdefault(token.sentence, []).extend(found)
            count = min(len(ways), max(1, round(self.share * len(story.sentences))))
            last, chosen = len(story.sentences) - 1, list[int]()
            for tier in (_repeated(story) - {last}, set(ways) - {last}, {last}):
                left = sorted(number for number in ways if number in tier and number not in chosen)
                chosen += draw.sample(left, min(len(left), count - len(chosen)))
            return [edit for number in chosen for edit in draw.choice(ways[number])]

        ways = (("antonym", lambda: edits(_antonyms)), ("negation", lambda: edits(_negations)))
        return one_way(story, draw, ways, "no word has an antonym that fits, and no sentence can be negated")

    def coherent(self, story: Story) -> bool:
        """Whether a story has a negated word."""
        return any(map(_is_negated, story.tokens))


def _is_added(token: Token) -> bool:
    """Whether a word is joined to another of its kind ("joined us and stole it"): less depends on it."""
    return token.relation == "conj"


def _repeated(story: Story) -> set[int]:
    """The sentences with a noun, a verb or an adjective that occurs in another sentence, too."""
    places: dict[str, set[int]] = {}
    for token in story.tokens:
        if token.pos in ("NOUN", "VERB", "ADJ") and token.base not in _WORDS["everywhere"]:
            places.setdefault(token.base, set()).add(token.sentence)
    return {number for found in places.values() if len(found) > 1 for number in found}


def _is_negated(token: Token) -> bool:
    """Whether a token is a negated word (paper 4, Table 12): a function word, or one with a prefix."""
    known = table("negated")
    prefixed = (known[word_class] for word_class in CLASSES.values())
    return token.word.replace("’", "'") in known["words"] or any(
        token.base in by_class or token.word in by_class for by_class in prefixed
    )


def _antonyms(story: Story, token: Token) -> list[list[Edit]]:
    """The ways to put an antonym in a token's place."""
    if not is_common_word(token) or not _fits(story, token):
        return []
    opposites = _opposites(token.base, CLASSES[token.pos])
    return [replaced(story, token, form) for form in forms_like(opposites, token)]


@lru_cache(maxsize=20_000)
def _opposites(lemma: str, word_class: WordClass) -> tuple[str, ...]:
    """Strong antonyms that WordNet knows, by one of the first four senses."""
    known = load_wordnet().antonyms(lemma, word_class, senses=4)
    pairs = word_pairs("consistency", "opposed")[word_class]
    return tuple(new for old, new in pairs if old == lemma and new in known)


def _fits(story: Story, token: Token) -> bool:
    """Whether an antonym has the same complements as a word: most need an object, and none takes a particle."""
    relations, lemma = story.relations(token), token.base
    if token.pos == "VERB":
        if relations & {"prt", "dative"} or token.relation == "amod":
            return False
        if lemma in _WORDS["needs_object"] and not relations & {"dobj", "nsubjpass"}:
            return False
        if lemma == "like" and any(child.word in _WORDS["leaves_same"] for child in story.children(token)):
            return False
        if lemma == "manage":
            return "xcomp" in relations
        return lemma in _WORDS["no_clause"] or not relations & {"xcomp", "ccomp"}
    if token.pos == "NOUN":
        return token.relation != "compound" and "compound" not in relations
    if token.tag in ("JJR", "JJS", "RBR", "RBS"):
        return False
    return not ((lemma == "tired" and "prep" in relations) or (lemma == "afraid" and "ccomp" in relations))


def _negations(story: Story, token: Token) -> list[list[Edit]]:
    """The ways to remove a negation token, or to negate a verb token."""
    return _without(story, token) if _is_negated(token) else _negated_verb(story, token)


def _without(story: Story, token: Token) -> list[list[Edit]]:
    """The ways to remove a negation token."""
    word = token.word.replace("’", "'")
    after = [one for one in story.tokens_of(token.sentence) if one.place > token.place]
    following = story.word_at(token, 1)
    spoilt = any(one.word in _WORDS["spoils_removal"] for one in after)
    if word in ("no", "none", *_INSTEAD) and (spoilt and following != "longer"):
        return []
    if word in _INSTEAD and following != "else":
        return [[Edit(token.start, token.end, with_capitals_of(_INSTEAD[word], token.text))]]
    if word == "no":
        return _without_no(story, token, after)
    if word == "none":
        return [[Edit(token.start, token.end, with_capitals_of("some", token.text))]] if following == "of" else []
    if word in _WORDS["not"] or word in ("never", "hardly", "barely", "scarcely"):
        if spoilt or not story.word_at(token, -1):
            return []
        any_words = [one for one in after if one.word in _TO_SOME]
        some = [Edit(one.start, one.end, with_capitals_of(_TO_SOME[one.word], one.text)) for one in any_words]
        main = _without_not(story, token) if word in _WORDS["not"] else [_removed(story, token)]
        return [[*main, *some]] if main else []
    plain = table("negated")[CLASSES[token.pos]].get(token.base) if token.pos in CLASSES else None
    form = None if plain is None else in_form_of(plain, token)
    return [] if form is None else [replaced(story, token, form)]


def _without_no(story: Story, token: Token, after: list[Token]) -> list[list[Edit]]:
    """The opposite of "no": "someone" for "no one", "still" for "no longer", "some money", "an answer"."""
    if not after or (token.relation != "det" and after[0].word != "longer"):
        return []
    noun, following = story.head(token), after[0].word
    if following in ("one", "longer"):
        new = "someone" if following == "one" else "still"
        return [[Edit(token.start, after[0].end, with_capitals_of(new, token.text[:1]))]]
    is_idiom = noun.lemma in ("matter", "doubt", "wonder", "time", "avail", "problem")
    if is_idiom or noun.place <= token.place or "NNP" in noun.tag:
        return []
    some = noun.tag == "NNS" or noun.lemma in _WORDS["mass"]
    new = "some" if some else article_of(after[0].text)
    return [[Edit(token.start, token.end, with_capitals_of(new, token.text[:1]))]]


def _without_not(story: Story, token: Token) -> list[Edit]:
    """Edits that remove "not", and "did" with it if the verb can carry the tense."""
    before, verb = story.tokens[token.place - 1], story.head(token)
    if before.word in _TENSES and before.relation == "aux" and before.head == token.head:
        subjects = [child for child in story.children(verb) if child.relation in SUBJECTS]
        has_subject = any(child.place < before.place for child in subjects)
        form = inflected(verb.base, _TENSES[before.word])
        if verb.tag != "VB" or verb.place < token.place or not has_subject or form is None:
            return []
        without = Edit(before.start, story.tokens[token.place + 1].start, "")
        return [without, Edit(verb.start, verb.end, with_capitals_of(form, verb.text))]
    if before.word in _FULL:
        return [Edit(before.start, token.end, with_capitals_of(_FULL[before.word], before.text))]
    to_follows = any(one.tag == "TO" for one in story.tokens[token.place + 1 : token.place + 2])
    return [_removed(story, token)] if before.pos == "AUX" or to_follows else []


def _removed(story: Story, token: Token) -> Edit:
    """The edit that removes a token and the space before it."""
    start = token.start
    while story.text[start - 1].isspace():
        start -= 1
    return Edit(start, token.end, "")


def _negated_verb(story: Story, token: Token) -> list[list[Edit]]:
    """A sentence with the verb that a token is negated: "not" after its auxiliary, before "to", or with "did"."""
    sentence = story.tokens_of(token.sentence)
    below = story.children(token)
    if token.pos not in ("VERB", "AUX") or sentence[-1].text == "?":
        return []
    near = [one for one in sentence if one.head == token.place or abs(one.place - token.place) < 3]
    if _WORDS["spoils_insertion"] & {one.word for one in near} or token.relation not in ("ROOT", "conj"):
        return []
    if token.base in _WORDS["choices"]:
        clause = next((child for child in below if child.relation == "xcomp"), None)
        marker = next((one for one in story.children(clause) if one.tag == "TO"), None) if clause else None
        if marker is not None:
            return [[Edit(marker.start, marker.start, "not ")]]
    auxiliaries = [child for child in below if child.relation in ("aux", "auxpass") and child.place < token.place]
    is_speech = token.base in _WORDS["saying"] and '"' in story.sentence(token.sentence)
    if is_speech or any(one.pos != "AUX" or one.lemma == "get" for one in auxiliaries):
        return []
    first = auxiliaries[0] if auxiliaries else token
    subject = next((one for one in below if one.relation in SUBJECTS), None)
    if (subject is None and token.relation != "conj") or (subject is not None and subject.place > first.place):
        return []
    if auxiliaries or token.base == "be":
        text = first.word
        if (text.startswith(("'", "’")) and text not in _WORDS["short_be"]) or first.tag in ("VB", "VBN", "VBG", "TO"):
            return []
        if text in ("'s", "’s") and token.tag == "VBN" and first.lemma != "be":
            return []
        return [[Edit(first.end, first.end, "not" if text == "can" else " not")]]
    before = story.tokens[token.place - 1] if token.place else token
    if token.tag not in _FINITE or before.tag in ("RB", "RP", "IN") or _shared(story, token):
        return []
    base = inflected(token.base, "VB")
    new = None if base is None else f"{_FINITE[token.tag]} not {base}"
    return [] if new is None else [[Edit(token.start, token.end, with_capitals_of(new, token.text))]]


def _shared(story: Story, token: Token) -> bool:
    """Whether a verb after "and" has the same subject: it would fall under the negation, or not."""
    joined = [child for child in story.children(token) if child.relation == "conj" and child.pos in ("VERB", "AUX")]
    return any(not story.relations(child) & {"nsubj", "nsubjpass"} for child in joined)
