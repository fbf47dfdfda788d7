"""Robustness to contractions: "I'll" becomes "I will", or "did not" becomes "didn't" (paper 4, Table 2)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.forms import with_capitals_of
from nlgauge.perturb.punctuation import NOMINATIVES, Piece, pieces_of
from nlgauge.perturb.story import Story
from nlgauge.text.words import PARTICIPLES, word_set

Way = Literal["both", "expand", "contract"]
_TOKENISED = re.compile(r"\w [.,!?](?:\s|$)")
_SPLIT = re.compile(r"(?P<stem>[a-z]+?)(?P<ending>n't|'(?:m|re|ve|ll|d|s))")


_NEGATED = word_set("do does did is are was were has have had could would should must need might")
_IRREGULAR = {"ca": "can", "wo": "will"}
_ENDINGS = word_set("n't 'm 're 've 'll 'd 's")
_PRONOUNS = NOMINATIVES | {"you", "it"}
_SINGULAR = word_set("he she it")
_PLURAL = word_set("you we they")
_OTHER_SUBJECTS = word_set(
    "there this that these those the a an my your his her our their its anyone anybody everyone someone somebody"
)
_QUESTION_WORDS = word_set("why how where when what who whom which whose")
_NOT_BEFORE = _QUESTION_WORDS | word_set("than as like and or nor neither whatever whoever wherever however so")
_ADVERBS = word_set(
    "never always already just ever also really probably still only definitely finally recently certainly actually "
    "usually often almost even simply totally absolutely quite pretty very truly nearly currently no not"
)
_DETERMINERS = word_set("a an the my your his our their another one two three some all this part such")
_ADJECTIVES = word_set(
    "sorry sure right okay ok fine afraid happy glad wrong good ready dead better true aware impossible hard safe real "
    "willing insane hungry alive free alone young sad bad scared tired beautiful possible easy excited great obvious "
    "important crazy worth certain quiet sick late nice lucky able funny busy weak cold proud full pregnant asleep "
    "strong serious cool dark painful upset old angry unsure awake small different warm empty special long clean "
    "difficult perfect nervous silent heavy correct confident worried interested supposed stuck bored terrified "
    "amazing awesome wonderful horrible terrible big hot early rich poor smart pleased thankful grateful lonely lost"
)
_COMPLEMENTS = _DETERMINERS | _ADJECTIVES | word_set("so very not")
_NO_PARTICIPLES = word_set(
    "thing things nothing something anything everything king ring morning evening string spring wing during bring sing "
    "ceiling wedding building clothing feeling beginning meaning painting"
)
_BASES = word_set(
    "be have get go see like do make need take know say find give look love try call die tell think work forget keep "
    "kill meet start use pay talk leave stay return learn watch wait want win help eat feel remember bring lose live "
    "understand spend pick show stand answer ask send end continue buy notice catch explain hold prefer pass play lead "
    "stop pull turn smile serve throw jump listen change grow fall fight accept break hide suffer allow imagine "
    "forgive carry write happen open hear laugh wake survive walk sing receive build finish check fly sell fix visit "
    "drive dream save climb trust begin believe expect follow move teach enjoy wear cook clean sleep cry travel study "
    "hate miss add wish hope decide join share choose protect marry protest practice prove bake swim ride paint wash "
    "plant dance draw sit speak steal drink fill finish guess invite lend lift mind order pack plan pray promise reach "
    "rest shout smell surprise taste thank touch train treat wonder worry yell apologize adopt agree attend borrow"
)
_NO_PAST = word_set("need feed speed bleed breed seed shed wed embed proceed succeed exceed heed weed bed red")
_SAME_AS_BASE = word_set("come become put read run hurt")
_AFTER_PARTICIPLE = word_set(
    "a an the my your his her our their its this that it him them me us you to in on at for with from by of about "
    "all some any so as off up out over into through since before"
)
_PERFECT = PARTICIPLES - _SAME_AS_BASE


@dataclass(frozen=True, kw_only=True)
class Contractions(Perturbation):
    """Write contractions in full ("I'll" → "I will") or contract ("did not" → "didn't"), where both mean the same.

    "He's" and "he'd" are written in full only where the next word tells is from has, and would from had. Nothing is
    contracted at the end of a clause ("Yes, I am."), and no question is turned around ("Did not he go?").
    """

    way: Way = "both"

    name: ClassVar[str] = "contractions"
    kind: ClassVar[Kind] = "robustness"
    paper: ClassVar[str] = "Guan et al. 2021 (OpenMEVA), Table 2"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Change one or more places, all of them the same way."""
        sentences = pieces_of(story)
        ways = ["expand", "contract"] if self.way == "both" else [self.way]
        draw.shuffle(ways)
        for way in ways:
            find = _expansions if way == "expand" else _contractions
            found = [edit for pieces in sentences for edit in find(story.text, pieces)]
            if found:
                return edited(story.text, draw.sample(found, draw.randint(1, len(found))), way)
        return Unchanged("nothing that could be contracted or written in full")


def _expansions(text: str, pieces: Sequence[Piece]) -> Iterator[Edit]:
    """Contractions of a sentence in full, whether they are one piece ("didn't") or two ("did n't")."""
    for place, piece in enumerate(pieces):
        first = place
        if whole := _SPLIT.fullmatch(piece.word):
            stem, ending = whole["stem"], whole["ending"]
            start, gap = piece.start + len(stem), " "
        elif place and piece.word in _ENDINGS and text[pieces[place - 1].end : piece.start] == " ":
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


