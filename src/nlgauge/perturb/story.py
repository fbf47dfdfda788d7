"""A text for perturbations: its sentences, and its tokens with tags and grammatical relations."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

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

    @property
    def lines(self) -> list[str]:
        """The characters of every sentence."""
        return [self.text[start:end] for start, end in self.sentences]

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """All tokens, with positions in the text; a token's `head` is the index of another, or its own for a root."""
        return self._placed(parse(self.lines))

    def sentence(self, number: int) -> str:
        """The characters of a sentence."""
        start, end = self.sentences[number]
        return self.text[start:end]

    def tokens_of(self, number: int) -> Sequence[Token]:
        """The tokens of a sentence, found by binary search."""
        first = bisect_left(self.tokens, number, key=lambda token: token.sentence)
        return self.tokens[first : bisect_right(self.tokens, number, lo=first, key=lambda token: token.sentence)]

    def head(self, token: Token) -> Token:
        """The token that another depends on; a root itself."""
        return self.tokens[token.head]

    def children(self, token: Token) -> Sequence[Token]:
        """The dependents of a token, in order."""
        return self._dependents[token.place]

    def relations(self, token: Token) -> set[str]:
        """The relations of a token's dependents."""
        return {child.relation for child in self.children(token)}

    def subtree(self, token: Token) -> list[Token]:
        """A token and all its descendants, in order."""
        found = [token]
        for one in found:
            found += self.children(one)
        return sorted(found, key=lambda one: one.place)

    def beside(self, token: Token, step: int) -> Token | None:
        """The token some places away within the sentence; None beyond its edges."""
        place = token.place + step
        inside = 0 <= place < len(self.tokens) and self.tokens[place].sentence == token.sentence
        return self.tokens[place] if inside else None

    def word_at(self, token: Token, step: int) -> str:
        """The word some places away within the sentence, in lower case; empty beyond its edges."""
        found = self.beside(token, step)
        return found.word if found else ""

    def is_first(self, token: Token) -> bool:
        """Whether a token is the first word of its sentence."""
        beside = self.tokens_of(token.sentence)
        return all(before.pos == "PUNCT" for before in beside[: token.place - beside[0].place])

    @cached_property
    def _dependents(self) -> list[list[Token]]:
        found: list[list[Token]] = [[] for _ in self.tokens]
        for token in self.tokens:
            if token.head != token.place:
                found[token.head].append(token)
        return found

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
    waiting = [story for story in stories if "tokens" not in vars(story)]
    lines = sorted({line for story in waiting for line in story.lines})
    known = dict(zip(lines, parse(lines), strict=True))
    for story in waiting:
        vars(story)["tokens"] = story._placed([known[line] for line in story.lines])
