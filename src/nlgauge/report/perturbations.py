"""Pairs of originals and perturbed texts, on a terminal and as a page to browse and judge them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nlgauge._version import __version__
from nlgauge.drawing import safe_json
from nlgauge.perturb.pairs import Made, Pair
from nlgauge.perturb.suite import BuiltSuite
from nlgauge.report.filling import filled
from nlgauge.report.tables import aligned

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_KEPT = 120
_DELETED, _INSERTED = "red strike", "green"


def render_pairs(pairs: Sequence[Pair]) -> str:
    """The page as text; nothing is loaded from elsewhere, and texts are escaped."""
    keys = ("id", "context", "aspect", "version", "rule", "before", "after")
    rows = [{key: getattr(pair, key) for key in keys} for pair in pairs]
    return filled("perturbations.html", version=__version__, count=len(rows), rows_json=safe_json(rows))


def print_pairs(pairs: Sequence[Pair], console: Console | None = None) -> None:
    """Each pair before and after: deletions are red and struck out, insertions green.

    Without colours, they are marked by `[-…-]` and `{+…+}`. Long unchanged passages are cut.
    """
    from rich.console import Console
    from rich.text import Text

    console = console or Console(highlight=False, markup=False, emoji=False)
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
    """A text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "\ufffd" for letter in text)


def pairs_summary(made: Made) -> str:
    """Counts of texts and pairs per aspect, why texts were left as they are, and signatures."""
    rows = [
        [one.aspect, f"{one.texts:,}", f"{one.perturbed:,}", f"{one.dropped:,}", f"{one.pairs:,}"]
        for one in made.tallies
    ]
    lines = [aligned(["aspect", "texts", "perturbed", "dropped", "pairs"], rows)]
    for one in made.tallies:
        for reason, count in sorted(one.reasons.items(), key=lambda entry: (-entry[1], entry[0])):
            lines.append(f"{one.aspect} does not apply to {count:,}: {reason}")
    return "\n".join([*lines, *(f"Signature: {one.signature}" for one in made.tallies)])


def suite_summary(suite: BuiltSuite) -> str:
    """Counts of every aspect of a suite."""
    head = ["aspect", "coherent", "made", "dropped", "share", "kept", "techniques (made/dropped)"]
    rows = []
    for test in ("discrimination", "invariance"):
        for aspect, row in suite.manifest[test].items():
            made, dropped = row["made"], row["dropped_by_grammar"]
            rules = ", ".join(f"{rule} {one['made']}/{one['dropped']}" for rule, one in row["rules"].items())
            share = f"{dropped / made:.0%}" if made else "-"
            rows.append(
                [aspect, str(row.get("coherent", "-")), str(made), str(dropped), share, str(row["kept"]), rules or "-"]
            )
    return f"{aligned(head, rows)}\nSignature: {suite.manifest['signature']}"
