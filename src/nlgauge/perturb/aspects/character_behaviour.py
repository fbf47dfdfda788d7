"""Subjects and objects exchanged, pronouns replaced (paper 4, Table 1, "character behavior")."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, get_args

import msgspec

from nlgauge.perturb.aspects import clauses
from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, one_way
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.resources.word_forms import inflected, with_capitals_of
from nlgauge.perturb.resources.word_tables import table
from nlgauge.perturb.story import Story
from nlgauge.text.words import word_set

Column = Literal["subject", "object", "possessive_adjective", "possessive_noun", "reflexive"]
Agreement = Literal["first", "third", "plural"]

_COLUMNS: tuple[Column, ...] = get_args(Column)
_IS = {"first": "am", "third": "is", "plural": "are"}
_WAS = {"first": "was", "third": "was", "plural": "were"}
_MOST_WORDS = 5
_MOST_CHARACTERS = 1000
_STATIC = word_set("be have get want need do like mean spend take make let keep")
_WITHIN = word_set("det poss amod compound nummod case prep pobj conj cc nmod punct advmod quantmod predet")


@dataclass(frozen=True)
class Person:
    """A row of Table 13."""

    name: str
    forms: dict[Column, str]
    agreement: Agreement
    confused: tuple[str, ...]


@cache
def persons() -> dict[str, Person]:
    """All rows of Table 13 by name."""
    rows = [{**row, "forms": {column: row[column] for column in _COLUMNS}} for row in table("pronouns")["persons"]]
    return {person.name: person for person in msgspec.convert(rows, list[Person])}


@dataclass(frozen=True, kw_only=True)
class CharacterBehaviour(Perturbation):
    """Exchange a subject and its object, or put a pronoun of another person in place of one; each half of the time.

    Pronouns keep their grammatical case and verbs agree with their new subjects. "It" is never replaced, since it is
    often an expletive ("it rained"); nor is a person that only one pronoun of the story names, unless it is "he" or
    "she": another pronoun would be as good there.
    """

    name: ClassVar[str] = "character-behaviour"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA, Table 1 and Table 13"
    parses: ClassVar[bool] = True

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002
        """One exchange or one pronoun."""
        ways = (("exchange", lambda: _exchange(story, draw)), ("pronoun", lambda: _substitution(story, draw)))
        reason = "no subject and object that can change places, and no pronoun that another could replace"
        return one_way(story, draw, ways, reason)

    def coherent(self, story: Story) -> bool:
        """Whether pronouns of at least three persons are there, or a passive."""
        if any(token.relation in ("nsubjpass", "auxpass") for token in story.tokens):
            return True
        words = {token.word for token in story.tokens}
        named = {name for name, person in persons().items() if words & set(map(str.lower, person.forms.values()))}
        return len({"you" if name == "you all" else name for name in named}) >= 3


def _exchange(story: Story, draw: random.Random) -> list[Edit]:
    """The subject and the object of a random verb that allows it, exchanged."""
    verbs = [token for token in story.tokens if token.pos == "VERB" and token.base not in _STATIC]
    draw.shuffle(verbs)
    for verb in verbs:
        beside, sentence = story.children(verb), story.sentence(verb.sentence)
        subjects = [child for child in beside if child.relation in ("nsubj", "nsubjpass") and child.place < verb.place]
        objects = _objects(story, verb)
        if len(sentence) >= _MOST_CHARACTERS or sentence.endswith("?") or "dative" in story.relations(verb):
            continue
        if len(subjects) == len(objects) == 1 and (edits := _exchanged(story, verb, subjects[0], objects[0])):
            return edits
    return []


def _objects(story: Story, verb: Token) -> list[Token]:
    """The object of an active verb, or the agent of a passive one ("was seen by Ann")."""
    beside = story.children(verb)
    if "nsubjpass" in story.relations(verb):
        agents = [child for child in beside if child.relation == "agent"]
        return [one for agent in agents for one in story.children(agent) if one.relation == "pobj"]
    return [child for child in beside if child.relation == "dobj" and child.place > verb.place]


def _exchanged(story: Story, verb: Token, subject: Token, target: Token) -> list[Edit]:
    one, other = _noun_phrase(story, subject), _noun_phrase(story, target)
    if not one or not other or one[-1].place >= verb.place or (target.tag == "PRP" and target.word == "it"):
        return []
    if subject.tag == "PRP" and "prt" in story.relations(verb):
        return []
    first, second = _in_case(story, other, "subject"), _in_case(story, one, "object")
    verbs = _agreeing(story, verb, _agreement_of(story, subject), _agreement_of(story, target))
    if first is None or second is None or verbs is None or _in_case(story, one, "subject") == first:
        return []
    return [
        Edit(one[0].start, one[-1].end, clauses.cased(story, first, other[0], one[0])),
        Edit(other[0].start, other[-1].end, clauses.cased(story, second, one[0], other[0])),
        *verbs,
    ]


def _noun_phrase(story: Story, head: Token) -> list[Token]:
    """The tokens of a short noun phrase without clauses or commas, or of a personal pronoun; else none."""
    whole = story.subtree(head)
    if head.tag == "PRP":
        return whole if len(whole) == 1 and _row_of(head, "subject", "object") else []
    if head.pos not in ("NOUN", "PROPN") or head.base == "lot" or len(whole) > _MOST_WORDS:
        return []
    if whole[-1].pos == "ADV" or whole[-1].place - whole[0].place + 1 != len(whole):
        return []
    marks = any(one.text in (",", "(", ")", ";", ":", '"', "-") for one in whole)
    return [] if marks or any(one is not head and one.relation not in _WITHIN for one in whole) else whole


def _in_case(story: Story, phrase: Sequence[Token], column: Column) -> str | None:
    if phrase[0].tag != "PRP" or len(phrase) > 1:
        return story.text[phrase[0].start : phrase[-1].end]
    person = _row_of(phrase[0], "subject", "object")
    return _written(story, person.forms[column]) if person else None


def _written(story: Story, form: str) -> str:
    """A pronoun as the text writes it: "i" if all is in lower case, "HIM" if all is in capitals."""
    letters = "".join(token.text for token in story.tokens if not token.text.startswith("["))
    if letters.isupper() and len(letters) > 1:
        return form.upper()
    return form if any(map(str.isupper, letters)) else form.lower()


def _row_of(token: Token, *columns: Column) -> Person | None:
    forms = ((person, person.forms[column]) for person in persons().values() for column in columns)
    return next((person for person, form in forms if form.lower() == token.word), None)


def _agreement_of(story: Story, head: Token) -> Agreement:
    if head.tag == "PRP":
        person = _row_of(head, "subject", "object")
        return "third" if person is None else person.agreement
    return "plural" if "conj" in story.relations(head) or head.tag in ("NNS", "NNPS") else "third"


def _agreeing(story: Story, verb: Token, old: Agreement, new: Agreement) -> list[Edit] | None:
    """Edits that make a verb, and verbs joined to it, agree with a new subject; None if that is not possible."""
    beside = story.children(verb)
    auxiliaries = [child for child in beside if child.relation in ("aux", "auxpass") and child.tag != "TO"]
    finite = auxiliaries[0] if auxiliaries else verb
    form = _agreeing_form(story, finite, old, new)
    if form is None:
        return None
    edits = [Edit(finite.start, finite.end, form)] if form != finite.text else []
    for child in beside:
        if child.relation == "conj" and child.pos in ("VERB", "AUX"):
            own = story.relations(child)
            if not own.isdisjoint(clauses.SUBJECTS) or (auxiliaries and "aux" not in own):
                continue
            more = _agreeing(story, child, old, new)
            if more is None:
                return None
            edits += more
    return edits


def _agreeing_form(story: Story, finite: Token, old: Agreement, new: Agreement) -> str | None:
    word = finite.word
    if old == new or finite.tag == "MD":
        return finite.text
    if finite.tag not in ("VBD", "VBZ", "VBP"):
        return None
    if word.startswith(("'", "’")):
        return finite.text if word[1:] == "d" else None
    if finite.base == "be" or word in ("am", "is", "are", "was", "were"):
        form = (_WAS if word in ("was", "were") else _IS)[new]
        negated = story.word_at(finite, 1) in ("n't", "n’t")
        return None if form == "am" and negated else with_capitals_of(form, finite.text[:1])
    if finite.tag == "VBD" or (old == "third") == (new == "third"):
        return finite.text
    other = inflected(finite.base, "VBZ" if new == "third" else "VBP")
    return with_capitals_of(other, finite.text[:1]) if other and inflected(finite.base, finite.tag) == word else None


def _substitution(story: Story, draw: random.Random) -> list[Edit]:
    """A random pronoun that can be another person's, replaced."""
    found = [(token, column, person) for token in story.tokens for column, person in _pronoun(story, token)]
    counts = Counter(person.name for _, _, person in found)
    for token, column, person in draw.sample(found, len(found)):
        if person.name == "it" or (person.name not in ("he", "she") and counts[person.name] < 2):
            continue
        if column == "reflexive" or story.word_at(token, -1) == "of" or _is_quoted(story, token):
            continue
        beside = [other for other, _, _ in found if other.sentence == token.sentence and other is not token]
        targets = [other for other in persons().values() if _may_replace(person, other, column, beside)]
        if targets and (edits := _substituted(story, token, column, person, draw.choice(targets))):
            return edits
    return []


