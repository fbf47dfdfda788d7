"""Quality rules about what people write: near-copies, length and language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlgauge.annotate.quality import AssignmentRule, Finding, Work
from nlgauge.configured import option
from nlgauge.errors import OptionError
from nlgauge.text.near_copies import ENOUGH_WORDS, LANGUAGES, language_of, likeness, nearest_pair, words_in

ANY = "any"
_EXCERPT = 60


@dataclass(frozen=True, kw_only=True)
class NearCopy(AssignmentRule):
    """Two texts of a written set that are nearly equal, or a text that repeats the context.

    Texts are compared character by character, in order, without case and punctuation: "I really liked the ending." and
    "I really loved the ending." share 92%, five wordings of one response by a careful writer at most 60%.
    """

    name: ClassVar[str] = "near-copy"

    share: float = option(
        0.85, "Share of characters in common, in the same order, from which on texts are copies; 0: off."
    )

    limits = (("share", lambda value: 0 <= value <= 1, "a share from 0 to 1"),)

    def find(self, work: Work) -> Finding | None:
        """Compare the texts of each set with each other, and all of them with the context."""
        if not self.share:
            return None
        for texts in work.written:
            found, one, other = nearest_pair(texts)
            if found >= self.share:
                return Finding(self.name, f"{_shown(one)} and {_shown(other)} share {found:.0%} of their characters")
        for text in work.free_texts:
            if work.context and (found := likeness(text, work.context)) >= self.share:
                return Finding(self.name, f"{_shown(text)} shares {found:.0%} of its characters with the context")
        return None


@dataclass(frozen=True, kw_only=True)
class TextLength(AssignmentRule):
    """A free text of too few words."""

    name: ClassVar[str] = "text-length"

    words: int = option(2, "Fewest words; a character of a script without spaces is a word; 0: off.")

    limits = (("words", lambda value: value >= 0, "0 or more"),)

    def find(self, work: Work) -> Finding | None:
        """Count the words of every text."""
        for text in work.free_texts:
            if (count := len(words_in(text))) < self.words:
                return Finding(
                    self.name, f"{_shown(text)} has {count} word{'' if count == 1 else 's'}, fewer than {self.words}"
                )
        return None


@dataclass(frozen=True, kw_only=True)
class Language(AssignmentRule):
    """Texts in another language than the one that was asked for, or in none, judged by the common words of all of them.

    Works from 8 words on. Languages written in Latin letters that are not in the list count as none.
    """

    name: ClassVar[str] = "language"

    expected: str = option("en", f"One of {', '.join(LANGUAGES)}, a script such as cyrillic, or any: off.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.expected != ANY and not (self.expected.isalpha() and self.expected.islower()):
            raise OptionError(f"language:expected={self.expected}; expected one of {', '.join(LANGUAGES)}, or any")

    def find(self, work: Work) -> Finding | None:
        """Judge all texts of the assignment together."""
        texts = work.free_texts
        found = language_of(texts)
        if self.expected == ANY or found == self.expected or not _is_enough(texts):
            return None
        said = f"read as '{found}'" if found else "have no common word of any known language"
        return Finding(self.name, f"the texts {said}; expected '{self.expected}' ({_shown(texts[0])})")


def _is_enough(texts: list[str]) -> bool:
    """Whether there are words enough to say which language it is."""
    return sum(len(words_in(text)) for text in texts) >= ENOUGH_WORDS


def _shown(text: str) -> str:
    return f"'{text[:_EXCERPT]}{'…' if len(text) > _EXCERPT else ''}'"
