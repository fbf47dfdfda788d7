"""Pairs of originals and perturbed texts to look at: on a terminal, and as a page to browse and judge them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nlgauge._version import __version__
from nlgauge.drawing import safe_json
from nlgauge.perturb.pairs import Pair

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_KEPT = 120
_DELETED, _INSERTED = "red strike", "green"


def render_pairs(pairs: Sequence[Pair]) -> str:
    """The page as text; nothing in it is loaded from elsewhere, and texts are shown as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("nlgauge.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    rows = [
        {
            "id": pair.id,
            "context": pair.context,
            "aspect": pair.aspect,
            "version": pair.version,
            "rule": pair.rule,
            "before": pair.before,
            "after": pair.after,
        }
        for pair in pairs
    ]
    return environment.get_template("perturbations.html").render(
        version=__version__, count=len(rows), rows_json=safe_json(rows)
    )


def print_pairs(pairs: Sequence[Pair], console: Console) -> None:
    """Each pair before and after: what goes is red and struck out, what comes is green.

    Where colours are not shown, `[-…-]` and `{+…+}` stand around them. Long stretches without a change are cut.
    """
    from rich.text import Text

    plain = not console.is_terminal or console.no_color
    for pair in pairs:
        heading = f"{pair.aspect}, {pair.rule} ({pair.id}{f', version {pair.version}' if pair.version else ''})"
        console.print(Text(_printable(heading), style="bold"), soft_wrap=True)
        console.print(_line("before", pair.before, _DELETED, ("[-", "-]") if plain else ("", "")), soft_wrap=True)
        console.print(_line("after ", pair.after, _INSERTED, ("{+", "+}") if plain else ("", "")), soft_wrap=True)
        console.print()


def _line(label: str, stretches: Sequence[tuple[str, bool]], style: str, marks: tuple[str, str]) -> Text:
    from rich.text import Text

    line = Text(f"  {label} ", end="\n")
    for place, (part, changed) in enumerate(stretches):
        if changed:
            line.append(f"{marks[0]}{_printable(part)}{marks[1]}", style=style)
        else:
            line.append(_printable(_shortened(part, place == 0, place == len(stretches) - 1)))
    return line


def _shortened(text: str, is_first: bool, is_last: bool) -> str:
    """Text beside a change: its end before the first one, its beginning after the last, both between two."""
    if len(text) <= 2 * _KEPT or (is_first and is_last):
        return text
    if is_first:
        return f"… {text[-_KEPT:]}"
    if is_last:
        return f"{text[:_KEPT]} …"
    return f"{text[:_KEPT]} … {text[-_KEPT:]}"


def _printable(text: str) -> str:
    """A text on one line, without characters that would steer a terminal."""
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "\ufffd" for letter in text)