def _in_full(pieces: Sequence[Piece], first: int, last: int, stem: str, ending: str) -> str | None:
    """What an ending stands for after a word; None where that is not sure, or the full form would be no English."""
    following = [piece.word if piece.is_word else "" for piece in pieces[last + 1 : last + 4]] + ["", "", ""]
    before = pieces[first - 1].word if first else ""
    if ending == "n't":
        return "not" if _is_plain_negation(pieces, first, last, stem) else None
    if ending == "'m":
        return "am" if stem == "i" else None
    if ending == "'re":
        return "are" if stem in _PLURAL else None
    if ending == "'ve":
        return "have" if stem in ("i", "you", "we", "they", "would", "could", "should", "might", "must") else None
    if ending == "'ll":
        return "will" if stem in _PRONOUNS else None
    if before.endswith("'s") or (following[0] in ("", "'ve")):
        return None
    if ending == "'d":
        return _had_or_would(following) if stem in _PRONOUNS else None
    return _is_or_has(stem, following)


def _is_plain_negation(pieces: Sequence[Piece], first: int, last: int, stem: str) -> bool:
    """Whether "not" can follow the verb: not in a question, where the subject stands between them."""
    if stem not in _NEGATED and stem not in _IRREGULAR:
        return False
    following = pieces[last + 1] if last + 1 < len(pieces) else None
    before = pieces[first - 1].word if first else ""
    if following is not None and following.word in NOMINATIVES:
        return False
    if before in _QUESTION_WORDS and following is not None and following.word in _PRONOUNS | _OTHER_SUBJECTS:
        return False
    asks = any(piece.text == "?" for piece in pieces[-3:]) or before in ("why", "how", "where", "when")
    if asks and before not in _PRONOUNS:
        return False
    if first and pieces[first - 1].is_word:
        return True
    commands = stem in ("do", "ca", "could", "did") and following is not None and not following.is_name
    return commands and following is not None and following.word not in _PRONOUNS | _OTHER_SUBJECTS


def _had_or_would(following: Sequence[str]) -> str | None:
    """What "'d" stands for: "had" before a participle, "would" before a verb's plain form."""
    words = [word for word in following if word not in _ADVERBS]
    verb = words[0] if words else ""
    if verb == "better":
        return "had"
    if verb in ("rather", "like", "love"):
        return "would"
    if _is_participle(verb):
        return "had"
    return "would" if verb in _BASES else None


def _is_or_has(stem: str, following: Sequence[str]) -> str | None:
    """What "'s" stands for after a pronoun: "has been", "has got", or "is" before what can only follow "is"."""
    if stem not in _SINGULAR | {"that", "there", "what", "who", "here"}:
        return None
    word = next((word for word in following if word not in _ADVERBS), "")
    if word in ("been", "had"):
        return "has"
    if _is_complement(word):
        return "is"
    return None


def _is_complement(word: str) -> bool:
    """Whether a word follows a form of "be", and no form of "have"."""
    return word in _COMPLEMENTS or (word.endswith("ing") and len(word) > 4 and word not in _NO_PARTICIPLES)


def _is_participle(word: str) -> bool:
    return word in _PERFECT or (word.endswith("ed") and len(word) > 4 and word not in _NO_PAST)


def _contractions(text: str, pieces: Sequence[Piece]) -> Iterator[Edit]:
    """What a sentence could contract. In tokenised text the contraction is two pieces, as there ("did n't")."""
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
        if other.word == "not" and piece.word in _NEGATED - {"must", "need", "might"} | {"can", "will"}:
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


def _allows_negation(pieces: Sequence[Piece], place: int) -> bool:
    """Whether "not" can be drawn to the verb before it: not where it is stressed, or belongs to what follows."""
    verb, negation = pieces[place], pieces[place + 1]
    following = pieces[place + 2].word if place + 2 < len(pieces) else ""
    stressed = negation.text.isupper() and not verb.text.isupper()
    return not stressed and following not in ("only", "just", "merely", "simply")


def _negation(text: str, verb: Piece, negation: Piece, apart: str, mark: str) -> Iterator[Edit]:
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


def _ending(pieces: Sequence[Piece], place: int) -> str | None:
    """How a verb after a pronoun is contracted; None at the end of a clause, after "than" or "what", before "not"."""
    subject, verb = pieces[place].word, pieces[place + 1].word
    before = pieces[place - 1].word if place else ""
    following = [piece.word if piece.is_word else "" for piece in pieces[place + 2 : place + 6]] + [""] * 4
    if before in _NOT_BEFORE or (
        pieces[place + 1].text.isupper() and len(verb) > 1 and not pieces[place].text.isupper()
    ):
        return None
    first, *rest = following
    if subject in ("there", "that") and (place or verb != "is" or first not in _DETERMINERS | {"no"}):
        return None
    if verb in ("am", "is", "are"):
        fits = {"am": subject == "i", "is": subject in _SINGULAR | {"there", "that"}, "are": subject in _PLURAL}[verb]
        real = next((word for word in following if word not in _ADVERBS - {"not"}), "")
        good = _is_complement(real) and (real not in ("not", "so", "very") or bool(rest[0]))
        return {"am": "'m", "is": "'s", "are": "'re"}[verb] if fits and good else None
    if subject not in _PRONOUNS or first == "not":
        return None
    real, after = next(
        ((word, next_word) for word, next_word in zip(following, rest, strict=False) if word not in _ADVERBS), ("", "")
    )
    if verb in ("will", "would"):
        known = _BASES | _SAME_AS_BASE if verb == "will" else _BASES
        return {"will": "'ll", "would": "'d"}[verb] if real in known - {"have"} else None
    if verb in ("have", "has", "had"):
        agrees = (verb == "had") or (verb == "has") == (subject in _SINGULAR)
        perfect = real == "been" or (_is_participle(real) and after in _AFTER_PARTICIPLE)
        return {"have": "'ve", "has": "'s", "had": "'d"}[verb] if agrees and perfect else None
    return None
