"""Tables and their readers and writers."""

from nlgauge.data.columns import Columns
from nlgauge.data.reading import Source, read, read_items, read_sets
from nlgauge.data.tables import Items, Ratings, ResponseSets, TokenScores
from nlgauge.data.writing import write_table

__all__ = [
    "Columns",
    "Items",
    "Ratings",
    "ResponseSets",
    "Source",
    "TokenScores",
    "read",
    "read_items",
    "read_sets",
    "write_table",
]
