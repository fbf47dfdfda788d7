"""The sentences, nouns and verbs of a corpus, which perturbations insert into other texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.story import Story

CLASSES = ("NOUN", "VERB")


@dataclass(frozen=True)
class Corpus:
    """Sorted sentences, and lemmas of each class with their counts; the order of texts does not matter."""

    sentences: tuple[str, ...] = ()
    words: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, stories: Sequence[Story], *, words: bool = True) -> Self:
        """The corpus of stories; without words, no parser is needed."""
        lines = {line for story in stories for line in story.lines}
        tokens = [token for story in stories for token in story.tokens if _is_inserted(token)] if words else []
        return cls(
            tuple(sorted(lines)),
            {name: _sorted(Counter(token.lemma for token in tokens if token.pos == name)) for name in CLASSES},
        )

    @classmethod
    def merged(cls, parts: Iterable[Corpus]) -> Self:
        """The corpus of all parts' texts."""
        lines: set[str] = set()
        counts = {name: Counter[str]() for name in CLASSES}
        for part in parts:
            lines.update(part.sentences)
            for name, found in part.words.items():
                counts[name].update(found)
        return cls(tuple(sorted(lines)), {name: _sorted(found) for name, found in counts.items()})


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _is_inserted(token: Token) -> bool:
    """Whether a word may stand in another text: not a noun without a singular, such as "clothes"."""
    is_always_plural = token.tag == "NNS" and token.base == token.word
    return token.pos in CLASSES and token.lemma.isalpha() and token.lemma.islower() and not is_always_plural