def _pronoun(story: Story, token: Token) -> Iterator[tuple[Column, Person]]:
    """The column and the person of a token, if it is a personal pronoun; its tag decides for "her" and "his"."""
    if token.tag not in ("PRP", "PRP$") or (len(token.text) > 1 and token.text.isupper()):
        return
    column: Column
    if token.tag == "PRP$":
        column = "possessive_adjective" if token.relation == "poss" else "possessive_noun"
    elif token.word in ("you", "it"):
        is_subject = token.relation in clauses.SUBJECTS and clauses.is_finite(story, story.head(token))
        column = "subject" if is_subject else "object"
    else:
        column = next((one for one in _COLUMNS if _row_of(token, one) and one != "possessive_adjective"), "subject")
    person = _row_of(token, column)
    if person is not None:
        yield column, person


def _may_replace(person: Person, other: Person, column: Column, beside: Sequence[Token]) -> bool:
    """Whether the other person is different, and the sentence does not already name it ("I saw me")."""
    if other.name in (person.name, *person.confused, "you all") or other.forms[column] == person.forms[column]:
        return False
    taken = [row.name for token in beside if (row := _row_of(token, "subject", "object")) is not None]
    if other.name in ("I", "we"):
        return "I" not in taken and "we" not in taken
    return other.name not in ("you", "it") or other.name not in taken


def _substituted(story: Story, token: Token, column: Column, old: Person, new: Person) -> list[Edit]:
    word = _written(story, new.forms[column])
    if story.is_first(token) and token.text[:1].isupper():
        word = word[:1].upper() + word[1:]
    edit = Edit(token.start, token.end, word)
    if column != "subject":
        return [edit]
    verbs = _agreeing(story, story.head(token), old.agreement, new.agreement)
    if token.relation not in clauses.SUBJECTS or verbs is None:
        return []
    reflexives = [one for one in story.tokens_of(token.sentence) if one.word == old.forms["reflexive"]]
    return [edit, *verbs, *(Edit(one.start, one.end, new.forms["reflexive"]) for one in reflexives)]


def _is_quoted(story: Story, token: Token) -> bool:
    """Whether a token may be in direct speech, where persons change with the speaker."""
    start = story.text.rfind("\n", 0, token.start) + 1
    return clauses.is_quoting(story.sentence(token.sentence)) or story.text.count('"', start, token.start) % 2 == 1
