"""A text for perturbations: its sentences, and its tokens with tags and grammatical relations."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain

from nlgauge.perturb.resources.parser import Parsed, Token, parse
from nlgauge.text.words import sentence_spans


class Story:
    """A text with character spans of its sentences and, parsed on first use, its tokens."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def sentences(self) -> tuple[tuple[int, int], ...]:
        """Start and end of each sentence."""
        return tuple(sentence_spans(self.text))

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """All tokens, with positions in the text; a token's `head` is the index of another, or its own for a root."""
        return self._placed(parse([self.sentence(number) for number in range(len(self.sentences))]))

    def sentence(self, number: int) -> str:
        """The characters of a sentence."""
        start, end = self.sentences[number]
        return self.text[start:end]

    def tokens_of(self, number: int) -> Sequence[Token]:
        """The tokens of a sentence, found by binary search."""
        first = bisect_left(self.tokens, number, key=lambda token: token.sentence)
        return self.tokens[first : bisect_right(self.tokens, number, lo=first, key=lambda token: token.sentence)]

    def _placed(self, parses: Sequence[Parsed]) -> tuple[Token, ...]:
        found: list[Token] = []
        for sentence, ((start, _), parsed) in enumerate(zip(self.sentences, parses, strict=True)):
            first = len(found)
            found += [
                token._replace(
                    start=start + token.start,
                    end=start + token.end,
                    head=first + token.head,
                    sentence=sentence,
                    place=first + number,
                )
                for number, token in enumerate(parsed)
            ]
        return tuple(found)


def parse_all(stories: Iterable[Story]) -> None:
    """Parse many stories at once, each distinct sentence once."""
    waiting = [story for story in stories if "tokens" not in story.__dict__]
    lines = {line for story in waiting for line in map(story.sentence, range(len(story.sentences)))}
    ordered = sorted(lines)
    known = dict(zip(ordered, parse(ordered), strict=True))
    for story in waiting:
        story.__dict__["tokens"] = story._placed(
            [known[story.sentence(number)] for number in range(len(story.sentences))]
        )


def words_of(stories: Iterable[Story]) -> Iterable[Token]:
    """The tokens of all stories."""
    return chain.from_iterable(story.tokens for story in stories)
