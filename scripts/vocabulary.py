"""Writes docs/vocabulary.md: the options that commands and Python functions share, from their declarations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nlgauge.cli.commands import flag_of
from nlgauge.cli.output import Output
from nlgauge.configured import Option, options_of, show
from nlgauge.data.columns import Reading
from nlgauge.engine.running import Running
from nlgauge.models.runtime import Machine
from nlgauge.stats.inference import Comparing

PAGE = Path(__file__).parents[1] / "docs" / "vocabulary.md"
GROUPS = (Reading, Comparing, Machine, Running, Output)
_HEAD = """# Vocabulary

The same option has the same name and default in every command, in Python and in plans. Every command that reads has
all options under Reading, every one that computes those under Machine and Running, every one that prints those under
Output. `python -m scripts.vocabulary` writes this page, and a test checks it.
"""


def vocabulary_page(groups: Sequence[type]) -> str:
    """The page: one table per group."""
    lines = [_HEAD]
    for group in groups:
        lines += [f"## {group.__name__}", "", "| command line | Python | default | meaning |", "|---|---|---|---|"]
        lines += [_row(one) for one in options_of(group)]
        lines.append("")
    return "\n".join(lines)


def _row(one: Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in one.about.flags or (flag_of(one.name),))
    default = "" if one.default in (None, "", ()) else f"`{show(one.default)}`"
    return f"| {flags} | `{one.name}` | {default} | {one.about.help.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    PAGE.write_text(vocabulary_page(GROUPS), encoding="utf-8")
