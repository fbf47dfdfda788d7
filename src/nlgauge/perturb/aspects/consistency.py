"""Stories that contradict themselves (paper 4, Table 1): words become antonyms, or sentences are negated.

Negation follows the parse: "agreed" becomes "did not agree", "didn't go" becomes "went", "nobody" becomes "somebody".
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from nlgauge.configured import option
from nlgauge.perturb.aspects.clauses import children
from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, Unchanged, check_share, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.resources.word_forms import begins_with_vowel, in_form_of, inflected, replaced, with_capitals_of
from nlgauge.perturb.resources.word_tables import table, word_pairs, word_sets
from nlgauge.perturb.resources.wordnet import CLASSES, WordClass, load_wordnet
from nlgauge.perturb.story import Story

_WORDS = word_sets("consistency")
_TO_SOME = {"any": "some", "anything": "something", "anyone": "someone", "anybody": "somebody", "anywhere": "somewhere"}
_INSTEAD = {"nobody": "somebody", "nothing": "something", "nowhere": "somewhere", "rarely": "often", "seldom": "often"}
_FULL = {"ca": "can", "wo": "will", "sha": "shall"}
_FINITE = {"VBD": "did", "VBZ": "does", "VBP": "do"}


@dataclass(frozen=True, kw_only=True)
class Consistency(Perturbation):
    """In a share of the sentences, a word becomes its antonym, or a negation is added or removed."""

    name: ClassVar[str] = "consistency"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA (Guan et al. 2021), Table 1"
    parses: ClassVar[bool] = True

    share: float = option(0.2, "Share of the sentences that are changed.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("consistency:share", self.share)

    def prepare(self) -> None:
        """Raise an error without the parser or WordNet."""
        super().prepare()
        load_wordnet()

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Draw the technique, then sentences to which it applies, then one way for each.

        Sentences that share a word with another one are preferred, since their content is repeated or presupposed; the
        last sentence comes last. In a sentence, words joined to others by "and" come last.
        """
        techniques: list[tuple[str, Callable[[Story, Token], list[list[Edit]]]]]
        techniques = [("antonym", antonyms), ("negation", negations)]
        draw.shuffle(techniques)
        taken_up, last = _repeated(story), len(story.sentences) - 1
        for rule, ways_of in techniques:
            ways: dict[int, list[list[Edit]]] = {}
            for token in sorted(story.tokens, key=_is_added):
                if (found := ways_of(story, token)) and not (_is_added(token) and token.sentence in ways):
                    ways.setdefault(token.sentence, []).extend(found)
            if ways:
                count = min(len(ways), max(1, round(self.share * len(story.sentences))))
                chosen: list[int] = []
                for tier in (taken_up - {last}, set(ways) - {last}, {last}):
                    left = sorted(number for number in ways if number in tier and number not in chosen)
                    chosen += draw.sample(left, min(len(left), count - len(chosen)))
                return edited(story.text, [edit for number in chosen for edit in draw.choice(ways[number])], rule)
        return Unchanged("no word has an antonym that fits, and no sentence can be negated")

    def coherent(self, story: Story) -> bool:
        """Whether a story has a negated word."""
        return any(is_negated(token) for token in story.tokens)


def _is_added(token: Token) -> bool:
    """Whether a word is joined to another of its kind ("joined us and stole it"): less depends on it."""
    return token.relation == "conj"


def _repeated(story: Story) -> set[int]:
    """The sentences with a noun, a verb or an adjective that occurs in another sentence, too."""
    places: dict[str, set[int]] = {}
    for token in story.tokens:
        if token.pos in ("NOUN", "VERB", "ADJ") and token.lemma.lower() not in _WORDS["everywhere"]:
            places.setdefault(token.lemma.lower(), set()).add(token.sentence)
    return {number for found in places.values() if len(found) > 1 for number in found}


@lru_cache(maxsize=1)
def negated_words() -> tuple[frozenset[str], dict[WordClass, Mapping[str, str]]]:
    """The table of negated words (paper 4, Table 12): function words; by class, words with a prefix and without."""
    tables = table("negated")
    return frozenset(tables["words"]), {word_class: tables[word_class] for word_class in CLASSES.values()}


def is_negated(token: Token) -> bool:
    """Whether a token is a negated word."""
    words, prefixed = negated_words()
    return token.text.lower().replace("’", "'") in words or any(
        token.lemma.lower() in by_class or token.text.lower() in by_class for by_class in prefixed.values()
    )


