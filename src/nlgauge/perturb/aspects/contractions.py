"""Robustness to contractions: "I'll" becomes "I will", or "did not" becomes "didn't" (paper 4, Table 2)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from nlgauge.configured import option
from nlgauge.perturb.aspects.punctuation import NOMINATIVES, PlainToken, pieces_of
from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, one_way
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.word_forms import with_capitals_of
from nlgauge.perturb.resources.word_tables import word_sets
from nlgauge.perturb.story import Story
from nlgauge.text.words import PARTICIPLES

Way = Literal["both", "expand", "contract"]
_TOKENISED = re.compile(r"\w [.,!?](?:\s|$)")
_SPLIT = re.compile(r"(?P<stem>[a-z]+?)(?P<ending>n't|'(?:m|re|ve|ll|d|s))")
_WORDS = word_sets("contractions")
_IRREGULAR = {"ca": "can", "wo": "will"}
_PRONOUNS = NOMINATIVES | {"you", "it"}
_FULL = {  # endings that stand for one word only, and the words that they follow
    "'m": ("am", {"i"}),
    "'re": ("are", _WORDS["plural"]),
    "'ve": ("have", {"i", "you", "we", "they", "would", "could", "should", "might", "must"}),
    "'ll": ("will", _PRONOUNS),
}
_NOT_BEFORE = _WORDS["question_words"] | _WORDS["others_not_before"]
_COMPLEMENTS = _WORDS["determiners"] | _WORDS["adjectives"] | {"so", "very", "not"}
_PERFECT = PARTICIPLES - _WORDS["same_as_base"]


@dataclass(frozen=True, kw_only=True)
class Contractions(Perturbation):
    """Write contractions in full ("I'll" → "I will") or contract ("did not" → "didn't"), where both mean the same.

    "He's" and "he'd" are written in full only if the next word distinguishes "is" from "has", and "would" from "had".
    Nothing is contracted at the end of a clause ("Yes, I am."), and no question is turned around ("Did not he go?").
    """

    way: Way = option("both", "Which direction: write in full, contract, or either.")

    name: ClassVar[str] = "contractions"
    kind: ClassVar[Kind] = "robustness"
    paper: ClassVar[str] = "Guan et al. 2021 (OpenMEVA), Table 2"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Change one or more places, all of them the same way."""
        sentences = pieces_of(story)

        def edits(find: Callable[[str, Sequence[PlainToken]], Iterator[Edit]]) -> list[Edit]:
            found = [edit for pieces in sentences for edit in find(story.text, pieces)]
            return draw.sample(found, draw.randint(1, len(found))) if found else []

        ways = {"expand": lambda: edits(_expansions), "contract": lambda: edits(_contractions)}
        wanted = [(way, found) for way, found in ways.items() if self.way in ("both", way)]
        return one_way(story, draw, wanted, "nothing that could be contracted or written in full")


def _expansions(text: str, pieces: Sequence[PlainToken]) -> Iterator[Edit]:
    """Contractions of a sentence in full, whether they are one piece ("didn't") or two ("did n't")."""
    for place, piece in enumerate(pieces):
        first = place
        if whole := _SPLIT.fullmatch(piece.word):
            stem, ending = whole["stem"], whole["ending"]
            start, gap = piece.start + len(stem), " "
        elif place and piece.word in _WORDS["endings"] and text[pieces[place - 1].end : piece.start] == " ":
            first = place - 1
            stem, ending = pieces[first].word, piece.word
            start, gap = piece.start, ""
        else:
            continue
        full = _in_full(pieces, first, place, stem, ending)
        if full is None:
            continue
        if ending == "n't" and stem in _IRREGULAR:
            if whole and stem == "ca":
                start, gap = piece.end - len("'t"), ""
            else:
                written = with_capitals_of(f"{_IRREGULAR[stem]} not", text[pieces[first].start : piece.end])
                yield Edit(pieces[first].start, piece.end, written)
                continue
        yield Edit(start, piece.end, gap + (full.upper() if text[start : piece.end].isupper() else full))


def _in_full(pieces: Sequence[PlainToken], first: int, last: int, stem: str, ending: str) -> str | None:
    """The full form of an ending after a word; None if it is ambiguous or ungrammatical."""
    if ending == "n't":
        return "not" if _is_plain_negation(pieces, first, last, stem) else None
    if ending in _FULL:
        full, stems = _FULL[ending]
        return full if stem in stems else None
    following = [*(piece.word if piece.is_word else "" for piece in pieces[last + 1 : last + 4]), "", "", ""]
    before = pieces[first - 1].word if first else ""
    if before.endswith("'s") or following[0] in ("", "'ve"):
        return None
    return _had_or_would(stem, following) if ending == "'d" else _is_or_has(stem, following)


def _is_plain_negation(pieces: Sequence[PlainToken], first: int, last: int, stem: str) -> bool:
    """Whether "not" can follow the verb: not in a question, where the subject is between them."""
    if stem not in _WORDS["negated"] and stem not in _IRREGULAR:
        return False
    following = next(iter(pieces[last + 1 : last + 2]), None)
    before = pieces[first - 1].word if first else ""
    has_subject = following is not None and following.word in _PRONOUNS | _WORDS["other_subjects"]
    if (following and following.word in NOMINATIVES) or (has_subject and before in _WORDS["question_words"]):
        return False
    asks = any(piece.text == "?" for piece in pieces[-3:]) or before in ("why", "how", "where", "when")
    if asks and before not in _PRONOUNS:
        return False
    if first and pieces[first - 1].is_word:
        return True
    can_command = stem in ("do", "ca", "could", "did") and not has_subject
    return can_command and following is not None and not following.is_name


