"""Robustness to punctuation: optional commas are removed (paper 4, Table 2)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.word_tables import word_sets
from nlgauge.perturb.story import Story
from nlgauge.text.words import AUXILIARIES

_PIECE = re.compile(r"\[[A-Z]+\]|n['’]t\b|\w+(?:[-'’]\w+)*|['’]\w+|[^\w\s]", re.IGNORECASE)
_MASK = re.compile(r"\[[A-Z]+\]")

_WORDS = word_sets("punctuation")
NOMINATIVES = _WORDS["nominatives"]
_SUBJECT_STARTS = NOMINATIVES | _WORDS["other_subject_starts"]
_JOINING = _WORDS["subordinators"] | _WORDS["prepositions"] | _WORDS["conjunctions"]
_NO_SUBJECT_START = _JOINING | _WORDS["no_subject_words"]
_NO_LIST_START = _SUBJECT_STARTS | _JOINING | _WORDS["no_list_words"]
_NO_PHRASE = NOMINATIVES | AUXILIARIES | {"who", "which", "that's", "i'm", "you"}
_LONGEST_PHRASE = 6
_LONGEST_CLAUSE = 8
_SHORTEST_CLAUSE = 3
_NEAR = 4


class PlainToken(NamedTuple):
    """A word or a mark, its position, and the word in lower case with a straight apostrophe."""

    start: int
    end: int
    text: str
    word: str

    @property
    def is_word(self) -> bool:
        """Whether it has letters or digits; masked names are words."""
        return any(map(str.isalnum, self.text))

    @property
    def is_name(self) -> bool:
        """Whether it is a masked name, or begins with a capital and is not a pronoun."""
        return _MASK.fullmatch(self.text) is not None or (
            self.text[:1].isupper() and self.word.partition("'")[0] != "i"
        )


def pieces_of(story: Story) -> list[list[PlainToken]]:
    """The words and marks of every sentence. Pieces of tokenised text ("did n't") stay separate."""
    return [
        [
            PlainToken(found.start(), found.end(), found[0], found[0].lower().replace("’", "'"))
            for found in _PIECE.finditer(story.text, start, end)
        ]
        for start, end in story.sentences
    ]


@dataclass(frozen=True, kw_only=True)
class Punctuation(Perturbation):
    """Leave out inessential commas: after an introduction, before a conjunction, in a list, before a final word.

    Only commas: quotation marks, dashes and semicolons say how a sentence is built. Rules and small tables decide, and
    a comma in doubt stays, as do those in numbers, and pairs of commas around a remark.
    """

    name: ClassVar[str] = "punctuation"
    kind: ClassVar[Kind] = "robustness"
    paper: ClassVar[str] = "Guan et al. 2021 (OpenMEVA), Table 2"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Leave out one or more commas of one kind; in tokenised text, with the space before."""
        found: dict[str, list[Edit]] = {rule: [] for rule in _RULES}
        for pieces in pieces_of(story):
            commas = _commas(story.text, pieces)
            for place in commas:
                if rule := next((rule for rule, fits in _RULES.items() if fits(pieces, commas, place)), None):
                    comma = pieces[place]
                    is_apart = story.text[comma.start - 1 : comma.start] == " "
                    found[rule].append(Edit(comma.start - is_apart, comma.end, ""))
        usable = [rule for rule in _RULES if found[rule]]
        if not usable:
            return Unchanged("no comma that could be left out")
        rule = draw.choice(usable)
        return edited(story.text, draw.sample(found[rule], draw.randint(1, len(found[rule]))), rule)


def _commas(text: str, pieces: Sequence[PlainToken]) -> list[int]:
    """Positions of commas between two words, before a space, in the first line of a sentence (verse is skipped)."""
    return [
        place
        for place in range(1, len(pieces) - 1)
        if pieces[place].text == ","
        and text[pieces[place].end : pieces[place + 1].start] == " "
        and "\n" not in text[pieces[0].start : pieces[place].start]
        and pieces[place - 1].is_word
        and pieces[place + 1].is_word
    ]


