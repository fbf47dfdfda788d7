"""The one family of errors: each says what was found, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class NLGaugeError(Exception):
    """Base of every error that NLGauge raises on purpose; the command line turns it into exit code 2."""


class DataError(NLGaugeError):
    """Input that cannot be used, with the place where it was found."""

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, column: str | None = None
    ) -> None:
        self.message, self.file, self.line, self.column = message, file, line, column
        super().__init__(message)

    def __str__(self) -> str:
        place = ", ".join(
            part
            for part in (
                self.file,
                None if self.line is None else f"line {self.line}",
                None if self.column is None else f"column '{self.column}'",
            )
            if part
        )
        return f"{place}: {self.message}" if place else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_data_error, (self.message, self.file, self.line, self.column)

    def at(self, *, file: str | None = None, line: int | None = None) -> DataError:
        """The same error with the place filled in by a caller that knows it."""
        return DataError(self.message, file=self.file or file, line=self.line or line, column=self.column)


def _rebuild_data_error(message: str, file: str | None, line: int | None, column: str | None) -> DataError:
    return DataError(message, file=file, line=line, column=column)


class OptionError(NLGaugeError):
    """An option, or a combination of options, that makes no sense."""


class UnknownName(NLGaugeError):
    """A metric, tokeniser or option that does not exist; suggests the nearest."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str], advice: str = "") -> UnknownName:
        """An error for `name`, with the nearest of `known` as a suggestion."""
        choices = sorted(known)
        near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
        suggestion = f"; did you mean '{near[0]}'?" if near else "."
        return cls(f"unknown {kind} '{name}'{suggestion} Known: {', '.join(choices)}.{' ' + advice if advice else ''}")


class ModelError(NLGaugeError):
    """A model that cannot be found, verified or run."""


class MissingExtra(NLGaugeError):
    """A part of NLGauge that needs an optional dependency."""

    @classmethod
    def needs(cls, what: str, extra: str) -> MissingExtra:
        """An error that names the extra to install."""
        return cls(f"{what} needs a package that is not installed; run: pip install 'nlgauge[{extra}]'")


class OutputError(NLGaugeError):
    """A result that cannot be written."""
