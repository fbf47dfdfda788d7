"""The contexts of a content test: those of files, each once, with all responses that the files have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nlgauge.data.columns import Reading, wide_columns
from nlgauge.data.reading import Source
from nlgauge.data.roles import find_column
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError
from nlgauge.models.language.tester import read_contexts
from nlgauge.studies.testers.base import Context, Response


def read_responded(files: Sequence[str], reading: Reading) -> list[Context]:
    """The contexts of several files by their text, in order of appearance; ids are those of the first."""
    found: dict[str, tuple[str, list[Response]]] = {}
    for file in files:
        for id, context, responses in _rows(file, reading):
            found.setdefault(context, (id, []))[1].extend(responses)
    if not found:
        raise DataError("found no contexts; expected at least one to respond to")
    contexts = [Context(id, text, tuple(responses)) for text, (id, responses) in found.items()]
    taken: dict[str, str] = {}
    for one in contexts:
        if taken.setdefault(one.id, one.text) != one.text:
            raise DataError(
                f"the id '{one.id[:60]}' belongs to two contexts ('{taken[one.id][:40]}' and '{one.text[:40]}'); "
                "expected an id of its own for each, since sets are named by it",
                column="id",
            )
    return contexts


def _rows(file: str, reading: Reading) -> Iterator[tuple[str, str, list[Response]]]:
    """Ids, contexts and responses of a file; plain text, and records without texts, are contexts alone."""
    table = Source(path=file, reading=reading, extras=()).read() if _has_responses(file, reading) else None
    if table is None or "context" not in table.frame.columns:
        yield from ((id, context, []) for id, context in read_contexts(file, reading))
        return
    frame = table.frame
    if frame["context"].null_count():
        raise DataError("a context is missing; expected one in every row", file=file, column="context")
    writers = frame["system"].fill_null("").to_list() if "system" in frame.columns else [""] * frame.height
    rows = zip(frame["id"].to_list(), frame["context"].to_list(), _texts(table), writers, strict=True)
    for id, context, mine, writer in rows:
        yield id, context, [Response(text, writer) for text in mine]


def _texts(table: ResponseSets | Items) -> list[list[str]]:
    """The responses of every row."""
    if isinstance(table, Items):
        return [[text] for text in table.texts.to_list()]
    found: list[list[str]] = table.to_polars()["responses"].to_list()
    return found


def _has_responses(file: str, reading: Reading) -> bool:
    """Whether the file has texts beside contexts."""
    source = Source(path=file, reading=reading, extras=())
    if source.format == "text":
        return False
    if reading.text or reading.responses:
        return True
    names = source.first_columns
    has_context = reading.context or find_column(names, "context")
    has_texts = find_column(names, "responses") or find_column(names, "text") or wide_columns(names, "resp", file)
    return bool(has_context and has_texts)