def antonyms(story: Story, token: Token) -> list[list[Edit]]:
    """The ways to put an antonym in a token's place."""
    if token.pos not in CLASSES or not token.text.isalpha() or token.tag.startswith("NNP"):
        return []
    lemma, word_class = token.lemma.lower(), CLASSES[token.pos]
    if not _fits(story, token):
        return []
    forms = (in_form_of(word, token) for word in _opposites(lemma, word_class))
    return [replaced(story, token, form) for form in forms if form is not None]


@lru_cache(maxsize=20_000)
def _opposites(lemma: str, word_class: WordClass) -> tuple[str, ...]:
    """Strong antonyms that WordNet knows, by one of the first four senses."""
    known = load_wordnet().antonyms(lemma, word_class, senses=4)
    pairs = word_pairs("consistency", "opposed")[word_class]
    return tuple(new for old, new in pairs if old == lemma and new in known)


def _fits(story: Story, token: Token) -> bool:
    """Whether an antonym has the same complements as a word: most need an object, and none takes a particle."""
    below = children(story, token)
    relations = {child.relation for child in below}
    lemma = token.lemma.lower()
    if token.pos == "VERB":
        if relations & {"prt", "dative"} or token.relation == "amod":
            return False
        if lemma in _WORDS["needs_object"] and not relations & {"dobj", "nsubjpass"}:
            return False
        if lemma == "like" and any(child.text.lower() in _WORDS["leaves_same"] for child in below):
            return False
        if lemma == "manage":
            return "xcomp" in relations
        return lemma in _WORDS["no_clause"] or not relations & {"xcomp", "ccomp"}
    if token.pos == "NOUN":
        return token.relation != "compound" and "compound" not in relations
    if token.tag in ("JJR", "JJS", "RBR", "RBS"):
        return False
    return not ((lemma == "tired" and "prep" in relations) or (lemma == "afraid" and "ccomp" in relations))


def negations(story: Story, token: Token) -> list[list[Edit]]:
    """The ways to remove a negation token, or to negate a verb token."""
    if is_negated(token):
        return _without(story, token)
    return _negated_verb(story, token)


def _without(story: Story, token: Token) -> list[list[Edit]]:
    """The ways to remove a negation token."""
    word = token.text.lower().replace("’", "'")
    first = token.place == 0 or story.tokens[token.place - 1].sentence != token.sentence
    after = [one for one in story.tokens_of(token.sentence) if one.place > token.place]
    following = after[0].text.lower() if after else ""
    spoilt = any(one.text.lower() in _WORDS["spoils_removal"] for one in after)
    if word in ("no", "none", *_INSTEAD) and (spoilt and following != "longer"):
        return []
    if word in _INSTEAD and following != "else":
        return [[Edit(token.start, token.end, with_capitals_of(_INSTEAD[word], token.text))]]
    if word == "no":
        return _without_no(story, token, after)
    if word == "none":
        return [[Edit(token.start, token.end, with_capitals_of("some", token.text))]] if following == "of" else []
    if word in _WORDS["not"] or word in ("never", "hardly", "barely", "scarcely"):
        if first or spoilt:
            return []
        some = [
            Edit(one.start, one.end, with_capitals_of(_TO_SOME[one.text.lower()], one.text))
            for one in after
            if one.text.lower() in _TO_SOME
        ]
        main = _without_not(story, token) if word in _WORDS["not"] else [_removed(story, token)]
        return [[*main, *some]] if main else []
    _, prefixed = negated_words()
    plain = prefixed.get(CLASSES.get(token.pos, "noun"), {}).get(token.lemma.lower())
    form = None if plain is None or token.pos not in CLASSES else in_form_of(plain, token)
    return [] if form is None else [replaced(story, token, form)]


def _without_no(story: Story, token: Token, after: list[Token]) -> list[list[Edit]]:
    """The opposite of "no": "someone" for "no one", "still" for "no longer", "some money", "an answer"."""
    if not after or (token.relation != "det" and after[0].text.lower() != "longer"):
        return []
    noun, following = story.tokens[token.head], after[0].text.lower()
    if following in ("one", "longer"):
        new = "someone" if following == "one" else "still"
        return [[Edit(token.start, after[0].end, with_capitals_of(new, token.text[:1]))]]
    if (
        noun.place <= token.place
        or noun.lemma in ("matter", "doubt", "wonder", "time", "avail", "problem")
        or "NNP" in noun.tag
    ):
        return []
    some = noun.tag == "NNS" or noun.lemma in _WORDS["mass"]
    new = "some" if some else "an" if begins_with_vowel(after[0].text) else "a"
    return [[Edit(token.start, token.end, with_capitals_of(new, token.text[:1]))]]