def _had_or_would(stem: str, following: Sequence[str]) -> str | None:
    """The full form of "'d" after a pronoun: "had" before a participle, "would" before a verb's plain form."""
    verb = next((word for word in following if word not in _WORDS["adverbs"]), "")
    if stem not in _PRONOUNS:
        return None
    if verb == "better" or (verb not in ("rather", "like", "love") and _is_participle(verb)):
        return "had"
    return "would" if verb in _WORDS["bases"] | {"rather", "like", "love"} else None


def _is_or_has(stem: str, following: Sequence[str]) -> str | None:
    """The full form of "'s" after a pronoun: "has been", "has got", or "is" before what can only follow "is"."""
    if stem not in _WORDS["singular"] | {"that", "there", "what", "who", "here"}:
        return None
    word = next((word for word in following if word not in _WORDS["adverbs"]), "")
    if word in ("been", "had"):
        return "has"
    return "is" if _is_complement(word) else None


def _is_complement(word: str) -> bool:
    """Whether a word follows a form of "be", and not a form of "have"."""
    return word in _COMPLEMENTS or (word.endswith("ing") and len(word) > 4 and word not in _WORDS["no_participles"])


def _is_participle(word: str) -> bool:
    return word in _PERFECT or (word.endswith("ed") and len(word) > 4 and word not in _WORDS["no_past"])


def _contractions(text: str, pieces: Sequence[PlainToken]) -> Iterator[Edit]:
    """Possible contractions of a sentence. In tokenised text a contraction is two pieces ("did n't")."""
    apart = " " if _TOKENISED.search(text) else ""
    mark = "’" if "’" in text and "'" not in text else "'"
    taken = -1
    for place, piece in enumerate(pieces):
        if piece.word == "cannot":
            yield from _negation(text, piece, piece, apart, mark)
            continue
        if place + 1 >= len(pieces):
            return
        other = pieces[place + 1]
        if place <= taken or text[piece.end : other.start] != " ":
            continue
        if other.word == "not" and piece.word in _WORDS["negated"] - {"must", "need", "might"} | {"can", "will"}:
            if _allows_negation(pieces, place):
                taken = place + 1
                yield from _negation(text, piece, other, apart, mark)
            continue
        ending = _ending(pieces, place)
        if ending:
            taken = place + 1
            shown = ending.upper() if other.text.isupper() and other.text != "I" else ending
            start = other.start if apart else piece.end
            yield Edit(start, other.end, shown.replace("'", mark))


def _allows_negation(pieces: Sequence[PlainToken], place: int) -> bool:
    """Whether "not" can be joined to the verb before it: not where it is stressed, or belongs to what follows."""
    verb, negation = pieces[place], pieces[place + 1]
    following = pieces[place + 2].word if place + 2 < len(pieces) else ""
    stressed = negation.text.isupper() and not verb.text.isupper()
    return not stressed and following not in ("only", "just", "merely", "simply")


def _negation(text: str, verb: PlainToken, negation: PlainToken, apart: str, mark: str) -> Iterator[Edit]:
    irregular = {"will": "wo", "cannot": "ca", "can": "ca"}.get(verb.word)
    if irregular and (verb.word == "will" or apart):
        model = text[verb.start : negation.end]
        yield Edit(verb.start, negation.end, with_capitals_of(f"{irregular}{apart}n{mark}t", model))
    elif irregular:
        start = verb.end if verb is not negation else verb.start + 3
        yield Edit(start, negation.end, f"{mark}T" if negation.text.isupper() else f"{mark}t")
    else:
        short = f"n{mark}t"
        start = negation.start if apart else verb.end
        yield Edit(start, negation.end, short.upper() if negation.text.isupper() else short)


def _ending(pieces: Sequence[PlainToken], place: int) -> str | None:
    """How a verb after a pronoun is contracted; None at the end of a clause, after "than" or "what", before "not"."""
    subject, verb = pieces[place].word, pieces[place + 1].word
    before = pieces[place - 1].word if place else ""
    following = [piece.word if piece.is_word else "" for piece in pieces[place + 2 : place + 6]] + [""] * 4
    stressed = pieces[place + 1].text.isupper() and len(verb) > 1 and not pieces[place].text.isupper()
    if stressed or before in _NOT_BEFORE:
        return None
    first, *rest = following
    if subject in ("there", "that") and (place or verb != "is" or first not in _WORDS["determiners"] | {"no"}):
        return None
    if verb in ("am", "is", "are"):
        fits = subject in {"am": {"i"}, "is": _WORDS["singular"] | {"there", "that"}, "are": _WORDS["plural"]}[verb]
        real = next((word for word in following if word not in _WORDS["adverbs"] - {"not"}), "")
        good = _is_complement(real) and (real not in ("not", "so", "very") or bool(rest[0]))
        return {"am": "'m", "is": "'s", "are": "'re"}[verb] if fits and good else None
    if subject not in _PRONOUNS or first == "not":
        return None
    pairs = zip(following, rest, strict=False)
    real, after = next(((word, later) for word, later in pairs if word not in _WORDS["adverbs"]), ("", ""))
    if verb in ("will", "would"):
        known = _WORDS["bases"] | _WORDS["same_as_base"] if verb == "will" else _WORDS["bases"]
        return {"will": "'ll", "would": "'d"}[verb] if real in known - {"have"} else None
    if verb in ("have", "has", "had"):
        agrees = (verb == "had") or (verb == "has") == (subject in _WORDS["singular"])
        perfect = real == "been" or (_is_participle(real) and after in _WORDS["after_participle"])
        return {"have": "'ve", "has": "'s", "had": "'d"}[verb] if agrees and perfect else None
    return None
