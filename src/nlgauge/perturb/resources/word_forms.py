"""Words in the form of other words: inflection by lemminflect, capitals, and the article before them."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from nlgauge.errors import MissingExtra
from nlgauge.perturb.base import Edit
from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.story import Story

_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)
_SOUNDS_LIKE_VOWEL = re.compile(r"(?:hour|honest|honou?r|heir)", re.IGNORECASE)
_SOUNDS_LIKE_CONSONANT = re.compile(r"(?:uni(?!n|m)|use|usu|util|eu|ewe|one(?:$|\W|s)|once|ubiq|ura)", re.IGNORECASE)


@lru_cache(maxsize=100_000)
def inflected(lemma: str, tag: str) -> str | None:
    """A lemma in the form of a Penn tag ("child", "NNS" → "children"); None if there is none."""
    try:
        inflection: Any = importlib.import_module("lemminflect")
    except ImportError as error:
        raise MissingExtra.needs("inflection", "nlp") from error
    head, space, rest = lemma.partition(" ")
    forms = inflection.getInflection(head, tag=tag)
    return f"{forms[0]}{space}{rest}" if forms else None


def in_form_of(lemma: str, token: Token) -> str | None:
    """A lemma with the ending and the capitals of a token; None if it has no such form."""
    form = inflected(lemma, token.tag) if token.tag[:2] in ("NN", "VB", "JJ", "RB") else lemma
    return None if form is None else with_capitals_of(form, token.text)


def forms_like(lemmas: Iterable[str], token: Token) -> list[str]:
    """Those lemmas that have the form of a token, in that form, without the token's own word."""
    forms = (in_form_of(lemma, token) for lemma in lemmas)
    return [form for form in forms if form is not None and form.lower() != token.word]


def with_capitals_of(word: str, model: str) -> str:
    """A word in capitals, with a first capital, or unchanged, like the model."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def replaced(story: Story, token: Token, new: str) -> list[Edit]:
    """Edits that put a word in place of a token, and "a" or "an" before it as the new word requires."""
    edits = [Edit(token.start, token.end, new)]
    if token.place and (before := story.tokens[token.place - 1]).word in ("a", "an"):
        edits.append(Edit(before.start, before.end, with_capitals_of(article_of(new), before.text[:1])))
    return edits


def some_replaced(story: Story, draw: random.Random, words: Mapping[int, list[str]], most: int) -> list[Edit]:
    """Edits that put one of its new words in place of each of at most so many tokens."""
    edits: list[Edit] = []
    for place in draw.sample(list(words), min(most, len(words))):
        edits += replaced(story, story.tokens[place], draw.choice(words[place]))
    return edits


def article_of(word: str) -> str:
    """The article that a word takes, "a" or "an": by its letters, with the commonest exceptions."""
    vowel = _VOWEL.match(word) and not _SOUNDS_LIKE_CONSONANT.match(word)
    return "an" if vowel or _SOUNDS_LIKE_VOWEL.match(word) else "a"
