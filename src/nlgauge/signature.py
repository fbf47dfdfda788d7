"""Signatures: a short string on every number that says how it was made and can be turned back into what made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nlgauge._version import __version__
from nlgauge.errors import OptionError

_ESCAPES = {"%": "%25", "|": "%7C", ",": "%2C", "\n": "%0A", "\r": "%0D", "\t": "%09"}
BLANKS = " \t\r\n"
_SPACE = "%20"  # of the spaces of a value, only the first and the last one need it
_JOINED = {"%": "%25", "+": "%2B"}
_EMPTY = "%"


@dataclass(frozen=True)
class Signature:
    """`name|option:value|…|v:version`, and after `|#` facts about the result, such as how its interval was made.

    `plugin` names the package and version, or the file and its hash, of whatever NLGauge did not bring along.

    >>> str(Signature("distinct", {"n": "1-5", "tok": "space"}, version="0.1.0"))
    'distinct|n:1-5|tok:space|v:0.1.0'
    """

    name: str
    options: Mapping[str, str]
    facts: Mapping[str, str] = field(default_factory=dict)
    version: str = __version__
    plugin: str = ""

    def __str__(self) -> str:
        parts = [self.name, *(f"{key}:{escape(value)}" for key, value in self.options.items())]
        parts += [f"plugin:{escape(self.plugin)}"] if self.plugin else []
        parts += [f"v:{self.version}"]
        if self.facts:
            parts += ["#", *(f"{key}:{escape(value)}" for key, value in self.facts.items())]
        return "|".join(parts)

    def __hash__(self) -> int:
        return hash(str(self))

    def with_facts(self, facts: Mapping[str, str]) -> Signature:
        """The same signature with more facts about the result."""
        return replace(self, facts={**self.facts, **facts})

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a printed signature."""
        name, *rest = text.strip(BLANKS).split("|")
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
            target[key] = unescape(value)
        version, plugin = options.pop("v", __version__), options.pop("plugin", "")
        return cls(name, options, facts, version, plugin)


def escape(value: str) -> str:
    """A value without the characters that separate options, and without spaces at its ends."""
    escaped = _replaced(value, _ESCAPES)
    if escaped.startswith(" "):
        escaped = _SPACE + escaped[1:]
    return escaped[:-1] + _SPACE if escaped.endswith(" ") else escaped


def unescape(value: str) -> str:
    """The value that was escaped."""
    return _restored(value.replace(_SPACE, " "), _ESCAPES)


def join_values(values: Iterable[str]) -> str:
    """Several values as one, with `+` between them; a `+` inside a value is escaped."""
    return "+".join(_replaced(value, _JOINED) or _EMPTY for value in values)


def split_values(joined: str) -> list[str]:
    """The values that were joined."""
    return ["" if part == _EMPTY else _restored(part, _JOINED) for part in joined.split("+") if part]


def _replaced(value: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in value)


def _restored(value: str, escapes: Mapping[str, str]) -> str:
    """The value before `_replaced`; the escape of `%` itself, which is the first, goes last."""
    for character, escaped in reversed(list(escapes.items())):
        value = value.replace(escaped, character)
    return value
