"""Tables and their readers and writers; each name is loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlgauge.data.columns import Reading
    from nlgauge.data.reading import Source, read, read_items, read_sets
    from nlgauge.data.tables import Items, Ratings, ResponseSets, TokenScores
    from nlgauge.data.writing import write_table

_HOME = {
    "Reading": "columns",
    **dict.fromkeys(("Source", "read", "read_items", "read_sets"), "reading"),
    **dict.fromkeys(("Items", "Ratings", "ResponseSets", "TokenScores"), "tables"),
    "write_table": "writing",
}
__all__ = [
    "Items",
    "Ratings",
    "Reading",
    "ResponseSets",
    "Source",
    "TokenScores",
    "read",
    "read_items",
    "read_sets",
    "write_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nlgauge.data' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"nlgauge.data.{_HOME[name]}"), name)
