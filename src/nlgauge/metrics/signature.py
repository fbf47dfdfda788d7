"""Signatures: a short string on every number that says how it was made and can be turned back into the metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nlgauge._version import __version__
from nlgauge.errors import OptionError

_ESCAPES = {"%": "%25", "|": "%7C", ",": "%2C", "\n": "%0A"}


@dataclass(frozen=True)
class Signature:
    """`name|option:value|…|v:version`, and after `|#` facts about the result, such as how its interval was made.

    >>> str(Signature("distinct", {"n": "1-5", "tok": "space"}, version="0.1.0"))
    'distinct|n:1-5|tok:space|v:0.1.0'
    """

    name: str
    options: Mapping[str, str]
    facts: Mapping[str, str] = field(default_factory=dict)
    version: str = __version__

    def __str__(self) -> str:
        parts = [self.name, *(f"{key}:{_escape(value)}" for key, value in self.options.items()), f"v:{self.version}"]
        if self.facts:
            parts += ["#", *(f"{key}:{_escape(value)}" for key, value in self.facts.items())]
        return "|".join(parts)

    def __hash__(self) -> int:
        return hash(str(self))

    def with_facts(self, facts: Mapping[str, str]) -> Signature:
        """The same signature with more facts about the result."""
        return Signature(self.name, self.options, {**self.facts, **facts}, self.version)

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a printed signature."""
        name, *rest = text.strip().split("|")
        options: dict[str, str] = {}
        facts: dict[str, str] = {}
        target = options
        for part in rest:
            if part == "#":
                target = facts
                continue
            key, colon, value = part.partition(":")
            if not colon:
                raise OptionError(f"'{part}' in the signature '{text}'; expected key:value")
            target[key] = _unescape(value)
        return cls(name, options, facts, options.pop("v", __version__))


def _escape(value: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in value)


def _unescape(value: str) -> str:
    for character, escape in reversed(_ESCAPES.items()):
        value = value.replace(escape, character)
    return value
