"""The one family of errors: each says what was found, what was expected and what to do.

A message names an option with `argument("on_error")`; Python then reads `on_error=`, and the command line `--on-error`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_MARKED = re.compile("\ue000(\\w+)(?:\ue001([^\ue002]*))?\ue002")


def argument(name: str, value: Any = None) -> str:
    """An option in a message, perhaps with a value; each reader sees it in their own words."""
    return f"\ue000{name}\ue002" if value is None else f"\ue000{name}\ue001{value}\ue002"


def _in_python(name: str, value: str | None) -> str:
    return f"{name}={'' if value is None else value}"


_words: ContextVar[Callable[[str, str | None], str]] = ContextVar("words", default=_in_python)


@contextmanager
def wording(words: Callable[[str, str | None], str]) -> Iterator[None]:
    """In this block, messages name options as `words(name, value)` writes them."""
    before = _words.set(words)
    try:
        yield
    finally:
        _words.reset(before)


class NLGaugeError(Exception):
    """Base of every error that NLGauge raises on purpose; the command line turns it into exit code 2.

    `message` may name options with `argument`; `option` is the one that the error is about.
    """

    def __init__(self, message: str, *, option: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        marked = _MARKED.search(message)
        self.option = option or (marked[1] if marked else None)

    def __str__(self) -> str:
        return self.worded(_words.get())

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.message, self.__dict__)

    def worded(self, words: Callable[[str, str | None], str]) -> str:
        """The message with options as `words(name, value)` writes them."""
        return _MARKED.sub(lambda found: words(found[1], found[2]), self.message)


def _rebuilt(cls: type[NLGaugeError], message: str, fields: dict[str, Any]) -> NLGaugeError:
    error = cls.__new__(cls, message)
    error.__dict__.update(fields)
    return error


class DataError(NLGaugeError):
    """Input that cannot be used, with the place where it was found."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: str | None = None,
        option: str | None = None,
    ) -> None:
        super().__init__(message, option=option)
        self.file, self.line, self.column = file, line, column

    def worded(self, words: Callable[[str, str | None], str]) -> str:
        """The place, then the message."""
        line = None if self.line is None else f"line {self.line}"
        column = None if self.column is None else f"column '{self.column}'"
        place = ", ".join(filter(None, (self.file, line, column)))
        message = super().worded(words)
        return f"{place}: {message}" if place else message

    def at(self, *, file: str | None = None, line: int | None = None) -> DataError:
        """The same error with the place filled in by a caller that knows it."""
        return DataError(
            self.message, file=self.file or file, line=self.line or line, column=self.column, option=self.option
        )


class OptionError(NLGaugeError):
    """An option, or a combination of options, that makes no sense."""


class UnknownName(NLGaugeError):
    """A metric, tokeniser or option that does not exist: `name`, and `nearest` of those that do, if any is near."""

    def __init__(
        self, message: str, *, option: str | None = None, name: str | None = None, nearest: str | None = None
    ) -> None:
        super().__init__(message, option=option)
        self.name, self.nearest = name, nearest

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str], advice: str = "") -> UnknownName:
        """An error for `name`, with the nearest of `known` as a suggestion."""
        choices = sorted(known)
        near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
        suggestion = f"; did you mean '{near[0]}'?" if near else "."
        message = f"unknown {kind} '{name}'{suggestion} Known: {', '.join(choices)}.{' ' + advice if advice else ''}"
        return cls(message, name=name, nearest=near[0] if near else None)


class ModelError(NLGaugeError):
    """A model that cannot be found, verified or run."""


class MissingExtra(NLGaugeError):
    """A part of NLGauge that needs an optional dependency: what to install is `extra`, if it is an extra of NLGauge."""

    extra = ""

    @classmethod
    def needs(cls, what: str, extra: str) -> MissingExtra:
        """An error that names the extra to install."""
        error = cls(f"{what} needs a package that is not installed; run: pip install 'nlgauge[{extra}]'")
        error.extra = extra
        return error


class OutputError(NLGaugeError):
    """A result that cannot be written."""


class PluginError(NLGaugeError):
    """A plugin that cannot be imported, or that claims a name that is taken."""
