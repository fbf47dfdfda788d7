"""The sentences, nouns and verbs of a corpus, which perturbations insert into other texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.story import Story, words_of

CLASSES = ("NOUN", "VERB")


@dataclass(frozen=True)
class Corpus:
    """Sorted sentences, and lemmas of each class with their counts; the order of texts does not matter."""

    sentences: tuple[str, ...] = ()
    words: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, stories: Sequence[Story], *, words: bool = True) -> Self:
        """The corpus of stories; without words, no parser is needed."""
        lines = {story.sentence(number) for story in stories for number in range(len(story.sentences))}
        counts = {name: Counter[str]() for name in CLASSES}
        for token in words_of(stories) if words else ():
            if (
                token.pos in CLASSES
                and token.lemma.isalpha()
                and token.lemma.islower()
                and not _is_always_plural(token)
            ):
                counts[token.pos][token.lemma] += 1
        return cls(tuple(sorted(lines)), {name: dict(sorted(found.items())) for name, found in counts.items()})

    @classmethod
    def merged(cls, parts: Iterable[Corpus]) -> Self:
        """The corpus of all parts' texts."""
        lines: set[str] = set()
        counts = {name: Counter[str]() for name in CLASSES}
        for part in parts:
            lines.update(part.sentences)
            for name, found in part.words.items():
                counts[name].update(found)
        return cls(tuple(sorted(lines)), {name: dict(sorted(found.items())) for name, found in counts.items()})


def _is_always_plural(token: Token) -> bool:
    """Whether a noun has no singular, such as "clothes", and is not countable."""
    return token.tag == "NNS" and token.lemma == token.text.lower()
