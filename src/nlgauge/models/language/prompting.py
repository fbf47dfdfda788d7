"""How a context becomes a prompt, and what joins a prompt and the text after it."""

from __future__ import annotations

from dataclasses import dataclass

from nlgauge.errors import OptionError, argument

_PLACE = "{context}"


@dataclass(frozen=True)
class Prompting:
    """A template with `{context}` in it, and what joins prompt and text: it belongs to the text, and is scored.

    By default a space joins them, or nothing where the template ends in white space.
    """

    template: str = _PLACE
    join: str | None = None

    def __post_init__(self) -> None:
        if _PLACE not in self.template:
            raise OptionError(f"{argument('template', self.template)}; expected {_PLACE} somewhere in it")

    @property
    def between(self) -> str:
        """What joins prompt and text."""
        if self.join is not None:
            return self.join
        return "" if self.template != self.template.rstrip() else " "

    @property
    def bare(self) -> bool:
        """Whether a prompt is its context and nothing else."""
        return not self.template.replace(_PLACE, "").strip()

    def prompt(self, context: str) -> str:
        """What a model reads before a text."""
        return self.template.replace(_PLACE, context)

    def text(self, text: str) -> str:
        """A text with the join before it."""
        return f"{self.between}{text}" if text else ""

    def both(self, example: str | tuple[str, str]) -> tuple[str, str]:
        """The prompt and the text of a pair, as a model reads them; of a text alone, no prompt and the text."""
        return ("", example) if isinstance(example, str) else (self.prompt(example[0]), self.text(example[1]))