def _without_not(story: Story, token: Token) -> list[Edit]:
    """Edits that remove "not", and "did" with it if the verb can carry the tense."""
    before = story.tokens[token.place - 1]
    verb = story.tokens[token.head]
    if before.text.lower() in ("do", "does", "did") and before.relation == "aux" and before.head == token.head:
        if verb.tag != "VB" or verb.place < token.place or not _has_subject_before(story, verb, before):
            return []
        tag = {"do": "VBP", "does": "VBZ", "did": "VBD"}[before.text.lower()]
        form = inflected(verb.lemma.lower(), tag)
        if form is None:
            return []
        following = story.tokens[token.place + 1]
        return [
            Edit(before.start, following.start, ""),
            Edit(verb.start, verb.end, with_capitals_of(form, verb.text)),
        ]
    if before.text.lower() in _FULL:
        return [Edit(before.start, token.end, with_capitals_of(_FULL[before.text.lower()], before.text))]
    to_follows = story.tokens[token.place + 1].tag == "TO" if token.place + 1 < len(story.tokens) else False
    if before.pos != "AUX" and not to_follows:
        return []
    return [_removed(story, token)]


def _has_subject_before(story: Story, verb: Token, place: Token) -> bool:
    return any(
        child.relation in ("nsubj", "nsubjpass", "expl") and child.place < place.place
        for child in children(story, verb)
    )


def _removed(story: Story, token: Token) -> Edit:
    """The edit that removes a token and the space before it."""
    start = token.start
    while story.text[start - 1].isspace():
        start -= 1
    return Edit(start, token.end, "")


def _negated_verb(story: Story, token: Token) -> list[list[Edit]]:
    """A sentence with the verb that a token is negated: "not" after its auxiliary, before "to", or with "did"."""
    sentence = story.tokens_of(token.sentence)
    below = children(story, token)
    if token.pos not in ("VERB", "AUX") or sentence[-1].text == "?":
        return []
    words = {one.text.lower() for one in below} | {
        one.text.lower() for one in sentence if abs(one.place - token.place) < 3
    }
    if words & _WORDS["spoils_insertion"] or token.relation not in ("ROOT", "conj"):
        return []
    if token.lemma.lower() in _WORDS["choices"]:
        clause = next((child for child in below if child.relation == "xcomp"), None)
        marker = next((one for one in children(story, clause) if one.tag == "TO"), None) if clause else None
        if marker is not None:
            return [[Edit(marker.start, marker.start, "not ")]]
    auxiliaries = [child for child in below if child.relation in ("aux", "auxpass") and child.place < token.place]
    if any(one.pos != "AUX" or one.lemma == "get" for one in auxiliaries) or (
        token.lemma.lower() in _WORDS["saying"] and '"' in story.sentence(token.sentence)
    ):
        return []
    first = auxiliaries[0] if auxiliaries else token
    subject = next((one for one in below if one.relation in ("nsubj", "nsubjpass", "expl")), None)
    if (subject is None and token.relation != "conj") or (subject is not None and subject.place > first.place):
        return []
    if auxiliaries or token.lemma.lower() == "be":
        text = first.text.lower()
        if (text.startswith(("'", "’")) and text not in _WORDS["short_be"]) or first.tag in ("VB", "VBN", "VBG", "TO"):
            return []
        if text in ("'s", "’s") and token.tag == "VBN" and first.lemma != "be":
            return []
        return [[Edit(first.end, first.end, "not" if text == "can" else " not")]]
    before = story.tokens[token.place - 1] if token.place else token
    if token.tag not in _FINITE or before.tag in ("RB", "RP", "IN") or _shared(story, token):
        return []
    base = inflected(token.lemma.lower(), "VB")
    new = None if base is None else f"{_FINITE[token.tag]} not {base}"
    return [] if new is None else [[Edit(token.start, token.end, with_capitals_of(new, token.text))]]


def _shared(story: Story, token: Token) -> bool:
    """Whether a verb after "and" has the same subject: it would fall under the negation, or not."""
    return any(
        child.relation == "conj"
        and child.pos in ("VERB", "AUX")
        and not any(one.relation in ("nsubj", "nsubjpass") for one in children(story, child))
        for child in children(story, token)
    )