def _is_introductory(pieces: Sequence[PlainToken], commas: Sequence[int], place: int) -> bool:
    """Whether the first comma of a sentence ends an introduction, and a subject follows that cannot belong to it.

    "After eating, the dog slept" keeps its comma: without it, the dog is eaten.
    """
    first = next((number for number, piece in enumerate(pieces) if piece.is_word), 0)
    before, following = pieces[first:place], pieces[place + 1]
    if place != commas[0] or not before or not all(piece.is_word for piece in before):
        return False
    if any(0 < other - place <= _NEAR for other in commas) or len(pieces) - place < _NEAR:
        return False
    words = [piece.word for piece in before]
    if words[0] in ("and", "but", "then", "so") and len(words) > 1:
        words = words[1:]
    if words[0] in _WORDS["subordinators"] and _SHORTEST_CLAUSE <= len(words) <= _LONGEST_CLAUSE:
        return following.word in NOMINATIVES and not _WORDS["conjunctions"] & set(words)
    if _NO_PHRASE & set(words[1:]):
        return False
    if words[-1].endswith("ed") or any(word.endswith("ing") and word not in _WORDS["times"] for word in words):
        return words[0] in _WORDS["prepositions"] and len(words) <= _LONGEST_PHRASE and following.word in NOMINATIVES
    is_subject = following.word in _SUBJECT_STARTS or (following.is_name and not before[-1].is_name)
    if len(words) == 1:
        return words[0] in _WORDS["openers"] and (is_subject or following.word not in _NO_SUBJECT_START)
    if len(words) > _LONGEST_PHRASE:
        return False
    is_time = words[0] in _WORDS["time_starts"] and words[-1] in _WORDS["times"]
    is_phrase = is_time or words[0] in _WORDS["prepositions"]
    return is_phrase and is_subject and before[-1].word not in _WORDS["prepositions"]


def _is_before_conjunction(pieces: Sequence[PlainToken], commas: Sequence[int], place: int) -> bool:
    """Whether a comma is between two clauses; other commas than an introduction's make it doubtful."""
    conjunction, *following = pieces[place + 1 : place + 3]
    if conjunction.word not in _WORDS["conjunctions"] or not following or not following[0].is_word:
        return False
    earlier = [other for other in commas if other < place and not _is_introductory(pieces, commas, other)]
    later = [other for other in commas if other > place and pieces[other + 1].word not in _WORDS["conjunctions"]]
    start = max([other + 1 for other in commas if other < place], default=0)
    clause = pieces[start:place]
    plain = all(piece.is_word or piece.text in "'\"“‘" for piece in clause)
    return not earlier and not later and plain and sum(piece.is_word for piece in clause) >= _SHORTEST_CLAUSE


def _is_in_list(pieces: Sequence[PlainToken], commas: Sequence[int], place: int) -> bool:
    """Whether a comma precedes the "and" that ends a list of short parts ("eggs, milk, and bread")."""
    if pieces[place + 1].word not in ("and", "or"):
        return False
    before = [other for other in commas if other < place]
    if not before or not 2 <= place - before[-1] <= 3 or not pieces[place + 2 :]:
        return False
    part, head = pieces[before[-1] + 1 : place], pieces[before[-1] - 1]
    last = pieces[place + 2]
    if part[0].word in _NO_LIST_START or head.word in _WORDS["relations"]:
        return False
    if _is_introductory(pieces, commas, before[-1]):
        return False
    if not last.is_word or last.word.partition("'")[0] in _SUBJECT_STARTS - {"the", "a", "an", "my"}:
        return False
    if any(part[0].word.endswith(ending) != head.word.endswith(ending) for ending in ("ing", "ed")):
        return False
    return all(piece.is_word for piece in part) and (not part[0].is_name or head.is_name)


def _is_before_final_word(pieces: Sequence[PlainToken], commas: Sequence[int], place: int) -> bool:
    """Whether only "too", "as well" or similar is between a comma and the end of the sentence."""
    rest = [piece.word for piece in pieces[place + 1 :] if piece.is_word]
    single = place == commas[-1] and (rest == ["as", "well"] or (len(rest) == 1 and rest[0] in _WORDS["final_words"]))
    return single and pieces[place - 1].word not in _WORDS["final_words"] and place > 1


_RULES: dict[str, Callable[[Sequence[PlainToken], Sequence[int], int], bool]] = {
    "introduction": _is_introductory,
    "conjunction": _is_before_conjunction,
    "list": _is_in_list,
    "final word": _is_before_final_word,
}
